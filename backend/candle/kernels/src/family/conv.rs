//! Kernels of `col2im1d.hip`, `conv_transpose.hip`, `pool2d.hip`, of floats and of integers.
//!
//! They add in the order of a window, as Candle does. Rows of fusion add neighbours first; pools of `rocfire_kernels` divide where
//! Candle multiplies by a reciprocal and have other rules for NaN, its convolutions sum tiles, and both take floats alone.

use cudarc::rocfire::Argument::{Info, Read, Write};
use cudarc::rocfire::KernelSpec;

use super::{SIZE, Words, device, kernel, template};
use crate::geometry;

const COL2IM1D: (&str, &str) = template!("info.h" "each.h" "window.h" => "col2im1d.hip");
const CONV_TRANSPOSE: (&str, &str) = template!("info.h" "each.h" "window.h" => "conv_transpose.hip");
const POOL2D: (&str, &str) = template!("info.h" "each.h" "window.h" => "pool2d.hip");

/// `col2im1d_T`
pub(super) fn col2im1d(words: Words) -> KernelSpec {
    let spec = kernel(COL2IM1D, &[SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, Read, Write]);
    spec.with_geometry(geometry::lanes).define("CANDLE_T", device(words.dtype(0)))
}

/// `conv_transpose1d_T` and `conv_transpose2d_T`
pub(super) fn conv_transpose(words: Words) -> KernelSpec {
    let axes = words.word(0);
    let numbers = if axes == "1" { 6 } else { 7 };
    let arguments: Vec<_> = vec![SIZE; numbers].into_iter().chain([Info, Read, Read, Write]).collect();
    let spec = kernel(CONV_TRANSPOSE, &arguments).with_geometry(geometry::lanes_asked);
    spec.define("CANDLE_AXES", axes).define("CANDLE_T", device(words.dtype(1)))
}

/// `avg_pool2d_T` and `max_pool2d_T`
pub(super) fn pool2d(words: Words) -> KernelSpec {
    let dtype = words.dtype(1);
    let mean = if words.word(0) == "avg" { "1" } else { "0" };
    let spec = kernel(POOL2D, &[SIZE, SIZE, SIZE, SIZE, SIZE, Info, Read, Write]).with_geometry(geometry::lanes_asked);
    spec.define("CANDLE_MEAN", mean).define("CANDLE_T", device(dtype))
}
