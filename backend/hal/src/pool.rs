//! The caching pool: device memory in blocks, cut from few large segments.
//!
//! Two-level segregated fit (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004): free
//! blocks hang in lists by size class (powers of two, each cut in eight), a bitmap finds the first class that fits, a
//! block is split when it is larger than asked for, and merged with its free neighbours when it comes back. All of it
//! lives in one slab of nodes, so that a block that was had before costs no allocation on the host.
//!
//! Where launches are replayed ([`Pool::keeping_blocks`]) one that comes back is kept whole for requests of its size (`bins.rs`); when
//! there is no free block for a request, all that are kept so are merged.
//!
//! Memory that is asked for inside [`Pool::set_persistent`] lies in segments of its own: what lives as long as a model must not
//! keep segments from being given back that are full of what came and went beside it.
//!
//! A device has one stream, so a block can be handed out again as soon as its last handle is gone: what still uses it on
//! the device comes earlier in the stream. The pool tells the driver which bytes are live, which only the emulator uses.

mod bins;

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use bins::Bins;

use crate::driver::{Driver, Live};
use crate::{Error, Result};

/// Blocks begin at and are multiples of this: the alignment of HIP's allocations, enough for any vector access.
const UNIT_BYTES: u64 = 256;
/// Each power of two is cut in `1 << CLASS_BITS` classes: a block is at most an eighth larger than its class.
const CLASS_BITS: u32 = 3;
const CLASSES: usize = (64 << CLASS_BITS) as usize;
/// Segments that serve small blocks, and the size up to which a block is small. As in PyTorch's caching allocator, whose
/// sizes have proved themselves on the same hardware.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
const SMALL_BLOCK_BYTES: u64 = 1 << 20;
/// Segments that serve middling blocks.
const LARGE_SEGMENT_BYTES: u64 = 20 << 20;
const LARGE_BLOCK_BYTES: u64 = 10 << 20;
/// The two kinds of segments that serve many blocks.
const CARVED_BYTES: [u64; 2] = [SMALL_SEGMENT_BYTES, LARGE_SEGMENT_BYTES];
/// What comes and goes, and what stays.
const ARENAS: usize = 2;
/// Blocks of the request's own class that are looked at before a larger class is cut: the class holds some that are too
/// small, and without a bound a long list would be walked on every request.
const SAME_CLASS_TRIES: usize = 8;

/// Memory that is kept from others while work waits on the host is much from this size on, and from one part in so many of what is
/// in use.
const HELD_BYTES_LEAST: u64 = 64 << 20;
const HELD_SHARE: u64 = 8;

const NIL: u32 = u32::MAX;

/// A block that is in use. Given back with [`Pool::free`].
#[derive(Debug)]
pub struct Block {
    node: u32,
    address: u64,
    requested_bytes: u64,
}

impl Block {
    /// The device address of its first byte.
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// What a pool holds, in bytes unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Asked for and not given back.
    pub live_bytes: u64,
    /// Taken from the driver.
    pub reserved_bytes: u64,
    /// The most that was live at a time.
    pub peak_bytes: u64,
    /// Blocks handed out since the device was opened; a number, not bytes.
    pub blocks: u64,
    /// Blocks that were not given back; a number, not bytes.
    pub live_blocks: u64,
    /// What those are larger than was asked for.
    pub padding_bytes: u64,
}

/// What is known of the segments of one size that serve many blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStats {
    /// The size of each, bytes.
    pub segment_bytes: u64,
    /// How many there are.
    pub segments: u64,
    /// The most there were at a time.
    pub peak_segments: u64,
    /// The most that was asked for at a time and served from one, bytes.
    pub largest_bytes: u64,
}

#[derive(Clone, Copy)]
struct Node {
    address: u64,
    bytes: u64,
    /// Neighbours in the segment, by address.
    before: u32,
    after: u32,
    /// Neighbours in the list of free blocks of the class.
    previous: u32,
    next: u32,
    free: bool,
    /// Which list of free blocks it hangs in: that of its segment.
    arena: u8,
    /// Handed out or given back since the recording of a graph began.
    touched: bool,
}

