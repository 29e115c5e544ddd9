//! What test programs print: which lines a person should see, and how many tests passed, failed or were skipped.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};

use super::cargo_command;

/// Test results, added up over test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

/// Runs tests, shows what is worth reading, adds up what they counted.
pub fn tests(words: &[impl AsRef<OsStr>], environment: &[(&str, &OsStr)], counts: &mut Counts) -> bool {
    let mut command = cargo_command();
    watch(command.args(words).envs(environment.iter().copied()), counts).is_some_and(|failed| failed.is_empty())
}

/// Runs a command that runs tests, shows and adds up the same. Returns the names of those that failed; `None` if it failed
/// otherwise.
pub fn watch(command: &mut Command, counts: &mut Counts) -> Option<Vec<String>> {
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let output = child.stdout.take().expect("stdout is piped");
    let mut reader = Reader::default();
    let mut bar: Option<ProgressBar> = None;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let shown = reader.shows(&line);
        if !reader.within {
            // Cargo says which program comes next where the bar was.
            bar.take().inspect(ProgressBar::finish_and_clear);
        }
        match &bar {
            Some(bar) if shown => bar.suspend(|| println!("{line}")),
            None if shown => println!("{line}"),
            Some(_) | None => {}
        }
        if let Some(tests) = tests_that_begin(&line) {
            bar = Some(bar_of(tests));
        } else if let Some(bar) = &bar
            && let Some(name) = test_that_ended(&line)
        {
            bar.inc(1);
            bar.set_message(name.to_owned());
        }
    }
    counts.passed += reader.counts.passed;
    counts.failed += reader.counts.failed;
    counts.skipped += reader.counts.skipped;
    let ended_well = child.wait().is_ok_and(|status| status.success());
    // A program that ended badly did so because of tests, or in the midst of them.
    (ended_well || !reader.failed.is_empty() && !reader.within).then_some(reader.failed)
}

/// A bar of a test program, on a terminal.
fn bar_of(tests: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {elapsed}<{eta} {wide_msg}").expect("a constant");
    ProgressBar::new(tests).with_style(style)
}

/// How many tests a program is about to run, in the line that says so.
fn tests_that_begin(line: &str) -> Option<u64> {
    let (tests, word) = line.strip_prefix("running ")?.split_once(' ')?;
    tests.parse().ok().filter(|_| word.trim_end_matches('s') == "test")
}

/// The test that a line is the result of.
fn test_that_ended(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.split_once(" ... ")?.0)
}

/// Follows the output of test programs.
#[derive(Debug, Default)]
struct Reader {
    counts: Counts,
    failed: Vec<String>,
    /// Whether a test program has begun that has not come to its result.
    within: bool,
    in_successes: bool,
    /// Skipped tests of the program that is running; its result will count them as passed.
    skipped: u64,
}

impl Reader {
    /// Takes a line in; whether a person should see it. A test that lacked something to run on prints a line that
    /// starts with `skipped:`; it counts as skipped, not as passed.
    fn shows(&mut self, line: &str) -> bool {
        if tests_that_begin(line).is_some() {
            self.within = true;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.within = false;
            self.in_successes = false;
            self.counts.passed += number_before(result, " passed").saturating_sub(self.skipped);
            self.counts.skipped += std::mem::take(&mut self.skipped);
            self.counts.failed += number_before(result, " failed");
            return true;
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.failed.push(name.to_owned());
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
    fn a_bar_is_told_of_tests_that_begin_and_end() {
        assert_eq!(tests_that_begin("running 12 tests"), Some(12));
        assert_eq!(tests_that_begin("running 1 test"), Some(1));
        for other in ["running tests", "running 2 benches", "test a ... ok", "running late"] {
            assert_eq!(tests_that_begin(other), None, "{other}");
        }
        assert_eq!(test_that_ended("test norm::a ... ok"), Some("norm::a"));
        assert_eq!(test_that_ended("test result: ok. 1 passed"), None);
    }

    #[test]
    fn only_what_matters_is_shown() {
        let mut reader = Reader::default();
        assert!(!reader.shows("test a ... ok"));
        assert!(reader.shows("test b ... FAILED"));
        assert_eq!(reader.failed, ["b"]);
        assert!(reader.shows("running 2 tests"));
        assert!(reader.within);
        assert!(!reader.shows("successes:"));
        assert!(!reader.shows("---- a stdout ----"));
        assert!(reader.shows("failures:"));
        assert!(reader.shows("---- b stdout ----"));
    }
}
