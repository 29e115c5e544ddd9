//! What becomes of two answers of a process: launches a second and shares.

use std::collections::VecDeque;
use std::time::Instant;

use rocfire_hal::watch::{KINDS, Process, Watched};

/// Rates that are kept of a device, for its curve.
const KEPT: usize = 600;

/// A device of a process, as it is shown.
pub struct Row {
    /// The process's number.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// The newest answer.
    pub now: Watched,
    /// Launches a second between looks, the newest last.
    pub rates: VecDeque<f64>,
    /// Launches since the look before, of each kind.
    pub launches: [u64; KINDS],
    /// Shares of the time in launches since the look before; `None` where nothing was timed.
    pub time_shares: Option<[f64; KINDS]>,
    at: Instant,
}

impl Row {
    fn new(process: &Process, now: &Watched, at: Instant) -> Row {
        let (pid, program, now) = (process.pid, process.program.clone(), now.clone());
        Row { pid, program, now, rates: VecDeque::new(), launches: [0; KINDS], time_shares: None, at }
    }

    /// Launches a second; `None` before the second look.
    pub fn rate(&self) -> Option<f64> {
        self.rates.back().copied()
    }

    /// Shares of what is known: of the time if anything was timed, else of the number of launches. `None` if nothing was launched.
    pub fn shares(&self) -> Option<[f64; KINDS]> {
        self.time_shares.or_else(|| shares(self.launches.map(|launches| launches as f64)))
    }

    fn update(&mut self, now: &Watched, at: Instant) {
        let seconds = at.saturating_duration_since(self.at).as_secs_f64().max(1e-3);
        let since = |before: u64, now: u64| now.saturating_sub(before);
        for kind in 0..KINDS {
            self.launches[kind] = since(self.now.launches[kind], now.launches[kind]);
        }
        let timed: [f64; KINDS] = std::array::from_fn(|kind| now.sampled_us[kind] - self.now.sampled_us[kind]);
        self.time_shares = shares(timed.map(|us| us.max(0.0)));
        self.rates.push_back(self.launches.iter().sum::<u64>() as f64 / seconds);
        if self.rates.len() > KEPT {
            self.rates.pop_front();
        }
        (self.now, self.at) = (now.clone(), at);
    }
}

fn shares(parts: [f64; KINDS]) -> Option<[f64; KINDS]> {
    let all: f64 = parts.iter().sum();
    (all > 0.0).then(|| parts.map(|part| part / all))
}

/// Every device that answers.
#[derive(Default)]
pub struct Rates {
    /// By process, and within it in the order in which they were opened.
    pub rows: Vec<Row>,
}

impl Rates {
    /// Takes in what was answered at a time. Devices that do not answer are gone.
    pub fn update(&mut self, processes: &[Process], at: Instant) {
        let mut before = std::mem::take(&mut self.rows);
        for process in processes {
            for now in &process.devices {
                // A process may have a device open twice: the first of them is the first again.
                let same = |row: &Row| row.pid == process.pid && row.program == process.program && row.now.id == now.id;
                let row = match before.iter().position(same) {
                    Some(at_before) => {
                        let mut row = before.remove(at_before);
                        row.update(now, at);
                        row
                    }
                    None => Row::new(process, now, at),
                };
                self.rows.push(row);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    /// A process with a device that has launched so much.
    pub fn process(pid: u32, launches: [u64; KINDS], sampled_us: [f64; KINDS]) -> Process {
        let (id, name) = ("hip:0".to_owned(), "Radeon".to_owned());
        let mut device = Watched { id, name, launches, sampled_us, memory_bytes: 16 << 30, ..Watched::default() };
        device.memory.live_bytes = 1 << 30;
        device.memory.reserved_bytes = 2 << 30;
        device.memory.peak_bytes = 3 << 29;
        (device.compiles.compiled, device.compiles.packed, device.compiles.cached) = (3, 1, 6);
        device.compiling = vec![("gemm".to_owned(), Duration::from_millis(1250))];
        Process { pid, program: "demo".to_owned(), uptime: Duration::from_secs(1), devices: vec![device] }
    }

    #[test]
    fn rates_and_shares_are_of_what_came_between_two_looks() {
        let (mut rates, begun) = (Rates::default(), Instant::now());
        rates.update(&[process(1, [100, 0, 0, 0], [9.0, 0.0, 0.0, 0.0])], begun);
        assert_eq!((rates.rows[0].rate(), rates.rows[0].shares()), (None, None));
        rates.update(&[process(1, [110, 0, 30, 0], [9.0, 0.0, 0.0, 0.0])], begun + Duration::from_secs(2));
        assert_eq!(rates.rows[0].rate(), Some(20.0));
        assert_eq!(rates.rows[0].shares(), Some([0.25, 0.0, 0.75, 0.0]), "by number where nothing was timed");
        rates.update(&[process(1, [110, 0, 31, 0], [12.0, 0.0, 1.0, 0.0])], begun + Duration::from_secs(3));
        assert_eq!(rates.rows[0].shares(), Some([0.75, 0.0, 0.25, 0.0]), "by time where something was");
        rates.update(&[process(1, [110, 0, 31, 0], [12.0, 0.0, 1.0, 0.0])], begun + Duration::from_secs(4));
        assert_eq!((rates.rows[0].rate(), rates.rows[0].shares()), (Some(0.0), None));
    }

    #[test]
    fn who_does_not_answer_is_gone_and_who_comes_anew_begins_anew() {
        let (mut rates, at) = (Rates::default(), Instant::now());
        let (one, two) = (process(1, [5, 0, 0, 0], [0.0; KINDS]), process(2, [7, 0, 0, 0], [0.0; KINDS]));
        rates.update(&[one.clone(), two.clone()], at);
        rates.update(std::slice::from_ref(&two), at + Duration::from_secs(1));
        assert_eq!(rates.rows.iter().map(|row| (row.pid, row.rates.len())).collect::<Vec<_>>(), [(2, 1)]);
        // A number that was given to another process: what it has launched is its own.
        let other = Process { program: "other".to_owned(), ..process(2, [1, 0, 0, 0], [0.0; KINDS]) };
        rates.update(&[one, other], at + Duration::from_secs(2));
        assert!(rates.rows.iter().all(|row| row.rate().is_none()));
    }
}
