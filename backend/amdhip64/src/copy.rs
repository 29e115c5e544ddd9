//! Copies and fills: one, two or three dimensions, between any two sides.
//!
//! Which side an address is on is asked of the device's memory, as HIP does; what the caller says is only checked. Device
//! memory is reached through the emulator, which knows its bounds. The host's is the program's business.

use std::ffi::{c_int, c_uint};

use crate::call::{Failure, Result, export};
use crate::foreign::{In, host_bytes, host_bytes_mut};
use crate::handle::Handle;
use crate::memory_type::MemoryType;
use crate::runtime::{Runtime, healthy, translate};
use crate::status::Status;
use crate::work::{Work, submit};

/// `hipMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0.
    HostToHost,
    /// 1.
    HostToDevice,
    /// 2.
    DeviceToHost,
    /// 3, and 1024 without compute units.
    DeviceToDevice,
    /// 4: as the addresses say.
    Default,
}

impl Kind {
    /// The kind of HIP's number.
    ///
    /// # Errors
    /// `hipErrorInvalidMemcpyDirection`.
    pub fn new(number: c_int) -> Result<Kind> {
        match number {
            0 => Ok(Kind::HostToHost),
            1 => Ok(Kind::HostToDevice),
            2 => Ok(Kind::DeviceToHost),
            3 | 1024 => Ok(Kind::DeviceToDevice),
            4 => Ok(Kind::Default),
            _ => Err(Status::INVALID_MEMCPY_DIRECTION.into()),
        }
    }
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Of its first byte.
    pub address: u64,
    /// From a row to the next, bytes.
    pub pitch: u64,
    /// From a slice to the next, bytes.
    pub slice: u64,
}

impl Side {
    /// Bytes without rows.
    pub fn linear(address: u64) -> Side {
        Side { address, pitch: 0, slice: 0 }
    }

    /// Rows without slices.
    pub fn rows(address: u64, pitch: u64) -> Side {
        Side { address, pitch, slice: 0 }
    }

    fn row(&self, y: u64, z: u64) -> u64 {
        self.address.wrapping_add(y.wrapping_mul(self.pitch)).wrapping_add(z.wrapping_mul(self.slice))
    }
}

/// A copy.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Where to.
    pub to: Side,
    /// Where from.
    pub from: Side,
    /// Bytes of a row, rows, slices.
    pub extent: [u64; 3],
    /// What the caller says.
    pub kind: Kind,
}

/// A fill.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// Where.
    pub to: Side,
    /// The element.
    pub value: u64,
    /// Its bytes: 1, 2, 4 or 8.
    pub value_bytes: u64,
    /// Elements of a row, rows, slices.
    pub extent: [u64; 3],
}

/// The memory that an address is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Device,
    Host,
}

fn side(runtime: &Runtime, address: u64, bytes: u64) -> Result<Memory> {
    let wrong = |reason: String| Failure::new(Status::INVALID_VALUE, reason);
    match runtime.gpu.allocation(address) {
        Some((start, length)) if address - start <= length && bytes <= length - (address - start) => Ok(Memory::Device),
        Some((start, length)) => {
            let offset = address - start;
            Err(wrong(format!("{bytes} bytes at offset {offset} of the {length}-byte allocation at {start:#x}")))
        }
        None if runtime.gpu.was_handed_out(address) => Err(wrong(format!(
            "{bytes} bytes at {address:#x}, which is device memory that was freed or never allocated"
        ))),
        None if address == 0 => Err(Status::INVALID_VALUE.into()),
        None => Ok(Memory::Host),
    }
}

impl Copy {
    /// Does it.
    pub fn run(&self, runtime: &Runtime) -> Result {
        let [width, height, depth] = self.extent;
        if width == 0 || height == 0 || depth == 0 {
            return Ok(());
        }
        for place in [self.to, self.from] {
            if height > 1 && place.pitch < width {
                return Err(Status::INVALID_PITCH.into());
            }
        }
        let sides = (side(runtime, self.to.address, 1)?, side(runtime, self.from.address, 1)?);
        let device_expected = match self.kind {
            Kind::HostToDevice => (true, false),
            Kind::DeviceToHost => (false, true),
            Kind::DeviceToDevice => (true, true),
            Kind::HostToHost | Kind::Default => (false, false),
        };
        for (expected, side, what) in [(device_expected.0, sides.0, "to"), (device_expected.1, sides.1, "from")] {
            if expected && side == Memory::Host {
                let reason = format!("{:?}, and the copy is {what} memory that the device does not have", self.kind);
                return Err(Failure::new(Status::INVALID_MEMCPY_DIRECTION, reason));
            }
        }
        let dense = [self.to, self.from].iter().all(|place| height == 1 || place.pitch == width);
        let (width, height) = if dense { (width * height, 1) } else { (width, height) };
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            copy_row(runtime, self.to.row(y, z), self.from.row(y, z), width)?;
        }
        Ok(())
    }
}

