//! Which commands must come after which: what they read and write, compared byte by byte.
//!
//! [`Hazards`] knows commands that wait by numbers below 64, so that a set of them is a mask. A device's queue (`queue.rs`)
//! numbers its groups of launches, Candle's window its launches.

use crate::{Buffer, View};

/// Bytes of device memory: from an address to another, and which between them if they come in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The first.
    pub first: u64,
    /// Behind the last.
    pub end: u64,
    /// Bytes of a row, and from one row to the next.
    pub rows: Option<(u64, u64)>,
}

impl Bytes {
    /// All of a buffer.
    pub fn all(buffer: &Buffer) -> Bytes {
        let first = buffer.device_address();
        Bytes { first, end: first + buffer.bytes(), rows: None }
    }

    /// Those of a view's elements.
    pub fn of(view: &View<'_>) -> Bytes {
        let (layout, size) = (view.layout(), view.dtype().size_bytes() as u64);
        let extent = layout.extent();
        let base = view.buffer().device_address();
        let (first, end) = (base + extent.start as u64 * size, base + extent.end as u64 * size);
        // Elements without gaps, then rows of them.
        let (mut row, mut rows) = (size, None::<(u64, u64)>);
        for (&extent, &stride) in layout.shape().iter().zip(layout.strides()).rev().filter(|axis| *axis.0 > 1) {
            let (extent, step) = (extent as u64, stride.unsigned_abs() * size);
            match &mut rows {
                None if stride > 0 && step == row => row *= extent,
                None if stride > 0 && step > row => rows = Some((step, extent)),
                Some((stride, count)) if step == *stride * *count => *count *= extent,
                _ => return Bytes { first, end, rows: None },
            }
        }
        Bytes { first, end, rows: rows.map(|(stride, _)| (row, stride)) }
    }

    /// Whether both have a byte in common, or it is not known that they have none.
    #[inline]
    pub fn meets(&self, other: &Bytes) -> bool {
        if self.first >= other.end || other.first >= self.end {
            return false;
        }
        self.rows_meet(other)
    }

    fn rows_meet(&self, other: &Bytes) -> bool {
        match (self.rows, other.rows) {
            (Some((bytes, stride)), Some((other_bytes, other_stride))) if stride == other_stride => {
                // Columns of one matrix: apart if the other's lie behind ours and before our next row.
                let behind = (i128::from(other.first) - i128::from(self.first)).rem_euclid(i128::from(stride)) as u64;
                behind < bytes || behind + other_bytes > stride
            }
            _ => true,
        }
    }
}

/// What a command reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub bytes: Bytes,
    /// Whether it reads there.
    pub is_read: bool,
    /// Whether it writes there.
    pub is_written: bool,
}

impl Access {
    /// Bytes that are read.
    pub fn read(bytes: Bytes) -> Access {
        Access { bytes, is_read: true, is_written: false }
    }

    /// Bytes that are written, whatever is in them.
    pub fn written(bytes: Bytes) -> Access {
        Access { bytes, is_read: false, is_written: true }
    }
}

/// The commands that must come before another, a bit for each by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Those that write what it accesses, or read what it writes.
    pub all: u64,
    /// Those of them that write what it reads.
    pub sources: u64,
}

impl Dependencies {
    /// The same by the numbers that [`Hazards::keep`] gives.
    #[must_use]
    pub fn kept(self, kept: u64) -> Dependencies {
        let packed = |mask| numbers(mask & kept).fold(0, |all, number| all | 1 << place(kept, number));
        Dependencies { all: packed(self.all), sources: packed(self.sources) }
    }
}

/// Something that a command which waits reads, or something that it writes.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: Bytes,
    command: u32,
}

/// What commands that wait access.
#[derive(Debug, Default)]
pub struct Hazards {
    read: Vec<Held>,
    written: Vec<Held>,
}

impl Hazards {
    /// The most commands that it can know: as many as a mask has bits.
    pub const COMMANDS_MOST: usize = u64::BITS as usize;

