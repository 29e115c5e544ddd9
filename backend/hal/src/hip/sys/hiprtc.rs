//! `libhiprtc`: HIP's compiler, in `libamdhip64` itself before HIP 6.
//!
//! Source: AMD's hiprtc reference, versions 5.2 to 7.

use std::ffi::{c_char, c_int, c_void};

/// `hiprtcResult`.
pub type Status = c_int;
/// `hiprtcProgram`.
pub type Program = *mut c_void;

super::table! {
    /// The functions of hiprtc that are used.
    Hiprtc {
        /// A code's text.
        fn hiprtcGetErrorString(status: Status) -> *const c_char;
        /// A program of a source and headers.
        fn hiprtcCreateProgram(
            program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int,
            header_texts: *const *const c_char, header_names: *const *const c_char
        ) -> Status;
        /// Compiles it.
        fn hiprtcCompileProgram(program: Program, options: c_int, texts: *const *const c_char) -> Status;
        /// Length of the log, its final zero included.
        fn hiprtcGetProgramLogSize(program: Program, bytes: *mut usize) -> Status;
        /// The log.
        fn hiprtcGetProgramLog(program: Program, log: *mut c_char) -> Status;
        /// Length of the code object.
        fn hiprtcGetCodeSize(program: Program, bytes: *mut usize) -> Status;
        /// The code object.
        fn hiprtcGetCode(program: Program, code: *mut c_char) -> Status;
        /// Ends it.
        fn hiprtcDestroyProgram(program: *mut Program) -> Status;
    }
}

crate::compile::runtime_compiler!(Hiprtc: hiprtcGetErrorString, hiprtcCreateProgram, hiprtcCompileProgram,
    hiprtcGetProgramLogSize, hiprtcGetProgramLog, hiprtcGetCodeSize, hiprtcGetCode, hiprtcDestroyProgram);
