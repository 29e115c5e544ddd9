//! Finding and running a clang that compiles for AMD GPUs.
//!
//! Neither ROCm nor its headers or device libraries are used: `-nogpuinc -nogpulib`, only our prelude. What is needed is
//! the AMDGPU target and lld.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{Compiler, Failure, Form, Prelude, Unit};
use crate::Error;

mod steps;

use steps::Steps;

/// Older ones are refused: clang 19 sinks a cross-lane operation into a divergent branch on wave32 and has no CDNA 4.
const OLDEST: u32 = 20;
/// Versioned names are looked for from here down; later ones are found as plain `clang`.
const NEWEST: u32 = 40;
/// Version of the code objects: LLVM's default, which ROCm 6 and later load.
const CODE_OBJECT_VERSION: u32 = 5;
/// The version that ROCm 5 loads.
#[cfg(feature = "hip")]
const OLD_CODE_OBJECT_VERSION: u32 = 4;
/// Generic targets exist from this version on.
const GENERIC_CODE_OBJECT_VERSION: u32 = 6;
/// How often a running compiler is looked at: at first, and at most. A small kernel takes 50 ms, linking 20 ms.
const FIRST_POLL: Duration = Duration::from_millis(1);
const LONGEST_POLL: Duration = Duration::from_millis(4);

/// Part of the cache's key: whoever changes the options below changes it.
pub(super) const OPTIONS: &[&str] = &[
    "-x",
    "hip",
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    "-nogpuinc",
    "-nogpulib",
    // Else a hash of the path becomes part of the code object, and the path is never the same.
    "-fuse-cuid=none",
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-crash-diagnostics",
    "-Wno-unused-command-line-argument",
];

/// Given to a compiler that crashed, which is then asked once more: clang 22 ends in "Stack Slot Coloring" for some kernels
/// that keep scalar registers on the stack, and compiles them where every value has a slot of its own.
const AFTER_A_CRASH: &[&str] = &["-mllvm", "-no-stack-slot-sharing"];

/// For line tables whose files have no folder: the source is compiled in one that is soon gone.
const LINE_TABLES: &[&str] = &["-gline-tables-only", "-ffile-compilation-dir=."];

/// A clang that was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clang {
    path: PathBuf,
    version: String,
    identity: String,
    code_object_version: u32,
}

