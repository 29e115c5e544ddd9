//! Device memory: which aligned pieces of it an access touches, and the record of lines touched by a workgroup or kernel.

use std::collections::BTreeMap;

use rocfire_arch::Unit;

use crate::wave::LANES;

/// How many aligned pieces of `piece` bytes, a power of two, the lanes' `bytes` bytes each lie in.
pub(crate) fn pieces(piece: u64, lanes: u64, bytes: u32, addresses: &[u64; LANES]) -> u32 {
    let mut found = [0u64; 2 * LANES];
    let count = collect(piece, lanes, bytes, addresses, &mut found);
    count as u32
}

/// Clocks of the address and cache pipeline for an access of a wave that touches so many lines of L1 and asks for so many bytes.
pub(crate) fn clocks(unit: &Unit, wave_size: u32, lines: u32, requested: u64) -> u64 {
    let turns = wave_size.div_ceil(unit.simd_lanes);
    u64::from(turns.max(lines)).max(requested.div_ceil(u64::from(unit.l1_bytes_per_clock)))
}

/// Puts the numbers of those pieces, sorted and each once, at the start of `found`; an access is narrower than a piece.
pub(crate) fn collect(
    piece: u64,
    lanes: u64,
    bytes: u32,
    addresses: &[u64; LANES],
    found: &mut [u64; 2 * LANES],
) -> usize {
    let shift = piece.trailing_zeros();
    let mut count = 0;
    let mut sorted = true;
    let mut left = lanes;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        let first = addresses[lane] >> shift;
        let last = addresses[lane].wrapping_add(u64::from(bytes.max(1)) - 1) >> shift;
        for number in [first, last] {
            if count > 0 && found[count - 1] == number {
                continue;
            }
            sorted &= count == 0 || found[count - 1] < number;
            found[count] = number;
            count += 1;
        }
    }
    if sorted {
        return count;
    }
    let numbers = &mut found[..count];
    numbers.sort_unstable();
    let mut kept = 1;
    for i in 1..count {
        if found[i] != found[kept - 1] {
            found[kept] = found[i];
            kept += 1;
        }
    }
    kept
}

/// Memory's line: what L2 fetches and what compulsory traffic is counted in.
pub(crate) const LINE_BYTES: u64 = 128;
/// Lines of one word of the record: 8 KiB of memory.
const WORD_LINES: u64 = 64;

/// Lines read and written: a bit for each, 64 in a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    words: BTreeMap<u64, [u64; 2]>,
    /// The word that was last added to, and its number: accesses are mostly near the one before.
    last: Option<(u64, [u64; 2])>,
}

/// How many lines a record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCount {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Lines {
    /// Adds the lines of an access.
    pub(crate) fn add(&mut self, lanes: u64, bytes: u32, addresses: &[u64; LANES], reads: bool, writes: bool) {
        let mut found = [0u64; 2 * LANES];
        let count = collect(LINE_BYTES, lanes, bytes, addresses, &mut found);
        for &line in &found[..count] {
            self.add_line(line, reads, writes);
        }
    }

    /// Adds the lines of `bytes` bytes from `address`.
    pub(crate) fn add_range(&mut self, address: u64, bytes: u64, reads: bool, writes: bool) {
        if bytes > 0 {
            (address / LINE_BYTES..=(address + bytes - 1) / LINE_BYTES)
                .for_each(|line| self.add_line(line, reads, writes));
        }
    }

    fn add_line(&mut self, line: u64, reads: bool, writes: bool) {
        let (number, bit) = (line / WORD_LINES, 1 << (line % WORD_LINES));
        let word = match &mut self.last {
            Some((last, word)) if *last == number => word,
            _ => {
                self.flush();
                &mut self.last.insert((number, [0; 2])).1
            }
        };
        word[0] |= if reads { bit } else { 0 };
        word[1] |= if writes { bit } else { 0 };
    }

    fn flush(&mut self) {
        if let Some((number, [read, written])) = self.last.take() {
            let word = self.words.entry(number).or_default();
            word[0] |= read;
            word[1] |= written;
        }
    }

    /// Adds all lines of another record, which is empty afterwards.
    pub(crate) fn take_from(&mut self, other: &mut Lines) {
        self.flush();
        other.flush();
        for (number, [read, written]) in std::mem::take(&mut other.words) {
            let word = self.words.entry(number).or_default();
            word[0] |= read;
            word[1] |= written;
        }
    }

    /// How many there are.
    pub(crate) fn count(&mut self) -> LineCount {
        self.flush();
        let sum = |side: usize| self.words.values().map(|word| u64::from(word[side].count_ones())).sum();
        LineCount { read: sum(0), written: sum(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = !0;

    fn at(address: impl Fn(usize) -> u64) -> [u64; LANES] {
        std::array::from_fn(address)
    }

    #[test]
    fn consecutive_dwords_fill_their_segments() {
        let addresses = at(|lane| 0x1000 + 4 * lane as u64);
        assert_eq!(pieces(64, ALL, 4, &addresses), 4);
        assert_eq!(pieces(128, ALL, 4, &addresses), 2);
        // Moved by a dword they reach into one more.
        let addresses = at(|lane| 0x1004 + 4 * lane as u64);
        assert_eq!([pieces(64, ALL, 4, &addresses), pieces(128, ALL, 4, &addresses)], [5, 3]);
    }

    #[test]
    fn strided_lanes_have_a_segment_each() {
        assert_eq!(pieces(64, ALL, 4, &at(|lane| 256 * lane as u64)), 64);
        // In descending order too, and two of them are off.
        assert_eq!(pieces(128, ALL << 2, 4, &at(|lane| 256 * (63 - lane as u64))), 62);
    }

    #[test]
    fn wide_lanes_touch_both_sides_of_a_border() {
        assert_eq!(pieces(64, 1, 16, &at(|_| 0x38)), 2);
        assert_eq!(pieces(64, ALL, 16, &at(|_| 0x38)), 2);
    }

    #[test]
    fn records_hold_each_line_once_by_direction() {
        let mut lines = Lines::default();
        lines.add(ALL, 4, &at(|lane| 0x1000 + 4 * lane as u64), true, false);
        lines.add(ALL, 4, &at(|lane| 0x1080 + 4 * lane as u64), true, false);
        lines.add(1, 4, &at(|_| 0x9_0000), true, true);
        assert_eq!(lines.count(), LineCount { read: 4, written: 1 });
        let mut other = Lines::default();
        other.add_range(0x1000, 64, true, false);
        other.add_range(0x107f, 2, false, true);
        lines.take_from(&mut other);
        assert_eq!(lines.count(), LineCount { read: 4, written: 3 });
        assert_eq!(other.count(), LineCount::default());
    }
}
