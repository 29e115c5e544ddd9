//! hiprtc as a compiler, and the choice between it and clang for real devices.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Family, Vendor};

use super::{Hip, candidates};
use crate::compile::{Compiler, Failure, Unit, clang_or_error, rtc};
use crate::foreign::Library;
use crate::gpu::sys::compiler::CompilerLibrary;
use crate::gpu::{Platform, Version};
use crate::{Error, Result};

/// hiprtc of this version or newer is preferred to clang: its compiler is LLVM 20 or newer.
const PREFERRED_MAJOR: u32 = 7;
const NAMES: [&str; 4] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];
const OPTIONS: &[&str] = &["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno"];

/// The compiler for a real device: hiprtc of ROCm 7 or newer, else clang, else an older hiprtc that knows the target.
pub(crate) fn compiler(arch: Arch) -> Result<Arc<dyn Compiler>> {
    let rtc = Rtc::open();
    match &rtc {
        Ok(rtc) if rtc.version.major >= PREFERRED_MAJOR && rtc.knows(arch) => return Ok(Arc::new(rtc.clone())),
        _ => {}
    }
    let no_clang = match clang_or_error(arch) {
        Ok(clang) if is_old() => return Ok(Arc::new(clang.for_rocm_5())),
        Ok(clang) => return Ok(Arc::new(clang.clone())),
        Err(error) => error,
    };
    match rtc {
        Ok(rtc) if rtc.knows(arch) => Ok(Arc::new(rtc)),
        Ok(rtc) => {
            let path = rtc.table.library().path();
            let searched = format!("{no_clang}; hiprtc {} in {path} does not know it", rtc.version);
            Err(Error::NoCompiler { arch, searched })
        }
        Err(no_rtc) => Err(Error::NoCompiler { arch, searched: format!("{no_clang}; {no_rtc}") }),
    }
}

/// Whether HIP is of ROCm 5, which loads older code objects only.
pub(crate) fn is_old() -> bool {
    matches!(Hip::api(), Ok(api) if api.platform.version().major < 6)
}

/// hiprtc, open.
#[derive(Clone)]
struct Rtc {
    table: &'static CompilerLibrary,
    version: Version,
    identity: String,
}

impl Rtc {
    /// hiprtc of the HIP that is open: beside it, or inside it.
    fn open() -> Result<Rtc> {
        static TABLE: OnceLock<Result<CompilerLibrary>> = OnceLock::new();
        let hip = Hip::api()?;
        let open = || {
            let library = hip.calls.library();
            let beside = library.folder().into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
            let mut paths: Vec<PathBuf> = beside.filter(|path| path.is_file()).collect();
            if library.has("hiprtcCreateProgram") {
                // The loader gives the library that is open already.
                paths.push(library.path().into());
            } else {
                paths.extend(candidates(&NAMES));
            }
            Library::open("libhiprtc", &paths).map(|library| CompilerLibrary::new(library, Vendor::Amd))
        };
        match TABLE.get_or_init(open) {
            Ok(table) => {
                let version = hip.platform.version();
                Ok(Rtc { table, version, identity: format!("hiprtc {version} {}", OPTIONS.join(" ")) })
            }
            Err(error) => Err(Error::Load { library: "libhiprtc", tried: error.to_string() }),
        }
    }

    /// Whether this version compiles for a family. An older one does not refuse what it does not know: it ends the
    /// process. Source: the release notes of ROCm, "supported GPUs", and of LLVM for the compiler inside.
    fn knows(&self, arch: Arch) -> bool {
        let since = match arch.info().family {
            Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Rdna1 | Family::Rdna2 => (5, 0),
            Family::Rdna3 => (5, 5),
            Family::Cdna3 => (6, 0),
            Family::Rdna35 | Family::Rdna4 => (6, 4),
            Family::Cdna4 => (7, 0),
            Family::Gfx125 => (7, 2),
            Family::Ampere | Family::Ada | Family::Hopper => return false,
        };
        (self.version.major, self.version.minor) >= since
    }
}

impl Compiler for Rtc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, unit: &Unit<'_>, _tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        let mut headers = rocfire_prelude::hip::for_hiprtc();
        // What is not built into hiprtc is among ROCm's headers.
        let folders = crate::rocm::roots().into_iter().map(|root| root.join("include")).filter(|path| path.is_dir());
        let include = folders.map(|folder| format!("-I{}", folder.display()));
        let flags: Vec<String> = unit.flags.iter().cloned().chain(include.filter(|_| unit.hip)).collect();
        rtc::compile(self.table, &Unit { flags: &flags, ..*unit }, OPTIONS, &mut headers)
    }
}

#[cfg(test)]
mod tests;
