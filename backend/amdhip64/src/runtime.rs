//! The process's state: settings, the device, and what programs hold handles of.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rocfire_arch::{Arch, Family};
use rocfire_emulator::{Error as EmulatorError, Fault, FaultKind, Gpu, Live};
use rocfire_hal::{Config, Level, stand_in};

use crate::call::{Failure, Result, tell};
use crate::event::Event;
use crate::graph::{Exec, Graph, Node};
use crate::handle::Table;
use crate::module::{Function, Module};
use crate::peers;
use crate::status::Status;
use crate::stream::Stream;

/// HIP's own switch for launches that are waited for; CUDA's meaning of it.
const BLOCKING_VARIABLE: &str = "HIP_LAUNCH_BLOCKING";
/// What makes NaN of every float type.
const POISON: u8 = 0xff;

/// What the process has of HIP.
pub struct Runtime {
    /// The emulator, whose memory the devices share out.
    pub gpu: Gpu,
    /// How many devices there are.
    pub devices: i32,
    /// Their architecture.
    pub arch: Arch,
    /// Whether a launch that faults fails itself.
    pub blocking: bool,
    /// Whether memory that is handed out is filled with NaN.
    poison: bool,
    /// What the program has allocated, by address.
    pub blocks: Mutex<BTreeMap<u64, Block>>,
    /// What no call but `hipDeviceReset` can mend, by device.
    fault: Mutex<BTreeMap<i32, Status>>,
    /// By handle, as the others.
    pub streams: Table<Stream>,
    /// The null stream of each device.
    pub null_streams: Vec<Stream>,
    /// Events.
    pub events: Table<Event>,
    /// Modules.
    pub modules: Table<Module>,
    /// Kernels of modules.
    pub functions: Table<Function>,
    /// Graphs.
    pub graphs: Table<Graph>,
    /// Nodes of graphs.
    pub nodes: Table<Node>,
    /// Graphs that can be launched.
    pub execs: Table<Exec>,
}

/// Memory that the program has allocated or registered.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Bytes asked for.
    pub bytes: u64,
    /// Whose it is.
    pub kind: BlockKind,
    /// What the program asked for besides.
    pub flags: u32,
    /// Where it is, or the device of the thread that asked for it.
    pub device: i32,
}

/// Whose memory a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The device's alone.
    Device,
    /// The host's, allocated by HIP, at the same address on both.
    Host,
    /// The host's, allocated by the program.
    Registered,
    /// Both sides', at the same address.
    Managed,
}

/// The settings, read once.
fn config() -> &'static std::result::Result<Config, String> {
    static CONFIG: OnceLock<std::result::Result<Config, String>> = OnceLock::new();
    CONFIG.get_or_init(|| Config::from_env().map_err(|error| error.to_string()))
}

/// How much is told.
pub fn log_level() -> Level {
    config().as_ref().map_or(Level::Warn, |config| config.log)
}

/// The process's state, made when it is first asked for.
///
/// # Errors
/// `hipErrorNoDevice`, with the setting that cannot be used.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    match RUNTIME.get_or_init(Runtime::open) {
        Ok(runtime) => Ok(runtime),
        Err(reason) => Err(Failure::new(Status::NO_DEVICE, reason.clone())),
    }
}

/// As [`runtime`], for calls that need the device in order: a fault before them is their error too.
pub fn healthy() -> Result<&'static Runtime> {
    let runtime = runtime()?;
    match lock(&runtime.fault).get(&peers::current()) {
        Some(&status) => Err(status.into()),
        None => Ok(runtime),
    }
}

