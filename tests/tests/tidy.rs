//! The invariants of `backend/README.md`, enforced over the working tree.
//!
//! Each test names the file and line that breaks a rule. It reads text and manifests only: what the compiler or clippy
//! enforces (documentation, `unsafe` blocks with reasons) is not repeated here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A hand-written file stays below this.
const MOST_LINES: usize = 800;
/// A function of a kernel has no more.
const MOST_DEVICE_LINES: usize = 80;

/// The crates and the arrows between them, as `backend/README.md` draws them; `dev` holds what only tests may reach.
const ARROWS: &[(&str, &[&str])] = &[
    ("rocfire-arch", &[]),
    ("rocfire-prelude", &[]),
    ("rocfire-isa", &["rocfire-arch"]),
    ("rocfire-emulator", &["rocfire-arch", "rocfire-isa"]),
    ("rocfire-hal", &["rocfire-arch", "rocfire-emulator", "rocfire-prelude"]),
    ("rocfire-amdhip64", &["rocfire-arch", "rocfire-emulator", "rocfire-hal", "rocfire-prelude"]),
    ("rocfire-kfd", &["rocfire-arch", "rocfire-emulator", "rocfire-hal"]),
    ("rocfire-fusion", &["rocfire-arch", "rocfire-hal", "rocfire-prelude"]),
    ("rocfire-kernels", &["rocfire-arch", "rocfire-fusion", "rocfire-hal", "rocfire-prelude"]),
    ("rocfire-burn", &["rocfire-arch", "rocfire-fusion", "rocfire-hal", "rocfire-kernels"]),
    ("burn-tch", &["rocfire-burn"]),
    ("cubecl-hip", &["rocfire-hal"]),
    ("rocfire-burn-next", &["cubecl-hip", "rocfire-arch", "rocfire-fusion", "rocfire-hal", "rocfire-kernels"]),
    ("burn-cubecl", &["rocfire-burn"]),
    ("cudarc", &["rocfire-arch", "rocfire-fusion", "rocfire-hal", "rocfire-kernels"]),
    (
        "candle-kernels",
        &["cudarc", "rocfire-arch", "rocfire-fusion", "rocfire-hal", "rocfire-kernels", "rocfire-prelude"],
    ),
    ("rocfire-candle", &["candle-kernels", "cudarc", "rocfire-fusion", "rocfire-hal", "rocfire-kernels"]),
    ("candle-flash-attn", &["rocfire-candle"]),
    ("rocfire-burn-nn", &["burn-tch", "rocfire-burn"]),
    ("rocfire-burn-nn-next", &["rocfire-burn"]),
    ("candle-models", &["rocfire-candle"]),
    ("ci-model", &["rocfire-burn"]),
    ("char-transformer", &["burn-tch", "rocfire-burn"]),
    ("char-transformer-next", &["rocfire-burn"]),
    ("compare", &["char-transformer", "rocfire-burn", "models"]),
    ("custom-kernel", &["burn-tch", "rocfire-burn", "rocfire-burn-nn"]),
    ("custom-kernel-next", &["rocfire-burn", "rocfire-burn-nn"]),
    ("remote", &["rocfire-burn"]),
    ("models", &["burn-tch", "rocfire-burn", "rocfire-burn-nn"]),
    ("models-next", &["rocfire-burn", "rocfire-burn-nn"]),
    ("foreign", &["rocfire-arch", "rocfire-emulator", "rocfire-hal", "rocfire-isa", "rocfire-kernels"]),
    ("outside", &["rocfire-candle"]),
    ("peers", &["rocfire-burn"]),
    ("quantised", &["burn-tch", "rocfire-burn"]),
    ("quantised-next", &["rocfire-burn"]),
    ("serving", &["burn-tch", "rocfire-burn", "rocfire-burn-nn", "rocfire-candle"]),
    ("training-steps", &["burn-tch", "rocfire-burn", "rocfire-hal"]),
    ("training-steps-next", &["rocfire-burn", "rocfire-hal"]),
    (
        "rocfire",
        &[
            "char-transformer",
            "rocfire-arch",
            "rocfire-burn",
            "rocfire-fusion",
            "rocfire-hal",
            "rocfire-kernels",
            "rocfire-tests",
        ],
    ),
    ("rocfire-tests", &["rocfire-arch", "rocfire-burn", "rocfire-fusion", "rocfire-hal", "rocfire-kernels"]),
    (
        "rocfire-fuzz",
        &[
            "rocfire-arch",
            "rocfire-burn",
            "rocfire-candle",
            "rocfire-fusion",
            "rocfire-hal",
            "rocfire-kernels",
            "rocfire-tests",
        ],
    ),
    (
        "rocfire-benches",
        &["rocfire-arch", "rocfire-emulator", "rocfire-fusion", "rocfire-hal", "rocfire-kernels", "rocfire-tests"],
    ),
];

