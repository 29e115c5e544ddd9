//! How AITER's kernels of attention's gradients are called: those that take any rows and add up the gradients of queries in f32.
//!
//! Source: the metadata and the host's side of `fmha_v3_bwd` in amd-aiter 0.1.7.post2.dev18, and what the kernels' first instructions
//! do. All strides are bytes. A head's first row is 32 bits of bytes behind a tensor's first; a kernel's ragged edges rest on the range
//! check of its descriptors, which count words: `rows · row stride` bytes from the head's first row on, or, of what gfx950 reads by rows
//! of queries and where all heads lie in a row, from the first head's on. gfx942's for all keys and gfx950's write gradients of keys and
//! values behind the tensor's first row: there the last row's end is 32 bits of bytes behind it.
//!
//! What they are given besides, of the forward and its result: logarithms of sums, and the sums over a head of gradient times result,
//! both f32, rows behind rows, heads behind heads, batches behind batches. What they leave: the gradients of queries in f32, added by
//! atomics to what is there, laid out in the same way; those of keys and values by head of the queries.

use bytemuck::{Pod, Zeroable};

use super::forward::Lines;
use super::slots::{Address, Short, Word};

/// Threads of a workgroup.
pub const BACKWARD_BLOCK: u32 = 256;

/// Which arguments kernels take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardForm {
    /// gfx942's, of 272 bytes: each value has 8.
    Short,
    /// gfx950's, of 704 bytes: each value has 16.
    Long,
}

impl BackwardForm {
    /// Bytes of the arguments.
    pub fn args_bytes(self) -> usize {
        match self {
            BackwardForm::Short => size_of::<ShortArgs>(),
            BackwardForm::Long => size_of::<LongArgs>(),
        }
    }

    /// Keys of a workgroup, for heads of 128.
    pub fn tile(self) -> u32 {
        match self {
            BackwardForm::Short => 192,
            BackwardForm::Long => 256,
        }
    }
}

/// Gradients, as the kernels are asked for them.
#[derive(Clone, Copy, Debug)]
pub struct Backward {
    /// Which arguments the kernel takes.
    pub form: BackwardForm,
    /// Keys of a workgroup.
    pub tile: u32,
    /// Addresses: of sums of the queries' gradients, f32, zeros before.
    pub dq: u64,
    /// Gradients of keys, by head of the queries.
    pub dk: u64,
    /// Those of values, likewise.
    pub dv: u64,
    /// Queries.
    pub q: u64,
    /// Keys.
    pub k: u64,
    /// Values.
    pub v: u64,
    /// The result's gradient.
    pub dout: u64,
    /// Logarithms of sums, f32, natural.
    pub lse: u64,
    /// Sums over a head of gradient times result, f32.
    pub delta: u64,
    /// Where sequences begin that lie one after the other, of queries and of keys; 0 where each is a batch. gfx942's take none.
    pub starts: [u64; 2],
    /// Where the rows of queries lie.
    pub q_lines: Lines,
    /// Those of keys.
    pub k_lines: Lines,
    /// Those of values.
    pub v_lines: Lines,
    /// Those of the result's gradient.
    pub dout_lines: Lines,
    /// Those of the gradients of keys.
    pub dk_lines: Lines,
    /// Those of the gradients of values.
    pub dv_lines: Lines,
    /// From one head's logarithms to the next one's, bytes, of sequences that lie one after the other; the same holds of sums.
    pub lse_head: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Of them so many share keys.
    pub group: u32,
    /// Rows of queries and of keys of a batch, of the longest where they differ.
    pub rows: [u32; 2],
    /// Rows of queries that the sums of their gradients have room for.
    pub rows_of_sums: u32,
    /// Elements of a query's head and of a value's.
    pub depths: [u32; 2],
    /// Factor of the scores.
    pub scale: f32,
    /// Whether the last query sees all keys, and each before it one less; or each as many as there are queries up to it.
    pub causal: bool,
}

impl Backward {
    /// Workgroups of a head: with a causal mask one has a tile of keys from the front and one from the back.
    pub fn tiles(&self) -> u32 {
        self.rows[1].div_ceil(self.tile).div_ceil(if self.causal { 2 } else { 1 })
    }

    /// The bytes that the kernel is given.
    pub fn args(&self) -> BackwardArgs {
        match self.form {
            BackwardForm::Short => BackwardArgs::Short(self.short()),
            BackwardForm::Long => BackwardArgs::Long(self.long()),
        }
    }