fn copy_row(runtime: &Runtime, to: u64, from: u64, bytes: u64) -> Result {
    let outcome = match (side(runtime, to, bytes)?, side(runtime, from, bytes)?) {
        (Memory::Device, Memory::Device) => runtime.gpu.copy(to, from, bytes),
        // SAFETY: the caller has promised as many bytes of host memory; null was excluded.
        (Memory::Device, Memory::Host) => runtime.gpu.write(to, unsafe { host_bytes(from, bytes) }),
        // SAFETY: as above.
        (Memory::Host, Memory::Device) => runtime.gpu.read(from, unsafe { host_bytes_mut(to, bytes) }),
        (Memory::Host, Memory::Host) => {
            let source = std::ptr::with_exposed_provenance::<u8>(from as usize);
            let target = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
            // SAFETY: the caller has promised as many bytes on both sides, which may overlap.
            unsafe { std::ptr::copy(source, target, bytes as usize) };
            Ok(())
        }
    };
    outcome.map_err(translate)
}

impl Fill {
    /// Does it.
    pub fn run(&self, runtime: &Runtime) -> Result {
        let [width, height, depth] = self.extent;
        if width == 0 || height == 0 || depth == 0 {
            return Ok(());
        }
        let bytes = width.checked_mul(self.value_bytes).ok_or(Status::INVALID_VALUE)?;
        if height > 1 && self.to.pitch < bytes {
            return Err(Status::INVALID_PITCH.into());
        }
        let value = &self.value.to_le_bytes()[..self.value_bytes as usize];
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            let to = self.to.row(y, z);
            if side(runtime, to, bytes)? == Memory::Host {
                let reason = format!("{to:#x} is not memory that the device has");
                return Err(Failure::new(Status::INVALID_VALUE, reason));
            }
            let outcome = match value {
                [byte] => runtime.gpu.fill(to, *byte, bytes),
                _ => runtime.gpu.write(to, &value.repeat(width as usize)),
            };
            outcome.map_err(translate)?;
        }
        Ok(())
    }
}

fn linear(to: u64, from: u64, bytes: u64, kind: Kind) -> Work {
    let (to, from) = (Side::linear(to), Side::linear(from));
    Work::Copy(Copy { to, from, extent: [bytes, 1, 1], kind })
}

fn rows(to: (u64, u64), from: (u64, u64), width: u64, height: u64, kind: Kind) -> Work {
    let (to, from) = (Side::rows(to.0, to.1), Side::rows(from.0, from.1));
    Work::Copy(Copy { to, from, extent: [width, height, 1], kind })
}

fn fill(to: Side, value: u64, value_bytes: u64, extent: [u64; 3]) -> Work {
    Work::Fill(Fill { to, value, value_bytes, extent })
}

/// A call that waits: it cannot be captured, and uses the null stream.
fn now(work: &Work) -> Result {
    work.run(healthy()?)
}

/// `hip_Memcpy2D`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Memcpy2D {
    from: Side2D,
    to: Side2D,
    width: u64,
    height: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Side2D {
    x: u64,
    y: u64,
    memory: c_int,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
}

impl Memcpy2D {
    fn work(&self) -> Result<Work> {
        let place = |side: &Side2D| {
            let base = match MemoryType::of(side.memory) {
                Some(MemoryType::Array) => return Err(Failure::new(Status::NOT_SUPPORTED, "arrays are not emulated")),
                Some(MemoryType::Host) => side.host,
                Some(MemoryType::Unregistered | MemoryType::Device | MemoryType::Managed | MemoryType::Unified)
                | None => side.device,
            };
            Ok((base.wrapping_add(side.y.wrapping_mul(side.pitch)).wrapping_add(side.x), side.pitch))
        };
        Ok(rows(place(&self.to)?, place(&self.from)?, self.width, self.height, Kind::Default))
    }
}

