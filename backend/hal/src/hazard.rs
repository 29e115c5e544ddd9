//! Which commands must come after which: what they read and write, compared byte by byte.
//!
//! A device's queue (`queue.rs`) keeps the accesses of launches that wait in [`Hazards`]; Candle's window compares [`Bytes`].

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
    pub fn meets(&self, other: &Bytes) -> bool {
        if self.first >= other.end || other.first >= self.end {
            return false;
        }
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub bytes: Bytes,
    pub is_written: bool,
}

/// The accesses of commands that wait.
#[derive(Debug, Default)]
pub(crate) struct Hazards(Vec<Access>);

impl Hazards {
    /// Whether work with these accesses must come after any of the commands.
    pub fn conflict(&self, accesses: &[Access]) -> bool {
        accesses.iter().any(|access| {
            let is_ordered = |held: &Access| held.is_written || access.is_written;
            self.0.iter().any(|held| is_ordered(held) && held.bytes.meets(&access.bytes))
        })
    }

    /// Adds what a command reads and writes.
    pub fn add(&mut self, accesses: &[Access]) {
        self.0.extend_from_slice(accesses);
    }

    /// Forgets all commands.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_conflicts_with_what_it_overwrites_and_with_what_it_reads_of_others() {
        let access = |first, end, is_written| Access { bytes: Bytes { first, end, rows: None }, is_written };
        let mut hazards = Hazards::default();
        hazards.add(&[access(0, 16, true), access(32, 48, false)]);
        let conflicts = |access: Access| hazards.conflict(&[access]);
        assert!(conflicts(access(15, 17, false)) && conflicts(access(0, 1, true)));
        assert!(conflicts(access(40, 41, true)) && !conflicts(access(40, 41, false)));
        assert!(!conflicts(access(16, 32, true)), "neighbours");
        assert!(hazards.conflict(&[access(16, 32, true), access(15, 16, false)]), "one of several");
        hazards.clear();
        assert!(!hazards.conflict(&[access(0, 48, true)]));
    }
}