/// A lock that nothing panics under.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    fn open() -> std::result::Result<Runtime, String> {
        let config = config().as_ref().map_err(Clone::clone)?;
        let (arch, mut options) = stand_in(config)?;
        let devices = peers::chosen_count()?;
        options.memory_bytes = options.memory_bytes.saturating_mul(devices as u64);
        let gpu = Gpu::new(arch, options).map_err(|error| error.to_string())?;
        let blocking = config.sync || std::env::var_os(BLOCKING_VARIABLE).is_some_and(|value| value == "1");
        let copies = if devices == 1 { String::new() } else { format!(", {devices} times") };
        tell(Level::Info, &format!("HIP on an emulated {arch}{copies}"));
        Ok(Runtime {
            gpu,
            devices,
            arch,
            blocking,
            poison: config.checks.poison,
            blocks: Mutex::default(),
            fault: Mutex::default(),
            streams: Table::default(),
            null_streams: (0..devices).map(Stream::null).collect(),
            events: Table::default(),
            modules: Table::default(),
            functions: Table::default(),
            graphs: Table::default(),
            nodes: Table::default(),
            execs: Table::default(),
        })
    }

    /// The target name, with the features that a card has switched as AMD ships it.
    pub fn target(&self) -> String {
        let info = self.arch.info();
        let feature = |has: bool, text: &'static str| if has { text } else { "" };
        format!("{}{}{}", info.name, feature(info.sramecc, ":sramecc+"), feature(info.xnack, ":xnack-"))
    }

    /// The number of a device, if there is one.
    ///
    /// # Errors
    /// `hipErrorInvalidDevice`.
    pub fn check_device(&self, device: i32) -> Result {
        if (0..self.devices).contains(&device) { Ok(()) } else { Err(Status::INVALID_DEVICE.into()) }
    }

    /// Bytes of the thread's device that are free, and all that each device has.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let (free, total) = self.gpu.memory_bytes();
        let each = total / self.devices as u64;
        if self.devices == 1 {
            return (free, each);
        }
        let device = peers::current();
        let blocks = lock(&self.blocks);
        let own = blocks.values().filter(|block| block.kind == BlockKind::Device && block.device == device);
        (each.saturating_sub(own.map(|block| block.bytes).sum()).min(free), each)
    }

    /// Memory that was handed out shows when it is read before it is written, if that was asked for.
    pub fn poison(&self, address: u64, bytes: u64) -> Result {
        if !self.poison {
            return Ok(());
        }
        self.gpu.fill(address, POISON, bytes).map_err(translate)?;
        // What the host fills counts as written; what is marked anew does not.
        self.gpu.mark(address, bytes, Live::Requested(bytes)).map_err(translate)
    }

    /// Keeps what a kernel did wrong, and tells it.
    ///
    /// # Errors
    /// The fault itself, where launches are waited for.
    pub fn faulted(&self, fault: &Fault) -> Result {
        let status = fault_status(fault);
        let name = status.name().to_string_lossy();
        tell(Level::Error, &format!("{name}: {fault}"));
        lock(&self.fault).insert(peers::current(), status);
        if self.blocking { Err(status.into()) } else { Ok(()) }
    }

    /// Forgets everything that the program has of a device.
    pub fn reset(&self, device: i32) {
        let mut blocks = lock(&self.blocks);
        let own: Vec<u64> =
            blocks.iter().filter(|(_, block)| block.device == device).map(|(&address, _)| address).collect();
        for address in own {
            blocks.remove(&address);
            if let Err(error) = self.gpu.free(address) {
                tell(Level::Error, &format!("hipDeviceReset: {error}"));
            }
        }
        drop(blocks);
        self.streams.retain(|stream| stream.device() != device);
        self.events.retain(|event| event.device() != device);
        self.functions.retain(|function| function.device() != device);
        self.modules.retain(|module| module.device() != device);
        lock(&self.fault).remove(&device);
    }
}

/// The code that HIP has for what a kernel did wrong. AMD's runtime knows few.
fn fault_status(fault: &Fault) -> Status {
    match fault.kind {
        FaultKind::StepLimit { .. } | FaultKind::ClockLimit { .. } | FaultKind::EndlessWait(_) => {
            Status::LAUNCH_TIME_OUT
        }
        FaultKind::Trap(_) => Status::ASSERT,
        _ => Status::LAUNCH_FAILURE,
    }
}

/// The emulator's error as HIP's.
pub fn translate(error: EmulatorError) -> Failure {
    let status = match &error {
        EmulatorError::UnsupportedArch { .. } => Status::NO_DEVICE,
        EmulatorError::OutOfMemory { .. } => Status::OUT_OF_MEMORY,
        EmulatorError::BadAddress { .. } => Status::INVALID_VALUE,
        EmulatorError::BadCodeObject { .. } => Status::INVALID_IMAGE,
        EmulatorError::BadLaunch { .. } => Status::INVALID_CONFIGURATION,
        EmulatorError::Fault(fault) => fault_status(fault),
        _ => Status::UNKNOWN,
    };
    Failure::new(status, error.to_string())
}

/// Whether a family has 64-lane waves only, which decides some of what a device says of itself.
pub fn is_cdna(arch: Arch) -> bool {
    match arch.info().family {
        Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => true,
        Family::Rdna1 | Family::Rdna2 | Family::Rdna3 | Family::Rdna35 | Family::Rdna4 | Family::Gfx125 => false,
        Family::Ampere | Family::Ada | Family::Hopper => false,
    }
}
