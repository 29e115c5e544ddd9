//! Events: what interrupts of the card wake in the host's threads.
//!
//! A set wakes everybody who waits at that moment. One that resets itself stays set only if nobody did.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::abi::{EVENT_MEMORY, Errno, EventData, MemoryException, WAIT_COMPLETE, WAIT_TIMEOUT};
use crate::lock;

/// `KFD_SIGNAL_EVENT_LIMIT`: slots of the page that a card writes events' numbers to.
const EVENTS_MAX: usize = 4096;
/// The timeout that never comes.
const FOREVER_MS: u32 = u32::MAX;

#[derive(Default)]
struct Event {
    kind: u32,
    auto_reset: bool,
    set: bool,
    /// How often it was set.
    sets: u64,
    /// Threads that wait for it.
    waiters: u32,
    exception: MemoryException,
}

/// The process's events.
#[derive(Default)]
pub struct Events {
    events: Mutex<BTreeMap<u32, Event>>,
    changed: Condvar,
}

impl Events {
    /// Makes one; its number, which is also its slot.
    ///
    /// # Errors
    /// `ENOSPC` if there are as many as there can be.
    pub fn create(&self, kind: u32, auto_reset: bool) -> Result<u32, Errno> {
        let mut events = lock(&self.events);
        let id = (1..EVENTS_MAX as u32).find(|id| !events.contains_key(id)).ok_or(Errno(libc::ENOSPC))?;
        events.insert(id, Event { kind, auto_reset, ..Event::default() });
        Ok(id)
    }

    /// Unmakes one; who waits for it is woken.
    ///
    /// # Errors
    /// `EINVAL` if there is none of this number, as of the others.
    pub fn destroy(&self, id: u32) -> Result<(), Errno> {
        lock(&self.events).remove(&id).ok_or(Errno(libc::EINVAL))?;
        self.changed.notify_all();
        Ok(())
    }

    /// Sets one.
    ///
    /// # Errors
    /// As [`destroy`](Events::destroy).
    pub fn set(&self, id: u32) -> Result<(), Errno> {
        let mut events = lock(&self.events);
        let event = events.get_mut(&id).ok_or(Errno(libc::EINVAL))?;
        event.sets += 1;
        event.set = !event.auto_reset || event.waiters == 0;
        self.changed.notify_all();
        Ok(())
    }

    /// Resets one.
    ///
    /// # Errors
    /// As [`destroy`](Events::destroy).
    pub fn reset(&self, id: u32) -> Result<(), Errno> {
        lock(&self.events).get_mut(&id).ok_or(Errno(libc::EINVAL))?.set = false;
        Ok(())
    }

    /// Sets the events of bad memory accesses; whether there is one.
    pub fn raise(&self, exception: MemoryException) -> bool {
        let mut events = lock(&self.events);
        let mut told = false;
        for event in events.values_mut().filter(|event| event.kind == EVENT_MEMORY) {
            (event.exception, event.set, told) = (exception, true, true);
            event.sets += 1;
        }
        self.changed.notify_all();
        told
    }

