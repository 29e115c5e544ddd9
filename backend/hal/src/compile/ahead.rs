//! Compiles that go on while the program does.
//!
//! [`crate::Device::function`] gives out a kernel before it is compiled; the stream keeps launches of it until it has come
//! (`stream/deferred.rs`). So the kernels of a plan, or of a model's first step, are compiled side by side.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{CodeObject, Pipeline, Source, jobs};
use crate::Result;

type Outcome = std::thread::Result<Result<Arc<CodeObject>>>;

/// A code object that is being compiled.
pub(crate) struct Coming {
    outcome: Mutex<Option<Outcome>>,
    arrived: Condvar,
    has_come: Arc<AtomicBool>,
}

impl Coming {
    /// Begins to compile a source that is not at hand, or lets it wait until fewer compilers run than [`jobs`] allows.
    pub fn start(pipeline: Arc<Pipeline>, source: Source) -> Arc<Coming> {
        let coming = Arc::new(Coming::never());
        let most = jobs(pipeline.config());
        let of_job = Arc::clone(&coming);
        submit(
            most,
            Box::new(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| pipeline.fresh(&source)));
                *lock(&of_job.outcome) = Some(outcome);
                of_job.has_come.store(true, Ordering::Release);
                of_job.arrived.notify_all();
            }),
        );
        coming
    }

    /// One that nobody compiles.
    pub fn never() -> Coming {
        Coming { outcome: Mutex::new(None), arrived: Condvar::new(), has_come: Arc::default() }
    }

    /// Whether waiting takes no time.
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// Says when it has come.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_come)
    }

    /// Waits for it and takes it: whoever asks a second time waits for ever, so the one who asks keeps it.
    pub fn take(&self) -> Result<Arc<CodeObject>> {
        let mut outcome = lock(&self.outcome);
        loop {
            match outcome.take() {
                Some(Ok(code)) => return code,
                Some(Err(panic)) => resume_unwind(panic),
                None => outcome = self.arrived.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

struct Workers {
    waiting: VecDeque<Job>,
    running: usize,
}

static WORKERS: Mutex<Workers> = Mutex::new(Workers { waiting: VecDeque::new(), running: 0 });

/// Runs a job on a thread of its own, behind those that came before where `most` run.
fn submit(most: usize, job: Job) {
    let mut workers = lock(&WORKERS);
    workers.waiting.push_back(job);
    if workers.running < most {
        workers.running += 1;
        std::thread::spawn(work);
    }
}

fn work() {
    loop {
        let job = {
            let mut workers = lock(&WORKERS);
            let Some(job) = workers.waiting.pop_front() else {
                workers.running -= 1;
                return;
            };
            job
        };
        job();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
