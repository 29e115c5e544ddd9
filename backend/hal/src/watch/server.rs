//! The thread that answers, and who asks it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{FOLDER, Process, Watched};
use crate::device::DeviceInner;
use crate::log::Level;
use crate::{Device, DriverKind};

/// What writing an answer may take: the reader waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// What an answer may take. Launches that were timed are waited for, and what is before them on the device.
const ANSWER: Duration = Duration::from_secs(2);
/// An answer that is longer is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// The devices that are told of. They are not kept.
static DEVICES: Mutex<Vec<Weak<DeviceInner>>> = Mutex::new(Vec::new());
/// The process that listens, or has tried to. One that `fork` made is another.
static LISTENING: Mutex<Option<u32>> = Mutex::new(None);
/// When the first device was opened.
static BEGUN: OnceLock<Instant> = OnceLock::new();

/// From now on the device is told of, if its settings let it be.
pub(crate) fn watch(device: &Device) {
    let config = device.config();
    if !config.watch || config.cache_mb == 0 || device.id().driver() == DriverKind::Noop {
        return;
    }
    let pid = std::process::id();
    let mut listening = lock(&LISTENING);
    let mut devices = lock(&DEVICES);
    if *listening != Some(pid) {
        // What was open before a fork is the other process's.
        devices.clear();
        *listening = Some(pid);
        if let Err(error) = listen(&config.cache_dir.join(FOLDER), pid) {
            device.report(Level::Info, format_args!("`rocfire top` will not find this process: {error}"));
        }
    }
    devices.retain(|device| device.strong_count() > 0);
    devices.push(device.downgrade());
}

/// Begins to listen.
fn listen(folder: &Path, pid: u32) -> std::io::Result<()> {
    BEGUN.get_or_init(Instant::now);
    // What a process does is its user's to know.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    remove_ended(folder);
    // Containers that share the folder have the same numbers of processes.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let path = folder.join(format!("{pid}-{:x}.sock", time.as_nanos()));
    let listener = UnixListener::bind(&path)?;
    let bystander = bystander();
    let serve = move || {
        let _bystander = bystander;
        loop {
            match listener.accept() {
                Ok((stream, _)) => answer(stream),
                // Out of file descriptors, or the like: not to be asked again at once.
                Err(_) => std::thread::sleep(PATIENCE),
            }
        }
    };
    std::thread::Builder::new().name("rocfire-watch".to_owned()).spawn(serve).map(drop)
}

/// The emulator asks whether there are threads that could write what a kernel waits for: this one is none.
#[cfg(feature = "emulated")]
fn bystander() -> rocfire_emulator::Bystander {
    rocfire_emulator::Bystander::new()
}

/// Without an emulator nobody asks.
#[cfg(not(feature = "emulated"))]
struct Bystander;

#[cfg(not(feature = "emulated"))]
fn bystander() -> Bystander {
    Bystander
}

fn answer(mut stream: UnixStream) {
    let devices: Vec<Device> = lock(&DEVICES).iter().filter_map(Weak::upgrade).map(Device::from_inner).collect();
    let process = Process {
        pid: std::process::id(),
        program: program(),
        uptime: BEGUN.get().map(Instant::elapsed).unwrap_or_default(),
        devices: devices.iter().map(Device::watched).collect(),
    };
    // Who went away meanwhile is not to be told anything.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = stream.write_all(process.line().as_bytes());
}

fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_default()
}

/// As [`super::processes`].
pub(super) fn processes(cache_dir: &Path) -> Vec<Process> {
    let mut processes: Vec<Process> = sockets(&cache_dir.join(FOLDER))
        .iter()
        .filter_map(|path| ask(path))
        .filter_map(|line| Process::parse(&line))
        .collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

/// What a process answers.
fn ask(path: &Path) -> Option<String> {
    let stream = connect(path)?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    let mut line = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut line).ok()?;
    Some(line)
}

/// A connection to a process. The socket of one that ended is removed.
fn connect(path: &Path) -> Option<UnixStream> {
    match UnixStream::connect(path) {
        Ok(stream) => Some(stream),
        Err(error) => {
            if error.kind() == ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(path);
            }
            None
        }
    }
}

/// Removes the sockets of processes that are not here any more. Those whose number is another's by now stay until they are asked.
fn remove_ended(folder: &Path) {
    for path in sockets(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pid = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            // Nobody waits for the answer of one that is there after all, in another container.
            drop(connect(&path));
        }
    }
}

fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "sock")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// What there is to tell of it. Nothing is launched or waited for but what the sampler timed.
    fn watched(&self) -> Watched {
        let (launches, sampled_us) = self.stream().watched();
        let (memory, memory_bytes) = (lock(&self.pool()).stats(), self.pool_limit_bytes());
        let (compiles, compiling) = self.compiles_so_far();
        let (id, name) = (self.id().to_string(), self.info().name.clone());
        Watched { id, name, launches, sampled_us, memory, memory_bytes, compiles, compiling }
    }
}
