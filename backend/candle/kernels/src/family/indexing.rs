//! Kernels of `index_select.hip`, `gather.hip`, `scatter.hip`.

use cudarc::rocfire::Argument::{Info, Read, ReadWrite, Write};
use cudarc::rocfire::KernelSpec;

use super::{SIZE, Words, device, kernel, moved, template};
use crate::geometry;

const INDEX_SELECT: (&str, &str) = template!("info.h" "each.h" => "index_select.hip");
const GATHER: (&str, &str) = template!("info.h" "each.h" => "gather.hip");
const SCATTER: (&str, &str) = template!("info.h" "each.h" => "scatter.hip");

/// `is_ID_T`
pub(super) fn index_select(words: Words) -> KernelSpec {
    let (id, dtype) = (words.dtype(0), words.dtype(1));
    let spec = kernel(INDEX_SELECT, &[SIZE, SIZE, Info, Read, Read, Write, SIZE, SIZE, SIZE, SIZE]);
    let spec = spec.with_geometry(geometry::elements(dtype.size_bytes()));
    let spec = spec.define("CANDLE_V", geometry::lane_elements(dtype.size_bytes()).to_string());
    spec.define("CANDLE_ID", device(id)).define("CANDLE_T", moved(dtype))
}

/// `gather_ID_T`
pub(super) fn gather(words: Words) -> KernelSpec {
    let (id, dtype) = (words.dtype(0), words.dtype(1));
    let spec = kernel(GATHER, &[SIZE, Read, Read, Write, SIZE, SIZE, SIZE, SIZE]);
    let bytes = id.size_bytes().max(dtype.size_bytes());
    let spec = spec.with_geometry(geometry::elements(bytes));
    spec.define("CANDLE_V", geometry::lane_elements(bytes).to_string())
        .define("CANDLE_ID", device(id))
        .define("CANDLE_T", moved(dtype))
}

/// `ia_ID_T`
pub(super) fn index_add(words: Words) -> KernelSpec {
    let (id, dtype) = (words.dtype(0), words.dtype(1));
    let spec = kernel(SCATTER, &[Read, SIZE, Read, ReadWrite, SIZE, SIZE, SIZE, SIZE]);
    let spec = spec.with_geometry(geometry::lanes_asked).define("CANDLE_INDEX_ADD", "1");
    spec.define("CANDLE_ID", device(id)).define("CANDLE_T", device(dtype))
}

/// `s_ID_T` and `sa_ID_T`
pub(super) fn scatter(words: Words, add: bool) -> KernelSpec {
    let (id, dtype) = (words.dtype(0), words.dtype(1));
    let spec = kernel(SCATTER, &[Read, Read, ReadWrite, SIZE, SIZE, SIZE, SIZE]);
    let spec = spec.with_geometry(geometry::lanes_asked).define("CANDLE_INDEX_ADD", "0");
    let (kind, element) = if add { ("true", device(dtype)) } else { ("false", moved(dtype)) };
    spec.define("CANDLE_ADD", kind).define("CANDLE_ID", device(id)).define("CANDLE_T", element)
}
