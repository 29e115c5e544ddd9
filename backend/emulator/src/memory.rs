//! Device memory: the map of allocations, and the bytes behind it.
//!
//! A guest address means something only through [`Memory::find`], which gives the [`Window`] of bytes around it that may be
//! accessed: the whole allocation, or the block of it that [`Memory::mark`] has declared. Guest addresses are handed out
//! upwards and never again, with a red zone after each allocation, so that a stale address never meets a new allocation.
//!
//! # Sharing
//!
//! Several host threads run workgroups on the same bytes, as compute units do. The bytes are reached only through raw
//! pointers, never through references, and have no invalid values. An access copies them in and out once: nothing is
//! checked in memory and used afterwards.
//!
//! A guest program whose workgroups race gets some mixture of the bytes written, as it does on the hardware. It cannot make the host
//! leave the window. Guest atomics are host atomics.
//!
//! # What is written, and what was freed
//!
//! A memory that tracks keeps a bit for each byte of an allocation, set when the byte is written. Host calls and
//! observers set them; the fast loop does not know of them. The last freed allocations are remembered, so that a use after
//! free is told from a wild address, and with the allocation's size.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Access, Error, FaultKind, Nearest};
use crate::host;

/// Alignment of allocations: a page of the smallest kind that the hardware has.
const PAGE_BYTES: u64 = 4096;

/// Unmapped bytes after each allocation.
const RED_ZONE_BYTES: u64 = 64 << 10;

/// The first address handed out; far from null, and from the FLAT apertures.
const FIRST_ADDRESS: u64 = 0x0000_7000_0000_0000;

/// Whether a block of memory is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// In use; this many of its bytes, from its start, were asked for.
    Requested(u64),
    /// Not in use: an access is a use after free.
    Free,
}

/// Freed allocations that are remembered.
const FREED_MAX: usize = 4096;

/// The bytes of one allocation on the host.
pub(crate) struct Storage {
    host: NonNull<u8>,
    /// How it was allocated; `None` for bytes that somebody else owns.
    layout: Option<Layout>,
    /// A bit for each byte that was written; `None` if that is not tracked, or all are.
    written: Option<Box<[AtomicU64]>>,
}

// SAFETY: the pointer is owned, and the bytes are only accessed as the module's section on sharing says.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Zeroed bytes; `None` if the host has no more.
    fn new(bytes: u64, tracked: bool) -> Option<Storage> {
        let size = usize::try_from(bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?).ok()?;
        let layout = Layout::from_size_align(size, PAGE_BYTES as usize).ok()?;
        // SAFETY: the size is at least a page.
        let host = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let written = tracked.then(|| (0..bytes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
        Some(Storage { host, layout: Some(layout), written })
    }

    /// Notes that bytes, by offset, are written or are not.
    fn set_written(&self, from: u64, to: u64, state: bool) {
        let Some(words) = &self.written else { return };
        let mut at = from;
        while at < to {
            let bits = (64 - at % 64).min(to - at);
            let mask = (u64::MAX >> (64 - bits)) << (at % 64);
            let Some(word) = words.get((at / 64) as usize) else { return };
            if state {
                // Mostly it is known, and a load is a fraction of an exchange.
                if word.load(Ordering::Relaxed) & mask != mask {
                    word.fetch_or(mask, Ordering::Relaxed);
                }
            } else {
                word.fetch_and(!mask, Ordering::Relaxed);
            }
            at += bits;
        }
    }

    /// Whether all bytes from an offset up to another were written.
    fn is_written(&self, from: u64, to: u64) -> bool {
        let Some(words) = &self.written else { return true };
        let mut at = from;
        while at < to {
            let bits = (64 - at % 64).min(to - at);
            let mask = (u64::MAX >> (64 - bits)) << (at % 64);
            if words.get((at / 64) as usize).is_none_or(|word| word.load(Ordering::Relaxed) & mask != mask) {
                return false;
            }
            at += bits;
        }
        true
    }

    /// Which of at most 64 bytes from an offset on nobody wrote.
    fn unwritten(&self, from: u64, bytes: u32) -> u64 {
        let Some(words) = &self.written else { return 0 };
        let word = |index: u64| words.get(index as usize).map_or(u64::MAX, |word| word.load(Ordering::Relaxed));
        let shift = from % 64;
        let high = if shift == 0 { 0 } else { word(from / 64 + 1) << (64 - shift) };
        !(word(from / 64) >> shift | high) & (u64::MAX >> (64 - bits_of(bytes)))
    }
}

/// A number of bytes as a number of bits of a word.
fn bits_of(bytes: u32) -> u32 {
    bytes.clamp(1, 64)
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated in `new` with this layout, and owned.
            unsafe { std::alloc::dealloc(self.host.as_ptr(), layout) }
        }
    }
}

