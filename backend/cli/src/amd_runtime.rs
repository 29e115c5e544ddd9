//! `rocfire amd-runtime`: AMD's own runtime on an emulated card. Builds the library that is preloaded for it, says what there is of
//! AMD's runtime or has Debian's package manager install it, and runs a program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install;

/// A test whose build makes the library, as `hip_library` has it.
const TEST: &str = "hsa";
/// As cargo builds it.
const BUILT: &str = "librocfire_kfd.so";
/// AMD's packages in Debian, by the name of HIP's library: newest first.
const PACKAGES: [&str; 3] = ["libamdhip64-7", "libamdhip64-6", "libamdhip64-5"];
/// Where the system's loader looks.
const FOLDERS: [&str; 4] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/opt/rocm/lib"];

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Which card: ROCFIRE_HIP_ARCH; the README of backend/kfd says which ones AMD's runtimes know.\n\n\
    The library is built by `cargo build` in the source tree that this command comes from."
)]
pub struct Arguments {
    /// Install AMD's runtime from Debian's packages, if there is none.
    #[arg(long)]
    install: bool,
    /// The program to run, and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Why nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree is gone, or cargo's own messages say why.
    #[error("cargo has built no {BUILT}; only Linux is supported, in a checkout")]
    Build,
    /// The program could not be started.
    #[error("cannot run {}: {source}", .program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ended otherwise than well.
    #[error("{} ended with {status}", .program.display())]
    Ended {
        /// Which.
        program: PathBuf,
        /// How.
        status: std::process::ExitStatus,
    },
}

/// Builds, installs if asked to, and runs.
///
/// # Errors
/// [`Error`], or why AMD's runtime could not be installed.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if arguments.install && installed().is_empty() {
        install::debian("AMD's runtime", &PACKAGES)?;
    }
    let library = build()?;
    let Some((program, rest)) = arguments.program.split_first() else {
        println!("the library to preload: {}", library.display());
        match installed().as_slice() {
            [] => println!("AMD's runtime: none; `cargo amd-runtime --install` gets it from Debian"),
            found => found.iter().for_each(|path| println!("AMD's runtime: {}", path.display())),
        }
        return Ok(());
    };
    let name = || PathBuf::from(program);
    let status = Command::new(program).args(rest).env("LD_PRELOAD", &library).status();
    let status = status.map_err(|source| Error::Start { program: name(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Ended { program: name(), status }.into()) }
}

/// Has AMD's runtime for the tests that run on it, which say that they are skipped where there is none: it is installed where Debian's
/// package manager knows it, and what speaks against it is told, no more.
pub fn ensure(no_install: bool) {
    if no_install || cfg!(not(target_os = "linux")) || !installed().is_empty() {
        return;
    }
    if let Err(error) = install::debian("AMD's runtime, for the tests on it", &PACKAGES) {
        println!("tests on AMD's own runtime are skipped: {error}");
    }
}

/// HIP's library, where the loader finds it.
fn installed() -> Vec<PathBuf> {
    let versions = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    let paths = FOLDERS.iter().flat_map(|folder| versions.map(|name| Path::new(folder).join(name)));
    paths.filter(|path| path.is_file()).collect()
}

/// Has cargo build the library, and takes its path from what cargo says it has made.
fn build() -> Result<PathBuf, Error> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).args(["build", "--test", TEST, "--message-format=json-render-diagnostics"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|_| Error::Build)?;
    if !output.status.success() {
        return Err(Error::Build);
    }
    crate::hip_library::made(&String::from_utf8_lossy(&output.stdout), OsStr::new(BUILT)).ok_or(Error::Build)
}
