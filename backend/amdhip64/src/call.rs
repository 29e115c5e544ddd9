//! What every exported function goes through: panics caught, errors kept for `hipGetLastError` and told.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rocfire_hal::Level;

use crate::status::Status;

/// Why a call fails: the code that the program sees, and what standard error says besides.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub status: Status,
    /// The facts that no code can carry; none for answers that programs ask for on purpose.
    pub reason: Option<String>,
}

impl Failure {
    /// A code with its reason.
    pub fn new(status: Status, reason: impl Into<String>) -> Failure {
        Failure { status, reason: Some(reason.into()) }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure { status, reason: None }
    }
}

/// The outcome of a call.
pub type Result<T = ()> = std::result::Result<T, Failure>;

thread_local! {
    static LAST_ERROR: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Runs the body of an exported function, and gives its code.
pub fn enter(call: &'static str, body: impl FnOnce() -> Result) -> c_int {
    let status = guard(call, Status::UNKNOWN, body);
    // `hipErrorNotReady` is an answer and no error. A thread that is ending has no place for one any more.
    if status != Status::SUCCESS && status != Status::NOT_READY {
        let _ = LAST_ERROR.try_with(|last| last.set(status));
    }
    status.0
}

/// Runs the body of an exported function that does not count for `hipGetLastError`.
pub fn guard(call: &'static str, bug: Status, body: impl FnOnce() -> Result) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    match outcome.unwrap_or_else(|panic| Err(Failure::new(bug, format!("a bug in rocfire: {}", message(&*panic))))) {
        Ok(()) => Status::SUCCESS,
        Err(Failure { status, reason }) => {
            if let Some(reason) = reason {
                tell(Level::Error, &format!("{call}: {reason}"));
            }
            status
        }
    }
}

/// The thread's last error; `reset` forgets it.
pub fn last_error(reset: bool) -> Status {
    let take = |last: &Cell<Status>| if reset { last.replace(Status::SUCCESS) } else { last.get() };
    LAST_ERROR.try_with(take).unwrap_or(Status::SUCCESS)
}

/// Says something on standard error, as far as `ROCFIRE_LOG` lets it through.
pub fn tell(level: Level, message: &str) {
    if level <= crate::runtime::log_level() {
        eprintln!("rocfire: {}: {message}", level.name());
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// Defines exported functions over bodies that give a [`Result`].
macro_rules! export {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// - The arguments are as HIP's reference demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::call::enter(stringify!($name), || $body)
        }
    )*};
}
pub(crate) use export;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_is_kept() {
        assert_eq!(enter("test", || panic!("planted")), Status::UNKNOWN.0);
        assert_eq!(last_error(true), Status::UNKNOWN);
        assert_eq!(last_error(true), Status::SUCCESS);
    }

    #[test]
    fn not_being_ready_is_no_error() {
        assert_eq!(enter("test", || Err(Status::NOT_READY.into())), Status::NOT_READY.0);
        assert_eq!(last_error(false), Status::SUCCESS);
    }
}
