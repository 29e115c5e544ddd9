//! A libamdhip64 of HIP 5.2 with one device, whose memory is the host's and whose only kernel is `scale_f32` of
//! `kernels/scale.hip`, written out here. For testing what the driver passes to the library, where there is no GPU.
//!
//! Compiled by `rustc` alone, as a shared library, by the tests in `src/hip/tests.rs`. Written from AMD's API reference.
#![crate_type = "cdylib"]
#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::alloc::{Layout, alloc};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

const INVALID: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const INVALID_DEVICE: c_int = 101;
const ILLEGAL_ADDRESS: c_int = 700;
const MEMORY_BYTES: usize = 64 << 20;
const STREAM: usize = 0x5712;
const SCALE: usize = 1;
const OTHER: usize = 2;

static FAULTED: AtomicBool = AtomicBool::new(false);

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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: see above.
    unsafe { *version = 50_221_153 };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    if status == ILLEGAL_ADDRESS { c"hipErrorIllegalAddress".as_ptr() } else { c"hipErrorOther".as_ptr() }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    if status == ILLEGAL_ADDRESS { c"an illegal memory access".as_ptr() } else { c"other".as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    // SAFETY: see above.
    unsafe { *count = 1 };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> c_int {
    if device == 0 { 0 } else { INVALID_DEVICE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, _bytes: c_int, _device: c_int) -> c_int {
    // SAFETY: see above.
    unsafe { put(name, c"Fake MI210") };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
    let known = match attribute {
        63 => 104,
        87 => 64,
        _ => return INVALID,
    };
    // SAFETY: see above.
    unsafe { *value = known };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, _device: c_int) -> c_int {
    // SAFETY: see above.
    unsafe { *bytes = MEMORY_BYTES };
    0
}

/// HIP 5's layout: 792 bytes, the architecture at 396.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceProperties(properties: *mut c_char, _device: c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        properties.write_bytes(0, 792);
        put(properties, c"Fake MI210");
        put(properties.add(396), c"gfx90a:sramecc+:xnack-");
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    // SAFETY: see above.
    unsafe { (*free, *total) = (MEMORY_BYTES / 4 * 3, MEMORY_BYTES) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(address: *mut *mut u8, bytes: usize) -> c_int {
    let Ok(layout) = Layout::from_size_align(bytes, 256) else { return OUT_OF_MEMORY };
    if bytes == 0 || bytes > MEMORY_BYTES {
        return OUT_OF_MEMORY;
    }
    // SAFETY: the size is not 0; see above. It is given back when the process ends.
    unsafe { *address = alloc(layout) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn hipFree(_address: *mut u8) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyAsync(
    target: *mut u8,
    source: *const u8,
    bytes: usize,
    kind: c_int,
    stream: usize,
) -> c_int {
    if stream != STREAM || !(1..=3).contains(&kind) {
        return INVALID;
    }
    // SAFETY: see above.
    unsafe { source.copy_to(target, bytes) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetAsync(target: *mut u8, value: c_int, bytes: usize, stream: usize) -> c_int {
    // SAFETY: see above.
    unsafe { target.write_bytes(value as u8, bytes) };
    status(stream == STREAM)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut usize, flags: c_uint) -> c_int {
    // SAFETY: see above.
    unsafe { *stream = STREAM };
    status(flags == 1)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamSynchronize(stream: usize) -> c_int {
    if FAULTED.load(Ordering::Relaxed) { ILLEGAL_ADDRESS } else { status(stream == STREAM) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamDestroy(stream: usize) -> c_int {
    status(stream == STREAM)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(event: *mut usize, flags: c_uint) -> c_int {
    // SAFETY: see above.
    unsafe { *event = 7 };
    status(flags == 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventRecord(event: usize, stream: usize) -> c_int {
    status(event == 7 && stream == STREAM)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventSynchronize(event: usize) -> c_int {
    status(event == 7)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(milliseconds: *mut f32, start: usize, stop: usize) -> c_int {
    // SAFETY: see above.
    unsafe { *milliseconds = 1.5 };
    status(start == 7 && stop == 7)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventDestroy(event: usize) -> c_int {
    status(event == 7)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(module: *mut usize, image: *const [u8; 4]) -> c_int {
    // SAFETY: see above.
    unsafe {
        *module = 9;
        status(*image == *b"\x7fELF")
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> c_int {
    // SAFETY: see above.
    unsafe { *function = if CStr::from_ptr(name) == c"scale_f32" { SCALE } else { OTHER } };
    status(module == 9)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipModuleUnload(module: usize) -> c_int {
    status(module == 9)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    lds_bytes: c_uint,
    stream: usize,
    parameters: *const c_void,
    extra: *const [usize; 5],
) -> c_int {
    // SAFETY: see above.
    let [pointer, args, size, args_bytes, end] = unsafe { *extra };
    let args_bytes = std::ptr::with_exposed_provenance::<usize>(args_bytes);
    // SAFETY: see above.
    let whole = unsafe { *args_bytes } == size_of::<ScaleArgs>();
    let one_axis = grid_y * grid_z * block_y * block_z == 1 && lds_bytes == 0;
    if stream != STREAM || !parameters.is_null() || (pointer, size, end) != (1, 2, 3) || !whole || !one_axis {
        return INVALID;
    }
    if function != SCALE {
        FAULTED.store(true, Ordering::Relaxed);
        return 0;
    }
    // SAFETY: see above. The driver's bytes need not be aligned.
    let args = unsafe { std::ptr::with_exposed_provenance::<ScaleArgs>(args).read_unaligned() };
    for i in 0..(grid_x * block_x).min(args.count) as usize {
        // SAFETY: see above.
        unsafe { *args.y.add(i) = *args.x.add(i) * args.factor };
    }
    0
}
