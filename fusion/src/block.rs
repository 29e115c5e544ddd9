//! The argument block: the bytes of a kernel's one struct, written field by field.
//!
//! The struct's length depends on the graph, so it has no Rust twin; the order here is `fuse.h`'s `Space` and `Tensor` and
//! the renderer's `FusedArgs`. `hal` compares the length with the code object's.

use crate::geometry::TENSORS_MOST;

/// The most that a kernel takes, bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;

pub(crate) struct Block {
    bytes: [u8; BLOCK_BYTES],
    used: usize,
    wide: bool,
}

impl Block {
    /// `wide` writes an index in 64 bits.
    pub(crate) fn new(wide: bool) -> Block {
        Block { bytes: [0; BLOCK_BYTES], used: 0, wide }
    }

    /// An `index_t`: the low bits of `value`, so that a negative step wraps as the kernel's arithmetic does.
    pub(crate) fn index(&mut self, value: u64) {
        if self.wide {
            self.word(value);
        } else {
            self.put(&(value as u32).to_le_bytes());
        }
    }

    /// A `u64`.
    pub(crate) fn word(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    // The plan has checked that the struct fits.
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }
}

/// Bytes of the struct with 64-bit indices, the longer of the two forms.
pub(crate) fn longest(tensors: usize, lookups: usize, scalars: usize) -> usize {
    const INDEX: usize = 8;
    let space = INDEX * (8 + 3 * rocfire_hal::MAX_RANK);
    let tensor = 8 + INDEX * (2 + rocfire_hal::MAX_RANK);
    space + tensors * tensor + lookups * 2 * INDEX + 8 * scalars + 16
}

/// Whether a kernel takes as many `tensors`, of which `lookups` are looked up in, and scalars as a graph of that many would
/// need. Who decides what to fuse asks this; [`crate::run()`] refuses what it says no to.
pub fn has_room(tensors: usize, lookups: usize, scalars: usize) -> bool {
    longest(tensors, lookups, scalars) <= BLOCK_BYTES && tensors <= TENSORS_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ends_with_the_bytes_and_with_the_tensors() {
        assert!(has_room(TENSORS_MOST, 0, 0) && !has_room(TENSORS_MOST + 1, 0, 0));
        // Tensors that are looked up in take two words more each, which are too many before the tensors are.
        assert!(!has_room(TENSORS_MOST, TENSORS_MOST, 0));
        let scalars = (BLOCK_BYTES - longest(0, 0, 0)) / 8;
        assert!(has_room(0, 0, scalars) && !has_room(0, 0, scalars + 1));
    }
}
