//! `cargo verify --outside`: what others wrote, on our device. Candle's own device tests come from the sources that cargo has of
//! candle-core and candle-nn; the models of candle-transformers are the crate `tests/outside`'s. Nothing of them is kept.
//!
//! Everything is built with the features of the default members, so that what is built fits.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::report::{Counts, tests};
use super::{cargo, cargo_command};

/// Packages whose tests are run, and files of theirs that are for a feature that is not here.
const SUITES: [&str; 2] = ["candle-core", "candle-nn"];
const LEFT_OUT: [&str; 2] = ["cutile_tests", "cutile_moe"];
/// The packages that are built: all but those that need other features of Burn.
const BUILT: [&str; 5] = ["--workspace", "--exclude", "compare", "--exclude", "remote"];

/// Where cargo has the sources of packages, and its target folder.
pub struct Sources {
    suites: Vec<PathBuf>,
    target: PathBuf,
}

impl Sources {
    /// Asks cargo; `None` if it does not answer, or has no such packages.
    pub fn find() -> Option<Sources> {
        let output = cargo_command().args(["metadata", "--format-version", "1"]).output().ok()?;
        let metadata: Value = serde_json::from_slice(&output.stdout).ok()?;
        let packages = metadata["packages"].as_array()?;
        let folder = |name: &str| {
            let found = packages.iter().find(|package| package["name"] == name)?;
            Path::new(found["manifest_path"].as_str()?).parent().map(Path::to_path_buf)
        };
        let suites = SUITES.into_iter().map(folder).collect::<Option<_>>()?;
        Some(Sources { suites, target: metadata["target_directory"].as_str()?.into() })
    }

    /// Candle's tests that are for a GPU.
    pub fn suites(&self, counts: &mut Counts) -> bool {
        let folder = self.target.join("outside");
        let list = folder.join("candle_suites.rs");
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&list, self.modules()?));
        if let Err(error) = written {
            eprintln!("{}: {error}", list.display());
            return false;
        }
        let words = ["--features", "outside/suites", "--test", "candle_suites", "--no-fail-fast", "--", "gpu", "cuda"];
        let words: Vec<&str> = ["test"].into_iter().chain(BUILT).chain(words).collect();
        tests(&words, &[("ROCFIRE_CANDLE_SUITES", list.as_os_str())], counts)
    }

    /// A module for each file of tests.
    fn modules(&self) -> std::io::Result<String> {
        let mut modules = String::new();
        for suite in &self.suites {
            let mut files = fs::read_dir(suite.join("tests"))?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<std::io::Result<Vec<_>>>()?;
            files.sort();
            for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                if !LEFT_OUT.contains(&&*name) {
                    // Warnings about others' code are not ours to mend.
                    modules += "#[allow(warnings, missing_docs, unsafe_op_in_unsafe_fn, clippy::all)]\n";
                    modules += &format!("#[path = {file:?}]\nmod {name};\n");
                }
            }
        }
        Ok(modules)
    }

    /// The models whose rows have this text in their names.
    pub fn models(&self, filter: &str) -> bool {
        let words: Vec<&str> = ["build"].into_iter().chain(BUILT).chain(["--bin", "outside"]).collect();
        let program = self.target.join("debug").join(format!("outside{}", std::env::consts::EXE_SUFFIX));
        cargo(&words, &[])
            && std::process::Command::new(program).arg(filter).status().is_ok_and(|status| status.success())
    }
}
