//! The driver over the emulator: an AMD GPU in this process.
//!
//! The emulator runs a launch to its end before it returns. What went wrong in it is told as a GPU would: at the next
//! read or wait. Each block of the pool is checked by the bytes that were asked for, and followed by a red zone.

use std::sync::Arc;

use rocfire_arch::{Arch, DEFAULT_EMULATED, Vendor};
use rocfire_emulator::{
    Error as EmulatorError, Gpu, Kernel, Launch, Live as EmulatorLive, Module, Options, Sample, Schedule, source_of,
};

use crate::command::StreamName;
use crate::compile::KernelInfo;
use crate::config::Checks;
use crate::driver::{
    DeviceInfo, Driver, DriverEvent, DriverKernel, DriverModule, LaunchFailure, Lined, Live, RawLaunch,
};
use crate::host_device::{self, HostEvent};
use crate::index_fault::{DETAIL_WORDS, IndexMemory};
use crate::log::{Level, report};
use crate::modelled::{ModelledKernel, Recorder};
use crate::print::print;
use crate::{Config, DeviceChoice, DriverKind, Error, Result};

/// Which checks are made.
const CHECK_VARIABLE: &str = "ROCFIRE_CHECK";
/// Which architecture what stands in for AMD's software shows.
const STAND_IN_VARIABLE: &str = "ROCFIRE_HIP_ARCH";
/// As wide as the widest access of a wave: 64 lanes of 16 bytes would overrun by no more than a quarter of it unnoticed.
const RED_ZONE_BYTES: u64 = 256;
/// The byte that makes NaN of every float type, and of every integer -1 or the largest.
const POISON: u8 = 0xff;

pub(crate) struct Emulated {
    gpu: Arc<Gpu>,
    info: DeviceInfo,
    poison: bool,
    log: Level,
    profiling: Option<Profiling>,
}

/// What counts launches, if that was asked for.
#[derive(Clone)]
struct Profiling {
    sample: Sample,
    recorder: Arc<Recorder>,
}

impl Emulated {
    pub fn open(arch: Arch, config: &Config) -> Result<Emulated> {
        let options = emulator_options(config);
        let memory_bytes = options.memory_bytes;
        let gpu = Gpu::new(arch, options).map_err(|error| Error::NoDevice {
            driver: DriverKind::Emulated,
            ordinal: None,
            reason: error.to_string(),
        })?;
        let info = host_device::info(DriverKind::Emulated, arch, memory_bytes);
        let profiling = config.profile.map(|sample| Profiling { sample, recorder: Arc::default() });
        Ok(Emulated { gpu: Arc::new(gpu), info, poison: config.checks.poison, log: config.log, profiling })
    }
}

/// How the settings want an emulator; for whoever opens one without a [`crate::Device`].
pub fn emulator_options(config: &Config) -> Options {
    let mut options = Options::default();
    let Checks { barriers, poison: _, unwritten, lds_race, equal_write, global_race, shuffle, waitcnt } = config.checks;
    options.strict_barriers = barriers;
    options.schedule = config.wave_turn.map_or(Schedule::ToBarrier, Schedule::Turns);
    options.step_limit = Options::steps_of(config.hang_seconds);
    options.checks.unwritten = unwritten;
    options.checks.lds_races = lds_race;
    options.checks.equal_writes = equal_write;
    options.checks.global_races = global_race;
    options.checks.shuffles = shuffle;
    options.checks.waits = waitcnt;
    if let Some(mb) = config.pool_mb {
        options.memory_bytes = options.memory_bytes.max(mb << 20);
    }
    options
}

/// Which architecture a library that stands in for AMD's software shows, and how its emulator is: `ROCFIRE_HIP_ARCH`, else what
/// `ROCFIRE_DEVICE` emulates, else [`rocfire_arch::DEFAULT_EMULATED`]. Barriers wait for the waves that are left, as hardware's do, unless
/// `ROCFIRE_CHECK` asks for checks: programs that run on cards end waves before a barrier (HeCBench: wyllie, crs, bh).
///
/// # Errors
/// A name that is no architecture, or not AMD's.
pub fn stand_in(config: &Config) -> std::result::Result<(Arch, Options), String> {
    let arch = match (std::env::var(STAND_IN_VARIABLE), config.device) {
        (Ok(name), _) if !name.trim().is_empty() => {
            Arch::parse(&name).map_err(|error| format!("{STAND_IN_VARIABLE}={name:?}: {error}"))?
        }
        (_, Some(DeviceChoice::Emulated(arch, _) | DeviceChoice::Noop(arch, _))) => arch,
        (_, Some(DeviceChoice::Hip(_) | DeviceChoice::Cuda(_)) | None) => {
            Arch::parse(DEFAULT_EMULATED).map_err(|error| error.to_string())?
        }
    };
    if arch.info().vendor != Vendor::Amd {
        return Err(format!("{STAND_IN_VARIABLE}: {arch} is not AMD's"));
    }
    let mut options = emulator_options(config);
    options.strict_barriers &= std::env::var_os(CHECK_VARIABLE).is_some();
    Ok((arch, options))
}

