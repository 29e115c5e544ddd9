//! Runs a program with a limit: its lines go to a log without names and paths, and it and all that it started is ended when the time
//! is over.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Outcome;
use super::scrub::Scrub;

/// Lines of the end that are kept.
const KEPT: usize = 60;
/// A log is not written on beyond this, bytes.
const LOG_BYTES: u64 = 8 << 20;
/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long a process may take to go when it was ended. One that a driver holds does not go.
const GOING: Duration = Duration::from_secs(5);

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended, as the time was over.
    Time,
    /// It was ended, as nothing had come from it for long.
    Silence,
    /// It was to be ended and did not go: the driver holds it.
    Stuck,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// The last lines that it printed, without names and paths.
    pub lines: Vec<String>,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// In all.
    pub time: Duration,
    /// Without a line, or a growing of the file to watch.
    pub silence: Duration,
    /// A file that grows while things go on.
    pub watched: Option<&'a Path>,
}

/// Runs a command. `tick` is called a few times a second.
///
/// # Errors
/// A program that cannot be started, a log that cannot be written.
pub fn run(
    mut command: Command,
    limits: &Limits<'_>,
    log: &mut File,
    scrub: &Scrub,
    tick: &mut dyn FnMut(),
) -> Outcome<Ran> {
    let (reader, writer) = std::io::pipe()?;
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    // It holds the writing ends of the pipe.
    drop(command);
    let lines = listen(BufReader::new(reader));
    let mut tail = Tail { kept: VecDeque::new(), log, scrub, written: 0 };
    let end = follow(&mut child, &lines, limits, begun, &mut tail, tick)?;
    // What is still in the pipe; something that the program left running may hold it open.
    while let Ok(line) = lines.recv_timeout(TICK) {
        tail.add(&line)?;
    }
    Ok(Ran { end, lines: tail.kept.into() })
}

fn follow(
    child: &mut Child,
    lines: &Receiver<String>,
    limits: &Limits<'_>,
    begun: Instant,
    tail: &mut Tail<'_>,
    tick: &mut dyn FnMut(),
) -> Outcome<End> {
    let size = || limits.watched.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |data| data.len());
    let (mut heard, mut watched) = (begun, size());
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                tail.add(&line)?;
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status));
        }
        tick();
        let now = size();
        if now != watched {
            (watched, heard) = (now, Instant::now());
        }
        let over = begun.elapsed() > limits.time;
        if over || heard.elapsed() > limits.silence {
            kill(child);
            let went = wait(child)?;
            return Ok(if !went {
                End::Stuck
            } else if over {
                End::Time
            } else {
                End::Silence
            });
        }
    }
}

fn ended(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

/// The lines of a pipe, read by a thread that ends with it.
fn listen(mut reader: impl BufRead + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            // What redraws its line shows the last that it drew.
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            let text = text.rsplit('\r').next().unwrap_or_default();
            if sender.send(text.to_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });
    receiver
}

/// The end of what was printed, and the log.
struct Tail<'a> {
    kept: VecDeque<String>,
    log: &'a mut File,
    scrub: &'a Scrub,
    written: u64,
}

impl Tail<'_> {
    fn add(&mut self, line: &str) -> Outcome<()> {
        let line = self.scrub.text(&without_colours(line));
        if self.written < LOG_BYTES {
            writeln!(self.log, "{line}")?;
            self.written += line.len() as u64 + 1;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
        Ok(())
    }
}

/// A line without the terminal's commands.
fn without_colours(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("\x1b[") {
        out += &rest[..at];
        let command = &rest[at + 2..];
        rest = command.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &command[end + 1..]);
    }
    out + rest
}

/// Ends a process and all that it started, as far as they are still its descendants.
fn kill(child: &mut Child) {
    let processes = descendants(child.id());
    // Ended first, it can start no more.
    let _ = child.kill();
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -KILL \"$@\"", "sh"]).args(processes.iter().map(u32::to_string));
    if !processes.is_empty() {
        let _ = shell.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The processes that a process has started, and theirs.
fn descendants(of: u32) -> Vec<u32> {
    let mut pairs = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The program's name stands in brackets and may hold anything.
        let parent = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        pairs.extend(parent.map(|parent| (parent, id)));
    }
    let mut found = vec![of];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(pairs.iter().filter(|(of, _)| *of == parent).map(|(_, id)| *id));
        at += 1;
    }
    found.split_off(1)
}

/// Whether a process that was ended goes.
fn wait(child: &mut Child) -> Outcome<bool> {
    let begun = Instant::now();
    while begun.elapsed() < GOING {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(TICK / 4);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, seconds: f64, silence: f64) -> (Ran, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        let limits =
            Limits { time: Duration::from_secs_f64(seconds), silence: Duration::from_secs_f64(silence), watched: None };
        let mut scrub = Scrub::default();
        scrub.name("jane", "<user>");
        let ran = run(command, &limits, &mut log, &scrub, &mut || {}).unwrap();
        (ran, std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn both_streams_are_read_and_written_without_names() {
        let (ran, log) = shell("echo a; printf '\\033[31mjane\\033[0m\\n' >&2; printf 'x\\ry'; exit 3", 60.0, 60.0);
        assert_eq!((ran.end, ran.lines.len()), (End::Code(3), 3));
        assert_eq!(log, "a\n<user>\ny\n");
    }

    #[test]
    fn a_process_that_a_signal_ends_is_told_from_one_that_fails() {
        assert_eq!(shell("kill -SEGV $$", 60.0, 60.0).0.end, End::Signal(11));
    }

    #[test]
    fn a_process_that_does_not_end_is_ended_with_all_it_started() {
        let mark = format!("{}.125", 30_000 + std::process::id());
        let begun = Instant::now();
        let (ran, _) = shell(&format!("sleep {mark} & echo begun; wait"), 0.5, 60.0);
        assert_eq!((ran.end, ran.lines), (End::Time, vec!["begun".to_owned()]));
        assert!(begun.elapsed() < Duration::from_secs(20));
        let left = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&mark)
        });
        assert!(!left, "the sleep goes on");
    }

    #[test]
    fn silence_ends_a_process_before_its_time() {
        let begun = Instant::now();
        let (ran, _) = shell("echo a; sleep 30", 25.0, 0.5);
        assert_eq!(ran.end, End::Silence);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_was_printed_last_is_kept() {
        let (ran, log) = shell("seq 1 100", 60.0, 60.0);
        assert_eq!((ran.lines.len(), ran.lines.last().unwrap().as_str()), (KEPT, "100"));
        assert_eq!(log.lines().count(), 100);
    }
}
