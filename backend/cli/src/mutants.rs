//! `rocfire verify --mutants`: small defects, planted one at a time in a copy of the tree, each named by the test that must catch it.
//!
//! The list is `tests/mutants/<area>.toml`. A defect counts as caught when the tree with it was built, the named test ran and
//! failed, and no compiler's complaint was the reason. The copy lies in `target/mutants/tree` and keeps its own build folder beside
//! it: a defect costs the build of the package that it is in and of those above that its test needs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// Where the lists are.
const LISTS: &str = "tests/mutants";
/// Where the copy is, its build folder and what the tests printed.
const SCRATCH: &str = "target/mutants";
/// Folders that are not copied, by name.
const NOT_COPIED: [&str; 2] = ["target", ".git"];

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Plant small defects one at a time in a copy of the tree; each must be caught by the test that is named for it.
    #[arg(long)]
    pub mutants: bool,
    /// Only so many of them, spread evenly over the list.
    #[arg(long, requires = "mutants", value_name = "N")]
    sample: Option<usize>,
    /// How many jobs cargo builds with.
    #[arg(long, requires = "mutants", value_name = "N")]
    jobs: Option<usize>,
    /// Skip running each named test on the tree without defects first, where it must pass.
    #[arg(long, requires = "mutants")]
    trust: bool,
}

/// Why the defects cannot be planted, or what they showed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree, its copy or a log.
    #[error("{}: {error}", path.display())]
    File {
        /// Of the file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A list is not in form.
    #[error("{path}: {error}")]
    List {
        /// Of the list.
        path: String,
        /// What and where.
        error: Box<toml::de::Error>,
    },
    /// A text is not there, or more than once.
    #[error("{name}: its text is in {file} {times} times, and must be there once")]
    Text {
        /// Of the defect.
        name: String,
        /// Where it should be.
        file: String,
        /// How often it is.
        times: usize,
    },
    /// No defect was asked for.
    #[error("no defect is named so")]
    None,
    /// Some defects were not caught.
    #[error("not caught: {0}")]
    NotCaught(String),
}

/// A small defect.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// Kebab case, unique.
    name: String,
    /// What is wrong with it.
    what: String,
    /// From the root of the tree.
    file: String,
    /// A text that is in the file once.
    find: String,
    /// What stands there instead.
    with: String,
    /// Words of `cargo test` that choose the test program.
    run: Vec<String>,
    /// The name of the test that must fail, or a part of the names of several of which one must.
    test: String,
    /// The file's name without its ending.
    #[serde(skip)]
    area: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// What became of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Its test ran and failed.
    Caught,
    /// Its test passed.
    Survived,
    /// It did not compile: as Rust, or a kernel when it was launched. That says nothing of the tests.
    NotBuilt,
    /// The test of its name did not run, or something else failed.
    NotRun,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Caught => "caught",
            Outcome::Survived => "SURVIVED",
            Outcome::NotBuilt => "NOT BUILT",
            Outcome::NotRun => "NOT RUN",
        }
    }

    /// What the output of a test program that was asked for `test` means.
    fn of(output: &str, test: &str) -> Outcome {
        if output.contains("error: could not compile") || output.contains("did not compile for") {
            return Outcome::NotBuilt;
        }
        let ended = |end: &str| {
            output.lines().any(|line| line.starts_with("test ") && line.contains(test) && line.ends_with(end))
        };
        match (ended("FAILED"), ended("ok")) {
            (true, _) => Outcome::Caught,
            (false, true) if output.contains("test result: ok.") && !output.contains("test result: FAILED") => {
                Outcome::Survived
            }
            _ => Outcome::NotRun,
        }
    }
}

/// Plants the defects one by one and runs their tests.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments, filter: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let root = root();
    let mutants = chosen(read_lists(&root)?, arguments.sample, filter);
    if mutants.is_empty() {
        return Err(Error::None.into());
    }
    let scratch = root.join(SCRATCH);
    let bench = Bench { tree: scratch.join("tree"), scratch, jobs: arguments.jobs };
    println!("== copying the tree to {}", bench.tree.display());
    copy_tree(&root, &bench.tree)?;
    if !arguments.trust {
        bench.check_sound(&mutants)?;
    }
    let mut rows = Vec::new();
    for (number, mutant) in mutants.iter().enumerate() {
        println!("[{:3}/{}] {}/{}: {}", number + 1, mutants.len(), mutant.area, mutant.name, mutant.what);
        let start = Instant::now();
        let outcome = bench.plant(mutant)?;
        let took = start.elapsed();
        println!("          {} in {:.0} s", outcome.name(), took.as_secs_f64());
        rows.push((mutant, outcome, took));
    }
    finish(&rows, &bench.scratch)?;
    Ok(())
}