    fn short(&self) -> ShortArgs {
        let of = |lines: Lines| [lines.head.into(), lines.batch.into(), lines.row.into()];
        ShortArgs {
            dq: self.dq,
            dk: self.dk,
            dv: self.dv,
            q: self.q,
            k: self.k,
            v: self.v,
            dout: self.dout,
            lse: self.lse,
            delta: self.delta,
            scale: self.scale.to_bits().into(),
            log2_e: std::f32::consts::LOG2_E.to_bits().into(),
            group: self.group.into(),
            q_rows: self.rows[0].into(),
            k_rows: self.rows[1].into(),
            depth: self.depths[0].into(),
            heads: self.heads.into(),
            q_lines: of(self.q_lines),
            k_lines: of(self.k_lines),
            v_lines: of(self.v_lines),
            dout_lines: of(self.dout_lines),
            dk_lines: of(self.dk_lines),
            dv_lines: of(self.dv_lines),
        }
    }

    fn long(&self) -> LongArgs {
        let of = |lines: Lines| [lines.head.into(), lines.batch.into(), lines.row.into()];
        let [q_starts, k_starts] = self.starts;
        LongArgs {
            dq: self.dq.into(),
            dk: self.dk.into(),
            dv: self.dv.into(),
            q: self.q.into(),
            k: self.k.into(),
            v: self.v.into(),
            dout: self.dout.into(),
            lse: self.lse.into(),
            delta: self.delta.into(),
            scale: self.scale.to_bits().into(),
            log2_e: std::f32::consts::LOG2_E.to_bits().into(),
            q_rows: self.rows[0].into(),
            k_tile: self.tile.wrapping_mul(self.k_lines.row).into(),
            q_lines: of(self.q_lines),
            group: self.group.into(),
            k_lines: of(self.k_lines),
            dk_row: self.dk_lines.row.into(),
            k_rows: self.rows[1].into(),
            depth: self.depths[0].into(),
            value_depth: self.depths[1].into(),
            heads: self.heads.into(),
            v_lines: of(self.v_lines),
            dout_lines: of(self.dout_lines),
            dk_head: self.dk_lines.head.into(),
            dk_batch: self.dk_lines.batch.into(),
            dv_lines: of(self.dv_lines),
            lse_head: self.lse_head.into(),
            q_starts: q_starts.into(),
            k_starts: k_starts.into(),
            q_starts_padded: q_starts.into(),
            k_starts_padded: k_starts.into(),
            rows_of_sums: self.rows_of_sums.into(),
            window: [0.into(); 2],
        }
    }
}

/// The arguments; [`Backward::args`] makes them.
#[allow(clippy::large_enum_variant)] // One is made for a launch, on the stack.
#[derive(Clone, Copy, Debug)]
pub enum BackwardArgs {
    /// Those of [`BackwardForm::Short`].
    Short(ShortArgs),
    /// Those of [`BackwardForm::Long`].
    Long(LongArgs),
}

impl BackwardArgs {
    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            BackwardArgs::Short(args) => bytemuck::bytes_of(args),
            BackwardArgs::Long(args) => bytemuck::bytes_of(args),
        }
    }
}

/// The arguments of `fmha_bwd_hd128_bf16_a32_rtne_psskddv` and its kin. Lines are told by head, batch, row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ShortArgs {
    dq: u64,
    dk: u64,
    dv: u64,
    q: u64,
    k: u64,
    v: u64,
    dout: u64,
    lse: u64,
    delta: u64,
    scale: Short,
    log2_e: Short,
    group: Short,
    q_rows: Short,
    k_rows: Short,
    depth: Short,
    heads: Short,
    q_lines: [Short; 3],
    k_lines: [Short; 3],
    v_lines: [Short; 3],
    dout_lines: [Short; 3],
    dk_lines: [Short; 3],
    dv_lines: [Short; 3],
}
const _: () = assert!(size_of::<ShortArgs>() == 272);
const _: () =
    assert!(std::mem::offset_of!(ShortArgs, scale) == 72 && std::mem::offset_of!(ShortArgs, dout_lines) == 200);

/// The arguments of gfx950's `fmha_bwd_hd128_bf16_a32_psskddv` and its kin. Lines are told by head, batch, row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LongArgs {
    dq: Address,
    dk: Address,
    dv: Address,
    q: Address,
    k: Address,
    v: Address,
    dout: Address,
    lse: Address,
    delta: Address,
    scale: Word,
    log2_e: Word,
    q_rows: Word,
    k_tile: Word,
    q_lines: [Word; 3],
    group: Word,
    k_lines: [Word; 3],
    dk_row: Word,
    k_rows: Word,
    depth: Word,
    value_depth: Word,
    heads: Word,
    v_lines: [Word; 3],
    dout_lines: [Word; 3],
    dk_head: Word,
    dk_batch: Word,
    dv_lines: [Word; 3],
    lse_head: Word,
    q_starts: Address,
    k_starts: Address,
    q_starts_padded: Address,
    k_starts_padded: Address,
    rows_of_sums: Word,
    window: [Word; 2],
}
const _: () = assert!(size_of::<LongArgs>() == 704);
const _: () = assert!(std::mem::offset_of!(LongArgs, group) == 256 && std::mem::offset_of!(LongArgs, dk_head) == 496);
const _: () = assert!(std::mem::offset_of!(LongArgs, rows_of_sums) == 656);
