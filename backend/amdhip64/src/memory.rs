//! Memory: the device's own, the host's that the device sees, and what is known of a pointer.
//!
//! Device memory has addresses of its own. Host and managed memory is at one address on both sides, and takes none of the
//! device's. A freed address is never handed out again, so that what still uses it is caught.

use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;

use crate::call::{Failure, Result, export};
use crate::copy::{Extent, PitchedPointer};
use crate::foreign::{In, Out};
use crate::handle::Handle;
use crate::memory_type::MemoryType;
use crate::peers;
use crate::pool;
use crate::runtime::{Block, BlockKind, Runtime, healthy, lock, runtime, translate};
use crate::status::Status;

/// Rows of pitched memory begin at multiples of this.
const PITCH_BYTES: u64 = 256;

/// `hipPointer_attribute`: those that mean something here.
mod pointer_attribute {
    pub const MEMORY_TYPE: i32 = 2;
    pub const DEVICE_POINTER: i32 = 3;
    pub const HOST_POINTER: i32 = 4;
    pub const BUFFER_ID: i32 = 7;
    pub const IS_MANAGED: i32 = 8;
    pub const DEVICE_ORDINAL: i32 = 9;
    pub const RANGE_START: i32 = 11;
    pub const RANGE_SIZE: i32 = 12;
    pub const MAPPED: i32 = 13;
}

/// `hipPointerAttribute_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PointerAttributes {
    memory_type: i32,
    device: i32,
    device_pointer: u64,
    host_pointer: u64,
    is_managed: i32,
    flags: u32,
}

fn allocate(runtime: &Runtime, bytes: u64, kind: BlockKind, flags: u32) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    if runtime.devices > 1 && kind == BlockKind::Device && bytes > runtime.memory_bytes().0 {
        return Err(Status::OUT_OF_MEMORY.into());
    }
    let address = match kind {
        BlockKind::Device => runtime.gpu.allocate(bytes),
        BlockKind::Host | BlockKind::Managed | BlockKind::Registered => runtime.gpu.allocate_shared(bytes),
    };
    let address = address.map_err(|error| {
        let failure = translate(error);
        // Programs look for the limit of memory; the code says all there is.
        if failure.status == Status::OUT_OF_MEMORY { failure.status.into() } else { failure }
    })?;
    lock(&runtime.blocks).insert(address, Block { bytes, kind, flags, device: peers::current() });
    runtime.poison(address, bytes)?;
    Ok(address)
}

/// The device's memory, for pools.
///
/// # Errors
/// As `hipMalloc`.
pub fn allocate_device(runtime: &Runtime, bytes: u64) -> Result<u64> {
    allocate(runtime, bytes, BlockKind::Device, 0)
}

fn free(runtime: &Runtime, address: u64, kinds: &[BlockKind]) -> Result {
    if address == 0 {
        return Ok(());
    }
    let mut blocks = lock(&runtime.blocks);
    match blocks.get(&address) {
        Some(block) if kinds.contains(&block.kind) => {
            blocks.remove(&address);
            pool::freed(address);
            runtime.gpu.free(address).map_err(translate)
        }
        Some(block) => {
            let reason = format!("{address:#x} is memory of another kind: {:?}", block.kind);
            Err(Failure::new(Status::INVALID_VALUE, reason))
        }
        None => Err(Failure::new(Status::INVALID_VALUE, format!("no allocation begins at {address:#x}"))),
    }
}

/// The program's block that an address lies in.
fn block_at(runtime: &Runtime, address: u64) -> Option<(u64, Block)> {
    let blocks = lock(&runtime.blocks);
    let (&start, block) = blocks.range(..=address).next_back()?;
    (address - start < block.bytes).then_some((start, *block))
}

fn malloc(out: &Out<u64>, bytes: u64, kind: BlockKind, flags: u32) -> Result {
    out.check()?;
    out.put(allocate(healthy()?, bytes, kind, flags)?)
}

/// `hipHostMallocCoherent` and `…NonCoherent` exclude each other.
fn coherence(flags: u32) -> Result {
    const BOTH: u32 = 0xc000_0000;
    if flags & BOTH == BOTH { Err(Status::INVALID_VALUE.into()) } else { Ok(()) }
}

