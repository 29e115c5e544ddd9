//! What the library and its devices say of themselves.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::{Failure, Result, export};
use crate::foreign::{In, Out, Text};
use crate::launch::MAX_WORKGROUP_THREADS;
use crate::peers;
use crate::properties::{self as prop, Facts, R0000_BYTES, R0600_BYTES, r0000, r0600};
use crate::runtime::runtime;
use crate::status::Status;

/// HIP 7.1: the newest whose interface is known here, and not one of those whose graphs are known to be wrong.
const VERSION: c_int = 70_100_000;
/// `hipDeviceScheduleMask` and the flags for mapped host memory and larger scratch.
const DEVICE_FLAGS: c_uint = 0x1f;
/// `hipLimitStackSize`, `hipLimitPrintfFifoSize`, `hipLimitMallocHeapSize`.
const LIMITS: [u64; 3] = [1 << 10, 0, 0];

/// Made up: no device of the machine has it.
fn pci_bus_id(device: c_int) -> String {
    format!("0000:{:02x}:00.0", device + 1)
}

/// `hipDeviceAttribute_t`.
fn attribute(facts: &Facts, attribute: c_int) -> Option<u32> {
    let kib_2 = 0x7fff_ffff;
    Some(match attribute {
        2..=4 => 1,
        5 => prop::CLOCK_KHZ,
        7 => 0,
        8..=10 => 1,
        12 => 1,
        19 => prop::L2_BYTES,
        14 | 20 => 1,
        23 => facts.version[0],
        24 => 1,
        25 => facts.compute_unit_threads / facts.wave_size,
        26..=28 | 55 | 56 => MAX_WORKGROUP_THREADS,
        29 => prop::GRID[0],
        30 => prop::GRID[1],
        31 => prop::GRID[2],
        57 => facts.compute_unit_threads,
        58 => kib_2,
        59 => prop::MEMORY_BUS_BITS,
        60 => prop::MEMORY_CLOCK_KHZ,
        61 => facts.version[1],
        63 | 10015 => facts.compute_units,
        67 => 1,
        71 | 72 => facts.registers,
        74..=76 | 10002 => facts.lds_bytes,
        78 => 1,
        79 | 81 | 82 => 256,
        83 => prop::CONSTANT_BYTES,
        // It is an `int`, which no card's memory fits into.
        84 => facts.memory_bytes.min(0x7fff_ffff) as u32,
        85 => 1,
        87 => facts.wave_size,
        90 => 1,
        10000 | 10017 => prop::WALL_CLOCK_KHZ,
        10016 => 1,
        // What is not there: ECC, limits of textures and surfaces, launches across devices, pools, …
        0..=91 | 10001..=10014 => 0,
        _ => return None,
    })
}

/// What the device of a number has.
fn facts(device: c_int) -> Result<Facts> {
    let runtime = runtime()?;
    runtime.check_device(device)?;
    Ok(Facts::new(runtime))
}

fn put_text(out: &Out<c_char>, bytes: c_int, text: &str) -> Result {
    let room = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_sub(1)).ok_or(Status::INVALID_VALUE)?;
    let text = text.bytes().take(room).chain([0]).map(|byte| byte as c_char).collect::<Vec<_>>();
    out.put_all(&text)
}

fn flags_are_known(flags: c_uint) -> Result {
    if flags & !DEVICE_FLAGS == 0 { Ok(()) } else { Err(Status::INVALID_VALUE.into()) }
}

