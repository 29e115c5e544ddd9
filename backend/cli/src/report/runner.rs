//! Runs parts: shares out the time, restarts what goes on, asks the device whether it still answers, and keeps what was found.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Outcome;
use super::journal::Journal;
use super::page;
use super::parts::{Context, PARTS, Part, Step, journal_path};
use super::process::{self, End, Limits, Ran};
use super::programs::{Place, Program};
use super::scrub::Scrub;
use super::state::{Found, State, Status};

/// Tests that say nothing for so long hang: on a card, and where a CPU does a card's work beside a compiler.
const SILENCE_OF_A_CARD: Duration = Duration::from_secs(120);
const SILENCE_ELSEWHERE: Duration = Duration::from_secs(400);
/// What an answer of the device may take.
const ANSWER: Duration = Duration::from_secs(60);
/// A part whose tests take so many processes with them is not gone on with.
const MOST_PROCESSES: usize = 60;
/// A part that has ended the report so often is not begun again.
const MOST_BEGINNINGS: u32 = 2;
/// Of a part's time, what is left for its programs to end by themselves.
const ENDING: Duration = Duration::from_secs(8);

/// The report that is being made.
pub struct Runner {
    /// What parts are told.
    pub context: Context,
    /// Where their programs are.
    pub place: Place,
    /// What is taken out of everything that is written.
    pub scrub: Scrub,
    /// What is known.
    pub state: State,
}

/// A part that is going to run: its programs, built.
struct Ready<'a> {
    part: &'a Part,
    programs: Vec<PathBuf>,
}

impl Runner {
    /// Learns from the doctor which device is used, and what there is to know of the machine. `false` if the device does not answer.
    ///
    /// # Errors
    /// No device; another device than the folder's.
    pub fn find_device(&mut self, doctor: &Part) -> Outcome<bool> {
        let asked = self.context.device.clone();
        let earlier = self.state.of(doctor.name).map(|found| found.status);
        let answers = match earlier {
            Some(status) if !is_suspicious(status) => {
                if asked.is_empty() {
                    self.context.device = self.state.device.clone();
                }
                // Something since then may have taken it down.
                self.answers()?
            }
            _ => self.ask(doctor, &asked)?,
        };
        if self.context.device.is_empty() {
            let why = self.state.machine.last().cloned().unwrap_or_default();
            return Err(format!("no device was found: {why}").into());
        }
        if self.state.device.is_empty() {
            self.state.device = self.context.device.clone();
            self.state.write()?;
        }
        if self.state.device != self.context.device {
            let (of, asked) = (&self.state.device, &self.context.device);
            return Err(format!("the folder has the report of {of}, not of {asked}: name another with --folder").into());
        }
        Ok(answers)
    }

    /// Runs the doctor.
    fn ask(&mut self, doctor: &Part, asked: &str) -> Outcome<bool> {
        let limit = Duration::from_secs_f64(60.0 * doctor.minutes);
        let ready = self.ready(doctor).map_err(|found| found.why)?;
        let (found, printed) = self.run_part(&ready, limit)?;
        let answers = !is_suspicious(found.status);
        self.context.device = if asked.is_empty() { used(&printed).unwrap_or_default() } else { asked.to_owned() };
        self.state.machine = printed;
        self.keep(found)?;
        Ok(answers)
    }