/// The table, and whether all were caught.
fn finish(rows: &[(&Mutant, Outcome, Duration)], scratch: &Path) -> Result<(), Error> {
    println!("\n{:10} {:>6}  {:48} test", "", "s", "defect");
    for (mutant, outcome, took) in rows {
        let name = format!("{}/{}", mutant.area, mutant.name);
        println!("{:10} {:6.0}  {name:48} {}", outcome.name(), took.as_secs_f64(), mutant.test);
    }
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.1 != Outcome::Caught).map(|(mutant, ..)| mutant.name.as_str()).collect();
    println!(
        "{} of {} caught; what tests printed is in {}",
        rows.len() - missed.len(),
        rows.len(),
        scratch.join("log").display()
    );
    if missed.is_empty() { Ok(()) } else { Err(Error::NotCaught(missed.join(", "))) }
}

/// The copy of the tree.
struct Bench {
    tree: PathBuf,
    scratch: PathBuf,
    jobs: Option<usize>,
}

impl Bench {
    /// Runs every named test on the tree as it is, where it must pass: one that fails anyway catches nothing.
    fn check_sound(&self, mutants: &[Mutant]) -> Result<(), Error> {
        let tests: BTreeSet<(&[String], &str)> =
            mutants.iter().map(|mutant| (mutant.run.as_slice(), mutant.test.as_str())).collect();
        println!("== {} tests on the tree without defects", tests.len());
        let mut unsound = Vec::new();
        for (run, test) in tests {
            let output = self.test(run, test, "without-defects")?;
            if Outcome::of(&output, test) != Outcome::Survived {
                unsound.push(format!("{test} (it must run and pass without a defect)"));
            }
        }
        if unsound.is_empty() { Ok(()) } else { Err(Error::NotCaught(unsound.join(", "))) }
    }

    /// Puts a defect in, runs its test, takes it out.
    fn plant(&self, mutant: &Mutant) -> Result<Outcome, Error> {
        let path = self.tree.join(&mutant.file);
        let sound = read(&path)?;
        write(&path, &mutant.applied(&sound)?)?;
        let output = self.test(&mutant.run, &mutant.test, &mutant.name);
        write(&path, &sound)?;
        Ok(Outcome::of(&output?, &mutant.test))
    }

    /// What `cargo test` prints, which is kept as a log too.
    fn test(&self, run: &[String], test: &str, name: &str) -> Result<String, Error> {
        let folder = self.scratch.join("log");
        fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        let path = folder.join(format!("{name}.txt"));
        let log = fs::File::create(&path).map_err(file_error(&path))?;
        let same = log.try_clone().map_err(file_error(&path))?;
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg("test").args(run).arg("--no-fail-fast");
        if let Some(profile) = profile_of(run) {
            command.args(["--config", &profile]);
        }
        if let Some(jobs) = self.jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        command.args(["--", test]).current_dir(&self.tree).env("CARGO_TARGET_DIR", self.scratch.join("target"));
        let status = command.stdin(Stdio::null()).stdout(log).stderr(same).status();
        status.map_err(file_error(Path::new("cargo")))?;
        // Kernels' tests may print bytes of any kind.
        let bytes = fs::read(&path).map_err(file_error(&path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// For the tests inside a package's own library: the package is not optimised. They take seconds either way, and a defect in the
/// emulator costs 12 s on two cores instead of more than a minute.
fn profile_of(run: &[String]) -> Option<String> {
    let [option, package, rest @ ..] = run else { return None };
    let inside = option == "--package" && rest.iter().any(|word| word == "--lib");
    inside.then(|| format!("profile.dev.package.{package}.opt-level=0"))
}

impl Mutant {
    /// The file's text with the defect.
    fn applied(&self, text: &str) -> Result<String, Error> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.with, 1)),
            times => Err(Error::Text { name: self.name.clone(), file: self.file.clone(), times }),
        }
    }
}

fn root() -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    tree.canonicalize().unwrap_or(tree)
}

/// All lists, in the order of their names.
fn read_lists(root: &Path) -> Result<Vec<Mutant>, Error> {
    let folder = root.join(LISTS);
    let entries = fs::read_dir(&folder).map_err(file_error(&folder))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let list: List = toml::from_str(&read(path)?)
            .map_err(|error| Error::List { path: path.display().to_string(), error: Box::new(error) })?;
        let area = path.file_stem().unwrap_or_default().to_string_lossy();
        mutants.extend(list.mutant.into_iter().map(|mutant| Mutant { area: area.to_string(), ..mutant }));
    }
    Ok(mutants)
}

/// Those whose area or name holds the filter; only `sample` of them, spread evenly.
fn chosen(mutants: Vec<Mutant>, sample: Option<usize>, filter: Option<&str>) -> Vec<Mutant> {
    let is_named = |mutant: &Mutant| {
        let name = format!("{}/{}", mutant.area, mutant.name);
        filter.is_none_or(|filter| name.contains(filter))
    };
    let named: Vec<Mutant> = mutants.into_iter().filter(is_named).collect();
    match sample {
        Some(count) if count < named.len() => (0..count).map(|at| named[at * named.len() / count].clone()).collect(),
        _ => named,
    }
}

