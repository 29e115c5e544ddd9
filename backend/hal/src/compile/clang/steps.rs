//! What clang's driver runs for a source: its front end, which makes an object, then the linker.
//!
//! The driver is a process of its own beside these two, and starting a clang takes 20 ms of which nothing is left. So it is asked
//! once for each list of options what it would run (`-###`), and both are then run without it, with the same arguments: the code
//! is the same. Where the answer is not understood, `None` says that the driver has to do it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::{CODE_FILE, PRELUDE_FILE};

/// What the front end makes and the linker takes.
const OBJECT_FILE: &str = "code.o";
/// The precompiled prelude, in the folder of a compile.
pub(super) const PRECOMPILED_FILE: &str = "prelude.pch";
/// Where the prelude lies when it is precompiled and when that is used: a precompiled header names the files it was made of, and
/// each compile has a folder of its own. The overlay makes this path the prelude in that folder.
const PRELUDE_PATH: &str = "/rocfire/rocfire_prelude.h";
/// The file that says so, and its text.
pub(super) const OVERLAY_FILE: &str = "overlay.yaml";
pub(super) const OVERLAY: &str = r#"{"version": 0, "overlay-relative": true, "use-external-names": false, "roots": [
{"name": "/rocfire", "type": "directory", "contents": [
{"name": "rocfire_prelude.h", "type": "file", "external-contents": "rocfire_prelude.h"}]}]}
"#;

/// A front end and a linker, with their arguments but for macros.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Steps {
    front: Vec<String>,
    linker: Vec<String>,
    /// The source's name in `front`.
    source: String,
}

/// Answers that were given in this process.
type Asked = HashMap<(PathBuf, Vec<String>), Option<Arc<Steps>>>;

impl Steps {
    /// What the driver would run in `folder` for a source that lies there. `options` have no macros of the source.
    pub fn of(clang: &Path, options: &[String], folder: &Path, source: &str) -> Option<Arc<Steps>> {
        static ASKED: Mutex<Option<Asked>> = Mutex::new(None);
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = asked.get_or_insert_default();
        let key = (clang.to_owned(), options.to_owned());
        asked.entry(key).or_insert_with(|| ask(clang, options, folder, source).map(Arc::new)).clone()
    }

    /// The front end on a source, behind the prelude or behind what was precompiled of it.
    pub fn front(&self, source: &str, defines: &[(String, String)], precompiled: bool) -> Command {
        let mut command = Command::new(&self.front[0]);
        for argument in &self.front[1..] {
            match argument.as_str() {
                name if name == self.source => command.arg(source),
                "-include" if precompiled => command.args(["-ivfsoverlay", OVERLAY_FILE, "-include-pch"]),
                PRELUDE_FILE if precompiled => command.arg(PRECOMPILED_FILE),
                other => command.arg(other),
            };
        }
        add(&mut command, defines);
        command
    }

    /// The front end on the prelude alone, to be precompiled.
    pub fn precompile(&self, defines: &[(String, String)]) -> Command {
        let mut command = Command::new(&self.front[0]);
        for argument in &self.front[1..] {
            match argument.as_str() {
                name if name == self.source => command.arg(PRELUDE_PATH),
                "-emit-obj" => command.arg("-emit-pch"),
                "-include" | PRELUDE_FILE => &mut command,
                OBJECT_FILE => command.arg(PRECOMPILED_FILE),
                other => command.arg(other),
            };
        }
        // The prelude is written anew for each compile; its length is still looked at.
        command.args(["-ivfsoverlay", OVERLAY_FILE, "-fno-pch-timestamp"]);
        add(&mut command, defines);
        command
    }

    /// The linker on what the front end has made.
    pub fn linker(&self) -> Command {
        let mut command = Command::new(&self.linker[0]);
        command.args(&self.linker[1..]);
        command
    }

