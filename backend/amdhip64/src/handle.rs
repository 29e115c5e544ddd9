//! Handles: numbers that programs hold in place of streams, events, modules and graphs.
//!
//! A handle is never followed, only looked up, so one that was destroyed, or never was one, is an error and not a crash.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a program holds; it has the size of a pointer.
pub type Handle = usize;

/// Above the numbers that HIP gives a meaning (null, legacy and per-thread stream); multiples of 16, as pointers would be.
const FIRST: usize = 0x1000;
const STEP: usize = 16;

/// Objects by handle. No two tables of the process share a handle.
pub struct Table<T>(Mutex<HashMap<Handle, Arc<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(Mutex::default())
    }
}

impl<T> Table<T> {
    /// Takes an object, gives its handle.
    pub fn insert(&self, object: T) -> Handle {
        static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
        let handle = NEXT.fetch_add(STEP, Ordering::Relaxed);
        self.lock().insert(handle, Arc::new(object));
        handle
    }

    /// The object of a handle, if it is alive.
    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        self.lock().get(&handle).cloned()
    }

    /// Forgets a handle.
    pub fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        self.lock().remove(&handle)
    }

    /// Forgets the handles of some objects.
    pub fn retain(&self, mut keep: impl FnMut(&T) -> bool) {
        self.lock().retain(|_, object| keep(object));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Handle, Arc<T>>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
