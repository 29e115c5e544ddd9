//! Compiles that go on while the program does.
//!
//! [`crate::Device::function`] gives out a kernel before it is compiled; the stream keeps launches of it until it has come
//! (`stream/deferred.rs`). So the kernels of a plan, or of a model's first step, are compiled side by side. Those that others stand in
//! for ([`crate::Device::function_behind`]) are compiled when nothing else is, and has not been for a while.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{CodeObject, Pipeline, Source, jobs};
use crate::{Result, exit};

type Outcome = std::thread::Result<Result<Arc<CodeObject>>>;

/// A code object that is being compiled.
pub(crate) struct Coming {
    outcome: Mutex<Option<Outcome>>,
    arrived: Condvar,
    has_come: AtomicBool,
}

impl Coming {
    /// Begins to compile a source that is not at hand, or lets it wait until fewer compilers run than [`jobs`] allows.
    pub fn start(pipeline: Arc<Pipeline>, source: Source, urgency: Urgency) -> Arc<Coming> {
        let coming = Arc::new(Coming::never());
        let of_job = Arc::clone(&coming);
        let most = jobs(pipeline.config());
        // A compiler that reads one source at a time would let what is waited for wait behind these.
        let behind_most = if pipeline.reads_one_at_a_time() { 1 } else { (most / 2).max(1) };
        let run = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| pipeline.fresh(&source)));
            let mut kept = lock(&of_job.outcome);
            *kept = Some(outcome);
            of_job.has_come.store(true, Ordering::Release);
            drop(kept);
            of_job.arrived.notify_all();
        });
        submit(Job { coming: Arc::clone(&coming), run, most, behind_most }, urgency);
        coming
    }

    /// Puts it before all that nobody waits for, if it was begun as [`Urgency::Behind`] and waits still.
    pub fn hurry(&self) {
        let mut workers = lock(&WORKERS);
        if let Some(at) = workers.behind.iter().position(|job| std::ptr::eq(&*job.coming, self)) {
            let job = workers.behind.remove(at).expect("it was just found there");
            workers.put(job, Urgency::Now);
        }
    }

    /// Waits until it has come, and leaves it.
    pub fn wait(&self) {
        let mut outcome = lock(&self.outcome);
        while !self.has_come() {
            outcome = self.arrived.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One that nobody compiles.
    pub fn never() -> Coming {
        Coming { outcome: Mutex::new(None), arrived: Condvar::new(), has_come: AtomicBool::new(false) }
    }

    /// Whether waiting takes no time.
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
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

/// When a source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// As soon as a compiler is free: launches wait for it.
    Now,
    /// When nothing is waited for: another kernel stands in for it.
    Behind,
}

struct Job {
    coming: Arc<Coming>,
    run: Box<dyn FnOnce() + Send>,
    /// How many may run at a time, and how many of those that others stand in for.
    most: usize,
    behind_most: usize,
}

struct Workers {
    waiting: VecDeque<Job>,
    behind: VecDeque<Job>,
    running: usize,
    behind_running: usize,
    /// When the last one that was waited for had come.
    waited_for: Option<Instant>,
}

static WORKERS: Mutex<Workers> = Mutex::new(Workers::new());
/// Told when a worker has nothing more to do.
static RESTED: Condvar = Condvar::new();

/// Told when a job comes that is waited for.
static ASKED: Condvar = Condvar::new();

/// How long the end of a process waits for what is being compiled.
const EXIT_SECONDS: u64 = 10;
/// How long nothing has been waited for when what others stand in for begins: a program's first steps ask for kernel after kernel, and
/// each would come behind one of these.
const QUIET: Duration = Duration::from_millis(50);

impl Workers {
    const fn new() -> Workers {
        Workers { waiting: VecDeque::new(), behind: VecDeque::new(), running: 0, behind_running: 0, waited_for: None }
    }

    /// How long nothing must be waited for until the next job may begin; `None` if none may.
    fn pause(&self) -> Option<Duration> {
        if !self.waiting.is_empty() {
            return Some(Duration::ZERO);
        }
        let is_free = self.behind_running < self.behind.front()?.behind_most;
        is_free.then(|| self.waited_for.map_or(Duration::ZERO, |last| QUIET.saturating_sub(last.elapsed())))
    }

    /// Lets a job wait in its queue, and starts a thread if one more may run.
    fn put(&mut self, job: Job, urgency: Urgency) {
        let starts = match urgency {
            Urgency::Now => self.running < job.most,
            Urgency::Behind => self.running < job.most && self.behind_running < job.behind_most,
        };
        match urgency {
            Urgency::Now => {
                self.waiting.push_back(job);
                ASKED.notify_one();
            }
            Urgency::Behind => self.behind.push_back(job),
        }
        if starts {
            self.running += 1;
            std::thread::spawn(work);
        }
    }

    /// The next job, of which [`Workers::pause`] has said that it may begin.
    fn next(&mut self) -> Option<(Job, Urgency)> {
        if let Some(job) = self.waiting.pop_front() {
            return Some((job, Urgency::Now));
        }
        self.behind_running += 1;
        self.behind.pop_front().map(|job| (job, Urgency::Behind))
    }

    /// A job has been done.
    fn done(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Now => self.waited_for = Some(Instant::now()),
            Urgency::Behind => self.behind_running -= 1,
        }
    }
}

