//! Contexts, as far as HIP still has them: the device's primary one, current in every thread.

use std::ffi::{c_int, c_uint};

use crate::call::{Result, export};
use crate::foreign::Out;
use crate::handle::Handle;
use crate::runtime::runtime;
use crate::status::Status;

/// The handle of the device's context.
const PRIMARY: Handle = 0xc0;
/// What `hipCtxGetApiVersion` gives.
const API_VERSION: c_int = 4;

fn primary(device: c_int) -> Result<Handle> {
    runtime()?.check_device(device)?;
    Ok(PRIMARY)
}

fn check(context: Handle) -> Result {
    runtime()?;
    if context == PRIMARY { Ok(()) } else { Err(Status::INVALID_CONTEXT.into()) }
}

export! {
    /// `hipCtxCreate`
    fn hipCtxCreate(context: Out<Handle>, _flags: c_uint, device: c_int) {
        context.put(primary(device)?)
    }

    /// `hipCtxDestroy`
    fn hipCtxDestroy(context: Handle) {
        check(context)
    }

    /// `hipCtxPushCurrent`
    fn hipCtxPushCurrent(context: Handle) {
        check(context)
    }

    /// `hipCtxPopCurrent`
    fn hipCtxPopCurrent(context: Out<Handle>) {
        context.put_if_wanted(primary(0)?);
        Ok(())
    }

    /// `hipCtxSetCurrent`: null takes none, which changes nothing here.
    fn hipCtxSetCurrent(context: Handle) {
        if context == 0 { Ok(()) } else { check(context) }
    }

    /// `hipCtxGetCurrent`
    fn hipCtxGetCurrent(context: Out<Handle>) {
        context.put(primary(0)?)
    }

    /// `hipCtxGetDevice`
    fn hipCtxGetDevice(device: Out<c_int>) {
        primary(0)?;
        device.put(0)
    }

    /// `hipCtxGetApiVersion`
    fn hipCtxGetApiVersion(context: Handle, version: Out<c_int>) {
        check(context)?;
        version.put(API_VERSION)
    }

    /// `hipCtxGetFlags`
    fn hipCtxGetFlags(flags: Out<c_uint>) {
        flags.put(0)
    }

    /// `hipDevicePrimaryCtxRetain`
    fn hipDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        context.put(primary(device)?)
    }

    /// `hipDevicePrimaryCtxRelease`
    fn hipDevicePrimaryCtxRelease(device: c_int) {
        primary(device).map(|_| ())
    }

    /// `hipDevicePrimaryCtxReset`
    fn hipDevicePrimaryCtxReset(device: c_int) {
        primary(device)?;
        runtime()?.reset();
        Ok(())
    }

    /// `hipDevicePrimaryCtxSetFlags`
    fn hipDevicePrimaryCtxSetFlags(device: c_int, _flags: c_uint) {
        primary(device).map(|_| ())
    }

    /// `hipDevicePrimaryCtxGetState`
    fn hipDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        primary(device)?;
        flags.put_if_wanted(0);
        active.put_if_wanted(1);
        Ok(())
    }
}
