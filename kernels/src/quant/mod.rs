//! Quantisation: floats to codes of 8, 4 and 2 bits and back, with their scales, and products by codes.
//!
//! [`quantise`] and [`dequantise`] work for given scales, over tensors of any strides whose codes are bytes or packed into
//! words, with one scale, one per block of any shape, or two levels. [`block_peaks`] and [`store_scales`] make scales from
//! data without a read-back. [`q_matmul`] multiplies by weights that stay packed, [`q_matmul_grouped`] groups of rows by a matrix each,
//! [`gguf_matmul`] and [`gguf_matmul_grouped`] the same of matrices in blocks of GGUF, [`gguf_matmul_listed`] rows of a list by such matrices,
//! whose weights [`gguf_dequantise`] writes out,
//! [`q_matmul_scaled`] codes by codes with scales by row, by block or microscaled on both sides, on the matrix unit where it has
//! them or by the vendor's library; [`q_matmul_preshuffled`] the same by a weight that was laid out once for it, [`Preshuffled`];
//! [`q_matmul_scaled_to`] either with a bias, an activation and codes of the result behind it, [`ScaledEnd`];
//! [`q_matmul_scaled_grouped`] groups of rows of codes by a matrix of codes each, [`CodedStack`], [`q_matmul_preshuffled_grouped`] by
//! matrices laid out, [`PreshuffledStack`].
//! [`quantise_activations`] makes codes and scales of activations in one launch, [`norm_quantise`] and [`gate_quantise`] those of
//! what a norm or a gate gives, which is not written. Callers are the adapters, and programs of
//! their own.

mod activations;
mod dequantise;
mod few;
mod few_along;
mod few_hopper;
mod format;
mod gguf;
mod gguf_dequantise;
mod gguf_matrix;
mod gguf_staged;
mod preshuffle;
mod q_matmul;
mod quantise;
mod row_codes;
mod scaled;
mod scales;
mod sources;
mod walk;

pub use activations::{Granularity, MxRounding, RowCodes, quantise_activations};
pub use dequantise::dequantise;
pub use format::{CodeLayout, Format, Packed, Rounding, ScaleKind, Scales};
pub use gguf::{Gguf, GgufMatrices};
pub use gguf_dequantise::gguf_dequantise;
pub use preshuffle::{Preshuffled, PreshuffledMatrices, PreshuffledRows, PreshuffledStack};
pub use q_matmul::{
    CodedMatrix, ListedRows, gguf_matmul, gguf_matmul_grouped, gguf_matmul_grouped_fused, gguf_matmul_listed, q_matmul,
    q_matmul_grouped, q_matmul_grouped_fused,
};
pub use quantise::{Coding, quantise};
pub use row_codes::{gate_quantise, norm_quantise};
pub use scaled::{
    CodeProduct, CodedRows, CodedStack, CodedWeight, EndActivation, EndCodes, ScaledEnd, code_product,
    explain_preshuffled, explain_scaled, halve_to_fnuz, q_matmul_preshuffled, q_matmul_preshuffled_grouped,
    q_matmul_scaled, q_matmul_scaled_grouped, q_matmul_scaled_to,
};
pub(crate) use scaled::{CodedOperands, SCALED_TEXTS, scaling};
pub use scales::{PeakRule, block_peaks, store_scales};
pub(crate) use sources::sources;

#[cfg(test)]
mod tests;
