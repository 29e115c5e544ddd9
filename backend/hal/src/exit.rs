//! What is done when the process ends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static THEN: OnceLock<fn()> = OnceLock::new();

/// How often [`keep_first`] does something: by then a library has made what it makes once.
const KEPT_MOST: usize = 64;

/// Has a function called when the process ends, before what is open by now gives its memory back. Only the first is kept.
pub(crate) fn at_exit(then: fn()) {
    THEN.get_or_init(|| {
        register();
        then
    });
}

/// Has it called before what has been asked for since, too: the last that was asked for comes first, and a compiler that is a library asks
/// for its memory to be given back as it makes it, within a compile. What it makes in a compile that still runs then is lost all the same.
pub(crate) fn keep_first() {
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    if THEN.get().is_some() && KEPT.fetch_add(1, Ordering::Relaxed) < KEPT_MOST {
        register();
    }
}

fn register() {
    extern "C" fn call() {
        if let Some(then) = THEN.get() {
            then();
        }
    }
    // SAFETY: the function lives as long as the program, and takes and gives nothing. Should there be no room for it, nothing is
    // lost but the wait.
    let _full = unsafe { libc::atexit(call) };
}
