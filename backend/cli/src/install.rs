//! Installing what a bare machine lacks: the AMDGPU compiler, and for `verify` LLVM's tools.
//!
//! Only through the system's own package manager, and only Debian's `apt-get` is driven; elsewhere, or when told not to,
//! the answer is the exact command to run. rocfire itself never downloads anything.

use std::process::{Command, Stdio};

use rocfire_hal::compile;

/// The version that CI runs, tried first.
const PREFERRED: u32 = 22;
/// Newer ones that may be packaged, then the oldest that is right (19 miscompiles a wave32 reduction).
const OTHERS: [u32; 6] = [25, 24, 23, 21, 20, 26];

/// Why the compiler could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user, or the lack of a package manager, forbids it.
    #[error("{missing} is missing and {why}; run:\n\n    {command}\n")]
    ByHand {
        /// What is missing.
        missing: String,
        /// Why it was not installed.
        why: String,
        /// What to run.
        command: String,
    },
}

/// What a command needs beyond Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// clang and lld with the AMDGPU target.
    Compiler,
    /// The same, and `llvm-mc` and `llvm-objdump` for the tests of the decoder.
    CompilerAndTools,
}

/// Finds or installs what is needed.
///
/// # Errors
/// [`Error::ByHand`] with the command that a user has to run.
pub fn ensure(need: Need, no_install: bool) -> Result<(), Error> {
    let missing = missing(need);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" and ");
    if !has("apt-get") {
        let command = "sudo dnf install clang lld llvm    # Fedora; Arch: sudo pacman -S clang lld llvm".to_owned();
        return Err(Error::ByHand { missing: names, why: "this system has no apt-get".to_owned(), command });
    }
    let (version, updated) = match candidate() {
        Some(version) => (version, true),
        None => (PREFERRED, false),
    };
    let mut words =
        vec!["apt-get".to_owned(), "install".to_owned(), "-y".to_owned(), "--no-install-recommends".to_owned()];
    words.extend(packages(need, version));
    let root = is_root();
    let prefix = if root { "" } else { "sudo " };
    let command = format!("{prefix}apt-get update && {prefix}{}", words.join(" "));
    let by_hand = |why: &str| Error::ByHand { missing: names.clone(), why: why.to_owned(), command: command.clone() };
    if no_install {
        return Err(by_hand("--no-install forbids to install it"));
    }
    if !root && !has("sudo") {
        return Err(by_hand("this user is not root and has no sudo"));
    }
    eprintln!("{names} is missing: rocfire compiles its GPU kernels with it. Installing: {command}");
    if !updated {
        apt(root, &["apt-get".to_owned(), "update".to_owned()]);
        if let Some(version) = candidate() {
            words.truncate(4);
            words.extend(packages(need, version));
        }
    }
    if !apt(root, &words) {
        return Err(by_hand("the package manager failed"));
    }
    match self::missing(need).as_slice() {
        [] => Ok(()),
        still => Err(by_hand(&format!("{} was still not found after installing", still.join(" and ")))),
    }
}

/// Installs the first of some packages that the package manager knows.
///
/// # Errors
/// [`Error::ByHand`], as [`ensure`].
pub fn debian(what: &str, names: &[&str]) -> Result<(), Error> {
    let root = is_root();
    let prefix = if root { "" } else { "sudo " };
    let last = names.last().copied().unwrap_or_default();
    let command = |name: &str| format!("{prefix}apt-get install -y --no-install-recommends {name}");
    let by_hand = |why: &str| Error::ByHand { missing: what.to_owned(), why: why.to_owned(), command: command(last) };
    if !has("apt-get") {
        return Err(by_hand("this system has no apt-get"));
    }
    if !root && !has("sudo") {
        return Err(by_hand("this user is not root and has no sudo"));
    }
    apt(root, &["apt-get".to_owned(), "update".to_owned()]);
    let name = names.iter().find(|name| is_known(name)).ok_or_else(|| by_hand("the package manager knows none"))?;
    eprintln!("installing: {}", command(name));
    let words = ["apt-get", "install", "-y", "--no-install-recommends", name].map(str::to_owned);
    if apt(root, &words) { Ok(()) } else { Err(by_hand("the package manager failed")) }
}

fn packages(need: Need, version: u32) -> Vec<String> {
    let mut packages = vec![format!("clang-{version}"), format!("lld-{version}")];
    if need == Need::CompilerAndTools {
        packages.push(format!("llvm-{version}"));
    }
    packages
}

/// What of the need is not there, in words.
fn missing(need: Need) -> Vec<String> {
    let mut missing = Vec::new();
    if compile::find_clang().is_err() {
        missing.push("an AMDGPU compiler (clang 20 or newer with lld)".to_owned());
    }
    let tools = [PREFERRED].into_iter().chain(OTHERS);
    if need == Need::CompilerAndTools
        && !tools.into_iter().any(|version| has(&format!("llvm-mc-{version}")))
        && !is_recent("llvm-mc")
    {
        missing.push("llvm-mc (LLVM's tools)".to_owned());
    }
    missing
}

/// Whether a tool of LLVM without a version in its name is there, and no older than those with one that are looked for: other
/// packages bring old ones along.
fn is_recent(tool: &str) -> bool {
    let Ok(output) = Command::new(tool).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split("LLVM version ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    let oldest = [PREFERRED].into_iter().chain(OTHERS).min();
    version >= oldest
}

/// The version of clang that the package manager would install, `None` if it knows none (or has no lists yet).
fn candidate() -> Option<u32> {
    [PREFERRED].into_iter().chain(OTHERS).find(|version| is_known(&format!("clang-{version}")))
}

/// Whether the package manager would install a package.
fn is_known(package: &str) -> bool {
    let output = Command::new("apt-cache").args(["policy", package]).output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().any(|line| line.trim().starts_with("Candidate:") && !line.contains("(none)"))
    })
}

fn apt(root: bool, words: &[String]) -> bool {
    let mut command = if root {
        Command::new(&words[0])
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg(&words[0]);
        sudo
    };
    command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn has(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
