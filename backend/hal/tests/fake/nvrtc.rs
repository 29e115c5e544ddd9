//! NVRTC, for testing what it is given, where there is none: its "code" is the text that a compiler would see, macros in order and
//! all, so code is the same where what is compiled is the same. With `--cfg cuda` it precompiles headers, without it is an older one.
//!
//! Compiled by `rustc` alone, as a shared library, by the tests in `src/cuda/precompiled`. Written from NVIDIA's API reference; that a
//! precompiled header is left out with a warning, where options differ, from NVRTC 13.5.
#![crate_type = "cdylib"]
#![allow(non_snake_case, unsafe_op_in_unsafe_fn)]

use std::ffi::{CStr, c_char, c_int};

const SUCCESS: c_int = 0;
const COMPILATION: c_int = 6;
/// `NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED`, `NVRTC_ERROR_PCH_CREATE`.
const NO_PCH: c_int = 14;

#[derive(Default)]
pub struct Program {
    text: String,
    header: String,
    log: String,
    code: String,
    made: c_int,
}

unsafe fn text(text: *const c_char) -> String {
    CStr::from_ptr(text).to_str().unwrap().to_owned()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    (*major, *minor) = (13, 5);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetErrorString(status: c_int) -> *const c_char {
    if status == NO_PCH { c"FAKE_NO_PCH".as_ptr() } else { c"FAKE_ERROR".as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut *mut Program,
    source: *const c_char,
    _name: *const c_char,
    headers: c_int,
    texts: *const *const c_char,
    names: *const *const c_char,
) -> c_int {
    assert!(headers >= 1 && text(*names) == "rocfire_prelude.h");
    let made = Program { text: text(source), header: text(*texts), ..Program::default() };
    *program = Box::into_raw(Box::new(made));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut *mut Program) -> c_int {
    drop(Box::from_raw(*program));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    program: *mut Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    let program = &mut *program;
    let options: Vec<String> = (0..count as usize).map(|at| text(*options.add(at))).collect();
    let (own, pch): (Vec<String>, Vec<String>) = options.into_iter().partition(|option| !option.contains("-pch="));
    let same = own.join("\n") + &program.header;
    let mut log = String::new();
    match pch.first().map(|option| option.split_once('=').unwrap()) {
        Some(("--create-pch", _)) if own.iter().any(|option| option == "-DNO_ROOM=1") => program.made = NO_PCH,
        Some(("--create-pch", path)) => std::fs::write(path, same).unwrap(),
        Some(("--use-pch", path)) => match std::fs::read_to_string(path) {
            Ok(kept) if kept == same => log = format!("\"x\": using precompiled header file \"{path}\"\n"),
            Ok(_) => log = "Warning #629-D: the command line options do not match\n".to_owned(),
            Err(error) => {
                program.log = format!("Catastrophic error: {path}: {error}");
                return COMPILATION;
            }
        },
        Some(other) => panic!("{other:?}"),
        None => {}
    }
    let behind = program.text.strip_prefix("#include \"rocfire_prelude.h\"\n").expect("the prelude is included first");
    let (lines, rest) = behind.split_once("#line 1\n").unwrap_or(("", behind));
    let in_options = own.iter().filter_map(|option| option.strip_prefix("-D")).map(str::to_owned);
    let in_lines = lines.lines().map(|line| line.strip_prefix("#define ").unwrap().replacen(' ', "=", 1));
    let macros: Vec<String> = in_options.chain(in_lines).collect();
    let others: Vec<&str> = own.iter().map(|option| &**option).filter(|option| !option.starts_with("-D")).collect();
    program.code = format!("{others:?} {macros:?} {} {rest}", program.header);
    if let Some(at) = rest.find("#error") {
        log.push_str(&rest[at..]);
    }
    program.log = log;
    if program.log.contains("#error") { COMPILATION } else { SUCCESS }
}

unsafe fn give(from: &str, to: *mut c_char) -> c_int {
    to.copy_from_nonoverlapping(from.as_ptr().cast(), from.len());
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(program: *const Program, bytes: *mut usize) -> c_int {
    *bytes = (&(*program).log).len() + 1;
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(program: *const Program, log: *mut c_char) -> c_int {
    give(&format!("{}\0", (*program).log), log)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: *const Program, bytes: *mut usize) -> c_int {
    *bytes = (&(*program).code).len();
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: *const Program, code: *mut c_char) -> c_int {
    give(&(*program).code, code)
}

#[cfg(cuda)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetPCHCreateStatus(program: *const Program) -> c_int {
    (*program).made
}
