//! `cargo verify --outside`: what others wrote, on our device. Candle's own device tests come from the sources that cargo has of
//! candle-core and candle-nn; the models of candle-transformers are the crate `tests/outside`'s. Nothing of them is kept.
//!
//! Everything is built with the features of the default members, so that what is built fits.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::report::{Counts, watch};
use super::{cargo, cargo_command};

/// Packages whose tests are run, and files of theirs that are for a feature that is not here.
const SUITES: [&str; 2] = ["candle-core", "candle-nn"];
const LEFT_OUT: [&str; 3] = ["cutile_tests", "cutile_moe", "metal_concurrent_tests"];
/// What the names of tests for a GPU hold.
const FOR_A_GPU: [&str; 3] = ["gpu", "cuda", "transferring_to_same_device"];
/// The packages that are built: all but those that need other features of Burn.
const BUILT: [&str; 5] = ["--workspace", "--exclude", "compare", "--exclude", "remote"];

/// Where cargo has the sources of packages, and its target folder.
pub struct Sources {
    metadata: Value,
    suites: Vec<PathBuf>,
    target: PathBuf,
}

impl Sources {
    /// Asks cargo; `None` if it does not answer, or has no such packages.
    pub fn find() -> Option<Sources> {
        let output = cargo_command().args(["metadata", "--format-version", "1"]).output().ok()?;
        let metadata: Value = serde_json::from_slice(&output.stdout).ok()?;
        let folder = |name: &str| {
            let manifest = package(&metadata, name)?["manifest_path"].as_str()?;
            Path::new(manifest).parent().map(Path::to_path_buf)
        };
        let suites = SUITES.into_iter().map(folder).collect::<Option<_>>()?;
        let target = metadata["target_directory"].as_str()?.into();
        Some(Sources { metadata, suites, target })
    }

    /// Candle's tests that are for a GPU. They pass if those fail that are known to, and no others.
    pub fn suites(&self, counts: &mut Counts) -> bool {
        if !cargo(&build(&[]), &[]) {
            return false;
        }
        let (Some(known), Some(beside), Some(inside)) = (self.known(), self.beside(counts), self.inside(counts)) else {
            return false;
        };
        let failed: BTreeSet<String> = beside.into_iter().chain(inside).collect();
        for name in failed.difference(&known) {
            println!("failed: {name}");
        }
        for name in known.difference(&failed) {
            println!("no longer fails, and is still called known: {name}");
        }
        println!("{} of Candle's tests are known to fail; the models' stage shows why", known.len());
        failed == known
    }

    /// The tests that are known to fail.
    fn known(&self) -> Option<BTreeSet<String>> {
        let output = Command::new(self.program()).arg("--known-tests").output().ok()?;
        let names = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| names.lines().map(str::to_owned).collect())
    }

    /// The packages' folders `tests`, as modules of one program. Returns which failed.
    fn beside(&self, counts: &mut Counts) -> Option<Vec<String>> {
        let folder = self.target.join("outside");
        let list = folder.join("candle_suites.rs");
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&list, self.modules()?));
        if let Err(error) = written {
            eprintln!("{}: {error}", list.display());
            return None;
        }
        let mut command = cargo_command();
        command.arg("test").args(BUILT);
        command.args(["--features", "outside/suites", "--test", "candle_suites", "--"]).args(FOR_A_GPU);
        watch(command.env("ROCFIRE_CANDLE_SUITES", list), counts)
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

    /// The tests within candle-core's own source, which cargo does not build of a dependency: built here as cargo would, of
    /// what it has built. Returns which failed.
    fn inside(&self, counts: &mut Counts) -> Option<Vec<String>> {
        let program = self.target.join("outside").join("candle_core_tests");
        let built = self.artifacts()?;
        let core = package(&self.metadata, SUITES[0])?["id"].as_str()?;
        let artifact = built.get(core)?;
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args(["--test", "--crate-name", "candle_core", "--cap-lints", "allow", "-C", "opt-level=1"]);
        command.args(["--edition", artifact["target"]["edition"].as_str()?, artifact["target"]["src_path"].as_str()?]);
        command.arg("-L").arg(format!("dependency={}", self.target.join("debug").join("deps").display()));
        for feature in artifact["features"].as_array()?.iter().filter_map(Value::as_str) {
            command.arg("--cfg").arg(format!("feature={feature:?}"));
        }
        for (name, file) in self.dependencies(core, &built)? {
            command.arg("--extern").arg(format!("{name}={file}"));
        }
        if !command.arg("-o").arg(&program).status().is_ok_and(|status| status.success()) {
            return None;
        }
        watch(Command::new(program).args(FOR_A_GPU), counts)
    }

    /// What a package calls its dependencies, and the library of each.
    fn dependencies(&self, package: &str, built: &HashMap<String, Value>) -> Option<Vec<(String, String)>> {
        let nodes = self.metadata["resolve"]["nodes"].as_array()?;
        let node = nodes.iter().find(|node| node["id"] == package)?;
        let library = |dependency: &Value| {
            let files = built.get(dependency["pkg"].as_str()?)?["filenames"].as_array()?;
            let mut files = files.iter().filter_map(Value::as_str);
            let file = files.find(|file| file.ends_with(".rlib") || file.ends_with(".so"))?;
            Some((dependency["name"].as_str()?.to_owned(), file.to_owned()))
        };
        // Those that are for another platform, or for tests beside the source, were not built.
        Some(node["deps"].as_array()?.iter().filter_map(library).collect())
    }

    /// What cargo says of each package's library that it has built.
    fn artifacts(&self) -> Option<HashMap<String, Value>> {
        let output = cargo_command()
            .args(build(&["--message-format=json-render-diagnostics"]))
            .stderr(Stdio::inherit())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let messages = output.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let libraries = messages.filter(|message: &Value| {
            let kind = &message["target"]["kind"][0];
            message["reason"] == "compiler-artifact" && (kind == "lib" || kind == "proc-macro")
        });
        Some(libraries.filter_map(|message| Some((message["package_id"].as_str()?.to_owned(), message))).collect())
    }

    /// The models whose rows have this text in their names.
    pub fn models(&self, filter: &str) -> bool {
        cargo(&build(&[]), &[])
            && Command::new(self.program()).arg(filter).status().is_ok_and(|status| status.success())
    }

    /// The program that runs the models.
    fn program(&self) -> PathBuf {
        self.target.join("debug").join(format!("outside{}", std::env::consts::EXE_SUFFIX))
    }
}

/// Cargo's words that build the models' program.
fn build<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["build"].into_iter().chain(BUILT).chain(["--bin", "outside"]).chain(more.iter().copied()).collect()
}

/// A package by its name.
fn package<'a>(metadata: &'a Value, name: &str) -> Option<&'a Value> {
    metadata["packages"].as_array()?.iter().find(|package| package["name"] == name)
}
