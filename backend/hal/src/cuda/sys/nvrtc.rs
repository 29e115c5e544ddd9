//! `libnvrtc`: what it has in its own way. The rest it shares with hiprtc: `gpu/sys/compiler.rs`.

use std::ffi::c_int;

use crate::foreign::Status;

crate::foreign::table! {
    /// The one function.
    Nvrtc {
        /// Version of CUDA that it belongs to.
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status;
    }
}
