//! Times operators on a real GPU: prints a table, writes it as JSON and as a picture, compares it with an earlier one.
//!
//! `cargo bench-ops` is short for it. The operators are those of the library at sizes that fill a card, each with its share of the
//! ceiling measured in the same run (a copy within device memory); `--cases` takes every case of the tests at its own size. Every
//! result is checked before it is timed.
//!
//! Buffers are taken in rotation, more of them than any cache holds, and filled with normal values. A time is the median of
//! batches between two events, so that it has the kernel and the queue in it and not the host's clock. It refuses to time an
//! emulated device, whose times say nothing of a card.

mod attention;
mod cases;
mod conv;
mod fused;
mod gguf;
mod latents;
mod launchers;
mod op;
mod picture;
mod product;
mod quant;
mod record;
mod recurrent;
mod scaled;
mod serving;
mod timing;
mod tokens;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use rocfire_hal::{Config, Device, DeviceId, DriverKind, Generic};

use op::{Error, Make, Op};
use record::{Record, Row};

/// What names of operators end with that the vendor's library, where there is one, is not to do.
pub const OURS: &str = ", ours";

/// Times operators on the GPU that ROCFIRE_DEVICE names.
#[derive(Debug, Parser)]
#[command(name = "bench-ops")]
struct Arguments {
    /// Only operators with this in their name.
    filter: Option<String>,
    /// Time every case of the tests at its own size instead.
    #[arg(long)]
    cases: bool,
    /// Begin no operator after so many minutes; then each operator's first shape comes before any's second.
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Compare with what an earlier run wrote.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Where the times go.
    #[arg(long, default_value = "target/bench/ops.json", value_name = "FILE")]
    json: PathBuf,
    /// Where the picture goes.
    #[arg(long, default_value = "target/bench/ops.png", value_name = "FILE")]
    picture: PathBuf,
}

fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    // Read first: a file that is not there should not cost a run.
    let older = arguments.against.as_deref().map(Record::read).transpose()?;
    let id = DeviceId::from_env()?;
    if !matches!(id.driver(), DriverKind::Hip | DriverKind::Cuda) {
        println!(
            "skipped: {id} is no GPU; set ROCFIRE_DEVICE to one (`cargo profile --modelled` counts on an emulated one)"
        );
        return Ok(());
    }
    // No kernel that only stands in for another is timed.
    let device = Device::open(id, Config::from_env()?.with_generic(Generic::Never))?;
    let ours = Device::open(id, device.config().clone().with_vendor(false))?;
    let filter = arguments.filter.unwrap_or_default();
    let info = device.info();
    let mut record = Record {
        device: info.name.clone(),
        id: id.to_string(),
        driver: info.driver_version.clone(),
        copy_bytes_per_second: timing::ceiling(&device)?,
        rows: Vec::new(),
    };
    println!("{} ({id}), {}", record.device, record.driver);
    println!(
        "copy within device memory: {:.0} GB/s, read and written; shares are of this",
        record.copy_bytes_per_second / 1e9
    );
    if let Some(older) = &older {
        println!("against {} ({}), {}", older.device, older.id, older.driver);
    }
    record::print_head(older.is_some());
    let ends = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes));
    let (mut failures, mut left) = (0, 0);
    let mut measure = |name: &str, make: &dyn Fn(&Device) -> Result<Op, Error>| {
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            left += 1;
            return Ok(());
        }
        let device = if name.ends_with(OURS) { &ours } else { &device };
        let timed = make(device).and_then(|op| row(device, &op));
        match timed {
            Ok(row) => {
                record::print_row(&row, record.copy_bytes_per_second, older.as_ref());
                record.rows.push(row);
                // After each, so that a run that does not come to its end leaves what it has.
                record.write(&arguments.json)?;
            }
            Err(error) => {
                println!("{name:<26} failed: {error}");
                failures += 1;
            }
        }
        Ok::<(), Error>(())
    };
    if arguments.cases {
        for case in rocfire_tests::case::all().iter().filter(|case| case.name().contains(&filter)) {
            measure(&case.name(), &|device| cases::op(device, case))?;
        }
    } else {
        for (name, make) in operators(arguments.minutes.is_some()).iter().filter(|(name, _)| name.contains(&filter)) {
            measure(name, &|device| make(device, name))?;
        }
    }
    if left > 0 {
        println!("left out for time: {left} operators");
    }
    if record.rows.is_empty() && failures == 0 && left == 0 {
        return Err(format!("no operator has {filter:?} in its name").into());
    }
    if let Some(older) = &older {
        println!("{}", record::summary(&record, older));
    }
    record.write(&arguments.json)?;
    picture::draw(&record, older.as_ref(), &arguments.picture)?;
    println!("written: {}, {}", arguments.json.display(), arguments.picture.display());
    if failures > 0 { Err(format!("{failures} operators failed").into()) } else { Ok(()) }
}

/// Every operator; where time is short, the first shape of each before the second of any.
fn operators(in_turn: bool) -> Vec<Make> {
    let scaled = scaled::ops();
    let all = [
        fused::OPS,
        launchers::OPS,
        gguf::OPS,
        &scaled,
        product::OPS,
        quant::OPS,
        conv::OPS,
        attention::OPS,
        serving::OPS,
        latents::OPS,
        tokens::OPS,
        recurrent::OPS,
    ]
    .concat();
    if !in_turn {
        return all;
    }
    let mut shapes: HashMap<&str, usize> = HashMap::new();
    let mut numbered: Vec<(usize, Make)> = Vec::new();
    for make in all {
        let shape = shapes.entry(make.0).or_default();
        numbered.push((*shape, make));
        *shape += 1;
    }
    numbered.sort_by_key(|(shape, _)| *shape);
    numbered.into_iter().map(|(_, make)| make).collect()
}

/// Checks an operator, then times it.
fn row(device: &Device, op: &Op) -> Result<Row, Error> {
    (op.launch)(0)?;
    device.sync()?;
    (op.check)()?;
    let (ms, spread) = timing::time(device, &*op.launch)?;
    Ok(Row {
        operator: op.name.clone(),
        shape: op.shape.clone(),
        ms,
        spread,
        bytes: op.bytes,
        flops: op.flops,
        bound_by_memory: op.is_bound_by_memory(),
    })
}
