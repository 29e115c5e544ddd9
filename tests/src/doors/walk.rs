//! Which functions a function reaches, read off the sources of some crates.
//!
//! A path in a body is followed through the file's imports and other modules' re-exports to the one function that it
//! means; a type that is named reaches what its implementations of traits do, since whoever it is handed to calls
//! those. Of a method called on a value only the name is known: it means every method of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many re-exports are followed.
const MOST_LINKS: usize = 8;

/// The sources of some crates.
#[derive(Default)]
pub struct Sources {
    functions: Vec<Function>,
    /// Functions by path, `crate::module::name` or `crate::module::Type::name`.
    by_path: BTreeMap<String, Vec<usize>>,
    /// Those of types and traits by name.
    methods: BTreeMap<String, Vec<usize>>,
    /// What types do for traits, by the type's path.
    callbacks: BTreeMap<String, Vec<usize>>,
    /// What modules import: what a name means there.
    imports: BTreeMap<String, BTreeMap<String, String>>,
    /// Types and traits.
    types: BTreeSet<String>,
}

struct Function {
    module: String,
    /// The type or trait that it is of.
    owner: Option<String>,
    body: String,
}

/// What a body names.
enum Name {
    Path(Vec<String>),
    Method(String),
}

impl Sources {
    /// Of files, each with its module's path.
    pub fn new(files: &[(String, String)]) -> Sources {
        let mut sources = Sources::default();
        let files: Vec<(&str, String)> = files
            .iter()
            .map(|(module, text)| {
                (module.as_str(), plain(text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text)))
            })
            .collect();
        sources.imports = files.iter().map(|(module, _)| ((*module).to_owned(), BTreeMap::new())).collect();
        for (module, text) in &files {
            let mut imports = BTreeMap::new();
            for (at, _) in text.match_indices("use ").filter(|(at, _)| begins_item(&text[..*at])) {
                let tree = text[at + 4..].split(';').next().unwrap_or_default();
                import(tree, "", &mut |name, path| {
                    // A module inside this one, or another crate.
                    let inner = format!("{module}::{}", first_word(path));
                    let from = if sources.imports.contains_key(&inner) {
                        format!("{module}::{path}")
                    } else {
                        path.to_owned()
                    };
                    imports.insert(name, absolute(module, &from));
                });
            }
            sources.imports.insert((*module).to_owned(), imports);
        }
        files.iter().for_each(|(module, text)| sources.add(module, text));
        sources
    }

    fn add(&mut self, module: &str, text: &str) {
        let (mut owner, mut end): (Option<(String, bool)>, String) = (None, String::new());
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if *line == end {
                owner = None;
            }
            let (trimmed, margin) = (line.trim_start(), &line[..line.len() - line.trim_start().len()]);
            let item = ["pub ", "pub(crate) ", "pub(super) ", "unsafe "]
                .iter()
                .fold(trimmed, |text, word| text.strip_prefix(word).unwrap_or(text));
            if let Some(kind) = ["struct ", "enum ", "trait ", "type "].iter().find(|kind| item.starts_with(**kind)) {
                self.types.insert(format!("{module}::{}", first_word(&item[kind.len()..])));
            }
            if item.starts_with("trait ") || item.starts_with("impl") && owner.is_none() {
                let head = lines[number..].join(" ");
                let head = head.split('{').next().unwrap_or_default();
                owner = Some(self.owner(module, head.trim_start_matches(|c: char| c != 'i' && c != 't')));
                end = format!("{margin}}}");
            }
            if let Some((name, made_of)) = trimmed.split_once(" => ").filter(|_| line.ends_with(';')) {
                self.add_function(module, owner.clone(), name, made_of.to_owned()); // A row of a macro that makes functions.
            } else if let Some((_, after)) = line.split_once("fn ").filter(|(before, _)| begins_function(before)) {
                let ends = [format!("{margin}}}"), format!("{margin}}},")];
                let is_short = line.ends_with('}') || line.ends_with(';');
                let rest = &lines[number..];
                let count = rest.iter().position(|line| ends.iter().any(|end| line == end)).unwrap_or(0);
                let count = if is_short { 1 } else { count + 1 };
                let name = first_word(after);
                let body = [&after[name.len()..], &rest[1..count.max(1)].join("\n")].join("\n");
                self.add_function(module, owner.clone(), name, body);
            }
        }
    }

    /// Whose functions follow, from the head of an `impl` or a `trait`, and whether they are a trait's.
    fn owner(&self, module: &str, head: &str) -> (String, bool) {
        let head = head.split(" where ").next().unwrap_or(head);
        let mut depth = 0;
        let outside: String = head
            .replace("->", "")
            .chars()
            .filter(|c| {
                depth += i32::from(*c == '<') - i32::from(*c == '>');
                depth == 0 && *c != '>'
            })
            .collect();
        let outside = outside.trim_start_matches("impl").trim_start_matches("trait");
        let (of_trait, of) = outside.split_once(" for ").map_or((false, outside), |(_, of)| (true, of));
        let path: String = of.trim().chars().take_while(|c| is_word(*c) || *c == ':').collect();
        let path: Vec<String> = path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        (self.resolve(module, None, &path), of_trait)
    }

    fn add_function(&mut self, module: &str, owner: Option<(String, bool)>, name: &str, body: String) {
        let number = self.functions.len();
        let of = owner.as_ref().map_or(module, |(owner, _)| owner);
        self.by_path.entry(format!("{of}::{name}")).or_default().push(number);
        if let Some((owner, of_trait)) = &owner {
            self.methods.entry(name.to_owned()).or_default().push(number);
            if *of_trait {
                self.callbacks.entry(owner.clone()).or_default().push(number);
            }
        }
        self.functions.push(Function { module: module.to_owned(), owner: owner.map(|(owner, _)| owner), body });
    }

    /// The path of what a name means in a module.
    fn resolve(&self, module: &str, owner: Option<&str>, name: &[String]) -> String {
        let (first, rest) = name.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let imported = self.imports.get(module).and_then(|imports| imports.get(first));
        let begin = match (first, owner, imported) {
            ("Self", Some(owner), _) => owner.to_owned(),
            (_, _, Some(path)) => path.clone(),
            ("crate" | "self" | "super", _, None) => absolute(module, first),
            _ if self.imports.contains_key(first) || first.starts_with("rocfire_") => first.to_owned(),
            _ => format!("{module}::{first}"),
        };
        let mut path = rest.iter().fold(begin, |path, part| absolute(module, &format!("{path}::{part}")));
        for _ in 0..MOST_LINKS {
            match self.link(&path) {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }

    /// A path through an import of the last module in it; none where it is defined there.
    fn link(&self, path: &str) -> Option<String> {
        if self.is_defined(path) {
            return None;
        }
        let mut ends = path.rmatch_indices("::").map(|(at, _)| at);
        let at = ends.find(|at| self.imports.contains_key(&path[..*at]))?;
        let (imports, rest) = (&self.imports[&path[..at]], &path[at + 2..]);
        let (first, rest) = rest.split_once("::").map_or((rest, ""), |(first, rest)| (first, rest));
        let target = imports.get(first)?;
        Some(if rest.is_empty() { target.clone() } else { format!("{target}::{rest}") })
    }

    fn is_defined(&self, path: &str) -> bool {
        self.types.contains(path) || self.by_path.contains_key(path)
    }

    /// What a public path means, if it is there.
    pub fn find(&self, path: &str) -> Option<String> {
        let parts: Vec<String> = path.split("::").map(str::to_owned).collect();
        let found = self.resolve(&parts[0], None, &parts);
        self.is_defined(&found).then_some(found)
    }

    /// Whether the function at a path, or any of a type, calls `launcher`, itself or through others.
    pub fn reaches(&self, path: &str, launcher: &str) -> bool {
        let of_type = format!("{path}::");
        let begins = self.by_path.iter().filter(|(known, _)| *known == path || known.starts_with(&of_type));
        let mut left: Vec<usize> = begins.flat_map(|(_, functions)| functions.iter().copied()).collect();
        let mut seen: BTreeSet<usize> = left.iter().copied().collect();
        while let Some(number) = left.pop() {
            let Function { module, owner, body } = &self.functions[number];
            for name in names(body) {
                let known = match name {
                    Name::Method(name) => self.methods.get(&name),
                    Name::Path(name) => {
                        let path = self.resolve(module, owner.as_deref(), &name);
                        if path == launcher {
                            return true;
                        }
                        let called = self.by_path.get(&path).or_else(|| self.callbacks.get(&path));
                        // A type parameter's.
                        called.or_else(|| {
                            self.methods.get(name.last()?).filter(|_| name.len() == 2 && name[0].len() == 1)
                        })
                    }
                };
                left.extend(known.into_iter().flatten().copied().filter(|&number| seen.insert(number)));
            }
        }
        false
    }
}

/// The files of a crate whose `src` is at `folder`, by their modules.
pub fn modules(name: &str, folder: &Path) -> Vec<(String, String)> {
    let module = |path: &Path| {
        let inner = path.strip_prefix(folder).expect("it was found there").with_extension("");
        let parts = inner.iter().map(|part| part.to_string_lossy().into_owned());
        let parts = parts.filter(|part| !["lib", "mod"].contains(&part.as_str()));
        std::iter::once(name.to_owned()).chain(parts).collect::<Vec<_>>().join("::")
    };
    files(folder).into_iter().map(|(path, text)| (module(&path), text)).collect()
}

/// Rust files of a folder but for tests.
pub fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.map(|entry| entry.expect("it can be read")) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                found.push((path, text));
            }
        }
    }
    found
}

