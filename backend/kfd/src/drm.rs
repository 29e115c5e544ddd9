//! The functions of `libdrm_amdgpu` by which the runtimes ask a render node for a card's name and facts.
//!
//! The library asks the kernel for much that nobody then wants, so it is stood before here, and not answered behind it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use rocfire_arch::Family;

use crate::card::{Card, card_if_open};
use crate::interpose::next;

/// The interface's version that is claimed: what the functions here have been in since it began.
const VERSION: [u32; 2] = [3, 0];

/// Bytes of `amdgpu_gpu_info`, and where in it the rate of the clock stands that kernels read as `wall_clock64`, kHz. What else
/// the runtimes read of it is about images and engines that are not here.
const INFO_BYTES: usize = 416;
/// See there.
const COUNTER_FREQUENCY: usize = 72;
/// And the kind of chip, `AMDGPU_FAMILY_`.
const CHIP_FAMILY: usize = 12;
/// The emulator's.
const COUNTER_KHZ: u32 = 100_000;

type Initialize = unsafe extern "C" fn(c_int, *mut u32, *mut u32, *mut *const c_void) -> c_int;
type Deinitialize = unsafe extern "C" fn(*const c_void) -> c_int;
type Descriptor = unsafe extern "C" fn(*const c_void) -> c_int;
type Info = unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int;
type Name = unsafe extern "C" fn(*const c_void) -> *const c_char;

/// What stands for the card among the library's own handles.
fn handle(card: &'static Card) -> *const c_void {
    std::ptr::from_ref(card).cast()
}

fn is_card(device: *const c_void) -> bool {
    card_if_open().is_some_and(|card| handle(card) == device)
}

/// The library's own function, if it is there.
fn own<T>(name: &CStr) -> Option<T> {
    assert_eq!(size_of::<T>(), size_of::<*mut c_void>(), "a function's pointer");
    let function = next(name);
    // SAFETY: the callers name the type that the library's function has, whose pointer is as large as any.
    (!function.is_null()).then(|| unsafe { std::mem::transmute_copy(&function) })
}

/// `amdgpu_device_initialize`.
///
/// # Safety
/// - As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_device_initialize(
    fd: c_int,
    major: *mut u32,
    minor: *mut u32,
    device: *mut *const c_void,
) -> c_int {
    if let Some(card) = card_if_open().filter(|card| card.file.has(fd)) {
        for (to, part) in [major, minor].into_iter().zip(VERSION) {
            if !to.is_null() {
                // SAFETY: the caller's duty.
                unsafe { to.write(part) };
            }
        }
        if !device.is_null() {
            // SAFETY: the caller's duty.
            unsafe { device.write(handle(card)) };
        }
        return 0;
    }
    match own::<Initialize>(c"amdgpu_device_initialize") {
        // SAFETY: the caller's duty.
        Some(function) => unsafe { function(fd, major, minor, device) },
        None => -libc::ENOSYS,
    }
}

/// `amdgpu_device_deinitialize`.
///
/// # Safety
/// - As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_device_deinitialize(device: *const c_void) -> c_int {
    if is_card(device) {
        return 0;
    }
    match own::<Deinitialize>(c"amdgpu_device_deinitialize") {
        // SAFETY: the caller's duty.
        Some(function) => unsafe { function(device) },
        None => -libc::ENOSYS,
    }
}

/// `amdgpu_device_get_fd`: a descriptor that the library keeps open.
///
/// # Safety
/// - As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_device_get_fd(device: *const c_void) -> c_int {
    if let Some(card) = card_if_open().filter(|&card| handle(card) == device) {
        return card.file.kept_descriptor();
    }
    match own::<Descriptor>(c"amdgpu_device_get_fd") {
        // SAFETY: the caller's duty.
        Some(function) => unsafe { function(device) },
        None => -libc::ENOSYS,
    }
}

/// The kind of chip, as the kernel's `amdgpu_drm.h` numbers them; 0 for those that it has no number of here.
fn chip_family(family: Family) -> u32 {
    match family {
        Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => 141,
        Family::Rdna1 | Family::Rdna2 => 143,
        Family::Rdna3 => 145,
        Family::Rdna35 => 150,
        Family::Rdna4 => 152,
        Family::Gfx125 | Family::Ampere | Family::Ada | Family::Hopper => 0,
    }
}

/// `amdgpu_query_gpu_info`: zero but for the clock and the kind of chip.
///
/// # Safety
/// - As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_query_gpu_info(device: *const c_void, info: *mut c_void) -> c_int {
    if let Some(card) = card_if_open().filter(|&card| handle(card) == device) {
        if info.is_null() {
            return -libc::EINVAL;
        }
        // SAFETY: the caller's struct is as large, in every version of the library so far.
        unsafe {
            info.cast::<u8>().write_bytes(0, INFO_BYTES);
            info.cast::<u8>().add(COUNTER_FREQUENCY).cast::<u32>().write_unaligned(COUNTER_KHZ);
            let family = chip_family(card.gpu.arch().info().family);
            info.cast::<u8>().add(CHIP_FAMILY).cast::<u32>().write_unaligned(family);
        };
        return 0;
    }
    match own::<Info>(c"amdgpu_query_gpu_info") {
        // SAFETY: the caller's duty.
        Some(function) => unsafe { function(device, info) },
        None => -libc::ENOSYS,
    }
}

/// `amdgpu_get_marketing_name`.
///
/// # Safety
/// - As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amdgpu_get_marketing_name(device: *const c_void) -> *const c_char {
    static NAME: OnceLock<CString> = OnceLock::new();
    if let Some(card) = card_if_open().filter(|&card| handle(card) == device) {
        let arch = card.gpu.arch();
        let of = arch.info().card.map_or("AMD GPU", |card| card.name);
        return NAME.get_or_init(|| CString::new(format!("{of} (emulated {arch})")).unwrap_or_default()).as_ptr();
    }
    match own::<Name>(c"amdgpu_get_marketing_name") {
        // SAFETY: the caller's duty.
        Some(function) => unsafe { function(device) },
        None => std::ptr::null(),
    }
}
