//! What is known of each part, in `report.json` in the report's folder: a later call goes on from there.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Outcome;

/// The file's name.
pub const FILE: &str = "report.json";

/// How a part ended. In the order in which a person should read of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A signal ended its process, or the process of one of its tests.
    Crashed,
    /// It was still running when its time was over, and had said nothing for long.
    Hung,
    /// It took the report with it: the machine went down, or somebody ended the report, as often as it was tried.
    Unfinished,
    /// It ran to its end and found something wrong.
    Failed,
    /// Its time ended before it did; what it had found until then was right.
    Cut,
    /// There was no time left to begin it.
    LeftOut,
    /// Its program is not there.
    NotThere,
    /// It ran to its end and all was right.
    Passed,
    /// It is not for this device or this machine.
    NotApplicable,
}

impl Status {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Status::Crashed => "crashed",
            Status::Hung => "hung",
            Status::Unfinished => "did not end",
            Status::Failed => "failed",
            Status::Cut => "cut",
            Status::LeftOut => "left out",
            Status::NotThere => "not there",
            Status::NotApplicable => "not applicable",
            Status::Passed => "passed",
        }
    }

    /// Whether somebody has to look at it.
    pub fn is_red(self) -> bool {
        self <= Status::Failed
    }

    /// Whether another call of the report would find the same, so that it is only repeated when asked for.
    pub fn is_settled(self) -> bool {
        !matches!(self, Status::Cut | Status::LeftOut | Status::NotThere)
    }
}

/// Tests, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// That passed.
    pub passed: usize,
    /// That failed.
    pub failed: usize,
    /// That ended their process, twice.
    pub crashed: usize,
    /// That were not run.
    pub left: usize,
}

/// What came of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The part's name.
    pub part: String,
    /// How it ended.
    pub status: Status,
    /// Why, in a line; what it found.
    pub why: String,
    /// What failed, a line each.
    pub findings: Vec<String>,
    /// Its tests, if it has some.
    pub counts: Option<Counts>,
    /// Seconds that it ran, over all calls.
    pub seconds: f64,
    /// Seconds that it was given.
    pub given_seconds: f64,
    /// The end of what it printed.
    pub printed: Vec<String>,
    /// Its pictures, by file name.
    pub pictures: Vec<String>,
}

/// The report so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The version of rocfire.
    pub version: String,
    /// The device, as `ROCFIRE_DEVICE` names it; empty until the doctor has found it.
    pub device: String,
    /// Days since 1970 on which it was begun.
    pub begun_day: u64,
    /// What the doctor says of machine, device and settings.
    pub machine: Vec<String>,
    /// What is known, in the order of the parts.
    pub found: Vec<Found>,
    /// The part that is running, and how often it has been begun without an end.
    pub running: Option<(String, u32)>,
    #[serde(skip)]
    path: PathBuf,
}

impl State {
    /// What the folder holds, or a new report.
    ///
    /// # Errors
    /// A file that cannot be read or is none of a report's.
    pub fn open(folder: &Path, version: &str, day: u64) -> Outcome<State> {
        let path = folder.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let begun = |path| State {
                    version: version.to_owned(),
                    device: String::new(),
                    begun_day: day,
                    machine: Vec::new(),
                    found: Vec::new(),
                    running: None,
                    path,
                };
                return Ok(begun(path));
            }
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        let damaged = |error| format!("{} is no report: {error}; remove the folder to begin anew", path.display());
        let mut state: State = serde_json::from_slice(&text).map_err(damaged)?;
        state.path = path;
        Ok(state)
    }

    /// Writes it under another name and renames, so that there is a whole one whatever happens.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self) -> Outcome<()> {
        let next = self.path.with_extension("next");
        let failed = |error| format!("cannot write {}: {error}", self.path.display());
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut file = std::fs::File::create(&next).map_err(failed)?;
        std::io::Write::write_all(&mut file, &text).map_err(failed)?;
        // A machine that a driver takes down loses what is not on the disk.
        file.sync_all().map_err(failed)?;
        Ok(std::fs::rename(&next, &self.path).map_err(failed)?)
    }

    /// What is known of a part.
    pub fn of(&self, part: &str) -> Option<&Found> {
        self.found.iter().find(|found| found.part == part)
    }

    /// Forgets a part.
    pub fn forget(&mut self, part: &str) {
        self.found.retain(|found| found.part != part);
        if self.running.as_ref().is_some_and(|(running, _)| running == part) {
            self.running = None;
        }
    }

    /// Puts what is known of a part in the place of what was.
    pub fn put(&mut self, found: Found, order: &[&str]) {
        self.running = None;
        self.found.retain(|other| other.part != found.part);
        self.found.push(found);
        self.found.sort_by_key(|found| order.iter().position(|name| *name == found.part));
    }

    /// Notes that a part begins. Returns how often it has begun before without an end.
    pub fn begin(&mut self, part: &str) -> u32 {
        let before = match &self.running {
            Some((running, times)) if running == part => *times,
            _ => 0,
        };
        self.running = Some((part.to_owned(), before + 1));
        before
    }
}

/// Something of a part, for tests and for what never ran.
impl Found {
    /// A part that did not run.
    pub fn without_run(part: &str, status: Status, why: &str) -> Found {
        Found {
            part: part.to_owned(),
            status,
            why: why.to_owned(),
            findings: Vec::new(),
            counts: None,
            seconds: 0.0,
            given_seconds: 0.0,
            printed: Vec::new(),
            pictures: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written_and_one_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path(), "1", 20_000).unwrap();
        assert_eq!(state.begin("b"), 0);
        state.write().unwrap();
        let mut again = State::open(folder.path(), "2", 20_001).unwrap();
        assert_eq!((again.version.as_str(), again.begun_day), ("1", 20_000));
        assert_eq!(again.begin("b"), 1, "it had begun and not ended");
        again.put(Found::without_run("b", Status::Crashed, "why"), &["a", "b"]);
        again.put(Found::without_run("a", Status::Passed, ""), &["a", "b"]);
        assert_eq!(again.begin("b"), 0, "it has ended since");
        again.write().unwrap();
        let last = State::open(folder.path(), "2", 20_001).unwrap();
        assert_eq!(last.found.iter().map(|found| found.part.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(State::open(folder.path(), "2", 1).unwrap_err().to_string().contains("is no report"));
    }

    #[test]
    fn red_comes_first() {
        let red = [Status::Crashed, Status::Hung, Status::Unfinished, Status::Failed];
        assert!(red.iter().all(|status| status.is_red() && *status < Status::Cut));
        assert!(!Status::Passed.is_red() && !Status::NotApplicable.is_red());
        assert!(Status::Crashed.is_settled() && !Status::Cut.is_settled());
    }
}
