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
    /// So many lanes, from lane 0 on, whose bytes follow one another, and are all that the others touch too; 0 where there
    /// are no such lanes, as mostly where some are off in the middle.
    pub(crate) run: u8,
    /// All addresses of lanes that took part, joined by "or".
    pub(crate) address_bits: u64,
}

impl Event {
    /// Of the lanes of a mask, which is not empty, with this number of bytes at these addresses.
    #[inline]
    pub(crate) fn new(
        kind: EventKind,
        space: MemorySpace,
        lanes: u64,
        (bytes, register): (u32, u16),
        addresses: &[u64; LANES],
    ) -> Event {
        let (run, address_bits) = shape(lanes, bytes, addresses);
        Event { kind, space, lanes, bytes, register, addresses: *addresses, run, address_bits }
    }

    /// The bytes that the event touches, as the first one and the one behind the last, if they are a [run](Event::run).
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        let first = self.addresses[0];
        (self.run > 0).then(|| (first, first + u64::from(self.run) * u64::from(self.bytes)))
    }

    /// Lanes with their addresses.
    #[inline(always)]
    pub(crate) fn lane_addresses(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut left = self.lanes;
        std::iter::from_fn(move || {
            let lane = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.addresses.get(lane).map(|&address| (lane, address))
        })
    }
}

/// [`Event::run`] and [`Event::address_bits`].
fn shape(lanes: u64, bytes: u32, addresses: &[u64; LANES]) -> (u8, u64) {
    #[inline(always)]
    fn any(lanes: u64, bytes: u32, addresses: &[u64; LANES]) -> (u8, u64) {
        let mut address_bits = 0;
        if lanes == !0 {
            address_bits = addresses.iter().fold(0, |bits, address| bits | address);
        } else {
            let mut left = lanes;
            while left != 0 {
                address_bits |= addresses[left.trailing_zeros() as usize % LANES];
                left &= left - 1;
            }
        }
        (run(lanes, bytes, addresses), address_bits)
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1")]
        fn vector(lanes: u64, bytes: u32, addresses: &[u64; LANES]) -> (u8, u64) {
            any(lanes, bytes, addresses)
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") {
            // SAFETY: the host has these features.
            return unsafe { vector(lanes, bytes, addresses) };
        }
    }
    any(lanes, bytes, addresses)
}

/// See [`Event::run`].
#[inline(always)]
fn run(lanes: u64, bytes: u32, addresses: &[u64; LANES]) -> u8 {
    let count = lanes.trailing_ones() as usize;
    if count == 0 || (count < LANES && lanes >> count != 0) {
        return 0;
    }
    let follows = |count: usize| {
        let mut different = 0;
        for (lane, address) in addresses[..count].iter().enumerate() {
            different |= address ^ addresses[0].wrapping_add(lane as u64 * u64::from(bytes));
        }
        different == 0
    };
    if follows(count) {
        return count as u8;
    }
    // Lanes that do the same as so many before them.
    for period in [1, 2, 4, 8, 16, 32] {
        if period < count && addresses[period] == addresses[0] {
            let same = addresses[period..count].iter().zip(addresses).fold(0, |different, (a, b)| different | (a ^ b));
            return if same == 0 && follows(period) { period as u8 } else { 0 };
        }
    }
    0
}
