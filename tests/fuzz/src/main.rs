//! `fuzz-ops`: random operators until the time is over.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use rocfire_burn::RocmDevice;
use rocfire_fuzz::{Burn, Candle, CandleGradients, Gradients, Plan, run, run_launchers};

/// Runs random operators, alone and in programs, on a device and on the framework's own CPU backend.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long, all families together.
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// Where the programs come from; a fresh one if it is not given. It is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// As `ROCFIRE_DEVICE`: `emulated:gfx942`, `cuda:0`, `hip:0`.
    #[arg(long)]
    device: Option<String>,
    /// Only these operators.
    #[arg(long)]
    family: Vec<Name>,
    /// Only operators whose name holds this.
    #[arg(long)]
    operator: Option<String>,
    /// Only the program of this number.
    #[arg(long)]
    at: Option<u64>,
    /// Defects of a family after which it ends.
    #[arg(long, default_value_t = 20)]
    most_found: usize,
    /// Tells how often each operator ran with each type.
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Burn's operators, against Flex.
    Burn,
    /// Gradients of Burn's operators, against those on Flex.
    Gradients,
    /// Candle's operators, against its CPU device.
    Candle,
    /// Gradients of Candle's operators, against those on its CPU device.
    CandleGradients,
    /// Launchers of the operator library, against f64 oracles.
    Launchers,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let device = arguments.device.clone().or_else(|| std::env::var("ROCFIRE_DEVICE").ok());
    let device = device.unwrap_or_else(|| format!("emulated:{}", rocfire_arch::DEFAULT_EMULATED));
    // SAFETY: no other thread runs yet that could read the environment meanwhile.
    unsafe { std::env::set_var("ROCFIRE_DEVICE", &device) };
    let burn_device: RocmDevice = match device.parse() {
        Ok(device) => device,
        Err(error) => {
            eprintln!("--device {device}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 % 1_000_000);
    let seed = arguments.seed.unwrap_or_else(fresh);
    let families = if arguments.family.is_empty() { Name::value_variants().to_vec() } else { arguments.family };
    println!("device {device}, seed {seed}");
    let plan = Plan {
        time: Duration::from_secs_f64(60.0 * arguments.minutes / families.len() as f64),
        seed,
        at: arguments.at,
        operator: arguments.operator,
        most_found: arguments.most_found,
        tells_all: arguments.all,
    };
    let mut found = 0;
    for family in families {
        found += match family {
            Name::Burn => run(&Burn::new(burn_device), &plan),
            Name::Gradients => run(&Gradients::new(burn_device), &plan),
            Name::Launchers => match run_launchers(&plan) {
                Ok(found) => found,
                Err(error) => {
                    eprintln!("{device}: {error}");
                    return ExitCode::FAILURE;
                }
            },
            Name::CandleGradients => match CandleGradients::new() {
                Ok(gradients) => run(&gradients, &plan),
                Err(error) => {
                    eprintln!("{device}: {error}");
                    return ExitCode::FAILURE;
                }
            },
            Name::Candle => match Candle::new() {
                Ok(candle) => run(&candle, &plan),
                Err(error) => {
                    eprintln!("{device}: {error}");
                    return ExitCode::FAILURE;
                }
            },
        };
    }
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
