//! The prelude, read once for many sources.
//!
//! Reading it takes clang 30 ms of the 70 that an empty kernel costs. So what a compiler makes of it (a precompiled header) is kept
//! in the cache like a code object, under a key of prelude, compiler, architecture and the architecture's macros, with the same
//! protection against damage and half-written files. Making it takes as long as compiling a small source, so a process's first
//! compile does without; whoever compiles next makes it, and the others go on without it meanwhile.
//!
//! NVRTC reads one source at a time, whatever the threads, so there the others wait; what it makes is read by no other process
//! (`cuda/precompiled.rs`), and is not kept.
//!
//! Code is the same with and without: the cache's keys do not know of it. Sources whose macros or flags could change what the
//! prelude is do not get it ([`fits`]), and a source that fails with it is compiled without, which then is the answer.

use std::collections::HashSet;
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use blake3::Hash;

use super::cache::Cache;
use super::source::Source;
use crate::log::{Level, report};

/// Which compile of a process makes the header if none is kept.
const WORTH_IT: u32 = 2;
/// The cache's entries name their source; these have none.
const NO_SOURCE: [u8; 32] = [0; 32];

/// What a compiler makes of the prelude.
pub(crate) enum Form {
    /// Any process can read it: it is kept in the cache.
    Bytes(Vec<u8>),
    /// Only the process that made it can, behind the macros that it was made with: an open file that has no name any more.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only NVRTC makes one"))]
    File(File, Vec<(String, String)>),
}

/// A precompiled prelude.
pub(crate) struct Prelude {
    form: Form,
    refused: OnceLock<String>,
}

impl Prelude {
    /// What the compiler has made, unless it is a file.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.form {
            Form::Bytes(bytes) => Some(bytes),
            Form::File(..) => None,
        }
    }

    /// The file that the compiler has made, and the macros before it.
    #[cfg(feature = "cuda")]
    pub fn file(&self) -> Option<(&File, &[(String, String)])> {
        match &self.form {
            Form::Bytes(_) => None,
            Form::File(file, defines) => Some((file, defines)),
        }
    }

    /// Notes that the compiler which made it does not take it, and why: a source compiles without it only.
    pub fn refuse(&self, why: impl Into<String>) {
        // The first reason is as good as any.
        let _ = self.refused.set(why.into());
    }

    /// Why it is not taken, once that is known.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }
}

impl From<Form> for Prelude {
    fn from(form: Form) -> Prelude {
        Prelude { form, refused: OnceLock::new() }
    }
}

/// What a compiler and an architecture have, or will have.
pub(super) struct Precompiled {
    /// What is reported; why there is none goes to `debug`.
    log: Level,
    compiles: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Unread,
    /// None was kept.
    Absent,
    Ready(Arc<Prelude>),
    /// It cannot be made, or was refused: not tried again by this process.
    Never,
}

impl Precompiled {
    /// With nothing read or made yet.
    pub fn new(log: Level) -> Precompiled {
        Precompiled { log, compiles: AtomicU32::new(0), state: Mutex::default() }
    }

    /// The prelude for the next compile. `make` is called at most once. Unless whoever comes `waits`, no thread waits for another
    /// that makes it.
    pub fn get(
        &self,
        cache: &Cache,
        key: &Hash,
        waits: bool,
        make: impl FnOnce() -> Result<Form, String>,
    ) -> Option<Arc<Prelude>> {
        let nth = self.compiles.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if waits => self.state.lock().unwrap_or_else(PoisonError::into_inner),
            Err(TryLockError::WouldBlock) => return None,
        };
        let ready = |form| State::Ready(Arc::new(Prelude::from(form)));
        if let State::Unread = *state {
            *state = cache.read(key).map_or(State::Absent, |bytes| ready(Form::Bytes(bytes)));
        }
        if matches!(*state, State::Absent) && nth >= WORTH_IT {
            *state = match make() {
                Ok(form) => {
                    if let Form::Bytes(bytes) = &form {
                        // A cache that cannot be written is told of when the code object is.
                        let _ = cache.write(key, &NO_SOURCE, bytes);
                    }
                    ready(form)
                }
                Err(why) => self.never("cannot be precompiled", &why),
            };
        }
        match &*state {
            State::Ready(prelude) => {
                let Some(why) = prelude.refused() else { return Some(Arc::clone(prelude)) };
                cache.remove(key);
                let never = self.never("is not used as it was precompiled", why);
                *state = never;
                None
            }
            State::Unread | State::Absent | State::Never => None,
        }
    }

    fn never(&self, what: &str, why: &str) -> State {
        report(self.log, Level::Debug, format!("the prelude {what}, and is read for each kernel: {}", why.trim()));
        State::Never
    }
}

/// Whether the prelude is the same before this source as before any other: no macro of it is a word of the prelude or one of the
/// architecture's, and the compiler has no other flags.
pub(super) fn fits(source: &Source, arch_defines: &[(String, String)]) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = WORDS.get_or_init(|| rocfire_prelude::TEXT.split(|c| !is_part(c)).collect());
    let is_new = |(name, _): &(String, String)| {
        // A macro with parameters is named by what comes before them.
        let name = name.split(|c| !is_part(c)).next().unwrap_or_default();
        !name.is_empty() && !words.contains(name) && arch_defines.iter().all(|(of_arch, _)| of_arch != name)
    };
    source.flags().is_empty() && source.defines().iter().all(is_new)
}

#[cfg(test)]
mod tests;
