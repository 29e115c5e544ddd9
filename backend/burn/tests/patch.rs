//! Projects whose `[patch]` is right, missing, unused or of another source, built by Cargo.
//!
//! What is built is small: a registry in a folder with a `burn-dispatch` and a `burn-tch` of one line each, and a
//! `rocfire-burn` that has the real build script and nothing else. So the message is the one a user sees, from the lock
//! file that Cargo writes, in a second and without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A project with its registry.
struct Project {
    folder: TempDir,
    /// Whether Burn's `tch` feature is on.
    tch: bool,
    /// The version of the slot that is patched in, if one is.
    patch: Option<&'static str>,
    /// Whether the slot depends on another `rocfire-burn` than the project.
    second_backend: bool,
}

impl Project {
    fn new(tch: bool, patch: Option<&'static str>) -> Project {
        Project { folder: TempDir::new().unwrap(), tch, patch, second_backend: false }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes it all and builds it: whether that succeeded, and what Cargo said.
    fn build(&self) -> (bool, String) {
        self.write_registry();
        backend(&self.path("rocfire-burn"), "0.1.0");
        backend(&self.path("rocfire-burn-too"), "0.2.0");
        let behind = if self.second_backend { "../rocfire-burn-too" } else { "../rocfire-burn" };
        let version = self.patch.unwrap_or("0.22.1");
        package(&self.path("slot"), "burn-tch", version, &format!("rocfire-burn = {{ path = \"{behind}\" }}"), "");
        let features = if self.tch { "features = [\"tch\"]" } else { "features = []" };
        let dependencies = format!(
            "rocfire-burn = {{ path = \"../rocfire-burn\" }}\nburn-dispatch = {{ version = \"=0.22.1\", {features} }}"
        );
        let patch = if self.patch.is_some() { "[patch.crates-io]\nburn-tch = { path = \"../slot\" }\n" } else { "" };
        package(&self.path("user"), "user", "0.0.0", &dependencies, &format!("[workspace]\n{patch}"));
        write(
            &self.path("user/.cargo/config.toml"),
            "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\ndirectory = \"../registry\"\n",
        );
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["check", "--offline", "--color=never"])
            .current_dir(self.path("user"))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env_remove("ROCFIRE_PATCH_CHECK")
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Burn's dispatch and the LibTorch bindings, as far as they matter.
    fn write_registry(&self) {
        let dispatch = self.path("registry/burn-dispatch");
        let features = "[features]\ntch = [\"dep:burn-tch\"]\n";
        package(
            &dispatch,
            "burn-dispatch",
            "0.22.1",
            "burn-tch = { version = \"^0.22.1\", optional = true }",
            features,
        );
        let bindings = self.path("registry/burn-tch");
        package(&bindings, "burn-tch", "0.22.1", "", "");
        for folder in [dispatch, bindings] {
            write(&folder.join(".cargo-checksum.json"), "{\"files\":{}}");
        }
    }

    fn check(&self) -> Result<rocfire_burn::Slot, rocfire_burn::PatchError> {
        rocfire_burn::check_project(&self.path("user"))
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn package(folder: &Path, name: &str, version: &str, dependencies: &str, rest: &str) {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n[dependencies]\n{dependencies}\n{rest}"
    );
    write(&folder.join("Cargo.toml"), &manifest);
    write(&folder.join("src/lib.rs"), "");
}

/// A `rocfire-burn` of the real build script alone.
fn backend(folder: &Path, version: &str) {
    package(folder, "rocfire-burn", version, "", "");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["build.rs", "src/patch.rs"] {
        write(&folder.join(file), &fs::read_to_string(ours.join(file)).unwrap());
    }
}

#[test]
fn a_right_patch_builds() {
    let project = Project::new(true, Some("0.22.1"));
    let (built, said) = project.build();
    assert!(built, "{said}");
    assert_eq!(project.check(), Ok(rocfire_burn::Slot::Filled));
}

#[test]
fn without_burns_dispatch_nothing_is_asked_of_the_patch() {
    let project = Project::new(false, None);
    let (built, said) = project.build();
    assert!(built, "{said}");
    assert_eq!(project.check(), Ok(rocfire_burn::Slot::NotAsked));
}

#[test]
fn a_missing_patch_is_told_by_name() {
    let project = Project::new(true, None);
    let (built, said) = project.build();
    assert!(!built, "{said}");
    for part in ["the [patch] for burn-tch is missing", "[patch.crates-io]", "burn-tch = {"] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    assert!(matches!(project.check(), Err(rocfire_burn::PatchError::Missing { .. })));
}

#[test]
fn a_patch_of_another_version_is_told_by_name() {
    let project = Project::new(true, Some("0.21.0"));
    let (built, said) = project.build();
    assert!(!built, "{said}");
    let part = "Burn asks for burn-tch 0.22.1 and the patch offers 0.21.0";
    assert!(said.contains(part), "{part:?} is not in:\n{said}");
    assert!(matches!(project.check(), Err(rocfire_burn::PatchError::WrongVersion { .. })));
}

#[test]
fn a_patch_that_nothing_asks_for_is_told_by_name() {
    let project = Project::new(false, Some("0.22.1"));
    let (built, said) = project.build();
    assert!(!built, "{said}");
    let part = "the [patch] for burn-tch 0.22.1 is unused: nothing asks for burn-tch";
    assert!(said.contains(part), "{part:?} is not in:\n{said}");
    assert!(matches!(project.check(), Err(rocfire_burn::PatchError::Unused { .. })));
}

#[test]
fn a_patch_of_another_source_is_told_by_name() {
    let project = Project { second_backend: true, ..Project::new(true, Some("0.22.1")) };
    let (built, said) = project.build();
    assert!(!built, "{said}");
    assert!(said.contains("name two sources"), "{said}");
    assert!(matches!(project.check(), Err(rocfire_burn::PatchError::TwoSources { .. })));
}

#[test]
fn a_folder_without_a_lock_file_is_told_by_name() {
    let folder = TempDir::new().unwrap();
    let error = rocfire_burn::check_project(folder.path()).unwrap_err();
    assert!(error.to_string().contains("cargo generate-lockfile"), "{error}");
}

#[test]
fn this_repository_fills_the_slot() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(rocfire_burn::check_project(folder), Ok(rocfire_burn::Slot::Filled));
}
