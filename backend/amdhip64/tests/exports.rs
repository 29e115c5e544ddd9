//! The library's exported functions, as a loader sees them.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use object::elf::SHT_DYNSYM;
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, Sym as _};

/// The process has one library, whatever opens it: `hipDeviceReset` of one test takes the handles of another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn built() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let library = executable.parent().unwrap().join("librocfire_amdhip64.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// Names of HIP's and hiprtc's functions in the library's dynamic symbols.
fn exported() -> Vec<String> {
    let bytes = std::fs::read(built()).unwrap();
    let elf = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
    let table = elf.elf_section_table().symbols(LittleEndian, &*bytes, SHT_DYNSYM).unwrap();
    let defined = table.iter().filter(|symbol| !symbol.is_undefined(LittleEndian));
    let names =
        defined.map(|symbol| String::from_utf8_lossy(table.symbol_name(LittleEndian, symbol).unwrap()).into_owned());
    names.filter(|name| name.starts_with("hip") || name.starts_with("__hip")).collect()
}

#[test]
fn every_function_that_our_headers_declare_is_exported() {
    let exported = exported();
    let mut declared = Vec::new();
    for line in HEADERS.iter().flat_map(|text| text.lines()) {
        let results = ["hipError_t ", "hiprtcResult ", "const char *", "int "];
        let Some(rest) = results.iter().find_map(|result| line.strip_prefix(result)) else { continue };
        let Some((name, _)) = rest.split_once('(') else { continue };
        declared.push(name.to_owned());
    }
    assert!(declared.len() > 200, "{declared:?}");
    let missing: Vec<_> = declared.iter().filter(|name| !exported.contains(name)).collect();
    assert!(missing.is_empty(), "declared, and not exported: {missing:?}");
}

const HEADERS: [&str; 3] = [
    include_str!("../include/hip/hip_runtime_api.h"),
    include_str!("../include/hip/rocfire_driver.h"),
    include_str!("../include/hip/hiprtc.h"),
];

/// What compilers call, what programs reach by a macro, and what only older headers have.
const NOT_DECLARED: [&str; 8] = [
    "hipChooseDevice",
    "hipChooseDeviceR0600",
    "hipDeviceGetCount",
    "hipGetDeviceProperties",
    "hipGetDevicePropertiesR0000",
    "hipLaunchKernelExC",
    "hipLaunchKernel_spt",
    "hiprtcGetBitcode",
];

#[test]
fn every_function_that_is_exported_is_declared() {
    let is_declared = |name: &str| HEADERS.iter().any(|text| text.contains(&format!("{name}(")));
    let left_out = |name: &str| name.starts_with("__hip") || NOT_DECLARED.iter().any(|start| name.starts_with(start));
    let missing: Vec<_> = exported().into_iter().filter(|name| !left_out(name) && !is_declared(name)).collect();
    assert!(missing.is_empty(), "exported, and not declared: {missing:?}");
}

/// The names that a version script lists.
fn listed(script: &str) -> Vec<&str> {
    script.lines().filter_map(|line| line.trim().strip_suffix(';')).filter(|name| name.contains("hip")).collect()
}

#[test]
fn every_exported_function_has_its_place_in_the_version_scripts() {
    let mut exported = exported();
    exported.sort_unstable();
    let scripts = [include_str!("../versions/hip.map"), include_str!("../versions/hiprtc.map")];
    let [mut all, rtc] = scripts.map(listed);
    all.retain(|name| !name.starts_with('}'));
    all.sort_unstable();
    assert_eq!(exported, all, "versions/hip.map lists what is exported");
    let compiles: Vec<_> = exported.iter().filter(|name| name.starts_with("hiprtc")).collect();
    assert_eq!(compiles, rtc.iter().collect::<Vec<_>>());
}

type Nothing =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

#[test]
fn no_function_crashes_on_null_and_zero() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let names = exported();
    assert!(names.len() > 200, "{} functions", names.len());
    // SAFETY: the library has no initialisers with conditions; it stays open.
    let library = unsafe { Library::new(built()) }.unwrap();
    for name in &names {
        // SAFETY: no function takes more than sixteen words; extra ones are not looked at in the C calling convention, and
        // zero is a value of each type that is passed.
        unsafe {
            let function = library.get::<Nothing>(name).unwrap();
            function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        }
    }
    // What must have been an answer to that, for some.
    let code = |name: &str| {
        // SAFETY: as above; these give a code.
        unsafe { library.get::<Nothing>(name).unwrap()(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) as c_int }
    };
    assert_eq!(code("hipGetDeviceCount"), 1);
    assert_eq!(code("hipModuleLoadData"), 1);
    assert_eq!(code("hipModuleLaunchKernel"), 400);
    assert_eq!(code("hipLaunchKernel"), 98);
    assert_eq!(code("hiprtcCreateProgram"), 3);
    assert_eq!(code("hipFree"), 0);
}

#[test]
fn handles_that_are_not_alive_are_errors() {
    type OneHandle = unsafe extern "C" fn(usize) -> c_int;
    type Create = unsafe extern "C" fn(*mut usize) -> c_int;
    type Name = unsafe extern "C" fn(c_int) -> *const c_char;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the functions have these types, and get what HIP's reference asks for besides handles.
    unsafe {
        let library = Library::new(built()).unwrap();
        let name = library.get::<Name>("hipGetErrorName").unwrap();
        let kinds = [
            ("hipStreamCreate", "hipStreamDestroy", c"hipErrorContextIsDestroyed"),
            ("hipEventCreate", "hipEventDestroy", c"hipErrorInvalidHandle"),
        ];
        for (create, destroy, gone) in kinds {
            let (create, destroy) =
                (library.get::<Create>(create).unwrap(), library.get::<OneHandle>(destroy).unwrap());
            let mut handle = 0;
            assert_eq!(create(&mut handle), 0);
            assert_eq!(destroy(handle), 0);
            let status = destroy(handle);
            assert_eq!(std::ffi::CStr::from_ptr(name(status)), gone);
            assert_eq!(destroy(0xdead_beef), status);
        }
        for (function, status) in
            [("hipStreamSynchronize", 709), ("hipEventSynchronize", 400), ("hipModuleUnload", 400)]
        {
            assert_eq!(library.get::<OneHandle>(function).unwrap()(0xdead_beef), status, "{function}");
        }
    }
}
