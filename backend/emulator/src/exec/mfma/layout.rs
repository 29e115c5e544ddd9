//! Where the elements of A, B and D lie (AMD's matrix instruction calculator, dense instructions).
//!
//! All shapes are square in M and N. A lane holds `PER_LANE` consecutive `k` of one row of A (or column of B), in bit order:
//! element `(i, k)` of block `b` is element `k % PER_LANE` of lane `k / PER_LANE · M · BLOCKS + M · b + i`.
//! D is in groups of four rows, see [`Row`].

/// Where a row of D begins: `M` columns from lane `lane` on in register `register` of the accumulator (of pairs for f64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) register: usize,
    pub(crate) lane: usize,
}

/// Row `i` of block `block` of a 32-bit D with `m` rows.
#[inline(always)]
pub(crate) fn row_32(m: usize, block: usize, i: usize) -> Row {
    match m {
        32 => Row { register: 16 * block + i / 8 * 4 + i % 4, lane: i / 4 % 2 * 32 },
        16 => Row { register: 4 * block + i % 4, lane: i / 4 * 16 },
        _ => Row { register: i, lane: 4 * block },
    }
}

/// Row `i` of block `block` of a 64-bit D with `m` rows; the register is a pair.
#[inline(always)]
pub(crate) fn row_64(m: usize, block: usize, i: usize) -> Row {
    Row { register: i / 4, lane: i % 4 * 16 + if m == 16 { 0 } else { 4 * block } }
}

/// The block of A that block `block` of D uses: `cbsz` joins 2^cbsz blocks into a group, which all use its block `abid`.
#[inline(always)]
pub(crate) fn block_of_a(block: usize, cbsz: u8, abid: u8) -> usize {
    if cbsz == 0 {
        return block;
    }
    let group = 1usize << (cbsz & 7);
    block / group * group + abid as usize % group
}

/// The lane of B that `lane` stands for under the lane group pattern `blgp`: 1 and 2 broadcast a half, 3 rotates by 16
/// lanes, 4 to 7 broadcast a quarter.
#[inline(always)]
pub(crate) fn lane_of_b(lane: usize, blgp: u8) -> usize {
    match blgp & 7 {
        0 => lane,
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        quarter => lane % 16 + (quarter as usize - 4) * 16,
    }
}
