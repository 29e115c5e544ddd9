//! The device: memory, modules, launches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocfire_arch::{Arch, Family};

use crate::check::{self, Checker, Checks};
use crate::counters::Counters;
use crate::env::Env;
use crate::error::Error;
use crate::group::{Schedule, Setup, Worker};
use crate::host_threads;
use crate::instrument::Instrument;
use crate::launch::{self, Dispatch, Launch};
use crate::memory::{Live, Memory};
use crate::module::{Kernel, Module};
use crate::profile::{self, Profile, Sample};
use crate::spin::{self, STEPS_PER_SECOND};
use crate::step::Level as CpuLevel;

/// How a device is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Host threads that a launch may use; `None`: as many as rayon's global pool has. Results do not depend on it.
    pub threads: Option<usize>,
    /// Bytes of device memory. Only what is written takes memory of the host.
    pub memory_bytes: u64,
    /// Instructions that a wave may run before it is taken to be in an endless loop: [`steps_of`](Options::steps_of) 20
    /// seconds.
    ///
    /// Instructions are counted and not the time, so that a program meets the same fate on every host. Only where they take
    /// 15 times as long as they should does the clock end it. A wait for LDS that nobody will write is found at once. One for
    /// device memory, which another thread of the host may write, ends after as many seconds, or at once in a process without one.
    pub step_limit: u64,
    /// Whether it is a fault if a wave ends while others of its workgroup wait at a barrier. HIP forbids it; the hardware
    /// lets the barrier pass, and some programs rely on that.
    pub strict_barriers: bool,
    /// Which wave of a workgroup runs when.
    pub schedule: Schedule,
    /// Checks besides those that always run. They take time: a launch with any of them runs in a slower loop.
    pub checks: Checks,
    /// Best CPU features to use, for measurements and to compare; a host that does not have them uses what it has.
    pub cpu: CpuLevel,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: None,
            memory_bytes: 8 << 30,
            step_limit: Options::steps_of(20),
            strict_barriers: true,
            schedule: Schedule::default(),
            checks: Checks::default(),
            cpu: CpuLevel::Avx512,
        }
    }
}

impl Options {
    /// The instructions of one wave that the emulator runs in so many seconds on a usual host.
    pub fn steps_of(seconds: u64) -> u64 {
        seconds.saturating_mul(STEPS_PER_SECOND)
    }
}

/// One emulated device. All calls may come from any thread; a launch returns when it is done.
pub struct Gpu {
    arch: Arch,
    options: Options,
    memory: Arc<Memory>,
    /// Threads of its own, if a number was asked for.
    pool: Option<rayon::ThreadPool>,
    /// Workers that no launch is using: making one costs more than a small launch.
    workers: Mutex<Vec<Worker>>,
    /// What checks keep between launches.
    checked: check::Kept,
}

impl Gpu {
    /// A device with empty memory.
    ///
    /// # Errors
    /// [`Error::UnsupportedArch`] for a family that is not executed.
    pub fn new(arch: Arch, options: Options) -> Result<Gpu, Error> {
        match arch.info().family {
            Family::Gcn5
            | Family::Cdna1
            | Family::Cdna2
            | Family::Cdna3
            | Family::Cdna4
            | Family::Rdna1
            | Family::Rdna2
            | Family::Rdna3
            | Family::Rdna35
            | Family::Rdna4 => {}
            Family::Gfx125 | Family::Ampere | Family::Ada | Family::Hopper => {
                return Err(Error::UnsupportedArch { arch });
            }
        }
        let pool = options.threads.filter(|&threads| threads > 1).and_then(|threads| {
            let pool = host_threads::counted_pool().num_threads(threads).build();
            pool.inspect_err(|error| tracing::warn!(%error, "no threads of its own; launches use the global pool")).ok()
        });
        let memory = Arc::new(match options.checks.unwritten {
            true => Memory::tracking(options.memory_bytes),
            false => Memory::new(options.memory_bytes),
        });
        Ok(Gpu { arch, options, memory, pool, workers: Mutex::new(Vec::new()), checked: check::Kept::default() })
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Allocates zeroed bytes; the address is a multiple of 4096, with a red zone after the last byte.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the device stays usable.
    pub fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        self.memory.allocate(bytes)
    }

    /// Allocates zeroed bytes that the host has too: the address is also the host's pointer. They take no device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the host has no more.
    pub fn allocate_shared(&self, bytes: u64) -> Result<u64, Error> {
        self.memory.allocate_shared(bytes)
    }

