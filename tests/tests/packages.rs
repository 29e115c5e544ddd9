//! The crates that can be published: what their packages say of themselves and hold.
//!
//! Published is what has no `publish = false`. Cargo packs all of them here as it would for crates.io, so that each finds the others
//! as packages; what it would only miss when building one, files that a source takes in, is compared with the list of what was
//! packed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// What each package has besides its sources.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Which tests may look for files outside of their crate: they say what they do where these are not.
const LOOK_OUTSIDE: [&str; 1] = ["backend/hal/src/cuda/dependent.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table(path: &Path) -> toml::Table {
    read(path).parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A crate that can be published.
struct Package {
    name: String,
    /// From the root.
    folder: PathBuf,
    manifest: toml::Table,
}

/// The members of the workspace that can be published, and the workspace's own table.
fn published() -> (Vec<Package>, toml::Table) {
    let workspace = table(&root().join("Cargo.toml"));
    let workspace = workspace["workspace"].as_table().unwrap().clone();
    assert_eq!(workspace["package"]["publish"].as_bool(), Some(false), "what inherits it is not published");
    let members = workspace["members"].as_array().unwrap().iter().filter_map(toml::Value::as_str);
    let packages = members.filter_map(|member| {
        let manifest = table(&root().join(member).join("Cargo.toml"));
        let package = manifest["package"].as_table().unwrap();
        let kept = package.get("publish").is_some();
        let name = package["name"].as_str().unwrap().to_owned();
        (!kept).then_some(Package { name, folder: member.into(), manifest })
    });
    (packages.collect(), workspace)
}

#[test]
fn packages_say_what_they_are() {
    let (packages, workspace) = published();
    let version = workspace["package"]["version"].as_str().unwrap();
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for known in ["arch", "isa", "emulator", "hal", "prelude", "fusion", "kernels"] {
        assert!(names.contains(&format!("rocfire-{known}").as_str()), "rocfire-{known} can be published: {names:?}");
    }
    for Package { name, folder, manifest } in &packages {
        let package = manifest["package"].as_table().unwrap();
        let description = package.get("description").and_then(toml::Value::as_str).unwrap_or_default();
        assert!((20..160).contains(&description.len()), "{name} has a description of a line: {description:?}");
        assert_eq!(package.get("readme").and_then(toml::Value::as_str), Some("README.md"), "{name}");
        for key in ["keywords", "categories"] {
            let words = package.get(key).and_then(toml::Value::as_array).map_or(0, Vec::len);
            assert!((1..=5).contains(&words), "{name} has 1 to 5 {key}");
        }
        for key in ["version", "license", "edition", "rust-version"] {
            let inherited = package[key].get("workspace").and_then(toml::Value::as_bool);
            assert_eq!(inherited, Some(true), "{name}: {key} is the workspace's");
        }
        let changes = read(&root().join(folder).join("CHANGELOG.md"));
        let heading = changes.lines().find(|line| line.starts_with("## "));
        assert_eq!(heading, Some(format!("## {version}").as_str()), "the newest changes of {name}");
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let own = read(&root().join(folder).join(license));
            assert_eq!(own, read(&root().join(license)), "{name}: {license} is the workspace's");
        }
        let page = read(&root().join(folder).join("src/lib.rs"));
        let (readme, taken) = (read(&root().join(folder).join("README.md")), page.contains("../README.md"));
        let has_example = page.contains("//! ```\n") || taken && readme.contains("```rust\n");
        assert!(has_example, "the documentation of {name} opens with an example");
    }
}

#[test]
fn packages_need_packages_of_this_version_only() {
    let (packages, workspace) = published();
    let version = workspace["package"]["version"].as_str();
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let shared = workspace["dependencies"].as_table().unwrap();
    for Package { name, manifest, .. } in &packages {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let needed = manifest.get(kind).and_then(toml::Value::as_table);
            for (needed, what) in needed.into_iter().flatten() {
                let inherited = what.get("workspace").is_some();
                // A crate's own tests may ask for more features of it; cargo leaves that out of a package.
                let own = needed == name && kind == "dev-dependencies" && what.get("version").is_none();
                let path = if inherited { shared[needed].get("path") } else { what.get("path") };
                if path.is_none() || own {
                    continue;
                }
                assert!(inherited && names.contains(needed.as_str()), "{name} needs {needed}, which is no package");
                let asked = shared[needed].get("version").and_then(toml::Value::as_str);
                assert_eq!(asked, version, "{name} needs {needed} of the workspace's version");
            }
        }
    }
}

