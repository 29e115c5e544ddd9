//! The prelude, read once for many sources.
//!
//! Reading it takes clang 30 ms of the 70 that an empty kernel costs. So what a compiler makes of it (a precompiled header) is kept
//! in the cache like a code object, under a key of prelude, compiler, architecture and the architecture's macros, with the same
//! protection against damage and half-written files. Making it takes as long as compiling a small source, so a process's first
//! compile does without; whoever compiles next makes it, and the others go on without it meanwhile.
//!
//! Code is the same with and without: the cache's keys do not know of it. Sources whose macros or flags could change what the
//! prelude is do not get it ([`fits`]), and a source that fails with it is compiled without, which then is the answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

use blake3::Hash;

use super::cache::Cache;
use super::source::Source;

/// Which compile of a process makes the header if none is kept.
const WORTH_IT: u32 = 2;
/// The cache's entries name their source; these have none.
const NO_SOURCE: [u8; 32] = [0; 32];

/// A precompiled prelude.
pub(crate) struct Prelude {
    bytes: Vec<u8>,
    refused: AtomicBool,
}

impl Prelude {
    /// What the compiler has made.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Notes that the compiler which made it does not take it: a source compiles without it only.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }
}

/// What a compiler and an architecture have, or will have.
#[derive(Default)]
pub(super) struct Precompiled {
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
    /// The prelude for the next compile. `make` is called at most once, and never while another thread waits for it.
    pub fn get(&self, cache: &Cache, key: &Hash, make: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Prelude>> {
        let nth = self.compiles.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let ready = |bytes| State::Ready(Arc::new(Prelude { bytes, refused: AtomicBool::new(false) }));
        if let State::Unread = *state {
            *state = cache.read(key).map_or(State::Absent, ready);
        }
        if matches!(*state, State::Absent) && nth >= WORTH_IT {
            *state = make().map_or(State::Never, |bytes| {
                // A cache that cannot be written is told of when the code object is.
                let _ = cache.write(key, &NO_SOURCE, &bytes);
                ready(bytes)
            });
        }
        match &*state {
            State::Ready(prelude) if prelude.refused.load(Ordering::Relaxed) => {
                cache.remove(key);
                *state = State::Never;
                None
            }
            State::Ready(prelude) => Some(Arc::clone(prelude)),
            State::Unread | State::Absent | State::Never => None,
        }
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