/// A text without comments.
fn plain(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end()).collect::<Vec<_>>().join("\n")
}

/// Whether an import begins behind this.
fn begins_item(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before).trim();
    line.is_empty() || line.starts_with("pub")
}

/// Whether `fn` behind this begins a function.
fn begins_function(before: &str) -> bool {
    before.trim().split(' ').all(|word| {
        word.is_empty()
            || word.starts_with("pub")
            || word.ends_with(')')
            || ["const", "unsafe", "extern", "\"C\""].contains(&word)
    })
}

/// The names of an import and their paths.
fn import(tree: &str, before: &str, tell: &mut dyn FnMut(String, &str)) {
    let tree = tree.trim();
    let (head, inner) = tree.split_once('{').map_or((tree, None), |(head, inner)| (head, inner.rsplit_once('}')));
    let Some((inner, _)) = inner else {
        let (path, name) = head.split_once(" as ").map_or((head, None), |(path, name)| (path, Some(name)));
        let path = format!("{before}{path}");
        let path = path.strip_suffix("::self").unwrap_or(&path);
        let name = name.or_else(|| path.rsplit("::").next()).unwrap_or_default();
        return tell(name.to_owned(), path);
    };
    let (mut depth, mut first) = (0, 0);
    let before = format!("{before}{head}");
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            if !inner[first..at].trim().is_empty() {
                import(&inner[first..at], &before, tell);
            }
            first = at + 1;
        }
    }
}

