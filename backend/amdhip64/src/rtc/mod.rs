//! hiprtc: HIP compiled at run time, by the machine's clang.
//!
//! A program's source is compiled as real hiprtc does: with the names of HIP's device code already there, from our own
//! header (`include/hip/hip_runtime.h`), and without ROCm's device libraries. It never goes through another hiprtc.
//! `compile.rs` runs the compiler, `names.rs` finds what a name expression became.

mod compile;
mod names;

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{LazyLock, Mutex};

use crate::call::{Failure, Result, guard};
use crate::foreign::{In, Out, Text};
use crate::handle::{Handle, Table};
use crate::runtime::lock;
use crate::status::Status;

/// hiprtc's version is HIP's.
const VERSION: (c_int, c_int) = (7, 1);

/// `hiprtcResult`. The codes are hiprtc's own; they travel as a [`Status`].
mod result {
    use super::Status;
    pub const SUCCESS: Status = Status(0);
    pub const INVALID_INPUT: Status = Status(3);
    pub const INVALID_PROGRAM: Status = Status(4);
    pub const COMPILATION: Status = Status(6);
    pub const NO_NAME_EXPRESSIONS_AFTER_COMPILATION: Status = Status(8);
    pub const NO_LOWERED_NAMES_BEFORE_COMPILATION: Status = Status(9);
    pub const NAME_EXPRESSION_NOT_VALID: Status = Status(10);
    pub const INTERNAL_ERROR: Status = Status(11);
}

/// A program: source and headers, and what came of them.
struct Program {
    source: compile::Source,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    expressions: Vec<String>,
    log: String,
    code: Option<Vec<u8>>,
    lowered: HashMap<String, CString>,
}

static PROGRAMS: LazyLock<Table<Program>> = LazyLock::new(Table::default);

fn program(handle: Handle) -> Result<std::sync::Arc<Program>> {
    PROGRAMS.get(handle).ok_or_else(|| result::INVALID_PROGRAM.into())
}

/// What is wrong with an argument, as hiprtc says it.
fn input<T>(outcome: Result<T>) -> Result<T> {
    outcome.map_err(|failure| Failure { status: result::INVALID_INPUT, ..failure })
}

/// A text and its zero, where there is room for both.
fn put_text(out: &Out<c_char>, text: &[u8]) -> Result {
    input(out.put_all(&text.iter().map(|&byte| byte as c_char).collect::<Vec<_>>()))
}

fn code_of<T>(handle: Handle, with: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let program = program(handle)?;
    let state = lock(&program.state);
    with(state.code.as_deref().ok_or(result::INVALID_PROGRAM)?)
}

fn compile(handle: Handle, options: &[String]) -> Result {
    let program = program(handle)?;
    let mut state = lock(&program.state);
    let outcome = compile::run(&program.source, &state.expressions, options);
    let compile::Outcome { code, log } = outcome.map_err(|reason| Failure::new(result::INTERNAL_ERROR, reason))?;
    state.log = log;
    state.code = None;
    state.lowered.clear();
    // What was printed is in the log, which the program asks for: standard error does not repeat it.
    let code = code.ok_or(result::COMPILATION)?;
    for (index, expression) in state.expressions.clone().into_iter().enumerate() {
        let name = names::lowered(&code, index).and_then(|name| CString::new(name).ok());
        let name = name.ok_or_else(|| Failure::new(result::NAME_EXPRESSION_NOT_VALID, expression.clone()))?;
        state.lowered.insert(expression, name);
    }
    state.code = Some(code);
    Ok(())
}

macro_rules! export_rtc {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// - The arguments are as hiprtc's reference demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            guard(stringify!($name), result::INTERNAL_ERROR, || $body).0
        }
    )*};
}

