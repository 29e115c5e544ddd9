//! How AITER's kernels of decoding over latents, the caches of MLA, are called.
//!
//! Source: the metadata and the host's side of `mla_decode_stage1_asm_fwd` in amd-aiter 0.1.7.post2.dev18, and what the kernels' first
//! instructions do. Strides are bytes, and each value has 16 bytes of the arguments. A sequence's keys are dealt out to its splits by
//! turns of [`LatentForm::turn`] keys; a workgroup has a split with all heads. What it leaves are the split's results, each divided by its
//! own sum, and the logarithm of that sum; a split that no keys fall to leaves nothing. To add them up is its caller's.
//!
//! A page is a token, whatever the arguments say of pages: the list has a row's number for each key, which is multiplied by the stride,
//! factors of 24 bits, and added to in 32. Of the list a sequence's own entries are read, and 0 in place of what would follow, to the end
//! of a turn: what is on row 0 is multiplied by zero. A number is followed wherever it leads.

use bytemuck::{Pod, Zeroable};

use super::slots::{Address, Word};

/// Threads of a workgroup.
pub const LATENT_BLOCK: u32 = 256;

/// Which heads a kernel has, and with them how it goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatentForm {
    /// 16 heads: tokens' queries any distance apart.
    Few,
    /// 128 heads: tokens' queries without gaps, those of each sequence told by where they begin. With one split its result is bf16, and
    /// there is no logarithm.
    Many,
}

impl LatentForm {
    /// Heads of queries.
    pub fn heads(self) -> usize {
        match self {
            LatentForm::Few => 16,
            LatentForm::Many => 128,
        }
    }

    /// Keys that a split has in turn.
    pub fn turn(self) -> usize {
        match self {
            LatentForm::Few => 64,
            LatentForm::Many => 16,
        }
    }

    /// The least splits with which it leaves parts.
    pub fn splits_least(self) -> usize {
        match self {
            LatentForm::Few => 1,
            LatentForm::Many => 2,
        }
    }

    /// Bytes of the arguments that the kernel says it takes.
    pub fn args_bytes(self) -> usize {
        match self {
            LatentForm::Few => std::mem::offset_of!(LatentDecodeArgs, q_starts),
            LatentForm::Many => std::mem::offset_of!(LatentDecodeArgs, split_starts),
        }
    }
}

/// A decoding, as the kernels are asked for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatentDecode {
    /// Addresses of the splits' results, f32, `[tokens, splits, heads, 512]`.
    pub parts: u64,
    /// The natural logarithms of their sums, f32, `[tokens, splits, heads]`.
    pub lse: u64,
    /// Queries, `[tokens, heads, 576]`, a token's heads one after the other.
    pub q: u64,
    /// Rows of keys, of which the first 512 channels are values.
    pub rows: u64,
    /// Where each sequence's entries of the list begin, and the end: i32.
    pub starts: u64,
    /// The rows' numbers.
    pub list: u64,
    /// Keys on each sequence's last page: looked at where pages are more than a token.
    pub last: u64,
    /// Where each sequence's queries begin, and the end.
    pub q_starts: u64,
    /// Where each sequence's splits begin, and the end; [`LatentForm`]'s kernels have as many for each.
    pub split_starts: u64,
    /// The whole result, bf16, of kernels that write it.
    pub whole: u64,
    /// One scale of queries and one of keys, f32; 0 without codes.
    pub scales: [u64; 2],
    /// Factor of the scores.
    pub scale: f32,
    /// Heads, times the queries of a sequence.
    pub heads: u32,
    /// Splits of a sequence.
    pub splits: u32,
    /// From one sequence's queries to the next one's.
    pub q_row: u32,
    /// From one row of keys to the next.
    pub row: u32,
    /// Binary logarithm of a page's tokens.
    pub page_shift: u32,
}

impl LatentDecode {
    /// The bytes that the kernels are given, or the first of them.
    pub fn args(&self) -> LatentDecodeArgs {
        let [q_scale, kv_scale] = self.scales;
        LatentDecodeArgs {
            parts: self.parts.into(),
            lse: self.lse.into(),
            q: self.q.into(),
            rows: self.rows.into(),
            starts: self.starts.into(),
            list: self.list.into(),
            last: self.last.into(),
            scale: self.scale.to_bits().into(),
            heads: self.heads.into(),
            splits: self.splits.into(),
            q_row: self.q_row.into(),
            row: self.row.into(),
            page_shift: self.page_shift.into(),
            q_starts: self.q_starts.into(),
            split_starts: self.split_starts.into(),
            whole: self.whole.into(),
            q_scale: q_scale.into(),
            kv_scale: kv_scale.into(),
            splits_of_whole: self.splits.into(),
        }
    }
}

/// The arguments of AITER's `mla` kernels, most of which take fewer; [`LatentDecode::args`] makes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LatentDecodeArgs {
    parts: Address,
    lse: Address,
    q: Address,
    rows: Address,
    starts: Address,
    list: Address,
    last: Address,
    scale: Word,
    heads: Word,
    splits: Word,
    q_row: Word,
    row: Word,
    page_shift: Word,
    q_starts: Address,
    split_starts: Address,
    whole: Address,
    q_scale: Address,
    kv_scale: Address,
    splits_of_whole: Word,
}
const _: () = assert!(size_of::<LatentDecodeArgs>() == 304);
const _: () = assert!(
    std::mem::offset_of!(LatentDecodeArgs, scale) == 112 && std::mem::offset_of!(LatentDecodeArgs, q_starts) == 208
);