    /// Runs the parts that are to be run. `false` if the device stopped to answer.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn run_all(&mut self, parts: &[&Part], time: Option<Duration>) -> Outcome<bool> {
        let mut due = Vec::new();
        for part in parts {
            if self.state.of(part.name).is_some_and(|found| found.status.is_settled()) {
                continue;
            }
            match self.ready(part) {
                Ok(ready) => due.push(ready),
                Err(found) => self.keep(*found)?,
            }
        }
        let begun = Instant::now();
        for (number, ready) in due.iter().enumerate() {
            let left = time.map(|time| time.saturating_sub(begun.elapsed()));
            let limit = share(ready.part, left, due[number..].iter().map(|ready| ready.part.minutes).sum());
            if left.is_some() && limit.as_secs_f64() < ready.part.least_seconds {
                let why =
                    format!("its share is {}, it needs {} at least", words(limit), words_of(ready.part.least_seconds));
                self.keep(Found::without_run(ready.part.name, Status::LeftOut, &why))?;
                continue;
            }
            if self.state.begin(ready.part.name) >= MOST_BEGINNINGS {
                let why = "it has ended the report twice: the machine went down, or somebody ended it";
                self.keep(Found::without_run(ready.part.name, Status::Unfinished, why))?;
                continue;
            }
            self.state.write()?;
            let (found, _) = self.run_part(ready, limit)?;
            let status = found.status;
            self.keep(found)?;
            // A part that was cut may have been held by the driver.
            if (is_suspicious(status) || status == Status::Cut) && !self.answers()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A part's programs, or why it does not run.
    fn ready<'a>(&self, part: &'a Part) -> Result<Ready<'a>, Box<Found>> {
        let without = |status, why: &str| Box::new(Found::without_run(part.name, status, why));
        if let Some(why) = (part.refuses)(&self.context) {
            return Err(without(Status::NotApplicable, why));
        }
        let steps = (part.steps)(&self.context, Duration::ZERO);
        let real = self.context.is_real();
        let path = |step: &Step| self.place.path(step.program, real).map_err(|why| without(Status::NotThere, &why));
        Ok(Ready { part, programs: steps.iter().map(path).collect::<Result<_, _>>()? })
    }

    /// Notes what was found and tells of it.
    fn keep(&mut self, mut found: Found) -> Outcome<()> {
        for text in [&mut found.why].into_iter().chain(&mut found.findings) {
            *text = self.scrub.text(text);
        }
        let why = if found.why.is_empty() { String::new() } else { format!(": {}", found.why) };
        println!("{:<11} {} in {}{why}", found.part, found.status.words(), page::duration(found.seconds));
        let order: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        self.state.put(found, &order);
        self.state.write()
    }

    /// Runs a part's processes until they or the time are over. Also gives the last lines that they printed.
    fn run_part(&self, ready: &Ready<'_>, limit: Duration) -> Outcome<(Found, Vec<String>)> {
        let part = ready.part;
        let (begun, bar) = (Instant::now(), progress(part.name));
        let mut known = self.journal(part).begun();
        let mut log =
            OpenOptions::new().create(true).append(true).open(self.context.file(&format!("{}.log", part.name)))?;
        let mut ran: Vec<Ran> = Vec::new();
        let steps = (part.steps)(&self.context, limit.saturating_sub(ENDING));
        for (number, program) in ready.programs.iter().enumerate() {
            for process in 0..MOST_PROCESSES {
                let left = limit.saturating_sub(begun.elapsed());
                // What is left is planned anew for every process.
                let planned = (part.steps)(&self.context, left.saturating_sub(ENDING));
                let (step, last) = (&planned[number], process > 0 && left.is_zero());
                if last || number > 0 && left.is_zero() {
                    break;
                }
                let one = self.step(part, step, program, left, &mut log, &bar)?;
                let ended = matches!(one.end, End::Time | End::Stuck);
                ran.push(one);
                let before = std::mem::replace(&mut known, self.journal(part).begun());
                // Another process of the tests is worth it where one was ended by a test, or was there for suspects alone.
                if ended || before == known || !self.journal(part).goes_on() {
                    break;
                }
            }
            if ran.last().is_some_and(|ran| !matches!(ran.end, End::Code(_))) && !part.has_journal {
                break;
            }
        }
        bar.finish_and_clear();
        let mut found = self.found(part, &ran, steps.len(), limit, begun.elapsed());
        if let Err(error) = (part.read)(&self.context, &mut found) {
            found.findings.push(format!("what it left cannot be read: {error}"));
        }
        let printed = ran.into_iter().flat_map(|ran| ran.lines).collect();
        Ok((found, printed))
    }

    /// One process.
    fn step(
        &self,
        part: &Part,
        step: &Step,
        program: &PathBuf,
        left: Duration,
        log: &mut File,
        bar: &ProgressBar,
    ) -> Outcome<Ran> {
        let mut command = Command::new(program);
        command.args(&step.arguments).envs(step.settings.iter().cloned());
        if !self.context.device.is_empty() {
            command.env("ROCFIRE_DEVICE", &self.context.device);
        }
        let journal = journal_path(&self.context, part.name);
        let (mut silence, mut watched) = (left, None);
        if part.has_journal {
            silence = if self.context.is_real() { SILENCE_OF_A_CARD } else { SILENCE_ELSEWHERE };
            watched = Some(journal.as_path());
        }
        let mut ticks = 0_u32;
        let mut tick = || {
            bar.tick();
            ticks += 1;
            // Not at every one: the journal is read as a whole.
            if part.has_journal && ticks.is_multiple_of(20) {
                let ended = Journal::read(&std::fs::read_to_string(&journal).unwrap_or_default()).ended();
                bar.set_message(format!("{ended} tests"));
            }
        };
        process::run(command, &Limits { time: left, silence, watched }, log, &self.scrub, &mut tick)
    }

    fn journal(&self, part: &Part) -> Journal {
        Journal::read(&std::fs::read_to_string(journal_path(&self.context, part.name)).unwrap_or_default())
    }

    /// What the processes of a part come to.
    fn found(&self, part: &Part, ran: &[Ran], steps: usize, limit: Duration, took: Duration) -> Found {
        let mut found = Found::without_run(part.name, Status::Passed, "");
        if let Some(earlier) = self.state.of(part.name) {
            found.seconds = earlier.seconds;
        }
        found.seconds += took.as_secs_f64();
        found.given_seconds = limit.as_secs_f64();
        found.printed = ran.iter().flat_map(|ran| ran.lines.iter().cloned()).collect();
        let is_cut = limit.as_secs_f64() < 60.0 * part.minutes - 1.0;
        if part.has_journal {
            self.judge_tests(part, ran, &mut found);
            return found;
        }
        let Some(last) = ran.last() else {
            return Found { status: Status::LeftOut, why: "there was no time".to_owned(), ..found };
        };
        let shown = last.lines.iter().rev().find(|line| !line.trim().is_empty()).cloned().unwrap_or_default();
        let skipped = ran.iter().flat_map(|ran| &ran.lines).find_map(|line| line.strip_prefix("skipped: "));
        let within = words(took);
        (found.status, found.why) = match last.end {
            End::Signal(signal) => (Status::Crashed, format!("signal {signal} after {within}: {shown}")),
            End::Stuck => (Status::Hung, format!("it does not end, not even when it is ended; last: {shown}")),
            End::Silence => (Status::Hung, format!("it said nothing more; last: {shown}")),
            End::Time if is_cut => (Status::Cut, format!("its {} were over; last: {shown}", words(limit))),
            End::Time => (Status::Hung, format!("it went on after {within}; last: {shown}")),
            End::Code(0) if skipped.is_some() && steps == 1 => {
                (Status::NotApplicable, skipped.unwrap_or_default().to_owned())
            }
            End::Code(0) if ran.len() < steps => (Status::Cut, format!("{} of {steps} programs had time", ran.len())),
            End::Code(_) => match ran.iter().find(|ran| !matches!(ran.end, End::Code(0))) {
                None => (Status::Passed, told(part, ran).unwrap_or(shown)),
                Some(wrong) => {
                    let said = wrong.lines.iter().rev().find(|line| line.contains("rror") || line.contains("panicked"));
                    (Status::Failed, said.cloned().unwrap_or(shown))
                }
            },
        };
        found
    }

    /// The same of tests, by their journal.
    fn judge_tests(&self, part: &Part, ran: &[Ran], found: &mut Found) {
        let journal = self.journal(part);
        let counts = journal.counts();
        found.findings = journal.findings();
        found.counts = Some(counts);
        let skipped = ran.iter().flat_map(|ran| &ran.lines).find_map(|line| line.strip_prefix("skipped: "));
        let last = ran.last();
        let said = last.and_then(|ran| ran.lines.iter().rev().find(|line| !line.trim().is_empty()).cloned());
        let total = counts.passed + counts.failed + counts.crashed;
        found.why = format!("{} of {} passed", counts.passed, total + counts.left);
        if counts.left > 0 {
            found.why += &format!(", {} had no time", counts.left);
        }
        found.status = match last.map(|ran| &ran.end) {
            None => Status::LeftOut,
            Some(End::Stuck) => Status::Hung,
            _ if counts.crashed > 0 => Status::Crashed,
            _ if counts.failed > 0 => Status::Failed,
            // It ended badly without a test that did: before the first, or behind the last.
            Some(End::Signal(_) | End::Silence) => Status::Crashed,
            Some(End::Code(code)) if *code != 0 => Status::Failed,
            _ if total == 0 && counts.left == 0 => Status::NotApplicable,
            _ if counts.left > 0 => Status::Cut,
            Some(_) => Status::Passed,
        };
        if found.status == Status::NotApplicable {
            found.why = skipped.unwrap_or("there are no tests for it").to_owned();
        } else if let Some(skipped) = skipped {
            found.why += &format!("; skipped: {skipped}");
        } else if total == 0 && found.status.is_red() {
            found.why = said.unwrap_or_default();
        }
    }

    /// Whether the device still answers: the doctor's product, in a process of its own.
    fn answers(&self) -> Outcome<bool> {
        if !self.context.is_real() {
            return Ok(true);
        }
        let mut command = Command::new(self.place.path(Program::Own, true)?);
        command.arg("doctor").env("ROCFIRE_DEVICE", &self.context.device);
        let mut log = OpenOptions::new().create(true).append(true).open(self.context.file("doctor.log"))?;
        let limits = Limits { time: ANSWER, silence: ANSWER, watched: None };
        let ran = process::run(command, &limits, &mut log, &self.scrub, &mut || {})?;
        Ok(ran.end == End::Code(0))
    }

    /// Takes names and paths out of every text of the folder: programs of the parts have written some of them.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn sweep(&self) -> Outcome<()> {
        for entry in std::fs::read_dir(&self.context.folder)? {
            let path = entry?.path();
            let is_text = path
                .extension()
                .is_some_and(|ending| ["json", "csv", "log", "md", "journal"].iter().any(|known| ending == *known));
            if !is_text {
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            let swept = self.scrub.text(&text);
            if swept != text {
                std::fs::write(&path, swept)?;
            }
        }
        Ok(())
    }
}

