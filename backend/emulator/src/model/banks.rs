//! LDS: in how many clocks an access of a wave is served, and how many of them conflicts cost.
//!
//! A wave's lanes are served in phases, each of as many lanes as the banks' width (128 bytes, 256 with 64 banks) has room
//! for, and at most 32. A phase takes a clock for each different dword that it wants of the same bank, in the bank where
//! these are most; lanes that want the same dword share it. Atomics do not share: each lane takes its turn.
//!
//! Which lanes make up a phase is published for the 16-byte accesses only, and differently for loads and stores; an
//! access is counted in both orders.

use crate::wave::LANES;

/// What an access costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LdsCost {
    /// Clocks without any conflict: phases with a lane that is on.
    pub(crate) phases: u32,
    /// Clocks on top of that, with the lanes in order.
    pub(crate) sequential: u32,
    /// The same with the lanes interleaved.
    pub(crate) interleaved: u32,
}

/// Most lanes in a phase.
const PHASE_LANES_MAX: usize = 32;
/// Most dwords of a lane.
const DWORDS_MAX: usize = 4;

/// Quads of lanes in the order in which they are served, within 32 lanes; the next 32 follow likewise. As they are
/// numbered: Composable Kernel's documentation for `ds_write_b128`.
const SEQUENTIAL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Lanes 0–3 with 20–23, 4–7 with 16–19, 8–11 with 28–31, 12–15 with 24–27: Composable Kernel for `ds_read_b128`.
const INTERLEAVED_8: [usize; 8] = [0, 5, 1, 4, 2, 7, 3, 6];
/// Sixteen in a phase, the first with the last of those and the second with the third: HipKittens' measurement on CDNA 4.
const INTERLEAVED_16: [usize; 8] = [0, 5, 3, 6, 1, 4, 2, 7];

/// Lanes of a phase for accesses of `bytes` each.
fn phase_lanes(banks: u32, bytes: u32) -> usize {
    // Three dwords go as four.
    let slot = bytes.next_power_of_two().clamp(4, 16);
    (banks as usize * 4 / slot as usize).min(PHASE_LANES_MAX)
}

/// The cost of an access of `bytes` bytes (up to 16) by each lane in `lanes`, at offsets in LDS.
pub(crate) fn cost(banks: u32, lanes: u64, bytes: u32, atomic: bool, addresses: &[u64; LANES]) -> LdsCost {
    let width = phase_lanes(banks, bytes);
    let (mut phases, mut sequential) = (0, 0);
    for_phases(SEQUENTIAL, width, lanes, |members| {
        phases += 1;
        sequential += phase_clocks(banks, bytes, atomic, members, addresses) - 1;
    });
    let order = if width == 16 { INTERLEAVED_16 } else { INTERLEAVED_8 };
    if width >= PHASE_LANES_MAX || sequential == 0 && !is_scattered(lanes, addresses) {
        return LdsCost { phases, sequential, interleaved: sequential };
    }
    let (mut interleaved_phases, mut interleaved) = (0, 0);
    for_phases(order, width, lanes, |members| {
        interleaved_phases += 1;
        interleaved += phase_clocks(banks, bytes, atomic, members, addresses) - 1;
    });
    // With some lanes off the orders may differ in the number of phases; what is more than the fewer is a conflict.
    let fewer = phases.min(interleaved_phases);
    LdsCost {
        phases: fewer,
        sequential: sequential + phases - fewer,
        interleaved: interleaved + interleaved_phases - fewer,
    }
}

/// Whether an order could matter: not for lanes that all are on and follow one another, which meet every bank once in
/// any order.
fn is_scattered(lanes: u64, addresses: &[u64; LANES]) -> bool {
    let step = addresses[1].wrapping_sub(addresses[0]);
    lanes != !0 || (1..LANES).any(|lane| addresses[lane].wrapping_sub(addresses[lane - 1]) != step)
}

/// Calls `phase` with the lanes that are on, of every phase that has any.
fn for_phases(order: [usize; 8], width: usize, lanes: u64, mut phase: impl FnMut(u64)) {
    for half in 0..2 {
        for quads in order.chunks(width / 4) {
            let members: u64 = quads.iter().map(|quad| 0xf << (half * 32 + quad * 4)).sum();
            if members & lanes != 0 {
                phase(members & lanes);
            }
        }
    }
}

