//! `rocfire top`: what the devices of running processes do, as it happens.
//!
//! Every process that has a device open answers on a socket in the folder of compiled kernels (`rocfire_hal::watch`). On a terminal
//! this is a screen (`top/screen.rs`, feature `top`), elsewhere a line for each device every second (`top/plain.rs`). What is
//! shown of two answers is worked out in `top/rates.rs`.

mod plain;
mod rates;
#[cfg(all(unix, any(feature = "top", test)))]
mod screen;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rocfire_hal::{Config, watch};

use rates::Rates;

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Processes are found in the folder of compiled kernels, ROCFIRE_CACHE_DIR, unless they were started with \
ROCFIRE_WATCH=0. On the screen: up and down choose a device, q ends."
)]
pub struct Arguments {
    /// Only this process.
    #[arg(long)]
    pid: Option<u32>,
    /// Seconds between two looks.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// End after so many looks.
    #[arg(long, value_name = "N")]
    times: Option<u64>,
    /// Lines, on a terminal too.
    #[arg(long)]
    plain: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.1 to 3600".to_owned())
}

/// Where processes are looked for, and which.
struct Watch {
    folder: PathBuf,
    pid: Option<u32>,
    rates: Rates,
}

impl Watch {
    fn look(&mut self) {
        let mut processes = watch::processes(&self.folder);
        processes.retain(|process| self.pid.is_none_or(|pid| pid == process.pid));
        self.rates.update(&processes, Instant::now());
    }
}

/// Watches until somebody ends it.
///
/// # Errors
/// For settings that cannot be read, and a terminal that cannot be written to.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Config::from_env()?.cache_dir;
    let mut watch = Watch { folder, pid: arguments.pid, rates: Rates::default() };
    let (every, times) = (Duration::from_secs_f64(arguments.every), arguments.times);
    if !arguments.plain && std::io::stdout().is_terminal() {
        #[cfg(all(unix, feature = "top"))]
        return screen::run(&mut watch, every, times);
        #[cfg(not(all(unix, feature = "top")))]
        eprintln!("this build has no screen: `cargo top` has one");
    }
    plain::run(&mut watch, every, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_between_looks_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "x", "1e9"] {
            assert!(seconds(wrong).unwrap_err().contains("0.1"), "{wrong}");
        }
    }
}
