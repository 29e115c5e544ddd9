//! Device variables by their host's name.

use std::ffi::{c_int, c_void};

use crate::call::{Failure, Result, export};
use crate::copy::{Copy, Kind, Side};
use crate::foreign::Out;
use crate::handle::Handle;
use crate::register::variable;
use crate::runtime::healthy;
use crate::status::Status;
use crate::work::{Work, submit};

/// Which way a symbol's copy goes.
#[derive(Clone, Copy)]
pub enum Way {
    /// To the symbol.
    To,
    /// From it.
    From,
}

/// The copy of `bytes` bytes between `other` and a symbol's bytes from `offset` on.
///
/// # Errors
/// `hipErrorInvalidSymbol`; `hipErrorInvalidValue` for bytes that it does not have.
pub fn symbol_copy(symbol: *const c_void, other: u64, bytes: u64, offset: u64, kind: c_int, way: Way) -> Result<Work> {
    let (address, length) = variable(healthy()?, symbol.addr())?;
    if offset.checked_add(bytes).is_none_or(|end| end > length) {
        let reason = format!("{bytes} bytes at offset {offset} of a variable of {length} bytes");
        return Err(Failure::new(Status::INVALID_VALUE, reason));
    }
    let (inside, other) = (Side::linear(address + offset), Side::linear(other));
    let (to, from) = match way {
        Way::To => (inside, other),
        Way::From => (other, inside),
    };
    Ok(Work::Copy(Copy { to, from, extent: [bytes, 1, 1], kind: Kind::new(kind)? }))
}

export! {
    /// `hipGetSymbolAddress`
    fn hipGetSymbolAddress(address: Out<u64>, symbol: *const c_void) {
        address.check()?;
        address.put(variable(healthy()?, symbol.addr())?.0)
    }

    /// `hipGetSymbolSize`
    fn hipGetSymbolSize(bytes: Out<u64>, symbol: *const c_void) {
        bytes.check()?;
        bytes.put(variable(healthy()?, symbol.addr())?.1)
    }

    /// `hipMemcpyToSymbol`
    fn hipMemcpyToSymbol(symbol: *const c_void, from: u64, bytes: u64, offset: u64, kind: c_int) {
        symbol_copy(symbol, from, bytes, offset, kind, Way::To)?.run(healthy()?)
    }

    /// `hipMemcpyToSymbolAsync`
    fn hipMemcpyToSymbolAsync(
        symbol: *const c_void, from: u64, bytes: u64, offset: u64, kind: c_int, stream: Handle,
    ) {
        submit(stream, symbol_copy(symbol, from, bytes, offset, kind, Way::To)?)
    }

    /// `hipMemcpyFromSymbol`
    fn hipMemcpyFromSymbol(to: u64, symbol: *const c_void, bytes: u64, offset: u64, kind: c_int) {
        symbol_copy(symbol, to, bytes, offset, kind, Way::From)?.run(healthy()?)
    }

    /// `hipMemcpyFromSymbolAsync`
    fn hipMemcpyFromSymbolAsync(
        to: u64, symbol: *const c_void, bytes: u64, offset: u64, kind: c_int, stream: Handle,
    ) {
        submit(stream, symbol_copy(symbol, to, bytes, offset, kind, Way::From)?)
    }
}
