//! `libnvrtc`: CUDA's run-time compiler.
//!
//! Source: NVIDIA's NVRTC reference, versions 11 to 13.

use std::ffi::{c_char, c_int, c_void};

/// `nvrtcResult`.
pub type Status = c_int;
/// `nvrtcProgram`.
pub type Program = *mut c_void;

/// `NVRTC_SUCCESS`.
pub const SUCCESS: Status = 0;

super::table! {
    /// The functions of NVRTC that are used.
    Nvrtc {
        /// Version of CUDA that it belongs to.
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status;
        /// A code's text.
        fn nvrtcGetErrorString(status: Status) -> *const c_char;
        /// A program of a source and headers.
        fn nvrtcCreateProgram(
            program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int,
            header_texts: *const *const c_char, header_names: *const *const c_char
        ) -> Status;
        /// Compiles it.
        fn nvrtcCompileProgram(program: Program, options: c_int, texts: *const *const c_char) -> Status;
        /// Length of the log, its final zero included.
        fn nvrtcGetProgramLogSize(program: Program, bytes: *mut usize) -> Status;
        /// The log.
        fn nvrtcGetProgramLog(program: Program, log: *mut c_char) -> Status;
        /// Length of the machine code.
        fn nvrtcGetCUBINSize(program: Program, bytes: *mut usize) -> Status;
        /// The machine code, an ELF file.
        fn nvrtcGetCUBIN(program: Program, code: *mut c_char) -> Status;
        /// Ends it.
        fn nvrtcDestroyProgram(program: *mut Program) -> Status;
    }
}

crate::compile::runtime_compiler!(Nvrtc: nvrtcGetErrorString, nvrtcCreateProgram, nvrtcCompileProgram,
    nvrtcGetProgramLogSize, nvrtcGetProgramLog, nvrtcGetCUBINSize, nvrtcGetCUBIN, nvrtcDestroyProgram);
