//! Requests of the runtime to the driver, answered.

use bytemuck::{Pod, Zeroable};

use crate::abi::{
    AllocMemory, AvailableMemory, BASE, ClockCounters, CreateEvent, CreateQueue, DestroyQueue, DeviceApertures, Errno,
    EventArgs, EventData, FreeMemory, MapMemory, ProcessApertures, TileConfig, Version, WaitEvents, request,
};
use crate::card::{Card, GPU_ID, now_ns};
use crate::memory::EVENTS;

/// The interface that is answered, of `linux/kfd_ioctl.h`.
const VERSION: Version = Version { major_version: 1, minor_version: 11 };
/// The clocks count nanoseconds.
const CLOCK_HZ: u64 = 1_000_000_000;
/// Events that a wait may name.
const WAIT_MAX: u32 = 4096;

/// Where LDS and scratch are for flat addresses: the emulator's apertures. The runtime passes them on to kernels that ask.
const LDS_BASE: u64 = 0x0001_0000_0000_0000;
/// See there.
const SCRATCH_BASE: u64 = 0x0002_0000_0000_0000;
/// Bytes of each, less one.
const APERTURE_LIMIT: u64 = 0xffff_ffff;
/// The addresses that the card reaches: all of a process's, from past the first page that a null pointer may meet.
const GPUVM_BASE: u64 = 0x1_0000;
/// See there.
const GPUVM_LIMIT: u64 = (1 << 47) - 1;

/// The bytes that a request's argument points to.
pub struct Argument {
    host: *mut u8,
    bytes: usize,
}

impl Argument {
    /// # Safety
    /// - `host` is to as many bytes as the request says, or the program would fault at the kernel's too.
    pub unsafe fn new(request: u64, host: *mut u8) -> Argument {
        Argument { host, bytes: (request >> 16 & 0x3fff) as usize }
    }

    /// Answers by a struct, of which as much is copied in and out as both know.
    fn answer<T: Pod + Zeroable>(&self, answer: impl FnOnce(&mut T) -> Result<(), Errno>) -> Result<(), Errno> {
        if self.host.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let mut value = T::zeroed();
        let bytes = self.bytes.min(size_of::<T>());
        // SAFETY: by `new`'s duty there are as many bytes, and any are a value of the struct.
        unsafe { std::ptr::copy_nonoverlapping(self.host, bytemuck::bytes_of_mut(&mut value).as_mut_ptr(), bytes) };
        let answered = answer(&mut value);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytemuck::bytes_of(&value).as_ptr(), self.host, bytes) };
        answered
    }
}

/// Items that a struct points to.
///
/// # Safety
/// - `address` is null or to as many of them, as [`Argument::new`].
unsafe fn items<'a, T: Pod>(address: u64, count: u32) -> Result<&'a mut [T], Errno> {
    let host: *mut T = std::ptr::with_exposed_provenance_mut(address as usize);
    if host.is_null() || !host.is_aligned() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's duty; any bytes are a value.
    Ok(unsafe { std::slice::from_raw_parts_mut(host, count as usize) })
}

/// Whether a request is one to this driver.
pub fn is_ours(request: u64) -> bool {
    request >> 8 & 0xff == BASE
}

