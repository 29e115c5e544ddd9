//! `rocfire verify`: everything that CI checks, in the order in which it fails fastest.
//!
//! Each stage runs cargo and is timed; the closing line counts the tests of all of them. Used as `.ci/run`.

mod outside;
mod report;
mod room;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use self::outside::Sources;
use self::report::{Counts, tests};
use crate::install::{self, Need};

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run only the cases of this operator (`gemm`, `softmax`, …), or whose name holds this text.
    operator: Option<String>,
    /// Do not install anything: end with the command to run instead.
    #[arg(long)]
    no_install: bool,
    /// Run Candle's own device tests, and candle-transformers' models against Candle's CPU device, instead of our tests.
    #[arg(long)]
    outside: bool,
    /// Run kernels that others published, which are downloaded for it, and write `tests/foreign.md`, instead of our tests.
    #[arg(long)]
    foreign: bool,
    /// Build for Burn 0.23, with clippy's word, train a few steps by it and run its tests, of operators, fusion, modules and examples,
    /// instead of our tests.
    #[arg(long)]
    burn_next: bool,
    /// Of `--outside`: only the models whose rows (`qwen3 bf16`, `gemma flash`, …) hold this text, and no tests; of `--foreign`:
    /// only launches whose family, architecture, name or shape holds it, and no table; of `--mutants`: only defects whose area or
    /// name holds it.
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    #[command(flatten)]
    mutants: crate::mutants::Arguments,
}

/// Why verification ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something is missing.
    #[error(transparent)]
    Install(#[from] install::Error),
    /// Stages failed.
    #[error("failed: {0}")]
    Failed(String),
}

/// How long random operators run, all families together.
const MINUTES_OF_RANDOM: &str = "3";

/// The packages for Burn 0.23, which are a workspace of their own, for a lock file of their own.
const NEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../burn/next/Cargo.toml");
/// Steps that Burn 0.23 trains the demo's transformer for: the first compiles, the second runs plans that came before.
const STEPS_OF_NEXT: &str = "2";
/// Files of tests that run by Burn 0.23 whenever everything is checked, the modules' and that of a user's kernel: with their
/// compilation half a minute of a core, the examples another.
const TESTS_OF_NEXT: [&str; 5] = ["gate", "latents", "multi_head", "operators", "slot"];

struct Stage {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// Runs the stages.
///
/// # Errors
/// [`Error::Install`] if a tool is missing and may not be installed, [`Error::Failed`] naming the stages that failed.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    install::ensure(Need::CompilerAndTools, arguments.no_install)?;
    if arguments.mutants.mutants {
        return crate::mutants::run(&arguments.mutants, arguments.filter.as_deref());
    }
    if let Some(folder) = own_folder() {
        room::warn_if_short(&folder);
    }
    let mut counts = Counts::default();
    let mut stages = Vec::new();
    let mut stage = |name: &'static str, run: &mut dyn FnMut() -> bool| {
        println!("== {name}");
        let start = Instant::now();
        let passed = run();
        let took = start.elapsed();
        println!("== {name}: {} in {:.1} min", if passed { "ok" } else { "FAILED" }, minutes(took));
        stages.push(Stage { name, took, passed });
    };
    if arguments.outside {
        let sources = Sources::find().ok_or_else(|| Error::Failed("cargo names no sources of Candle".to_owned()))?;
        if arguments.filter.is_none() {
            stage("Candle's device tests", &mut || sources.suites(&mut counts));
        }
        let filter = arguments.filter.as_deref().unwrap_or_default();
        stage("models", &mut || {
            let passed = sources.models(filter);
            // The models print their own counts.
            counts.passed += u64::from(passed);
            passed
        });
    } else if arguments.foreign {
        stage("kernels of others", &mut || {
            let passed = foreign(arguments);
            // The kernels' own program counts them.
            counts.passed += u64::from(passed);
            passed
        });
        // What was downloaded for it is where these tests look.
        stage("operators by them", &mut || {
            let of_theirs = ["--test", "aiter", "--test", "aiter_paged", "--test", "aiter_latents"];
            tests(&[&["test"], &of_theirs[..], &["--", "--show-output"]].concat(), &[], &mut counts)
        });
    } else if arguments.burn_next {
        stage("Burn 0.23", &mut train_by_next);
        stage("Burn 0.23: tests", &mut || {
            let words = next(&["test", "--workspace", "--no-fail-fast"], &["--", "--show-output"]);
            tests(&words, &[], &mut counts)
        });
        stage("Burn 0.23: clippy", &mut || {
            cargo(&next(&["clippy", "--workspace", "--all-targets"], &["--", "-D", "warnings"]), &[])
        });
    } else if let Some(operator) = &arguments.operator {
        let words = ["test", "--test", "cases", "--", operator.as_str()];
        stage("cases", &mut || tests(&words, &[], &mut counts));
    } else {
        crate::amd_runtime::ensure(arguments.no_install);
        let next = ["fmt", "--manifest-path", NEXT, "--all", "--check"];
        stage("format", &mut || cargo(&["fmt", "--all", "--check"], &[]) && cargo(&next, &[]));
        stage("clippy", &mut || cargo(&["clippy", "--all-targets", "--", "-D", "warnings"], &[]));
        stage("hal for one driver", &mut || {
            let one = |driver| {
                let words =
                    format!("clippy --package rocfire-hal --no-default-features --features {driver} -- -D warnings");
                cargo(&words.split(' ').collect::<Vec<_>>(), &[])
            };
            ["hip", "cuda", "emulated"].into_iter().all(one)
        });
        stage("tests", &mut || tests(&["test", "--no-fail-fast", "--", "--show-output"], &[], &mut counts));
        // What the adapters make of programs, once more with every check of the emulator: the cases run launchers alone.
        let checked = ["test", "--no-fail-fast", "--test", "ops"];
        let all = [("ROCFIRE_CHECK", OsStr::new("all"))];
        stage("operators under checks", &mut || tests(&checked, &all, &mut counts));
        stage("random operators", &mut || random(&["--minutes", MINUTES_OF_RANDOM]));
        stage("docs", &mut || cargo(&["doc", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]));
        // Both need a Burn with other features than the rest: they are built once, together.
        let apart = ["check", "--package", "compare", "--package", "remote", "--all-targets"];
        stage("compare and remote type-check", &mut || cargo(&apart, &[]));
        stage("Burn 0.23", &mut train_by_next);
        stage("Burn 0.23: modules and examples", &mut || modules_by_next(&mut counts));
    }
    for stage in &stages {
        println!("{:6.1} min  {}  {}", minutes(stage.took), if stage.passed { "ok    " } else { "FAILED" }, stage.name);
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    let failed: Vec<&str> = stages.iter().filter(|stage| !stage.passed).map(|stage| stage.name).collect();
    if !failed.is_empty() {
        return Err(Error::Failed(failed.join(", ")).into());
    }
    if counts.passed == 0 {
        return Err(Error::Failed("no test ran".to_owned()).into());
    }
    Ok(())
}

