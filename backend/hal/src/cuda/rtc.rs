//! NVRTC as a compiler.

use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Vendor};

use super::sys::nvrtc::Nvrtc;
use super::{candidates, dependent, precompiled};
use crate::compile::{Compiler, Failure, Form, Unit, rtc};
use crate::foreign::{Library, SUCCESS};
use crate::gpu::sys::compiler::CompilerLibrary;
use crate::{Error, Result};

const NAMES: [&str; 5] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", "nvrtc64_120_0.dll"];
/// NVRTC takes a lambda in a device function for the host's unless functions are the device's by default.
pub(crate) const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];

/// The compiler for an NVIDIA GPU.
///
/// # Errors
/// [`Error::NoCompiler`] with where NVRTC was looked for.
pub(crate) fn compiler(arch: Arch) -> Result<Arc<dyn Compiler>> {
    match open() {
        Ok(rtc) => Ok(Arc::new(rtc)),
        Err(error) => Err(Error::NoCompiler { arch, searched: error.to_string() }),
    }
}

/// NVRTC, open.
pub(super) struct Rtc {
    pub table: &'static CompilerLibrary,
    pub own: &'static Nvrtc,
    identity: String,
}

/// The one of this machine.
pub(super) fn open() -> Result<Rtc> {
    static TABLES: OnceLock<Result<(CompilerLibrary, Nvrtc), String>> = OnceLock::new();
    let open = || {
        let library = Arc::new(Library::open("libnvrtc", &candidates(&NAMES)).map_err(|error| match error {
            Error::Load { tried, .. } => tried,
            other => other.to_string(),
        })?);
        Ok(tables(library))
    };
    match TABLES.get_or_init(open) {
        Ok(tables) => over(tables),
        Err(tried) => Err(Error::Load { library: "libnvrtc", tried: tried.clone() }),
    }
}

/// Its functions: what it shares with hiprtc, and its own.
pub(super) fn tables(library: Arc<Library>) -> (CompilerLibrary, Nvrtc) {
    (CompilerLibrary::new(Arc::clone(&library), Vendor::Nvidia), Nvrtc::new(library))
}

/// NVRTC by its functions.
pub(super) fn over((table, own): &'static (CompilerLibrary, Nvrtc)) -> Result<Rtc> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the version goes to locals.
    let (call, status) = unsafe { own.nvrtcVersion(&mut major, &mut minor)? };
    if status != SUCCESS {
        return Err(Error::Driver { call, name: "no version".to_owned(), code: status });
    }
    Ok(Rtc { table, own, identity: format!("nvrtc {major}.{minor} {} dependent own", OPTIONS.join(" ")) })
}

impl Compiler for Rtc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, unit: &Unit<'_>, _tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        let target = with_own_instructions(unit.target);
        let waiting = dependent::has(target).then(|| dependent::waiting(unit.text));
        let unit = Unit { target, text: waiting.as_deref().unwrap_or(unit.text), ..*unit };
        let quickly = precompiled::compile(self.table, &unit);
        if let Ok(Some(code)) = quickly {
            return Ok(code);
        }
        let code = rtc::compile(self.table, &unit, OPTIONS, &mut rocfire_prelude::hip::for_nvrtc())?;
        if let (Err(why), Some(prelude)) = (quickly, unit.prelude) {
            prelude.refuse(why);
        }
        Ok(code)
    }

    fn precompile(&self, target: &str, defines: &[(String, String)]) -> Result<Form, String> {
        precompiled::make(self, with_own_instructions(target), defines)
    }

    /// Seen in 12.9 and 13.5: of many threads that compile small kernels two run at most, and the others wait for a lock.
    fn reads_one_at_a_time(&self) -> bool {
        true
    }
}

/// The target whose code runs on this architecture alone, with the instructions that no later one has: Hopper's products of four warps.
fn with_own_instructions(target: &str) -> &str {
    if target == "sm_90" { "sm_90a" } else { target }
}
