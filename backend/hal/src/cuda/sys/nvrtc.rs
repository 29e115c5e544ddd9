//! `libnvrtc`: what it has in its own way. The rest it shares with hiprtc: `gpu/sys/compiler.rs`.

use std::ffi::c_int;

use crate::foreign::Status;
use crate::gpu::sys::compiler::Program;

crate::foreign::table! {
    /// What hiprtc does not have.
    Nvrtc {
        /// Version of CUDA that it belongs to.
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status;
        /// Whether a program made the precompiled header that it was asked for. Since CUDA 12.8.
        fn nvrtcGetPCHCreateStatus(program: Program) -> Status;
    }
}