    /// Which of the commands must come before work with these accesses.
    pub fn dependencies<'a>(&self, accesses: impl IntoIterator<Item = &'a Access>) -> Dependencies {
        let mut found = Dependencies::default();
        for access in accesses {
            let meeting = |held: &[Held]| {
                let meets = |held: &&Held| held.bytes.meets(&access.bytes);
                held.iter().filter(meets).fold(0_u64, |mask, held| mask | 1 << held.command)
            };
            let writers = meeting(&self.written);
            found.all |= writers;
            if access.is_read {
                found.sources |= writers;
            }
            if access.is_written {
                found.all |= meeting(&self.read);
            }
        }
        found
    }

    /// Adds accesses of a command.
    pub fn add<'a>(&mut self, command: usize, accesses: impl IntoIterator<Item = &'a Access>) {
        debug_assert!(command < Hazards::COMMANDS_MOST, "a mask has a bit for it");
        for &Access { bytes, is_read, is_written } in accesses {
            let held = Held { bytes, command: command as u32 };
            self.read.extend(is_read.then_some(held));
            self.written.extend(is_written.then_some(held));
        }
    }

    /// Forgets the commands that are not `kept`; the others are numbered anew from 0, in the same order.
    pub fn keep(&mut self, kept: u64) {
        for all in [&mut self.read, &mut self.written] {
            all.retain_mut(|held| {
                let is_kept = kept >> held.command & 1 == 1;
                held.command = place(kept, held.command);
                is_kept
            });
        }
    }
}

/// The numbers whose bits a mask has, from the least on.
fn numbers(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let number = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(number)
    })
}

/// How many are kept before a number.
fn place(kept: u64, number: u32) -> u32 {
    (kept & ((1 << number) - 1)).count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(first: u64, end: u64) -> Bytes {
        Bytes { first, end, rows: None }
    }

    fn read(first: u64, end: u64) -> Access {
        Access::read(bytes(first, end))
    }

    fn written(first: u64, end: u64) -> Access {
        Access::written(bytes(first, end))
    }

    #[test]
    fn work_comes_after_what_it_overwrites_and_what_it_reads_of_others() {
        let mut hazards = Hazards::default();
        hazards.add(3, &[written(0, 16), read(32, 48)]);
        hazards.add(5, &[read(0, 4), written(48, 64)]);
        let before = |accesses: &[Access]| {
            let Dependencies { all, sources } = hazards.dependencies(accesses);
            (all, sources)
        };
        assert_eq!(before(&[read(15, 17)]), (0b1000, 0b1000));
        assert_eq!(before(&[written(0, 1)]), (0b10_1000, 0), "one writes it, one reads it");
        assert_eq!(before(&[Access { is_read: true, ..written(0, 1) }]), (0b10_1000, 0b1000));
        assert_eq!(before(&[written(40, 41)]), (0b1000, 0));
        assert_eq!(before(&[read(40, 41)]), (0, 0), "both read it");
        assert_eq!(before(&[written(16, 32)]), (0, 0), "neighbours");
        assert_eq!(before(&[written(16, 32), read(15, 16), read(63, 65)]), (0b10_1000, 0b10_1000), "of several");
    }

    #[test]
    fn those_that_are_kept_are_numbered_anew() {
        let mut hazards = Hazards::default();
        for command in 0..64 {
            hazards.add(command, &[written(command as u64, command as u64 + 1)]);
        }
        let kept = 1 << 2 | 1 << 40 | 1 << 63;
        let of_all = hazards.dependencies(&[read(0, 64)]);
        assert_eq!((of_all.all, of_all.kept(kept)), (u64::MAX, Dependencies { all: 0b111, sources: 0b111 }));
        let of_some = hazards.dependencies(&[read(30, 41), written(63, 64)]);
        assert_eq!(of_some.kept(kept), Dependencies { all: 0b110, sources: 0b10 });
        hazards.keep(kept);
        assert_eq!(hazards.dependencies(&[read(30, 41), written(63, 64)]), of_some.kept(kept));
        hazards.add(3, &[written(7, 8)]);
        assert_eq!(hazards.dependencies(&[read(0, 64)]).all, 0b1111);
        hazards.keep(0);
        assert_eq!(hazards.dependencies(&[written(0, 64)]), Dependencies::default());
    }
}
