//! NVRTC as a compiler.

use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Vendor};

use super::sys::nvrtc::Nvrtc;
use super::{candidates, dependent};
use crate::compile::{Compiler, Failure, Unit, rtc};
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
struct Rtc {
    table: &'static CompilerLibrary,
    identity: String,
}

fn open() -> Result<Rtc> {
    static TABLES: OnceLock<Result<(CompilerLibrary, Nvrtc), String>> = OnceLock::new();
    let open = || {
        let library = Arc::new(Library::open("libnvrtc", &candidates(&NAMES)).map_err(|error| match error {
            Error::Load { tried, .. } => tried,
            other => other.to_string(),
        })?);
        Ok((CompilerLibrary::new(Arc::clone(&library), Vendor::Nvidia), Nvrtc::new(library)))
    };
    let (table, own) = match TABLES.get_or_init(open) {
        Ok(tables) => (&tables.0, &tables.1),
        Err(tried) => return Err(Error::Load { library: "libnvrtc", tried: tried.clone() }),
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the version goes to locals.
    let (call, status) = unsafe { own.nvrtcVersion(&mut major, &mut minor)? };
    if status != SUCCESS {
        return Err(Error::Driver { call, name: "no version".to_owned(), code: status });
    }
    Ok(Rtc { table, identity: format!("nvrtc {major}.{minor} {} dependent own", OPTIONS.join(" ")) })
}

impl Compiler for Rtc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, unit: &Unit<'_>, _tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        let mut headers = rocfire_prelude::hip::for_nvrtc();
        let unit = Unit { target: with_own_instructions(unit.target), ..*unit };
        if !dependent::has(unit.target) {
            return rtc::compile(self.table, &unit, OPTIONS, &mut headers);
        }
        rtc::compile(self.table, &Unit { text: &dependent::waiting(unit.text), ..unit }, OPTIONS, &mut headers)
    }
}

/// The target whose code runs on this architecture alone, with the instructions that no later one has: Hopper's products of four warps.
fn with_own_instructions(target: &str) -> &str {
    if target == "sm_90" { "sm_90a" } else { target }
}
