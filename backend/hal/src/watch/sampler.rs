//! Times of some of the launches, while somebody watches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::KINDS;
use crate::command::StreamName;
use crate::driver::{Driver, DriverEvent};
use crate::profile::Category;

/// Launches that are timed between two questions: enough for shares to within a few percent, few enough for nobody to notice.
const WANTED: u64 = 256;
/// No more are taken, however many launches come after the last question.
const MOST: usize = 2 * WANTED as usize;

/// A launch between its two events.
struct Sample {
    begin: Box<dyn DriverEvent>,
    end: Box<dyn DriverEvent>,
    category: Category,
}

/// The event before a launch that is timed.
pub(crate) struct Started(Box<dyn DriverEvent>);

/// Which launches of a stream are timed, and those that were.
#[derive(Default)]
pub(crate) struct Sampler {
    /// Every so many launches one is timed; 0 while nobody watches.
    stride: AtomicU64,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Launches since the last one that was timed.
    passed: u64,
    samples: Vec<Sample>,
    spare: Vec<Box<dyn DriverEvent>>,
    /// Launches when somebody last asked.
    launches: u64,
    sampled_us: [f64; KINDS],
}

impl Sampler {
    /// Whether somebody watches.
    pub fn is_on(&self) -> bool {
        self.stride.load(Ordering::Relaxed) != 0
    }

    /// Before a command on the stream of the computations; `None` unless it is to be timed. What fails is not worth failing it for.
    pub fn begin(&self, driver: &dyn Driver) -> Option<Started> {
        let stride = self.stride.load(Ordering::Relaxed);
        if stride == 0 {
            return None;
        }
        let mut taken = self.lock();
        taken.passed += 1;
        if taken.passed < stride || taken.samples.len() >= MOST {
            return None;
        }
        taken.passed = 0;
        let spare = taken.spare.pop();
        drop(taken);
        driver.record_event(StreamName::Compute, spare).ok().map(Started)
    }

    /// After it.
    pub fn end(&self, driver: &dyn Driver, started: Option<Started>, category: Category) {
        let Some(Started(begin)) = started else { return };
        let spare = self.lock().spare.pop();
        if let Ok(end) = driver.record_event(StreamName::Compute, spare) {
            self.lock().samples.push(Sample { begin, end, category });
        }
    }

    /// Time in the launches that were timed so far, of each kind; from now on launches are timed again. `launches` is how many there were
    /// on the stream. Waits for those that were timed.
    pub fn ask(&self, launches: u64) -> [f64; KINDS] {
        let samples = {
            let mut taken = self.lock();
            let since = launches.saturating_sub(std::mem::replace(&mut taken.launches, launches));
            // Odd, so that launches that come in pairs are not all of one kind.
            self.stride.store((since / WANTED) | 1, Ordering::Relaxed);
            std::mem::take(&mut taken.samples)
        };
        for Sample { begin, end, category } in samples {
            let timed = end.synchronize().and_then(|()| end.elapsed_ms(&*begin));
            let mut taken = self.lock();
            if let Ok(milliseconds) = timed {
                taken.sampled_us[category as usize] += milliseconds * 1e3;
            }
            taken.spare.extend([begin, end]);
        }
        self.lock().sampled_us
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
