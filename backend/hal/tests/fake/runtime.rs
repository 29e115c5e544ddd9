//! A libamdhip64 of HIP 5.2 with two devices, or with `--cfg cuda` a libcuda of CUDA 13.0. Their memory is the host's, and their
//! only kernel is `scale_f32` of `kernels/scale.hip`, written out here. For testing what the driver passes to the library, where
//! there is no GPU.
//!
//! Nothing on a stream is done before somebody waits for it, and then no more than that: what is used again too early shows.
//!
//! Compiled by `rustc` alone, as a shared library, by the tests in `src/gpu/tests.rs`. Written from AMD's and NVIDIA's API
//! references.
#![crate_type = "cdylib"]
#![allow(non_snake_case, unsafe_op_in_unsafe_fn, private_interfaces)]

#[macro_use]
mod exported;

use std::alloc::{Layout, alloc};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const INVALID: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const INVALID_DEVICE: c_int = 101;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;
const MEMORY_BYTES: usize = 64 << 20;
const STREAM: usize = 0x5712;
const SCALE: usize = 1;
const OTHER: usize = 2;
const DEVICES: usize = 2;
/// Each device has a stream for its computations, and one for transfers.
const STREAMS: usize = 2 * DEVICES;

static FAULTED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<State> = Mutex::new(State {
    queues: [const { Queue { steps: VecDeque::new(), done: 0 } }; STREAMS],
    events: Vec::new(),
    made: [0; DEVICES],
});
/// Waits for a stream, waits for an event that was not reached, pinned ranges, copies between devices; with CUDA also how often
/// shared memory was asked for, and launches that may begin early.
static COUNTS: [AtomicI64; 6] = [const { AtomicI64::new(0) }; 6];

thread_local! {
    static DEVICE: Cell<usize> = const { Cell::new(0) };
}

struct State {
    queues: [Queue; STREAMS],
    /// For each event the stream and how much of it comes before.
    events: Vec<(usize, u64)>,
    /// Streams that were made.
    made: [usize; DEVICES],
}

/// What is on a stream and was not done, and how much was.
struct Queue {
    steps: VecDeque<Queued>,
    done: u64,
}

enum Queued {
    Copy { target: usize, source: usize, bytes: usize },
    Set { target: usize, value: u8, bytes: usize },
    Scale { args: ScaleArgs, threads: u32 },
    /// For another stream.
    Wait { stream: usize, until: u64 },
}

// SAFETY: the addresses are numbers to everybody but the steps.
unsafe impl Send for Queued {}

impl State {
    fn put(&mut self, stream: usize, step: Queued) -> c_int {
        self.queues[stream].steps.push_back(step);
        0
    }

    fn end(&self, stream: usize) -> u64 {
        let queue = &self.queues[stream];
        queue.done + queue.steps.len() as u64
    }

    fn run(&mut self, stream: usize, until: u64) {
        while self.queues[stream].done < until {
            let step = self.queues[stream].steps.pop_front().expect("what is waited for was put there");
            self.queues[stream].done += 1;
            match step {
                // SAFETY: what the driver under test passes is good; that is what is tested.
                Queued::Copy { target, source, bytes } => unsafe {
                    let (target, source) = (target as *mut u8, source as *const u8);
                    source.copy_to(target, bytes);
                },
                // SAFETY: as above.
                Queued::Set { target, value, bytes } => unsafe { (target as *mut u8).write_bytes(value, bytes) },
                Queued::Scale { args, threads } => {
                    for i in 0..threads.min(args.count) as usize {
                        // SAFETY: as above.
                        unsafe { *args.y.add(i) = *args.x.add(i) * args.factor };
                    }
                }
                Queued::Wait { stream, until } => self.run(stream, until),
            }
        }
    }
}

/// `hipHostMallocMapped | hipHostMallocCoherent`, `CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: c_uint = if cfg!(cuda) { 2 } else { 0x4000_0002 };
/// `HIP_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_END`.
const LAUNCH_END: usize = if cfg!(cuda) { 0 } else { 3 };
const NAME: &CStr = if cfg!(cuda) { c"Fake H100" } else { c"Fake MI210" };
/// Dynamic LDS that the kernel may be launched with.
static LDS_BYTES: AtomicI64 = AtomicI64::new(if cfg!(cuda) { 48 << 10 } else { 64 << 10 });

/// The variables that every module has: this one, and what its kernels print.
static PRINTED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static RECORD: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// A word of it.
#[unsafe(no_mangle)]
pub extern "C" fn hipFakeRecord(word: c_int) -> u64 {
    RECORD[word as usize].load(Ordering::Relaxed)
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap()
}

