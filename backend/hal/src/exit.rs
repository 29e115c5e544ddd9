//! What is done when the process ends.

use std::sync::OnceLock;

/// Has a function called when the process ends, before what is open by now gives its memory back. Only the first is kept.
pub(crate) fn at_exit(then: fn()) {
    static THEN: OnceLock<fn()> = OnceLock::new();
    extern "C" fn call() {
        if let Some(then) = THEN.get() {
            then();
        }
    }
    THEN.get_or_init(|| {
        // SAFETY: the function lives as long as the program, and takes and gives nothing. Should there be no room for it, nothing is
        // lost but the wait.
        let _full = unsafe { libc::atexit(call) };
        then
    });
}
