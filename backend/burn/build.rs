//! Stops a build whose `[patch]` does not put rocfire in Burn's slot, with a message that names what to write: Cargo
//! alone would go on to build LibTorch's bindings, or end with a type error far from the cause.
//!
//! The lock file is that of the build under way. Cargo does not say where it is, so it is looked for from the folder that
//! Cargo was started in or pointed at, and from the folder that the output goes to; one that does not mention this crate
//! is not ours, and without one there is nothing to say. `ROCFIRE_PATCH_CHECK=0` turns the check off, for a program that
//! wants LibTorch itself in Burn and uses this backend through `burn_backend::Backend` only.

use std::path::{Path, PathBuf};

#[allow(dead_code, reason = "the library uses all of it, the build script a part")]
#[path = "src/patch.rs"]
mod patch;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"next\"))");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/patch.rs");
    println!("cargo::rerun-if-env-changed=ROCFIRE_PATCH_CHECK");
    if std::env::var("ROCFIRE_PATCH_CHECK").is_ok_and(|value| value == "0") {
        return;
    }
    let locks = starting_folders().into_iter().flat_map(|folder| locks_above(&folder));
    for lock in locks {
        let Ok(text) = std::fs::read_to_string(&lock) else { continue };
        let Some(answer) = patch::check_lock(&text) else { continue };
        println!("cargo::rerun-if-changed={}", lock.display());
        if let Err(error) = answer {
            for line in error.to_string().lines() {
                println!("cargo::error={line}");
            }
            println!("cargo::error=(read from {})", lock.display());
        }
        return;
    }
}

/// Where the project may be, best guess first.
fn starting_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let (arguments, cwd) = cargo_process();
    for (index, argument) in arguments.iter().enumerate() {
        let path = match argument.strip_prefix("--manifest-path=") {
            Some(path) => Some(path),
            None if argument == "--manifest-path" => arguments.get(index + 1).map(String::as_str),
            None => None,
        };
        if let Some(folder) = path.and_then(|path| Path::new(path).parent()) {
            folders.push(cwd.as_ref().map_or(folder.to_owned(), |cwd| cwd.join(folder)));
        }
    }
    folders.extend(cwd);
    folders.extend(std::env::var_os("OUT_DIR").map(PathBuf::from));
    folders
}

/// The arguments and the folder of the Cargo that runs this script, where the system shows them.
#[cfg(target_os = "linux")]
fn cargo_process() -> (Vec<String>, Option<PathBuf>) {
    let parent = PathBuf::from(format!("/proc/{}", std::os::unix::process::parent_id()));
    let arguments = std::fs::read(parent.join("cmdline")).unwrap_or_default();
    let arguments = arguments.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    (arguments.collect(), std::fs::read_link(parent.join("cwd")).ok())
}

/// Elsewhere the shell's own record of the folder is the best there is.
#[cfg(not(target_os = "linux"))]
fn cargo_process() -> (Vec<String>, Option<PathBuf>) {
    (Vec::new(), std::env::var_os("PWD").map(PathBuf::from))
}

fn locks_above(folder: &Path) -> Vec<PathBuf> {
    folder.ancestors().map(|folder| folder.join("Cargo.lock")).filter(|path| path.is_file()).collect()
}