/// Address and pitch of rows.
fn malloc_rows(width: u64, rows: u64) -> Result<(u64, u64)> {
    let pitch = width.checked_next_multiple_of(PITCH_BYTES).ok_or(Status::INVALID_VALUE)?;
    let bytes = pitch.checked_mul(rows).ok_or(Status::INVALID_VALUE)?;
    Ok((allocate(healthy()?, bytes, BlockKind::Device, 0)?, pitch))
}

/// What is known of an address.
struct Known {
    memory_type: MemoryType,
    device: i32,
    device_pointer: u64,
    host_pointer: u64,
    flags: u32,
}

impl Known {
    /// As `hipPointerGetAttributes` tells it.
    fn attributes(&self) -> Result<PointerAttributes> {
        Ok(PointerAttributes {
            memory_type: self.memory_type.number()?,
            device: self.device,
            device_pointer: self.device_pointer,
            host_pointer: self.host_pointer,
            is_managed: i32::from(self.memory_type == MemoryType::Managed),
            flags: self.flags,
        })
    }
}

fn known(address: u64) -> Result<Known> {
    let runtime = runtime()?;
    let block = block_at(runtime, address).map(|(_, block)| block);
    let (memory_type, host_pointer) = match block.map(|block| block.kind) {
        Some(BlockKind::Device) => (MemoryType::Device, 0),
        Some(BlockKind::Host | BlockKind::Registered) => (MemoryType::Host, address),
        Some(BlockKind::Managed) => (MemoryType::Managed, address),
        // Variables and code of modules are the device's too.
        None if runtime.gpu.allocation(address).is_some() => (MemoryType::Device, 0),
        None => {
            let memory_type = MemoryType::Unregistered;
            return Ok(Known { memory_type, device: -2, device_pointer: 0, host_pointer: 0, flags: 0 });
        }
    };
    Ok(Known {
        memory_type,
        device: block.map_or_else(peers::current, |block| block.device),
        device_pointer: address,
        host_pointer,
        flags: block.map_or(0, |block| block.flags),
    })
}

/// Writes one attribute in the type that it has.
fn put_attribute(data: &Out<u64>, attribute: c_int, address: u64) -> Result {
    use pointer_attribute as which;
    data.check()?;
    let known = known(address)?;
    if known.memory_type == MemoryType::Unregistered && attribute != which::MAPPED {
        return Err(Status::INVALID_VALUE.into());
    }
    let (start, bytes) = runtime()?.gpu.allocation(address).unwrap_or((0, 0));
    let narrow = |value: i32| data.narrow::<i32>().put(value);
    match attribute {
        which::MEMORY_TYPE => narrow(known.memory_type.number()?),
        which::DEVICE_POINTER => data.put(known.device_pointer),
        which::HOST_POINTER if known.host_pointer == 0 => Err(Status::INVALID_VALUE.into()),
        which::HOST_POINTER => data.put(known.host_pointer),
        which::BUFFER_ID | which::RANGE_START => data.put(start),
        which::IS_MANAGED => data.narrow::<u8>().put(u8::from(known.memory_type == MemoryType::Managed)),
        which::DEVICE_ORDINAL => narrow(known.device),
        // AMD's library writes 32 bits (ROCm 6.3), and a caller has no room for more.
        which::RANGE_SIZE => data.narrow::<u32>().put(bytes as u32),
        which::MAPPED => data.narrow::<u8>().put(u8::from(known.memory_type != MemoryType::Unregistered)),
        _ => Err(Status::NOT_SUPPORTED.into()),
    }
}

const ANY_HOST: &[BlockKind] = &[BlockKind::Host];
const ANY_DEVICE: &[BlockKind] = &[BlockKind::Device, BlockKind::Managed];

