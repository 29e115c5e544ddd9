//! Is Burn's slot filled? Reads a project's `Cargo.lock` and tells by name what is wrong with its `[patch]`.
//!
//! Burn 0.22 reaches this backend through whatever Cargo resolves `burn-tch` to. Cargo itself says little when that goes
//! wrong: without the patch the real LibTorch bindings are built, a patch of another version is dropped with a warning,
//! and a patch from another source than `rocfire-burn` makes two crates whose types do not fit. All of it is visible in
//! the lock file. Two callers: this crate's build script, which includes this file and stops the build with the message,
//! and `rocfire check`. It reads one file, knows nothing of Cargo's own resolution, and depends on the standard library
//! alone, since it is compiled before anything else.

use std::fmt;
use std::path::{Path, PathBuf};

/// The package that Burn asks for.
const SLOT: &str = "burn-tch";
/// The package that holds the backend; both must come from one source.
const BACKEND: &str = "rocfire-burn";
/// The crate of Burn that has the slot.
const DISPATCH: &str = "burn-dispatch";

/// What a lock file says about the slot when nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Burn's `tch` feature is on and `burn-tch` is rocfire's: `Device::from(RocmDevice::default())` works.
    Filled,
    /// Nothing asks for `burn-tch`: the backend is used through `burn_backend::Backend` alone.
    NotAsked,
}

/// Why Burn would not reach this backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchError {
    /// There is no lock file in the folder or above it.
    NoLock {
        /// The folder that was searched first.
        folder: PathBuf,
    },
    /// The lock file could not be read.
    Unreadable {
        /// The lock file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// The project does not depend on `rocfire-burn`.
    NoBackend {
        /// The lock file.
        path: PathBuf,
    },
    /// `burn-tch` comes from the registry: the real LibTorch bindings.
    Missing {
        /// The version that Burn resolved to.
        version: String,
        /// The line that belongs under `[patch.crates-io]`.
        line: String,
    },
    /// There is a patch for `burn-tch`, and Cargo did not use it because Burn asks for another version.
    WrongVersion {
        /// The version that Burn asks for.
        asked: String,
        /// The version that the patch offers.
        offered: String,
    },
    /// There is a patch for `burn-tch`, and nothing asks for the package.
    Unused {
        /// The version that the patch offers.
        offered: String,
    },
    /// The patch and the dependency name different sources.
    TwoSources {
        /// Where one of them comes from.
        first: String,
        /// Where the other comes from.
        second: String,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::NoLock { folder } => {
                write!(f, "no Cargo.lock in {} or above it: run `cargo generate-lockfile` first", folder.display())
            }
            PatchError::Unreadable { path, reason } => write!(f, "cannot read {}: {reason}", path.display()),
            PatchError::NoBackend { path } => write!(f, "{} does not mention {BACKEND}", path.display()),
            PatchError::Missing { version, line } => write!(
                f,
                "the [patch] for {SLOT} is missing: Burn's `tch` feature resolved to the LibTorch bindings ({SLOT} \
                 {version} from the registry), not to rocfire\n\
                 add to the Cargo.toml of the workspace's root (Cargo ignores patches anywhere else):\n\
                 [patch.crates-io]\n\
                 {line}"
            ),
            PatchError::WrongVersion { asked, offered } => write!(
                f,
                "the [patch] for {SLOT} is unused: Burn asks for {SLOT} {asked} and the patch offers {offered}\n\
                 pin Burn to the version that rocfire fills: burn = \"={offered}\""
            ),
            PatchError::Unused { offered } => write!(
                f,
                "the [patch] for {SLOT} {offered} is unused: nothing asks for {SLOT}\n\
                 turn on Burn's feature: burn = {{ version = \"={offered}\", features = [\"tch\"] }}"
            ),
            PatchError::TwoSources { first, second } => write!(
                f,
                "the [patch] for {SLOT} and the dependency on {BACKEND} name two sources, which are two different \
                 crates:\n  {first}\n  {second}\n\
                 write the same `git`, `branch`, `tag`, `rev` or `path` in both places"
            ),
        }
    }
}

impl std::error::Error for PatchError {}

/// Checks the project that `folder` belongs to: its `Cargo.lock`, or the nearest one above.
///
/// # Errors
/// A [`PatchError`] that names what is wrong and the line to write.
pub fn check_project(folder: &Path) -> Result<Slot, PatchError> {
    let path = folder
        .ancestors()
        .map(|folder| folder.join("Cargo.lock"))
        .find(|path| path.is_file())
        .ok_or_else(|| PatchError::NoLock { folder: folder.to_owned() })?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| PatchError::Unreadable { path: path.clone(), reason: error.to_string() })?;
    check_lock(&text).unwrap_or(Err(PatchError::NoBackend { path }))
}

/// Checks the text of a lock file; `None` when it does not mention `rocfire-burn`.
pub(crate) fn check_lock(text: &str) -> Option<Result<Slot, PatchError>> {
    let lock = Lock::parse(text);
    let ours: Vec<&Entry> = lock.packages.iter().filter(|entry| entry.name == BACKEND).collect();
    let backend = ours.first()?;
    if let Some(other) = ours.get(1) {
        return Some(Err(PatchError::TwoSources { first: backend.origin(), second: other.origin() }));
    }
    Some(check_slot(&lock, backend))
}

