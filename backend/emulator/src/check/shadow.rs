//! What was done to each piece of memory, and by whom: the record that both checks of races keep.
//!
//! A [`Page`] has a cell for each granule of its bytes. A granule is four bytes until something narrower or not aligned to it touches
//! the page; then two, then one.
//!
//! Who did something is a number. Numbers below a floor are nobody, so that a new interval between barriers begins by raising the floor.
//!
//! A wave mostly touches a run of neighbouring bytes where nobody else was. [`Page::run`] does that as loops over arrays, and all other
//! cases cell by cell.

use std::ops::Range;

use crate::error::Access;
use crate::instrument::Event;
use crate::wave::LANES;

/// Bits of a granule's size at first.
const WIDEST: u32 = 2;

/// Waves of a workgroup, at most.
const WAVES: u32 = 32;

/// Instructions that are told apart.
const STEPS: u32 = 1 << 20;

/// What somebody does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Plain(Access),
    /// An atomic operation that reads and writes.
    Exchange,
    AtomicLoad,
    AtomicStore,
}

impl Touch {
    /// As races are told of.
    pub(super) fn access(self) -> Access {
        match self {
            Touch::Plain(access) => access,
            Touch::AtomicLoad => Access::Read,
            Touch::Exchange | Touch::AtomicStore => Access::Atomic,
        }
    }
}

/// Who touches memory.
#[derive(Clone, Copy)]
pub(super) struct By {
    /// The number.
    pub(super) me: u32,
    /// The number of more than one.
    pub(super) several: u32,
    /// Numbers below it are nobody.
    pub(super) floor: u32,
    /// The instruction, the wave and lane 0, as a cell keeps them: see [`Sites`].
    pub(super) at: u32,
}

/// The other side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Its number.
    pub(super) who: u32,
    /// Its instruction, wave and lane: see [`Sites`].
    pub(super) at: u32,
    pub(super) access: Access,
}

/// Numbers for the instruction, wave and lane of an access: bit 0 is free (cells keep there whether it was an atomic),
/// six bits are the lane, five the wave, the rest the instruction.
#[derive(Default)]
pub(super) struct Sites {
    /// By step, the number plus one.
    numbers: Vec<u32>,
    /// By number, the step.
    steps: Vec<u32>,
}

impl Sites {
    /// The number of lane 0 of a wave at a step.
    pub(super) fn at(&mut self, step: usize, wave: u32) -> u32 {
        if self.numbers.len() <= step {
            self.numbers.resize(step + 1, 0);
        }
        if self.numbers[step] == 0 {
            self.steps.push(step as u32);
            self.numbers[step] = self.steps.len() as u32;
        }
        ((self.numbers[step] - 1).min(STEPS - 1) * WAVES + wave % WAVES) << 7
    }

    /// MicroOp, wave and lane of a number.
    pub(super) fn of(&self, at: u32) -> (usize, u32, u32) {
        let step = self.steps.get((at >> 12) as usize).copied().unwrap_or(0);
        (step as usize, at >> 7 & (WAVES - 1), at >> 1 & (LANES as u32 - 1))
    }
}

/// Cells from which on a run is worth vector code.
const LONG: usize = 16;

/// Cells of neighbouring bytes.
pub(super) struct Page {
    /// Bits of a granule's size.
    shift: u32,
    writer: Vec<u32>,
    reader: Vec<u32>,
    /// Where the last writer was; bit 0 says whether all writers were atomics.
    written_at: Vec<u32>,
    /// Where the last reader was.
    read_at: Vec<u32>,
}

impl Page {
    pub(super) fn new(bytes: usize) -> Page {
        let cells = || vec![0; bytes.div_ceil(1 << WIDEST)];
        Page { shift: WIDEST, writer: cells(), reader: cells(), written_at: cells(), read_at: cells() }
    }

    /// Bytes that it has cells for.
    pub(super) fn len(&self) -> usize {
        self.writer.len() << self.shift
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        for cells in [&mut self.writer, &mut self.reader, &mut self.written_at, &mut self.read_at] {
            cells.fill(0);
        }
    }

