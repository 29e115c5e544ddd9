//! How AITER's kernels of decoding over a cache on pages are called.
//!
//! Source: the metadata and the host's side of `pa_fwd` in amd-aiter 0.1.7.post2.dev18, and what the kernels' first instructions do.
//! Strides are bytes but for the table's, and each value has 16 bytes of the arguments. A workgroup has a sequence and a head of keys
//! with all queries that share it, and all of its keys one after the other: what else is in the batch changes no bit.
//!
//! A page's place is its number times the stride, factors of 24 bits, below 2³¹; heads and sequences are added in 32 bits. Entries of
//! the table are read up to the sequence's last page, and page 0 in place of what would follow, to the end of 256 keys: what is read
//! there, and behind the last key, is multiplied by zero. A page number is followed wherever it leads. A sequence of no keys gives NaN.

use bytemuck::{Pod, Zeroable};

use super::slots::{Address, Word};

/// Threads of a workgroup.
pub const PAGED_BLOCK: u32 = 256;

/// A decoding, as the kernels are asked for it: one query of each sequence, or as many as a kernel is made for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagedDecode {
    /// Addresses of the result, queries, keys, values.
    pub out: u64,
    /// Queries, a sequence's heads one after the other.
    pub q: u64,
    /// Keys, `[pages, kv heads, channels / x, tokens, x]`, x being what 16 bytes have.
    pub k: u64,
    /// Values, `[pages, kv heads, tokens / x, channels, x]`, pages and heads as far apart as those of keys.
    pub v: u64,
    /// Page numbers, a row for each sequence.
    pub table: u64,
    /// Keys of each sequence.
    pub lens: u64,
    /// Scales of keys and of values, f32, `[pages, kv heads, tokens]`; 0 without codes.
    pub scales: [u64; 2],
    /// Where each sequence's queries begin; 0 where each has one.
    pub q_starts: u64,
    /// Factor of the scores.
    pub scale: f32,
    /// From one row of the table to the next, entries.
    pub table_row: u32,
    /// Heads of keys.
    pub kv_heads: u32,
    /// Heads of queries for each.
    pub group: u32,
    /// From one token's queries to the next one's.
    pub q_row: u32,
    /// From one page to the next.
    pub page: u32,
    /// From one head of a page to the next.
    pub head: u32,
}

impl PagedDecode {
    /// The bytes that the kernel is given.
    pub fn args(&self) -> PagedDecodeArgs {
        let PagedDecode { out, q, k, v, table, lens, scales: [k_scales, v_scales], .. } = *self;
        PagedDecodeArgs {
            out: out.into(),
            q: q.into(),
            k: k.into(),
            v: v.into(),
            table: table.into(),
            lens: lens.into(),
            k_scales: k_scales.into(),
            v_scales: v_scales.into(),
            scale_log2e: (self.scale * std::f32::consts::LOG2_E).to_bits().into(),
            table_row: self.table_row.into(),
            kv_heads: self.kv_heads.into(),
            q_row: self.q_row.into(),
            page: self.page.into(),
            head: self.head.into(),
            group: self.group.into(),
            q_starts: self.q_starts.into(),
        }
    }
}

/// The arguments of `pa_bf16_noquant_gqa8_1tg_4w` and its kin, some of which take fewer; [`PagedDecode::args`] makes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PagedDecodeArgs {
    out: Address,
    q: Address,
    k: Address,
    v: Address,
    table: Address,
    lens: Address,
    k_scales: Address,
    v_scales: Address,
    scale_log2e: Word,
    table_row: Word,
    kv_heads: Word,
    q_row: Word,
    page: Word,
    head: Word,
    group: Word,
    q_starts: Address,
}
const _: () = assert!(size_of::<PagedDecodeArgs>() == 256);
const _: () = assert!(
    std::mem::offset_of!(PagedDecodeArgs, scale_log2e) == 128 && std::mem::offset_of!(PagedDecodeArgs, q_starts) == 240
);
