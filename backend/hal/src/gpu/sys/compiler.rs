//! `libhiprtc` and `libnvrtc`: run-time compilers. hiprtc was in `libamdhip64` itself before HIP 6.
//!
//! Source: AMD's hiprtc reference, versions 5.2 to 7; NVIDIA's NVRTC reference, versions 11 to 13.

use std::ffi::{c_char, c_int, c_void};

use crate::foreign::Status;

/// `hiprtcProgram`, `nvrtcProgram`.
pub type Program = *mut c_void;

crate::foreign::table! {
    /// The functions of either that are used.
    CompilerLibrary {
        /// A code's text.
        fn error_text(status: Status) -> *const c_char = "hiprtcGetErrorString", "nvrtcGetErrorString";
        /// A program of a source and headers.
        fn create(
            program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int,
            header_texts: *const *const c_char, header_names: *const *const c_char
        ) -> Status = "hiprtcCreateProgram", "nvrtcCreateProgram";
        /// Compiles it.
        fn compile(program: Program, options: c_int, texts: *const *const c_char) -> Status
            = "hiprtcCompileProgram", "nvrtcCompileProgram";
        /// Length of the log, its final zero included.
        fn log_bytes(program: Program, bytes: *mut usize) -> Status = "hiprtcGetProgramLogSize", "nvrtcGetProgramLogSize";
        /// The log.
        fn log(program: Program, log: *mut c_char) -> Status = "hiprtcGetProgramLog", "nvrtcGetProgramLog";
        /// Length of the machine code.
        fn code_bytes(program: Program, bytes: *mut usize) -> Status = "hiprtcGetCodeSize", "nvrtcGetCUBINSize";
        /// The machine code, an ELF file.
        fn code(program: Program, code: *mut c_char) -> Status = "hiprtcGetCode", "nvrtcGetCUBIN";
        /// Ends it.
        fn destroy(program: *mut Program) -> Status = "hiprtcDestroyProgram", "nvrtcDestroyProgram";
    }
}
