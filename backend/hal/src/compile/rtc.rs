//! Compilers that are libraries: hiprtc and NVRTC, whose functions differ in their names only.

use std::ffi::{CString, c_char, c_int};

use rocfire_prelude::hip::Header;

use super::{Failure, Unit};
use crate::Error;
use crate::foreign::{Answer, SUCCESS, Status, text};
use crate::gpu::sys::compiler::{CompilerLibrary, Program};

/// The codes of both for an option that they do not know, and for a source that does not compile.
const INVALID_OPTION: Status = 5;
const COMPILATION: Status = 6;

const PRELUDE_FILE: &str = "rocfire_prelude.h";
/// Reads the prelude.
pub(crate) const INCLUSION: &str = "#include \"rocfire_prelude.h\"\n";
/// Where a source's lines begin.
pub(crate) const FIRST_LINE: &str = "#line 1\n";

/// Compiles a unit behind the prelude with these options; target and macros are added. `hip` is the headers that the unit may
/// include if it is ordinary HIP.
pub(crate) fn compile(
    rtc: &CompilerLibrary,
    unit: &Unit<'_>,
    options: &[&str],
    hip: &mut dyn Iterator<Item = Header>,
) -> Result<Vec<u8>, Failure> {
    let text = format!("{INCLUSION}{FIRST_LINE}{}", unit.text);
    let mut options = usual_options(unit.target, options, unit.defines);
    options.extend(unit.flags.iter().cloned());
    run(rtc, unit.name, &text, &options, &mut hip.filter(|_| unit.hip), |program| code(rtc, program))
}

/// Target, options and macros as the libraries take them.
pub(crate) fn usual_options(target: &str, options: &[&str], defines: &[(String, String)]) -> Vec<String> {
    let mut texts = vec![format!("--gpu-architecture={target}")];
    texts.extend(options.iter().map(|&option| option.to_owned()));
    texts.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    texts
}

/// Compiles a text that may include the prelude and `headers`, and takes from the program what is wanted.
pub(crate) fn run<T>(
    rtc: &CompilerLibrary,
    name: &str,
    text: &str,
    options: &[String],
    headers: &mut dyn Iterator<Item = Header>,
    take: impl FnOnce(Program) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let c_text = |text: &str| {
        CString::new(text).map_err(|_| Failure::Diagnostics("a zero character in the source or a macro".to_owned()))
    };
    let (source, name) = (c_text(text)?, c_text(name)?);
    let headers = std::iter::once((PRELUDE_FILE, rocfire_prelude::TEXT)).chain(headers);
    let headers = headers.map(|(name, text)| Ok((c_text(name)?, c_text(text)?))).collect::<Result<Vec<_>, _>>()?;
    let texts = options.iter().map(|text| c_text(text)).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let header_names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let header_texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: all texts end with a zero and live until the end of this function; the program goes to a local.
    let created = unsafe {
        let count = header_texts.len() as c_int;
        rtc.create(&mut program, source.as_ptr(), name.as_ptr(), count, header_texts.as_ptr(), header_names.as_ptr())
    };
    check(rtc, created)?;
    // SAFETY: the program was just made, the options end with a zero each and are as many as said.
    let compiled = unsafe { rtc.compile(program, texts.len() as c_int, texts.as_ptr()) };
    let outcome = match compiled {
        Ok((_, SUCCESS)) => take(program),
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

/// Success, or what the library calls its answer.
pub(crate) fn check(rtc: &CompilerLibrary, answer: Answer) -> Result<(), Failure> {
    let (call, code) = answer.map_err(Failure::Other)?;
    if code == SUCCESS {
        return Ok(());
    }
    // SAFETY: any number may be passed.
    let (_, name) = unsafe { rtc.error_text(code) }.map_err(Failure::Other)?;
    let name = text(name).unwrap_or_else(|| "unknown error".to_owned());
    Err(Failure::Other(Error::Driver { call, name, code }))
}

/// What was printed.
pub(crate) fn log(rtc: &CompilerLibrary, program: Program) -> Result<String, Failure> {
    let mut bytes = 0;
    // SAFETY: the program is alive, the length goes to a local.
    check(rtc, unsafe { rtc.log_bytes(program, &mut bytes) })?;
    let mut log = vec![0_u8; bytes + 1];
    // SAFETY: the program is alive, the log has the length that was just said.
    check(rtc, unsafe { rtc.log(program, log.as_mut_ptr().cast()) })?;
    Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
}

/// The machine code.
pub(crate) fn code(rtc: &CompilerLibrary, program: Program) -> Result<Vec<u8>, Failure> {
    let mut bytes = 0;
    // SAFETY: the program is alive, the length goes to a local.
    check(rtc, unsafe { rtc.code_bytes(program, &mut bytes) })?;
    let mut code = vec![0_u8; bytes];
    // SAFETY: the program is alive, the code has the length that was just said.
    check(rtc, unsafe { rtc.code(program, code.as_mut_ptr().cast()) })?;
    Ok(code)
}