/// Runs a job on a thread of its own, behind those that came before where as many run as may.
fn submit(job: Job, urgency: Urgency) {
    exit::at_exit(rest);
    lock(&WORKERS).put(job, urgency);
}

/// Waits for what is being compiled, and forgets what is not begun. A compiler that is a library must not run when its memory is
/// given back, and one that is a process leaves its files. Called once or more.
fn rest() {
    let mut workers = lock(&WORKERS);
    workers.waiting.clear();
    workers.behind.clear();
    let wait = Duration::from_secs(EXIT_SECONDS);
    let _late = RESTED.wait_timeout_while(workers, wait, |workers| workers.running > 0);
}

fn work() {
    let mut workers = lock(&WORKERS);
    while let Some(pause) = workers.pause() {
        if !pause.is_zero() {
            workers = ASKED.wait_timeout(workers, pause).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let Some((job, urgency)) = workers.next() else { break };
        drop(workers);
        (job.run)();
        exit::at_exit(rest);
        workers = lock(&WORKERS);
        workers.done(urgency);
    }
    workers.running -= 1;
    RESTED.notify_all();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four may run at a time, two of them of those that others stand in for.
    fn job() -> Job {
        Job { coming: Arc::new(Coming::never()), run: Box::new(|| {}), most: 4, behind_most: 2 }
    }

    fn urgency(workers: &mut Workers) -> Option<Urgency> {
        workers.pause().filter(Duration::is_zero)?;
        workers.next().map(|(_, urgency)| urgency)
    }

    #[test]
    fn what_is_waited_for_comes_first_and_the_rest_never_takes_every_compiler() {
        let mut workers = Workers { running: 4, ..Workers::new() };
        for _ in 0..3 {
            workers.put(job(), Urgency::Behind);
        }
        workers.put(job(), Urgency::Now);
        assert_eq!(urgency(&mut workers), Some(Urgency::Now));
        assert_eq!(urgency(&mut workers), Some(Urgency::Behind));
        assert_eq!(urgency(&mut workers), Some(Urgency::Behind));
        assert_eq!(urgency(&mut workers), None, "two of them run");
        workers.put(job(), Urgency::Now);
        assert_eq!(urgency(&mut workers), Some(Urgency::Now));
        workers.done(Urgency::Behind);
        assert_eq!(urgency(&mut workers), Some(Urgency::Behind));
        assert_eq!(workers.running, 4, "no thread was started: as many run as may");
    }

    #[test]
    fn what_others_stand_in_for_begins_a_while_after_the_last_that_was_waited_for() {
        let mut workers = Workers { running: 4, ..Workers::new() };
        workers.put(job(), Urgency::Behind);
        workers.put(job(), Urgency::Now);
        assert_eq!(urgency(&mut workers), Some(Urgency::Now));
        workers.done(Urgency::Now);
        assert!(workers.pause().is_some_and(|pause| pause > Duration::ZERO && pause <= QUIET));
        workers.put(job(), Urgency::Now);
        assert_eq!(workers.pause(), Some(Duration::ZERO), "what is waited for begins at once");
        assert_eq!(urgency(&mut workers), Some(Urgency::Now));
        workers.waited_for = Instant::now().checked_sub(QUIET);
        assert_eq!(urgency(&mut workers), Some(Urgency::Behind));
        assert_eq!(workers.pause(), None);
    }
}
