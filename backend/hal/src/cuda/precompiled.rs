//! The prelude as NVRTC precompiles it, since CUDA 12.8.
//!
//! NVRTC maps such a header into a heap of its own, which lies elsewhere in each process, so no other process can read it; and a file
//! that is cut while it is mapped ends the process. So it is written into a folder of this process alone, opened, and its name is
//! taken away at once: what is left goes with the process, however that ends. NVRTC reads it by its number among the open files,
//! which only Linux has.
//!
//! It is read only where macros are the same as when it was made. So a source's own go before its text as lines, which is the same
//! where none of them is a word of the prelude, and what cannot be written as a line does without.
//!
//! Source: NVIDIA's NVRTC reference, "Precompiled Header (PCH) (CUDA 12.8+)"; that it cannot be read elsewhere, and what it answers
//! then, from NVRTC 12.9 and 13.5.

use super::rtc::{OPTIONS, Rtc};
use crate::compile::{Failure, Form, Unit, rtc};
use crate::gpu::sys::compiler::CompilerLibrary;

/// What NVRTC prints where it has read one.
const USED: &str = "using precompiled header file";

/// Makes one for a target and its architecture's macros.
///
/// # Errors
/// Why there is none.
pub(super) fn make(nvrtc: &Rtc, target: &str, defines: &[(String, String)]) -> Result<Form, String> {
    if !cfg!(target_os = "linux") {
        return Err("a file without a name cannot be given to NVRTC here".to_owned());
    }
    if !nvrtc.own.library().has("nvrtcGetPCHCreateStatus") {
        return Err("NVRTC does so since CUDA 12.8".to_owned());
    }
    let folder = tempfile::Builder::new().prefix("rocfire-").tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("prelude.pch");
    let mut options = rtc::usual_options(target, OPTIONS, defines);
    options.push(format!("--create-pch={}", path.display()));
    let made = rtc::run(nvrtc.table, "prelude", rtc::INCLUSION, &options, &mut std::iter::empty(), |program| {
        // SAFETY: the program is alive.
        rtc::check(nvrtc.table, unsafe { nvrtc.own.nvrtcGetPCHCreateStatus(program) })
    });
    made.map_err(told)?;
    let file = std::fs::File::open(&path).map_err(|error| error.to_string())?;
    Ok(Form::File(file, defines.to_owned()))
}

/// Compiles behind a unit's precompiled prelude. `None` if it has none or cannot be put behind it.
///
/// # Errors
/// Why it does not compile so: perhaps it does not at all.
pub(super) fn compile(library: &CompilerLibrary, unit: &Unit<'_>) -> Result<Option<Vec<u8>>, String> {
    let Some(prelude) = unit.prelude else { return Ok(None) };
    let Some((file, with)) = prelude.file() else { return Ok(None) };
    let Some(lines) = unit.defines.strip_prefix(with).and_then(as_lines) else { return Ok(None) };
    let text = format!("{}{lines}{}{}", rtc::INCLUSION, rtc::FIRST_LINE, unit.text);
    let mut options = rtc::usual_options(unit.target, OPTIONS, with);
    options.extend(unit.flags.iter().cloned());
    options.push(format!("--use-pch={}", path(file)));
    let mut headers = rocfire_prelude::hip::for_nvrtc().filter(|_| unit.hip);
    let made = rtc::run(library, unit.name, &text, &options, &mut headers, |program| {
        Ok((rtc::code(library, program)?, rtc::log(library, program)?))
    });
    let (code, log) = made.map_err(told)?;
    if !log.contains(USED) {
        prelude.refuse(log);
    }
    Ok(Some(code))
}

/// Macros as lines of a source. `None` if one could be read otherwise than as an option.
fn as_lines(defines: &[(String, String)]) -> Option<String> {
    let plain = |text: &str| !text.contains(['\n', '\r', '\\']) && !text.contains("//") && !text.contains("/*");
    let line =
        |(name, value): &(String, String)| (plain(name) && plain(value)).then(|| format!("#define {name} {value}\n"));
    defines.iter().map(line).collect()
}

/// A path that is this open file.
#[cfg(target_os = "linux")]
fn path(file: &std::fs::File) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
}

#[cfg(not(target_os = "linux"))]
fn path(_file: &std::fs::File) -> String {
    unreachable!("none is made here")
}

fn told(failure: Failure) -> String {
    match failure {
        Failure::UnknownTarget => "NVRTC does not know the target".to_owned(),
        Failure::Diagnostics(log) => log,
        Failure::Other(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
