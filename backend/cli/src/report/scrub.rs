//! Takes names of people, machines and folders out of text, so that a report can be given away.
//!
//! Of an absolute path the last part stays: `…/libamdhip64.so`. Words that are the user's or the machine's name become `<user>` and
//! `<host>`. Paths within a source tree (`src/main.rs`) and addresses of pages stay.

use std::path::Path;

/// What begins a path where it stands before the first `/`.
const BEFORE: &str = " \t\"'`(<[{=,;:|!>*";
/// What ends one.
const BEHIND: &str = " \t\"'`)>]},;:|!*";
/// Names of users and machines that say nothing of anybody.
const NOBODY: &[&str] = &["root", "localhost", "user", "runner", "ubuntu"];

/// What is taken out.
#[derive(Clone, Debug, Default)]
pub struct Scrub {
    /// Folders as they are written, the longest first: they may have spaces.
    folders: Vec<String>,
    /// Words and what they become.
    names: Vec<(String, &'static str)>,
}

impl Scrub {
    /// Of this machine, and the folders that the report uses.
    pub fn of_machine(folders: &[&Path]) -> Scrub {
        let mut scrub = Scrub::default();
        let home = std::env::var("HOME").unwrap_or_default();
        for folder in folders {
            scrub.folder(&folder.to_string_lossy());
        }
        for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "TMPDIR", "PWD"] {
            scrub.folder(&std::env::var(name).unwrap_or_default());
        }
        for name in ["USER", "LOGNAME", "SUDO_USER"] {
            scrub.name(&std::env::var(name).unwrap_or_default(), "<user>");
        }
        scrub.name(home.rsplit('/').next().unwrap_or_default(), "<user>");
        scrub.name(&std::env::var("HOSTNAME").unwrap_or_default(), "<host>");
        scrub.name(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim(), "<host>");
        scrub
    }

    /// A folder to take out.
    pub fn folder(&mut self, folder: &str) {
        // `/` alone and what is relative are no names.
        if folder.len() > 1 && folder.starts_with('/') {
            self.folders.push(folder.trim_end_matches('/').to_owned());
            self.folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
            self.folders.dedup();
        }
    }

    /// A word to take out.
    pub fn name(&mut self, name: &str, becomes: &'static str) {
        if name.len() > 1 && !NOBODY.contains(&name) && !self.names.iter().any(|(known, _)| known == name) {
            self.names.push((name.to_owned(), becomes));
        }
    }

    /// The text without them.
    pub fn text(&self, text: &str) -> String {
        text.split('\n').map(|line| self.line(line)).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for folder in &self.folders {
            // A folder with spaces in it would otherwise end at the first of them.
            if folder.contains(|c: char| BEHIND.contains(c)) {
                line = line.replace(folder.as_str(), "/…");
            }
        }
        let mut line = without_paths(&line);
        for (name, becomes) in &self.names {
            line = without_word(&line, name, becomes);
        }
        line
    }
}

/// Every absolute path as `…/last`.
fn without_paths(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('/') {
        let before = &rest[..at];
        let end = rest[at..].find(|c: char| BEHIND.contains(c)).map_or(rest.len(), |end| at + end);
        let path = &rest[at..end];
        out += before;
        let last_before = out.chars().next_back();
        let is_page = before.ends_with("http:") || before.ends_with("https:");
        let begins = last_before.is_none_or(|c| BEFORE.contains(c) || c == '~') || is_flag(before);
        let names = path.trim_start_matches('/').starts_with(|c: char| c.is_alphanumeric() || "._~$…".contains(c));
        if is_page || !begins || !names {
            out += path;
        } else {
            if out.ends_with('~') {
                out.pop();
            }
            out += "…/";
            out += path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Whether a path may follow at once: `-I/usr/include`.
fn is_flag(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    word.starts_with('-') && word[1..].chars().all(char::is_alphabetic) && word.len() > 1
}

/// The word, where it is one, replaced.
fn without_word(line: &str, name: &str, becomes: &str) -> String {
    let part = |c: char| c.is_alphanumeric();
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(name) {
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        out += before;
        let within = out.chars().next_back().is_some_and(part) || behind.chars().next().is_some_and(part);
        out += if within { name } else { becomes };
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub() -> Scrub {
        let mut scrub = Scrub::default();
        scrub.folder("/home/Jane Doe");
        scrub.folder("/home/Jane Doe/rocfire report");
        scrub.name("jane", "<user>");
        scrub.name("box17", "<host>");
        scrub
    }

    #[test]
    fn of_paths_the_last_part_stays() {
        for (text, expected) in [
            ("opened /opt/rocm-7.0/lib/libamdhip64.so.7", "opened …/libamdhip64.so.7"),
            ("\"path\":\"/root/.cache/rocfire/code\",", "\"path\":\"…/code\","),
            ("panicked at /root/.cargo/registry/src/a-1/burn/src/lib.rs:12:3:", "panicked at …/lib.rs:12:3:"),
            ("clang -I/usr/include -o /tmp/x.co", "clang -I…/include -o …/x.co"),
            ("ROCM_PATH=/opt/rocm", "ROCM_PATH=…/rocm"),
            ("see file:///home/a/b.html", "see file:…/b.html"),
            ("in ~/work/x and (/dev/kfd)", "in …/x and (…/kfd)"),
            ("a folder /srv/data/ that ends so", "a folder …/data that ends so"),
        ] {
            assert_eq!(scrub().text(text), expected);
        }
    }

    #[test]
    fn what_is_no_path_stays() {
        for text in [
            "3.2 GB/s, 1/2, and/or, f16/bf16 / 4",
            "backend/cli/src/main.rs:7: wrong",
            "https://docs.rs/clap/4.5 and http://a.b/c/d",
            "gemm/f32/64x64 ... ok",
            "",
            "// a comment",
        ] {
            assert_eq!(scrub().text(text), text);
        }
    }

    #[test]
    fn names_go_where_they_are_words() {
        assert_eq!(scrub().text("jane@box17: janet on box170, JANE"), "<user>@<host>: janet on box170, JANE");
        assert_eq!(scrub().text("1234-jane_results"), "1234-<user>_results");
    }

    #[test]
    fn folders_with_spaces_go_as_a_whole() {
        let text = scrub().text("cannot read /home/Jane Doe/rocfire report/ops.json: gone\n/home/Jane Doe/x");
        assert_eq!(text, "cannot read …/ops.json: gone\n…/x");
    }

    #[test]
    fn nobody_is_no_name() {
        let mut scrub = Scrub::default();
        scrub.name("root", "<user>");
        scrub.name("", "<user>");
        scrub.folder("/");
        assert_eq!(scrub.text("the square root / 2"), "the square root / 2");
    }
}
