//! A launch: arguments laid out, workgroups handed to threads, counts and the first fault collected.
//!
//! # Order and threads
//!
//! Workgroups are independent, and run in parallel unless the kernel has an instruction that shows their order (an atomic
//! on device memory that returns a value, or a float one): then they run one after the other, x fastest. Either way the
//! results are the same on any number of threads. Of several faults the one of the lowest workgroup is reported.
//!
//! A workgroup that waits for what another one writes is set aside until the others have run. The caller's thread then takes it up
//! again. As on a GPU, no more of them wait at a time than the device has room for.
//!
//! When none of those that wait gets on, nobody is left who could write what they wait for, and the launch ends with that fault. A
//! thread of the host or another launch may still write device memory. A wait for that ends the launch only after the time of
//! [`Options::step_limit`](crate::Options::step_limit), where the host has other threads.
//!
//! The caller's thread starts alone, and others are woken only if after [`ALONE`] there is work left: a small launch must
//! not pay for wake-ups.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::error::{Error, Fault};
use crate::gpu::Gpu;
use crate::group::{Setup, Worker};
use crate::host_threads;
use crate::instrument::Instrument;
use crate::memory::Memory;
use crate::metadata::Hidden;
use crate::model::occupancy::occupancy;
use crate::module::Kernel;
use crate::park::{Halt, Parked};
use crate::step::{PRIVATE_APERTURE, SHARED_APERTURE};

/// How long the caller's thread works alone: a few times what waking a thread costs.
const ALONE: Duration = Duration::from_micros(30);

/// How long those that wait for the host or for another launch are left alone.
const NAP: Duration = Duration::from_millis(1);

/// Most workgroups that a thread takes at a time.
const CHUNK_MAX: u64 = 64;

/// Work-items that a workgroup can have on any GPU.
const BLOCK_MAX: u32 = 1024;

/// Size of the dispatch packet that follows the arguments.
const PACKET_BYTES: usize = 64;

/// Scratch added for a kernel with calls whose depth the compiler does not know.
const DYNAMIC_STACK_BYTES: u32 = 16 << 10;

/// What to launch a kernel with.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Workgroups in x, y and z. With a zero among them nothing runs.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    pub block: [u32; 3],
    /// LDS on top of the kernel's static LDS.
    pub dynamic_lds_bytes: u32,
    /// The explicit arguments, laid out as the kernel declares them. Padding after the last may be there or not, and what
    /// is missing at the end reads as zero: launchers of hand-written kernels leave out arguments that these do not read.
    pub kernarg: &'a [u8],
}

/// What a dispatch packet of HSA's says, with its grid in work-items.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// Work-items in x, y and z. With a zero among them nothing runs.
    pub grid_items: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    pub block: [u32; 3],
    /// LDS of a workgroup, static and dynamic.
    pub lds_bytes: u32,
    /// Scratch of a lane.
    pub scratch_bytes: u32,
    /// Device address of the arguments.
    pub kernarg_ptr: u64,
    /// Device address of the packet, 64 bytes.
    pub packet_ptr: u64,
}

/// Workgroups of a launch.
#[derive(Clone, Copy)]
struct Groups {
    /// How many there are.
    count: u64,
    /// How many the device has room for at a time.
    resident: u64,
}