/// The launchers that Candle calls as C functions.
const CANDLE_LAUNCHERS: &str = "backend/candle/kernels/src/ffi";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// Every file below the root with one of these endings, build output and hidden folders aside.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push((relative, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn manifests() -> BTreeMap<String, toml::Table> {
    let read = |(path, text): (String, String)| {
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let name = table.get("package")?.get("name")?.as_str()?.to_owned();
        Some((name, table))
    };
    files(&["Cargo.toml"]).into_iter().filter_map(read).collect()
}

/// The lines of a source that are code: comments gone, and everything from the tests on.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end]
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim().is_empty())
}

fn is_test_or_example(path: &str) -> bool {
    static MODULES: LazyLock<Vec<String>> = LazyLock::new(test_modules);
    let test = |part: &str| part == "tests" || part == "tests.rs" || part == "benches" || part == "examples";
    let inside = |module: &String| path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    path.split('/').any(test) || MODULES.iter().any(inside)
}

/// The modules that only tests have, by path without ending: those behind `#[cfg(test)]` in a file of their own.
fn test_modules() -> Vec<String> {
    let mut modules = Vec::new();
    for (path, text) in files(&[".rs"]) {
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        let behind = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
        let declared =
            behind.filter_map(|line| line.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';'));
        modules.extend(declared.map(|name| format!("{folder}/{name}")));
    }
    modules
}

