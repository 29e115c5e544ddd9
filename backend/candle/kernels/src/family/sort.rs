//! `asort_ORDER_T`: the places of a row's elements in their order, by rocfire's sort, which has no greatest length.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Read, Write};
use cudarc::rocfire::{KernelSpec, Node, Operate, Turn};
use rocfire_hal::{DType, Stream};
use rocfire_kernels::sort::{Order, sort as sort_along};

use super::{INT, Words};

/// By order and element type: x, places as u32, columns, columns rounded up to a power of two.
pub(super) fn sort(words: Words) -> KernelSpec {
    const ASCENDING: [(&str, Operate); 9] = [
        ("bf16", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::BF16)),
        ("f16", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::F16)),
        ("f32", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::F32)),
        ("f64", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::F64)),
        ("u8", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::U8)),
        ("u32", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::U32)),
        ("i16", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::I16)),
        ("i32", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::I32)),
        ("i64", |node, stream, turn| run((node, stream, turn), Order::Ascending, DType::I64)),
    ];
    const DESCENDING: [(&str, Operate); 9] = [
        ("bf16", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::BF16)),
        ("f16", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::F16)),
        ("f32", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::F32)),
        ("f64", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::F64)),
        ("u8", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::U8)),
        ("u32", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::U32)),
        ("i16", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::I16)),
        ("i32", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::I32)),
        ("i64", |node, stream, turn| run((node, stream, turn), Order::Descending, DType::I64)),
    ];
    let runs = if words.word(0) == "asc" { ASCENDING } else { DESCENDING };
    let found =
        runs.into_iter().find(|run| run.0 == words.word(1)).expect("names.txt has the types of the tables above");
    KernelSpec::by_operators(vec![Read, Write, INT, INT], found.1)
}

fn run((node, stream, turn): (&Node, &Stream, &Turn), order: Order, dtype: DType) -> Result<(), DriverError> {
    let shape = [node.asked().grid_dim.0 as usize, node.int(2) as usize];
    let x = node.tensor(0, &shape, dtype, turn)?;
    // Places are below 2³¹, so that Candle's u32 and i32 have the same bits.
    let mut places = node.tensor(1, &shape, DType::I32, turn)?;
    Ok(sort_along(stream, order, 1, x.view(), None, Some(places.view_mut()))?)
}
