//! Times the first minutes of a newcomer: from the start of a process to its first result, with nothing compiled before.
//!
//! `cargo bench-cold` is short for it. Each program runs in a process of its own: a product of matrices, the first training step of
//! the demo (Burn), the first token of Llama's shape (Candle). Each is run with an empty cache, with the cache that this left,
//! and with an empty cache, a pack made of it and no compiler in reach. What a program computed is compared between the three; a
//! NaN is refused. Time ends when the line with the result has come; the process is then asked for its peak memory and ended.

mod program;
mod record;
mod run;

use std::path::{Path, PathBuf};

use clap::Parser;
use rocfire_hal::compile::PackMaker;
use rocfire_hal::doctor::report;
use rocfire_hal::{Config, DeviceId, DriverKind};

use program::Program;
use record::{Mode, Row};

type Error = Box<dyn std::error::Error>;

/// Times programs from the start of their process to their first result: cold, warm, and from a pack.
#[derive(Debug, Parser)]
#[command(name = "bench-cold")]
struct Arguments {
    /// Only these of matmul, demo, llama.
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Devices as ROCFIRE_DEVICE names them; unless said, the GPUs of this machine and the emulated default.
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Runs of each, of which the median counts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Where the times go.
    #[arg(long, default_value = "target/bench/cold.json", value_name = "FILE")]
    json: PathBuf,
    /// Do this program's work in this process: what the runs start.
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    if arguments.child {
        return program::product();
    }
    let programs = Program::named(&arguments.programs)?;
    run::build(&programs)?;
    let devices = if arguments.device.is_empty() { devices() } else { arguments.device.clone() };
    let mut rows = Vec::new();
    record::print_head();
    for device in &devices {
        for &program in &programs {
            let measured = measure(program, device, arguments.runs as usize)?;
            measured.iter().for_each(record::print_row);
            rows.extend(measured);
        }
    }
    record::write(&arguments.json, &rows)?;
    println!("written: {}", arguments.json.display());
    Ok(())
}

/// The GPUs of this machine, and the emulated default.
fn devices() -> Vec<String> {
    let report = report();
    let mut names = Vec::new();
    for (driver, devices) in [("hip", &report.hip_devices), ("cuda", &report.cuda_devices)] {
        if devices.first().is_some_and(Result::is_ok) {
            names.push(format!("{driver}:0"));
        }
    }
    names.push(format!("emulated:{}", rocfire_arch::DEFAULT_EMULATED));
    names
}

/// A program on a device: cold, warm, from a pack.
fn measure(program: Program, device: &str, runs: usize) -> Result<Vec<Row>, Error> {
    let emulated = device.starts_with("emulated");
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); Mode::ALL.len()];
    for _ in 0..runs {
        let folder = tempfile::tempdir()?;
        let (cache, pack) = (folder.path().join("cache"), folder.path().join("kernels.rocpack"));
        for (at, mode) in Mode::ALL.into_iter().enumerate() {
            if mode == Mode::Pack {
                make_pack(device, &cache, &pack)?;
            }
            let place =
                run::Place { device, emulated, cache: &cache, pack: &pack, empty: &folder.path().join("empty") };
            rows[at].push(run::run(program, mode, &place)?);
        }
    }
    let results: Vec<&str> = rows.iter().flatten().map(|row| &*row.result).collect();
    if let Some(other) = results.iter().find(|&&result| result != results[0]) {
        return Err(format!("{} on {device} gave {} and {other}", program.name(), results[0]).into());
    }
    Ok(rows.into_iter().map(record::median).collect())
}

/// Packs what a cold run has left in its cache.
fn make_pack(device: &str, cache: &Path, pack: &Path) -> Result<(), Error> {
    let vars = [("ROCFIRE_DEVICE", device)].map(|(name, value)| (name.into(), value.into()));
    let (config, _) = Config::from_vars(vars)?;
    let arch = DeviceId::choose(&config)?.arch();
    let mut maker = PackMaker::new(&config.with_cache_dir(cache.to_owned()));
    if maker.add_cached(arch)? == 0 {
        return Err(format!("the cold run on {device} has left no kernel in its cache").into());
    }
    maker.write(pack)?;
    Ok(())
}

/// Whether times on a device say something of a card.
fn is_real(device: &str) -> bool {
    [DriverKind::Hip, DriverKind::Cuda].iter().any(|driver| device.starts_with(&driver.to_string()))
}