/// `hipMemcpy3DParms`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Memcpy3D {
    from: Side3D,
    to: Side3D,
    extent: [u64; 3],
    kind: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Side3D {
    array: u64,
    /// x in bytes, y, z.
    position: [u64; 3],
    pointer: PitchedPointer,
}

/// `hipPitchedPtr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PitchedPointer {
    /// Address.
    pub address: u64,
    /// From a row to the next, bytes.
    pub pitch: u64,
    /// Bytes of a row that are used.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
}

impl PitchedPointer {
    fn place(&self) -> Side {
        Side { address: self.address, pitch: self.pitch, slice: self.pitch.wrapping_mul(self.height) }
    }
}

impl Memcpy3D {
    /// As work for a stream.
    pub fn work(&self) -> Result<Work> {
        let place = |side: &Side3D| {
            if side.array != 0 {
                return Err(Failure::new(Status::NOT_SUPPORTED, "arrays are not emulated"));
            }
            let [x, y, z] = side.position;
            let place = side.pointer.place();
            Ok(Side { address: place.row(y, z).wrapping_add(x), ..place })
        };
        let kind = Kind::new(self.kind)?;
        Ok(Work::Copy(Copy { to: place(&self.to)?, from: place(&self.from)?, extent: self.extent, kind }))
    }
}

