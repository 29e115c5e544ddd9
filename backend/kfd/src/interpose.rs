//! The C library's functions that this library stands before: `open`, `fopen`, `opendir` and `ioctl`.
//!
//! Whatever is not the driver's goes on to the C library, or to the system call behind it. Nothing happens when the library
//! is loaded, so a program that asks for no card pays a comparison of paths. `mmap` and `close` are not among them: what the
//! runtime gets as the driver's descriptor is a file that can be mapped and closed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

use crate::card::{card, card_if_open};
use crate::files::{Place, place, redirect};
use crate::ioctl::{Argument, answer, is_ours};

fn fail(errno: i32) -> c_int {
    // SAFETY: the place of `errno` is this thread's.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// What a path is; null is nothing of ours, and the C library's to refuse.
///
/// # Safety
/// - `path` is null or a C string.
unsafe fn place_of(path: *const c_char) -> Place {
    if path.is_null() {
        return Place::Other;
    }
    // SAFETY: the caller's duty.
    place(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// # Safety
/// - As `openat` of the C library.
unsafe fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's duty.
    let place = unsafe { place_of(path) };
    let redirected = match place {
        Place::Device => return card().map_or_else(|| fail(libc::ENOENT), |card| card.file.descriptor()),
        Place::Topology(below) => match redirect(&below) {
            Some(path) => Some(path),
            None => return fail(libc::ENOENT),
        },
        Place::Other => None,
    };
    let path = redirected.as_ref().map_or(path, |path| path.as_ptr());
    // SAFETY: the caller's duty; a path of ours is absolute.
    unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) as c_int }
}

/// `open`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's duty.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

/// `open64`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's duty.
    unsafe { open_at(libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode) }
}

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
type Opendir = unsafe extern "C" fn(*const c_char) -> *mut c_void;

/// The next library's function of a name.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// A path that is given on: ours, if it is of the topology; null if that is not there.
///
/// # Safety
/// - `path` is null or a C string.
unsafe fn redirected(path: *const c_char) -> Option<std::ffi::CString> {
    // SAFETY: the caller's duty.
    match unsafe { place_of(path) } {
        Place::Topology(below) => redirect(&below),
        Place::Device | Place::Other => None,
    }
}

/// # Safety
/// - As `fopen` of the C library, by its name.
unsafe fn open_stream(name: &CStr, path: *const c_char, mode: *const c_char) -> *mut c_void {
    let function = next(name);
    if function.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the C library's function of this name has this type.
    let function: Fopen = unsafe { std::mem::transmute(function) };
    // SAFETY: the caller's duty.
    let ours = unsafe { redirected(path) };
    // SAFETY: the caller's duty.
    unsafe { function(ours.as_ref().map_or(path, |ours| ours.as_ptr()), mode) }
}

/// `fopen`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's duty.
    unsafe { open_stream(c"fopen", path, mode) }
}

/// `fopen64`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's duty.
    unsafe { open_stream(c"fopen64", path, mode) }
}

/// `opendir`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut c_void {
    let function = next(c"opendir");
    if function.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the C library's function of this name has this type.
    let function: Opendir = unsafe { std::mem::transmute(function) };
    // SAFETY: the caller's duty.
    let ours = unsafe { redirected(path) };
    // SAFETY: the caller's duty.
    unsafe { function(ours.as_ref().map_or(path, |ours| ours.as_ptr())) }
}

/// `ioctl`.
///
/// # Safety
/// - As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let ours = is_ours(request).then(card_if_open).flatten().filter(|card| card.file.has(fd));
    let Some(card) = ours else {
        // SAFETY: the caller's duty.
        return unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as c_int };
    };
    // SAFETY: the caller's duty.
    let argument = unsafe { Argument::new(request, argument.cast()) };
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(card, request, &argument)));
    match answered {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) => {
            crate::trace(|| format!("request {:#x} refused: {errno:?}", request & 0xff));
            fail(errno.0)
        }
        Err(_panic) => fail(libc::EIO),
    }
}

/// What C calls when the process ends.
pub extern "C" fn at_end() {
    crate::files::remove();
}

/// Has the topology's files removed when the process ends by `exit`.
pub fn remove_at_end() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: the function is one of C's, and stays.
        unsafe { libc::atexit(at_end) };
    });
}
