//! `cargo verify --foreign`: code objects that others published, run on the emulator and compared with references in f64.

mod against;
mod bench;
mod bundle;
mod case;
mod decode;
mod family;
mod findings;
mod number;
mod package;
mod published;
mod table;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rayon::prelude::*;

use crate::case::{Case, Verdict};

/// Runs code objects that others published and compares them with references in f64.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only those whose family, architecture, name or shape, joined by blanks, holds this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Put the counts of AITER's kernels beside those of our operators instead; `--filter` is for the operator's name and architecture.
    #[arg(long, conflicts_with = "no_checks")]
    against: bool,
    /// Put the modelled rates of AMD's kernels beside published ones instead; `--filter` is for the operator.
    #[arg(long, conflicts_with_all = ["no_checks", "against"])]
    published: bool,
    /// Do not run them under the emulator's checks.
    #[arg(long)]
    no_checks: bool,
    /// Do not download packages.
    #[arg(long)]
    no_install: bool,
    /// Write `tests/foreign.md`, with `--against` `tests/against.md`, with `--published` `tests/published.md`.
    #[arg(long, conflicts_with_all = ["filter", "no_checks"])]
    bless: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases; whether each came out as is known of it.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = package::folder()?;
    let objects = package::aiter(&folder, !arguments.no_install)?;
    let filter = arguments.filter.as_deref().unwrap_or_default();
    if arguments.against || arguments.published {
        let (page, path) = match arguments.against {
            true => (against::page(&objects, filter)?, concat!(env!("CARGO_MANIFEST_DIR"), "/../against.md")),
            false => (published::page(&objects, filter)?, concat!(env!("CARGO_MANIFEST_DIR"), "/../published.md")),
        };
        println!("{page}");
        if arguments.bless {
            std::fs::write(path, page)?;
        }
        return Ok(true);
    }
    let compiled = package::triton(&folder, !arguments.no_install)?;
    let bundled = package::bitsandbytes(&folder, !arguments.no_install)?;
    let decoded = decode::all(&objects)?;
    println!(
        "{} instructions of {} code objects, of them not decoded: {}",
        decoded.instructions,
        objects.len(),
        decoded.refused.len()
    );
    decoded.refused.iter().take(20).for_each(|refused| println!("{refused}"));
    let mut cases = family::cases(&objects);
    cases.extend(compiled.iter().flat_map(family::triton::cases));
    cases.extend(bundled.iter().flat_map(family::blockwise::cases));
    cases.retain(|case| {
        format!("{} {} {} {}", case.family, case.object.arch, case.object.name, case.shape).contains(filter)
    });
    let judge = |case: &Case| {
        let start = Instant::now();
        let verdict = case.judge(!arguments.no_checks);
        println!("{} [{:.1} s]", table::line(case, &verdict), start.elapsed().as_secs_f64());
        verdict
    };
    let verdicts: Vec<Verdict> = cases.par_iter().map(judge).collect();
    let judged: Vec<(&Case, &Verdict)> = cases.iter().zip(&verdicts).collect();
    let unexpected: Vec<_> = judged.iter().filter(|(case, verdict)| !findings::is_expected(case, verdict)).collect();
    for (case, verdict) in &unexpected {
        println!("unexpected: {}", table::line(case, verdict));
    }
    println!("{}", table::summary(&judged));
    if arguments.bless {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../foreign.md"), table::page(&judged, objects.len()))?;
    }
    Ok(unexpected.is_empty() && !judged.is_empty() && decoded.refused.is_empty())
}
