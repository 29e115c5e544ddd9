//! A kernel's source.

use std::borrow::Cow;
use std::fmt;

/// A kernel's source, without the prelude, which every source is compiled behind. Its hash is made once, here.
#[derive(Clone)]
pub struct Source {
    name: Cow<'static, str>,
    text: Cow<'static, str>,
    defines: Vec<(String, String)>,
    flags: Vec<String>,
    hip: bool,
    hash: [u8; 32],
}

/// What the source is called in messages, and where its lines begin.
fn line_of_source(name: &str) -> String {
    let safe = |c: char| if c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    format!("#line 1 \"{}.hip\"\n", name.chars().map(safe).collect::<String>())
}

impl Source {
    /// A source with macros. `name` is for messages; the macros' order counts for the hash.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
        defines: &[(&str, &str)],
    ) -> Source {
        let (name, text) = (name.into(), text.into());
        let defines: Vec<_> = defines.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut hasher = blake3::Hasher::new();
        // The name becomes part of the code object, as the file's.
        update_text(&mut hasher, &name);
        update_text(&mut hasher, &text);
        update_pairs(&mut hasher, &defines);
        Source { hash: hasher.finalize().into(), name, text, defines, flags: Vec::new(), hip: false }
    }

    /// A source in ordinary HIP: HIP's names are there, and its headers can be included, with and without ROCm.
    pub fn hip(name: impl Into<Cow<'static, str>>, text: &str, defines: &[(&str, &str)]) -> Source {
        let name = name.into();
        let text = format!("#include <hip/hip_runtime.h>\n{}{text}", line_of_source(&name));
        let source = Source::new(name, text, defines);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&source.hash).update(&rocfire_prelude::hip::hash());
        Source { hash: hasher.finalize().into(), hip: true, ..source }
    }

    /// The same source with further flags for the compiler, after its usual ones: another optimisation level, another wave
    /// size. For tests that show code as other compilers' users make it.
    pub fn with_flags(self, flags: &[&str]) -> Source {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash);
        for flag in flags {
            update_text(&mut hasher, flag);
        }
        let flags = self.flags.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())).collect();
        Source { hash: hasher.finalize().into(), flags, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its macros, name and value.
    pub fn defines(&self) -> &[(String, String)] {
        &self.defines
    }

    /// Its further flags for the compiler.
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Whether HIP's headers are there for it.
    pub(crate) fn is_hip(&self) -> bool {
        self.hip
    }

    /// The BLAKE3 hash of name, text, macros and flags.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("defines", &self.defines).finish_non_exhaustive()
    }
}

/// Hashes a text with its length, so that no two lists of texts hash alike.
pub(super) fn update_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

pub(super) fn update_pairs(hasher: &mut blake3::Hasher, pairs: &[(String, String)]) {
    hasher.update(&(pairs.len() as u64).to_le_bytes());
    for (name, value) in pairs {
        update_text(hasher, name);
        update_text(hasher, value);
    }
}
