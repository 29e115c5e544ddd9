//! What the tests call of `libhsa-runtime64`, by its public header.

use std::ffi::{CString, c_char, c_void};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use libloading::Library;

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 64;
/// Places of a queue.
const PLACES: u32 = 1024;
/// Numbers of the header: a queue for several threads, the default profile, the end of a symbol's query.
const QUEUE_MULTI: u32 = 0;
const SEGMENT_UNKNOWN: u32 = u32::MAX;
const PROFILE_FULL: u32 = 1;
const DEVICE_GPU: u32 = 1;
const AGENT_NAME: u32 = 0;
const AGENT_DEVICE: u32 = 17;
const AGENT_PRODUCT: u32 = 0xA009;
const SYMBOL_KERNEL_OBJECT: u32 = 22;
const POOL_FLAGS: u32 = 1;
const POOL_FINE_GRAINED: u32 = 2;
const CONDITION_EQ: u32 = 0;
const WAIT_BLOCKED: u32 = 0;
const ITERATION_ENDS: i32 = 1;

/// The library.
pub struct Hsa(Library);

macro_rules! call {
    ($hsa:expr, $name:ident($($value:expr => $kind:ty),* $(,)?) -> $result:ty) => {{
        let name = concat!(stringify!($name), "\0");
        // SAFETY: the function has this type in AMD's header, and the arguments are what it says there.
        unsafe { $hsa.0.get::<unsafe extern "C" fn($($kind),*) -> $result>(name.as_bytes()).unwrap()($($value),*) }
    }};
}

macro_rules! succeed {
    ($hsa:expr, $name:ident($($value:expr => $kind:ty),* $(,)?)) => {
        assert_eq!(call!($hsa, $name($($value => $kind),*) -> i32), 0, stringify!($name))
    };
}

/// Memory of the host's that the card reaches too.
pub struct Memory(*mut u8);

impl Memory {
    pub fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    pub fn write(&self, bytes: &[u8]) {
        // SAFETY: tests write no more than they have allocated.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) };
    }

    pub fn read(&self, bytes: usize) -> Vec<u8> {
        // SAFETY: as above, and the kernel has ended.
        unsafe { std::slice::from_raw_parts(self.0, bytes) }.to_vec()
    }
}

/// A queue: `hsa_queue_t`.
pub struct Queue<'a> {
    hsa: &'a Hsa,
    queue: *mut c_void,
}

impl Queue<'_> {
    /// Puts a packet into the next place, its header last, and rings.
    pub fn submit(&self, packet: &[u8; PACKET_BYTES]) {
        let index = call!(self.hsa, hsa_queue_add_write_index_screlease(self.queue => *mut c_void, 1 => u64) -> u64);
        while index - call!(self.hsa, hsa_queue_load_read_index_scacquire(self.queue => *mut c_void) -> u64)
            >= u64::from(PLACES)
        {
            std::thread::yield_now();
        }
        // SAFETY: `base_address` and `doorbell_signal` are at these offsets of the struct, the ring has as many places, and this
        // one is free.
        unsafe {
            let base: *mut u8 = self.queue.cast::<*mut u8>().add(1).read();
            let place = base.add(index as usize % PLACES as usize * PACKET_BYTES);
            std::ptr::copy_nonoverlapping(packet.as_ptr().add(2), place.add(2), PACKET_BYTES - 2);
            let header = u16::from_le_bytes([packet[0], packet[1]]);
            AtomicU16::from_ptr(place.cast()).store(header, Ordering::Release);
            let doorbell = self.queue.cast::<u64>().add(2).read();
            self.hsa.store(doorbell, index as i64);
        }
    }

    pub fn destroy(self) {
        succeed!(self.hsa, hsa_queue_destroy(self.queue => *mut c_void));
    }
}

/// Packets, as bytes.
pub mod packet {
    use super::PACKET_BYTES;