    /// Reads what the driver prints; `None` unless it is one front end and one linker that takes what that makes.
    fn parse(printed: &str, source: &str) -> Option<Steps> {
        let mut jobs = printed.lines().filter(|line| line.trim_start().starts_with('"')).map(arguments);
        let (front, linker, None) = (jobs.next()??, jobs.next()??, jobs.next()) else { return None };
        let mut steps = Steps { front, linker, source: source.to_owned() };
        // Where the driver was asked, for line tables, which are left to it.
        let of_folder = ["-fdebug-compilation-dir=", "-fcoverage-compilation-dir="];
        steps.front.retain(|argument| !of_folder.iter().any(|prefix| argument.starts_with(prefix)));
        let output = |list: &[String]| list.iter().position(|each| each == "-o").filter(|at| at + 1 < list.len());
        let object = steps.front.get(output(&steps.front)? + 1)?.clone();
        for argument in steps.front.iter_mut().chain(&mut steps.linker).filter(|argument| **argument == object) {
            OBJECT_FILE.clone_into(argument);
        }
        let count = |list: &[String], wanted: &str| list.iter().filter(|each| *each == wanted).count();
        let behind_prelude = steps.front.windows(2).any(|pair| pair == ["-include", PRELUDE_FILE]);
        let understood = steps.front.get(1).is_some_and(|first| first == "-cc1")
            && behind_prelude
            && count(&steps.front, "-include") == 1
            && count(&steps.front, "-emit-obj") == 1
            && count(&steps.front, OBJECT_FILE) == 1
            && steps.front.last().is_some_and(|last| last == source)
            && count(&steps.linker, OBJECT_FILE) == 1
            && steps.linker[output(&steps.linker)? + 1] == CODE_FILE;
        understood.then_some(steps)
    }
}

fn add(command: &mut Command, defines: &[(String, String)]) {
    for (name, value) in defines {
        command.arg("-D").arg(format!("{name}={value}"));
    }
}

fn ask(clang: &Path, options: &[String], folder: &Path, source: &str) -> Option<Steps> {
    let mut command = Command::new(clang);
    command.current_dir(folder).args(options).args(["-include", PRELUDE_FILE, source, "-o", CODE_FILE, "-###"]);
    let output = command.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Steps::parse(std::str::from_utf8(&output.stderr).ok()?, source)
}

/// The arguments of a line in which each stands in quotes, with a backslash before quotes, backslashes and dollars.
fn arguments(line: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let mut argument = String::new();
        let mut chars = rest.strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => argument.push(chars.next()?),
                other => argument.push(other),
            }
        }
        all.push(argument);
        rest = chars.as_str().trim_start();
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = r#" "/llvm/bin/clang" "-cc1" "-emit-obj" "-fdebug-compilation-dir=/tmp/a" "-include" "rocfire_prelude.h" "-D" "A=\"\\\$" "-o" "/tmp/k-1.o" "-x" "hip" "k.hip""#;
    const LINKER: &str = r#" "/llvm/bin/lld" "-flavor" "gnu" "-o" "code.co" "/tmp/k-1.o" "--no-whole-archive""#;

    #[test]
    fn what_the_driver_prints_is_read_and_made_a_command_for_any_source() {
        let steps = Steps::parse(&format!("clang version 22\nTarget: amdgcn\n{FRONT}\n{LINKER}\n"), "k.hip").unwrap();
        let words = |command: Command| {
            let words = command.get_args().map(|word| word.to_str().unwrap().to_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let defines = [("B".to_owned(), "2 3".to_owned())];
        let front = "-cc1 -emit-obj -include rocfire_prelude.h -D A=\"\\$ -o code.o -x hip other.hip -D B=2 3";
        assert_eq!(words(steps.front("other.hip", &defines, false)), front);
        let behind = "-ivfsoverlay overlay.yaml -include-pch prelude.pch";
        let front = front.replace("-include rocfire_prelude.h", behind);
        assert_eq!(words(steps.front("other.hip", &defines, true)), front);
        let made = "-cc1 -emit-pch -D A=\"\\$ -o prelude.pch -x hip /rocfire/rocfire_prelude.h -ivfsoverlay overlay.yaml \
                    -fno-pch-timestamp -D B=2 3";
        assert_eq!(words(steps.precompile(&defines)), made);
        assert_eq!(words(steps.linker()), "-flavor gnu -o code.co code.o --no-whole-archive");
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_driver() {
        let bundler = r#" "/llvm/bin/clang-offload-bundler" "-o" "code.co""#;
        for printed in [
            String::new(),
            FRONT.to_owned(),
            format!("{FRONT}\n{LINKER}\n{bundler}"),
            format!("{LINKER}\n{FRONT}"),
            format!("{FRONT}\n{}", LINKER.replace("/tmp/k-1.o", "/tmp/k-2.o")),
            format!("{}\n{LINKER}", FRONT.replace("-include", "-inc")),
            format!("{}\n{LINKER}", FRONT.replace("\"k.hip\"", "\"k.hip")),
        ] {
            assert_eq!(Steps::parse(&printed, "k.hip"), None, "{printed}");
        }
        let nowhere = Path::new("/no/such/clang");
        assert_eq!(Steps::of(nowhere, &[], Path::new("/"), "k.hip"), None);
    }
}
