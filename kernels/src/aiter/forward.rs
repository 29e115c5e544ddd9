//! How AITER's kernels of attention's forward are called.
//!
//! Source: the metadata and the host's side of `fmha_v3_fwd` in amd-aiter 0.1.7.post2.dev18, and what the kernels' first instructions
//! do. All strides are bytes, and each value has 16 bytes of the arguments. A kernel's ragged edges rest on the range check of its
//! descriptors: `rows · row stride` bytes from the head's first row on, in 32 bits, as is `batch · stride + head · stride`.

use bytemuck::{Pod, Zeroable};

use super::slots::{Address, Word};

/// Threads of a workgroup, for heads of 128.
pub const FORWARD_BLOCK: u32 = 512;
/// Rows of queries from which on, of a causal mask, workgroups are dealt out in the simpler order; heads that it is dealt out by.
const LONG: u32 = 16384;
const HEADS_DEALT: u32 = 8;

/// Where the rows of a tensor lie, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// From one batch to the next.
    pub batch: u32,
    /// From one head to the next.
    pub head: u32,
    /// From one row to the next.
    pub row: u32,
}

/// A forward, as the kernels are asked for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forward {
    /// Addresses of the result, queries, keys, values.
    pub out: u64,
    /// Queries.
    pub q: u64,
    /// Keys.
    pub k: u64,
    /// Values.
    pub v: u64,
    /// Where the logarithms of sums go, f32, natural; 0 for nowhere.
    pub lse: u64,
    /// Where sequences begin that lie one after the other, of queries and of keys; 0 where each is a batch.
    pub starts: [u64; 2],
    /// Where the rows of each lie.
    pub out_lines: Lines,
    /// Those of queries.
    pub q_lines: Lines,
    /// Those of keys.
    pub k_lines: Lines,
    /// Those of values.
    pub v_lines: Lines,
    /// From one head's logarithms to the next one's, bytes; those of a batch are as far apart as all its heads are long.
    pub lse_head: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Of them so many share keys.
    pub group: u32,
    /// Rows of queries and of keys of a batch, of the longest where they differ.
    pub rows: [u32; 2],
    /// Elements of a query's head and of a value's.
    pub depths: [u32; 2],
    /// Factor of the scores.
    pub scale: f32,
    /// Whether the last query sees all keys, and each before it one less.
    pub causal: bool,
}

impl Forward {
    /// Rows of queries that a workgroup has.
    pub fn tile_rows(&self) -> u32 {
        if self.depths[0] > 128 { 128 } else { 256 }
    }

    /// Workgroups of a head: with a causal mask one has a tile from the front and one from the back.
    pub fn tiles(&self) -> u32 {
        self.rows[0].div_ceil(self.tile_rows()).div_ceil(if self.causal { 2 } else { 1 })
    }

    /// In which order workgroups take tiles; 5 deals out tiles of a causal mask by eight heads.
    fn order(&self) -> u32 {
        let simple = self.causal && (!self.heads.is_multiple_of(HEADS_DEALT) || self.rows[0] > LONG);
        if simple { 3 } else { 5 }
    }

    /// The bytes that the kernel is given.
    pub fn args(&self) -> ForwardArgs {
        let Forward { out, q, k, v, lse, starts: [q_starts, k_starts], rows: [q_rows, k_rows], .. } = *self;
        ForwardArgs {
            out: out.into(),
            q: q.into(),
            k: k.into(),
            v: v.into(),
            lse: lse.into(),
            scale: self.scale.to_bits().into(),
            q_rows: q_rows.into(),
            q_row: self.q_lines.row.into(),
            q_tile: self.tile_rows().wrapping_mul(self.q_lines.row).into(),
            q_head: self.q_lines.head.into(),
            q_batch: self.q_lines.batch.into(),
            group: self.group.into(),
            k_row: self.k_lines.row.into(),
            k_head: self.k_lines.head.into(),
            k_batch: self.k_lines.batch.into(),
            order: self.order().into(),
            wants_lse: u32::from(lse != 0).into(),
            k_rows: k_rows.into(),
            depth: self.depths[0].into(),
            value_depth: self.depths[1].into(),
            heads: self.heads.into(),
            v_row: self.v_lines.row.into(),
            v_head: self.v_lines.head.into(),
            v_batch: self.v_lines.batch.into(),
            out_row: self.out_lines.row.into(),
            out_head: self.out_lines.head.into(),
            out_batch: self.out_lines.batch.into(),
            q_starts: q_starts.into(),
            k_starts: k_starts.into(),
            lse_head: self.lse_head.into(),
            q_starts_padded: q_starts.into(),
            k_starts_padded: k_starts.into(),
        }
    }
}

/// The arguments of `fmha_fwd_hd128_bf16` and its kin; [`Forward::args`] makes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ForwardArgs {
    out: Address,
    q: Address,
    k: Address,
    v: Address,
    lse: Address,
    scale: Word,
    q_rows: Word,
    q_row: Word,
    q_tile: Word,
    q_head: Word,
    q_batch: Word,
    group: Word,
    k_row: Word,
    k_head: Word,
    k_batch: Word,
    order: Word,
    wants_lse: Word,
    k_rows: Word,
    depth: Word,
    value_depth: Word,
    heads: Word,
    v_row: Word,
    v_head: Word,
    v_batch: Word,
    out_row: Word,
    out_head: Word,
    out_batch: Word,
    q_starts: Address,
    k_starts: Address,
    lse_head: Word,
    q_starts_padded: Address,
    k_starts_padded: Address,
}
const _: () = assert!(size_of::<ForwardArgs>() == 512);
const _: () =
    assert!(std::mem::offset_of!(ForwardArgs, wants_lse) == 256 && std::mem::offset_of!(ForwardArgs, lse_head) == 464);
