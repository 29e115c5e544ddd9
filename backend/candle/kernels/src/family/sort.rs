//! `asort_ORDER_T`: the indices of a row's elements in sorted order. `rocfire_kernels` sorts rows of any length.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Read, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_hal::{DType, Stream};
use rocfire_kernels::sort::{Order, sort as sort_along};

use super::{INT, Words};

/// Arguments: addresses of x and of the indices as u32, then columns, and columns rounded up to a power of two, which is not used.
pub(super) fn sort() -> KernelSpec {
    KernelSpec::by_operators(vec![Read, Write, INT, INT], run)
}

fn run(node: &Node, stream: &Stream, turn: &Turn) -> Result<(), DriverError> {
    let words = Words::of(node);
    let order = if words.word(0) == "asc" { Order::Ascending } else { Order::Descending };
    let shape = [node.asked().grid_dim.0 as usize, node.int(2) as usize];
    let x = node.tensor(0, &shape, words.dtype(1), turn)?;
    // Indices are below 2³¹, so that Candle's u32 and our i32 have the same bits.
    let mut places = node.tensor(1, &shape, DType::I32, turn)?;
    Ok(sort_along(stream, order, 1, x.view(), None, Some(places.view_mut()))?)
}
