//! The card's memory: bytes of one anonymous file, which the runtime maps through the descriptor that it took for the
//! driver's, and which is mapped here once more for the emulator.
//!
//! A buffer has a place in the file, its offset, which the runtime passes to `mmap`; and an address of the card's, which the
//! runtime chose. Memory that the program owns (`USERPTR`) is not in the file. Kernels reach a buffer from when it is mapped
//! to the card until it is unmapped.
//!
//! A program may free a buffer while kernels run that have nothing to do with it. The emulator may still hold a window on it
//! then, so the mapping here stays until no kernel runs.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, RwLock};

use rocfire_emulator::Gpu;

use crate::abi::{AllocMemory, Errno, memory_flag};
use crate::lock;
use crate::pages::{File, Mapping};

/// Pages of the host.
const PAGE_BYTES: u64 = 4096;
/// Where in the file the doorbells are: a place that no buffer has. AMD's library takes all below 4 GiB for the offset of the first
/// queue's doorbell, since it does not yet know then how many bytes of them there are (`hsaKmtCreateQueue` of ROCm 5.2).
pub const DOORBELLS: u64 = 1 << 32;
/// Bytes of them: 1024 of eight.
pub const DOORBELLS_BYTES: u64 = 8 << 10;
/// The page of slots that a card writes events' numbers to, where the runtime has none of its own.
pub const EVENTS: u64 = DOORBELLS + DOORBELLS_BYTES;
/// The page that the runtime writes to when it wants caches flushed.
const REMAPPED_REGISTERS: u64 = 0x2_0000;
/// The first place of a buffer. Places are handed out upwards and not again: the file has holes, and room for 16 TiB.
const FIRST_BUFFER: u64 = 2 << 32;
/// See there.
pub const FILE_BYTES: u64 = 1 << 44;

/// What the card has of a buffer.
enum Bytes {
    /// A part of the file, mapped.
    File { offset: u64, mapping: Mapping },
    /// The program's own.
    User(NonNull<u8>),
    /// Doorbells and registers, which kernels do not reach.
    Registers,
}

struct Buffer {
    address: u64,
    bytes: u64,
    vram: bool,
    mapped: bool,
    what: Bytes,
}

// SAFETY: the pointers of a buffer are to memory that belongs to the process, not to a thread.
unsafe impl Send for Buffer {}

struct Table {
    buffers: BTreeMap<u64, Buffer>,
    /// Of mapped buffers, by the card's address.
    mapped: BTreeMap<u64, u64>,
    next_handle: u64,
    next_offset: u64,
    vram_used: u64,
}

/// All buffers of the process.
pub struct Buffers {
    table: Mutex<Table>,
    vram_bytes: u64,
    /// Mappings of freed buffers, which a running kernel may have windows on.
    retired: Mutex<Vec<Mapping>>,
    /// Held for reading while a kernel runs.
    running: RwLock<()>,
}

impl Buffers {
    /// None yet, and so many bytes of the card's own.
    pub fn new(vram_bytes: u64) -> Buffers {
        let (buffers, mapped) = (BTreeMap::new(), BTreeMap::new());
        let table = Table { buffers, mapped, next_handle: 1, next_offset: FIRST_BUFFER, vram_used: 0 };
        Buffers { table: Mutex::new(table), vram_bytes, retired: Mutex::default(), running: RwLock::new(()) }
    }

    /// Bytes of the card's own that are left.
    pub fn available_bytes(&self) -> u64 {
        self.vram_bytes - lock(&self.table).vram_used
    }

    /// Makes a buffer: fills in its handle and its place in the file.
    ///
    /// # Errors
    /// `ENOMEM` if the card has not so much, `EINVAL` for numbers that make no sense or a kind that is not here.
    pub fn allocate(&self, file: &File, args: &mut AllocMemory) -> Result<(), Errno> {
        let vram = args.flags & memory_flag::VRAM != 0;
        let aligned = args.va_addr.is_multiple_of(PAGE_BYTES) && args.size > 0 && args.size < FILE_BYTES;
        if !aligned || args.flags & memory_flag::AQL_QUEUE_MEM != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let bytes = args.size.next_multiple_of(PAGE_BYTES);
        let mut table = lock(&self.table);
        if vram && bytes > self.vram_bytes - table.vram_used {
            return Err(Errno(libc::ENOMEM));
        }
        let what = if args.flags & memory_flag::USERPTR != 0 {
            let host = std::ptr::with_exposed_provenance_mut(args.mmap_offset as usize);
            Bytes::User(NonNull::new(host).ok_or(Errno(libc::EINVAL))?)
        } else if args.flags & memory_flag::DOORBELL != 0 {
            args.mmap_offset = DOORBELLS;
            Bytes::Registers
        } else if args.flags & memory_flag::MMIO_REMAP != 0 {
            args.mmap_offset = REMAPPED_REGISTERS;
            Bytes::Registers
        } else if vram || args.flags & memory_flag::GTT != 0 {
            let offset = table.next_offset;
            if bytes > FILE_BYTES - offset {
                return Err(Errno(libc::ENOMEM));
            }
            let mapping = file.map(offset, bytes).ok_or(Errno(libc::ENOMEM))?;
            table.next_offset = offset + bytes;
            args.mmap_offset = offset;
            Bytes::File { offset, mapping }
        } else {
            return Err(Errno(libc::EINVAL));
        };
        args.handle = table.next_handle;
        table.next_handle += 1;
        table.vram_used += if vram { bytes } else { 0 };
        table.buffers.insert(args.handle, Buffer { address: args.va_addr, bytes, vram, mapped: false, what });
        Ok(())
    }

