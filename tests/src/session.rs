//! Tests that go on where an earlier process ended: with a journal of what began and what ended, and a time after which nothing begins.
//!
//! `rocfire report` runs the programs of this crate so, as a driver may take a whole process with it. `ROCFIRE_TEST_JOURNAL=FILE` names
//! the journal, which is read and written on; `ROCFIRE_TEST_SECONDS=N` is the time. Without them nothing differs.
//!
//! | line of the journal | |
//! | --- | --- |
//! | `of N` | a process has found so many tests |
//! | `begin NAME` | it runs |
//! | `ok NAME`, `failed NAME: WHY` | it ended |
//! | `over NAME` | it is the first of those that there was no time for |
//!
//! A test that began in a process and did not end in it is a suspect. Suspects run first, one at a time and nothing else, so that one
//! that begins and does not end a second time is the one that took the process with it: it is never run again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::case::Failure;

/// What a journal says of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Earlier {
    begun: u32,
    ended: bool,
}

/// What of the tests this process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Numbers of tests, in the order in which they run.
    pub tests: Vec<usize>,
    /// Whether they run one at a time.
    pub alone: bool,
}

/// One process' share of the tests.
#[derive(Debug)]
pub struct Session {
    journal: Option<Mutex<File>>,
    earlier: HashMap<String, Earlier>,
    ends: Option<Instant>,
    over: Once,
}

impl Session {
    /// As the environment says.
    ///
    /// # Errors
    /// A journal that cannot be read or written; a number of seconds that is none.
    pub fn from_env() -> Result<Session, Failure> {
        let seconds = match std::env::var("ROCFIRE_TEST_SECONDS") {
            Ok(text) => Some(text.parse().map_err(|_| format!("ROCFIRE_TEST_SECONDS={text} is no number of seconds"))?),
            Err(_) => None,
        };
        let path = std::env::var_os("ROCFIRE_TEST_JOURNAL");
        Session::new(path.as_deref().map(Path::new), seconds.map(Duration::from_secs))
    }

    /// With a journal, and a time from now on.
    ///
    /// # Errors
    /// A journal that cannot be read or written.
    pub fn new(journal: Option<&Path>, time: Option<Duration>) -> Result<Session, Failure> {
        let ends = time.map(|time| Instant::now() + time);
        let mut session = Session { journal: None, earlier: HashMap::new(), ends, over: Once::new() };
        let Some(path) = journal else { return Ok(session) };
        let failed = |error: std::io::Error| format!("journal {}: {error}", path.display());
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let text = std::fs::read_to_string(path).map_err(failed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // A process ended within a line.
            file.write_all(b"\n").map_err(failed)?;
        }
        for line in text.lines() {
            session.learn(line);
        }
        session.journal = Some(Mutex::new(file));
        Ok(session)
    }

    fn learn(&mut self, line: &str) {
        let Some((word, rest)) = line.split_once(' ') else { return };
        match word {
            "begin" => self.earlier.entry(rest.to_owned()).or_default().begun += 1,
            "ok" => self.earlier.entry(rest.to_owned()).or_default().ended = true,
            "failed" => {
                let name = rest.split_once(": ").map_or(rest, |(name, _)| name);
                self.earlier.entry(name.to_owned()).or_default().ended = true;
            }
            _ => {}
        }
    }

    /// Which tests of these names run now. Where there is a time, those that it leaves out are not those of one operator.
    pub fn plan(&self, names: &[String]) -> Planned {
        self.write(&format!("of {}", names.len()));
        let earlier = |name: &String| self.earlier.get(name).copied().unwrap_or_default();
        let with = |wanted: fn(Earlier) -> bool| -> Vec<usize> {
            (0..names.len()).filter(|&number| wanted(earlier(&names[number]))).collect()
        };
        let suspects = with(|earlier| !earlier.ended && earlier.begun == 1);
        if !suspects.is_empty() {
            return Planned { tests: suspects, alone: true };
        }
        let mut tests = with(|earlier| !earlier.ended && earlier.begun == 0);
        if self.ends.is_some() {
            tests.sort_by_key(|&number| scattered(&names[number]));
        }
        Planned { tests, alone: false }
    }

    /// Runs a test, unless the time is over.
    ///
    /// # Errors
    /// The test's.
    pub fn run(&self, name: &str, test: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            self.over.call_once(|| {
                println!("\nthere was no time for {name} and those behind it");
                self.write(&format!("over {name}"));
            });
            return Ok(());
        }
        self.write(&format!("begin {name}"));
        let failed = |why: &str| self.write(&format!("failed {name}: {}", why.replace('\n', " ")));
        match catch_unwind(AssertUnwindSafe(test)) {
            Ok(Ok(())) => {
                self.write(&format!("ok {name}"));
                Ok(())
            }
            Ok(Err(error)) => {
                failed(&error.to_string());
                Err(error)
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                failed(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked"));
                resume_unwind(panic)
            }
        }
    }

    /// A line of the journal. One that cannot be written is lost: its test will be taken for a suspect.
    fn write(&self, line: &str) {
        if let Some(file) = &self.journal {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// A number that has nothing to do with what the name says: FNV-1a.
fn scattered(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["gemm/f32/1", "gemm/f32/2", "softmax/f16/3", "sort/i32/4"].map(str::to_owned).to_vec()
    }

    fn path(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("rocfire-session-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn without_settings_everything_runs_in_order() {
        let session = Session::new(None, None).unwrap();
        assert_eq!(session.plan(&names()), Planned { tests: vec![0, 1, 2, 3], alone: false });
        assert!(session.run("a", || Ok(())).is_ok());
        assert_eq!(session.run("a", || Err("why".into())).unwrap_err().to_string(), "why");
    }

    #[test]
    fn a_test_that_ends_two_processes_is_not_run_a_third_time_and_the_rest_goes_on() {
        let path = path("crash");
        let first = Session::new(Some(&path), None).unwrap();
        first.plan(&names());
        first.run(&names()[0], || Ok(())).unwrap();
        // Two run at once when the process ends.
        first.write("begin gemm/f32/2");
        first.write("begin softmax/f16/3");
        drop(first);
        let second = Session::new(Some(&path), None).unwrap();
        assert_eq!(second.plan(&names()), Planned { tests: vec![1, 2], alone: true });
        second.run(&names()[1], || Err("no: good\nat all".into())).unwrap_err();
        second.write("begin softmax/f16/3");
        drop(second);
        let third = Session::new(Some(&path), None).unwrap();
        assert_eq!(third.plan(&names()), Planned { tests: vec![3], alone: false });
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("failed gemm/f32/2: no: good at all\n"), "{text}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_only_itself() {
        let path = path("cut");
        std::fs::write(&path, "of 4\nok gemm/f32/1\nbegin gem").unwrap();
        let session = Session::new(Some(&path), None).unwrap();
        session.run("gemm/f32/2", || Ok(())).unwrap();
        let again = Session::new(Some(&path), None).unwrap();
        assert_eq!(again.plan(&names()).tests, [2, 3]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn no_test_begins_when_the_time_is_over() {
        let path = path("time");
        let session = Session::new(Some(&path), Some(Duration::ZERO)).unwrap();
        let mut tests = session.plan(&names()).tests;
        tests.sort_unstable();
        assert_eq!(tests, [0, 1, 2, 3]);
        assert!(session.run("gemm/f32/1", || Err("it ran".into())).is_ok());
        assert!(session.run("gemm/f32/2", || Err("it ran".into())).is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of 4\nover gemm/f32/1\n");
        std::fs::remove_file(path).unwrap();
    }
}
