//! hiprtc as a compiler, and the choice between it and clang for real devices.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Family};

use super::api::{Version, api, candidates, text};
use super::sys::Library;
use super::sys::hiprtc::{self as sys, Hiprtc, Program, Status};
use crate::compile::{Compiler, Failure, Unit, clang_or_error};
use crate::{Error, Result};

/// hiprtc of this version or newer is preferred to clang: its compiler is LLVM 20 or newer.
const PREFERRED_MAJOR: u32 = 7;
const NAMES: [&str; 4] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];
const OPTIONS: &[&str] = &["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno"];
const PRELUDE_FILE: &str = "rocfire_prelude.h";
const OPENING: &str = "#include \"rocfire_prelude.h\"\n#line 1\n";

/// The compiler for a real device: hiprtc of ROCm 7 or newer, else clang, else an older hiprtc that knows the target.
pub(crate) fn compiler(arch: Arch) -> Result<Arc<dyn Compiler>> {
    let rtc = Rtc::open();
    match &rtc {
        Ok(rtc) if rtc.version.major >= PREFERRED_MAJOR && rtc.knows(arch) => return Ok(Arc::new(rtc.clone())),
        _ => {}
    }
    let old = matches!(api(), Ok(api) if api.version().major < 6);
    let no_clang = match clang_or_error(arch) {
        Ok(clang) if old => return Ok(Arc::new(clang.for_rocm_5())),
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

/// hiprtc, open.
#[derive(Clone)]
struct Rtc {
    table: &'static Hiprtc,
    version: Version,
    identity: String,
}

impl Rtc {
    /// hiprtc of the HIP that is open: beside it, or inside it.
    fn open() -> Result<Rtc> {
        static TABLE: OnceLock<Result<Hiprtc>> = OnceLock::new();
        let hip = api()?;
        let open = || {
            let library = hip.hip().library();
            let beside = library.folder().into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
            let mut paths: Vec<PathBuf> = beside.filter(|path| path.is_file()).collect();
            if library.has("hiprtcCreateProgram") {
                // The loader gives the library that is open already.
                paths.push(library.path().into());
            } else {
                paths.extend(candidates(&NAMES));
            }
            Library::open("libhiprtc", &paths).map(Hiprtc::new)
        };
        match TABLE.get_or_init(open) {
            Ok(table) => {
                let identity = format!("hiprtc {} {}", hip.version(), OPTIONS.join(" "));
                Ok(Rtc { table, version: hip.version(), identity })
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

    fn check(&self, call: &'static str, status: Status) -> Result<(), Failure> {
        if status == sys::SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be passed.
        let name = unsafe { self.table.hiprtcGetErrorString(status) }.map_err(Failure::Other)?;
        let name = text(name).unwrap_or_else(|| "unknown error".to_owned());
        Err(Failure::Other(Error::Driver { call, name, code: status }))
    }

    fn log(&self, program: Program) -> Result<String, Failure> {
        let mut bytes = 0;
        // SAFETY: the program is alive, the length goes to a local.
        let status = unsafe { self.table.hiprtcGetProgramLogSize(program, &mut bytes) }.map_err(Failure::Other)?;
        self.check("hiprtcGetProgramLogSize", status)?;
        let mut log = vec![0_u8; bytes + 1];
        // SAFETY: the program is alive, the log has the length that was just said.
        let status = unsafe { self.table.hiprtcGetProgramLog(program, log.as_mut_ptr().cast()) };
        self.check("hiprtcGetProgramLog", status.map_err(Failure::Other)?)?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
    }

    fn code(&self, program: Program) -> Result<Vec<u8>, Failure> {
        let mut bytes = 0;
        // SAFETY: the program is alive, the length goes to a local.
        let status = unsafe { self.table.hiprtcGetCodeSize(program, &mut bytes) }.map_err(Failure::Other)?;
        self.check("hiprtcGetCodeSize", status)?;
        let mut code = vec![0_u8; bytes];
        // SAFETY: the program is alive, the code has the length that was just said.
        let status = unsafe { self.table.hiprtcGetCode(program, code.as_mut_ptr().cast()) }.map_err(Failure::Other)?;
        self.check("hiprtcGetCode", status)?;
        Ok(code)
    }
}

impl Compiler for Rtc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, unit: &Unit<'_>, _tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        let c_text = |text: &str| {
            CString::new(text).map_err(|_| Failure::Diagnostics("a zero character in the source or a macro".to_owned()))
        };
        let (source, name) = (c_text(&format!("{OPENING}{}", unit.text))?, c_text(unit.name)?);
        let (header, header_name) = (c_text(rocfire_prelude::TEXT)?, c_text(PRELUDE_FILE)?);
        let mut options = vec![format!("--gpu-architecture={}", unit.target)];
        options.extend(OPTIONS.iter().map(|&option| option.to_owned()));
        options.extend(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        options.extend(unit.flags.iter().cloned());
        let options = options.iter().map(|option| c_text(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let (headers, header_names) = ([header.as_ptr()], [header_name.as_ptr()]);
        let mut program = std::ptr::null_mut();
        // SAFETY: all texts end with a zero and live until the end of this function; the program goes to a local.
        let status = unsafe {
            let (headers, names) = (headers.as_ptr(), header_names.as_ptr());
            self.table.hiprtcCreateProgram(&mut program, source.as_ptr(), name.as_ptr(), 1, headers, names)
        };
        self.check("hiprtcCreateProgram", status.map_err(Failure::Other)?)?;
        // SAFETY: the program was just made, the options end with a zero each and are as many as said.
        let status = unsafe { self.table.hiprtcCompileProgram(program, options.len() as c_int, options.as_ptr()) };
        let outcome = match status {
            Ok(sys::SUCCESS) => self.code(program),
            Ok(sys::COMPILATION) => Err(self.log(program).map_or_else(|failure| failure, Failure::Diagnostics)),
            Ok(status) => self.check("hiprtcCompileProgram", status).and(Ok(Vec::new())),
            Err(error) => Err(Failure::Other(error)),
        };
        // SAFETY: the program was made above and is not used again. What it says is of no use to anybody.
        let _ = unsafe { self.table.hiprtcDestroyProgram(&mut program) };
        outcome
    }
}

#[cfg(test)]
mod tests;
