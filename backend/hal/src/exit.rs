//! What is done when the process ends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often [`at_exit`] does something: by then a library has made what it makes once.
const ASKED_MOST: usize = 64;

/// Has a function called when the process ends, before what has been made by now gives its memory back: the last that was asked for comes
/// first. So it is asked for again and again. A compiler that is a library makes its memory within a compile; what it makes in one that
/// still runs then is lost all the same. Only the first function is kept.
pub(crate) fn at_exit(then: fn()) {
    static THEN: OnceLock<fn()> = OnceLock::new();
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn call() {
        if let Some(then) = THEN.get() {
            then();
        }
    }
    THEN.get_or_init(|| then);
    if ASKED.fetch_add(1, Ordering::Relaxed) < ASKED_MOST {
        // SAFETY: the function lives as long as the program, and takes and gives nothing. Should there be no room for it, nothing is
        // lost but the wait.
        let _full = unsafe { libc::atexit(call) };
    }
}