/// The number of a stream; that of its device is the remainder by the number of those.
fn stream_of(handle: usize) -> Option<usize> {
    handle.checked_sub(STREAM).filter(|&stream| stream < STREAMS)
}

/// How often something happened: see [`COUNTS`].
#[unsafe(no_mangle)]
pub extern "C" fn hipFakeCount(which: c_int) -> c_int {
    COUNTS[which as usize].load(Ordering::Relaxed) as c_int
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ScaleArgs {
    x: *const f32,
    y: *mut f32,
    count: u32,
    factor: f32,
}

fn status(good: bool) -> c_int {
    if good { 0 } else { INVALID }
}

/// # Safety
/// `to` has room for the text and a zero.
unsafe fn put(to: *mut c_char, text: &CStr) {
    // SAFETY: as promised.
    unsafe { text.as_ptr().copy_to_nonoverlapping(to, text.count_bytes() + 1) }
}

// SAFETY, for everything below: the driver under test passes what HIP's reference asks for; that is what is tested.

exported! {
    fn hipRuntimeGetVersion(version: *mut c_int) {
        *version = 50_221_153;
        0
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    if status == ILLEGAL_ADDRESS { c"hipErrorIllegalAddress".as_ptr() } else { c"hipErrorOther".as_ptr() }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    if status == ILLEGAL_ADDRESS { c"an illegal memory access".as_ptr() } else { c"other".as_ptr() }
}

exported! {
    "cuDeviceGetCount" fn hipGetDeviceCount(count: *mut c_int) {
        *count = DEVICES as c_int;
        0
    }

    fn hipSetDevice(device: c_int) {
        let known = usize::try_from(device).ok().filter(|&device| device < DEVICES);
        known.map_or(INVALID_DEVICE, |device| {
            DEVICE.set(device);
            0
        })
    }

    "cuDeviceGetName" fn hipDeviceGetName(name: *mut c_char, _bytes: c_int, _device: c_int) {
        put(name, NAME);
        0
    }

    "cuDeviceGetAttribute" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        let known = match (cfg!(cuda), attribute) {
            (false, 63) => 104,
            (false, 87) => 64,
            (true, 1) => 1024,
            (true, 10) => 32,
            (true, 16) => 132,
            (true, 75) => 9,
            (true, 76) => 0,
            (true, 97) => 227 << 10,
            _ => return INVALID,
        };
        *value = known;
        0
    }

    "cuDeviceTotalMem_v2" fn hipDeviceTotalMem(bytes: *mut usize, _device: c_int) {
        *bytes = MEMORY_BYTES;
        0
    }
}

// HIP 5's layout: 792 bytes, the architecture at 396.
exported! {
    fn hipGetDeviceProperties(properties: *mut c_char, _device: c_int) {
        unsafe {
            properties.write_bytes(0, 792);
            put(properties, NAME);
            put(properties.add(396), c"gfx90a:sramecc+:xnack-");
        }
        0
    }

    "cuMemGetInfo_v2" fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        (*free, *total) = (MEMORY_BYTES / 4 * 3, MEMORY_BYTES);
        0
    }

    "cuMemAlloc_v2" fn hipMalloc(address: *mut *mut u8, bytes: usize) {
        let Ok(layout) = Layout::from_size_align(bytes, 256) else { return OUT_OF_MEMORY };
        if bytes == 0 || bytes > MEMORY_BYTES {
            return OUT_OF_MEMORY;
        }
        // SAFETY: the size is not 0; see above. It is given back when the process ends.
        *address = alloc(layout);
        0
    }

    "cuMemFree_v2" fn hipFree(_address: *mut u8) {
        0
    }

    "cuMemcpyHtoDAsync_v2" fn hipMemcpyHtoDAsync(target: usize, source: usize, bytes: usize, stream: usize) {
        stream_of(stream).map_or(INVALID, |stream| state().put(stream, Queued::Copy { target, source, bytes }))
    }

    "cuMemcpyDtoHAsync_v2" fn hipMemcpyDtoHAsync(target: usize, source: usize, bytes: usize, stream: usize) {
        hipMemcpyHtoDAsync(target, source, bytes, stream)
    }

    "cuMemcpyDtoDAsync_v2" fn hipMemcpyDtoDAsync(target: usize, source: usize, bytes: usize, stream: usize) {
        hipMemcpyHtoDAsync(target, source, bytes, stream)
    }

    "cuMemcpyHtoD_v2" fn hipMemcpyHtoD(target: *mut u8, source: *const u8, bytes: usize) {
        source.copy_to_nonoverlapping(target, bytes);
        0
    }

    fn hipMemcpyPeerAsync(
        target: *mut u8, target_device: c_int, source: *const u8, source_device: c_int, bytes: usize,
        stream: usize
    ) {
        COUNTS[3].fetch_add(1, Ordering::Relaxed);
        let Some(stream) = stream_of(stream) else { return INVALID };
        if target_device == source_device || stream % DEVICES != target_device as usize {
            return INVALID;
        }
        state().put(stream, Queued::Copy { target: target as usize, source: source as usize, bytes })
    }

    "cuMemHostAlloc" fn hipHostMalloc(memory: *mut *mut u8, bytes: usize, flags: c_uint) {
        COUNTS[2].fetch_add(1, Ordering::Relaxed);
        *memory = alloc(Layout::from_size_align(bytes, 4096).unwrap());
        status(flags == 0 || flags == MAPPED)
    }

    "cuMemHostGetDevicePointer_v2" fn hipHostGetDevicePointer(address: *mut *mut u8, memory: *mut u8, flags: c_uint) {
        *address = memory;
        status(flags == 0)
    }

    "cuMemFreeHost" fn hipHostFree(_memory: *mut u8) {
        COUNTS[2].fetch_sub(1, Ordering::Relaxed);
        0
    }

    "cuMemsetD8Async" fn hipMemsetD8Async(target: usize, value: u8, bytes: usize, stream: usize) {
        stream_of(stream).map_or(INVALID, |stream| state().put(stream, Queued::Set { target, value, bytes }))
    }

    "cuStreamCreate" fn hipStreamCreateWithFlags(stream: *mut usize, flags: c_uint) {
        let (mut state, device) = (state(), DEVICE.get());
        let number = state.made[device] % 2;
        state.made[device] += 1;
        *stream = STREAM + device + DEVICES * number;
        status(flags == 1)
    }

    "cuStreamSynchronize" fn hipStreamSynchronize(stream: usize) {
        COUNTS[0].fetch_add(1, Ordering::Relaxed);
        let Some(stream) = stream_of(stream) else { return INVALID };
        let mut state = state();
        let end = state.end(stream);
        state.run(stream, end);
        if FAULTED.load(Ordering::Relaxed) { ILLEGAL_ADDRESS } else { 0 }
    }

    "cuStreamDestroy_v2" fn hipStreamDestroy(stream: usize) {
        status(stream_of(stream).is_some())
    }

    "cuEventCreate" fn hipEventCreateWithFlags(event: *mut usize, flags: c_uint) {
        let mut state = state();
        state.events.push((0, 0));
        *event = state.events.len();
        status(flags == 0)
    }

    "cuEventRecord" fn hipEventRecord(event: usize, stream: usize) {
        let Some(stream) = stream_of(stream) else { return INVALID };
        let mut state = state();
        state.events[event - 1] = (stream, state.end(stream));
        0
    }

    "cuStreamWaitEvent" fn hipStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        let Some(own) = stream_of(stream) else { return INVALID };
        let mut state = state();
        let (stream, until) = state.events[event - 1];
        state.put(own, Queued::Wait { stream, until });
        status(flags == 0)
    }

    "cuEventSynchronize" fn hipEventSynchronize(event: usize) {
        let mut state = state();
        let (stream, until) = state.events[event - 1];
        if state.queues[stream].done < until {
            COUNTS[1].fetch_add(1, Ordering::Relaxed);
        }
        state.run(stream, until);
        if FAULTED.load(Ordering::Relaxed) { ILLEGAL_ADDRESS } else { 0 }
    }

    "cuEventElapsedTime" fn hipEventElapsedTime(milliseconds: *mut f32, start: usize, stop: usize) {
        *milliseconds = 1.5;
        status(start > 0 && stop > 0)
    }

    "cuEventDestroy_v2" fn hipEventDestroy(event: usize) {
        status(event > 0)
    }

    "cuModuleLoadData" fn hipModuleLoadData(module: *mut usize, image: *const [u8; 4]) {
        unsafe {
            *module = 9;
            status(*image == *b"\x7fELF")
        }
    }

    "cuModuleGetFunction" fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        unsafe { *function = if CStr::from_ptr(name) == c"scale_f32" { SCALE } else { OTHER } };
        status(module == 9)
    }

    "cuModuleGetGlobal_v2" fn hipModuleGetGlobal(
        address: *mut *const AtomicU64, bytes: *mut usize, module: usize, name: *const c_char,
    ) {
        unsafe {
            let words: &[AtomicU64] = match CStr::from_ptr(name).to_bytes() {
                b"rf_index_record" => &RECORD,
                b"__rocfire_print" => &PRINTED,
                _ => return NOT_FOUND,
            };
            (*address, *bytes) = (words.as_ptr(), size_of_val(words));
            status(module == 9)
        }
    }

    "cuModuleUnload" fn hipModuleUnload(module: usize) {
        status(module == 9)
    }

    "cuLaunchKernel" fn hipModuleLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: c_uint, stream: usize, parameters: *const c_void, extra: *const [usize;
        5],
    ) {
        let [pointer, args, size, args_bytes, end] = unsafe { *extra };
        let args_bytes = std::ptr::with_exposed_provenance::<usize>(args_bytes);
        let whole = unsafe { *args_bytes } == size_of::<ScaleArgs>();
        let has_lds = i64::from(lds_bytes) <= LDS_BYTES.load(Ordering::Relaxed);
        let one_axis = grid_y * grid_z * block_y * block_z == 1 && has_lds;
        let Some(stream) = stream_of(stream) else { return INVALID };
        if !parameters.is_null() || (pointer, size, end) != (1, 2, LAUNCH_END) || !whole || !one_axis {
            return INVALID;
        }
        if function != SCALE {
            FAULTED.store(true, Ordering::Relaxed);
            return 0;
        }
        let args = unsafe { std::ptr::with_exposed_provenance::<ScaleArgs>(args).read_unaligned() };
        state().put(stream, Queued::Scale { args, threads: grid_x * block_x })
    }
}