/// A pool that memory in use keeps.
pub type SharedPool = Arc<Mutex<Pool>>;

/// The pool of one device.
pub struct Pool {
    driver: Arc<dyn Driver>,
    nodes: Vec<Node>,
    unused_nodes: Vec<u32>,
    /// Whether what comes back is kept whole.
    keeps_blocks: bool,
    /// What is kept so: in no list of free blocks.
    bins: Bins,
    heads: Box<[[u32; CLASSES]; ARENAS]>,
    /// One bit per class that has a free block.
    occupied: [[u64; CLASSES / 64]; ARENAS],
    stats: MemoryStats,
    carved: [SegmentStats; CARVED_BYTES.len()],
    /// Threads whose requests are of what stays.
    persistent: Vec<ThreadId>,
    limit_bytes: u64,
    capturing: bool,
    /// Blocks that were given back while work waited on the host; `None` while none does.
    held: Option<Vec<Block>>,
    /// Of these.
    held_bytes: u64,
}

impl Pool {
    /// An empty pool that takes at most `limit_bytes` from the driver.
    pub fn new(driver: Arc<dyn Driver>, limit_bytes: u64) -> Pool {
        Pool {
            driver,
            nodes: Vec::new(),
            unused_nodes: Vec::new(),
            keeps_blocks: false,
            bins: Bins::default(),
            heads: Box::new([[NIL; CLASSES]; ARENAS]),
            occupied: [[0; CLASSES / 64]; ARENAS],
            stats: MemoryStats::default(),
            carved: CARVED_BYTES.map(|segment_bytes| SegmentStats { segment_bytes, ..SegmentStats::default() }),
            persistent: Vec::new(),
            limit_bytes,
            capturing: false,
            held: None,
            held_bytes: 0,
        }
    }

    /// One whose blocks are kept whole when they come back, so that a step gets the addresses that one before has got.
    pub fn keeping_blocks(mut self) -> Pool {
        self.keeps_blocks = true;
        self
    }

    /// From now on what is given back is kept from others: work that waits on the host may still use it.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Whether what is kept so, and so many bytes that only waiting work still has, are much beside what is in use.
    pub fn holds_much(&self, waiting_bytes: u64) -> bool {
        let held = self.held_bytes + waiting_bytes;
        held > HELD_BYTES_LEAST.max(self.stats.live_bytes.saturating_sub(held) / HELD_SHARE)
    }

    /// Ends that.
    pub fn release(&mut self) {
        self.held_bytes = 0;
        self.held.take().into_iter().flatten().for_each(|block| self.free(block));
    }

    /// From now on the pool asks the driver for no memory, and remembers the blocks that it hands out or takes back.
    pub fn begin_capture(&mut self) {
        self.merge_kept();
        self.capturing = true;
    }

    /// Ends that, and takes the free memory that was used meanwhile out of circulation: recorded work goes on using it. To
    /// be given back with [`Pool::free`].
    pub fn end_capture(&mut self) -> Vec<Block> {
        self.capturing = false;
        let mut kept = Vec::new();
        for node in 0..self.nodes.len() as u32 {
            let Node { address, bytes, free, touched, .. } = self.nodes[node as usize];
            self.nodes[node as usize].touched = false;
            if !touched || !free {
                continue;
            }
            self.unlink(node);
            self.nodes[node as usize].free = false;
            let requested_bytes = bytes - self.driver.red_zone_bytes();
            self.driver.mark(address, bytes, Live::Requested(requested_bytes));
            self.count(requested_bytes, bytes);
            kept.push(Block { node, address, requested_bytes });
        }
        kept
    }

    /// What it holds.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// Its segments that serve many blocks, small ones first. What has a segment of its own is not among them.
    pub fn segments(&self) -> [SegmentStats; CARVED_BYTES.len()] {
        self.carved
    }

