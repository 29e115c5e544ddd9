//! Kernels of `im2col.hip`, `col2im1d.hip`, `conv_transpose.hip`, `pool2d.hip`, `upsample.hip`.

use cudarc::rocfire::Argument::{Info, Read, Scalar, Write};
use cudarc::rocfire::KernelSpec;

use super::{SIZE, Words, device, kernel, moved, template};
use crate::geometry;

const IM2COL: (&str, &str) = template!("info.h" "each.h" "window.h" => "im2col.hip");
const COL2IM1D: (&str, &str) = template!("info.h" "each.h" "window.h" => "col2im1d.hip");
const CONV_TRANSPOSE: (&str, &str) = template!("info.h" "each.h" "window.h" => "conv_transpose.hip");
const POOL2D: (&str, &str) = template!("info.h" "each.h" "window.h" => "pool2d.hip");
const UPSAMPLE: (&str, &str) = template!("info.h" "each.h" "window.h" => "upsample.hip");

/// `im2col_T`
pub(super) fn im2col(words: Words) -> KernelSpec {
    let spec = kernel(IM2COL, &[SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, Info, Read, Write]);
    spec.with_geometry(geometry::lanes).define("CANDLE_AXES", "2").define("CANDLE_T", moved(words.dtype(0)))
}

/// `im2col1d_T`
pub(super) fn im2col1d(words: Words) -> KernelSpec {
    let spec = kernel(IM2COL, &[SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, Info, Read, Write]);
    spec.with_geometry(geometry::lanes).define("CANDLE_AXES", "1").define("CANDLE_T", moved(words.dtype(0)))
}

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

/// `upsample_nearest2d_T`
pub(super) fn nearest(words: Words) -> KernelSpec {
    let spec = kernel(UPSAMPLE, &[SIZE, SIZE, SIZE, SIZE, Info, Read, Write]).with_geometry(geometry::lanes_asked);
    spec.define("CANDLE_BILINEAR", "0").define("CANDLE_T", moved(words.dtype(0)))
}

/// `upsample_bilinear2d_T`
pub(super) fn bilinear(words: Words) -> KernelSpec {
    let arguments = [SIZE, SIZE, Scalar(1), Scalar(1), SIZE, Scalar(1), SIZE, Info, Read, Write];
    let spec = kernel(UPSAMPLE, &arguments).with_geometry(geometry::lanes_asked);
    spec.define("CANDLE_BILINEAR", "1").define("CANDLE_T", device(words.dtype(0)))
}
