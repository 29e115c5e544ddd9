//! Burn on AMD GPUs.
//!
//! [`Rocm`] implements `burn_backend::Backend` over rocfire's tensors, fused chains and kernels; [`RocmDevice`] names a
//! GPU or the emulation of one. Models written with `burn::tensor` reach it through the place that Burn 0.22 keeps for
//! LibTorch, which the package `burn-tch` of this repository fills with [`Fused`], which records what it is asked:
//!
//! ```toml
//! burn = { version = "=0.22.1", features = ["tch", "autodiff"] }
//! rocfire-burn = { git = "…/rocfire" }
//! [patch.crates-io]
//! burn-tch = { git = "…/rocfire" }
//! ```
//!
//! Then `let device: Device = RocmDevice::default().into();` is the best device there is. A patch that is missing, unused,
//! or of another source than this crate stops the build with a message that says what to write ([`check_project`] tells the
//! same of any project). Without the slot, [`Rocm`] can be named wherever a `Backend` is asked for.
//!
//! What is wrong at a call is a panic with the message, which [`Fused`] turns into an error of the outputs; what fails on
//! the device later is an `ExecutionError` from the read or the sync that waits for it. Running out of memory is the
//! former, and leaves the device usable.
//!
//! [`attention`] is what Burn has no operator for: attention with a window, dropout, shared heads, and its gradients without the
//! scores in memory. [`custom`] is for kernels of your own. [`explain`] says what was fused, what was not, and why.
//!
//! # Numbers
//! Bools are bytes. `Flex32` is f32. Integer division by zero gives 0. An index outside its axis reads 0 and
//! writes nothing, and the next read or sync is an error that names operator, index and extent (`ROCFIRE_CHECK_INDEX=0`: it is not).
//! Random numbers are functions of the seed, the number of calls since, and the element's index.
//!
//! # Composed inefficiently for now
//! - Through the host, waiting for the device: moves between devices of different drivers.
//! - Several launches: deformable convolution, `grid_sample`, CTC's gradient, quantised arithmetic other than products (to
//!   floats and back).
//! - Attention with head sizes that are no multiple of 8 or above 256 keeps its scores in memory.

pub mod attention;
mod backend;
mod convert;
pub mod custom;
mod device;
mod error;
mod fusion;
mod ops;
mod patch;
mod recorder;
mod tensor;
mod version;

pub use backend::Rocm;
pub use device::RocmDevice;
pub use error::Error;
pub use fusion::{KernelReport, PlanReport, explain, plans};
pub use patch::{PatchError, Slot, check_project};
pub use recorder::{Fused, Recorded, recorded};
pub use tensor::{RocmQTensor, RocmTensor};
pub use version::BurnDevice;