export! {
    /// `hipMalloc`
    fn hipMalloc(address: Out<u64>, bytes: u64) {
        malloc(&address, bytes, BlockKind::Device, 0)
    }

    /// `hipExtMallocWithFlags`
    fn hipExtMallocWithFlags(address: Out<u64>, bytes: u64, flags: c_uint) {
        malloc(&address, bytes, BlockKind::Device, flags)
    }

    /// `hipMallocAsync`
    fn hipMallocAsync(address: Out<u64>, bytes: u64, stream: Handle) {
        address.check()?;
        healthy()?.not_capturing(stream)?;
        address.put(pool::allocate(bytes)?)
    }

    /// `hipFree`
    fn hipFree(address: u64) {
        free(healthy()?, address, ANY_DEVICE)
    }

    /// `hipFreeAsync`
    fn hipFreeAsync(address: u64, stream: Handle) {
        let runtime = healthy()?;
        runtime.not_capturing(stream)?;
        free(runtime, address, ANY_DEVICE)
    }

    /// `hipHostMalloc`
    fn hipHostMalloc(address: Out<u64>, bytes: u64, flags: c_uint) {
        coherence(flags)?;
        malloc(&address, bytes, BlockKind::Host, flags)
    }

    /// `hipHostAlloc`
    fn hipHostAlloc(address: Out<u64>, bytes: u64, flags: c_uint) {
        coherence(flags)?;
        malloc(&address, bytes, BlockKind::Host, flags)
    }

    /// `hipExtHostAlloc`
    fn hipExtHostAlloc(address: Out<u64>, bytes: u64, flags: c_uint) {
        coherence(flags)?;
        malloc(&address, bytes, BlockKind::Host, flags)
    }

    /// `hipMallocHost`
    fn hipMallocHost(address: Out<u64>, bytes: u64) {
        malloc(&address, bytes, BlockKind::Host, 0)
    }

    /// `hipMemAllocHost`
    fn hipMemAllocHost(address: Out<u64>, bytes: u64) {
        malloc(&address, bytes, BlockKind::Host, 0)
    }

    /// `hipHostFree`
    fn hipHostFree(address: u64) {
        free(healthy()?, address, ANY_HOST)
    }

    /// `hipFreeHost`
    fn hipFreeHost(address: u64) {
        free(healthy()?, address, ANY_HOST)
    }

    /// `hipMallocManaged`
    fn hipMallocManaged(address: Out<u64>, bytes: u64, flags: c_uint) {
        if bytes == 0 || !(1..=4).contains(&flags) {
            return Err(Status::INVALID_VALUE.into());
        }
        malloc(&address, bytes, BlockKind::Managed, flags)
    }

    /// `hipMallocPitch`
    fn hipMallocPitch(address: Out<u64>, pitch: Out<u64>, width: u64, height: u64) {
        address.check()?;
        pitch.check()?;
        let (start, bytes) = malloc_rows(width, height)?;
        pitch.put(bytes)?;
        address.put(start)
    }

    /// `hipMemAllocPitch`
    fn hipMemAllocPitch(address: Out<u64>, pitch: Out<u64>, width: u64, height: u64, _element_bytes: c_uint) {
        address.check()?;
        pitch.check()?;
        let (start, bytes) = malloc_rows(width, height)?;
        pitch.put(bytes)?;
        address.put(start)
    }

    /// `hipMalloc3D`
    fn hipMalloc3D(pointer: Out<PitchedPointer>, extent: Extent) {
        pointer.check()?;
        let [width, height, depth] = extent.0;
        let (address, pitch) = malloc_rows(width, height.checked_mul(depth).ok_or(Status::INVALID_VALUE)?)?;
        pointer.put(PitchedPointer { address, pitch, width, height })
    }

    /// `hipHostGetDevicePointer`
    fn hipHostGetDevicePointer(device: Out<u64>, host: u64, _flags: c_uint) {
        match block_at(runtime()?, host) {
            Some((_, block)) if block.kind != BlockKind::Device => device.put(host),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    /// `hipHostGetFlags`
    fn hipHostGetFlags(flags: Out<c_uint>, host: u64) {
        match block_at(runtime()?, host) {
            Some((_, block)) if matches!(block.kind, BlockKind::Host | BlockKind::Registered) => flags.put(block.flags),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    /// `hipHostRegister`
    fn hipHostRegister(host: u64, bytes: u64, flags: c_uint) {
        let runtime = healthy()?;
        let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(host as usize));
        let pointer = pointer.filter(|_| bytes > 0).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the program promises that the memory is there until `hipHostUnregister`; launches end before it is called.
        let shared = unsafe { runtime.gpu.share(pointer, bytes) };
        let address = shared.map_err(|error| Failure::new(Status::HOST_MEMORY_ALREADY_REGISTERED, error.to_string()))?;
        lock(&runtime.blocks).insert(address, Block { bytes, kind: BlockKind::Registered, flags, device: peers::current() });
        Ok(())
    }

    /// `hipHostUnregister`
    fn hipHostUnregister(host: u64) {
        if host == 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        let status = Status::HOST_MEMORY_NOT_REGISTERED;
        free(runtime()?, host, &[BlockKind::Registered]).map_err(|failure| Failure { status, ..failure })
    }

    /// `hipMemGetInfo`
    fn hipMemGetInfo(free: Out<u64>, total: Out<u64>) {
        let (free_bytes, total_bytes) = healthy()?.memory_bytes();
        free.put_if_wanted(free_bytes);
        total.put_if_wanted(total_bytes);
        Ok(())
    }

    /// `hipMemPtrGetInfo`
    fn hipMemPtrGetInfo(address: u64, bytes: Out<u64>) {
        let (_, block) = block_at(runtime()?, address).ok_or(Status::INVALID_VALUE)?;
        bytes.put(block.bytes)
    }

    /// `hipMemGetAddressRange`
    fn hipMemGetAddressRange(start: Out<u64>, bytes: Out<u64>, address: u64) {
        let (from, length) = runtime()?.gpu.allocation(address).ok_or(Status::NOT_FOUND)?;
        start.put_if_wanted(from);
        bytes.put_if_wanted(length);
        Ok(())
    }

    /// `hipPointerGetAttributes`
    fn hipPointerGetAttributes(out: Out<PointerAttributes>, address: u64) {
        if address == 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        out.put(known(address)?.attributes()?)
    }

    /// `hipPointerGetAttribute`
    fn hipPointerGetAttribute(data: Out<u64>, attribute: c_int, address: u64) {
        put_attribute(&data, attribute, address)
    }

    /// `hipDrvPointerGetAttributes`
    fn hipDrvPointerGetAttributes(count: c_uint, which: In<c_int>, data: In<Out<u64>>, address: u64) {
        let data = data.list(count as usize)?;
        which.list(count as usize)?.iter().zip(&data).try_for_each(|(&which, data)| put_attribute(data, which, address))
    }

    /// `hipMemPrefetchAsync`: memory is where it is.
    fn hipMemPrefetchAsync(address: u64, bytes: u64, _device: c_int, stream: Handle) {
        let runtime = healthy()?;
        runtime.stream(stream)?;
        let inside = block_at(runtime, address).filter(|(start, block)| bytes <= start + block.bytes - address);
        inside.filter(|(_, block)| block.kind == BlockKind::Managed).map(|_| ()).ok_or_else(|| Status::INVALID_VALUE.into())
    }

    /// `hipMemAdvise`: advice changes nothing.
    fn hipMemAdvise(address: u64, _bytes: u64, _advice: c_int, _device: c_int) {
        block_at(healthy()?, address).map(|_| ()).ok_or_else(|| Status::INVALID_VALUE.into())
    }

    /// `hipStreamAttachMemAsync`
    fn hipStreamAttachMemAsync(stream: Handle, address: u64, _bytes: u64, _flags: c_uint) {
        let runtime = healthy()?;
        runtime.stream(stream)?;
        block_at(runtime, address).map(|_| ()).ok_or_else(|| Status::INVALID_VALUE.into())
    }
}

impl Runtime {
    /// Whether memory can be had or given back on a stream now.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` for a stream that is captured: nodes that allocate are not emulated.
    pub fn not_capturing(&self, stream: Handle) -> Result {
        match self.stream(stream)?.capture() {
            Some(capture) => {
                capture.invalidate();
                Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED, "graphs that allocate or free are not emulated"))
            }
            None => Ok(()),
        }
    }
}
