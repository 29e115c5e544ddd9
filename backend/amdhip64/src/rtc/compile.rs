//! One run of the compiler.

use std::fs;
use std::path::{Component, Path};
use std::process::{Command, Stdio};

use rocfire_hal::compile::clang;

use super::names::declaration;
use crate::runtime::runtime;

/// What a program is made of.
pub struct Source {
    /// For messages; may be empty.
    pub name: String,
    /// The text.
    pub text: String,
    /// Headers, by the names that the source includes.
    pub headers: Vec<(String, String)>,
}

/// What came of it.
pub struct Outcome {
    /// The code object, if it compiled.
    pub code: Option<Vec<u8>>,
    /// What the compiler printed.
    pub log: String,
}

/// The header that is included without being asked.
const FIRST: &str = "hip/hip_runtime.h";
const OPTIONS: [&str; 9] = [
    "-x",
    "hip",
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    "-nogpuinc",
    "-nogpulib",
    "-std=c++17",
    "-O3",
    "-D__HIPCC_RTC__=1",
];
/// How the target is named, with its value behind.
const TARGET_OPTIONS: [&str; 3] = ["--gpu-architecture=", "--offload-arch=", "-arch="];
/// Options of hiprtc that clang does not have, and that change nothing here.
const DROPPED: [&str; 2] = ["-default-device", "--device-as-default-execution-space"];
/// The name that real hiprtc gives a program without one.
const UNNAMED: &str = "CompileSource";

/// Compiles.
///
/// # Errors
/// What stopped the compiler from running, as text; a source that does not compile is an outcome.
pub fn run(source: &Source, expressions: &[String], options: &[String]) -> Result<Outcome, String> {
    let found = clang().map_err(|rejected| {
        let reasons = rejected.iter().map(|each| format!("{} {}", each.path.display(), each.reason));
        format!("no clang that compiles for AMD GPUs; {}", reasons.collect::<Vec<_>>().join("; "))
    })?;
    let folder = tempfile::Builder::new().prefix("rocfire-hiprtc-").tempdir().map_err(|error| error.to_string())?;
    let include = folder.path().join("include");
    for (name, text) in rocfire_prelude::hip::for_clang() {
        write_header(&include, name, text)?;
    }
    for (name, text) in &source.headers {
        write_header(&include, name, text)?;
    }
    let (text, code) = (folder.path().join("source.hip"), folder.path().join("code.co"));
    fs::write(&text, whole_text(source, expressions)).map_err(|error| error.to_string())?;
    let mut command = Command::new(found.path());
    command.args(OPTIONS).arg("-I").arg(&include).arg("-include").arg(include.join(FIRST));
    let mut target = None;
    for option in options.iter().map(|option| option.trim()).filter(|option| !DROPPED.contains(option)) {
        match TARGET_OPTIONS.iter().find_map(|prefix| option.strip_prefix(prefix)) {
            Some(value) => target = Some(value.to_owned()),
            // `-D X` and `-I X` may come as one option; clang wants two.
            None => drop(command.args(option.splitn(2, ' ').map(str::trim))),
        }
    }
    let target = match target {
        Some(target) => target,
        None => runtime().map_err(|failure| failure.reason.unwrap_or_default())?.arch.name().to_owned(),
    };
    command.arg(format!("--offload-arch={target}")).arg(&text).arg("-o").arg(&code).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", found.path().display()))?;
    let log = String::from_utf8_lossy(&output.stderr).replace(&format!("{}/", include.display()), "");
    let code = if output.status.success() { Some(fs::read(&code).map_err(|error| error.to_string())?) } else { None };
    Ok(Outcome { code, log })
}

/// The source under its own name, and a variable for each name expression.
fn whole_text(source: &Source, expressions: &[String]) -> String {
    let name = if source.name.is_empty() { UNNAMED } else { &source.name };
    let name: String = name.chars().filter(|&c| c != '"' && c != '\\' && !c.is_control()).collect();
    let mut text = format!("#line 1 \"{name}\"\n{}\n", source.text);
    for (index, expression) in expressions.iter().enumerate() {
        text.push_str(&format!("#line 1 \"name expression\"\n{}\n", declaration(index, expression)));
    }
    text
}

/// Writes a header where `#include` finds it. Its name stays inside the folder.
fn write_header(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || !Path::new(name).components().all(inside) {
        return Err(format!("a header's name must lead downwards, got {name:?}"));
    }
    let path = folder.join(name);
    let parent = path.parent().ok_or("a header without a folder")?;
    fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| format!("{name}: {error}"))
}
