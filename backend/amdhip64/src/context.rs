//! Contexts, as far as HIP still has them: each device's primary one.

use std::ffi::{c_int, c_uint};

use crate::call::{Result, export};
use crate::foreign::Out;
use crate::handle::Handle;
use crate::peers;
use crate::runtime::runtime;
use crate::status::Status;

/// The handle of the first device's context; the others' follow it.
const PRIMARY: Handle = 0xc0;
/// What `hipCtxGetApiVersion` gives.
const API_VERSION: c_int = 4;

fn primary(device: c_int) -> Result<Handle> {
    runtime()?.check_device(device)?;
    Ok(PRIMARY + device as Handle)
}

/// The device of a context.
fn device_of(context: Handle) -> Result<c_int> {
    let devices = runtime()?.devices;
    (0..devices).find(|&device| PRIMARY + device as Handle == context).ok_or_else(|| Status::INVALID_CONTEXT.into())
}

export! {
    /// `hipCtxCreate`
    fn hipCtxCreate(context: Out<Handle>, _flags: c_uint, device: c_int) {
        context.put(primary(device)?)
    }

    /// `hipCtxDestroy`
    fn hipCtxDestroy(context: Handle) {
        device_of(context).map(|_| ())
    }

    /// `hipCtxPushCurrent`
    fn hipCtxPushCurrent(context: Handle) {
        peers::push(device_of(context)?);
        Ok(())
    }

    /// `hipCtxPopCurrent`
    fn hipCtxPopCurrent(context: Out<Handle>) {
        runtime()?;
        context.put_if_wanted(primary(peers::pop())?);
        Ok(())
    }

    /// `hipCtxSetCurrent`: null takes none, which changes nothing here.
    fn hipCtxSetCurrent(context: Handle) {
        if context != 0 {
            peers::set_current(device_of(context)?);
        }
        Ok(())
    }

    /// `hipCtxGetCurrent`
    fn hipCtxGetCurrent(context: Out<Handle>) {
        context.put(primary(peers::current())?)
    }

    /// `hipCtxGetDevice`
    fn hipCtxGetDevice(device: Out<c_int>) {
        runtime()?;
        device.put(peers::current())
    }

    /// `hipCtxGetApiVersion`
    fn hipCtxGetApiVersion(context: Handle, version: Out<c_int>) {
        device_of(context)?;
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
        runtime()?.reset(device);
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
