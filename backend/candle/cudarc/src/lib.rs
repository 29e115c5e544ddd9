//! The part of cudarc that Candle calls, over rocfire's devices.
//!
//! Candle reaches its GPU through two crates: `cudarc`, which calls CUDA, and `candle-kernels`, which has the kernels. A patch
//! puts this package in place of the first, and `backend/candle/kernels` in place of the second. `Device::new_cuda(0)` is
//! then the device that `ROCFIRE_DEVICE` names, else the best there is (an AMD GPU by HIP, an NVIDIA one by CUDA, else the
//! emulated one), through `rocfire-hal` and its operators.
//!
//! Names and signatures are cudarc 0.19's, as far as candle-core, candle-nn and candle-transformers 0.11.1 use them. Code that
//! uses another name does not compile, which is better than failing when it runs. What differs from cudarc:
//!
//! - A device has one stream, and every `CudaStream` of every `CudaContext` over it is a handle of that. Work is done in the order
//!   in which it is asked for, whatever thread asks, so events have nothing to do and are not here.
//! - Launches of kernels by name and of products wait on the host, so that several can become one ([`rocfire::Merger`]). Nobody
//!   sees that they wait: memory and stream are lent by [`rocfire::Settled`] only.
//! - A module is HIP text, or kernels by name ([`rocfire::KernelLibrary`]); PTX is refused with a message.
//! - Uploads of `usize`, which Candle uses for extents and strides only, stay on the host and travel in the arguments of the
//!   launch ([`rocfire::Argument::Info`]).
//! - An error carries rocfire's text instead of a number; none ends the process.

#[cfg(feature = "cudnn")]
compile_error!(
    "rocfire has nothing behind candle-core's feature `cudnn`: take it out of the features of candle-core, candle-nn and \
     candle-transformers. Convolutions run on rocfire's own kernels with feature `cuda` alone"
);

pub mod cublas;
pub mod curand;
pub mod driver;
pub mod nccl;
pub mod nvrtc;
pub mod rocfire;