    /// A barrier of a kind: 3 for all of the signals, 5 for any.
    pub fn barrier(kind: u8, signals: &[u64], completion: u64) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        packet[0] = kind;
        for (i, signal) in signals.iter().enumerate() {
            packet[8 + 8 * i..16 + 8 * i].copy_from_slice(&signal.to_le_bytes());
        }
        packet[56..].copy_from_slice(&completion.to_le_bytes());
        packet
    }

    /// A launch in one dimension, with system-wide fences on both sides.
    pub fn dispatch(kernel: u64, items: u32, block: u16, kernarg: u64, completion: u64) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        packet[..2].copy_from_slice(&(2u16 | 1 << 8 | 2 << 9 | 2 << 11).to_le_bytes());
        packet[2] = 1;
        for (at, size) in [(4, block), (6, 1), (8, 1)] {
            packet[at..at + 2].copy_from_slice(&size.to_le_bytes());
        }
        for (at, size) in [(12, items), (16, 1), (20, 1)] {
            packet[at..at + 4].copy_from_slice(&size.to_le_bytes());
        }
        packet[32..40].copy_from_slice(&kernel.to_le_bytes());
        packet[40..48].copy_from_slice(&kernarg.to_le_bytes());
        packet[56..].copy_from_slice(&completion.to_le_bytes());
        packet
    }
}

/// Calls a closure on handles until it says that it has found what it looks for.
unsafe extern "C" fn each(handle: u64, closure: *mut c_void) -> i32 {
    // SAFETY: it is what `find` passes.
    let closure = unsafe { &mut *closure.cast::<&mut dyn FnMut(u64) -> bool>() };
    if closure(handle) { ITERATION_ENDS } else { 0 }
}

impl Hsa {
    /// The runtime that the loader finds.
    pub fn open() -> Option<Hsa> {
        // SAFETY: the library's constructors ask nothing of us.
        unsafe { Library::new("libhsa-runtime64.so.1") }.ok().map(Hsa)
    }

    pub fn init(self) -> Hsa {
        succeed!(self, hsa_init());
        self
    }

    pub fn shut_down(&self) {
        succeed!(self, hsa_shut_down());
    }

    /// The one GPU.
    pub fn card(&self) -> u64 {
        let mut cards = Vec::new();
        let mut note = |agent: u64| {
            let mut device = 0u32;
            self.agent_info(agent, AGENT_DEVICE, (&raw mut device).cast());
            if device == DEVICE_GPU {
                cards.push(agent);
            }
            false
        };
        let mut closure: &mut dyn FnMut(u64) -> bool = &mut note;
        succeed!(self, hsa_iterate_agents(each => unsafe extern "C" fn(u64, *mut c_void) -> i32,
            (&raw mut closure).cast() => *mut c_void));
        assert_eq!(cards.len(), 1);
        cards[0]
    }

    fn agent_info(&self, agent: u64, which: u32, to: *mut c_void) {
        succeed!(self, hsa_agent_get_info(agent => u64, which => u32, to => *mut c_void));
    }

    fn agent_text(&self, agent: u64, which: u32) -> String {
        let mut name = [0u8; 64];
        self.agent_info(agent, which, name.as_mut_ptr().cast());
        String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
    }

    pub fn name(&self, agent: u64) -> String {
        self.agent_text(agent, AGENT_NAME)
    }

    pub fn product(&self, agent: u64) -> String {
        self.agent_text(agent, AGENT_PRODUCT)
    }

