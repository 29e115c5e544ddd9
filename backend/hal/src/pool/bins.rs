//! Blocks that came back, kept whole for requests of their size.
//!
//! A step of a model asks for the sizes that the step before asked for. If each is served from blocks of its size, the lowest address
//! first, the step gets the addresses that one of the last few got, whatever order these came back in; so its launches have arguments
//! that they had, and can be replayed as they are (`replay.rs`). Cut and merged by each request, blocks would end up elsewhere each
//! time. What is kept here is merged when nothing else serves a request, before the driver is asked for memory.

use rustc_hash::FxHashMap;

use super::ARENAS;

/// Blocks of one size.
#[derive(Default)]
struct Bin {
    /// Address and node of those that are kept, the lowest last.
    kept: Vec<(u64, u32)>,
    /// How many are in use.
    lent: usize,
}

/// Blocks that are kept whole.
#[derive(Default)]
pub(super) struct Bins([FxHashMap<u64, Bin>; ARENAS]);

impl Bins {
    /// The kept block of a size with the lowest address.
    pub fn take(&mut self, arena: usize, bytes: u64) -> Option<u32> {
        Some(self.0[arena].get_mut(&bytes)?.kept.pop()?.1)
    }

    /// A block of a size is handed out: there will be room for it, as giving it back must not allocate.
    pub fn lend(&mut self, arena: usize, bytes: u64) {
        let bin = self.0[arena].entry(bytes).or_default();
        bin.lent += 1;
        bin.kept.reserve(bin.lent);
    }

    /// Keeps a block that comes back; whether it does: the pool may have made it of others while a graph was recorded.
    pub fn put(&mut self, arena: usize, bytes: u64, (address, node): (u64, u32)) -> bool {
        let Some(bin) = self.0[arena].get_mut(&bytes).filter(|bin| bin.lent > 0) else { return false };
        bin.lent -= 1;
        let at = bin.kept.partition_point(|kept| kept.0 > address);
        bin.kept.insert(at, (address, node));
        true
    }

    /// A block comes back that is not to be kept whole.
    pub fn forget(&mut self, arena: usize, bytes: u64) {
        if let Some(bin) = self.0[arena].get_mut(&bytes) {
            bin.lent = bin.lent.saturating_sub(1);
        }
    }

    /// Takes out every block that is kept.
    pub fn empty(&mut self, mut take: impl FnMut(u32)) {
        let bins = self.0.iter_mut().flat_map(FxHashMap::values_mut);
        bins.flat_map(|bin| bin.kept.drain(..)).for_each(|(_, node)| take(node));
    }
}
