//! Compilers that are libraries: hiprtc and NVRTC, whose functions differ in their names only.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use rocfire_prelude::hip::Header;

use super::{Failure, Unit};
use crate::{Error, Result};

/// `hiprtcResult`, `nvrtcResult`.
pub(crate) type Status = c_int;
/// `hiprtcProgram`, `nvrtcProgram`.
pub(crate) type Program = *mut c_void;
/// The name of a function, and what it answered.
pub(crate) type Answer = Result<(&'static str, Status)>;

/// The codes of both for success, for an option that they do not know, and for a source that does not compile.
const SUCCESS: Status = 0;
const INVALID_OPTION: Status = 5;
const COMPILATION: Status = 6;

const PRELUDE_FILE: &str = "rocfire_prelude.h";
const OPENING: &str = "#include \"rocfire_prelude.h\"\n#line 1\n";

/// The functions that both libraries have. Made for a table by [`runtime_compiler`].
///
/// # Safety
/// Each function's arguments are as the library's documentation demands.
pub(crate) trait RuntimeCompiler {
    /// A code's text.
    unsafe fn error_text(&self, status: Status) -> Result<*const c_char>;
    /// A program of a source and headers.
    unsafe fn create(
        &self,
        program: *mut Program,
        source: *const c_char,
        name: *const c_char,
        headers: (c_int, *const *const c_char, *const *const c_char),
    ) -> Answer;
    /// Compiles it.
    unsafe fn compile(&self, program: Program, options: c_int, texts: *const *const c_char) -> Answer;
    /// Length of the log, its final zero included.
    unsafe fn log_bytes(&self, program: Program, bytes: *mut usize) -> Answer;
    /// The log.
    unsafe fn log(&self, program: Program, log: *mut c_char) -> Answer;
    /// Length of the machine code.
    unsafe fn code_bytes(&self, program: Program, bytes: *mut usize) -> Answer;
    /// The machine code.
    unsafe fn code(&self, program: Program, code: *mut c_char) -> Answer;
    /// Ends it.
    unsafe fn destroy(&self, program: *mut Program) -> Answer;
}

/// Implements [`RuntimeCompiler`] for a table by the names of its functions, in the trait's order.
macro_rules! runtime_compiler {
    ($table:ty: $text:ident, $create:ident, $compile:ident, $log_bytes:ident, $log:ident, $code_bytes:ident, $code:ident,
     $destroy:ident) => {
        // Each function's arguments are its caller's duty, as the trait says.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "said once above, for all")]
        impl $crate::compile::RuntimeCompiler for $table {
            unsafe fn error_text(&self, status: Status) -> $crate::Result<*const std::ffi::c_char> {
                unsafe { self.$text(status) }
            }
            unsafe fn create(
                &self,
                program: *mut Program,
                source: *const std::ffi::c_char,
                name: *const std::ffi::c_char,
                (headers, texts, names): (
                    std::ffi::c_int,
                    *const *const std::ffi::c_char,
                    *const *const std::ffi::c_char,
                ),
            ) -> $crate::compile::Answer {
                let status = unsafe { self.$create(program, source, name, headers, texts, names)? };
                Ok((stringify!($create), status))
            }
            unsafe fn compile(
                &self,
                program: Program,
                options: std::ffi::c_int,
                texts: *const *const std::ffi::c_char,
            ) -> $crate::compile::Answer {
                Ok((stringify!($compile), unsafe { self.$compile(program, options, texts)? }))
            }
            unsafe fn log_bytes(&self, program: Program, bytes: *mut usize) -> $crate::compile::Answer {
                Ok((stringify!($log_bytes), unsafe { self.$log_bytes(program, bytes)? }))
            }
            unsafe fn log(&self, program: Program, log: *mut std::ffi::c_char) -> $crate::compile::Answer {
                Ok((stringify!($log), unsafe { self.$log(program, log)? }))
            }
            unsafe fn code_bytes(&self, program: Program, bytes: *mut usize) -> $crate::compile::Answer {
                Ok((stringify!($code_bytes), unsafe { self.$code_bytes(program, bytes)? }))
            }
            unsafe fn code(&self, program: Program, code: *mut std::ffi::c_char) -> $crate::compile::Answer {
                Ok((stringify!($code), unsafe { self.$code(program, code)? }))
            }
            unsafe fn destroy(&self, program: *mut Program) -> $crate::compile::Answer {
                Ok((stringify!($destroy), unsafe { self.$destroy(program)? }))
            }
        }
    };
}
pub(crate) use runtime_compiler;

/// Compiles a unit behind the prelude with these options; target and macros are added. `hip` is the headers that the unit may
/// include if it is ordinary HIP.
pub(crate) fn compile(
    rtc: &dyn RuntimeCompiler,
    unit: &Unit<'_>,
    options: &[&str],
    hip: &mut dyn Iterator<Item = Header>,
) -> Result<Vec<u8>, Failure> {
    let c_text = |text: &str| {
        CString::new(text).map_err(|_| Failure::Diagnostics("a zero character in the source or a macro".to_owned()))
    };
    let (source, name) = (c_text(&format!("{OPENING}{}", unit.text))?, c_text(unit.name)?);
    let hip: Vec<Header> = if unit.hip { hip.collect() } else { Vec::new() };
    let headers = std::iter::once((PRELUDE_FILE, rocfire_prelude::TEXT)).chain(hip);
    let headers = headers.map(|(name, text)| Ok((c_text(name)?, c_text(text)?))).collect::<Result<Vec<_>, _>>()?;
    let mut texts = vec![format!("--gpu-architecture={}", unit.target)];
    texts.extend(options.iter().map(|&option| option.to_owned()));
    texts.extend(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    texts.extend(unit.flags.iter().cloned());
    let texts = texts.iter().map(|text| c_text(text)).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let header_names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let header_texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: all texts end with a zero and live until the end of this function; the program goes to a local.
    let created = unsafe {
        let headers = (header_texts.len() as c_int, header_texts.as_ptr(), header_names.as_ptr());
        rtc.create(&mut program, source.as_ptr(), name.as_ptr(), headers)
    };
    check(rtc, created)?;
    // SAFETY: the program was just made, the options end with a zero each and are as many as said.
    let compiled = unsafe { rtc.compile(program, texts.len() as c_int, texts.as_ptr()) };
    let outcome = match compiled {
        Ok((_, SUCCESS)) => code(rtc, program),
        Ok((_, COMPILATION)) => Err(log(rtc, program).map_or_else(|failure| failure, Failure::Diagnostics)),
        // The options are ours, and the same for every target that is known.
        Ok((_, INVALID_OPTION)) => match log(rtc, program) {
            Ok(log) if log.contains("gpu-architecture") => Err(Failure::UnknownTarget),
            Ok(log) => Err(Failure::Diagnostics(log)),
            Err(failure) => Err(failure),
        },
        other => Err(check(rtc, other).expect_err("success was looked at first")),
    };
    // SAFETY: the program was made above and is not used again. What it says is of no use to anybody.
    let _ = unsafe { rtc.destroy(&mut program) };
    outcome
}

fn check(rtc: &dyn RuntimeCompiler, answer: Answer) -> Result<(), Failure> {
    let (call, code) = answer.map_err(Failure::Other)?;
    if code == SUCCESS {
        return Ok(());
    }
    // SAFETY: any number may be passed.
    let text = unsafe { rtc.error_text(code) }.map_err(Failure::Other)?;
    // SAFETY: the texts are static and end with a zero; null is excluded.
    let name = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    Err(Failure::Other(Error::Driver { call, name: name.unwrap_or_else(|| "unknown error".to_owned()), code }))
}

fn log(rtc: &dyn RuntimeCompiler, program: Program) -> Result<String, Failure> {
    let mut bytes = 0;
    // SAFETY: the program is alive, the length goes to a local.
    check(rtc, unsafe { rtc.log_bytes(program, &mut bytes) })?;
    let mut log = vec![0_u8; bytes + 1];
    // SAFETY: the program is alive, the log has the length that was just said.
    check(rtc, unsafe { rtc.log(program, log.as_mut_ptr().cast()) })?;
    Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
}

fn code(rtc: &dyn RuntimeCompiler, program: Program) -> Result<Vec<u8>, Failure> {
    let mut bytes = 0;
    // SAFETY: the program is alive, the length goes to a local.
    check(rtc, unsafe { rtc.code_bytes(program, &mut bytes) })?;
    let mut code = vec![0_u8; bytes];
    // SAFETY: the program is alive, the code has the length that was just said.
    check(rtc, unsafe { rtc.code(program, code.as_mut_ptr().cast()) })?;
    Ok(code)
}
