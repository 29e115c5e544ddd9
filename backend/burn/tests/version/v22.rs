//! Burn 0.22. See [`super`].

use burn_backend::Backend;
use burn_backend::quantization::QuantStore;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};

use super::Windows;

/// Whether a pool's window may be larger than its padded input by a step and more.
pub const TAKES_LARGER_WINDOWS: bool = true;
/// What the computation of a pool's shape says of a window that is larger.
pub const LARGER_WINDOW: &str = "overflow";

/// The store that Burn's CPU backend takes for a vector packed along an axis which it may lack: any.
pub fn flexs_store(store: QuantStore) -> QuantStore {
    store
}

/// An or of what a tensor has and what it is given by indices along an axis.
pub fn bool_scatter_or<B: Backend>(
    dim: usize,
    tensor: BoolTensor<B>,
    indices: IntTensor<B>,
    value: BoolTensor<B>,
) -> BoolTensor<B> {
    B::bool_scatter_or(dim, tensor, indices, value)
}

/// As [`bool_scatter_or`], of whole slices.
pub fn bool_select_or<B: Backend>(
    tensor: BoolTensor<B>,
    dim: usize,
    indices: IntTensor<B>,
    value: BoolTensor<B>,
) -> BoolTensor<B> {
    B::bool_select_or(tensor, dim, indices, value)
}

/// Averages along one axis.
pub fn avg_pool1d<B: Backend>(
    x: FloatTensor<B>,
    ([kernel], [stride], [padding], counts, ceil): Windows<1>,
) -> FloatTensor<B> {
    B::avg_pool1d(x, kernel, stride, padding, counts, ceil)
}

/// The gradient of [`avg_pool1d`].
pub fn avg_pool1d_backward<B: Backend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    ([kernel], [stride], [padding], counts, ceil): Windows<1>,
) -> FloatTensor<B> {
    B::avg_pool1d_backward(x, grad, kernel, stride, padding, counts, ceil)
}

/// Averages along two axes.
pub fn avg_pool2d<B: Backend>(
    x: FloatTensor<B>,
    (kernel, stride, padding, counts, ceil): Windows<2>,
) -> FloatTensor<B> {
    B::avg_pool2d(x, kernel, stride, padding, counts, ceil)
}

/// The gradient of [`avg_pool2d`].
pub fn avg_pool2d_backward<B: Backend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    (kernel, stride, padding, counts, ceil): Windows<2>,
) -> FloatTensor<B> {
    B::avg_pool2d_backward(x, grad, kernel, stride, padding, counts, ceil)
}