/// Checks the numbers of a launch, whose workgroups may have so many work-items.
fn check(gpu: &Gpu, kernel: &Kernel, launch: &Launch<'_>, max_items: u32) -> Result<Groups, Error> {
    let bad = |reason: String| Error::BadLaunch { kernel: kernel.name().to_owned(), reason };
    let info = gpu.arch().info();
    let [gx, gy, gz] = launch.grid.map(u64::from);
    let groups = gx.checked_mul(gy).and_then(|n| n.checked_mul(gz)).filter(|&n| n < 1 << 48);
    let groups = groups.ok_or_else(|| bad(format!("a grid of {:?} workgroups", launch.grid)))?;
    let items = launch.block.iter().fold(1u64, |product, &n| product.saturating_mul(u64::from(n)));
    let max_items = u64::from(max_items.min(BLOCK_MAX));
    if items == 0 || items > max_items {
        return Err(bad(format!("a workgroup of {:?}, and it was compiled for at most {max_items}", launch.block)));
    }
    let lds_bytes = u64::from(kernel.lds_bytes()) + u64::from(launch.dynamic_lds_bytes);
    if lds_bytes > u64::from(info.lds_bytes) {
        return Err(bad(format!("{lds_bytes} bytes of LDS, and {} has {}", info.name, info.lds_bytes)));
    }
    if kernel.info.descriptor.workgroup_id_in_ttmp && gy.max(gz) > 1 << 16 {
        return Err(bad(format!("a grid of {:?} workgroups, and {} numbers 65536 in y and z", launch.grid, info.name)));
    }
    let explicit = kernel.explicit_kernarg_bytes() as usize;
    if launch.kernarg.len() > explicit.next_multiple_of(16) {
        return Err(bad(format!("{} bytes of arguments, and it takes {explicit}", launch.kernarg.len())));
    }
    let mut resident = u64::MAX;
    if let Some(unit) = &info.unit {
        let waves_per_group = (items as u32).div_ceil(kernel.wave_size());
        let occupancy = occupancy(unit, &kernel.resources(waves_per_group, lds_bytes as u32));
        if occupancy.groups_per_unit == 0 {
            let what = occupancy.limit.name();
            return Err(bad(format!("a workgroup of {waves_per_group} waves has not enough {what} on {}", info.name)));
        }
        if let Some(card) = &info.card {
            resident = u64::from(card.compute_units / unit.compute_units) * u64::from(occupancy.groups_per_unit);
        }
    }
    Ok(Groups { count: groups, resident })
}

/// Where a launch's arguments are.
struct Placed {
    kernarg_ptr: u64,
    packet_ptr: u64,
    kernarg: Vec<u8>,
    scratch_bytes: u32,
}

/// Lays out the arguments in memory of its own, which is to be freed.
fn place(gpu: &Gpu, kernel: &Kernel, launch: &Launch<'_>) -> Result<Placed, Error> {
    let kernarg = kernel_arguments(kernel, launch);
    let kernarg_ptr = gpu.memory().allocate_with(kernarg.len() as u64, false)?;
    let window = gpu.memory().host("launch", kernarg_ptr, kernarg.len() as u64)?;
    window.write(kernarg_ptr, &kernarg);
    let packet_ptr = kernarg_ptr + (kernarg.len() - PACKET_BYTES) as u64;
    Ok(Placed { kernarg_ptr, packet_ptr, kernarg, scratch_bytes: kernel.info.descriptor.scratch_bytes })
}

/// Works out what all workgroups share.
fn prepare(kernel: &Kernel, launch: &Launch<'_>, placed: Placed, groups: u64, observed: bool) -> Setup {
    let lds_bytes = kernel.lds_bytes() + launch.dynamic_lds_bytes;
    let items: u32 = launch.block.iter().product();
    let descriptor = &kernel.info.descriptor;
    let stack = if descriptor.dynamic_stack { DYNAMIC_STACK_BYTES } else { 0 };
    let (program, entry) = if observed {
        let program = kernel.module.complete_program().clone();
        let entry = program.step_at_address(kernel.info.entry_address);
        (program, entry.expect("every step of the module's program is in the complete one"))
    } else {
        (kernel.module.program.clone(), kernel.info.entry)
    };
    Setup {
        kernel: kernel.clone(),
        program,
        entry,
        observed,
        grid: launch.grid,
        block: launch.block,
        groups,
        items,
        lanes: kernel.wave_size(),
        lds_bytes: lds_bytes as usize,
        scratch_bytes: placed.scratch_bytes.saturating_add(stack),
        kernarg_ptr: placed.kernarg_ptr,
        packet_ptr: placed.packet_ptr,
        kernarg: placed.kernarg,
    }
}