impl Driver for Emulated {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        None
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        self.gpu.allocate(bytes).map_err(|error| translate("allocate", error))
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.gpu.free(address).map_err(|error| translate("free", error))
    }

    fn mark(&self, address: u64, block_bytes: u64, live: Live) {
        let (live, poisoned_bytes) = match live {
            Live::Requested(bytes) => (EmulatorLive::Requested(bytes), bytes),
            Live::Free => (EmulatorLive::Free, 0),
        };
        let mut outcome = Ok(());
        if self.poison && poisoned_bytes > 0 {
            // Before the mark: what the host fills counts as written, what is marked does not.
            outcome = self.gpu.fill(address, POISON, poisoned_bytes);
        }
        outcome = outcome.and_then(|()| self.gpu.mark(address, block_bytes, live));
        if let Err(error) = outcome {
            // The pool's own books are wrong then, which its tests exclude; checks would be weaker, results the same.
            report(self.log, Level::Error, format!("cannot mark device memory: {error}"));
        }
    }

    fn red_zone_bytes(&self) -> u64 {
        RED_ZONE_BYTES
    }

    unsafe fn upload(&self, _stream: StreamName, target: u64, source: &[u8]) -> Result<()> {
        self.gpu.write(target, source).map_err(|error| translate("write", error))
    }

    unsafe fn download(&self, target: &mut [u8], source: u64) -> Result<()> {
        self.gpu.read(source, target).map_err(|error| translate("read", error))
    }

    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        self.gpu.copy(target, source, bytes).map_err(|error| translate("copy", error))
    }

    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()> {
        self.gpu.fill(address, value, bytes).map_err(|error| translate("fill", error))
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        self.load_lined(code, Box::new(|| None))
    }

    fn load_lined(&self, code: &[u8], lined: Lined) -> Result<Arc<dyn DriverModule>> {
        let module = self.gpu.load(code).map_err(|error| translate("load", error))?;
        let (gpu, profiling, lined) = (Arc::clone(&self.gpu), self.profiling.clone(), Arc::new(lined));
        Ok(Arc::new(EmulatedModule { gpu, module, profiling, lined }))
    }

    fn index_memory(&self) -> Result<Option<IndexMemory>> {
        let bytes = (DETAIL_WORDS + 1) as u64 * 8;
        let claim = self.allocate(bytes)?;
        self.gpu.fill(claim, 0, bytes).map_err(|error| translate("fill", error))?;
        Ok(Some(IndexMemory { claim, details: claim + 8, host: None }))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn modelled(&self) -> Option<Vec<ModelledKernel>> {
        Some(self.profiling.as_ref()?.recorder.kernels())
    }

    fn record_event(&self, _: StreamName, _: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        Ok(Box::new(HostEvent::now()))
    }
}

struct EmulatedModule {
    gpu: Arc<Gpu>,
    module: Arc<Module>,
    profiling: Option<Profiling>,
    lined: Arc<Lined>,
}

impl DriverModule for EmulatedModule {
    fn kernel(self: Arc<Self>, info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        let kernel = self.module.kernel(&info.name).ok_or_else(|| Error::NoKernel {
            module: info.name.clone(),
            kernel: info.name.clone(),
            has: self.module.kernel_names().collect::<Vec<_>>().join(", "),
        })?;
        let (gpu, profiling, lined) = (Arc::clone(&self.gpu), self.profiling.clone(), Arc::clone(&self.lined));
        Ok(Box::new(EmulatedKernel { gpu, kernel, profiling, lined }))
    }

    fn set_variable(&self, name: &'static str, value: &[u8]) -> Result<()> {
        let place = self.module.global(name).filter(|(_, bytes)| *bytes == value.len() as u64);
        let (address, _) = place.ok_or_else(|| crate::index_fault::no_variable(name, value))?;
        self.gpu.write(address, value).map_err(|error| translate("write", error))
    }
}

struct EmulatedKernel {
    gpu: Arc<Gpu>,
    kernel: Kernel,
    profiling: Option<Profiling>,
    lined: Arc<Lined>,
}

impl DriverKernel for EmulatedKernel {
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        let launch = Launch {
            grid: launch.grid,
            block: launch.block,
            dynamic_lds_bytes: launch.lds_bytes,
            kernarg: launch.args,
        };
        let outcome = match &self.profiling {
            Some(Profiling { sample, recorder }) => {
                self.gpu.profile(&self.kernel, &launch, *sample).map(|profile| recorder.add(profile))
            }
            None => self.gpu.launch(&self.kernel, &launch).map(|_counters| ()),
        };
        // What an assertion printed before it ended the kernel is told too.
        print(&self.gpu, &self.kernel).map_err(|error| LaunchFailure::Rejected(translate("print", error)))?;
        match outcome {
            Ok(()) => Ok(()),
            Err(EmulatorError::Fault(mut fault)) => {
                // Kernels are compiled without line tables. When one has gone wrong a moment more does not matter.
                if fault.source.is_none()
                    && let Some(code) = (self.lined)()
                {
                    fault.name_lines(|offset_bytes| source_of(code.bytes(), offset_bytes));
                }
                Err(LaunchFailure::Faulted(fault.to_string()))
            }
            Err(error) => Err(LaunchFailure::Rejected(translate("launch", error))),
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub(crate) fn translate(call: &'static str, error: EmulatorError) -> Error {
    match error {
        EmulatorError::OutOfMemory { requested, free, capacity } => Error::OutOfMemory {
            requested_bytes: requested,
            live_bytes: capacity - free,
            reserved_bytes: capacity - free,
            limit_bytes: capacity,
        },
        EmulatorError::BadCodeObject { reason } => Error::CodeObject { name: "emulator".to_owned(), reason },
        other => Error::Driver { call, name: other.to_string(), code: 0 },
    }
}