/// A path without `crate`, `self` and `super`, and from a module of its own on.
fn absolute(module: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for (number, part) in path.split("::").enumerate() {
        match part {
            "crate" => parts = vec![module.split("::").next().unwrap_or(module)],
            "self" if number == 0 => parts = module.split("::").collect(),
            "super" => {
                if number == 0 {
                    parts = module.split("::").collect();
                }
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("::")
}

/// What a body names, in its order.
fn names(body: &str) -> Vec<Name> {
    let mut found = Vec::new();
    let (mut rest, mut before) = (body, ' ');
    while let Some(at) = rest.find(is_word) {
        before = rest[..at].chars().rev().find(|c| !c.is_whitespace()).unwrap_or(before);
        rest = &rest[at..];
        let mut path = Vec::new();
        loop {
            let word = first_word(rest);
            path.push(word.to_owned());
            rest = &rest[word.len()..];
            let Some(next) = rest.strip_prefix("::").filter(|next| next.starts_with(is_word)) else { break };
            rest = next;
        }
        match path.as_slice() {
            [name] if before == '.' => found.push(Name::Method(name.clone())),
            _ => found.push(Name::Path(path)),
        }
        before = ' ';
    }
    found
}

pub fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

pub fn first_word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = "
pub use deep::door;
pub struct Module;
impl Module {
    pub fn run(&self) {
        norm(1);
    }
}
fn norm(_: i32) {}
";
    const DEEP: &str = "
use rocfire_kernels::norm::{self, NormKind};
pub fn door() {
    norm::norm(NormKind::Rms);
}
";
    const OTHER: &str = "
use super::Module;
// rocfire_kernels::norm::norm
pub fn door() {
    Module.run();
    rocfire_kernels::norm::norm_backward();
}
";
    const CALLBACKS: &str = "
use rocfire_kernels::gemm as kernel;
pub struct Handle;
impl Run for Handle {
    fn run(&self) {
        kernel::gemm();
    }
}
pub fn recorded() {
    record(Handle);
}
pub fn called(x: u8) {
    x.run();
}
pub fn by_type<B: Run>() {
    B::run();
}
pub fn nothing() {
    run();
}
";

    fn sources(files: &[(&str, &str)]) -> Sources {
        let owned = |(module, text): &(&str, &str)| ((*module).to_owned(), (*text).to_owned());
        Sources::new(&files.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn another_function_of_the_same_name_is_no_door() {
        let own = sources(&[("own", FRONT), ("own::deep", DEEP), ("own::other", OTHER)]);
        let reaches = |path: &str| own.find(path).map(|found| own.reaches(&found, "rocfire_kernels::norm::norm"));
        let found = ["own::door", "own::other::door", "own::Module", "own::Other"].map(reaches);
        assert_eq!(found, [Some(true), Some(false), Some(false), None]);
    }

    #[test]
    fn methods_and_callbacks_are_followed() {
        let own = sources(&[("own", CALLBACKS)]);
        let names = ["recorded", "called", "by_type", "nothing"];
        let found = names.map(|name| own.reaches(&format!("own::{name}"), "rocfire_kernels::gemm::gemm"));
        assert_eq!(found, [true, true, true, false]);
    }
}