/// Runs `cargo package` for every package at once.
fn cargo_package(packages: &[Package], words: &[&str]) -> String {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(["package", "--quiet", "--allow-dirty", "--offline"]).args(words);
    command.args(packages.iter().flat_map(|package| ["--package", &package.name]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The files that a source takes in or looks for, as they are written: behind `include_str!(` and the like, `#[path = ` and
/// `CARGO_MANIFEST_DIR`. The second is whether they are relative to the manifest.
fn files_of(text: &str) -> Vec<(String, bool)> {
    let literal = |rest: &str| Some(rest.split_once('"')?.1.split_once('"')?.0.to_owned());
    let behind = |what: &str| -> Vec<String> {
        let places = text.match_indices(what).map(|(at, _)| text[at + what.len()..].lines().next().unwrap_or_default());
        // `concat!` puts a name together, in a macro whose folder is named whole.
        places.filter(|rest| rest.trim_start().starts_with('"')).filter_map(literal).collect()
    };
    let mut files: Vec<(String, bool)> = ["include_str!(", "include_bytes!(", "#[path = "]
        .into_iter()
        .flat_map(behind)
        .map(|file| (file, false))
        .collect();
    files.extend(behind("CARGO_MANIFEST_DIR\")).join(").into_iter().map(|file| (file, true)));
    files
}

/// A path without `.` and `..`; `None` if it leads out of where it began.
fn within(path: &Path) -> Option<PathBuf> {
    path.components().try_fold(PathBuf::new(), |mut within, part| match part {
        Component::ParentDir => within.pop().then_some(within),
        Component::Normal(name) => {
            within.push(name);
            Some(within)
        }
        Component::CurDir => Some(within),
        Component::RootDir | Component::Prefix(_) => None,
    })
}

#[test]
fn cargo_packs_them_with_all_that_they_take_in() {
    let (packages, _) = published();
    let target = tempfile::tempdir().unwrap();
    let folder = target.path().to_str().unwrap();
    cargo_package(&packages, &["--no-verify", "--target-dir", folder]);
    let (mut sources, mut missing) = (0, Vec::new());
    for package in &packages {
        let list = cargo_package(std::slice::from_ref(package), &["--list"]);
        let files: BTreeSet<&Path> = list.lines().map(Path::new).collect();
        let name = &package.name;
        assert!(PAGES.iter().all(|page| files.contains(Path::new(page))), "{name}: {list}");
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
            sources += 1;
            let in_tree = package.folder.join(file);
            if LOOK_OUTSIDE.iter().any(|allowed| in_tree == Path::new(allowed)) {
                continue;
            }
            for (taken, by_manifest) in files_of(&read(&root().join(&in_tree))) {
                let from = if by_manifest { Path::new("") } else { file.parent().unwrap() };
                let found = within(&from.join(&taken)).filter(|taken| files.iter().any(|file| file.starts_with(taken)));
                if found.is_none() {
                    missing.push(format!("{name}: {} takes in {taken}", file.display()));
                }
            }
        }
    }
    assert!(sources > 300, "{sources} sources");
    assert!(missing.is_empty(), "not in the package:\n{}", missing.join("\n"));
}

#[test]
fn files_that_a_source_takes_in_are_found() {
    let text =
        "a(include_str!(\"x.h\")); #[path = \"../y.rs\"]\nPath::new(env!(\"CARGO_MANIFEST_DIR\")).join(\"tests/z\")";
    let found = files_of(text);
    assert_eq!(found, [("x.h".to_owned(), false), ("../y.rs".to_owned(), false), ("tests/z".to_owned(), true)]);
    assert_eq!(within(Path::new("src/a/../b.h")), Some("src/b.h".into()));
    assert_eq!(within(Path::new("src/../../b.h")), None);
}