    /// Gives kernels a buffer. Again is as once.
    ///
    /// # Errors
    /// `EINVAL` if there is none, or its address is another one's.
    pub fn map(&self, gpu: &Gpu, handle: u64) -> Result<(), Errno> {
        let mut table = lock(&self.table);
        let buffer = table.buffers.get_mut(&handle).ok_or(Errno(libc::EINVAL))?;
        let host = match &buffer.what {
            Bytes::File { mapping, .. } => mapping.host(),
            Bytes::User(host) => *host,
            Bytes::Registers => return Ok(()),
        };
        if !buffer.mapped {
            // SAFETY: a mapping of the file stays while a kernel may run (`retire`); the program's own memory is its promise, as
            // to the kernel driver, which ends a program that breaks it.
            let shared = unsafe { gpu.share_at(buffer.address, host, buffer.bytes) };
            shared.map_err(|_| Errno(libc::EINVAL))?;
            buffer.mapped = true;
            let address = buffer.address;
            table.mapped.insert(address, handle);
        }
        Ok(())
    }

    /// Takes a buffer from kernels.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub fn unmap(&self, gpu: &Gpu, handle: u64) -> Result<(), Errno> {
        let mut table = lock(&self.table);
        let buffer = table.buffers.get_mut(&handle).ok_or(Errno(libc::EINVAL))?;
        if buffer.mapped {
            gpu.free(buffer.address).map_err(|_| Errno(libc::EINVAL))?;
            buffer.mapped = false;
            let address = buffer.address;
            table.mapped.remove(&address);
        }
        Ok(())
    }

    /// Unmakes a buffer.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub fn free(&self, gpu: &Gpu, file: &File, handle: u64) -> Result<(), Errno> {
        self.unmap(gpu, handle)?;
        let mut table = lock(&self.table);
        let buffer = table.buffers.remove(&handle).ok_or(Errno(libc::EINVAL))?;
        table.vram_used -= if buffer.vram { buffer.bytes } else { 0 };
        drop(table);
        if let Bytes::File { offset, mapping } = buffer.what {
            self.retire(mapping);
            file.punch(offset, buffer.bytes);
        }
        Ok(())
    }

    /// The host's pointer to so many bytes at an address of the card's, if they are in one buffer that is mapped.
    pub fn host(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        let table = lock(&self.table);
        let (&start, handle) = table.mapped.range(..=address).next_back()?;
        let buffer = table.buffers.get(handle)?;
        let offset = address - start;
        if bytes > buffer.bytes.checked_sub(offset)? {
            return None;
        }
        let host = match &buffer.what {
            Bytes::File { mapping, .. } => mapping.host(),
            Bytes::User(host) => *host,
            Bytes::Registers => return None,
        };
        // SAFETY: the offset is inside the buffer, whose memory begins there.
        Some(unsafe { host.add(offset as usize) })
    }

    /// Runs a kernel, while which no mapping goes.
    pub fn while_running<R>(&self, run: impl FnOnce() -> R) -> R {
        let running = self.running.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let result = run();
        drop(running);
        self.sweep();
        result
    }

    fn retire(&self, mapping: Mapping) {
        lock(&self.retired).push(mapping);
        self.sweep();
    }

    /// Drops what was retired, if no kernel runs.
    fn sweep(&self) {
        if let Ok(_none) = self.running.try_write() {
            lock(&self.retired).clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use rocfire_arch::{Arch, DEFAULT_EMULATED};
    use rocfire_emulator::Options;

    use super::*;

    const ADDRESS: u64 = 0x10_0000_0000;

    fn card() -> (Gpu, File, Buffers) {
        let gpu = Gpu::new(Arch::parse(DEFAULT_EMULATED).unwrap(), Options::default()).unwrap();
        (gpu, File::new(FILE_BYTES).unwrap(), Buffers::new(1 << 20))
    }

    fn args(address: u64, size: u64, flags: u32) -> AllocMemory {
        AllocMemory { va_addr: address, size, flags, ..AllocMemory::default() }
    }

    #[test]
    fn kernels_and_the_runtime_see_the_same_bytes() {
        let (gpu, file, buffers) = card();
        let mut made = args(ADDRESS, 8192, memory_flag::GTT);
        buffers.allocate(&file, &mut made).unwrap();
        assert!(gpu.write(ADDRESS, &[1]).is_err(), "it is not mapped to the card yet");
        buffers.map(&gpu, made.handle).unwrap();
        buffers.map(&gpu, made.handle).unwrap();
        gpu.write(ADDRESS + 4096, b"card").unwrap();
        // As the runtime does it: by the file's descriptor and the place that it was told.
        let theirs = file.map(made.mmap_offset, 8192).unwrap();
        // SAFETY: the mapping has 8192 bytes.
        let seen = unsafe { std::slice::from_raw_parts(theirs.host().as_ptr().add(4096), 4) };
        assert_eq!(seen, b"card");
        let host = buffers.host(ADDRESS + 4096, 4).unwrap();
        // SAFETY: `host` gave a pointer to four bytes.
        assert_eq!(unsafe { host.as_ptr().read() }, b'c');
        assert!(buffers.host(ADDRESS + 8190, 4).is_none(), "it ends there");
        buffers.free(&gpu, &file, made.handle).unwrap();
        assert!(gpu.write(ADDRESS, &[1]).is_err() && buffers.host(ADDRESS, 1).is_none());
    }

    #[test]
    fn freed_bytes_read_as_zero_in_the_next_buffer_and_room_comes_back() {
        let (gpu, file, buffers) = card();
        for round in 0..3 {
            let mut made = args(ADDRESS, 1 << 20, memory_flag::VRAM);
            buffers.allocate(&file, &mut made).unwrap();
            assert_eq!(buffers.available_bytes(), 0);
            let more = buffers.allocate(&file, &mut args(2 * ADDRESS, 4096, memory_flag::VRAM));
            assert_eq!(more, Err(Errno(libc::ENOMEM)), "round {round}");
            buffers.map(&gpu, made.handle).unwrap();
            let mut byte = [9];
            gpu.read(ADDRESS, &mut byte).unwrap();
            assert_eq!(byte, [0]);
            gpu.write(ADDRESS, &[7]).unwrap();
            buffers.free(&gpu, &file, made.handle).unwrap();
        }
        assert_eq!(buffers.available_bytes(), 1 << 20);
    }

    #[test]
    fn the_programs_own_memory_is_at_the_cards_address() {
        let (gpu, file, buffers) = card();
        let own = File::new(4096).unwrap().map(0, 4096).unwrap();
        let mut made = args(ADDRESS, 4096, memory_flag::USERPTR);
        made.mmap_offset = own.host().as_ptr().expose_provenance() as u64;
        buffers.allocate(&file, &mut made).unwrap();
        buffers.map(&gpu, made.handle).unwrap();
        gpu.write(ADDRESS + 8, &[42]).unwrap();
        // SAFETY: the mapping has 4096 bytes.
        assert_eq!(unsafe { own.host().as_ptr().add(8).read() }, 42);
        buffers.unmap(&gpu, made.handle).unwrap();
        assert!(gpu.write(ADDRESS, &[1]).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (gpu, file, buffers) = card();
        let bad = [
            args(ADDRESS + 1, 4096, memory_flag::GTT),
            args(ADDRESS, 0, memory_flag::GTT),
            args(ADDRESS, 4096, 0),
            args(ADDRESS, u64::MAX, memory_flag::VRAM),
            args(ADDRESS, 4096, memory_flag::USERPTR),
            args(ADDRESS, 4096, memory_flag::GTT | memory_flag::AQL_QUEUE_MEM),
        ];
        for mut bad in bad {
            assert_eq!(buffers.allocate(&file, &mut bad), Err(Errno(libc::EINVAL)), "{bad:?}");
        }
        assert_eq!(buffers.map(&gpu, 5), Err(Errno(libc::EINVAL)));
        let mut twice = [(); 2].map(|()| args(ADDRESS, 4096, memory_flag::GTT));
        twice.iter_mut().for_each(|made| buffers.allocate(&file, made).unwrap());
        buffers.map(&gpu, twice[0].handle).unwrap();
        assert_eq!(buffers.map(&gpu, twice[1].handle), Err(Errno(libc::EINVAL)));
    }
}
