//! Kernels from Burn's stream: what `Fusion<Rocm>` runs in one launch where `Rocm` runs operator by operator.
//!
//! `Fusion` records operations in relative form (numbers for tensors, extents and scalars), searches the stream for blocks
//! that a fuser takes, and keeps what it found for every later stream of the same form. Here is what it asks:
//!
//! - `fuser`: three fusers, one of elementwise operations, one that also takes reductions over one set of axes, one of a
//!   matrix product and the elementwise operations behind it. They collect a `trace` and remember the last point where it was made of kernels: one for each part that shares no tensor
//!   with the others, so that independent work in one block neither stops nor multiplies them.
//! - `translate`, `rows`, `moves`, `indexed`: each operation as nodes of the trace. Views of tensors in memory are layouts,
//!   and views of computed values are changes of place; neither costs a launch.
//! - `product`, `matmul`: a matrix product as the first value of a trace, and running it with the rest as its epilogue;
//!   `convolution`: the same of a convolution.
//! - `axes`: how a tensor's axes lie in the iteration space. A transposition permutes them and a reshape splits or merges
//!   them, so that a chain goes on through both.
//! - `arrange`, `plan`: when a trace is a kernel, and the [`rocfire_fusion::Graph`] and tables that run it.
//! - `attention`: a written-out attention as the kernel that keeps no scores.
//! - `execute`: real tensors and extents, and the launch.
//!
//! The same program makes the same kernels on every run: nothing is measured, and no choice depends on time or on the order
//! of a hash map. Kernels of elementwise operations give the bits that the operations give one by one.
//!
//! A kernel is named as Burn names such a one: `ElementWise`, `Reduce` for one reduction of which only rows are written,
//! `ReduceBroadcasted` for anything beyond that: softmax, layer normalisation, and most of their gradients; `Matmul` for a
//! matrix product with what is computed of its elements: bias, activation, residual, casts; `Convolution` for a convolution with the
//! same, and with batch normalisation by known statistics; `Attention`, which Burn has no name for. What was fused is told to
//! `tracing` under the target `rocfire::fusion`, at
//! level debug; why a fuser closed, at level trace. [`plans`] has the same for the whole process.

mod arrange;
mod attention;
mod axes;
mod convolution;
mod execute;
mod fuser;
pub(crate) mod handle;
mod indexed;
mod matmul;
mod moves;
mod optimization;
mod plan;
mod product;
mod refusal;
mod report;
mod rows;
mod runtime;
mod trace;
mod translate;
mod view;

pub use optimization::{FusedKernel, FusedKernelState};
pub use report::{KernelReport, PlanReport, plans};
pub use runtime::RocmRuntime;

#[cfg(test)]
mod tests;