/// What CUDA's driver has in its own way.
#[cfg(cuda)]
mod cuda {
    use super::*;

    /// Contexts are the devices' numbers and this.
    const CONTEXT: usize = 0xc0;
    const HOPPER_EARLY: c_int = 6;

    #[repr(C)]
    pub struct Config {
        grid: [c_uint; 3],
        block: [c_uint; 3],
        shared_bytes: c_uint,
        stream: usize,
        attributes: *const [c_int; 18],
        attribute_count: c_uint,
    }

    exported! {
        fn cuInit(flags: c_uint) {
            status(flags == 0)
        }

        fn cuDriverGetVersion(version: *mut c_int) {
            *version = 13_000;
            0
        }

        fn cuGetErrorName(code: c_int, name: *mut *const c_char) {
            let known = if code == ILLEGAL_ADDRESS { c"CUDA_ERROR_ILLEGAL_ADDRESS" } else { c"CUDA_ERROR_OTHER" };
            *name = known.as_ptr();
            0
        }

        fn cuGetErrorString(code: c_int, text: *mut *const c_char) {
            *text = hipGetErrorString(code);
            0
        }

        fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
            *device = ordinal;
            status(ordinal < DEVICES as c_int)
        }

        fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
            *context = CONTEXT + device as usize;
            0
        }

        fn cuCtxSetCurrent(context: usize) {
            hipSetDevice((context - CONTEXT) as c_int)
        }

        fn cuMemcpyPeerAsync(
            target: *mut u8, to: usize, source: *const u8, from: usize, bytes: usize, stream: usize
        ) {
            hipMemcpyPeerAsync(target, (to - CONTEXT) as c_int, source, (from - CONTEXT) as c_int, bytes, stream)
        }

        fn cuFuncSetAttribute(_function: usize, attribute: c_int, value: c_int) {
            COUNTS[4].fetch_add(1, Ordering::Relaxed);
            LDS_BYTES.store(i64::from(value), Ordering::Relaxed);
            status(attribute == 8)
        }

        fn cuLaunchKernelEx(
            config: *const Config, function: usize, parameters: *const c_void, extra: *const [usize; 5]
        ) {
            COUNTS[5].fetch_add(1, Ordering::Relaxed);
            let (Config { grid: [x, y, z], block: [a, b, c], shared_bytes, stream, attribute_count, .. }, attribute) =
                (&*config, *(*config).attributes);
            if (*attribute_count, attribute[0], attribute[2]) != (1, HOPPER_EARLY, 1) {
                return INVALID;
            }
            hipModuleLaunchKernel(function, *x, *y, *z, *a, *b, *c, *shared_bytes, *stream, parameters, extra)
        }
    }
}
