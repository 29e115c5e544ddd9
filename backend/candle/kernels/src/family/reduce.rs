//! Kernels of `reduce.hip`, `sum_small.hip`, `softmax.hip`, `norm.hip`, `rope.hip`.

use cudarc::rocfire::Argument::{Info, Read, Write};
use cudarc::rocfire::KernelSpec;
use rocfire_hal::DType;

use super::{INT, SIZE, Words, device, kernel, template, wide};
use crate::geometry;

const REDUCE: (&str, &str) = template!("info.h" "each.h" => "reduce.hip");
const SUM_SMALL: (&str, &str) = template!("info.h" "each.h" => "sum_small.hip");
const SOFTMAX: (&str, &str) = template!("info.h" "each.h" "rows.h" => "softmax.hip");
const NORM: (&str, &str) = template!("info.h" "each.h" "rows.h" => "norm.hip");
const ROPE: (&str, &str) = template!("info.h" "each.h" => "rope.hip");

/// `fast_OP_T`
pub(super) fn reduce(words: Words) -> KernelSpec {
    let dtype = words.dtype(1);
    let (t, wide) = (device(dtype), wide(dtype));
    let state = match words.word(0) {
        "sum" => format!("SumState<{t}, {wide}>"),
        "max" => format!("ExtremeState<{t}, {wide}, true>"),
        _ => format!("ExtremeState<{t}, {wide}, false>"),
    };
    lines(dtype, t, state)
}

/// `fast_argOP_T`
pub(super) fn argument(words: Words) -> KernelSpec {
    let dtype = words.dtype(1);
    let greatest = words.word(0) == "argmax";
    lines(dtype, "u32", format!("PlaceState<{}, {}, {greatest}>", device(dtype), wide(dtype)))
}

fn lines(dtype: DType, out: &str, state: String) -> KernelSpec {
    let spec = kernel(REDUCE, &[SIZE, SIZE, SIZE, Info, Read, Write]).with_geometry(geometry::lines);
    spec.define("CANDLE_T", device(dtype)).define("CANDLE_OUT", out).define("CANDLE_STATE", state)
}

/// `fast_sum_small_T`
pub(super) fn sum_small(words: Words) -> KernelSpec {
    let spec = kernel(SUM_SMALL, &[SIZE, SIZE, SIZE, Info, Read, Write]);
    spec.with_geometry(geometry::lanes).define("CANDLE_T", device(words.dtype(0)))
}

/// `softmax_T`
pub(super) fn softmax(words: Words) -> KernelSpec {
    let spec = kernel(SOFTMAX, &[Read, Write, INT]);
    spec.with_geometry(geometry::rows::<2>).define("CANDLE_T", device(words.dtype(0)))
}

/// `rmsnorm_T`
pub(super) fn rms_norm(words: Words) -> KernelSpec {
    let spec = kernel(NORM, &[Read, Write, Read, INT, INT, INT]).with_geometry(geometry::rows::<3>);
    spec.define("CANDLE_LAYER", "0").define("CANDLE_T", device(words.dtype(0)))
}

/// `layernorm_T`
pub(super) fn layer_norm(words: Words) -> KernelSpec {
    let spec = kernel(NORM, &[Read, Write, Read, Read, INT, INT, INT]).with_geometry(geometry::rows::<4>);
    spec.define("CANDLE_LAYER", "1").define("CANDLE_T", device(words.dtype(0)))
}

/// `rope_T`, `rope_i_T`, `rope_thd_T`
pub(super) fn rope(words: Words) -> KernelSpec {
    let (kind, numbers) = match words.word(0) {
        "rope" => ("0", 4),
        "rope_i" => ("1", 3),
        _ => ("2", 5),
    };
    let arguments: Vec<_> = [Read, Read, Read, Write].into_iter().chain(vec![INT; numbers]).collect();
    let spec = kernel(ROPE, &arguments).with_geometry(geometry::lanes_asked);
    spec.define("CANDLE_KIND", kind).define("CANDLE_T", device(words.dtype(1)))
}
