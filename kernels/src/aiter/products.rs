//! How AITER's kernels of products of MXFP4 by MXFP4 are called.
//!
//! Source: the metadata and the host's side of `gemm_a4w4_asm` in amd-aiter 0.1.7.post2.dev18, and what the kernels do. Strides are codes
//! or elements, and each value has 16 bytes of the arguments. A workgroup has a tile with all of K, 128 codes after 128, summed in f32 in
//! that order from the first on: neither the tile nor the other rows change a bit of a row. Two of the kernels can be told to cut K into
//! slices that they add by atomics, which nothing here asks them to.
//!
//! K is read in rounds of 256. Of A what is behind a row in a round is read, except behind the last, as far as the stride goes; of B, which
//! [`Preshuffled`](crate::quant::Preshuffled) has in its order, zeros are there. Rows of A behind the last are read as zeros, and those of D
//! are not written: the ranges of the descriptors end with them. Columns come in whole tiles.
//!
//! Exponents lie in tiles of 32 rows and 8 blocks of K, rows and blocks filled up, 256 bytes to a tile; the exponent of row `r` and block
//! `c` of a tile is at `((c % 4) * 16 + r % 16) * 4 + c / 4 * 2 + r / 16`.

use bytemuck::{Pod, Zeroable};

use super::slots::{Address, Word};

/// Threads of a workgroup.
pub const PRODUCT_BLOCK: u32 = 256;

/// Rows and columns of the result that a workgroup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductTile {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
}

impl ProductTile {
    /// As files are named: `128x256`.
    pub(crate) fn parse(name: &str) -> Option<ProductTile> {
        let (rows, columns) = name.split_once('x')?;
        Some(ProductTile { rows: rows.parse().ok()?, columns: columns.parse().ok()? })
    }

    /// Workgroups along columns and rows of a result.
    pub fn grid(self, [m, n]: [usize; 2]) -> [usize; 2] {
        [n.div_ceil(self.columns as usize), m.div_ceil(self.rows as usize)]
    }
}

/// A product `D = A · Bᵀ`, as the kernels are asked for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Product {
    /// Address of the result, bf16 `[M, N]`.
    pub d: u64,
    /// Codes of A, `[M, K / 2]`, two a byte, the first in the low half.
    pub a: u64,
    /// Codes of B, laid out.
    pub b: u64,
    /// Exponents of A and of B, in the order above.
    pub exponents: [u64; 2],
    /// From one row of the result to the next.
    pub d_row: u32,
    /// From one row of A to the next.
    pub a_row: u32,
    /// What a row of B has, filled up.
    pub b_row: u32,
    /// From one row of exponents to the next, if they lay in rows: blocks of K, filled up.
    pub exponent_row: [u32; 2],
    /// M, N, K.
    pub size: [u32; 3],
}

impl Product {
    /// The bytes that the kernel is given.
    pub fn args(&self) -> ProductArgs {
        let Product { d, a, b, exponents: [a_exponents, b_exponents], exponent_row: [a_blocks, b_blocks], .. } = *self;
        let [m, n, k] = self.size;
        ProductArgs {
            d: d.into(),
            c: 0.into(),
            a: a.into(),
            b: b.into(),
            alpha: 1f32.to_bits().into(),
            d_row: self.d_row.into(),
            a_row: self.a_row.into(),
            b_row: self.b_row.into(),
            m: m.into(),
            n: n.into(),
            k: k.into(),
            a_exponents: a_exponents.into(),
            b_exponents: b_exponents.into(),
            a_exponent_row: a_blocks.into(),
            b_exponent_row: b_blocks.into(),
            ..ProductArgs::zeroed()
        }
    }
}

/// The arguments of `f4gemm_bf16_per1x32Fp4_BpreShuffle_128x128` and its kin; [`Product::args`] makes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ProductArgs {
    d: Address,
    c: Address,
    a: Address,
    b: Address,
    alpha: Word,
    beta: Word,
    unused_d: [Word; 2],
    d_row: Word,
    unused_c: Word,
    a_row: Word,
    unused_a: Word,
    b_row: Word,
    unused_b: Word,
    m: Word,
    n: Word,
    k: Word,
    a_exponents: Address,
    b_exponents: Address,
    a_exponent_row: Word,
    unused_a_exponents: Word,
    b_exponent_row: Word,
    unused_b_exponents: Word,
    log2_slices: Word,
}
const _: () = assert!(size_of::<ProductArgs>() == 384);
const _: () = assert!(
    std::mem::offset_of!(ProductArgs, d_row) == 128
        && std::mem::offset_of!(ProductArgs, m) == 224
        && std::mem::offset_of!(ProductArgs, b_exponent_row) == 336
);
