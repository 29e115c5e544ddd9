//! Kernels of `map.hip`, `binary.hip`, `where.hip`, `const_set.hip`, `copy2d.hip`.

use cudarc::rocfire::Argument::{Info, Read, Write};
use cudarc::rocfire::{Extent, KernelSpec, Launch};

use super::{Dtype, INT, SIZE, Words, kernel, template};
use crate::geometry;

type Template = (&'static str, &'static str);

const MAP: Template = template!("info.h" "each.h" "operators.h" => "map.hip");
const BINARY: Template = template!("info.h" "each.h" "operators.h" => "binary.hip");
const WHERE: Template = template!("info.h" "each.h" => "where.hip");
const CONST_SET: Template = template!("info.h" "each.h" => "const_set.hip");
const COPY2D: Template = template!("info.h" "each.h" => "copy2d.hip");

/// How many elements a lane does is by the widest type of a kernel.
fn per_lane(spec: KernelSpec, bytes: usize) -> KernelSpec {
    spec.define("CANDLE_V", geometry::lane_elements(bytes).to_string()).with_geometry(geometry::elements(bytes))
}

/// A dense result of elements of so many bytes, as many as the first argument says; operands may be strided.
fn dense_result(spec: KernelSpec, bytes: usize) -> KernelSpec {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, _: usize, is_written: bool) -> Option<Extent> {
        let row_bytes = launch.integer(0).saturating_mul(BYTES);
        is_written.then_some(Extent { rows: 1, row_bytes, stride_bytes: row_bytes })
    }
    spec.with_extent(match bytes {
        1 => extent::<1>,
        2 => extent::<2>,
        4 => extent::<4>,
        _ => extent::<8>,
    })
}

fn map(from: &str, to: &str, bytes: usize, op: &str) -> KernelSpec {
    let spec = kernel(MAP, &[SIZE, SIZE, Info, Read, Write]).define("CANDLE_PARAMETERS", "0");
    per_lane(spec, bytes).define("CANDLE_FROM", from).define("CANDLE_TO", to).define("CANDLE_OP", op)
}

/// A map with numbers of the element type among its arguments.
fn map_with(dtype: Dtype, parameters: usize, op: &str) -> KernelSpec {
    let number = dtype.scalar();
    let arguments = match parameters {
        1 => [SIZE, SIZE, Info, number, Read, Write].to_vec(),
        _ => [SIZE, SIZE, Info, Read, Write, number, number].to_vec(),
    };
    let spec = kernel(MAP, &arguments).define("CANDLE_PARAMETERS", parameters.to_string());
    dense_result(per_lane(spec, dtype.bytes), dtype.bytes)
        .define("CANDLE_FROM", dtype.device)
        .define("CANDLE_TO", dtype.device)
        .define("CANDLE_OP", op)
}

/// `affine_T`
pub(super) fn affine(words: Words) -> KernelSpec {
    map_with(words.dtype(0), 2, "Affine")
}

/// `ucopy_T`
pub(super) fn copy(words: Words) -> KernelSpec {
    let dtype = words.dtype(0);
    dense_result(map(dtype.moved(), dtype.moved(), dtype.bytes, "Same"), dtype.bytes)
}

/// `uOP_T`
pub(super) fn unary(words: Words) -> KernelSpec {
    let dtype = words.dtype(1);
    dense_result(map(dtype.device, dtype.device, dtype.bytes, &functor(words.word(0))), dtype.bytes)
}

/// `uOP_T` with a number.
pub(super) fn unary_parameter(words: Words) -> KernelSpec {
    map_with(words.dtype(1), 1, &functor(words.word(0)))
}

/// `cast_S_T`
pub(super) fn cast(words: Words) -> KernelSpec {
    let (from, to) = (words.dtype(0), words.dtype(1));
    dense_result(map(from.device, to.device, from.bytes.max(to.bytes), "Same"), to.bytes)
}

/// `bOP_T`
pub(super) fn binary(words: Words) -> KernelSpec {
    let dtype = words.dtype(1);
    dense_result(two(dtype, dtype.device, &functor(words.word(0))), dtype.bytes)
}

/// `OP_T` with an answer of u8.
pub(super) fn compare(words: Words) -> KernelSpec {
    let op = match words.word(0) {
        "eq" => "Equal",
        "ne" => "NotEqual",
        "lt" => "Less",
        "le" => "LessEqual",
        "gt" => "Greater",
        _ => "GreaterEqual",
    };
    dense_result(two(words.dtype(1), "u8", op), 1)
}

fn two(dtype: Dtype, out: &str, op: &str) -> KernelSpec {
    let spec = kernel(BINARY, &[SIZE, SIZE, Info, Read, Read, Write]);
    per_lane(spec, dtype.bytes).define("CANDLE_T", dtype.device).define("CANDLE_OUT", out).define("CANDLE_OP", op)
}

/// `where_ID_T`
pub(super) fn select(words: Words) -> KernelSpec {
    let (id, dtype) = (words.dtype(0), words.dtype(1));
    let spec = kernel(WHERE, &[SIZE, SIZE, Info, Read, Read, Read, Write]);
    let spec = dense_result(per_lane(spec, id.bytes.max(dtype.bytes)), dtype.bytes);
    spec.define("CANDLE_ID", id.device).define("CANDLE_T", dtype.moved())
}

/// `const_set_T`
pub(super) fn const_set(words: Words) -> KernelSpec {
    let dtype = words.dtype(0);
    let spec = kernel(CONST_SET, &[SIZE, SIZE, Info, dtype.scalar(), Write]);
    per_lane(spec, dtype.bytes).define("CANDLE_T", dtype.moved())
}

/// `copy2d_T`
pub(super) fn copy2d(words: Words) -> KernelSpec {
    let dtype = words.dtype(0);
    let spec = kernel(COPY2D, &[Read, Write, INT, INT, INT, INT]);
    let spec = spec.with_geometry(geometry::elements_asked(dtype.bytes));
    let spec = spec.with_extent(match dtype.bytes {
        1 => rows_of::<1>,
        2 => rows_of::<2>,
        4 => rows_of::<4>,
        _ => rows_of::<8>,
    });
    spec.define("CANDLE_V", geometry::lane_elements(dtype.bytes).to_string()).define("CANDLE_T", dtype.moved())
}

/// The rows that `copy2d` reads or writes: rows, columns, and the strides of both.
fn rows_of<const BYTES: u64>(launch: &Launch<'_>, slot: usize, _: bool) -> Option<Extent> {
    let (rows, columns, stride) = (launch.integer(2), launch.integer(3), launch.integer(4 + slot));
    Some(Extent { rows, row_bytes: columns * BYTES, stride_bytes: stride * BYTES })
}

/// The functor of `operators.h` for Candle's word: `gelu_erf` is `GeluErf`.
fn functor(word: &str) -> String {
    let capital = |part: &str| format!("{}{}", part[..1].to_uppercase(), &part[1..]);
    word.split('_').map(capital).collect()
}