fn fail_on(findings: Vec<String>, rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

#[test]
fn foreign_functions_are_called_only_in_sys_and_defined_only_where_c_calls_them() {
    // `foreign.rs` is the macro that the tables are made by, `exit.rs` what C calls at a process's end.
    let folders = ["gpu/sys/", "hip/sys/", "cuda/sys/", "foreign.rs", "exit.rs"];
    let tables = folders.map(|folder| format!("backend/hal/src/{folder}"));
    let calls = |path: &str| tables.iter().any(|table| path.starts_with(table.as_str()));
    let definers =
        ["backend/amdhip64/src/", "backend/kfd/src/interpose.rs", "backend/kfd/src/drm.rs", CANDLE_LAUNCHERS];
    let defines = |path: &str| definers.iter().any(|definer| path.starts_with(definer));
    let mut findings = Vec::new();
    for (path, text) in files(&[".rs"]) {
        if calls(&path) || is_test_or_example(&path) {
            continue;
        }
        for (line, code) in code_lines(&text) {
            let defined =
                defines(&path) && (code.contains("pub extern \"C\" fn") || code.contains("unsafe extern \"C\" fn"));
            // A string literal that holds HIP source says `extern "C" __global__`; that is device code.
            let foreign = code.contains("extern \"C\" fn")
                || code.contains("extern \"system\"")
                || code.contains("extern \"C\" {");
            if foreign && !defined {
                findings.push(format!("{path}:{line}: {}", code.trim()));
            }
        }
    }
    let rule = "foreign functions are called only through the tables in hal/src/{gpu,hip,cuda}/sys/, and defined only in \
                amdhip64, kfd and Candle's launchers";
    fail_on(findings, rule);
}

#[test]
fn arch_and_isa_forbid_unsafe_code_and_fusion_has_one_place_of_it() {
    for crate_root in ["backend/arch/src/lib.rs", "backend/isa/src/lib.rs"] {
        let text = std::fs::read_to_string(root().join(crate_root)).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{crate_root} must forbid unsafe code");
    }
    let allowed =
        |(path, text): &(String, String)| path.starts_with("fusion/src/") && text.contains("allow(unsafe_code");
    let places: Vec<String> = files(&[".rs"]).into_iter().filter(allowed).map(|(path, _)| path).collect();
    assert_eq!(places, ["fusion/src/launch.rs"], "fusion's kernels are launched in one place");
    let text = std::fs::read_to_string(root().join("fusion/src/lib.rs")).unwrap();
    assert!(text.contains("#![deny(unsafe_code)]"), "fusion must deny unsafe code elsewhere");
}

#[test]
fn lower_layers_know_no_framework() {
    let mut findings = Vec::new();
    for (name, manifest) in manifests() {
        if !["rocfire-hal", "rocfire-fusion", "rocfire-kernels", "rocfire-emulator"].contains(&name.as_str()) {
            continue;
        }
        for dependency in dependencies(&manifest, &["dependencies", "dev-dependencies", "build-dependencies"]) {
            if dependency.starts_with("burn") || dependency.starts_with("candle") {
                findings.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    fail_on(findings, "hal, fusion and kernels know nothing of Burn or Candle");
}

#[test]
fn architectures_are_named_only_where_facts_live() {
    let allowed = |path: &str| path.starts_with("backend/arch/") || path.starts_with("backend/isa/src/table/");
    let mut findings = Vec::new();
    for (path, text) in files(&[".rs", ".hip", ".h"]) {
        if allowed(&path) || is_test_or_example(&path) {
            continue;
        }
        for (line, code) in code_lines(&text) {
            // Clang's builtins have the name of an architecture at their end, where nobody can leave it out.
            let names =
                |at: usize| code[at + 3..].starts_with(|c: char| c.is_ascii_digit()) && !code[..at].ends_with('_');
            if code.match_indices("gfx").any(|(at, _)| names(at)) {
                findings.push(format!("{path}:{line}: {}", code.trim()));
            }
        }
    }
    fail_on(findings, "a gfx name is written only in arch, isa's tables, tuning tables, tests, docs and examples");
}

/// Folders of the top level; what belongs elsewhere has its place in one of them.
#[test]
fn the_top_level_has_these_folders() {
    let known = ["backend", "benches", "examples", "fusion", "kernels", "target", "tests"];
    let entries = std::fs::read_dir(root()).unwrap().map(Result::unwrap);
    let names = entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap());
    let other: Vec<String> = names.filter(|name| !name.starts_with('.') && !known.contains(&name.as_str())).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn files_stay_small() {
    let exempt = |path: &str| path.starts_with("backend/isa/src/table/") || path.contains("/sys/");
    let long = files(&[".rs", ".hip", ".h"])
        .into_iter()
        .filter(|(path, text)| !exempt(path) && text.lines().count() >= MOST_LINES)
        .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
        .collect();
    fail_on(long, "a hand-written file stays under 800 lines");
}

/// The functions of a HIP source: the line where each begins, its lines, its head. What a closing brace ends began at the last line
/// of its own indentation.
fn device_functions(text: &str) -> Vec<(usize, usize, &str)> {
    let (mut functions, mut begun) = (Vec::new(), BTreeMap::new());
    for (line, code) in code_lines(text).filter(|(_, code)| !code.starts_with('#')) {
        let indent = code.len() - code.trim_start().len();
        if let Some((first, head)) = begun.insert(indent, (line, code.trim()))
            && code.trim().starts_with('}')
            && head.contains('(')
            && !head.contains("struct ")
        {
            functions.push((first, line + 1 - first, head));
        }
    }
    functions
}

#[test]
fn functions_of_kernels_stay_small() {
    let mut long = Vec::new();
    for (path, text) in files(&[".hip", ".h"]).into_iter().filter(|(path, _)| !is_test_or_example(path)) {
        let over = device_functions(&text).into_iter().filter(|(_, lines, _)| *lines > MOST_DEVICE_LINES);
        long.extend(over.map(|(line, lines, head)| format!("{path}:{line}: {lines} lines: {head}")));
    }
    fail_on(long, "a device function has at most 80 lines: cut it along its phases");
}

/// Functions of the prelude whose names hiprtc's or NVRTC's headers declare outside of `rf`, too.
const DECLARED_TWICE: &str = "ballot exp exp2 exp10 expm1 log log2 log10 log1p fma sqrt rsqrt cbrt hypot sin cos tan sinh cosh tanh \
    atan2 erf erfc pow floor ceil trunc round rint fmod isnan isinf isfinite copysign ldexp lgamma tgamma abs min max clock";

#[test]
fn kernels_name_the_scope_of_functions_that_vendors_declare_too() {
    let mut bare = Vec::new();
    for (path, text) in files(&[".hip", ".h"]).into_iter().filter(|(path, _)| path.starts_with("kernels/src/")) {
        for (line, code) in code_lines(&text) {
            let words = code.split(|letter: char| !(letter.is_ascii_alphanumeric() || "_:.>(".contains(letter)));
            let called = words.flat_map(|word| word.split_inclusive('(')).filter_map(|word| word.strip_suffix('('));
            for name in called.filter(|name| DECLARED_TWICE.split_whitespace().any(|twice| twice == *name)) {
                bare.push(format!("{path}:{line}: {name}"));
            }
        }
    }
    fail_on(bare, "write `rf::` in front: with a vendor's headers in sight the bare name is ambiguous");
}

/// NVRTC takes a `const` float whose value is not written out for one that is set at run time, which a device has none of.
#[test]
fn float_constants_of_kernels_are_constexpr() {
    let mut loose = Vec::new();
    for (path, text) in files(&[".hip", ".h"]).into_iter().filter(|(path, _)| path.starts_with("kernels/")) {
        for (line, code) in code_lines(&text) {
            if ["static const float ", "static const double "].iter().any(|words| code.trim().starts_with(words)) {
                loose.push(format!("{path}:{line}: {}", code.trim()));
            }
        }
    }
    fail_on(loose, "write `static constexpr`");
}

#[test]
fn each_crate_stays_within_its_budget() {
    let folders: Vec<(String, String)> = files(&["Cargo.toml"])
        .into_iter()
        .filter_map(|(path, text)| {
            let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            let name = table.get("package")?.get("name")?.as_str()?.to_owned();
            Some((path.strip_suffix("Cargo.toml")?.to_owned(), name))
        })
        .collect();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let tables = |path: &str| path.starts_with("backend/isa/src/table/");
    for (path, text) in files(&[".rs", ".hip", ".h", ".isa"]).into_iter().filter(|(path, _)| !tables(path)) {
        let holder =
            folders.iter().filter(|(folder, _)| path.starts_with(folder)).max_by_key(|(folder, _)| folder.len());
        let (_, name) = holder.unwrap_or_else(|| panic!("{path} lies in no crate"));
        *lines.entry(name).or_default() += text.lines().count();
    }
    let budgets =
        manifests()["rocfire-tests"]["package"]["metadata"]["tidy"]["line_budget"].as_table().unwrap().clone();
    let budget = |name: &str| budgets.get(name).and_then(toml::Value::as_integer).unwrap_or(0) as usize;
    let over = lines
        .iter()
        .inspect(|(name, lines)| println!("{lines:6} of {:6} {name}", budget(name)))
        .filter(|(name, lines)| **lines > budget(name))
        .map(|(name, lines)| format!("{name}: {lines} lines exceed {}", budget(name)))
        .collect();
    fail_on(over, "a crate stays within its budget: delete some lines, or raise it with a reason");
    let gone: Vec<&String> = budgets.keys().filter(|name| !lines.contains_key(name.as_str())).collect();
    assert!(gone.is_empty(), "budgets of crates that there are not: {gone:?}");
}

fn dependencies(manifest: &toml::Table, kinds: &[&str]) -> BTreeSet<String> {
    let tables = kinds.iter().filter_map(|kind| manifest.get(*kind)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

#[test]
fn crates_depend_on_each_other_as_the_readme_draws() {
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let manifests = manifests();
    let found: BTreeSet<&str> = manifests.keys().map(String::as_str).collect();
    assert_eq!(found, ours, "every crate has its row of arrows");
    let mut findings = Vec::new();
    for (name, allowed) in ARROWS {
        // A test may use what its crate's users use; it may not reach up to another layer's adapter.
        for dependency in dependencies(&manifests[*name], &["dependencies", "build-dependencies"]) {
            if ours.contains(dependency.as_str()) && !allowed.contains(&dependency.as_str()) {
                findings.push(format!("{name} -> {dependency}"));
            }
        }
    }
    fail_on(findings, "there are no other arrows between crates");
    let line = |(name, reached): &(&str, &[&str])| format!("{name:<17} -> {}\n", reached.join(", "));
    let drawn: String = ARROWS.iter().filter(|(_, reached)| !reached.is_empty()).map(line).collect();
    let readme = std::fs::read_to_string(root().join("backend/README.md")).unwrap();
    assert!(readme.contains(&format!("```text\n{drawn}```\n")), "backend/README.md should have\n{drawn}");
}

#[test]
fn nothing_is_left_undone() {
    let marks = ["todo!(", "unimplemented!(", "#[ignore", "#[should_panic", "dbg!("];
    let mut findings = Vec::new();
    for (path, text) in files(&[".rs"]) {
        if path == "tests/tests/tidy.rs" {
            continue;
        }
        for (line, code) in text.lines().enumerate() {
            let code = code.split("//").next().unwrap_or_default();
            if marks.iter().any(|mark| code.contains(mark)) {
                findings.push(format!("{path}:{}: {}", line + 1, code.trim()));
            }
        }
    }
    fail_on(findings, "no stub, no ignored test, no debugging left behind");
}

#[test]
fn slot_packages_are_not_published() {
    let manifests = manifests();
    let published =
        |table: &toml::Table| table["package"].get("publish").is_none_or(|publish| publish.as_bool() != Some(false));
    for slot in ["burn-cubecl", "burn-tch", "cubecl-hip", "candle-flash-attn", "candle-kernels", "cudarc"] {
        assert!(!published(&manifests[slot]), "{slot} has the name of somebody else's package");
    }
}
