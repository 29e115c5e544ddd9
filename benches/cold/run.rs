//! Building the programs, starting them, and what is measured meanwhile.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::Error;
use crate::program::Program;
use crate::record::{Mode, Row};

/// A program that says nothing for so long has hung.
const LONGEST: Duration = Duration::from_secs(600);
/// What is printed last of a program that failed.
const LAST_LINES: usize = 12;

/// Where a run happens.
pub struct Place<'a> {
    pub device: &'a str,
    pub emulated: bool,
    /// The cache of the cold and the warm run.
    pub cache: &'a Path,
    /// The pack of the third.
    pub pack: &'a Path,
    /// A folder that is not there: its cache.
    pub empty: &'a Path,
}

/// The folder of the binaries: this one's.
fn folder() -> Result<PathBuf, Error> {
    Ok(std::env::current_exe()?.parent().ok_or("the program lies in no folder")?.to_owned())
}

/// Builds what is to be started, with the profile that this was built with.
pub fn build(programs: &[Program]) -> Result<(), Error> {
    let is_release = folder()?.ends_with("release");
    for (name, arguments) in programs.iter().filter_map(|program| program.binary()) {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet"]).args(arguments);
        if is_release {
            cargo.arg("--release");
        }
        if !cargo.status()?.success() {
            return Err(format!("{name} could not be built").into());
        }
    }
    Ok(())
}

/// Runs a program until its first result.
pub fn run(program: Program, mode: Mode, place: &Place<'_>) -> Result<Row, Error> {
    let mut command = program.command(&folder()?, place.emulated)?;
    if program == Program::Demo {
        command.arg(place.cache.with_file_name("demo"));
    }
    command.env("ROCFIRE_DEVICE", place.device).env("ROCFIRE_LOG", "debug").env("ROCFIRE_PACKS", "none");
    command.env("ROCFIRE_CACHE_DIR", if mode == Mode::Pack { place.empty } else { place.cache });
    if mode == Mode::Pack {
        // No clang is found in it; libraries of GPUs are not found by it.
        command.env("ROCFIRE_PACKS", place.pack).env("PATH", place.empty);
        command.env_remove("ROCM_PATH").env_remove("HIP_PATH");
    }
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let lines = listen(&mut child);
    let outcome = follow(program, &lines, begun);
    let peak_mib = peak_mib(child.id());
    // What else it would do is of no interest. It may have ended by itself.
    let _ = child.kill();
    child.wait()?;
    let Followed { elapsed, result, compiled, compiler_seconds } = outcome?;
    if mode != Mode::Cold && compiled > 0 {
        return Err(format!(
            "{} on {}, {}: {compiled} kernels were compiled",
            program.name(),
            place.device,
            mode.name()
        )
        .into());
    }
    Ok(Row {
        program: program.name(),
        device: place.device.to_owned(),
        mode,
        seconds: elapsed.as_secs_f64(),
        compiled,
        compiler_seconds,
        peak_mib,
        result,
    })
}

/// What was heard of a program.
struct Followed {
    elapsed: Duration,
    result: String,
    compiled: usize,
    compiler_seconds: f64,
}

/// Lines of both of a child's outputs, as they come.
fn listen(child: &mut Child) -> Receiver<String> {
    let (to, from) = channel();
    let forward = |output: Box<dyn Read + Send>, to: Sender<String>| {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody listens any more once the result is there.
                let _ = to.send(line);
            }
        });
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    forward(Box::new(stdout.expect("it was asked for")), to.clone());
    forward(Box::new(stderr.expect("it was asked for")), to);
    from
}

/// Counts compiles until the result comes.
fn follow(program: Program, lines: &Receiver<String>, begun: Instant) -> Result<Followed, Error> {
    let (mut compiled, mut compiler_seconds, mut heard) = (0, 0.0, Vec::new());
    while let Ok(line) = lines.recv_timeout(LONGEST) {
        let elapsed = begun.elapsed();
        if let Some(result) = program.result(&line) {
            if ["nan", "inf"].iter().any(|word| result.to_lowercase().contains(word)) {
                return Err(format!("{} gave {result}", program.name()).into());
            }
            return Ok(Followed { elapsed, result, compiled, compiler_seconds });
        }
        if let Some(seconds) = compile_seconds(&line) {
            compiled += 1;
            compiler_seconds += seconds;
        }
        heard.push(line);
    }
    let last = heard[heard.len().saturating_sub(LAST_LINES)..].join("\n");
    Err(format!(
        "{} ended, or was silent for {} s, before its first result:\n{last}",
        program.name(),
        LONGEST.as_secs()
    )
    .into())
}

/// The seconds of `rocfire: debug: compiled NAME for ARCH in 0.12 s`.
fn compile_seconds(line: &str) -> Option<f64> {
    let rest = line.strip_prefix("rocfire: debug: compiled ")?;
    rest.rsplit_once(" in ")?.1.strip_suffix(" s")?.parse().ok()
}

/// The most memory that a process which runs has had resident, MiB, on Linux.
fn peak_mib(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}