    /// Waits for one or all of some events, and tells of bad accesses in them.
    ///
    /// # Errors
    /// As [`destroy`](Events::destroy); `EIO` if one is unmade meanwhile.
    pub fn wait(&self, data: &mut [EventData], all: bool, timeout_ms: u32) -> Result<u32, Errno> {
        let until = (timeout_ms != FOREVER_MS).then(|| Instant::now() + Duration::from_millis(timeout_ms.into()));
        let mut events = lock(&self.events);
        let mut seen = Vec::with_capacity(data.len());
        for row in data.iter() {
            seen.push(events.get(&row.event_id).ok_or(Errno(libc::EINVAL))?.sets);
        }
        data.iter().for_each(|row| events.entry(row.event_id).or_default().waiters += 1);
        let outcome = loop {
            let is_up = |row: &EventData, seen: u64| events.get(&row.event_id).map(|e| e.set || e.sets != seen);
            let states: Option<Vec<bool>> = data.iter().zip(&seen).map(|(row, &seen)| is_up(row, seen)).collect();
            let Some(states) = states else { break Err(Errno(libc::EIO)) };
            let done = if all { states.iter().all(|&up| up) } else { states.iter().any(|&up| up) };
            if done {
                for (row, _) in data.iter_mut().zip(states).filter(|(_, up)| *up) {
                    let Some(event) = events.get_mut(&row.event_id) else { continue };
                    event.set &= !event.auto_reset;
                    if event.kind == EVENT_MEMORY {
                        row.memory_exception = event.exception;
                    }
                }
                break Ok(WAIT_COMPLETE);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Ok(WAIT_TIMEOUT);
            }
            // A wait without an end is cut into pieces, which costs nothing and needs no second call.
            let piece = left.unwrap_or(Duration::from_secs(3600));
            events = self.changed.wait_timeout(events, piece).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        };
        for row in data.iter() {
            if let Some(event) = events.get_mut(&row.event_id) {
                event.waiters = event.waiters.saturating_sub(1);
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ids: &[u32]) -> Vec<EventData> {
        ids.iter().map(|&event_id| EventData { event_id, ..EventData::default() }).collect()
    }

    #[test]
    fn an_event_that_resets_itself_is_waited_for_once() {
        let events = Events::default();
        let id = events.create(0, true).unwrap();
        events.set(id).unwrap();
        assert_eq!(events.wait(&mut rows(&[id]), true, 0), Ok(WAIT_COMPLETE));
        assert_eq!(events.wait(&mut rows(&[id]), true, 1), Ok(WAIT_TIMEOUT));
    }

    #[test]
    fn an_event_that_does_not_stays_set_until_it_is_reset() {
        let events = Events::default();
        let id = events.create(0, false).unwrap();
        events.set(id).unwrap();
        for _ in 0..2 {
            assert_eq!(events.wait(&mut rows(&[id]), true, 0), Ok(WAIT_COMPLETE));
        }
        events.reset(id).unwrap();
        assert_eq!(events.wait(&mut rows(&[id]), true, 0), Ok(WAIT_TIMEOUT));
    }

    #[test]
    fn all_of_two_events_take_both_and_one_takes_either() {
        let events = Events::default();
        let [a, b] = [(); 2].map(|()| events.create(0, false).unwrap());
        events.set(b).unwrap();
        assert_eq!(events.wait(&mut rows(&[a, b]), false, 0), Ok(WAIT_COMPLETE));
        assert_eq!(events.wait(&mut rows(&[a, b]), true, 0), Ok(WAIT_TIMEOUT));
        events.set(a).unwrap();
        assert_eq!(events.wait(&mut rows(&[a, b]), true, 0), Ok(WAIT_COMPLETE));
    }

    #[test]
    fn one_set_wakes_everybody_who_waits() {
        let events = Events::default();
        let id = events.create(0, true).unwrap();
        std::thread::scope(|scope| {
            let wait = || events.wait(&mut rows(&[id]), true, 10_000);
            let waits = [scope.spawn(wait), scope.spawn(wait)];
            while lock(&events.events)[&id].waiters < 2 {
                std::thread::yield_now();
            }
            events.set(id).unwrap();
            for wait in waits {
                assert_eq!(wait.join().unwrap(), Ok(WAIT_COMPLETE));
            }
        });
    }

    #[test]
    fn a_bad_access_comes_with_its_address() {
        let events = Events::default();
        assert!(!events.raise(MemoryException::default()), "nobody has asked for it");
        let id = events.create(EVENT_MEMORY, false).unwrap();
        assert!(events.raise(MemoryException { va: 0x1234_5000, gpu_id: 7, ..MemoryException::default() }));
        let mut data = rows(&[id]);
        assert_eq!(events.wait(&mut data, true, 0), Ok(WAIT_COMPLETE));
        assert_eq!((data[0].memory_exception.va, data[0].memory_exception.gpu_id), (0x1234_5000, 7));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let events = Events::default();
        assert_eq!(events.set(3), Err(Errno(libc::EINVAL)));
        assert_eq!(events.wait(&mut rows(&[3]), true, 0), Err(Errno(libc::EINVAL)));
    }
}