export! {
    /// `hipMemcpy`
    fn hipMemcpy(to: u64, from: u64, bytes: u64, kind: c_int) {
        now(&linear(to, from, bytes, Kind::new(kind)?))
    }

    /// `hipMemcpyAsync`
    fn hipMemcpyAsync(to: u64, from: u64, bytes: u64, kind: c_int, stream: Handle) {
        submit(stream, linear(to, from, bytes, Kind::new(kind)?))
    }

    /// `hipMemcpyWithStream`
    fn hipMemcpyWithStream(to: u64, from: u64, bytes: u64, kind: c_int, stream: Handle) {
        submit(stream, linear(to, from, bytes, Kind::new(kind)?))
    }

    /// `hipMemcpyHtoD`
    fn hipMemcpyHtoD(to: u64, from: u64, bytes: u64) {
        now(&linear(to, from, bytes, Kind::HostToDevice))
    }

    /// `hipMemcpyDtoH`
    fn hipMemcpyDtoH(to: u64, from: u64, bytes: u64) {
        now(&linear(to, from, bytes, Kind::DeviceToHost))
    }

    /// `hipMemcpyDtoD`
    fn hipMemcpyDtoD(to: u64, from: u64, bytes: u64) {
        now(&linear(to, from, bytes, Kind::DeviceToDevice))
    }

    /// `hipMemcpyHtoDAsync`
    fn hipMemcpyHtoDAsync(to: u64, from: u64, bytes: u64, stream: Handle) {
        submit(stream, linear(to, from, bytes, Kind::HostToDevice))
    }

    /// `hipMemcpyDtoHAsync`
    fn hipMemcpyDtoHAsync(to: u64, from: u64, bytes: u64, stream: Handle) {
        submit(stream, linear(to, from, bytes, Kind::DeviceToHost))
    }

    /// `hipMemcpyDtoDAsync`
    fn hipMemcpyDtoDAsync(to: u64, from: u64, bytes: u64, stream: Handle) {
        submit(stream, linear(to, from, bytes, Kind::DeviceToDevice))
    }

    /// `hipMemcpyPeer`
    fn hipMemcpyPeer(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: u64) {
        let runtime = healthy()?;
        runtime.check_device(to_device).and_then(|()| runtime.check_device(from_device))?;
        now(&linear(to, from, bytes, Kind::DeviceToDevice))
    }

    /// `hipMemcpyPeerAsync`
    fn hipMemcpyPeerAsync(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: u64, stream: Handle) {
        let runtime = healthy()?;
        runtime.check_device(to_device).and_then(|()| runtime.check_device(from_device))?;
        submit(stream, linear(to, from, bytes, Kind::DeviceToDevice))
    }

    /// `hipMemcpy2D`
    fn hipMemcpy2D(to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: c_int) {
        now(&rows((to, to_pitch), (from, from_pitch), width, height, Kind::new(kind)?))
    }

    /// `hipMemcpy2DAsync`
    fn hipMemcpy2DAsync(
        to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: c_int, stream: Handle,
    ) {
        submit(stream, rows((to, to_pitch), (from, from_pitch), width, height, Kind::new(kind)?))
    }

    /// `hipMemcpyParam2D`
    fn hipMemcpyParam2D(copy: In<Memcpy2D>) {
        now(&copy.get()?.work()?)
    }

    /// `hipMemcpyParam2DAsync`
    fn hipMemcpyParam2DAsync(copy: In<Memcpy2D>, stream: Handle) {
        submit(stream, copy.get()?.work()?)
    }

    /// `hipMemcpy3D`
    fn hipMemcpy3D(copy: In<Memcpy3D>) {
        now(&copy.get()?.work()?)
    }

    /// `hipMemcpy3DAsync`
    fn hipMemcpy3DAsync(copy: In<Memcpy3D>, stream: Handle) {
        submit(stream, copy.get()?.work()?)
    }

    /// `hipMemset`
    fn hipMemset(to: u64, value: c_int, bytes: u64) {
        now(&fill(Side::linear(to), u64::from(value as u8), 1, [bytes, 1, 1]))
    }

    /// `hipMemsetAsync`
    fn hipMemsetAsync(to: u64, value: c_int, bytes: u64, stream: Handle) {
        submit(stream, fill(Side::linear(to), u64::from(value as u8), 1, [bytes, 1, 1]))
    }

    /// `hipMemsetD8`
    fn hipMemsetD8(to: u64, value: u8, count: u64) {
        now(&fill(Side::linear(to), u64::from(value), 1, [count, 1, 1]))
    }

    /// `hipMemsetD8Async`
    fn hipMemsetD8Async(to: u64, value: u8, count: u64, stream: Handle) {
        submit(stream, fill(Side::linear(to), u64::from(value), 1, [count, 1, 1]))
    }

    /// `hipMemsetD16`
    fn hipMemsetD16(to: u64, value: u16, count: u64) {
        now(&fill(Side::linear(to), u64::from(value), 2, [count, 1, 1]))
    }

    /// `hipMemsetD16Async`
    fn hipMemsetD16Async(to: u64, value: u16, count: u64, stream: Handle) {
        submit(stream, fill(Side::linear(to), u64::from(value), 2, [count, 1, 1]))
    }

    /// `hipMemsetD32`
    fn hipMemsetD32(to: u64, value: c_int, count: u64) {
        now(&fill(Side::linear(to), u64::from(value as u32), 4, [count, 1, 1]))
    }

    /// `hipMemsetD32Async`
    fn hipMemsetD32Async(to: u64, value: c_int, count: u64, stream: Handle) {
        submit(stream, fill(Side::linear(to), u64::from(value as u32), 4, [count, 1, 1]))
    }

    /// `hipStreamWriteValue32`
    fn hipStreamWriteValue32(stream: Handle, to: u64, value: u32, _flags: c_uint) {
        submit(stream, fill(Side::linear(to), u64::from(value), 4, [1, 1, 1]))
    }

    /// `hipStreamWriteValue64`
    fn hipStreamWriteValue64(stream: Handle, to: u64, value: u64, _flags: c_uint) {
        submit(stream, fill(Side::linear(to), value, 8, [1, 1, 1]))
    }

    /// `hipMemset2D`
    fn hipMemset2D(to: u64, pitch: u64, value: c_int, width: u64, height: u64) {
        now(&fill(Side::rows(to, pitch), u64::from(value as u8), 1, [width, height, 1]))
    }

    /// `hipMemset2DAsync`
    fn hipMemset2DAsync(to: u64, pitch: u64, value: c_int, width: u64, height: u64, stream: Handle) {
        submit(stream, fill(Side::rows(to, pitch), u64::from(value as u8), 1, [width, height, 1]))
    }

    /// `hipMemset3D`
    fn hipMemset3D(to: PitchedPointer, value: c_int, extent: Extent) {
        now(&fill(to.place(), u64::from(value as u8), 1, extent.0))
    }

    /// `hipMemset3DAsync`
    fn hipMemset3DAsync(to: PitchedPointer, value: c_int, extent: Extent, stream: Handle) {
        submit(stream, fill(to.place(), u64::from(value as u8), 1, extent.0))
    }
}

/// `hipExtent`: width in bytes, height, depth.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Extent(pub [u64; 3]);