/// A command of cargo on the packages for Burn 0.23. They are built into the target folder of this program, so that crates which both
/// workspaces have alike are built once.
fn next(words: &[&str], behind: &[&str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = words.iter().chain(&["--manifest-path", NEXT]).map(Into::into).collect();
    if let Some(target) = own_folder().as_deref().and_then(Path::parent) {
        all.extend(["--target-dir".into(), target.into()]);
    }
    all.extend(behind.iter().map(Into::into));
    all
}

/// Builds the adapter for Burn 0.23 and trains the demo's transformer by it, which compares what it has trained with Burn's CPU backend.
fn train_by_next() -> bool {
    cargo(&next(&["run", "--bin", "demo-next"], &["--", STEPS_OF_NEXT]), &[])
}

/// Builds the examples for Burn 0.23, and tests what is built of its modules.
fn modules_by_next(counts: &mut Counts) -> bool {
    let files: Vec<&str> = TESTS_OF_NEXT.iter().flat_map(|name| ["--test", name]).collect();
    let words: Vec<&str> = ["test", "--no-fail-fast"].into_iter().chain(files).collect();
    cargo(&next(&["build", "--bins"], &[]), &[]) && tests(&next(&words, &["--", "--show-output"]), &[], counts)
}

/// Kernels of others, by a package of its own: nobody else needs it built.
fn foreign(arguments: &Arguments) -> bool {
    let mut words = vec!["run", "--quiet", "--package", "foreign", "--"];
    match &arguments.filter {
        Some(filter) => words.extend(["--filter", filter]),
        None => words.push("--bless"),
    }
    if arguments.no_install {
        words.push("--no-install");
    }
    cargo(&words, &[])
}

/// Our kernels beside AMD's, by the package of those.
///
/// # Errors
/// It failed, which it has told.
pub fn against(table: &str, filter: Option<&str>, no_install: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut words = vec!["run", "--quiet", "--package", "foreign", "--", table];
    match filter {
        Some(filter) => words.extend(["--filter", filter]),
        None => words.push("--bless"),
    }
    if no_install {
        words.push("--no-install");
    }
    if cargo(&words, &[]) { Ok(()) } else { Err("kernels were not counted".into()) }
}

/// Random operators, by the program that the tests' stage has built: `cargo run` would build its libraries again, for other features. It
/// prints its seed.
fn random(words: &[&str]) -> bool {
    let Some(program) = own_folder().map(|folder| folder.join("fuzz-ops")) else { return false };
    match Command::new(&program).args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", program.display());
            false
        }
    }
}

/// The folder of this program.
fn own_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

fn minutes(took: Duration) -> f64 {
    took.as_secs_f64() / 60.0
}

fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn cargo(words: &[impl AsRef<OsStr>], environment: &[(&str, &str)]) -> bool {
    let status = cargo_command().args(words).envs(environment.iter().copied()).status();
    status.is_ok_and(|status| status.success())
}
