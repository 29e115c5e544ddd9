//! Reading and updating elements by ids: `is_ID_T` and `gather_ID_T` are graphs, updates are launchers of `rocfire_kernels`.
//!
//! The greatest id of its type means "none" to Candle: it reads zeros or is passed over, and is not reported as an error. `ia_ID_T`
//! keeps sums of 16-bit floats in f32 and rounds them once; `sa_ID_T` rounds each sum, as Candle does.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Info, Read, ReadWrite, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_fusion::{Compare, Draft, Graph, IndexOp, Scalar};
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::index::{Indices, Update, Updating, scatter as update_each, select_update};

use super::{Graphs, SIZE, Words, bits_of};
use crate::program::{info_word, run_over, view};
use crate::table::{self, Family};

/// The types of ids, each with its greatest number.
const IDS: [(DType, i64); 3] = [(DType::U8, u8::MAX as i64), (DType::U32, u32::MAX as i64), (DType::I64, i64::MAX)];

/// The types that elements are moved as, one for each size in bytes: 1, 2, 4, 8.
const MOVED: [DType; 4] = [DType::U8, DType::U16, DType::U32, DType::U64];

/// `is_ID_T`. Arguments: number of elements; the ids' number of axes, extents and strides; addresses of ids, x and out; extents
/// before the axis, along it in x and in out, and behind it.
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

/// `gather_ID_T`. Arguments: number of elements; addresses of ids, x and out; extents before the axis, along it in x and in out, and
/// behind it.
pub(super) fn gather() -> KernelSpec {
    KernelSpec::by_operators(vec![SIZE, Read, Read, Write, SIZE, SIZE, SIZE, SIZE], |node, stream, turn| {
        let [count, right] = [6, 7].map(|slot| node.word(slot) as i64);
        read((IndexOp::Gather, 1), [count * right, right, 1], node, (stream, turn))
    })
}

/// Reads elements of x at ids. The address of the ids is in `slot`, those of x and the result are in the next slots, then come
/// four extents. `id_steps` are the ids' steps along what is before the axis, along it and behind it.
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
    // An id of `is_ID_T` stands for all elements behind the axis, so they are moved in words of several, up to eight bytes.
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
    let mut out = node.tensor(slot + 2, &space, MOVED[size], turn)?;
    run_over(stream, graph, &space, &[ids, x], &[Scalar::Int(extent as i64)], &mut [out.view_mut()])
}

/// The graph that reads the element at an id along an axis. Its scalar is the axis's extent. With `is_row` one id serves a whole row.
fn lookup(op: IndexOp, is_row: bool, (id, greatest): (DType, i64), of: DType) -> Graph {
    Draft::graph("candle_lookup", |g| {
        let given = if is_row { g.row_input(id) } else { g.input(id) };
        let (place, extent) = (given.cast(DType::I64), g.scalar(DType::I64));
        let is_none = place.is(Compare::Eq, place.number(greatest));
        // The check sees "none" as an id inside the axis, so that it reports nothing; the lookup sees it as one outside, and gives zero.
        let (told, room) = (is_none.choose(place.number(0), place), is_none.choose(place.number(1), extent));
        let checked = g.term(|g| g.check(op, told.value, room.value));
        g.lookup(of, is_none.choose(place.number(-1), checked))
    })
}

/// `ia_ID_T`. Arguments: address of the ids, one for each element along x's axis, and how many; addresses of x and out; extents before
/// the axis, along it in x and in out, and behind it.
pub(super) fn index_add() -> KernelSpec {
    KernelSpec::by_operators(vec![Read, SIZE, Read, ReadWrite, SIZE, SIZE, SIZE, SIZE], bring)
}

/// `s_ID_T` and `sa_ID_T`. Arguments: addresses of ids, one for each element of x, of x and of out; the same extents.
pub(super) fn scatter() -> KernelSpec {
    KernelSpec::by_operators(vec![Read, Read, ReadWrite, SIZE, SIZE, SIZE, SIZE], bring)
}

/// Writes or adds each element of x to the element of out that its id names.
fn bring(node: &Node, stream: &Stream, turn: &Turn) -> Result<(), DriverError> {
    let entry = table::of(node).expect("kernels of this package are of the table");
    let (update, name) = match entry.family {
        Family::IndexAdd => (Update::Add, "index_add"),
        Family::ScatterAdd => (Update::Add, "scatter_add"),
        _ => (Update::Assign, "scatter"),
    };
    let has_slices = entry.family == Family::IndexAdd;
    let slot = if has_slices { 2 } else { 1 };
    let [left, count, extent, right] = [2, 3, 4, 5].map(|behind| node.word(slot + behind) as usize);
    if has_slices && node.word(1) as usize != count {
        return Err(DriverError::new(format!("ids must be as many as x has places, {count}, got {}", node.word(1))));
    }
    if left * count * right == 0 {
        return Ok(());
    }
    let words = Words(&entry.words);
    let of = if update == Update::Assign { bits_of(words.dtype(1)) } else { words.dtype(1) };
    let lines = |slot: usize, along: usize, of: DType| {
        if along == 0 {
            // An axis without elements has no memory, and all ids lie outside it.
            return Ok(Tensor::empty(&stream.device(), &[left, along, right], of)?);
        }
        node.tensor(slot, &[left, along, right], of, turn)
    };
    let (x, mut out) = (lines(slot, count, of)?, lines(slot + 1, extent, of)?);
    let updating = Updating { update, indices: Indices::AllButGreatest, name: Some(name) };
    if has_slices {
        let ids = node.tensor(0, &[count], words.dtype(0), turn)?;
        return Ok(select_update(stream, updating, 1, out.view_mut(), ids.view(), x.view())?);
    }
    let ids = lines(0, count, words.dtype(0))?;
    Ok(update_each(stream, updating, 1, out.view_mut(), ids.view(), x.view())?)
}
