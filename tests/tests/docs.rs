//! What the pages say of the tree, compared with the tree: links, commands, settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocfire_hal::SETTINGS;

/// The page for newcomers stays below this.
const MOST_LINES: usize = 120;
/// The glossary of the kernels has no more terms.
const MOST_TERMS: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// Every page, by its path from the root.
fn pages() -> Vec<(PathBuf, String)> {
    let found = files("", &[".md"]);
    assert!(found.len() > 10, "the folders' pages are found");
    found
}

/// The files below a folder with one of these endings, by their paths from the root; build output and hidden folders aside.
fn files(folder: &str, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push((path.strip_prefix(root()).unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// What stands behind each place of a text, for as long as its characters are of a kind.
fn words<'a>(text: &'a str, behind: &str, kind: fn(char) -> bool) -> impl Iterator<Item = &'a str> {
    let starts: Vec<usize> = text.match_indices(behind).map(|(at, found)| at + found.len()).collect();
    starts.into_iter().map(move |start| {
        let rest = &text[start..];
        &rest[..rest.find(|c| !kind(c)).unwrap_or(rest.len())]
    })
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for (page, text) in pages() {
        let folder = root().join(page.parent().unwrap());
        for link in words(&text, "](", |c| !matches!(c, ')' | ' ' | '\n')) {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn commands_are_there() {
    let config = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let mut known: BTreeSet<&str> = config["alias"].as_table().unwrap().keys().map(String::as_str).collect();
    known.extend(["add", "bench", "build", "check", "doc", "package", "run", "test"]);
    let mut unknown = Vec::new();
    for (page, text) in pages() {
        for behind in ["`cargo ", "\ncargo ", "0 cargo ", "-- cargo "] {
            for word in words(&text, behind, |c| c.is_ascii_lowercase() || c == '-') {
                if !known.contains(word) {
                    unknown.push(format!("{}: cargo {word}", page.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn settings_are_there() {
    // What others read than a device; those of tests begin alike.
    let others = ["ROCFIRE_BLESS", "ROCFIRE_HIP_ARCH", "ROCFIRE_HIP_DEVICES", "ROCFIRE_PATCH_CHECK"];
    let known: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.name).chain(others).collect();
    let mut unknown = Vec::new();
    for (page, text) in pages() {
        for word in words(&text, "ROCFIRE_", |c| c.is_ascii_uppercase() || c == '_') {
            let name = format!("ROCFIRE_{word}");
            if !known.contains(name.as_str()) && !name.starts_with("ROCFIRE_TEST_") {
                unknown.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_first_page_is_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= MOST_LINES, "README.md has {lines} lines");
}

#[test]
fn the_words_of_the_kernels_are_those_of_their_code() {
    let page = std::fs::read_to_string(root().join("kernels/README.md")).unwrap();
    let (_, table) = page.split_once("| word | what it is |").expect("the page has a glossary");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let terms: Vec<&str> = rows.flat_map(|words| words.split(", ")).filter(|term| !term.starts_with('-')).collect();
    assert!((20..=MOST_TERMS).contains(&terms.len()), "{} terms: {terms:?}", terms.len());
    let folders = ["kernels/src", "kernels/prelude/include", "fusion/src", "backend/hal/src/cuda"];
    let texts = folders.into_iter().flat_map(|folder| files(folder, &[".rs", ".hip", ".h"]));
    let code: String = texts.map(|(_, text)| text.to_lowercase()).collect();
    let unused: Vec<&&str> = terms.iter().filter(|term| !code.contains(&term.to_lowercase())).collect();
    assert!(unused.is_empty(), "nowhere in the code: {unused:?}");
}
