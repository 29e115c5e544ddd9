//! The argument block: the bytes of a kernel's argument struct, written field by field.
//!
//! The struct's length depends on the graph, so there is no such struct in Rust. The order of fields is that of `Space` and `Tensor` in
//! `fuse.h`, and of the renderer's `FusedArgs`. `hal` compares the length with that of the code object.

use arrayvec::ArrayVec;

use crate::geometry::TENSORS_MOST;

/// The most bytes of arguments that a kernel takes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// An argument block that is being written, field by field.
pub(crate) struct Block {
    bytes: ArrayVec<u8, BLOCK_BYTES>,
    wide: bool,
}

impl Block {
    /// An empty block. With `wide` an index takes 64 bits, else 32.
    pub(crate) fn new(wide: bool) -> Block {
        Block { bytes: ArrayVec::new(), wide }
    }

    /// Appends an `index_t`: the low bits of `value`, so that a negative step wraps as the kernel's arithmetic does.
    pub(crate) fn index(&mut self, value: u64) {
        if self.wide {
            self.word(value);
        } else {
            self.put(&(value as u32).to_le_bytes());
        }
    }

    /// Appends a `u64`.
    pub(crate) fn word(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    // The plan has checked that the struct fits.
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.try_extend_from_slice(bytes).expect("the struct fits");
    }
}

/// The bytes of the argument struct of a kernel with these arguments, if its indices have 64 bits, which is the longer form.
pub(crate) fn longest(tensors: usize, lookups: usize, scalars: usize) -> usize {
    const INDEX: usize = 8;
    let space = INDEX * (8 + 3 * rocfire_hal::MAX_RANK);
    let tensor = 8 + INDEX * (2 + rocfire_hal::MAX_RANK);
    space + tensors * tensor + lookups * 2 * INDEX + 8 * scalars + 16
}

/// Whether a kernel can take so many tensors and scalars; `lookups` of the tensors are looked up in. Whoever decides what to fuse asks
/// this; [`crate::run()`] refuses a graph with more.
pub fn has_room(tensors: usize, lookups: usize, scalars: usize) -> bool {
    longest(tensors, lookups, scalars) <= BLOCK_BYTES && tensors <= TENSORS_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ends_with_the_bytes_and_with_the_tensors() {
        assert!(has_room(TENSORS_MOST, 0, 0) && !has_room(TENSORS_MOST + 1, 0, 0));
        // A tensor that is looked up in takes two words more, so fewer of these fit.
        assert!(!has_room(TENSORS_MOST, TENSORS_MOST, 0));
        let scalars = (BLOCK_BYTES - longest(0, 0, 0)) / 8;
        assert!(has_room(0, 0, scalars) && !has_room(0, 0, scalars + 1));
    }
}
