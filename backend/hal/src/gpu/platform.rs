//! What differs between HIP and CUDA, as far as the driver has to know; and a platform's library, open.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Vendor};

use super::Shared;
use super::sys::runtime::{self as sys, DeviceHandle, GraphHandle, GraphInstance, GraphNode, Runtime, StreamHandle};
use crate::collective::library::Library as CollectiveLibrary;
use crate::compile::KernelInfo;
use crate::driver::{DeviceInfo, RawLaunch};
use crate::foreign::{Answer, Handle, Library, SUCCESS, Status, text_until_zero};
use crate::vendor::VendorGemm;
use crate::{DriverKind, Error, Result};

/// Room for the name of a device.
const NAME_BYTES: usize = 256;

/// HIP or CUDA: the functions that only it has, its numbers, and what it does in its own way.
pub(crate) trait Platform: Sized + Send + Sync + 'static {
    /// The driver.
    const DRIVER: DriverKind;
    /// Its name: `HIP`, `CUDA`.
    const NAME: &'static str;
    /// Whose names the library's functions have.
    const VENDOR: Vendor;
    /// The library: `libamdhip64`.
    const LIBRARY: &'static str;
    /// Codes after which a device serves no more.
    const STICKY: &'static [Status];
    /// Flags of pinned memory that the device writes, which the host sees without asking the device.
    const PINNED_MAPPED: c_uint;
    /// The key that ends a launch's `extra`.
    const LAUNCH_END: *mut c_void;
    /// Whether arguments that are set in a graph leave its replays under way theirs, as the platform's documentation has it.
    const SETS_BEHIND_REPLAYS: bool;

    /// What a device is called by when it is made the thread's, and in copies between devices.
    type Token: Copy + Send + Sync;
    /// What a kernel's launches need besides its function.
    type Kernel: Send + Sync;

    /// The library, opened once for the process.
    ///
    /// # Errors
    /// [`Error::Load`] with what was tried.
    fn api() -> Result<&'static Api<Self>>;

    /// Finds the library.
    fn library() -> Result<Library>;

    /// The platform over its library.
    fn new(library: Arc<Library>) -> Result<Self>;

    /// The version.
    fn version(&self) -> Version;

    /// A code's name and what it means.
    fn texts(&self, status: Status) -> [Option<String>; 2];

    /// What must be called before anything else.
    fn start(&self) -> Answer {
        Ok(("", SUCCESS))
    }

    /// Why there may be no device, as far as can be seen from outside.
    fn why_none() -> String;

    /// What is known of a device that is there.
    fn describe(api: &Api<Self>, ordinal: u16) -> Result<DeviceInfo>;

    /// A device that is there, to be made the thread's from now on.
    fn token(api: &Api<Self>, ordinal: u16) -> Result<Self::Token>;

    /// Makes a device the calling thread's.
    fn enter(&self, device: Self::Token) -> Answer;

    /// A copy in a stream's order between two devices, to a place from a place.
    ///
    /// # Safety
    /// - `bytes` bytes from either address lie in one live block of its device; the stream is alive.
    unsafe fn copy_between(
        &self,
        to: (u64, Self::Token),
        from: (u64, Self::Token),
        bytes: usize,
        stream: StreamHandle,
    ) -> Answer;

    /// Why graphs are not used with this version, if so.
    fn graphs_refused(&self) -> Option<&'static str> {
        None
    }

    /// Makes a graph that can be launched.
    ///
    /// # Safety
    /// - The graph is alive.
    unsafe fn instantiate(&self, instance: &mut GraphInstance, graph: GraphHandle) -> Answer;

    /// Sets the arguments of a launch in a graph that can be launched; `node` is the launch's in what it was made of.
    ///
    /// # Safety
    /// - Graph and node are alive; the function is the node's; `extra` has arguments of the kernel's length.
    unsafe fn set_arguments(
        &self,
        instance: GraphInstance,
        node: GraphNode,
        function: Handle,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Answer;

    /// A kernel that was just found.
    fn kernel(&self, info: &KernelInfo) -> Self::Kernel;

    /// Launches a kernel on a stream; `extra` has its arguments.
    ///
    /// # Safety
    /// - As [`Shared::launch`].
    unsafe fn launch(
        shared: &Shared<Self>,
        stream: Handle,
        function: Handle,
        kernel: &Self::Kernel,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Result<()> {
        let _ = kernel;
        // SAFETY: the caller's duty.
        unsafe { shared.launch(stream, function, launch, extra) }
    }

    /// The libraries for matrix products, or why there are none.
    fn open_gemm(shared: &Arc<Shared<Self>>, arch: Arch) -> Result<Box<dyn VendorGemm>, String>;

    /// The library for collectives, opened when it is first asked for, for every device.
    fn collectives() -> &'static Result<CollectiveLibrary, String>;
}

/// How a launch is told its arguments: keys and values.
pub(crate) type Extra = [*mut c_void; 5];

/// A version of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    /// HIP's 5, 6, 7; CUDA's 11, 12, 13.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// In HIP a build number; CUDA has none.
    pub patch: Option<u32>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// A platform's library, open: the functions that both platforms have, and those of its own.
pub(crate) struct Api<P> {
    pub calls: Runtime,
    pub platform: P,
}

impl<P: Platform> Api<P> {
    /// The platform in a library.
    pub fn new(library: Library) -> Result<Api<P>> {
        let library = Arc::new(library);
        Ok(Api { platform: P::new(Arc::clone(&library))?, calls: Runtime::new(library, P::VENDOR) })
    }

    /// What a cell has, or will have from now on.
    pub fn in_cell(cell: &'static OnceLock<Result<Api<P>>>) -> Result<&'static Api<P>> {
        match cell.get_or_init(|| P::library().and_then(Api::new)) {
            Ok(api) => Ok(api),
            Err(Error::Load { library, tried }) => Err(Error::Load { library, tried: tried.clone() }),
            Err(Error::MissingSymbol { library, symbol }) => {
                Err(Error::MissingSymbol { library: library.clone(), symbol })
            }
            Err(other) => Err(Error::Load { library: P::LIBRARY, tried: other.to_string() }),
        }
    }

    /// An answer's status as an error.
    pub fn check(&self, answer: Answer) -> Result<()> {
        match answer? {
            (_, SUCCESS) => Ok(()),
            (call, code) => {
                let name = error_name(&self.platform, code);
                if P::STICKY.contains(&code) {
                    return Err(Error::DeviceLost { call, name, code, history: String::new() });
                }
                Err(Error::Driver { call, name, code })
            }
        }
    }

    /// Number of devices; none is not an error.
    pub fn device_count(&self) -> Result<u16> {
        let mut count = 0;
        let counted = match self.platform.start()? {
            // SAFETY: the count goes to a local.
            (_, SUCCESS) => unsafe { self.calls.device_count(&mut count)? },
            failed => failed,
        };
        if counted.1 == sys::NO_DEVICE {
            return Ok(0);
        }
        self.check(Ok(counted))?;
        Ok(u16::try_from(count).unwrap_or(0))
    }

    /// What is known of a device.
    pub fn describe(&self, ordinal: u16) -> Result<DeviceInfo> {
        let (count, version) = (self.device_count()?, self.platform.version());
        if ordinal < count {
            return P::describe(self, ordinal);
        }
        let reason = match count {
            0 => format!("{} {version} sees none ({})", P::NAME, P::why_none()),
            _ => format!("{} {version} sees {count}, numbered from 0", P::NAME),
        };
        Err(Error::NoDevice { driver: P::DRIVER, ordinal: (count > 0).then_some(ordinal), reason })
    }

    /// A device's name.
    pub fn name(&self, device: DeviceHandle) -> Result<String> {
        let mut name = [0_u8; NAME_BYTES];
        let bytes = name.len() as c_int - 1;
        // SAFETY: the name goes to a local of more than the length that is passed.
        self.check(unsafe { self.calls.device_name(name.as_mut_ptr().cast::<c_char>(), bytes, device) })?;
        Ok(text_until_zero(&name))
    }

    /// A device's memory, bytes.
    pub fn memory_bytes(&self, device: DeviceHandle) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the size goes to a local.
        self.check(unsafe { self.calls.device_memory(&mut bytes, device) })?;
        Ok(bytes as u64)
    }

    /// A number about a device; 0 for one that is negative.
    pub fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the value goes to a local; an attribute that does not exist fails.
        self.check(unsafe { self.calls.device_attribute(&mut value, attribute, device) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

/// A code's name and what it means: `hipErrorNoDevice, no ROCm-capable device is detected`.
pub(crate) fn error_name<P: Platform>(platform: &P, status: Status) -> String {
    let texts = platform.texts(status).into_iter().flatten().collect::<Vec<_>>();
    if texts.is_empty() { "unknown error".to_owned() } else { texts.join(", ") }
}

/// Those of these variables that are set, which may hide devices.
pub(crate) fn hiding<'a>(names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    names.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)))
}