/// A clang that was found, or looked for, and not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its path, or the name that was looked for.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl Clang {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version line: `Debian clang version 22.1.8`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Looks at a program that may be one.
    pub(super) fn probe(path: &Path) -> Result<Clang, String> {
        // Each answer takes a process of 25 ms: a program whose kernels are all kept waits for little else.
        let [text, targets, linker] = std::thread::scope(|scope| {
            let asked = [&["--version"], &["--print-targets"], &["-print-prog-name=ld.lld"]];
            let running = asked.map(|arguments| scope.spawn(|| output(path, arguments)));
            running.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let version = text?.lines().next().unwrap_or_default().trim().to_owned();
        let major = major_version(&version).ok_or_else(|| format!("is not clang: {version:?}"))?;
        if major < OLDEST {
            let why = "it miscompiles cross-lane operations on wave32 and has no CDNA 4";
            return Err(format!("is clang {major}; {OLDEST} or newer is needed: {why}"));
        }
        if !targets?.lines().any(|line| line.trim_start().starts_with("amdgcn")) {
            return Err(format!("clang {major} without the AMDGPU target"));
        }
        let linker = linker?;
        let linker = Path::new(linker.trim());
        // A bare name means that it was not found beside clang; it may still be in PATH.
        if !linker.is_file() && find_in_path(&linker.to_string_lossy()).is_none() {
            return Err(format!("clang {major} without lld (package lld-{major})"));
        }
        let identity = identity(&version, CODE_OBJECT_VERSION);
        Ok(Clang { path: path.to_owned(), version, identity, code_object_version: CODE_OBJECT_VERSION })
    }

    /// The same, making code objects that ROCm 5 loads.
    #[cfg(feature = "hip")]
    pub(crate) fn for_rocm_5(&self) -> Clang {
        let identity = identity(&self.version, OLD_CODE_OBJECT_VERSION);
        Clang { identity, code_object_version: OLD_CODE_OBJECT_VERSION, ..self.clone() }
    }

    /// What is given to the driver but for the source's macros.
    fn options(&self, target: &str, hip: bool) -> Vec<String> {
        let generic = target.ends_with("-generic");
        let version = if generic { GENERIC_CODE_OBJECT_VERSION } else { self.code_object_version };
        let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
        options.push(format!("--offload-arch={target}"));
        options.push(format!("-mcode-object-version={version}"));
        if hip {
            options.extend(["-D__HIPCC_RTC__", "-I", HIP_FOLDER].map(str::to_owned));
        }
        options
    }

    /// The driver, which does it all.
    fn command(&self, unit: &Unit<'_>, more: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.options(unit.target, unit.hip));
        command.args(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.args(unit.flags).args(more);
        if unit.line_tables {
            command.args(LINE_TABLES);
        }
        command.args(["-include", PRELUDE_FILE, &file_name(unit.name), "-o", CODE_FILE]);
        command
    }

    /// The code object by front end and linker alone, behind a precompiled prelude if there is one. `None` if that gave none, for
    /// whatever reason: the driver then tells of it.
    fn quickly(&self, unit: &Unit<'_>, folder: &Path, tick: &mut dyn FnMut()) -> Option<Vec<u8>> {
        if unit.line_tables || !unit.flags.is_empty() {
            return None;
        }
        let source = file_name(unit.name);
        let steps = Steps::of(&self.path, &self.options(unit.target, unit.hip), folder, &source)?;
        let prelude = unit.prelude.and_then(Prelude::bytes);
        if let Some(bytes) = prelude {
            fs::write(folder.join(steps::PRECOMPILED_FILE), bytes).ok()?;
            fs::write(folder.join(steps::OVERLAY_FILE), steps::OVERLAY).ok()?;
        }
        for command in [steps.front(&source, unit.defines, prelude.is_some()), steps.linker()] {
            self.run(command, folder, tick).ok()?.ok()?;
        }
        fs::read(folder.join(CODE_FILE)).ok()
    }

    /// Runs the compiler in `folder`. An inner error is how it ended without a code object, and what it printed.
    fn run(
        &self,
        mut command: Command,
        folder: &Path,
        tick: &mut dyn FnMut(),
    ) -> Result<Result<(), (ExitStatus, String)>, Failure> {
        let log = folder.join(LOG_FILE);
        let file = fs::File::create(&log).map_err(failed("write", folder))?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut child = command.spawn().map_err(failed("run", &self.path))?;
        let mut pause = FIRST_POLL;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed("wait for", &self.path))? {
                break status;
            }
            tick();
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_POLL);
        };
        if status.success() {
            return Ok(Ok(()));
        }
        let printed = fs::read(&log).map_err(failed("read", &log))?;
        Ok(Err((status, String::from_utf8_lossy(&printed).into_owned())))
    }
}

/// An error of the file system, as a compiler's failure.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::Other(Error::Io { action, path, source })
}

/// Whether the compiler itself failed, not the source: clang's driver prints this before the stack of the crash, and a
/// driver that is ended by a signal has no exit code.
fn crashed(status: ExitStatus, log: &str) -> bool {
    status.code().is_none() || log.contains("PLEASE submit a bug report")
}

const PRELUDE_FILE: &str = "rocfire_prelude.h";
/// Of HIP's headers, for sources that include them.
const HIP_FOLDER: &str = "hip-headers";
const CODE_FILE: &str = "code.co";
const LOG_FILE: &str = "log";