    pub fn queue(&self, agent: u64) -> Queue<'_> {
        let mut queue = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        succeed!(self, hsa_queue_create(agent => u64, PLACES => u32, QUEUE_MULTI => u32, none => *mut c_void, none => *mut c_void,
            u32::MAX => u32, u32::MAX => u32, &raw mut queue => *mut *mut c_void));
        Queue { hsa: self, queue }
    }

    pub fn signal(&self, value: i64) -> u64 {
        let mut signal = 0;
        succeed!(self, hsa_signal_create(value => i64, 0 => u32, std::ptr::null() => *const u64, &raw mut signal => *mut u64));
        signal
    }

    pub fn store(&self, signal: u64, value: i64) {
        call!(self, hsa_signal_store_screlease(signal => u64, value => i64) -> ());
    }

    /// Waits for zero up to so many milliseconds; the value then.
    pub fn wait_zero(&self, signal: u64, timeout_ms: u64) -> i64 {
        let mut ticks_per_second = 0u64;
        const TIMESTAMP_FREQUENCY: u32 = 3;
        succeed!(self, hsa_system_get_info(TIMESTAMP_FREQUENCY => u32, (&raw mut ticks_per_second).cast() => *mut c_void));
        let ticks = timeout_ms * ticks_per_second / 1000;
        call!(self, hsa_signal_wait_scacquire(signal => u64, CONDITION_EQ => u32, 0 => i64, ticks => u64, WAIT_BLOCKED => u32) -> i64)
    }

    /// Loads a code object by AMD's loader: the address of a kernel's descriptor.
    pub fn load(&self, agent: u64, object: &[u8], kernel: &str) -> u64 {
        let (mut reader, mut executable, mut symbol, mut address) = (0u64, 0u64, 0u64, 0u64);
        succeed!(self, hsa_code_object_reader_create_from_memory(object.as_ptr().cast() => *const c_void, object.len() => usize,
            &raw mut reader => *mut u64));
        succeed!(self, hsa_executable_create_alt(PROFILE_FULL => u32, 0 => u32, std::ptr::null() => *const c_char,
            &raw mut executable => *mut u64));
        let none = std::ptr::null_mut();
        succeed!(self, hsa_executable_load_agent_code_object(executable => u64, agent => u64, reader => u64,
            std::ptr::null() => *const c_char, none => *mut u64));
        succeed!(self, hsa_executable_freeze(executable => u64, std::ptr::null() => *const c_char));
        let kernel = CString::new(kernel).unwrap();
        succeed!(self, hsa_executable_get_symbol_by_name(executable => u64, kernel.as_ptr() => *const c_char,
            &raw const agent => *const u64, &raw mut symbol => *mut u64));
        succeed!(self, hsa_executable_symbol_get_info(symbol => u64, SYMBOL_KERNEL_OBJECT => u32,
            (&raw mut address).cast() => *mut c_void));
        address
    }

    /// Memory of a fine-grained pool of the host's, which the card is given access to.
    pub fn host_memory(&self, card: u64, bytes: usize) -> Memory {
        let mut pools = Vec::new();
        let mut fine = |pool: u64| {
            let (mut segment, mut flags) = (SEGMENT_UNKNOWN, 0u32);
            succeed!(self, hsa_amd_memory_pool_get_info(pool => u64, 0 => u32, (&raw mut segment).cast() => *mut c_void));
            succeed!(self, hsa_amd_memory_pool_get_info(pool => u64, POOL_FLAGS => u32, (&raw mut flags).cast() => *mut c_void));
            if segment == 0 && flags & POOL_FINE_GRAINED != 0 {
                pools.push(pool);
            }
            false
        };
        let mut closure: &mut dyn FnMut(u64) -> bool = &mut fine;
        succeed!(self, hsa_amd_agent_iterate_memory_pools(self.processor() => u64,
            each => unsafe extern "C" fn(u64, *mut c_void) -> i32, (&raw mut closure).cast() => *mut c_void));
        let mut memory = std::ptr::null_mut();
        succeed!(self, hsa_amd_memory_pool_allocate(pools[0] => u64, bytes => usize, 0 => u32, &raw mut memory => *mut *mut c_void));
        succeed!(self, hsa_amd_agents_allow_access(1 => u32, &raw const card => *const u64, std::ptr::null() => *const u32,
            memory => *mut c_void));
        Memory(memory.cast())
    }

    fn processor(&self) -> u64 {
        let found = AtomicU64::new(0);
        let mut note = |agent: u64| {
            let mut device = 0u32;
            self.agent_info(agent, AGENT_DEVICE, (&raw mut device).cast());
            if device != DEVICE_GPU {
                found.store(agent, Ordering::Relaxed);
            }
            device != DEVICE_GPU
        };
        let mut closure: &mut dyn FnMut(u64) -> bool = &mut note;
        // It ends early, and says so.
        call!(self, hsa_iterate_agents(each => unsafe extern "C" fn(u64, *mut c_void) -> i32,
            (&raw mut closure).cast() => *mut c_void) -> i32);
        found.into_inner()
    }
}
