//! `asort_ORDER_T`: the places of a row's elements in their order, by rocfire's sort, which has no greatest length.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Read, Write};
use cudarc::rocfire::{Host, KernelSpec, Launch, Settled};
use rocfire_hal::DType;
use rocfire_kernels::sort::{Order, sort as sort_along};

use super::{INT, Words};

/// By order and element type: x, places as u32, columns, columns rounded up to a power of two.
pub(super) fn sort(words: Words) -> KernelSpec {
    const ASCENDING: [(&str, Host); 9] = [
        ("bf16", |launch, on| run(launch, on, Order::Ascending, DType::BF16)),
        ("f16", |launch, on| run(launch, on, Order::Ascending, DType::F16)),
        ("f32", |launch, on| run(launch, on, Order::Ascending, DType::F32)),
        ("f64", |launch, on| run(launch, on, Order::Ascending, DType::F64)),
        ("u8", |launch, on| run(launch, on, Order::Ascending, DType::U8)),
        ("u32", |launch, on| run(launch, on, Order::Ascending, DType::U32)),
        ("i16", |launch, on| run(launch, on, Order::Ascending, DType::I16)),
        ("i32", |launch, on| run(launch, on, Order::Ascending, DType::I32)),
        ("i64", |launch, on| run(launch, on, Order::Ascending, DType::I64)),
    ];
    const DESCENDING: [(&str, Host); 9] = [
        ("bf16", |launch, on| run(launch, on, Order::Descending, DType::BF16)),
        ("f16", |launch, on| run(launch, on, Order::Descending, DType::F16)),
        ("f32", |launch, on| run(launch, on, Order::Descending, DType::F32)),
        ("f64", |launch, on| run(launch, on, Order::Descending, DType::F64)),
        ("u8", |launch, on| run(launch, on, Order::Descending, DType::U8)),
        ("u32", |launch, on| run(launch, on, Order::Descending, DType::U32)),
        ("i16", |launch, on| run(launch, on, Order::Descending, DType::I16)),
        ("i32", |launch, on| run(launch, on, Order::Descending, DType::I32)),
        ("i64", |launch, on| run(launch, on, Order::Descending, DType::I64)),
    ];
    let runs = if words.word(0) == "asc" { ASCENDING } else { DESCENDING };
    let found =
        runs.into_iter().find(|run| run.0 == words.word(1)).expect("names.txt has the types of the tables above");
    KernelSpec::on_host("sort.rs", vec![Read, Write, INT, INT], found.1)
}

fn run(launch: &Launch<'_>, on: &Settled<'_>, order: Order, dtype: DType) -> Result<(), DriverError> {
    let shape = [launch.config().grid_dim.0 as usize, launch.integer(2) as usize];
    let x = launch.tensor(on, 0, &shape, dtype)?;
    // Places are below 2³¹, so that Candle's u32 and i32 have the same bits.
    let mut places = launch.tensor(on, 1, &shape, DType::I32)?;
    Ok(sort_along(on.stream(), order, 1, x.view(), None, Some(places.view_mut()))?)
}