/// A part of a code object's image, by offset from its start.
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writable: bool,
}

/// A range of an allocation that was marked. Blocks of an allocation are disjoint.
#[derive(Clone, Copy)]
struct Block {
    end: u64,
    live: Live,
    writable: bool,
}

struct Allocation {
    bytes: u64,
    storage: Arc<Storage>,
    writable: bool,
    /// Whether the host has the bytes at the same address: they take no device memory.
    shared: bool,
    /// By start address.
    blocks: BTreeMap<u64, Block>,
}

/// A block as an access sees it.
struct Extent {
    from: u64,
    /// End of what may be accessed.
    to: u64,
    live: Live,
    writable: bool,
}

struct Map {
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
    used: u64,
    /// Bytes of freed allocations, by address: the last [`FREED_MAX`].
    freed: BTreeMap<u64, u64>,
}

/// A range of guest addresses that may be accessed, and where its bytes are. It keeps the bytes alive, whatever becomes of
/// the allocation.
#[derive(Clone)]
pub(crate) struct Window {
    /// First guest address.
    pub(crate) start: u64,
    /// Bytes from there.
    pub(crate) bytes: u64,
    /// Whether it may be written.
    pub(crate) writable: bool,
    host: NonNull<u8>,
    storage: Option<Arc<Storage>>,
}

// SAFETY: the pointer lies in `storage`, which is `Send`.
unsafe impl Send for Window {}

impl Window {
    /// A window in which nothing lies.
    pub(crate) fn empty() -> Window {
        Window { start: 0, bytes: 0, writable: false, host: NonNull::dangling(), storage: None }
    }

    /// The host's pointer to `bytes` bytes at guest `address`, if all lie in the window. It is valid for reads, and for
    /// writes if `writable`, as long as the window lives.
    #[inline(always)]
    pub(crate) fn host_ptr(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.start);
        if bytes <= self.bytes && offset <= self.bytes - bytes {
            // SAFETY: `offset + bytes` is inside the window, whose bytes are one host allocation.
            Some(unsafe { self.host.as_ptr().add(offset as usize) })
        } else {
            None
        }
    }
}

impl Window {
    /// Offset of an address in the storage.
    fn storage_offset(&self, storage: &Storage, address: u64) -> u64 {
        (self.host.addr().get() - storage.host.addr().get()) as u64 + (address - self.start)
    }

    /// Notes that bytes are written; all must lie in the window.
    pub(crate) fn mark_written(&self, address: u64, bytes: u64) {
        if let Some(storage) = &self.storage {
            let from = self.storage_offset(storage, address);
            storage.set_written(from, from + bytes, true);
        }
    }

    /// Whether all these bytes were written; all must lie in the window.
    pub(crate) fn is_written(&self, address: u64, bytes: u64) -> bool {
        self.storage.as_ref().is_none_or(|storage| {
            let from = self.storage_offset(storage, address);
            storage.is_written(from, from + bytes)
        })
    }

    /// Which of at most 64 bytes nobody wrote, a bit each; all must lie in the window.
    pub(crate) fn unwritten(&self, address: u64, bytes: u32) -> u64 {
        self.storage.as_ref().map_or(0, |storage| storage.unwritten(self.storage_offset(storage, address), bytes))
    }

