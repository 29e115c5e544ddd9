//! Elements that ids name: `is_ID_T` and `gather_ID_T` as graphs, kernels of `scatter.hip`.
//!
//! The greatest id of its type means "none" to Candle: it reads zeros or is passed over, and nobody is told of it. Updates of
//! `rocfire_kernels` know no such id, tell by other names and keep sums of 16-bit floats in f32, which Candle rounds each time.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Info, Read, ReadWrite, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_fusion::{Compare, Graph, IndexOp, Scalar};
use rocfire_hal::{DType, Stream};

use super::terms::Draft;
use super::{Graphs, SIZE, Words, device, kernel, moved, template};
use crate::geometry;
use crate::program::{info_word, run_over, view};

const SCATTER: (&str, &str) = template!("info.h" "each.h" => "scatter.hip");

/// Types of ids, with their greatest.
const IDS: [(DType, i64); 3] = [(DType::U8, u8::MAX as i64), (DType::U32, u32::MAX as i64), (DType::I64, i64::MAX)];

/// Types of which each moves elements of its size.
const MOVED: [DType; 4] = [DType::U8, DType::U16, DType::U32, DType::U64];

/// `is_ID_T`: elements; axes, extents and strides of the ids; ids, x, out; extents before the axis, along it in x and in out,
/// and behind it.
pub(super) fn index_select() -> KernelSpec {
    let arguments = vec![SIZE, SIZE, Info, Read, Read, Write, SIZE, SIZE, SIZE, SIZE];
    KernelSpec::by_operators(arguments, |node, stream, turn| {
        let (axes, info) = (node.word(1), node.argument(2));
        // Without extents the ids are dense.
        let step = match info_word(info, 0) {
            0 => 1,
            _ if axes == 1 => info_word(info, 1) as i64,
            _ => return Err(DriverError::new(format!("ids must be a list, they have {axes} axes"))),
        };
        read((IndexOp::IndexSelect, 3), [0, step, 0], node, (stream, turn))
    })
}

/// `gather_ID_T`: elements; ids, x, out; extents before the axis, along it in x and in out, and behind it.
pub(super) fn gather() -> KernelSpec {
    KernelSpec::by_operators(vec![SIZE, Read, Read, Write, SIZE, SIZE, SIZE, SIZE], |node, stream, turn| {
        let [count, right] = [6, 7].map(|slot| node.word(slot) as i64);
        read((IndexOp::Gather, 1), [count * right, right, 1], node, (stream, turn))
    })
}

/// Reads elements of x at ids, which lie in a slot, behind them x, the result and four extents.
fn read(
    (op, slot): (IndexOp, usize),
    id_steps: [i64; 3],
    node: &Node,
    (stream, turn): (&Stream, &Turn),
) -> Result<(), DriverError> {
    static GRAPHS: Graphs<{ 3 * IDS.len() * MOVED.len() }> = Graphs::new();
    let [elements, extent, count, right] = [0, slot + 4, slot + 5, slot + 6].map(|slot| node.word(slot) as usize);
    let words = Words::of(node);
    let (id, bytes) = (words.dtype(0), words.dtype(1).size_bytes());
    // An id for all elements behind the axis brings as many of them at once as a word holds.
    let fits = |word: usize| [1, 2].iter().all(|&behind| node.word(slot + behind).is_multiple_of(word as u64));
    let mut word = if op == IndexOp::Gather { bytes } else { 8 };
    while word > bytes && !((right * bytes).is_multiple_of(word) && fits(word)) {
        word /= 2;
    }
    let Some(left) = elements.checked_div(count * right).filter(|&left| left > 0) else { return Ok(()) };
    if left * count * right != elements {
        return Err(DriverError::new("ids must have x's extents but along the axis"));
    }
    let id = IDS.iter().position(|known| known.0 == id).expect("names.txt has ids of the table above");
    let space = [left, count, right * bytes / word];
    let (size, is_row) = (word.ilog2() as usize, op == IndexOp::IndexSelect && space[2] > 1);
    let kind = usize::from(op == IndexOp::IndexSelect) + usize::from(is_row);
    let graph = GRAPHS.get((size * IDS.len() + id) * 3 + kind, || lookup(op, is_row, IDS[id], MOVED[size]));
    let row = space[2] as i64;
    let of_ids = [left, count, if is_row { 1 } else { space[2] }];
    let ids = view(node, turn, node.word(slot), IDS[id].0, (&of_ids, &id_steps))?;
    let lines: (&[usize], &[i64]) = (&[extent, left, 1, space[2]], &[row, extent as i64 * row, 0, 1]);
    let x = view(node, turn, node.word(slot + 1), MOVED[size], lines)?;
    let out = node.tensor(slot + 2, &space, MOVED[size], turn)?;
    run_over(stream, graph, &space, &[ids, x], &[Scalar::Int(extent as i64)], &mut [out])
}

/// An element at an id along an axis, whose extent is the scalar; the id may be that of a row.
fn lookup(op: IndexOp, is_row: bool, (id, greatest): (DType, i64), of: DType) -> Graph {
    Draft::graph("candle_lookup", |g| {
        let given = g.term(|g| if is_row { g.row_input(id) } else { g.input(id) });
        let (place, extent) = (given.cast(DType::I64), g.scalar(DType::I64));
        let is_none = place.is(Compare::Eq, place.number(greatest));
        // None is inside whatever there is, so that nobody is told, and then outside.
        let (told, room) = (is_none.choose(place.number(0), place), is_none.choose(place.number(1), extent));
        let checked = g.term(|g| g.check(op, told.value, room.value));
        g.lookup(of, is_none.choose(place.number(-1), checked))
    })
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