/// The explicit arguments, the hidden ones, and the dispatch packet.
fn kernel_arguments(kernel: &Kernel, launch: &Launch<'_>) -> Vec<u8> {
    let explicit = kernel.explicit_kernarg_bytes() as usize;
    let packet_at = (kernel.kernarg_bytes() as usize).max(explicit).next_multiple_of(PACKET_BYTES);
    let mut bytes = vec![0; packet_at + PACKET_BYTES];
    let given = explicit.min(launch.kernarg.len());
    bytes[..given].copy_from_slice(&launch.kernarg[..given]);
    let dimensions = launch.grid.iter().zip(&launch.block).rposition(|(&g, &b)| u64::from(g) * u64::from(b) > 1);
    let dimensions = dimensions.map_or(1, |last| last as u32 + 1);
    for arg in &kernel.info.metadata.hidden {
        let value: u32 = match arg.what {
            Hidden::BlockCount(axis) => launch.grid[axis],
            Hidden::GroupSize(axis) => launch.block[axis],
            Hidden::Remainder(_) | Hidden::Zero => 0,
            Hidden::GridDims => dimensions,
            Hidden::DynamicLdsBytes => launch.dynamic_lds_bytes,
            Hidden::PrivateBase => PRIVATE_APERTURE,
            Hidden::SharedBase => SHARED_APERTURE,
        };
        let width = arg.bytes.min(4);
        if let Some(place) = bytes.get_mut(arg.offset_bytes..arg.offset_bytes + width) {
            place.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
    let packet = &mut bytes[packet_at..];
    packet[2..4].copy_from_slice(&(dimensions as u16).to_le_bytes());
    for axis in 0..3 {
        packet[4 + 2 * axis..][..2].copy_from_slice(&(launch.block[axis] as u16).to_le_bytes());
        let items = launch.grid[axis].wrapping_mul(launch.block[axis]);
        packet[12 + 4 * axis..][..4].copy_from_slice(&items.to_le_bytes());
    }
    let lds_bytes = kernel.lds_bytes() + launch.dynamic_lds_bytes;
    packet[24..28].copy_from_slice(&kernel.info.descriptor.scratch_bytes.to_le_bytes());
    packet[28..32].copy_from_slice(&lds_bytes.to_le_bytes());
    bytes
}

/// What the threads of a launch share.
struct Shared<'a> {
    gpu: &'a Gpu,
    setup: &'a Setup,
    instruments: &'a [&'a dyn Instrument],
    /// The next workgroup that nobody has taken.
    next: AtomicU64,
    /// No workgroup from this one on needs to run: the lowest that has faulted.
    stop: AtomicU64,
    /// Workgroups that wait for others, the one that has waited longest first.
    parked: Mutex<VecDeque<Parked>>,
    /// How many may wait, and still leave room for one that runs.
    resident: u64,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    counters: Counters,
    fault: Option<(u64, Box<Fault>)>,
}

/// Runs a launch to its end, in the instrumented loop if there are instruments or checks.
pub(crate) fn run(
    gpu: &Gpu,
    kernel: &Kernel,
    launch: &Launch<'_>,
    instruments: &[&dyn Instrument],
) -> Result<Counters, Error> {
    let groups = check(gpu, kernel, launch, kernel.max_workgroup_size())?;
    if groups.count == 0 {
        return Ok(Counters::default());
    }
    let placed = place(gpu, kernel, launch)?;
    let kernarg_ptr = placed.kernarg_ptr;
    let outcome = run_placed(gpu, kernel, launch, (groups, placed), instruments);
    free(gpu.memory(), kernarg_ptr);
    outcome
}

