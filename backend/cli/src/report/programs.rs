//! Where the programs of the parts are: built by cargo in a checkout, or beside this one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;

/// A program that a part runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// This one.
    Own,
    /// A program of the workspace.
    Binary {
        /// Its name.
        name: &'static str,
        /// Whether it times something, so that on a card it is built as a release.
        times: bool,
    },
    /// A test program of the workspace.
    Test(&'static str),
    /// Somebody else's, in the folders of `PATH` or in these.
    Foreign {
        /// Its name.
        name: &'static str,
        /// Where it may be besides.
        folders: &'static [&'static str],
    },
}

/// Where programs come from.
#[derive(Clone, Debug)]
pub enum Place {
    /// Cargo builds them.
    Cargo(OsString),
    /// They lie in a folder.
    Folder(PathBuf),
}

impl Place {
    /// The folder that was named; else cargo, if it has started this program; else the folder of this program.
    ///
    /// # Errors
    /// This program has no folder.
    pub fn find(named: Option<&Path>) -> Outcome<Place> {
        if let Some(folder) = named {
            return Ok(Place::Folder(folder.to_owned()));
        }
        if let Some(cargo) = std::env::var_os("CARGO") {
            return Ok(Place::Cargo(cargo));
        }
        let own = std::env::current_exe()?;
        Ok(Place::Folder(own.parent().ok_or("this program has no folder")?.to_owned()))
    }

    /// Whether cargo builds what is asked for.
    pub fn is_cargo(&self) -> bool {
        matches!(self, Place::Cargo(_))
    }

    /// The program's path; built, if need be. `real`: for a card.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn path(&self, program: Program, real: bool) -> Result<PathBuf, String> {
        match (program, self) {
            (Program::Own, _) => std::env::current_exe().map_err(|error| error.to_string()),
            (Program::Foreign { name, folders }, _) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let mut all = std::env::split_paths(&path).chain(folders.iter().map(PathBuf::from));
                let found = all.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()));
                found.ok_or_else(|| format!("there is no {name}"))
            }
            (Program::Binary { name, .. } | Program::Test(name), Place::Folder(folder)) => {
                let file = folder.join(name);
                let absent = || format!("{name} does not lie where the other programs are");
                if file.is_file() { Ok(file) } else { Err(absent()) }
            }
            (Program::Binary { name, times }, Place::Cargo(cargo)) => {
                let release: &[&str] = if times && real { &["--release"] } else { &[] };
                built(cargo, &[&["build", "--bin", name], release].concat(), name)
            }
            (Program::Test(name), Place::Cargo(cargo)) => built(cargo, &["test", "--no-run", "--test", name], name),
        }
    }
}

/// Has cargo build a program, and takes its path from what cargo says it has made.
fn built(cargo: &OsString, words: &[&str], name: &str) -> Result<PathBuf, String> {
    let mut command = Command::new(cargo);
    command.args(words).arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo builds no {name}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    executable(&text, name).ok_or_else(|| format!("cargo has built no {name}"))
}

/// The executable of a target among cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == name;
        if is_it { message["executable"].as_str().map(PathBuf::from) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_target() {
        let line = |name: &str, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"target\":{{\"name\":\"{name}\"}},\"executable\":{executable}}}\n"
            )
        };
        let text =
            line("models", "null") + &line("models", "\"/t/models\"") + &line("other", "\"/t/other\"") + "no json\n";
        assert_eq!(executable(&text, "models"), Some(PathBuf::from("/t/models")));
        assert_eq!(executable(&text, "none"), None);
    }

    #[test]
    fn programs_that_were_copied_lie_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::find(Some(folder.path())).unwrap();
        assert!(place.path(Program::Test("cases"), true).unwrap_err().contains("cases does not lie"));
        std::fs::write(folder.path().join("cases"), "").unwrap();
        assert_eq!(place.path(Program::Test("cases"), true).unwrap(), folder.path().join("cases"));
        assert_eq!(place.path(Program::Own, true).unwrap(), std::env::current_exe().unwrap());
        let foreign = |name| place.path(Program::Foreign { name, folders: &["/bin"] }, true);
        assert!(foreign("sh").is_ok() && foreign("no-such-program").is_err());
    }
}
