//! Whether threads of the host besides the one that launches are there to write what a kernel waits for.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads of all devices' own pools, and bystanders. They write nothing of their own accord.
static OURS: AtomicUsize = AtomicUsize::new(0);

/// A builder of pools whose threads are counted as the emulator's.
pub(crate) fn counted_pool() -> rayon::ThreadPoolBuilder {
    rayon::ThreadPoolBuilder::new()
        .start_handler(|_| _ = OURS.fetch_add(1, Ordering::Relaxed))
        .exit_handler(|_| _ = OURS.fetch_sub(1, Ordering::Relaxed))
}

/// A thread of the host that never writes device memory, for as long as this is there. A kernel that waits for memory which nobody else
/// can write is told of at once, and such a thread changes nothing about that.
#[derive(Debug)]
pub struct Bystander(());

impl Bystander {
    /// One such thread more: made where it is started, and dropped where it ends.
    #[allow(clippy::new_without_default, reason = "what changes a count is not made by default")]
    pub fn new() -> Bystander {
        OURS.fetch_add(1, Ordering::Relaxed);
        Bystander(())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        OURS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the process has a thread that is neither the caller's nor one of pools of workers nor a bystander. Where the system does
/// not tell how many there are: yes.
pub(crate) fn are_others() -> bool {
    let workers = OURS.load(Ordering::Relaxed) + rayon::current_num_threads();
    std::fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() > 1 + workers)
}
