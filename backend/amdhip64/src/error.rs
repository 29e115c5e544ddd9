//! `hipGetLastError` and the texts of codes.

use std::ffi::{c_char, c_int};

use crate::call::{export, last_error};
use crate::foreign::Out;
use crate::status::Status;

/// `hipGetLastError`
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> c_int {
    last_error(true).0
}

/// `hipExtGetLastError`
#[unsafe(no_mangle)]
pub extern "C" fn hipExtGetLastError() -> c_int {
    last_error(true).0
}

/// `hipPeekAtLastError`
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    last_error(false).0
}

/// `hipGetErrorName`
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    Status(status).name().as_ptr()
}

/// `hipGetErrorString`
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    Status(status).text().as_ptr()
}

export! {
    /// `hipDrvGetErrorName`
    fn hipDrvGetErrorName(status: c_int, text: Out<*const c_char>) {
        text.put(Status(status).name().as_ptr())
    }

    /// `hipDrvGetErrorString`
    fn hipDrvGetErrorString(status: c_int, text: Out<*const c_char>) {
        text.put(Status(status).text().as_ptr())
    }
}