export! {
    /// `hipInit`
    fn hipInit(flags: c_uint) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        runtime().map(|_| ())
    }

    /// `hipRuntimeGetVersion`
    fn hipRuntimeGetVersion(version: Out<c_int>) {
        version.put(VERSION)
    }

    /// `hipDriverGetVersion`
    fn hipDriverGetVersion(version: Out<c_int>) {
        version.put(VERSION)
    }

    /// `hipGetDeviceCount`
    fn hipGetDeviceCount(count: Out<c_int>) {
        count.put(0)?;
        count.put(runtime()?.devices)
    }

    /// `hipDeviceGetCount`
    fn hipDeviceGetCount(count: Out<c_int>) {
        count.put(0)?;
        count.put(runtime()?.devices)
    }

    /// `hipSetDevice`
    fn hipSetDevice(device: c_int) {
        runtime()?.check_device(device)?;
        peers::set_current(device);
        Ok(())
    }

    /// `hipSetValidDevices`
    fn hipSetValidDevices(devices: In<c_int>, count: c_int) {
        let runtime = runtime()?;
        let devices = devices.list(usize::try_from(count).map_err(|_| Status::INVALID_VALUE)?)?;
        devices.into_iter().try_for_each(|device| runtime.check_device(device))
    }

    /// `hipGetDevice`
    fn hipGetDevice(device: Out<c_int>) {
        runtime()?;
        device.put(peers::current())
    }

    /// `hipDeviceGet`
    fn hipDeviceGet(device: Out<c_int>, ordinal: c_int) {
        device.check()?;
        runtime()?.check_device(ordinal)?;
        device.put(ordinal)
    }

    /// `hipDeviceGetName`
    fn hipDeviceGetName(name: Out<c_char>, bytes: c_int, device: c_int) {
        put_text(&name, bytes, &facts(device)?.name)
    }

    /// `hipDeviceGetUuid`: the same in every process.
    fn hipDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        facts(device)?;
        let mut text = *b"GPU-rocfire-0000";
        text[14..].copy_from_slice(&[b'0' + device as u8 / 10, b'0' + device as u8 % 10]);
        uuid.put(text)
    }

    /// `hipDeviceGetPCIBusId`
    fn hipDeviceGetPCIBusId(id: Out<c_char>, bytes: c_int, device: c_int) {
        facts(device)?;
        put_text(&id, bytes, &pci_bus_id(device))
    }

    /// `hipDeviceGetByPCIBusId`
    fn hipDeviceGetByPCIBusId(device: Out<c_int>, id: Text) {
        let (devices, id) = (runtime()?.devices, id.get()?);
        device.put((0..devices).find(|&device| pci_bus_id(device) == id).ok_or(Status::INVALID_DEVICE)?)
    }

    /// `hipDeviceTotalMem`
    fn hipDeviceTotalMem(bytes: Out<u64>, device: c_int) {
        bytes.put(facts(device)?.memory_bytes)
    }

    /// `hipDeviceComputeCapability`
    fn hipDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        let version = facts(device)?.version;
        major.put(version[0] as c_int)?;
        minor.put(version[1] as c_int)
    }

    /// `hipDeviceGetAttribute`
    fn hipDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) {
        let known = attribute(&facts(device)?, which).ok_or(Status::INVALID_VALUE)?;
        value.put(known as c_int)
    }

    /// `hipGetDevicePropertiesR0600`
    fn hipGetDevicePropertiesR0600(properties: Out<[u8; R0600_BYTES]>, device: c_int) {
        properties.put(r0600(&facts(device)?))
    }

    /// `hipGetDevicePropertiesR0000`
    fn hipGetDevicePropertiesR0000(properties: Out<[u8; R0000_BYTES]>, device: c_int) {
        properties.put(r0000(&facts(device)?))
    }

    /// `hipGetDeviceProperties`: by this name programs of HIP 5 and before call it, with their struct.
    fn hipGetDeviceProperties(properties: Out<[u8; R0000_BYTES]>, device: c_int) {
        properties.put(r0000(&facts(device)?))
    }

    /// `hipChooseDevice`
    fn hipChooseDevice(device: Out<c_int>, properties: In<u8>) {
        runtime()?;
        properties.get()?;
        device.put(0)
    }

    /// `hipChooseDeviceR0600`
    fn hipChooseDeviceR0600(device: Out<c_int>, properties: In<u8>) {
        runtime()?;
        properties.get()?;
        device.put(0)
    }

    /// `hipDeviceReset`: forgets all memory, streams, events and modules of the thread's device, and its fault.
    fn hipDeviceReset() {
        runtime()?.reset(peers::current());
        Ok(())
    }

    /// `hipSetDeviceFlags`
    fn hipSetDeviceFlags(flags: c_uint) {
        flags_are_known(flags)
    }

    /// `hipGetDeviceFlags`
    fn hipGetDeviceFlags(flags: Out<c_uint>) {
        flags.put(0)
    }

    /// `hipDeviceGetLimit`
    fn hipDeviceGetLimit(value: Out<u64>, limit: c_uint) {
        value.put(*LIMITS.get(limit as usize).ok_or(Status::UNSUPPORTED_LIMIT)?)
    }

    /// `hipDeviceSetLimit`: the stack is as deep as a kernel needs; there is no heap on the device and no `printf`.
    fn hipDeviceSetLimit(limit: c_uint, _value: u64) {
        match limit {
            0 => Ok(()),
            _ => Err(Failure::new(Status::UNSUPPORTED_LIMIT, "no heap on the device and no printf")),
        }
    }

    /// `hipDeviceSetCacheConfig`: accepted, and changes nothing.
    fn hipDeviceSetCacheConfig(_config: c_int) {
        Ok(())
    }

    /// `hipDeviceGetCacheConfig`
    fn hipDeviceGetCacheConfig(config: Out<c_int>) {
        config.put(0)
    }

    /// `hipDeviceSetSharedMemConfig`: accepted, and changes nothing.
    fn hipDeviceSetSharedMemConfig(_config: c_int) {
        Ok(())
    }

    /// `hipDeviceGetSharedMemConfig`
    fn hipDeviceGetSharedMemConfig(config: Out<c_int>) {
        config.put(1)
    }

    /// `hipProfilerStart`
    fn hipProfilerStart() {
        Ok(())
    }

    /// `hipProfilerStop`
    fn hipProfilerStop() {
        Ok(())
    }
}
