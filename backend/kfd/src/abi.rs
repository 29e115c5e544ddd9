//! The structs of `linux/kfd_ioctl.h`, and those of AMD's runtime that a command processor reads and writes.
//!
//! Names and order of fields are the header's. A struct is copied in and out by the length that the caller's request names, as
//! the kernel does it, so that a newer or an older header's struct works too.

use bytemuck::{Pod, Zeroable};

/// `AMDKFD_IOCTL_BASE`.
pub const BASE: u64 = b'K' as u64;

/// Numbers of the requests.
pub mod request {
    #![allow(missing_docs, reason = "the header's names")]
    pub const GET_VERSION: u8 = 0x01;
    pub const CREATE_QUEUE: u8 = 0x02;
    pub const DESTROY_QUEUE: u8 = 0x03;
    pub const SET_MEMORY_POLICY: u8 = 0x04;
    pub const GET_CLOCK_COUNTERS: u8 = 0x05;
    pub const UPDATE_QUEUE: u8 = 0x07;
    pub const CREATE_EVENT: u8 = 0x08;
    pub const DESTROY_EVENT: u8 = 0x09;
    pub const SET_EVENT: u8 = 0x0a;
    pub const RESET_EVENT: u8 = 0x0b;
    pub const WAIT_EVENTS: u8 = 0x0c;
    pub const SET_SCRATCH_BACKING_VA: u8 = 0x11;
    pub const GET_TILE_CONFIG: u8 = 0x12;
    pub const SET_TRAP_HANDLER: u8 = 0x13;
    pub const GET_PROCESS_APERTURES_NEW: u8 = 0x14;
    pub const ACQUIRE_VM: u8 = 0x15;
    pub const ALLOC_MEMORY_OF_GPU: u8 = 0x16;
    pub const FREE_MEMORY_OF_GPU: u8 = 0x17;
    pub const MAP_MEMORY_TO_GPU: u8 = 0x18;
    pub const UNMAP_MEMORY_FROM_GPU: u8 = 0x19;
    pub const SET_CU_MASK: u8 = 0x1a;
    pub const AVAILABLE_MEMORY: u8 = 0x23;
}

/// Flags of an allocation.
pub mod memory_flag {
    #![allow(missing_docs, reason = "the header's names")]
    pub const VRAM: u32 = 1 << 0;
    pub const GTT: u32 = 1 << 1;
    pub const USERPTR: u32 = 1 << 2;
    pub const DOORBELL: u32 = 1 << 3;
    pub const MMIO_REMAP: u32 = 1 << 4;
    pub const AQL_QUEUE_MEM: u32 = 1 << 27;
}

/// `KFD_IOC_QUEUE_TYPE_COMPUTE_AQL`.
pub const QUEUE_TYPE_AQL: u32 = 2;
/// `KFD_IOC_EVENT_MEMORY`.
pub const EVENT_MEMORY: u32 = 8;
/// `KFD_IOC_WAIT_RESULT_COMPLETE` and `_TIMEOUT`.
pub const WAIT_COMPLETE: u32 = 0;
/// See there.
pub const WAIT_TIMEOUT: u32 = 1;

/// Declares structs with public fields of the header's names.
macro_rules! structs {
    ($($name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            #[doc = concat!("`kfd_", stringify!($name), "`.")]
            #[allow(missing_docs, reason = "the header's names")]
            #[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
            #[repr(C)]
            pub struct $name {
                $(pub $field: $kind,)*
            }
        )*
    };
}

structs! {
    Version { major_version: u32, minor_version: u32 }
    CreateQueue {
        ring_base_address: u64,
        write_pointer_address: u64,
        read_pointer_address: u64,
        doorbell_offset: u64,
        ring_size: u32,
        gpu_id: u32,
        queue_type: u32,
        queue_percentage: u32,
        queue_priority: u32,
        queue_id: u32,
        eop_buffer_address: u64,
        eop_buffer_size: u64,
        ctx_save_restore_address: u64,
        ctx_save_restore_size: u32,
        ctl_stack_size: u32,
    }
    DestroyQueue { queue_id: u32, pad: u32 }
    ClockCounters {
        gpu_clock_counter: u64,
        cpu_clock_counter: u64,
        system_clock_counter: u64,
        system_clock_freq: u64,
        gpu_id: u32,
        pad: u32,
    }
    DeviceApertures {
        lds_base: u64,
        lds_limit: u64,
        scratch_base: u64,
        scratch_limit: u64,
        gpuvm_base: u64,
        gpuvm_limit: u64,
        gpu_id: u32,
        pad: u32,
    }
    ProcessApertures { kfd_process_device_apertures_ptr: u64, num_of_nodes: u32, pad: u32 }
    CreateEvent {
        event_page_offset: u64,
        event_trigger_data: u32,
        event_type: u32,
        auto_reset: u32,
        node_id: u32,
        event_id: u32,
        event_slot_index: u32,
    }
    EventArgs { event_id: u32, pad: u32 }
    MemoryException {
        not_present: u32,
        read_only: u32,
        no_execute: u32,
        imprecise: u32,
        va: u64,
        gpu_id: u32,
        error_type: u32,
    }
    EventData {
        memory_exception: MemoryException,
        kfd_event_data_ext: u64,
        event_id: u32,
        pad: u32,
    }
    WaitEvents { events_ptr: u64, num_events: u32, wait_for_all: u32, timeout: u32, wait_result: u32 }
    AllocMemory { va_addr: u64, size: u64, handle: u64, mmap_offset: u64, gpu_id: u32, flags: u32 }
    FreeMemory { handle: u64 }
    TileConfig {
        tile_config_ptr: u64,
        macro_tile_config_ptr: u64,
        num_tile_configs: u32,
        num_macro_tile_configs: u32,
        gpu_id: u32,
        gb_addr_config: u32,
        num_banks: u32,
        num_ranks: u32,
    }
    MapMemory { handle: u64, device_ids_array_ptr: u64, n_devices: u32, n_success: u32 }
    AvailableMemory { available: u64, gpu_id: u32, pad: u32 }
}

/// An answer to a request that says no: the number that goes to `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);
