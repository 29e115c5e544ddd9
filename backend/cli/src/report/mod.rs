//! `rocfire report`: everything that can be found out about a card, in one folder that can be given away.
//!
//! The parts are a table (`parts`). Each runs in processes of its own (`process`) with a limit, so that a driver that crashes or hangs
//! costs one part and not the report. What came of them is kept in the folder (`state`): a second call goes on from there, tests within
//! a part too (`journal`). Nothing that is written names a user, a machine or a folder (`scrub`). This process opens no device.

mod cold;
pub mod counters;
mod journal;
mod page;
mod parts;
mod peers;
mod picture;
mod process;
mod programs;
mod runner;
mod scrub;
mod state;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parts::{Context, PARTS, Part};
use programs::Place;
use runner::Runner;
use scrub::Scrub;
use state::State;

/// What the report ends with when the driver has gone.
const NO_ANSWER: &str = "the device does not answer. What was found is kept: when it does (after a reset, or when the machine was \
    started anew), the same command goes on with the next part";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Take so many minutes in all: each part gets its share. Building programs is not counted.
    #[arg(long, value_name = "N", value_parser = minutes)]
    minutes: Option<f64>,
    /// Where everything goes. What an earlier call has found there is not run again.
    #[arg(long, value_name = "FOLDER", default_value = "target/report")]
    folder: PathBuf,
    /// Run this part again, or `all`.
    #[arg(long, value_name = "PART")]
    again: Vec<String>,
    /// Run only these parts, and the doctor.
    #[arg(value_name = "PART")]
    only: Vec<String>,
    /// Where the programs of the parts are: cases, beyond, silicon, bench-ops, models, candle-models, bench-cold, fuzz-ops. Without it
    /// cargo builds them if it has started this one, else they lie beside it.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// A number of minutes.
fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|minutes: &f64| minutes.is_finite() && *minutes > 0.0);
    number.ok_or_else(|| "a number above 0".to_owned())
}

/// Runs the parts that nothing is known of, and writes what is known of all.
///
/// # Errors
/// Arguments that name no part, a folder of another device's report, files that cannot be written; parts that are red; a device that
/// no longer answers.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    for name in arguments.only.iter().chain(arguments.again.iter().filter(|name| *name != "all")) {
        if !PARTS.iter().any(|part| part.name == name) {
            let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            return Err(format!("{name:?} is no part: {}", names.join(", ")).into());
        }
    }
    let failed = |error| format!("cannot make {}: {error}", arguments.folder.display());
    std::fs::create_dir_all(&arguments.folder).map_err(failed)?;
    let folder = std::path::absolute(&arguments.folder)?;
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    let mut state = State::open(&folder, env!("CARGO_PKG_VERSION"), day)?;
    let place = Place::find(arguments.programs.as_deref())?;
    let cargo = place.is_cargo();
    let context = Context { folder, device: std::env::var("ROCFIRE_DEVICE").unwrap_or_default(), cargo };
    forget(&mut state, &context, arguments)?;
    let own = std::env::current_exe()?;
    let scrub = Scrub::of_machine(&[&context.folder, own.parent().unwrap_or(Path::new("/")), &std::env::temp_dir()]);
    let begun = Instant::now();
    let mut runner = Runner { context, place, scrub, state };
    let mut answers = runner.find_device(&PARTS[0])?;
    let wanted = |part: &&Part| arguments.only.is_empty() || arguments.only.iter().any(|name| name == part.name);
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    let time = arguments.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    answers = answers && runner.run_all(&parts, time.map(|time| time.saturating_sub(begun.elapsed())))?;
    runner.sweep()?;
    page::write(&runner.context, &runner.state)?;
    page::print(&runner.context, &runner.state);
    if !answers {
        return Err(NO_ANSWER.into());
    }
    let red = runner.state.found.iter().filter(|found| found.status.is_red()).count();
    if red > 0 { Err(format!("{red} parts need a look").into()) } else { Ok(()) }
}

/// Forgets what is to be run again.
fn forget(state: &mut State, context: &Context, arguments: &Arguments) -> Outcome<()> {
    let all = arguments.again.iter().any(|name| name == "all");
    for part in PARTS {
        let asked = all || arguments.again.iter().any(|name| name == part.name);
        if asked {
            state.forget(part.name);
            runner::forget_files(context, part)?;
        }
    }
    Ok(())
}