    /// Copies the state of bytes as [`copy_from`](Window::copy_from) does the bytes.
    fn copy_written(&self, address: u64, from: &Window, from_address: u64, bytes: u64) {
        let Some(storage) = &self.storage else { return };
        if storage.written.is_none() {
            return;
        }
        // First all states, as the ranges may overlap.
        let states: Vec<u64> =
            (0..bytes).step_by(64).map(|at| from.unwritten(from_address + at, (bytes - at).min(64) as u32)).collect();
        let to = self.storage_offset(storage, address);
        storage.set_written(to, to + bytes, true);
        for (i, &state) in states.iter().enumerate().filter(|(_, state)| **state != 0) {
            for bit in (0..64).filter(|bit| state >> bit & 1 != 0) {
                let at = to + 64 * i as u64 + bit;
                storage.set_written(at, at + 1, false);
            }
        }
    }

    /// Copies bytes out; all must lie in the window.
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) {
        let host = self.host_ptr(address, out.len() as u64).expect("the caller got the window for this range");
        // SAFETY: `host_ptr` gave a pointer to as many readable bytes as `out` has, which no guest memory overlaps.
        unsafe { std::ptr::copy_nonoverlapping(host, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in; all must lie in the window. It is for the host, to which no memory is read-only.
    pub(crate) fn write(&self, address: u64, data: &[u8]) {
        let host = self.host_ptr(address, data.len() as u64).expect("the caller got the window for this range");
        // SAFETY: as in `read`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), host, data.len()) }
        self.mark_written(address, data.len() as u64);
    }
}

impl Window {
    /// Copies bytes from another window, or from elsewhere in this one; all must lie in their windows.
    pub(crate) fn copy_from(&self, address: u64, from: &Window, from_address: u64, bytes: u64) {
        self.copy_written(address, from, from_address, bytes);
        let to = self.host_ptr(address, bytes).expect("the caller got the window for this range");
        let from = from.host_ptr(from_address, bytes).expect("the caller got the window for this range");
        // SAFETY: `host_ptr` gave pointers to as many bytes; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to, bytes as usize) }
    }

    /// Fills bytes, which must lie in the window.
    pub(crate) fn fill(&self, address: u64, pattern: u8, bytes: u64) {
        let to = self.host_ptr(address, bytes).expect("the caller got the window for this range");
        // SAFETY: `host_ptr` gave a pointer to as many bytes.
        unsafe { std::ptr::write_bytes(to, pattern, bytes as usize) }
        self.mark_written(address, bytes);
    }
}

/// Why an access is not allowed.
#[derive(Clone, Debug)]
pub(crate) struct Denied {
    pub(crate) kind: FaultKind,
    pub(crate) nearest: Nearest,
}

/// The memory of one device.
pub(crate) struct Memory {
    map: RwLock<Map>,
    capacity: u64,
    /// Whether it is kept which bytes were written.
    tracks: bool,
}

impl Memory {
    /// An empty memory of `capacity` bytes.
    pub(crate) fn new(capacity: u64) -> Memory {
        let map = Map { allocations: BTreeMap::new(), next: FIRST_ADDRESS, used: 0, freed: BTreeMap::new() };
        Memory { map: RwLock::new(map), capacity, tracks: false }
    }

    /// One that keeps which bytes were written.
    pub(crate) fn tracking(capacity: u64) -> Memory {
        Memory { tracks: true, ..Memory::new(capacity) }
    }

    // No code panics while it holds the lock half-way through a change, so a poisoned map is whole.
    fn read_map(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write_map(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Allocates zeroed bytes that the guest may write.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        self.allocate_tracked(bytes, true, self.tracks)
    }

    /// Allocates zeroed bytes; the host may write them whatever `writable` says to the guest.
    /// All of them count as written.
    pub(crate) fn allocate_with(&self, bytes: u64, writable: bool) -> Result<u64, Error> {
        self.allocate_tracked(bytes, writable, false)
    }

    fn allocate_tracked(&self, bytes: u64, writable: bool, tracked: bool) -> Result<u64, Error> {
        let mut map = self.write_map();
        let free = self.capacity - map.used;
        let out_of_memory = Error::OutOfMemory { requested: bytes, free, capacity: self.capacity };
        if bytes > free {
            return Err(out_of_memory);
        }
        let Some(storage) = Storage::new(bytes, tracked) else { return Err(out_of_memory) };
        let address = map.next;
        map.next = (address + bytes + RED_ZONE_BYTES).next_multiple_of(PAGE_BYTES);
        map.used += bytes;
        let storage = Arc::new(storage);
        let allocation = Allocation { bytes, storage, writable, shared: false, blocks: BTreeMap::new() };
        map.allocations.insert(address, allocation);
        Ok(address)
    }

    /// Allocates zeroed bytes that the host has at the same address.
    pub(crate) fn allocate_shared(&self, bytes: u64) -> Result<u64, Error> {
        let out_of_memory = || Error::OutOfMemory { requested: bytes, free: 0, capacity: 0 };
        let storage = Storage::new(bytes, false).ok_or_else(out_of_memory)?;
        let address = storage.host.as_ptr().expose_provenance() as u64;
        self.insert_shared(address, storage, bytes)
    }

    /// Gives the guest bytes of the host's, at their address.
    ///
    /// # Safety
    /// - The bytes are valid for reads and writes until [`Memory::free`] has returned and no launch is running.
    pub(crate) unsafe fn share(&self, host: NonNull<u8>, bytes: u64) -> Result<u64, Error> {
        let address = host.as_ptr().expose_provenance() as u64;
        // SAFETY: the caller's duty is the same.
        unsafe { self.share_at(address, host, bytes) }
    }

    /// Gives the guest bytes of the host's, at an address of the caller's choice.
    ///
    /// # Safety
    /// - As [`share`](Memory::share).
    pub(crate) unsafe fn share_at(&self, address: u64, host: NonNull<u8>, bytes: u64) -> Result<u64, Error> {
        self.insert_shared(address, Storage { host, layout: None, written: None }, bytes)
    }

    fn insert_shared(&self, address: u64, storage: Storage, bytes: u64) -> Result<u64, Error> {
        let mut map = self.write_map();
        let end = address.saturating_add(bytes);
        let overlaps = map.allocations.range(..end).next_back().is_some_and(|(&start, a)| start + a.bytes > address);
        if overlaps || bytes == 0 {
            let nearest = map.nearest(address);
            return Err(Error::BadAddress { call: "share", address, bytes, nearest });
        }
        let storage = Arc::new(storage);
        let allocation = Allocation { bytes, storage, writable: true, shared: true, blocks: BTreeMap::new() };
        map.allocations.insert(address, allocation);
        Ok(address)
    }

    /// Start and length of the allocation with an address.
    pub(crate) fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.read_map().around(address).map(|(start, allocation)| (start, allocation.bytes))
    }

    /// Whether an address is one that was handed out at some time, for memory that the host does not have.
    pub(crate) fn was_handed_out(&self, address: u64) -> bool {
        (FIRST_ADDRESS..self.read_map().next).contains(&address)
    }

    /// Bytes that can still be allocated.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity - self.read_map().used
    }

    /// Allocates zeroed bytes of which only the segments may be accessed.
    pub(crate) fn allocate_image(&self, bytes: u64, segments: &[Segment]) -> Result<u64, Error> {
        let address = self.allocate_with(bytes, false)?;
        let mut map = self.write_map();
        if let Some(allocation) = map.allocations.get_mut(&address) {
            let hole = Block { end: address + bytes, live: Live::Free, writable: false };
            allocation.blocks.insert(address, hole);
            for segment in segments.iter().filter(|segment| segment.start < segment.end) {
                let (start, end) = (address + segment.start, address + segment.end);
                allocation.mark(start, end, Live::Requested(end - start));
                if let Some(block) = allocation.blocks.get_mut(&start) {
                    block.writable = segment.writable;
                }
            }
        }
        Ok(address)
    }

    /// Frees the allocation that starts at `address`.
    pub(crate) fn free(&self, address: u64) -> Result<(), Error> {
        let mut map = self.write_map();
        match map.allocations.remove(&address) {
            Some(allocation) => {
                if !allocation.shared {
                    map.used -= allocation.bytes;
                }
                // Arguments of launches and images of modules come and go, and nobody holds their addresses.
                if allocation.writable && !allocation.shared {
                    map.freed.insert(address, allocation.bytes);
                    if map.freed.len() > FREED_MAX {
                        map.freed.pop_first();
                    }
                }
                Ok(())
            }
            None => {
                let nearest = map.nearest(address);
                Err(Error::BadAddress { call: "free", address, bytes: 0, nearest })
            }
        }
    }

    /// Declares the block of `block_bytes` at `address`, which replaces what was declared for any part of it.
    pub(crate) fn mark(&self, address: u64, block_bytes: u64, live: Live) -> Result<(), Error> {
        let mut map = self.write_map();
        let end = address.saturating_add(block_bytes);
        let requested_fits = match live {
            Live::Requested(bytes) => bytes <= block_bytes,
            Live::Free => true,
        };
        let inside = map.around(address).is_some_and(|(start, a)| end <= start + a.bytes);
        if !inside || !requested_fits {
            let nearest = map.nearest(address);
            return Err(Error::BadAddress { call: "mark", address, bytes: block_bytes, nearest });
        }
        let (&start, allocation) =
            map.allocations.range_mut(..=address).next_back().expect("`around` has just found this allocation");
        allocation.mark(address, end, live);
        if let Live::Requested(_) = live {
            // Whoever had the block before, its new owner has written nothing.
            let storage = &allocation.storage;
            storage.set_written(address - start, end - start, false);
        }
        Ok(())
    }

    /// The window around `address` that a guest may access, or why it may not.
    pub(crate) fn find(&self, address: u64, bytes: u64, access: Access) -> Result<Window, Box<Denied>> {
        let map = self.read_map();
        let denied = |kind| Box::new(Denied { kind, nearest: map.nearest(address) });
        let Some((start, allocation)) = map.around(address) else {
            let kind = match map.freed_around(address) {
                Some(_) => FaultKind::UseAfterFree(access),
                None => FaultKind::OutOfBounds(access),
            };
            return Err(denied(kind));
        };
        let Extent { from, to, live, writable } = allocation.extent(start, address);
        if live == Live::Free {
            return Err(denied(FaultKind::UseAfterFree(access)));
        }
        if access != Access::Read && !writable {
            return Err(denied(FaultKind::ReadOnly));
        }
        if to.saturating_sub(address) < bytes {
            return Err(denied(FaultKind::OutOfBounds(access)));
        }
        Ok(Window { writable, ..allocation.window(start, from, to) })
    }

    /// The window of a host call on `bytes` bytes, which sees allocations and not blocks: a pool copies across them.
    pub(crate) fn host(&self, call: &'static str, address: u64, bytes: u64) -> Result<Window, Error> {
        let map = self.read_map();
        match map.around(address) {
            Some((start, a)) if address.checked_add(bytes).is_some_and(|end| end <= start + a.bytes) => {
                Ok(a.window(start, start, start + a.bytes))
            }
            _ => Err(Error::BadAddress { call, address, bytes, nearest: map.nearest(address) }),
        }
    }

    /// The block closest to `address`.
    pub(crate) fn nearest(&self, address: u64) -> Nearest {
        self.read_map().nearest(address)
    }
}

impl Allocation {
    /// `start` is the allocation's own address; `from` and `to` are inside it.
    fn window(&self, start: u64, from: u64, to: u64) -> Window {
        // SAFETY: `from` is inside the allocation, whose storage is at least as large.
        let host = unsafe { self.storage.host.add((from - start) as usize) };
        Window { start: from, bytes: to - from, writable: self.writable, host, storage: Some(self.storage.clone()) }
    }

    /// The block with `address`. Bytes that no mark covers are as the allocation was asked for.
    fn extent(&self, start: u64, address: u64) -> Extent {
        let mut from = start;
        if let Some((&block_start, block)) = self.blocks.range(..=address).next_back() {
            if address < block.end {
                let to = match block.live {
                    Live::Requested(bytes) => block_start + bytes,
                    Live::Free => block.end,
                };
                return Extent { from: block_start, to, live: block.live, writable: block.writable };
            }
            from = block.end;
        }
        let to = self.blocks.range(address..).next().map_or(start + self.bytes, |(&next, _)| next);
        Extent { from, to, live: Live::Requested(to - from), writable: self.writable }
    }

    fn mark(&mut self, address: u64, end: u64, live: Live) {
        let overlapped: Vec<u64> = self
            .blocks
            .range(..end)
            .rev()
            .take_while(|(_, block)| block.end > address)
            .map(|(&start, _)| start)
            .collect();
        for start in overlapped {
            let Some(old) = self.blocks.remove(&start) else { continue };
            if start < address {
                let live = match old.live {
                    Live::Requested(bytes) => Live::Requested(bytes.min(address - start)),
                    Live::Free => Live::Free,
                };
                self.blocks.insert(start, Block { end: address, live, ..old });
            }
            if old.end > end {
                let live = match old.live {
                    Live::Requested(bytes) => Live::Requested((start + bytes).saturating_sub(end)),
                    Live::Free => Live::Free,
                };
                self.blocks.insert(end, Block { end: old.end, live, ..old });
            }
        }
        if end > address {
            self.blocks.insert(address, Block { end, live, writable: self.writable });
        }
    }
}

impl Map {
    /// The allocation with `address` in it; an empty one contains its own start.
    fn around(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.bytes.max(1)).then_some((start, allocation))
    }

    /// The freed allocation that had `address`.
    fn freed_around(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.freed.range(..=address).next_back()?;
        (address - start < bytes.max(1)).then_some((start, bytes))
    }

    fn nearest(&self, address: u64) -> Nearest {
        if let Some((start, bytes)) = self.freed_around(address) {
            let offset_bytes = (address - start) as i64;
            return Nearest::Block { address: start, bytes, offset_bytes, live: false };
        }
        let below = self.allocations.range(..=address).next_back();
        let above = self.allocations.range(address..).next();
        let distance = |&(&start, a): &(&u64, &Allocation)| match address {
            _ if address < start => start - address,
            _ => address.saturating_sub(start + a.bytes),
        };
        let closest = [below, above].into_iter().flatten().min_by_key(distance);
        // Device memory has addresses of its own, far from the host's, unless the two share it.
        let is_far = closest.as_ref().is_none_or(|closest| distance(closest) >= RED_ZONE_BYTES);
        if is_far && let Some(what) = host::mapping_at(address) {
            return Nearest::Host { what };
        }
        let Some((&start, allocation)) = closest else {
            return Nearest::None;
        };
        if address < start || address >= start + allocation.bytes {
            // Past the end of a marked allocation, its last block says more than the whole.
            let last = allocation.blocks.iter().next_back().filter(|_| address >= start);
            let (from, bytes) = match last {
                Some((&from, Block { live: Live::Requested(bytes), .. })) => (from, *bytes),
                _ => (start, allocation.bytes),
            };
            return Nearest::Block {
                address: from,
                bytes,
                offset_bytes: address.wrapping_sub(from) as i64,
                live: true,
            };
        }
        let Extent { from, to, live, .. } = allocation.extent(start, address);
        let live = live != Live::Free;
        Nearest::Block { address: from, bytes: to - from, offset_bytes: (address - from) as i64, live }
    }
}
