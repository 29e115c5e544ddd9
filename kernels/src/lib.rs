//! The operator library: GEMM, attention, caches on pages, what MLA runs around them, convolution, pooling, interpolation, indexing, quantisation, random
//! numbers, sampling, routing, the Hadamard transform, causal convolutions and selective scans with states, scans, sorting, extrema
//! and CTC, as HIP kernels with their launchers; norms, gates, softmax and cross-entropy with their gradients, as launchers of
//! `rocfire-fusion`'s kernels.
//!
//! A family is a folder; an operator is two files with one stem. `<op>.hip` opens with its contract; `<op>.rs` has the
//! launcher, which checks shapes, types, devices and aliasing and then launches on views of any strides, and in its
//! tests an f64 oracle written the obvious slow way. Kernels are compiled on first use, per element type and tile
//! choice.
//!
//! Elementwise operators and copies are not here: those are fused chains of length one, made by `rocfire-fusion`, which
//! this crate uses for the copies that a layout sometimes needs. Nothing here knows Burn or Candle; the adapters call
//! the launchers, those that a framework has no name for as values of [`operators`]. Every result is the same bits on
//! every run: no launcher uses a float atomic.
//!
//! ```no_run
//! use rocfire_hal::{DType, Device, DeviceId, Tensor};
//! use rocfire_kernels::gemm::{GemmParams, gemm};
//!
//! # fn main() -> rocfire_kernels::Result<()> {
//! let device = Device::get(DeviceId::from_env()?)?;
//! let ones = vec![0x80, 0x3f].repeat(64 * 256); // bf16
//! let a = Tensor::from_bytes(&device, &[64, 256], DType::BF16, &ones)?;
//! let b = Tensor::from_bytes(&device, &[256, 64], DType::BF16, &ones)?;
//! let mut c = Tensor::empty(&device, &[64, 64], DType::F32)?;
//! gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?;
//! assert_eq!(c.to_bytes()?[..4], 256_f32.to_le_bytes());
//! # Ok(())
//! # }
//! ```

pub mod aiter;
mod attached;
pub mod attention;
pub mod cache;
pub mod causal_conv;
pub mod conv;
pub mod delta;
mod epilogue;
mod error;
pub mod experts;
mod family;
pub mod gate;
pub mod gemm;
mod graphs;
pub mod hadamard;
pub mod index;
pub mod interpolate;
pub mod loss;
pub mod mla;
pub mod norm;
pub mod operators;
pub mod pattern;
pub mod pool;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod registry;
pub mod rope;
pub mod sample;
pub mod scan;
pub mod selective_scan;
mod sequences;
pub mod softmax;
pub mod sort;
#[cfg(test)]
mod testing;
pub mod tuning;

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

pub use error::{Error, Result};

/// The sources of every family with one element type, by operator.
fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    gemm::sources(arch, dtype)
        .chain(scan::sources(dtype))
        .chain(sort::sources(dtype))
        .chain(conv::sources(arch, dtype))
        .chain(loss::sources(dtype))
        .chain(pool::sources(dtype))
        .chain(interpolate::sources(dtype))
        .chain(reduce::sources(dtype))
        .chain(attention::sources(arch, dtype))
        .chain(cache::sources(dtype))
        .chain(quant::sources(arch, dtype))
        .chain(norm::sources(dtype))
        .chain(rope::sources(dtype))
        .chain(index::sources(dtype))
        .chain(random::sources(dtype))
        .chain(sample::sources(dtype))
        .chain(experts::sources(arch, dtype))
        .chain(hadamard::sources(dtype))
        .chain(causal_conv::sources(dtype))
        .chain(selective_scan::sources(dtype))
        .chain(delta::sources(arch, dtype))
        .chain(mla::sources(dtype))
}