    /// Whether what the calling thread asks for from now on stays.
    pub fn set_persistent(&mut self, stays: bool) {
        let thread = std::thread::current().id();
        self.persistent.retain(|&other| other != thread);
        if stays {
            self.persistent.push(thread);
        }
    }

    fn arena(&self) -> usize {
        let own = !self.persistent.is_empty() && self.persistent.contains(&std::thread::current().id());
        usize::from(own)
    }

    fn count(&mut self, requested_bytes: u64, bytes: u64) {
        self.stats.live_blocks += 1;
        self.stats.padding_bytes += bytes - requested_bytes;
        self.stats.live_bytes += requested_bytes;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.live_bytes);
    }

    /// A block of at least `bytes`, which is not 0. Out of memory, and if it may, it gives back to the driver what is unused, and makes
    /// one more try: nothing may be waiting then on the host that was to use it.
    /// `None` while a graph is recorded and no free block is large enough.
    pub fn allocate(&mut self, bytes: u64, may_trim: bool) -> Result<Option<Block>> {
        let wanted = bytes
            .checked_add(self.driver.red_zone_bytes())
            .and_then(|wanted| wanted.checked_next_multiple_of(UNIT_BYTES))
            .ok_or_else(|| self.out_of_memory(bytes))?;
        let arena = self.arena();
        let node = match self.bins.take(arena, wanted) {
            Some(node) => node,
            None => {
                let found = self.find(arena, wanted).or_else(|| {
                    self.merge_kept();
                    self.find(arena, wanted)
                });
                let node = match found {
                    Some(node) => node,
                    None if self.capturing => return Ok(None),
                    None => match self.add_segment(arena, wanted, bytes, may_trim) {
                        Ok(node) => node,
                        // Better among strangers than nowhere.
                        Err(error @ Error::OutOfMemory { .. }) if may_trim => {
                            self.find(1 - arena, wanted).ok_or(error)?
                        }
                        Err(error) => return Err(error),
                    },
                };
                self.unlink(node);
                self.split(node, wanted);
                node
            }
        };
        if self.keeps_blocks && !self.capturing {
            self.bins.lend(self.nodes[node as usize].arena.into(), wanted);
        }
        let taken = &mut self.nodes[node as usize];
        taken.free = false;
        taken.touched |= self.capturing;
        let block = Block { node, address: taken.address, requested_bytes: bytes };
        self.driver.mark(taken.address, taken.bytes, Live::Requested(bytes));
        let whole = taken.bytes;
        self.stats.blocks += 1;
        self.count(bytes, whole);
        let carved = [SMALL_BLOCK_BYTES, LARGE_BLOCK_BYTES].iter().position(|&most| wanted <= most);
        if let Some(carved) = carved {
            self.carved[carved].largest_bytes = self.carved[carved].largest_bytes.max(bytes);
        }
        Ok(Some(block))
    }

    /// Takes a block back.
    pub fn free(&mut self, block: Block) {
        if let Some(held) = &mut self.held {
            self.held_bytes += block.requested_bytes;
            held.push(block);
            return;
        }
        let Node { address, bytes, free, arena, .. } = self.nodes[block.node as usize];
        assert!(!free, "a block is given back once: it is not Clone");
        self.driver.mark(address, bytes, Live::Free);
        self.stats.live_bytes -= block.requested_bytes;
        self.stats.live_blocks -= 1;
        self.stats.padding_bytes -= bytes - block.requested_bytes;
        self.nodes[block.node as usize].touched |= self.capturing;
        let is_kept = match self.capturing {
            true => {
                self.bins.forget(arena.into(), bytes);
                false
            }
            false => self.bins.put(arena.into(), bytes, (address, block.node)),
        };
        if !is_kept {
            self.merge_free(block.node);
        }
    }

    /// Merges all that is kept whole with its free neighbours.
    fn merge_kept(&mut self) {
        let mut bins = std::mem::take(&mut self.bins);
        bins.empty(|node| self.merge_free(node));
        self.bins = bins;
    }

    /// Makes a node free, and one with its free neighbours.
    fn merge_free(&mut self, mut node: u32) {
        let Node { before, after, .. } = self.nodes[node as usize];
        self.nodes[node as usize].free = true;
        if after != NIL && self.nodes[after as usize].free {
            self.unlink(after);
            self.merge(node, after);
        }
        if before != NIL && self.nodes[before as usize].free {
            self.unlink(before);
            self.merge(before, node);
            node = before;
        }
        self.link(node);
    }

    /// Returns segments without a live block to the driver; none while a graph is recorded, which may use them.
    pub fn trim(&mut self) -> Result<()> {
        if self.capturing {
            return Ok(());
        }
        self.merge_kept();
        for node in 0..self.nodes.len() as u32 {
            let Node { address, bytes, before, after, free, .. } = self.nodes[node as usize];
            if bytes == 0 || !free || before != NIL || after != NIL {
                continue;
            }
            self.unlink(node);
            self.retire(node);
            self.stats.reserved_bytes -= bytes;
            if let Some(carved) = self.carved.iter_mut().find(|carved| carved.segment_bytes == bytes) {
                carved.segments -= 1;
            }
            // SAFETY:
            // - a node without neighbours spans a whole segment, whose address `allocate` of the driver gave.
            // - the node was free: no handle to its memory is left, so no later launch can use it.
            unsafe { self.driver.free(address)? };
        }
        Ok(())
    }

    /// A free block of at least `wanted` bytes, still in its list.
    fn find(&self, arena: usize, wanted: u64) -> Option<u32> {
        let (heads, occupied) = (&self.heads[arena], &self.occupied[arena]);
        let own = class_of(wanted);
        let mut node = heads[own];
        for _ in 0..SAME_CLASS_TRIES {
            if node == NIL {
                break;
            }
            if self.nodes[node as usize].bytes >= wanted {
                return Some(node);
            }
            node = self.nodes[node as usize].next;
        }
        let first = own + 1;
        let mut word = first / 64;
        let mut bits = *occupied.get(word)? & (u64::MAX << (first % 64));
        while bits == 0 {
            word += 1;
            bits = *occupied.get(word)?;
        }
        Some(heads[word * 64 + bits.trailing_zeros() as usize])
    }

    /// A new segment with room for a block, as a free node; `requested` is for the message.
    fn add_segment(&mut self, arena: usize, wanted: u64, requested: u64, may_trim: bool) -> Result<u32> {
        let comfortable = if wanted <= SMALL_BLOCK_BYTES {
            SMALL_SEGMENT_BYTES
        } else if wanted <= LARGE_BLOCK_BYTES {
            LARGE_SEGMENT_BYTES
        } else {
            wanted.checked_next_multiple_of(SMALL_SEGMENT_BYTES).unwrap_or(wanted)
        };
        let (address, bytes) = match self.take(comfortable, requested) {
            Ok(address) => (address, comfortable),
            Err(Error::OutOfMemory { .. }) if may_trim => {
                self.trim()?;
                (self.take(wanted, requested)?, wanted)
            }
            Err(error) => return Err(error),
        };
        self.stats.reserved_bytes += bytes;
        if let Some(carved) = self.carved.iter_mut().find(|carved| carved.segment_bytes == bytes) {
            carved.segments += 1;
            carved.peak_segments = carved.peak_segments.max(carved.segments);
        }
        self.driver.mark(address, bytes, Live::Free);
        let node = self.new_node(Node {
            address,
            bytes,
            before: NIL,
            after: NIL,
            previous: NIL,
            next: NIL,
            free: true,
            arena: arena as u8,
            touched: false,
        });
        self.link(node);
        Ok(node)
    }

    fn take(&self, bytes: u64, requested: u64) -> Result<u64> {
        if bytes > self.limit_bytes.saturating_sub(self.stats.reserved_bytes) {
            return Err(self.out_of_memory(requested));
        }
        self.driver.allocate(bytes).map_err(|error| match error {
            Error::OutOfMemory { .. } => self.out_of_memory(requested),
            other => other,
        })
    }

    fn out_of_memory(&self, requested_bytes: u64) -> Error {
        let MemoryStats { live_bytes, reserved_bytes, .. } = self.stats;
        Error::OutOfMemory { requested_bytes, live_bytes, reserved_bytes, limit_bytes: self.limit_bytes }
    }

    /// Cuts what is not needed off a node that is in no list.
    fn split(&mut self, node: u32, wanted: u64) {
        let whole = self.nodes[node as usize];
        if whole.bytes == wanted {
            return;
        }
        let rest = self.new_node(Node {
            address: whole.address + wanted,
            bytes: whole.bytes - wanted,
            before: node,
            after: whole.after,
            previous: NIL,
            next: NIL,
            free: true,
            arena: whole.arena,
            touched: whole.touched,
        });
        if whole.after != NIL {
            self.nodes[whole.after as usize].before = rest;
        }
        self.nodes[node as usize].bytes = wanted;
        self.nodes[node as usize].after = rest;
        self.link(rest);
    }

    /// Makes `second`, which follows it, part of `first`; neither is in a list.
    fn merge(&mut self, first: u32, second: u32) {
        let Node { bytes, after, .. } = self.nodes[second as usize];
        self.nodes[first as usize].bytes += bytes;
        self.nodes[first as usize].touched |= self.nodes[second as usize].touched;
        self.nodes[first as usize].after = after;
        if after != NIL {
            self.nodes[after as usize].before = first;
        }
        self.retire(second);
    }

    fn link(&mut self, node: u32) {
        let Node { bytes, arena, .. } = self.nodes[node as usize];
        let (class, arena) = (class_of(bytes), usize::from(arena));
        let head = self.heads[arena][class];
        self.nodes[node as usize].previous = NIL;
        self.nodes[node as usize].next = head;
        if head != NIL {
            self.nodes[head as usize].previous = node;
        }
        self.heads[arena][class] = node;
        self.occupied[arena][class / 64] |= 1 << (class % 64);
    }

    fn unlink(&mut self, node: u32) {
        let Node { previous, next, bytes, arena, .. } = self.nodes[node as usize];
        if next != NIL {
            self.nodes[next as usize].previous = previous;
        }
        if previous != NIL {
            self.nodes[previous as usize].next = next;
            return;
        }
        let (class, arena) = (class_of(bytes), usize::from(arena));
        self.heads[arena][class] = next;
        if next == NIL {
            self.occupied[arena][class / 64] &= !(1 << (class % 64));
        }
    }

    fn new_node(&mut self, node: Node) -> u32 {
        if let Some(unused) = self.unused_nodes.pop() {
            self.nodes[unused as usize] = node;
            return unused;
        }
        self.nodes.push(node);
        // Giving a node back must not allocate, since it happens while handles are dropped.
        self.unused_nodes.reserve(self.nodes.len());
        (self.nodes.len() - 1) as u32
    }

    fn retire(&mut self, node: u32) {
        self.nodes[node as usize] = Node {
            address: 0,
            bytes: 0,
            before: NIL,
            after: NIL,
            previous: NIL,
            next: NIL,
            free: false,
            arena: 0,
            touched: false,
        };
        self.unused_nodes.push(node);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Memory in use keeps its pool, so nothing is live here; a driver that is lost cannot take memory back, and
        // there is nobody left to tell.
        let _ = self.trim();
    }
}

/// The class of a size: sizes below eight units have one each, above it each power of two has eight.
fn class_of(bytes: u64) -> usize {
    let units = bytes / UNIT_BYTES;
    let power = u64::BITS - 1 - (units | 1).leading_zeros();
    if power < CLASS_BITS {
        return units as usize;
    }
    let within = (units >> (power - CLASS_BITS)) as usize & ((1 << CLASS_BITS) - 1);
    (((power - CLASS_BITS + 1) << CLASS_BITS) as usize) + within
}

#[cfg(test)]
mod tests;