    /// Makes granules so small that those of accesses of `bytes` bytes at `offset` are theirs alone.
    #[inline(always)]
    pub(super) fn refine(&mut self, offset: usize, bytes: usize) {
        let bits = (offset | bytes).trailing_zeros();
        if bits < self.shift {
            self.split(bits);
        }
    }

    #[cold]
    fn split(&mut self, bits: u32) {
        let times = 1 << (self.shift - bits);
        for cells in [&mut self.writer, &mut self.reader, &mut self.written_at, &mut self.read_at] {
            *cells = cells.iter().flat_map(|&cell| std::iter::repeat_n(cell, times)).collect();
        }
        self.shift = bits;
    }

    /// The cells of `bytes` bytes at `offset`, which must have been refined to.
    #[inline(always)]
    pub(super) fn cells(&self, offset: usize, bytes: usize) -> Range<usize> {
        offset >> self.shift..(offset + bytes) >> self.shift
    }

    /// First byte of a cell.
    pub(super) fn offset_of(&self, cell: usize) -> usize {
        cell << self.shift
    }

    /// Cells of so many bytes.
    pub(super) fn cells_in(&self, bytes: usize) -> usize {
        bytes >> self.shift
    }

    /// Notes a plain access to a run of cells, `per` of them each lane's from `lane` on, if there is surely no race: nobody
    /// else was there, but for readers of what is read. False: nothing was done, and each cell is to be asked.
    #[inline(always)]
    pub(super) fn run(&mut self, cells: Range<usize>, touch: Touch, by: By, lanes: (usize, usize)) -> bool {
        let Touch::Plain(access) = touch else { return false };
        if access == Access::Atomic {
            return false;
        }
        #[cfg(target_arch = "x86_64")]
        if cells.len() >= LONG && is_x86_feature_detected!("avx2") {
            // SAFETY: the host has AVX2.
            return unsafe { self.long_run(cells, access, by, lanes) };
        }
        self.any_run(cells, access, by, lanes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn long_run(&mut self, cells: Range<usize>, access: Access, by: By, lanes: (usize, usize)) -> bool {
        self.any_run(cells, access, by, lanes)
    }

    #[inline(always)]
    fn any_run(&mut self, cells: Range<usize>, access: Access, by: By, (per, lane): (usize, usize)) -> bool {
        let (Some(writers), Some(readers)) = (self.writer.get_mut(cells.clone()), self.reader.get_mut(cells.clone()))
        else {
            return false;
        };
        let By { me, several, floor, at } = by;
        // What is known of a cell as 0 or 1, to be joined without a branch.
        let foreign = |who: u32| u32::from(who >= floor) & u32::from(who != me);
        let mut bad = 0;
        let ats = if access == Access::Read {
            for (&writer, &reader) in writers.iter().zip(&*readers) {
                bad |= foreign(writer) | foreign(reader) & u32::from(reader != several);
            }
            if bad != 0 {
                return false;
            }
            for reader in readers {
                *reader = if *reader == several { several } else { me };
            }
            &mut self.read_at[cells]
        } else {
            for (&writer, &reader) in writers.iter().zip(&*readers) {
                bad |= foreign(writer) | foreign(reader);
            }
            if bad != 0 {
                return false;
            }
            writers.fill(me);
            &mut self.written_at[cells]
        };
        let at = |lane: usize| at | (lane as u32) << 1;
        match per {
            1 => ats.iter_mut().enumerate().for_each(|(i, cell)| *cell = at(lane + i)),
            4 => ats.chunks_mut(4).enumerate().for_each(|(i, cells)| cells.fill(at(lane + i))),
            _ => ats.chunks_mut(per.max(1)).enumerate().for_each(|(i, cells)| cells.fill(at(lane + i))),
        }
        true
    }

    /// The same for the lanes of a mask of an event, which are apart; their addresses are `base` more than offsets here, and
    /// have been [refined](Page::refine) to.
    pub(super) fn lanes(&mut self, event: &Event, lanes: u64, base: u64, touch: Touch, by: By) -> bool {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the host has these features.
            return unsafe { self.lanes_by_bits(event, lanes, base, touch, by) };
        }
        self.any_lanes(event, lanes, base, touch, by)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    fn lanes_by_bits(&mut self, event: &Event, lanes: u64, base: u64, touch: Touch, by: By) -> bool {
        self.any_lanes(event, lanes, base, touch, by)
    }

    #[inline(always)]
    fn any_lanes(&mut self, event: &Event, lanes: u64, base: u64, touch: Touch, by: By) -> bool {
        match (touch, self.cells_in(event.bytes as usize)) {
            (Touch::Plain(Access::Read), 1) => self.lanes_of::<1, true>(event, lanes, base, by),
            (Touch::Plain(Access::Read), 2) => self.lanes_of::<2, true>(event, lanes, base, by),
            (Touch::Plain(Access::Read), 4) => self.lanes_of::<4, true>(event, lanes, base, by),
            (Touch::Plain(Access::Write), 1) => self.lanes_of::<1, false>(event, lanes, base, by),
            (Touch::Plain(Access::Write), 2) => self.lanes_of::<2, false>(event, lanes, base, by),
            (Touch::Plain(Access::Write), 4) => self.lanes_of::<4, false>(event, lanes, base, by),
            _ => false,
        }
    }

    #[inline(always)]
    fn lanes_of<const CELLS: usize, const READS: bool>(
        &mut self,
        event: &Event,
        lanes: u64,
        base: u64,
        By { me, several, floor, at }: By,
    ) -> bool {
        let shift = self.shift;
        let ats = if READS { &mut self.read_at } else { &mut self.written_at };
        // All are of one length, so that one check of a place is enough.
        let count = ats.len();
        let (writer, reader) = (&mut self.writer[..count], &mut self.reader[..count]);
        // Mostly nobody was there in this interval, or the same wave: two branches that are foreseen.
        let is_foreign = |who: u32| who >= floor && who != me;
        // Whoever asks each cell after a lane that was not alone notes once more what is noted here: that changes nothing.
        let (mut left, mut before) = (lanes, u64::MAX);
        while left != 0 {
            let lane = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let address = event.addresses[lane];
            if READS && address == before {
                continue;
            }
            before = address;
            let first = (address - base) as usize >> shift;
            let Some(ats) = ats.get_mut(first..).and_then(|ats| ats.first_chunk_mut::<CELLS>()) else { return false };
            for cell in first..first + CELLS {
                let (writer, reader) = (writer[cell], reader[cell]);
                if is_foreign(writer) || is_foreign(reader) && !(READS && reader == several) {
                    return false;
                }
            }
            for cell in first..first + CELLS {
                if !READS {
                    writer[cell] = me;
                } else if reader[cell] != several {
                    reader[cell] = me;
                }
            }
            *ats = [at | (lane as u32) << 1; CELLS];
        }
        true
    }

    /// Forgets that `me` has read the cells: what it read was a guess.
    pub(super) fn forget_reader(&mut self, cells: Range<usize>, me: u32) {
        let readers = self.reader.get_mut(cells).unwrap_or_default();
        readers.iter_mut().filter(|reader| **reader == me).for_each(|reader| *reader = 0);
    }

    /// The last writer of a cell.
    pub(super) fn writer_at(&self, offset: usize) -> u32 {
        self.writer.get(offset >> self.shift).copied().unwrap_or(0)
    }

    /// Notes an access to a cell; the other side of a race, if it is one. `known`: whether somebody else is ordered before.
    pub(super) fn touch(&mut self, cell: usize, touch: Touch, by: By, known: impl Fn(u32) -> bool) -> Option<Side> {
        let By { me, several, floor, at } = by;
        if cell >= self.writer.len() {
            return None;
        }
        let foreign = |who: u32| who >= floor && who != me && !known(who);
        let (who_wrote, who_read) = (self.writer[cell], self.reader[cell]);
        let atomic = who_wrote >= floor && self.written_at[cell] & 1 != 0;
        let access = if atomic { Access::Atomic } else { Access::Write };
        let writer = Side { who: who_wrote, at: self.written_at[cell], access };
        let reader = Side { who: who_read, at: self.read_at[cell], access: Access::Read };
        if touch == Touch::AtomicLoad {
            // It is in the way of no atomic, and what it has seen others may change at any time.
            return (foreign(who_wrote) && !atomic).then_some(writer);
        }
        let access = touch.access();
        match access {
            Access::Read | Access::Write if foreign(who_wrote) => return Some(writer),
            Access::Atomic if foreign(who_wrote) && !atomic => return Some(writer),
            Access::Write | Access::Atomic if foreign(who_read) => return Some(reader),
            Access::Read | Access::Write | Access::Atomic => {}
        }
        match access {
            Access::Read => {
                self.reader[cell] = if foreign(who_read) { several } else { me };
                self.read_at[cell] = at;
            }
            Access::Write => (self.writer[cell], self.written_at[cell]) = (me, at),
            Access::Atomic => {
                let all_atomic = who_wrote < floor || atomic;
                self.writer[cell] = if foreign(who_wrote) { several } else { me };
                self.written_at[cell] = at | u32::from(all_atomic);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVERAL: u32 = u32::MAX;

    fn by(me: u32) -> By {
        By { me, several: SEVERAL, floor: 1, at: me << 7 }
    }

    fn last(accesses: &[(u32, Access)]) -> Option<u32> {
        let mut page = Page::new(4);
        let mut outcome = None;
        for &(who, access) in accesses {
            assert_eq!(outcome, None, "only the last access may race");
            let touch = if access == Access::Atomic { Touch::Exchange } else { Touch::Plain(access) };
            // Both ways give the same.
            let alone = page.run(0..1, touch, by(who), (1, 0));
            outcome = if alone { None } else { page.touch(0, touch, by(who), |_| false).map(|side| side.who) };
        }
        outcome
    }

    #[test]
    fn a_race_needs_two_a_write_and_something_that_is_not_atomic() {
        use Access::{Atomic, Read, Write};
        assert_eq!(last(&[(1, Write), (1, Read), (1, Atomic), (1, Write)]), None);
        assert_eq!(last(&[(1, Read), (2, Read), (3, Read)]), None);
        assert_eq!(last(&[(1, Atomic), (2, Atomic), (1, Atomic)]), None);
        assert_eq!(last(&[(1, Write), (2, Read)]), Some(1));
        assert_eq!(last(&[(1, Write), (2, Write)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Write)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Read), (1, Write)]), Some(SEVERAL));
        assert_eq!(last(&[(1, Atomic), (2, Read)]), Some(1));
        assert_eq!(last(&[(1, Atomic), (2, Atomic), (2, Write)]), Some(SEVERAL));
        assert_eq!(last(&[(1, Write), (1, Atomic), (2, Atomic)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Atomic)]), Some(1));
    }

    #[test]
    fn a_higher_floor_ends_what_was_before_it() {
        let mut page = Page::new(64);
        let write = Touch::Plain(Access::Write);
        assert!(page.run(0..16, write, by(1), (1, 0)));
        assert!(!page.run(3..5, write, by(2), (1, 0)));
        let later = By { floor: 64, me: 66, ..by(0) };
        assert!(page.run(0..16, write, later, (1, 0)));
        assert_eq!(page.touch(7, write, By { floor: 64, me: 67, ..by(0) }, |_| false).map(|side| side.who), Some(66));
    }

    #[test]
    fn narrow_accesses_are_told_apart() {
        let mut page = Page::new(64);
        let write = Touch::Plain(Access::Write);
        let touch = |page: &mut Page, offset, bytes, who| {
            page.refine(offset, bytes);
            let cells = page.cells(offset, bytes);
            cells.filter_map(|cell| page.touch(cell, write, by(who), |_| false)).map(|side| side.who).last()
        };
        assert_eq!(touch(&mut page, 8, 4, 1), None);
        assert_eq!((touch(&mut page, 2, 2, 1), touch(&mut page, 0, 2, 2)), (None, None));
        assert_eq!((touch(&mut page, 5, 1, 1), touch(&mut page, 6, 1, 2)), (None, None));
        assert_eq!((touch(&mut page, 2, 1, 2), touch(&mut page, 0, 1, 1)), (Some(1), Some(2)));
        assert_eq!(touch(&mut page, 11, 1, 2), Some(1), "what was known of the four bytes is known of each");
    }

    #[test]
    fn sites_give_back_what_they_were_made_of() {
        let mut sites = Sites::default();
        for (step, wave) in [(7, 3), (100_000, 31), (7, 0)] {
            let at = sites.at(step, wave);
            assert_eq!(sites.of(at | 45 << 1 | 1), (step, wave, 45));
        }
    }
}