fn check_slot(lock: &Lock, backend: &Entry) -> Result<Slot, PatchError> {
    let offered = lock.unused.iter().find(|entry| entry.name == SLOT);
    let mut slots: Vec<&Entry> = lock.packages.iter().filter(|entry| entry.name == SLOT).collect();
    // A project may have another Burn of another version beside this one, with the bindings that belong to it.
    slots.sort_by_key(|slot| slot.source != backend.source);
    let Some(slot) = slots.first() else {
        let has_slot = lock.packages.iter().any(|entry| entry.name == DISPATCH);
        return match offered {
            Some(patch) if has_slot => Err(PatchError::Unused { offered: patch.version.clone() }),
            _ => Ok(Slot::NotAsked),
        };
    };
    if slot.is_from_registry() && !backend.is_from_registry() {
        return Err(match offered {
            Some(patch) => PatchError::WrongVersion { asked: slot.version.clone(), offered: patch.version.clone() },
            None => PatchError::Missing { version: slot.version.clone(), line: backend.patch_line() },
        });
    }
    if slot.source != backend.source {
        return Err(PatchError::TwoSources { first: slot.origin(), second: backend.origin() });
    }
    Ok(Slot::Filled)
}

/// The parts of a lock file that matter here.
#[derive(Default)]
struct Lock {
    packages: Vec<Entry>,
    unused: Vec<Entry>,
}

/// A package of a lock file. No source means a path.
#[derive(Default)]
struct Entry {
    name: String,
    version: String,
    source: String,
}

impl Lock {
    /// A lock file is written by Cargo in one fixed form, a key a line, so a line reader is enough.
    fn parse(text: &str) -> Lock {
        let mut lock = Lock::default();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
                match section {
                    "[[package]]" => lock.packages.push(Entry::default()),
                    "[[patch.unused]]" => lock.unused.push(Entry::default()),
                    _ => {}
                }
                continue;
            }
            let entry = match section {
                "[[package]]" => lock.packages.last_mut(),
                "[[patch.unused]]" => lock.unused.last_mut(),
                _ => None,
            };
            let (Some(entry), Some((key, value))) = (entry, line.split_once(" = ")) else { continue };
            let field = match key {
                "name" => &mut entry.name,
                "version" => &mut entry.version,
                "source" => &mut entry.source,
                _ => continue,
            };
            *field = value.trim_matches('"').to_owned();
        }
        lock
    }
}

impl Entry {
    fn is_from_registry(&self) -> bool {
        self.source.starts_with("registry+") || self.source.starts_with("sparse+")
    }

    fn origin(&self) -> String {
        let source = if self.source.is_empty() { "a path" } else { &self.source };
        format!("{} {} from {source}", self.name, self.version)
    }

    /// What to write under `[patch.crates-io]` so that the slot comes from where this package comes from.
    fn patch_line(&self) -> String {
        let Some(git) = self.source.strip_prefix("git+") else {
            return format!("{SLOT} = {{ path = \"…/rocfire/backend/burn/slot\" }}");
        };
        let location = git.split('#').next().unwrap_or(git);
        let (url, query) = location.split_once('?').unwrap_or((location, ""));
        let mut line = format!("{SLOT} = {{ git = \"{url}\"");
        if let Some((kind, name)) = query.split_once('=') {
            line.push_str(&format!(", {kind} = \"{name}\""));
        }
        line.push_str(" }");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: &str = "git+https://example.com/rocfire?branch=main#0123456789abcdef";

    fn package(name: &str, version: &str, source: &str) -> String {
        let source = if source.is_empty() { String::new() } else { format!("source = \"{source}\"\n") };
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
    }

    #[test]
    fn one_git_source_for_both_fills_the_slot() {
        let lock = package("rocfire-burn", "0.1.0", GIT) + &package("burn-tch", "0.22.1", GIT);
        assert_eq!(check_lock(&lock), Some(Ok(Slot::Filled)));
    }

    #[test]
    fn a_missing_patch_names_the_source_of_the_backend() {
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        let lock = package("burn-tch", "0.22.1", registry) + &package("rocfire-burn", "0.1.0", GIT);
        let error = check_lock(&lock).unwrap().unwrap_err();
        let line = "burn-tch = { git = \"https://example.com/rocfire\", branch = \"main\" }".to_owned();
        assert_eq!(error, PatchError::Missing { version: "0.22.1".to_owned(), line });
    }

    #[test]
    fn another_burn_may_have_its_own_bindings() {
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        let lock = package("burn-tch", "0.21.0", registry)
            + &package("burn-tch", "0.22.1", GIT)
            + &package("rocfire-burn", "0.1.0", GIT);
        assert_eq!(check_lock(&lock), Some(Ok(Slot::Filled)));
    }

    #[test]
    fn another_commit_is_another_source() {
        let other = "git+https://example.com/rocfire?branch=main#ffffffffffffffff";
        let lock = package("rocfire-burn", "0.1.0", GIT) + &package("burn-tch", "0.22.1", other);
        assert!(matches!(check_lock(&lock), Some(Err(PatchError::TwoSources { .. }))));
    }

    #[test]
    fn a_lock_file_of_others_is_none_of_our_business() {
        assert_eq!(check_lock(&package("burn-tch", "0.22.1", "")), None);
        assert_eq!(check_lock(""), None);
    }
}
