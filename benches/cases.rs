//! Every case on a real GPU: median time, flops and bytes per second. Each result is checked before it is timed.
//!
//! It refuses to time an emulated device, whose times say nothing of a card.

use std::time::{Duration, Instant};

use rocfire_hal::{Device, DeviceId, DriverKind};
use rocfire_tests::{Case, case};

/// Launches that are timed; the median of so many is steady to a few percent.
const LAUNCHES: usize = 30;
const WARM_UP: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let id = DeviceId::from_env()?;
    if !matches!(id.driver(), DriverKind::Hip | DriverKind::Cuda) {
        println!("skipped: {id} is no GPU; set ROCFIRE_DEVICE to one");
        return Ok(());
    }
    let device = Device::get(id)?;
    println!("{}", device.info().name);
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for case in case::all().iter().filter(|case| case.name().contains(&filter)) {
        match time(case, &device) {
            Ok(median) => print_row(case, median),
            Err(error) => println!("{:<60} {error}", case.name()),
        }
    }
    Ok(())
}

/// The median time of a launch, by the host's clock between two synchronisations.
fn time(case: &Case, device: &Device) -> Result<Duration, case::Failure> {
    case.check(device)?;
    let mut run = case.prepare(device)?;
    let mut times = Vec::with_capacity(LAUNCHES);
    for launch in 0..WARM_UP + LAUNCHES {
        device.sync()?;
        let start = Instant::now();
        run.launch()?;
        device.sync()?;
        if launch >= WARM_UP {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[LAUNCHES / 2])
}

fn print_row(case: &Case, median: Duration) {
    let seconds = median.as_secs_f64();
    let (gflops, gbytes) = (case.cost.flops / seconds / 1e9, case.cost.bytes / seconds / 1e9);
    println!("{:<60} {:9.1} µs {gflops:9.1} GFLOP/s {gbytes:9.1} GB/s", case.name(), seconds * 1e6);
}
