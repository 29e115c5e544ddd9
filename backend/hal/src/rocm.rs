//! Where ROCm is, and which version, without asking any library.

use std::path::{Path, PathBuf};

/// Folders that may hold a ROCm: `ROCM_PATH`, `HIP_PATH`, `/opt/rocm`, `/opt/rocm-*` with the newest first. Only those
/// that exist.
pub(crate) fn roots() -> Vec<PathBuf> {
    installed(["ROCM_PATH", "HIP_PATH"], "/opt", "rocm")
}

/// Folders of a platform that exist: those that variables name, `PARENT/NAME`, `PARENT/NAME-*` with the newest first.
pub(crate) fn installed(variables: [&str; 2], parent: &str, name: &str) -> Vec<PathBuf> {
    let named = variables.into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let versioned = versioned_folders(parent, &format!("{name}-"));
    let mut roots: Vec<PathBuf> = Vec::new();
    for root in named.chain([Path::new(parent).join(name)]).chain(versioned) {
        if root.is_dir() && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Folders in `parent` whose name is `prefix` and a version, the newest first.
fn versioned_folders(parent: &str, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut folders: Vec<PathBuf> = entries.filter(named).collect();
    folders.sort_by_key(|path| std::cmp::Reverse(version_of_name(path)));
    folders
}

/// The version that a ROCm says it has in `.info/version`: `6.2.4-66`.
pub(crate) fn installed_version() -> Option<String> {
    roots().iter().find_map(|root| {
        let text = std::fs::read_to_string(root.join(".info/version")).ok()?;
        let version = text.lines().next()?.trim();
        (!version.is_empty()).then(|| version.to_owned())
    })
}

/// Version numbers compare as numbers: 6.10 is newer than 6.9.
fn version_of_name(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    numbers(&name)
}

/// The numbers in a version: `[6, 2, 4, 66]` for `6.2.4-66`.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Why a version of ROCm is known to be bad, if it is.
pub(crate) fn known_bad(version: &str) -> Option<&'static str> {
    match numbers(version)[..] {
        [7, 2, 0..=3, ..] => Some("graph replay corrupts results on some runs (ROCm/clr#279); graphs stay off"),
        _ => None,
    }
}
