//! What running processes do, for `rocfire top`: launches by kind, memory, kernels that were and are compiled.
//!
//! A process that opens a device listens on a socket in its folder of compiled kernels, `watch/PID-TIME.sock`. One thread sleeps in
//! `accept`; whoever connects is told a [`Process`] as one line of JSON, and the thread sleeps again. What is told is counted anyway, an
//! addition a launch, so that nothing is done while nobody asks. Counts go up from the opening of the device: rates are differences,
//! and the reader's to take.
//!
//! Times are the exception: of the launches since somebody last asked, some hundreds are put between two events
//! (`sampler.rs`), evenly spread by number, so that their shares are those of all. Launches are joined as ever, and nobody waits
//! for the device but the thread that answers.
//!
//! `ROCFIRE_WATCH=0`, a folder that keeps nothing (`ROCFIRE_CACHE_MB=0`) and systems without such sockets: there is no thread and no
//! socket. A process that ended leaves its socket behind; it is removed by the next reader, or the next process that opens a device. A
//! process made by `fork` has a socket of its own once it opens a device itself.

mod sampler;
#[cfg(unix)]
mod server;

pub(crate) use sampler::Sampler;
#[cfg(unix)]
pub(crate) use server::watch;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::MemoryStats;
use crate::compile::CompileStats;

/// Kinds of work, in the order of [`Category::ALL`](crate::profile::Category::ALL).
pub const KINDS: usize = crate::profile::Category::ALL.len();

/// What a reader does not understand is refused by this number.
const FORMAT: u64 = 1;
/// The folder of the sockets in that of compiled kernels.
#[cfg(unix)]
const FOLDER: &str = "watch";

/// A process, as it was when it was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its program, without folders.
    pub program: String,
    /// Since it opened its first device.
    pub uptime: Duration,
    /// The devices that it has open, those that run nothing aside.
    pub devices: Vec<Watched>,
}

/// A device of a process. Counts are since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// As `ROCFIRE_DEVICE` names it.
    pub id: String,
    /// What its driver calls it.
    pub name: String,
    /// Launches of each kind; several that were joined are one.
    pub launches: [u64; KINDS],
    /// Time in launches that were timed while somebody asked, microseconds of each kind: for shares.
    pub sampled_us: [f64; KINDS],
    /// What its pool holds.
    pub memory: MemoryStats,
    /// What the device has, or the pool may have, bytes.
    pub memory_bytes: u64,
    /// Where its kernels came from.
    pub compiles: CompileStats,
    /// Kernels that are being compiled, and for how long already.
    pub compiling: Vec<(String, Duration)>,
}

impl Process {
    /// One line of JSON.
    #[cfg(unix)]
    fn line(&self) -> String {
        let devices: Vec<Value> = self.devices.iter().map(Watched::json).collect();
        let (pid, program, seconds) = (self.pid, &self.program, self.uptime.as_secs_f64());
        let process = json!({
            "rocfire": FORMAT, "pid": pid, "program": program, "seconds": seconds, "devices": devices,
        });
        process.to_string() + "\n"
    }

    /// What [`Process::line`] has written; `None` for anything else.
    #[cfg(unix)]
    fn parse(line: &str) -> Option<Process> {
        let value: Value = serde_json::from_str(line).ok()?;
        (value["rocfire"].as_u64() == Some(FORMAT)).then_some(())?;
        Some(Process {
            pid: value["pid"].as_u64()?.try_into().ok()?,
            program: value["program"].as_str()?.to_owned(),
            uptime: seconds(&value["seconds"])?,
            devices: value["devices"].as_array()?.iter().map(Watched::parse).collect::<Option<_>>()?,
        })
    }
}

#[cfg(unix)]
fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}

#[cfg(unix)]
impl Watched {
    fn json(&self) -> Value {
        let MemoryStats { live_bytes, reserved_bytes, peak_bytes, blocks, live_blocks, padding_bytes } = self.memory;
        let CompileStats { compiled, packed, cached, compiling } = self.compiles;
        let running = self.compiling.iter().map(|(name, since)| json!([name, since.as_secs_f64()]));
        json!({
            "id": self.id, "name": self.name, "launches": self.launches, "sampled_us": self.sampled_us,
            "memory": [live_bytes, reserved_bytes, peak_bytes, blocks, live_blocks, padding_bytes],
            "memory_bytes": self.memory_bytes, "kernels": [compiled, packed, cached],
            "compiling_seconds": compiling.as_secs_f64(), "compiling": running.collect::<Vec<_>>(),
        })
    }

    fn parse(value: &Value) -> Option<Watched> {
        let [live_bytes, reserved_bytes, peak_bytes, blocks, live_blocks, padding_bytes] = counts(&value["memory"])?;
        let [compiled, packed, cached] = counts(&value["kernels"])?;
        let running = value["compiling"].as_array()?.iter();
        let sampled: Vec<f64> = value["sampled_us"].as_array()?.iter().filter_map(Value::as_f64).collect();
        Some(Watched {
            id: value["id"].as_str()?.to_owned(),
            name: value["name"].as_str()?.to_owned(),
            launches: counts(&value["launches"])?,
            sampled_us: sampled.try_into().ok()?,
            memory: MemoryStats { live_bytes, reserved_bytes, peak_bytes, blocks, live_blocks, padding_bytes },
            memory_bytes: value["memory_bytes"].as_u64()?,
            compiles: CompileStats { compiled, packed, cached, compiling: seconds(&value["compiling_seconds"])? },
            compiling: running
                .map(|one| Some((one[0].as_str()?.to_owned(), seconds(&one[1])?)))
                .collect::<Option<_>>()?,
        })
    }
}

#[cfg(unix)]
fn counts<const N: usize>(value: &Value) -> Option<[u64; N]> {
    let counts: Vec<u64> = value.as_array()?.iter().filter_map(Value::as_u64).collect();
    counts.try_into().ok()
}

/// The processes with a socket in a folder of compiled kernels ([`Config::cache_dir`](crate::Config::cache_dir)), by number. One that
/// does not answer in two seconds, because it was stopped or its device hangs, is left out.
pub fn processes(cache_dir: &Path) -> Vec<Process> {
    #[cfg(unix)]
    return server::processes(cache_dir);
    #[cfg(not(unix))]
    {
        let _ = cache_dir;
        Vec::new()
    }
}

#[cfg(all(test, unix))]
mod tests;
