//! Timed profiles: every launch and copy of a stream between two events of its device.
//!
//! [`Device::start_profile`](crate::Device::start_profile) begins, [`Device::take_profile`](crate::Device::take_profile)
//! waits and hands out a [`Timeline`]: what ran when, for how long, on what shapes. With `ROCFIRE_PROFILE=timed:FILE` every
//! device that the process opens is timed from its first launch on, and its launches go to the file as a Chrome trace
//! whenever somebody waits for it, so that a program that ends without ceremony loses no more than what nobody waited for.
//! `rocfire profile -- COMMAND` sets that and prints the summary.
//!
//! Events lie around each launch, so what a launch takes includes the event's own resolution, half a microsecond on the
//! cards that were tried, and launches cannot overlap. Large copies from the host run on a stream of their own, and beside
//! launches: each has the stream that it was timed on, and shares are those of the computations' stream. On an emulated device the times are the host's: they say which
//! kernels the emulator spends its time in and nothing of a card.

mod recorder;
mod report;
mod trace_file;

pub(crate) use recorder::{Recorder, StartEvent};
pub use report::{KernelTime, chrome_trace, kernels, read_trace, summary};

use crate::StreamName;

/// What kind of work a launch is, for the shares of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Matrix products, and convolutions, which are matrix products.
    Gemm,
    /// Attention.
    Attention,
    /// Elementwise chains, row reductions, normalisation.
    Elementwise,
    /// Everything else: moving elements by index, sorting, random numbers, copies.
    #[default]
    Other,
}

impl Category {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Category; 4] = [Category::Gemm, Category::Attention, Category::Elementwise, Category::Other];

    /// Its name in tables and traces.
    pub fn name(self) -> &'static str {
        match self {
            Category::Gemm => "GEMM",
            Category::Attention => "attention",
            Category::Elementwise => "elementwise and normalisation",
            Category::Other => "other",
        }
    }
}

/// What a launch is about, as its launcher knows it. Only profiles look at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work<'a> {
    /// Its kind.
    pub category: Category,
    /// The extents that decide what it takes; `[batch, M, N, K]` for a product, else the shape it iterates over.
    pub shape: &'a [usize],
    /// Bytes that it must read and write at least; 0 where the launcher does not say.
    pub bytes: u64,
    /// Multiplications and additions; of a fused chain its operators, each once an element. 0 where the launcher does not say.
    pub flops: u64,
}

/// One launch or copy, timed.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedLaunch {
    /// The operator.
    pub operator: String,
    /// The kernel, or the direction of a copy.
    pub kernel: String,
    /// Where it ran.
    pub stream: StreamName,
    /// Its kind.
    pub category: Category,
    /// As [`Work::shape`].
    pub shape: Vec<usize>,
    /// As [`Work::bytes`].
    pub bytes: u64,
    /// As [`Work::flops`].
    pub flops: u64,
    /// Workgroups; zeros for a copy.
    pub grid: [u32; 3],
    /// Threads of a workgroup; zeros for a copy.
    pub block: [u32; 3],
    /// When it began, microseconds from the start of the profile.
    pub start_us: f64,
    /// How long it took, microseconds.
    pub duration_us: f64,
}

/// What a device did, launch by launch, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The device's name.
    pub device: String,
    /// Its architecture's name.
    pub arch: String,
    /// The launches and copies.
    pub launches: Vec<TimedLaunch>,
}

impl Timeline {
    /// From the beginning of the first to the end of the last, microseconds.
    pub fn span_us(&self) -> f64 {
        let (Some(first), Some(last)) = (self.launches.first(), self.launches.last()) else { return 0.0 };
        last.start_us + last.duration_us - first.start_us
    }

    /// Time in launches of one kind on the stream of the computations, microseconds.
    pub fn busy_us(&self, category: Category) -> f64 {
        self.launches
            .iter()
            .filter(|launch| launch.category == category && launch.stream == StreamName::Compute)
            .fold(0.0, |sum, launch| sum + launch.duration_us)
    }
}

#[cfg(test)]
mod tests;
