//! Makes kernels of recorded operations: `Fused` runs in one launch what `Rocm` runs operator by operator.
//!
//! The recorder hands operations over in relative form (numbers for tensors, extents and scalars), and asks which of them join a
//! stretch. What is made of a stretch it keeps, and runs for every later stretch of the same form. The files:
//!
//! - `fuser`: takes every operation that a kernel can compute. `partition` makes kernels of them: each is a `trace` of
//!   operations that one launch computes.
//! - `translate`, `rows`, `moves`, `indexed`, `assign`: make each operation nodes of the trace. Views of tensors in memory become
//!   layouts, and views of computed values only change where the values lie; neither costs a launch.
//! - `shift`, `elsewhere`, `copies`: a computed value at other coordinates than where it was computed, for slices, flips and elements
//!   by index.
//! - `product`, `matmul`: a matrix product as the first value of a trace, and running it with the rest as its epilogue.
//!   `convolution`: the same for a convolution. `epilogue`: what follows either.
//! - `draw`: random tensors, whose elements are computed where they are used.
//! - `axes`: how a tensor's axes lie in the iteration space. A transposition permutes them and a reshape splits or merges
//!   them, so that a chain goes on through both.
//! - `arrange`, `plan`: when a trace is a kernel, and the [`rocfire_fusion::Graph`] and tables that run it.
//! - `attention`: attention that a model writes out, as the kernel that does not store scores.
//! - `narrow`: a result that a kernel widens last is stored in the narrower type.
//! - `bindings`, `handles`: the real tensors, extents and scalars that the numbers stand for when a plan runs.
//! - `space`, `laid`: where tensors lie in a kernel's iteration space, and what of that is kept from one run to the next. `execute`:
//!   runs a plan.
//!
//! The same program makes the same kernels on every run: nothing is measured, and no choice depends on time or on the order
//! of a hash map. Kernels of elementwise operations give the bits that the operations give one by one.
//!
//! A kernel has the name that Burn gives to its kind: `ElementWise`; `Reduce` for one reduction of which only rows are written;
//! `ReduceBroadcasted` for more than that, as softmax, layer normalisation, and most of their gradients; `Matmul` for a
//! matrix product with what is computed of its elements (bias, activation, residual, casts); `Convolution` for a convolution with the
//! same, and with batch normalisation by known statistics; and `Attention`, which Burn has no name for. `tracing` is told under the
//! target `rocfire::fusion` what was fused, at level debug, and why a fuser closed, at level trace. [`plans`] and [`explain`] have
//! the same for the whole process.

mod arrange;
mod assign;
mod attention;
mod axes;
pub(crate) mod bindings;
mod convolution;
mod copies;
mod draw;
mod elsewhere;
mod epilogue;
mod execute;
mod fuser;
pub(crate) mod handle;
pub(crate) mod handles;
mod indexed;
mod laid;
mod matmul;
mod moves;
mod narrow;
mod optimization;
mod partition;
mod plan;
mod product;
mod recompute;
mod refusal;
mod repeats;
mod report;
mod rows;
mod shift;
mod space;
mod trace;
mod translate;
mod view;

pub(crate) use fuser::{Fuser, Taken};
pub(crate) use optimization::FusedKernel;
pub(crate) use recompute::{Recipe, recipes};
pub use report::{KernelReport, PlanReport, explain, plans};

#[cfg(test)]
mod tests;
