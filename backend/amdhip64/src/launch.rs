//! Launches: of kernels by handle, with arguments as a list or as one buffer, and of compiled programs' host functions.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use rocfire_emulator::Kernel;

use crate::call::{Failure, Result, export};
use crate::foreign::{In, Out, host_bytes};
use crate::handle::Handle;
use crate::occupancy;
use crate::properties::Facts;
use crate::register;
use crate::runtime::{Runtime, healthy};
use crate::status::Status;
use crate::work::{KernelLaunch, Work, submit};

/// Threads that a workgroup can have.
pub const MAX_WORKGROUP_THREADS: u32 = 1024;
/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `_SIZE`, `_END`: keys of `extra`.
const BUFFER_POINTER: u64 = 1;
const BUFFER_SIZE: u64 = 2;
const BUFFER_END: u64 = 3;
/// `hipFuncAttributeMaxDynamicSharedMemorySize` and `…PreferredSharedMemoryCarveout`.
const FUNCTION_SETTINGS: [c_int; 2] = [8, 9];

/// `dim3`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    /// As a list.
    pub fn list(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// How a program passes arguments.
pub enum Arguments {
    /// A pointer to each.
    List(In<u64>),
    /// A list of keys and values, one of them a buffer.
    Extra(In<u64>),
}

impl Arguments {
    /// The explicit arguments of a kernel, laid out.
    fn read(&self, kernel: &Kernel) -> Result<Vec<u8>> {
        let wrong = |reason: String| Failure::new(Status::INVALID_VALUE, format!("{}: {reason}", kernel.name()));
        let bytes = kernel.explicit_kernarg_bytes() as usize;
        let mut kernarg = vec![0; bytes];
        match self {
            Arguments::List(list) => {
                let places = kernel.explicit_arguments();
                let pointers = list.list(places.len()).map_err(|_| wrong("no arguments".to_owned()))?;
                for (index, (&(offset, bytes), &pointer)) in places.iter().zip(&pointers).enumerate() {
                    if pointer == 0 {
                        return Err(wrong(format!("argument {index} is null")));
                    }
                    // SAFETY: the program promises an argument of the kernel's type behind each pointer.
                    let argument = unsafe { host_bytes(pointer, u64::from(bytes)) };
                    kernarg[offset as usize..][..bytes as usize].copy_from_slice(argument);
                }
            }
            Arguments::Extra(extra) => {
                let (address, length) = extra_buffer(extra)?;
                let given = length.min(bytes as u64);
                // SAFETY: the program promises a buffer of the length that it says; more than the kernel takes is hidden
                // arguments, which are laid out here anyway.
                // What is missing at its end the kernel does not read, or reads as zero.
                kernarg[..given as usize].copy_from_slice(unsafe { host_bytes(address, given) });
            }
        }
        Ok(kernarg)
    }
}

/// Address and length of the buffer in a list of keys and values.
fn extra_buffer(extra: &In<u64>) -> Result<(u64, u64)> {
    let (mut address, mut length) = (0, 0);
    // Two keys with their values, and the end.
    let mut at = 0;
    while at < 5 {
        let words = extra.list(at + 1)?;
        match words[at] {
            BUFFER_END => break,
            key @ (BUFFER_POINTER | BUFFER_SIZE) => {
                let value = extra.list(at + 2)?[at + 1];
                if value == 0 {
                    return Err(Status::INVALID_VALUE.into());
                }
                if key == BUFFER_POINTER {
                    address = value;
                } else {
                    // SAFETY: the value of this key is a pointer to a `size_t`; null was excluded.
                    let bytes = unsafe { host_bytes(value, size_of::<u64>() as u64) };
                    length = u64::from_ne_bytes(bytes.try_into().expect("as many bytes as were asked for"));
                }
                at += 2;
            }
            other => return Err(Failure::new(Status::INVALID_VALUE, format!("extra holds the key {other}"))),
        }
    }
    if address == 0 && length > 0 {
        return Err(Status::INVALID_VALUE.into());
    }
    Ok((address.max(1), length))
}

/// A launch, checked as HIP does before it accepts one.
///
/// # Errors
/// `hipErrorInvalidConfiguration` for grids and workgroups that cannot be, `hipErrorInvalidValue` for arguments.
pub fn prepare(
    runtime: &Runtime,
    kernel: Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    lds_bytes: u32,
    arguments: &Arguments,
) -> Result<KernelLaunch> {
    let wrong = |what: String| Err(Failure::new(Status::INVALID_CONFIGURATION, format!("{}: {what}", kernel.name())));
    let threads = block.iter().try_fold(1_u32, |product, &n| product.checked_mul(n)).unwrap_or(u32::MAX);
    if grid.contains(&0) {
        return wrong(format!("a grid of {grid:?} workgroups"));
    }
    let most = kernel.max_workgroup_size().min(MAX_WORKGROUP_THREADS);
    if threads == 0 || threads > most {
        return wrong(format!("a workgroup of {block:?} threads; it was compiled for at most {most}"));
    }
    if grid.iter().zip(&block).any(|(&grid, &block)| u64::from(grid) * u64::from(block) > u64::from(u32::MAX)) {
        return wrong(format!("{grid:?} workgroups of {block:?} are more than 2^32 threads in a dimension"));
    }
    let (lds, most) = (u64::from(kernel.lds_bytes()) + u64::from(lds_bytes), runtime.arch.info().lds_bytes);
    if lds > u64::from(most) {
        return wrong(format!("{lds} bytes of LDS; a workgroup has {most}"));
    }
    let kernarg = arguments.read(&kernel)?;
    Ok(KernelLaunch { kernel, grid, block, lds_bytes, kernarg })
}

/// The launch, if all of its workgroups fit on the device at the same time or need not: the emulator lets those that wait for
/// others give them their turn in any launch.
fn at_once(runtime: &Runtime, launch: KernelLaunch, together: bool) -> Result<KernelLaunch> {
    let facts = Facts::new(runtime);
    let threads = launch.block.iter().product();
    let most = u64::from(facts.compute_units)
        * occupancy::workgroups(&facts, &launch.kernel, threads, u64::from(launch.lds_bytes));
    let groups = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    if together && groups > most {
        let reason = format!("{groups} workgroups at the same time; {most} of them fit on the device");
        return Err(Failure::new(Status::COOPERATIVE_LAUNCH_TOO_LARGE, reason));
    }
    Ok(launch)
}

fn launch_function(
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    lds_bytes: u32,
    stream: Handle,
    list: In<u64>,
    extra: In<u64>,
    together: bool,
) -> Result {
    let runtime = healthy()?;
    let kernel = runtime.function(function)?.kernel.clone();
    let arguments = match (list.is_null(), extra.is_null()) {
        (false, false) => return Err(Failure::new(Status::INVALID_VALUE, "both kernelParams and extra")),
        (true, false) => Arguments::Extra(extra),
        (_, true) => Arguments::List(list),
    };
    let launch = prepare(runtime, kernel, grid, block, lds_bytes, &arguments)?;
    submit(stream, Work::Launch(Arc::new(at_once(runtime, launch, together)?)))
}

fn launch_symbol(
    function: *const c_void,
    grid: Dim3,
    block: Dim3,
    list: In<u64>,
    lds_bytes: u64,
    stream: Handle,
    together: bool,
) -> Result {
    let runtime = healthy()?;
    let kernel = register::kernel(runtime, function.addr())?;
    let lds_bytes = u32::try_from(lds_bytes).map_err(|_| Status::INVALID_VALUE)?;
    let launch = prepare(runtime, kernel, grid.list(), block.list(), lds_bytes, &Arguments::List(list))?;
    submit(stream, Work::Launch(Arc::new(at_once(runtime, launch, together)?)))
}

/// Workgroups of a launch that says its grid in threads: all must be whole.
fn workgroups(threads: [u32; 3], block: [u32; 3]) -> Result<[u32; 3]> {
    if block.contains(&0) || threads.iter().zip(&block).any(|(&threads, &block)| threads % block != 0) {
        let reason = format!("{threads:?} threads in workgroups of {block:?}: a partial workgroup is not emulated");
        return Err(Failure::new(Status::INVALID_CONFIGURATION, reason));
    }
    Ok(std::array::from_fn(|axis| threads[axis] / block[axis]))
}

/// `hipLaunchConfig_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LaunchConfiguration {
    grid: Dim3,
    block: Dim3,
    lds_bytes: u64,
    stream: Handle,
    attributes: In<LaunchAttribute>,
    attribute_count: c_uint,
}