/// Whether the device may be to blame.
fn is_suspicious(status: Status) -> bool {
    matches!(status, Status::Crashed | Status::Hung)
}

/// The device that the doctor says is used, as `ROCFIRE_DEVICE` names it.
fn used(lines: &[String]) -> Option<String> {
    let used = lines.iter().find_map(|line| line.strip_prefix("will be used: "))?;
    // The architecture stands behind it.
    used.split_whitespace().next().map(str::to_owned)
}

/// The lines that say what came of a part.
fn told(part: &Part, ran: &[Ran]) -> Option<String> {
    let tells = |line: &&String| part.tells.iter().any(|word| line.contains(word));
    let squeezed = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = ran.iter().flat_map(|ran| &ran.lines).filter(tells).map(squeezed).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The time of a part: all of its own, or of what is left its share among those that are to come.
fn share(part: &Part, left: Option<Duration>, minutes_to_come: f64) -> Duration {
    let own = Duration::from_secs_f64(60.0 * part.minutes);
    match left {
        Some(left) => own.min(left.mul_f64(part.minutes / minutes_to_come)),
        None => own,
    }
}

fn words(time: Duration) -> String {
    words_of(time.as_secs_f64())
}

fn words_of(seconds: f64) -> String {
    page::duration(seconds)
}

/// Shows that a part runs, and for how long; a line where there is no terminal.
fn progress(name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix:<11} {elapsed} {msg}").expect("a constant");
    let bar = ProgressBar::new_spinner().with_style(style).with_prefix(name.to_owned());
    if bar.is_hidden() {
        println!("{name:<11} begins");
    }
    bar
}

/// Removes what a part has left in the folder.
///
/// # Errors
/// A file that cannot be removed.
pub fn forget_files(context: &Context, part: &Part) -> Outcome<()> {
    let own = ["journal", "log"].map(|ending| format!("{}.{ending}", part.name));
    for name in own.iter().map(String::as_str).chain(part.files.iter().copied()) {
        let path = context.file(name);
        if path.is_file() {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