/// Makes `to` the same as `from`; a file that is the same already keeps its time, so that cargo does not build it again.
fn copy_tree(from: &Path, to: &Path) -> Result<(), Error> {
    let mut kept = BTreeSet::new();
    copy_folder(from, to, &mut kept)?;
    remove_others(to, &kept)
}

fn copy_folder(from: &Path, to: &Path, kept: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(file_error(to))?;
    kept.insert(to.to_owned());
    for entry in fs::read_dir(from).map_err(file_error(from))? {
        let entry = entry.map_err(file_error(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(file_error(&source))?;
        if NOT_COPIED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_dir() {
            copy_folder(&source, &target, kept)?;
        } else if kind.is_file() {
            let bytes = fs::read(&source).map_err(file_error(&source))?;
            if fs::read(&target).ok().as_ref() != Some(&bytes) {
                // With its permissions: some of the files are scripts.
                fs::copy(&source, &target).map_err(file_error(&target))?;
            }
            kept.insert(target);
        }
    }
    Ok(())
}

/// What was copied once and is gone from the tree since.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(file_error(folder))? {
        let path = entry.map_err(file_error(folder))?.path();
        match (kept.contains(&path), path.is_dir()) {
            (true, true) => remove_others(&path, kept)?,
            (true, false) => {}
            (false, true) => fs::remove_dir_all(&path).map_err(file_error(&path))?,
            (false, false) => fs::remove_file(&path).map_err(file_error(&path))?,
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(file_error(path))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| Error::File { path, error }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// How many defects an area has at least.
    const LEAST: [(&str, usize); 6] =
        [("burn", 8), ("candle", 5), ("emulator", 66), ("fusion", 10), ("hal", 10), ("kernels", 39)];

    #[test]
    fn every_defect_still_fits_the_tree() {
        let mutants = read_lists(&root()).unwrap();
        let mut names = BTreeSet::new();
        let mut areas: BTreeMap<&str, usize> = BTreeMap::new();
        for mutant in &mutants {
            let text = read(&root().join(&mutant.file)).unwrap();
            let with = mutant.applied(&text).unwrap();
            assert_ne!(with, text, "{}: it changes nothing", mutant.name);
            assert!(names.insert(&mutant.name), "{}: two defects have this name", mutant.name);
            assert!(!mutant.what.is_empty() && !mutant.test.is_empty() && !mutant.run.is_empty(), "{}", mutant.name);
            *areas.entry(&mutant.area).or_default() += 1;
        }
        for (area, least) in LEAST {
            let count = areas.get(area).copied().unwrap_or(0);
            assert!(count >= least, "{area} has {count} defects, and should have {least}");
        }
    }

    #[test]
    fn only_a_library_whose_own_tests_run_is_not_optimised() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let own = profile_of(&words("--package rocfire-hal --lib"));
        assert_eq!(own.as_deref(), Some("profile.dev.package.rocfire-hal.opt-level=0"));
        assert_eq!(profile_of(&words("--test cases")), None);
        assert_eq!(profile_of(&words("--package rocfire-hal --test emulated")), None);
    }

    #[test]
    fn a_defect_is_caught_by_its_own_test_only() {
        let failed = "test sums ... FAILED\ntest result: FAILED. 0 passed; 1 failed;";
        assert_eq!(Outcome::of(failed, "sums"), Outcome::Caught);
        assert_eq!(Outcome::of(failed, "products"), Outcome::NotRun);
        assert_eq!(Outcome::of("test sums ... ok\ntest result: ok. 1 passed; 0 failed;", "sums"), Outcome::Survived);
        assert_eq!(Outcome::of("running 0 tests\ntest result: ok. 0 passed; 0 failed;", "sums"), Outcome::NotRun);
        assert_eq!(
            Outcome::of("error: could not compile `a` (lib) due to 1 previous error", "sums"),
            Outcome::NotBuilt
        );
        let kernel = "test sums ... FAILED\nsum.hip did not compile for a card:\nexpected ';'";
        assert_eq!(Outcome::of(kernel, "sums"), Outcome::NotBuilt);
    }

    #[test]
    fn a_copy_follows_its_tree() {
        let folder = std::env::temp_dir().join(format!("rocfire-mutants-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("a/target")).unwrap();
        for (path, text) in [("a/one.rs", "1"), ("two.rs", "2"), ("a/target/built", "-")] {
            write(&from.join(path), text).unwrap();
        }
        copy_tree(&from, &to).unwrap();
        assert_eq!(read(&to.join("a/one.rs")).unwrap(), "1");
        assert!(!to.join("a/target").exists());
        let before = fs::metadata(to.join("two.rs")).unwrap().modified().unwrap();
        write(&from.join("a/one.rs"), "3").unwrap();
        write(&to.join("gone.rs"), "4").unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(read(&to.join("a/one.rs")).unwrap(), "3");
        assert!(!to.join("gone.rs").exists());
        assert_eq!(fs::metadata(to.join("two.rs")).unwrap().modified().unwrap(), before, "the same file is left alone");
        fs::remove_dir_all(&folder).unwrap();
    }
}