/// `hipLaunchAttribute`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct LaunchAttribute {
    id: c_int,
    value: [u32; 17],
}

impl LaunchAttribute {
    /// `hipLaunchAttributeCooperative`; the value lies at the eighth byte.
    fn is_cooperative(&self) -> bool {
        self.id == 2 && self.value[1] != 0
    }
}

/// What `<<<…>>>` pushes before it calls the kernel's host function.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    lds_bytes: u64,
    stream: Handle,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

export! {
    /// `__hipPushCallConfiguration`
    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, lds_bytes: u64, stream: Handle) {
        CONFIGURATIONS.with(|stack| stack.borrow_mut().push(Configuration { grid, block, lds_bytes, stream }));
        Ok(())
    }

    /// `__hipPopCallConfiguration`
    fn __hipPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, lds_bytes: Out<u64>, stream: Out<Handle>) {
        let top = CONFIGURATIONS.with(|stack| stack.borrow_mut().pop()).ok_or(Status::MISSING_CONFIGURATION)?;
        grid.put(top.grid)?;
        block.put(top.block)?;
        lds_bytes.put(top.lds_bytes)?;
        stream.put(top.stream)
    }

    /// `hipLaunchKernel`
    fn hipLaunchKernel(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: In<u64>, lds_bytes: u64, stream: Handle,
    ) {
        launch_symbol(function, grid, block, arguments, lds_bytes, stream, false)
    }

    /// `hipLaunchKernel_spt`
    fn hipLaunchKernel_spt(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: In<u64>, lds_bytes: u64, stream: Handle,
    ) {
        launch_symbol(function, grid, block, arguments, lds_bytes, stream, false)
    }

    /// `hipExtLaunchKernel`
    fn hipExtLaunchKernel(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: In<u64>, lds_bytes: u64, stream: Handle,
        start: Handle, stop: Handle, _flags: c_int,
    ) {
        record(start, stream)?;
        launch_symbol(function, grid, block, arguments, lds_bytes, stream, false)?;
        record(stop, stream)
    }

    /// `hipLaunchKernelExC`: of the attributes that for cooperative launches counts, the others change nothing.
    fn hipLaunchKernelExC(with: In<LaunchConfiguration>, function: *const c_void, arguments: In<u64>) {
        let LaunchConfiguration { grid, block, lds_bytes, stream, attributes, attribute_count } = with.get()?;
        let together = attributes.list(attribute_count as usize)?.iter().any(LaunchAttribute::is_cooperative);
        launch_symbol(function, grid, block, arguments, lds_bytes, stream, together)
    }

    /// `hipLaunchCooperativeKernel`: all workgroups run at the same time.
    fn hipLaunchCooperativeKernel(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: In<u64>, lds_bytes: c_uint, stream: Handle,
    ) {
        launch_symbol(function, grid, block, arguments, u64::from(lds_bytes), stream, true)
    }

    /// `hipModuleLaunchKernel`
    fn hipModuleLaunchKernel(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: c_uint, stream: Handle, arguments: In<u64>, extra: In<u64>,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch_function(function, grid, block, lds_bytes, stream, arguments, extra, false)
    }

    /// `hipModuleLaunchCooperativeKernel`: as `hipLaunchCooperativeKernel`.
    fn hipModuleLaunchCooperativeKernel(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: c_uint, stream: Handle, arguments: In<u64>,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch_function(function, grid, block, lds_bytes, stream, arguments, In::null(), true)
    }

    /// `hipExtModuleLaunchKernel`: its grid is in threads.
    fn hipExtModuleLaunchKernel(
        function: Handle, threads_x: c_uint, threads_y: c_uint, threads_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: u64, stream: Handle, arguments: In<u64>, extra: In<u64>, start: Handle,
        stop: Handle, _flags: c_uint,
    ) {
        let block = [block_x, block_y, block_z];
        let grid = workgroups([threads_x, threads_y, threads_z], block)?;
        let lds_bytes = u32::try_from(lds_bytes).map_err(|_| Status::INVALID_VALUE)?;
        record(start, stream)?;
        launch_function(function, grid, block, lds_bytes, stream, arguments, extra, false)?;
        record(stop, stream)
    }

    /// `hipFuncSetAttribute`: every workgroup has all LDS there is without asking.
    fn hipFuncSetAttribute(function: *const c_void, attribute: c_int, value: c_int) {
        register::kernel(healthy()?, function.addr())?;
        let possible = FUNCTION_SETTINGS.contains(&attribute) && value >= 0;
        if possible { Ok(()) } else { Err(Status::INVALID_VALUE.into()) }
    }

    /// `hipFuncSetCacheConfig`: accepted, and changes nothing.
    fn hipFuncSetCacheConfig(_function: *const c_void, _config: c_int) {
        healthy().map(|_| ())
    }

    /// `hipFuncSetSharedMemConfig`: accepted, and changes nothing.
    fn hipFuncSetSharedMemConfig(_function: *const c_void, _config: c_int) {
        healthy().map(|_| ())
    }
}

/// Records an event, if there is one.
fn record(event: Handle, stream: Handle) -> Result {
    if event == 0 {
        return Ok(());
    }
    let event = healthy()?.events.get(event).ok_or(Status::INVALID_HANDLE)?;
    submit(stream, Work::Record(event))
}
