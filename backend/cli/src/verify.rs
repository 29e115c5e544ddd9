//! `rocfire verify`: everything that CI checks, in the order in which it fails fastest.
//!
//! Each stage runs cargo and is timed; the closing line counts the tests of all of them. Used as `.ci/run`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::install::{self, Need};

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run only the cases of this operator (`gemm`, `softmax`, …), or whose name holds this text.
    operator: Option<String>,
    /// Do not install anything: end with the command to run instead.
    #[arg(long)]
    no_install: bool,
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

/// Test results, added up over test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

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
    if let Some(operator) = &arguments.operator {
        let words = ["test", "--package", "rocfire-tests", "--test", "cases", "--", operator.as_str()];
        stage("cases", &mut || tests(&words, &mut counts));
    } else {
        stage("format", &mut || cargo(&["fmt", "--all", "--check"], &[]));
        stage("clippy", &mut || cargo(&["clippy", "--all-targets", "--", "-D", "warnings"], &[]));
        stage("tests", &mut || tests(&["test", "--no-fail-fast", "--", "--show-output"], &mut counts));
        stage("docs", &mut || cargo(&["doc", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]));
        // Both need a Burn with other features than the rest: they are built once, together.
        let apart = ["check", "--package", "compare", "--package", "remote", "--all-targets"];
        stage("compare and remote type-check", &mut || cargo(&apart, &[]));
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

fn minutes(took: Duration) -> f64 {
    took.as_secs_f64() / 60.0
}

fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn cargo(words: &[&str], environment: &[(&str, &str)]) -> bool {
    let status = cargo_command().args(words).envs(environment.iter().copied()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs tests, shows what is worth reading, adds up what they counted.
fn tests(words: &[&str], counts: &mut Counts) -> bool {
    let Ok(mut child) = cargo_command().args(words).stdout(Stdio::piped()).spawn() else { return false };
    let output = child.stdout.take().expect("stdout is piped");
    let mut reader = Reader::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if reader.shows(&line) {
            println!("{line}");
        }
    }
    counts.passed += reader.counts.passed;
    counts.failed += reader.counts.failed;
    counts.skipped += reader.counts.skipped;
    child.wait().is_ok_and(|status| status.success())
}

/// Follows the output of test programs.
#[derive(Debug, Default)]
struct Reader {
    counts: Counts,
    in_successes: bool,
    /// Skipped tests of the program that is running; its result will count them as passed.
    skipped: u64,
}

impl Reader {
    /// Takes a line in; whether a person should see it. A test that lacked something to run on prints a line that
    /// starts with `skipped:`; it counts as skipped, not as passed.
    fn shows(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            self.counts.passed += number_before(result, " passed").saturating_sub(self.skipped);
            self.counts.skipped += std::mem::take(&mut self.skipped);
            self.counts.failed += number_before(result, " failed");
            return true;
        }
        if line == "successes:" || line == "failures:" {
            self.in_successes = line == "successes:";
            return !self.in_successes;
        }
        if line.starts_with("skipped:") {
            self.skipped += 1;
            return true;
        }
        let passed = line.starts_with("test ") && line.ends_with(" ... ok");
        !(self.in_successes || line.is_empty() || passed)
    }
}

fn number_before(text: &str, unit: &str) -> u64 {
    let Some((before, _)) = text.split_once(unit) else { return 0 };
    before.rsplit([' ', '.']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(output: &str) -> Counts {
        let mut reader = Reader::default();
        for line in output.lines() {
            reader.shows(line);
        }
        reader.counts
    }

    #[test]
    fn results_of_several_programs_are_added_up() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n";
        assert_eq!(counts(output), Counts { passed: 13, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_skipped_test_did_not_pass() {
        let output = "successes:\n\n---- a stdout ----\nskipped: no libamdhip64\n\nsuccesses:\n    a\n    b\n\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(counts(output), Counts { passed: 1, failed: 0, skipped: 1 });
    }

    #[test]
    fn only_what_matters_is_shown() {
        let mut reader = Reader::default();
        assert!(!reader.shows("test a ... ok"));
        assert!(reader.shows("test b ... FAILED"));
        assert!(!reader.shows("successes:"));
        assert!(!reader.shows("---- a stdout ----"));
        assert!(reader.shows("failures:"));
        assert!(reader.shows("---- b stdout ----"));
    }
}