/// Runs what a dispatch packet asks for.
pub(crate) fn dispatch(gpu: &Gpu, kernel: &Kernel, dispatch: &Dispatch) -> Result<Counters, Error> {
    let bad = |reason: String| Error::BadLaunch { kernel: kernel.name().to_owned(), reason };
    let Dispatch { grid_items, block, lds_bytes, scratch_bytes, kernarg_ptr, packet_ptr } = *dispatch;
    let whole = grid_items.iter().zip(&block).all(|(items, &of)| of > 0 && items.is_multiple_of(of));
    if !whole {
        return Err(bad(format!("a grid of {grid_items:?} work-items, not whole workgroups of {block:?}")));
    }
    let dynamic_lds_bytes = lds_bytes.checked_sub(kernel.lds_bytes());
    let dynamic_lds_bytes =
        dynamic_lds_bytes.ok_or_else(|| bad(format!("{lds_bytes} bytes of LDS, and it has {}", kernel.lds_bytes())))?;
    let grid = std::array::from_fn(|axis| grid_items[axis] / block[axis]);
    let launch = Launch { grid, block, dynamic_lds_bytes, kernarg: &[] };
    // What a kernel was compiled for a card does not know, and AMD's own copy kernels are launched with more.
    let groups = check(gpu, kernel, &launch, BLOCK_MAX)?;
    if groups.count == 0 {
        return Ok(Counters::default());
    }
    // Only what is preloaded into registers is looked at here; kernels read the rest from memory themselves.
    let (first, count) = kernel.info.descriptor.preload;
    let mut kernarg = vec![0; 4 * usize::from(first + count)];
    if !kernarg.is_empty() {
        let window = gpu.memory().host("dispatch", kernarg_ptr, kernarg.len() as u64)?;
        window.read(kernarg_ptr, &mut kernarg);
    }
    let scratch_bytes = scratch_bytes.max(kernel.info.descriptor.scratch_bytes);
    let placed = Placed { kernarg_ptr, packet_ptr, kernarg, scratch_bytes };
    run_placed(gpu, kernel, &launch, (groups, placed), &[])
}

fn run_placed(
    gpu: &Gpu,
    kernel: &Kernel,
    launch: &Launch<'_>,
    (Groups { count: groups, resident }, placed): (Groups, Placed),
    instruments: &[&dyn Instrument],
) -> Result<Counters, Error> {
    let checker = gpu.checker();
    let mut instruments = instruments.to_vec();
    instruments.extend(checker.as_ref().map(|checker| checker as &dyn Instrument));
    let instruments = instruments.as_slice();
    let setup = prepare(kernel, launch, placed, groups, !instruments.is_empty());
    let shared = Shared {
        gpu,
        setup: &setup,
        instruments,
        next: AtomicU64::new(0),
        stop: AtomicU64::new(groups),
        parked: Mutex::default(),
        resident,
        outcome: Mutex::new(Outcome::default()),
    };
    let serial = kernel.info.ordered || instruments.iter().any(|instrument| instrument.serial());
    let threads = if serial { 1 } else { (gpu.threads() as u64).min(groups) };
    let mut worker = gpu.take_worker(&setup, instruments);
    let started = Instant::now();
    if threads <= 1 {
        work(&shared, &mut worker, 1, None);
    } else {
        work(&shared, &mut worker, 1, Some(started + ALONE));
        let left = groups.saturating_sub(shared.next.load(Ordering::Relaxed));
        if left > 0 {
            // Sixteen takes a thread even out workgroups of different length.
            let chunk = (left / (threads * 16)).clamp(1, CHUNK_MAX);
            gpu.in_pool(|scope| {
                for _ in 1..threads.min(left) {
                    scope.spawn(|_| {
                        let mut worker = gpu.take_worker(&setup, instruments);
                        work(&shared, &mut worker, chunk, None);
                        worker.end();
                        shared.collect(&worker);
                        gpu.give_worker(worker);
                    });
                }
                work(&shared, &mut worker, chunk, None);
            });
        }
    }
    work_off(&shared, &mut worker);
    worker.end();
    shared.collect(&worker);
    gpu.give_worker(worker);
    let mut outcome = shared.outcome.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    match outcome.fault {
        Some((_, fault)) => Err(Error::Fault(fault)),
        None => {
            outcome.counters.workgroups = groups;
            outcome.counters.waves = groups * u64::from(setup.waves());
            Ok(outcome.counters)
        }
    }
}

fn free(memory: &Memory, kernarg_ptr: u64) {
    if let Err(error) = memory.free(kernarg_ptr) {
        tracing::error!(%error, "a launch's arguments were not there to be freed");
    }
}