export_rtc! {
    /// `hiprtcVersion`
    fn hiprtcVersion(major: Out<c_int>, minor: Out<c_int>) {
        input(major.put(VERSION.0))?;
        input(minor.put(VERSION.1))
    }

    /// `hiprtcCreateProgram`
    fn hiprtcCreateProgram(
        out: Out<Handle>, text: Text, name: Text, count: c_int, texts: In<Text>, names: In<Text>,
    ) {
        input(out.check())?;
        let count = usize::try_from(count).map_err(|_| result::INVALID_INPUT)?;
        let (texts, names) = (input(texts.list(count))?, input(names.list(count))?);
        let headers = names.iter().zip(&texts).map(|(name, text)| Ok((input(name.get())?, input(text.get())?)));
        let (text, name, headers) = (input(text.get())?, name.get_or_empty(), headers.collect::<Result<Vec<_>>>()?);
        let source = compile::Source { name, text, headers };
        input(out.put(PROGRAMS.insert(Program { source, state: Mutex::default() })))
    }

    /// `hiprtcDestroyProgram`
    fn hiprtcDestroyProgram(handle: Out<Handle>) {
        PROGRAMS.remove(input(handle.get())?).ok_or(result::INVALID_PROGRAM)?;
        input(handle.put(0))
    }

    /// `hiprtcAddNameExpression`
    fn hiprtcAddNameExpression(handle: Handle, expression: Text) {
        let program = program(handle)?;
        let mut state = lock(&program.state);
        if state.code.is_some() {
            return Err(result::NO_NAME_EXPRESSIONS_AFTER_COMPILATION.into());
        }
        state.expressions.push(input(expression.get())?);
        Ok(())
    }

    /// `hiprtcGetLoweredName`: the text lives as long as the program.
    fn hiprtcGetLoweredName(handle: Handle, expression: Text, name: Out<*const c_char>) {
        let program = program(handle)?;
        let state = lock(&program.state);
        if state.code.is_none() {
            return Err(result::NO_LOWERED_NAMES_BEFORE_COMPILATION.into());
        }
        let lowered = state.lowered.get(&input(expression.get())?).ok_or(result::NAME_EXPRESSION_NOT_VALID)?;
        input(name.put(lowered.as_ptr()))
    }

    /// `hiprtcCompileProgram`
    fn hiprtcCompileProgram(handle: Handle, count: c_int, options: In<Text>) {
        let count = usize::try_from(count).map_err(|_| result::INVALID_INPUT)?;
        let options = input(options.list(count))?.into_iter().map(|option| input(option.get()));
        compile(handle, &options.collect::<Result<Vec<_>>>()?)
    }

    /// `hiprtcGetProgramLogSize`
    fn hiprtcGetProgramLogSize(handle: Handle, bytes: Out<usize>) {
        input(bytes.put(lock(&program(handle)?.state).log.len() + 1))
    }

    /// `hiprtcGetProgramLog`
    fn hiprtcGetProgramLog(handle: Handle, log: Out<c_char>) {
        let text = lock(&program(handle)?.state).log.clone();
        put_text(&log, &[text.as_bytes(), &[0]].concat())
    }

    /// `hiprtcGetCodeSize`
    fn hiprtcGetCodeSize(handle: Handle, bytes: Out<usize>) {
        code_of(handle, |code| input(bytes.put(code.len())))
    }

    /// `hiprtcGetCode`
    fn hiprtcGetCode(handle: Handle, code: Out<c_char>) {
        code_of(handle, |bytes| put_text(&code, bytes))
    }

    /// `hiprtcGetBitcodeSize`: there is no linking at run time.
    fn hiprtcGetBitcodeSize(handle: Handle, _bytes: Out<usize>) {
        program(handle)?;
        Err(Failure::new(result::INVALID_PROGRAM, "bitcode is not made"))
    }

    /// `hiprtcGetBitcode`: as its size.
    fn hiprtcGetBitcode(handle: Handle, _code: Out<c_char>) {
        program(handle)?;
        Err(Failure::new(result::INVALID_PROGRAM, "bitcode is not made"))
    }
}

/// `hiprtcGetErrorString`
#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(code: c_int) -> *const c_char {
    let text = match Status(code) {
        result::SUCCESS => c"HIPRTC_SUCCESS",
        result::INVALID_INPUT => c"HIPRTC_ERROR_INVALID_INPUT",
        result::INVALID_PROGRAM => c"HIPRTC_ERROR_INVALID_PROGRAM",
        result::COMPILATION => c"HIPRTC_ERROR_COMPILATION",
        result::NO_NAME_EXPRESSIONS_AFTER_COMPILATION => c"HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        result::NO_LOWERED_NAMES_BEFORE_COMPILATION => c"HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        result::NAME_EXPRESSION_NOT_VALID => c"HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        result::INTERNAL_ERROR => c"HIPRTC_ERROR_INTERNAL_ERROR",
        _ => c"HIPRTC_ERROR_UNKNOWN",
    };
    text.as_ptr()
}