impl Compiler for Clang {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, unit: &Unit<'_>, tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        let folder =
            tempfile::Builder::new().prefix("rocfire-").tempdir().map_err(failed("make", &std::env::temp_dir()))?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path(PRELUDE_FILE), rocfire_prelude::TEXT).map_err(failed("write", folder.path()))?;
        if unit.hip {
            for (name, text) in rocfire_prelude::hip::for_clang() {
                let header = path(HIP_FOLDER).join(name);
                let parent = header.parent().expect("a header lies in the folder of headers");
                fs::create_dir_all(parent).and_then(|()| fs::write(&header, text)).map_err(failed("write", &header))?;
            }
        }
        let text = match unit.line_tables {
            // In reports the source goes by its own name.
            true => Cow::Owned(format!("#line 1 \"{}\"\n{}", shown_name(unit.name), unit.text)),
            false => Cow::Borrowed(unit.text),
        };
        fs::write(path(&file_name(unit.name)), text.as_bytes()).map_err(failed("write", folder.path()))?;
        if let Some(code) = self.quickly(unit, folder.path(), tick) {
            return Ok(code);
        }
        let mut outcome = self.run(self.command(unit, &[]), folder.path(), tick)?;
        if let (Ok(()), Some(prelude)) = (&outcome, unit.prelude) {
            prelude.refuse("clang compiles without it only");
        }
        if matches!(&outcome, Err((status, log)) if crashed(*status, log)) {
            outcome = self.run(self.command(unit, AFTER_A_CRASH), folder.path(), tick)?;
        }
        let (status, log) = match outcome {
            Ok(()) => return fs::read(path(CODE_FILE)).map_err(failed("read", &path(CODE_FILE))),
            Err(ended) => ended,
        };
        let unknown = ["unsupported HIP gpu architecture", "invalid target ID", "unsupported CUDA gpu architecture"];
        if unknown.iter().any(|message| log.contains(message)) {
            return Err(Failure::UnknownTarget);
        }
        Err(Failure::Diagnostics(if log.trim().is_empty() {
            format!("{} ended by {status}", self.path.display())
        } else {
            log
        }))
    }

    fn precompile(&self, target: &str, defines: &[(String, String)]) -> Result<Form, String> {
        let told = |error: std::io::Error| error.to_string();
        let folder = tempfile::Builder::new().prefix("rocfire-").tempdir().map_err(told)?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path(PRELUDE_FILE), rocfire_prelude::TEXT).map_err(told)?;
        fs::write(path(steps::OVERLAY_FILE), steps::OVERLAY).map_err(told)?;
        let source = file_name("");
        fs::write(path(&source), "").map_err(told)?;
        let steps = Steps::of(&self.path, &self.options(target, false), folder.path(), &source);
        let steps = steps.ok_or("what clang's driver runs is not understood")?;
        match self.run(steps.precompile(defines), folder.path(), &mut || {}) {
            Ok(Ok(())) => fs::read(path(steps::PRECOMPILED_FILE)).map(Form::Bytes).map_err(told),
            Ok(Err((status, log))) => Err(format!("{status}: {log}")),
            Err(Failure::Other(error)) => Err(error.to_string()),
            Err(Failure::UnknownTarget | Failure::Diagnostics(_)) => unreachable!("the log has not been read"),
        }
    }
}

/// Looks for a clang: `clang` and `clang-NN` in `PATH`, then ROCm's own. [`super::clang`] does so once per process; this
/// looks again, for whoever has just installed one.
///
/// # Errors
/// Each program that was found and not taken, with the reason.
pub fn find() -> Result<Clang, Vec<Rejected>> {
    let mut rejected = Vec::new();
    for path in candidates() {
        match Clang::probe(&path) {
            Ok(clang) => return Ok(clang),
            Err(reason) => rejected.push(Rejected { path, reason }),
        }
    }
    Err(rejected)
}

/// One line that says what was looked for and why each that was found was refused.
pub(super) fn describe(rejected: &[Rejected]) -> String {
    let looked = format!(
        "looked for clang {OLDEST} or newer with lld: `clang` and `clang-NN` in PATH, and `llvm/bin/clang` under \
         ROCM_PATH, HIP_PATH and /opt/rocm"
    );
    if rejected.is_empty() {
        return format!("{looked}; found none (Debian 12: packages clang-22 and lld-22)");
    }
    let reasons = rejected.iter().map(|each| format!("{} {}", each.path.display(), each.reason));
    format!("{looked}; {}", reasons.collect::<Vec<_>>().join("; "))
}

fn candidates() -> Vec<PathBuf> {
    let versioned = (OLDEST - 1..=NEWEST).rev().map(|version| format!("clang-{version}"));
    let named = std::iter::once("clang".to_owned()).chain(versioned).filter_map(|name| find_in_path(&name));
    let rocm = crate::rocm::roots().into_iter().map(|root| root.join("llvm/bin/clang")).filter(|path| path.is_file());
    named.chain(rocm).collect()
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| path.is_file())
}

fn output(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(path).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What of a clang decides the code: part of the cache's key.
fn identity(version: &str, code_object_version: u32) -> String {
    format!("{version} -mcode-object-version={code_object_version} {}", OPTIONS.join(" "))
}

/// The 22 of `Debian clang version 22.1.8`.
fn major_version(line: &str) -> Option<u32> {
    let (_, version) = line.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A source's name as reports show it.
fn shown_name(name: &str) -> String {
    let safe = |c: char| if c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    format!("{}.hip", name.chars().map(safe).collect::<String>())
}

/// A source's name as the name of a file.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    // A leading letter keeps it from being taken for an option.
    format!("k_{}.hip", name.chars().map(safe).take(100).collect::<String>())
}

#[cfg(test)]
mod tests;