/// Takes workgroups and runs them, until there are no more, or until the time given, or until those that wait leave no room
/// for another.
fn work(shared: &Shared<'_>, worker: &mut Worker, chunk: u64, until: Option<Instant>) {
    let groups = shared.setup.groups;
    loop {
        let first = shared.next.fetch_add(chunk, Ordering::Relaxed);
        if first >= groups {
            return;
        }
        let mut some_wait = false;
        for group in first..(first + chunk).min(groups) {
            if group >= shared.stop.load(Ordering::Relaxed) {
                return;
            }
            if !shared.instruments.iter().all(|instrument| instrument.runs(shared.setup, group)) {
                continue;
            }
            match worker.run_group(shared.setup, group) {
                Ok(Halt::Ended) => {}
                Ok(Halt::Parked(parked)) => {
                    shared.park(*parked);
                    some_wait = true;
                }
                Err(fault) => return shared.fail(group, fault),
            }
        }
        if some_wait && shared.is_full() {
            return;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return;
        }
    }
}

/// Runs what is left when nobody else does: the workgroups that wait, in turn, and those that there was no room for.
fn work_off(shared: &Shared<'_>, worker: &mut Worker) {
    let groups = shared.setup.groups;
    // Workgroups that were looked at since one of them got on.
    let mut idle = 0;
    // When none did first.
    let mut stuck: Option<Instant> = None;
    // Whether one of them has read device memory since: the host, or another launch, may write there at any time.
    let mut reads = false;
    // Of a host that has no thread but the one that is here nobody can.
    let mut host_may_write = None;
    while shared.stop.load(Ordering::Relaxed) == groups {
        if !shared.is_full() && shared.next.load(Ordering::Relaxed) < groups {
            work(shared, worker, 1, None);
            idle = 0;
            continue;
        }
        let Some(parked) = shared.take() else { return };
        let group = parked.place.group;
        let read = worker.device_bytes_read();
        let progressed = match worker.resume_group(shared.setup, parked) {
            Ok(Halt::Ended) => true,
            Ok(Halt::Parked(parked)) => {
                let progressed = parked.progressed;
                shared.park(*parked);
                progressed
            }
            Err(fault) => return shared.fail(group, fault),
        };
        idle = if progressed { 0 } else { idle + 1 };
        reads = !progressed && (reads || worker.device_bytes_read() != read);
        if progressed {
            stuck = None;
        } else if idle >= shared.waiting() {
            // Either all have begun, or there is no room for those that have not.
            let since = *stuck.get_or_insert_with(Instant::now);
            let may_be_written = reads && *host_may_write.get_or_insert_with(host_threads::are_others);
            if !may_be_written || since.elapsed() > shared.gpu.patience() {
                return shared.give_up(worker);
            }
            std::thread::sleep(NAP);
            idle = 0;
        }
    }
}

impl Shared<'_> {
    fn collect(&self, worker: &Worker) {
        let counters = worker.counters();
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).counters += counters;
    }

    fn fail(&self, group: u64, fault: Box<Fault>) {
        self.stop.fetch_min(group, Ordering::Relaxed);
        let mut outcome = self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if outcome.fault.as_ref().is_none_or(|(earlier, _)| group < *earlier) {
            outcome.fault = Some((group, fault));
        }
    }

    fn parked(&self) -> MutexGuard<'_, VecDeque<Parked>> {
        self.parked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn park(&self, parked: Parked) {
        self.parked().push_back(parked);
    }

    fn take(&self) -> Option<Parked> {
        self.parked().pop_front()
    }

    fn waiting(&self) -> usize {
        self.parked().len()
    }

    /// Whether those that wait leave no room for another one.
    fn is_full(&self) -> bool {
        self.waiting() as u64 >= self.resident
    }

    /// None of those that wait gets on: the lowest is told of.
    fn give_up(&self, worker: &mut Worker) {
        let mut parked = std::mem::take(&mut *self.parked());
        let others = parked.len() as u64 - 1;
        let without_room = self.setup.groups.saturating_sub(self.next.load(Ordering::Relaxed));
        let lowest = parked.iter().enumerate().min_by_key(|(_, parked)| parked.place.group).map(|(i, _)| i);
        let Some(lowest) = lowest.and_then(|lowest| parked.remove(lowest)) else { return };
        let group = lowest.place.group;
        let fault = worker.waits_for_ever(self.setup, lowest, others, without_room);
        self.fail(group, fault);
    }
}