    /// Gives kernels bytes of the host's, at the address that the host has them at, until they are freed.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if a part of them is given already, or there are none.
    ///
    /// # Safety
    /// - The bytes are valid for reads and writes until [`free`](Gpu::free) has returned and no launch is running.
    pub unsafe fn share(&self, host: std::ptr::NonNull<u8>, bytes: u64) -> Result<u64, Error> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.memory.share(host, bytes) }
    }

    /// As [`share`](Gpu::share), at an address of the caller's choice: where a driver of one's own has put them.
    ///
    /// # Errors
    /// As [`share`](Gpu::share).
    ///
    /// # Safety
    /// - As [`share`](Gpu::share).
    pub unsafe fn share_at(&self, address: u64, host: std::ptr::NonNull<u8>, bytes: u64) -> Result<u64, Error> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.memory.share_at(address, host, bytes) }
    }

    /// Start and length in bytes of the allocation that an address lies in.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.memory.allocation(address)
    }

    /// Whether an address lies where device memory has been handed out at some time, freed since or not.
    pub fn was_handed_out(&self, address: u64) -> bool {
        self.memory.was_handed_out(address)
    }

    /// Bytes that can still be allocated, of how many.
    pub fn memory_bytes(&self) -> (u64, u64) {
        (self.memory.free_bytes(), self.options.memory_bytes)
    }

    /// Frees an allocation by its address. The address is never handed out again.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if no allocation starts there.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        self.memory.free(address)
    }

    /// Declares what the `block_bytes` at `address`, inside an allocation, are used for: a pool that splits an allocation
    /// says so here, and kernels are checked against what was asked for. It replaces what was declared for any of these
    /// bytes. Calls of the host are not checked against it.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if the block is not inside one allocation, or smaller than what was requested of it.
    pub fn mark(&self, address: u64, block_bytes: u64, live: Live) -> Result<(), Error> {
        self.memory.mark(address, block_bytes, live)
    }

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if they do not lie inside one allocation.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        self.memory.host("write", address, data.len() as u64)?.write(address, data);
        Ok(())
    }

    /// Copies bytes from the device.
    ///
    /// # Errors
    /// As [`write`](Gpu::write).
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Error> {
        self.memory.host("read", address, out.len() as u64)?.read(address, out);
        Ok(())
    }

    /// Copies bytes on the device; the ranges may overlap.
    ///
    /// # Errors
    /// As [`write`](Gpu::write).
    pub fn copy(&self, dst: u64, src: u64, bytes: u64) -> Result<(), Error> {
        let to = self.memory.host("copy", dst, bytes)?;
        let from = self.memory.host("copy", src, bytes)?;
        to.copy_from(dst, &from, src, bytes);
        Ok(())
    }

    /// Fills bytes on the device.
    ///
    /// # Errors
    /// As [`write`](Gpu::write).
    pub fn fill(&self, dst: u64, pattern: u8, bytes: u64) -> Result<(), Error> {
        self.memory.host("fill", dst, bytes)?.fill(dst, pattern, bytes);
        Ok(())
    }

    /// Loads a code object: an ELF file for AMD's HSA, code object version 4 to 6.
    ///
    /// # Errors
    /// [`Error::BadCodeObject`] with the reason; [`Error::OutOfMemory`].
    pub fn load(&self, code_object: &[u8]) -> Result<Arc<Module>, Error> {
        Module::load(self.arch, self.options.cpu.min(CpuLevel::detect()), &self.memory, code_object).map(Arc::new)
    }

    /// Runs a kernel and waits for its end.
    ///
    /// # Errors
    /// [`Error::BadLaunch`] for numbers that the kernel does not allow, [`Error::Fault`] for what it did wrong; memory then
    /// holds what was written up to there.
    pub fn launch(&self, kernel: &Kernel, launch: &Launch<'_>) -> Result<Counters, Error> {
        launch::run(self, kernel, launch, &[])
    }

    /// The code around a kernel's descriptor that somebody else, AMD's loader say, has put into the device's memory: an
    /// image with its ELF header, or a bare kernel.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if nothing is there, [`Error::BadCodeObject`] with the reason.
    pub fn resident(&self, descriptor: u64) -> Result<Arc<Module>, Error> {
        let level = self.options.cpu.min(CpuLevel::detect());
        Module::resident(self.arch, level, &self.memory, descriptor).map(Arc::new)
    }

    /// Runs a kernel as a dispatch packet says, and waits for its end: arguments, hidden ones too, and the packet are in
    /// the device's memory already.
    ///
    /// # Errors
    /// As [`launch`](Gpu::launch).
    pub fn dispatch(&self, kernel: &Kernel, dispatch: &Dispatch) -> Result<Counters, Error> {
        launch::dispatch(self, kernel, dispatch)
    }

    /// What makes the checks that were asked for.
    pub(crate) fn checker(&self) -> Option<Checker> {
        let checks = self.options.checks;
        checks.any().then(|| Checker::new(checks, self.arch.info().family, self.checked.clone()))
    }

    /// Runs a kernel as [`launch`](Gpu::launch) does and counts what `MODEL.md` defines: by instruction, and the modelled
    /// bounds that follow.
    ///
    /// # Errors
    /// As [`launch`](Gpu::launch); [`Error::UnsupportedArch`] for an architecture whose compute unit is not recorded.
    pub fn profile(&self, kernel: &Kernel, launch: &Launch<'_>, sample: Sample) -> Result<Profile, Error> {
        profile::run(self, kernel, launch, sample)
    }

    /// How long a launch waits for what others may write.
    pub(crate) fn patience(&self) -> Duration {
        spin::time_of(self.options.step_limit)
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Threads that a launch may use.
    pub(crate) fn threads(&self) -> usize {
        self.options.threads.unwrap_or_else(rayon::current_num_threads)
    }

    /// Runs `body`, and what it spawns, in the device's threads.
    pub(crate) fn in_pool<'scope, R>(&self, body: impl FnOnce(&rayon::Scope<'scope>) -> R) -> R {
        match &self.pool {
            Some(pool) => pool.in_place_scope(body),
            None => rayon::in_place_scope(body),
        }
    }

    /// A worker, prepared for a launch.
    pub(crate) fn take_worker(&self, setup: &Setup, instruments: &[&dyn Instrument]) -> Worker {
        let kept = self.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let mut worker = kept.unwrap_or_else(|| {
            let program = setup.program.clone();
            let env = Env::new(program, self.memory.clone(), self.options.step_limit);
            Worker::new(env, self.options.strict_barriers, self.options.schedule)
        });
        worker.reset(setup, instruments.iter().map(|instrument| instrument.observer(setup)).collect());
        worker
    }

    /// Keeps a worker for the next launch.
    pub(crate) fn give_worker(&self, worker: Worker) {
        self.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(worker);
    }
}
