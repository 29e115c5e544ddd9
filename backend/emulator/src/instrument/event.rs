//! What a memory instruction did: one [`Event`] for each kind of memory that it reached, in the order of effect.
//!
//! Events come from the handlers themselves, through `exec::memory` and `env.observed`, so that they tell
//! what was done and not what a table says should have been. An instruction whose lanes are all off has none, lanes that a
//! buffer's descriptor keeps out are not in the mask, and a two-address DS instruction has two.

use crate::wave::LANES;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A load into vector registers.
    Load,
    /// A store.
    Store,
    /// An atomic operation.
    Atomic,
    /// A load into LDS: read where the space is global, written where it is LDS.
    ToLds,
    /// A scalar load: one access, as lane 0.
    ScalarLoad,
}

impl EventKind {
    /// Whether memory of this space is read.
    pub(crate) fn reads(self, space: MemorySpace) -> bool {
        match self {
            EventKind::Load | EventKind::ScalarLoad | EventKind::Atomic => true,
            EventKind::ToLds => space != MemorySpace::Lds,
            EventKind::Store => false,
        }
    }

    /// Whether memory of this space is written.
    pub(crate) fn writes(self, space: MemorySpace) -> bool {
        match self {
            EventKind::Store | EventKind::Atomic => true,
            EventKind::ToLds => space == MemorySpace::Lds,
            EventKind::Load | EventKind::ScalarLoad => false,
        }
    }
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemorySpace {
    /// Device memory; addresses are the guest's.
    Global,
    /// LDS; addresses are offsets in the workgroup's.
    Lds,
    /// Scratch; addresses are offsets in the lane's.
    Scratch,
}

impl MemorySpace {
    /// As messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MemorySpace::Global => "device memory",
            MemorySpace::Lds => "LDS",
            MemorySpace::Scratch => "scratch",
        }
    }
}

/// One access of a wave.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// What was done.
    pub(crate) kind: EventKind,
    /// To which memory.
    pub(crate) space: MemorySpace,
    /// Lanes that took part; at least one.
    pub(crate) lanes: u64,
    /// Bytes of each lane.
    pub(crate) bytes: u32,
    /// First data register, in the vector file: destination of a load, data of a store or atomic. Of a scalar load, in the
    /// scalar file. Zero for a load into LDS.
    pub(crate) register: u16,
    /// Where, by lane; those of lanes that took no part mean nothing.
    pub(crate) addresses: [u64; LANES],
}

impl Event {
    /// Lanes with their addresses.
    pub(crate) fn lane_addresses(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..LANES).filter(|&lane| self.lanes >> lane & 1 != 0).map(|lane| (lane, self.addresses[lane]))
    }
}
