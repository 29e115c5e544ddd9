//! Convolutions of one to three spatial axes, forward, transposed, and their gradients.
//!
//! [`conv`], [`conv_input_gradient`] (which is the transposed convolution too) and [`conv_weight_gradient`] choose between
//! the implicit matrix product of `conv.hip`, which reads windows where they lie and stores no columns, and for groups of
//! very few channels the element-per-lane kernels of `direct.hip`. A convolution without windows (1 x 1, stride 1) is a
//! plain product and goes to `gemm`, unless its result has its channels innermost. [`conv_fused`] is any of these with an activation, a residual, a batch normalisation by known
//! statistics or any other chain of `fusion` behind it, in one launch. Callers are the adapters' convolutions, folding and unfolding.
//!
//! 16-bit convolutions of some size take the steps of their sums channels within taps and read `x` so, a copy of it if it lies
//! otherwise; few channels are filled up with zeros. Where the result has its channels innermost too ([`gives_channels_last`] says
//! when that is best), the next convolution needs no copy, and an epilogue is computed a run of channels at a time (`last.hip`). No
//! layout changes a bit of theirs.
//!
//! A strided convolution's input gradient is cut into one problem per residue of the stride, so that none multiplies the
//! zeros between the strides. The weight's gradient sums over all places of all images, in slices whose length is a function
//! of the shape alone, added in ascending order: the bits do not depend on the device's size.

mod channels_last;
mod choice;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod conv;
mod direct;
mod fused;
mod geometry;
mod last;
mod operands;
mod sources;
mod tiling;

pub use conv::{conv, conv_input_gradient, conv_weight_gradient};
pub use fused::conv_fused;
pub use geometry::{ConvParams, conv_output_shape};
pub use last::gives_channels_last;
pub(crate) use sources::sources;

#[cfg(test)]
mod fused_tests;
#[cfg(test)]
mod tests;