/// Clocks of one phase: the most dwords wanted of one bank.
fn phase_clocks(banks: u32, bytes: u32, atomic: bool, members: u64, addresses: &[u64; LANES]) -> u32 {
    let mut dwords = [0u64; PHASE_LANES_MAX * DWORDS_MAX];
    let mut count = 0;
    let mut left = members;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        let (first, last) = (addresses[lane] / 4, (addresses[lane] + u64::from(bytes.max(1)) - 1) / 4);
        for dword in first..=last.min(first + DWORDS_MAX as u64 - 1) {
            dwords[count] = dword;
            count += 1;
        }
    }
    let dwords = &mut dwords[..count];
    dwords.sort_unstable();
    let mut of_bank = [0u32; 64];
    let mut before = None;
    for &dword in dwords.iter() {
        if atomic || before != Some(dword) {
            of_bank[(dword % u64::from(banks)) as usize] += 1;
        }
        before = Some(dword);
    }
    of_bank.into_iter().max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = !0;

    fn of(banks: u32, bytes: u32, address: impl Fn(usize) -> u64) -> LdsCost {
        cost(banks, ALL, bytes, false, &std::array::from_fn(address))
    }

    fn same(phases: u32, conflicts: u32) -> LdsCost {
        LdsCost { phases, sequential: conflicts, interleaved: conflicts }
    }

    #[test]
    fn consecutive_lanes_have_no_conflicts() {
        // 64 lanes by 4 bytes are 256 bytes: two clocks of 128; by 8 four; by 16 eight.
        for (bytes, phases) in [(4, 2), (8, 4), (16, 8)] {
            assert_eq!(of(32, bytes, |lane| u64::from(bytes) * lane as u64), same(phases, 0), "{bytes} bytes");
        }
        // With 64 banks by 8 bytes in two clocks and by 16 in four, as measured on CDNA 4.
        for (bytes, phases) in [(4, 2), (8, 2), (16, 4)] {
            assert_eq!(of(64, bytes, |lane| u64::from(bytes) * lane as u64), same(phases, 0), "{bytes} bytes");
        }
    }

    /// Every lane of a phase wants another dword of bank 0: 31 clocks more in each of two phases.
    #[test]
    fn stride_of_all_banks_costs_31_more_a_phase() {
        assert_eq!(of(32, 4, |lane| 128 * lane as u64), same(2, 62));
        // 64 banks: lanes 0, 2, 4 … share bank 0 and the odd ones bank 32, 16 dwords each.
        assert_eq!(of(64, 4, |lane| 128 * lane as u64), same(2, 30));
    }

    #[test]
    fn padded_stride_has_no_conflicts() {
        assert_eq!(of(32, 4, |lane| 132 * lane as u64), same(2, 0));
    }

    #[test]
    fn lanes_share_a_dword_unless_they_are_atomic() {
        assert_eq!(of(32, 4, |_| 64), same(2, 0));
        assert_eq!(cost(32, ALL, 4, true, &[64; LANES]), same(2, 62));
    }

    #[test]
    fn stride_two_halves_the_rate() {
        assert_eq!(of(32, 4, |lane| 8 * lane as u64), same(2, 2));
    }

    /// Rows of 128 bytes, lane l reads 16 bytes of row l % 8, column l / 8: eight lanes in order meet in the same banks;
    /// interleaved there are four of each of two columns, which meet in two groups.
    #[test]
    fn orders_differ_for_wide_accesses() {
        let cost = of(32, 16, |lane| 128 * (lane as u64 % 8) + 16 * (lane as u64 / 8));
        assert_eq!(cost, LdsCost { phases: 8, sequential: 56, interleaved: 24 });
    }

    #[test]
    fn lanes_that_are_off_cost_nothing() {
        let addresses = std::array::from_fn(|lane| 128 * lane as u64);
        assert_eq!(cost(32, 1, 4, false, &addresses), same(1, 0));
        assert_eq!(cost(32, 0xffff_ffff, 4, false, &addresses), same(1, 31));
        // Lanes 0 to 7, 16 bytes each: one phase in order, two interleaved, which hold half of the conflicts each.
        let rows = std::array::from_fn(|lane| 128 * lane as u64);
        assert_eq!(cost(32, 0xff, 16, false, &rows), LdsCost { phases: 1, sequential: 7, interleaved: 7 });
    }

    #[test]
    fn unaligned_accesses_take_the_dwords_that_they_touch() {
        // Two bytes at 3 mod 4 reach into the next dword; all lanes together 33 dwords in 32 banks, twice.
        assert_eq!(of(32, 2, |lane| 4 * lane as u64 + 3), same(2, 2));
    }
}