/// Answers a request.
///
/// # Errors
/// The number for `errno`: `EINVAL` for a request that is not known, as an older kernel has it.
pub fn answer(card: &'static Card, request: u64, argument: &Argument) -> Result<(), Errno> {
    let number = request as u8;
    match number {
        request::GET_VERSION => argument.answer(|version| {
            *version = VERSION;
            Ok(())
        }),
        request::GET_CLOCK_COUNTERS => argument.answer(|clocks: &mut ClockCounters| {
            let now = now_ns();
            (clocks.gpu_clock_counter, clocks.cpu_clock_counter, clocks.system_clock_counter) = (now, now, now);
            clocks.system_clock_freq = CLOCK_HZ;
            Ok(())
        }),
        request::GET_PROCESS_APERTURES_NEW => argument.answer(apertures),
        // There is one order of memory, one address space, and no trap handler that would be run.
        request::SET_MEMORY_POLICY
        | request::ACQUIRE_VM
        | request::SET_SCRATCH_BACKING_VA
        | request::SET_TRAP_HANDLER
        | request::UPDATE_QUEUE
        | request::SET_CU_MASK => Ok(()),
        request::CREATE_QUEUE => argument.answer(|args: &mut CreateQueue| card.create_queue(args)),
        // How images lie in memory: there are none, but the runtime asks before it knows that.
        request::GET_TILE_CONFIG => argument.answer(|args: &mut TileConfig| {
            (args.num_tile_configs, args.num_macro_tile_configs, args.gb_addr_config) = (0, 0, 0);
            Ok(())
        }),
        request::DESTROY_QUEUE => argument.answer(|args: &mut DestroyQueue| card.destroy_queue(args.queue_id)),
        request::AVAILABLE_MEMORY => argument.answer(|args: &mut AvailableMemory| {
            args.available = card.buffers.available_bytes();
            Ok(())
        }),
        request::ALLOC_MEMORY_OF_GPU => {
            argument.answer(|args: &mut AllocMemory| card.buffers.allocate(&card.file, args))
        }
        request::FREE_MEMORY_OF_GPU => {
            argument.answer(|args: &mut FreeMemory| card.buffers.free(&card.gpu, &card.file, args.handle))
        }
        request::MAP_MEMORY_TO_GPU => argument.answer(|args: &mut MapMemory| {
            args.n_success = args.n_devices;
            card.buffers.map(&card.gpu, args.handle)
        }),
        request::UNMAP_MEMORY_FROM_GPU => argument.answer(|args: &mut MapMemory| {
            args.n_success = args.n_devices;
            card.buffers.unmap(&card.gpu, args.handle)
        }),
        request::CREATE_EVENT => argument.answer(|args: &mut CreateEvent| {
            args.event_id = card.events.create(args.event_type, args.auto_reset != 0)?;
            (args.event_slot_index, args.event_trigger_data) = (args.event_id, args.event_id);
            // Without a page an event has no slot, and nobody is woken by the signal that it belongs to.
            args.event_page_offset = EVENTS;
            Ok(())
        }),
        request::DESTROY_EVENT => argument.answer(|args: &mut EventArgs| card.events.destroy(args.event_id)),
        request::SET_EVENT => argument.answer(|args: &mut EventArgs| card.events.set(args.event_id)),
        request::RESET_EVENT => argument.answer(|args: &mut EventArgs| card.events.reset(args.event_id)),
        request::WAIT_EVENTS => argument.answer(|args: &mut WaitEvents| {
            if args.num_events > WAIT_MAX {
                return Err(Errno(libc::EINVAL));
            }
            // SAFETY: the runtime says that as many are there.
            let data = unsafe { items::<EventData>(args.events_ptr, args.num_events) }?;
            args.wait_result = card.events.wait(data, args.wait_for_all != 0, args.timeout)?;
            Ok(())
        }),
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn apertures(args: &mut ProcessApertures) -> Result<(), Errno> {
    if args.num_of_nodes > 0 {
        // SAFETY: the runtime says that there is room for as many.
        let rows = unsafe { items::<DeviceApertures>(args.kfd_process_device_apertures_ptr, 1) }?;
        rows[0] = DeviceApertures {
            lds_base: LDS_BASE,
            lds_limit: LDS_BASE + APERTURE_LIMIT,
            scratch_base: SCRATCH_BASE,
            scratch_limit: SCRATCH_BASE + APERTURE_LIMIT,
            gpuvm_base: GPUVM_BASE,
            gpuvm_limit: GPUVM_LIMIT,
            gpu_id: GPU_ID,
            pad: 0,
        };
    }
    args.num_of_nodes = 1;
    Ok(())
}
