//! The places that the kernels' arguments have: of 16 bytes, whatever is in them, or of 8.

use bytemuck::{Pod, Zeroable};

/// An address, in 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Address([u64; 2]);

impl From<u64> for Address {
    fn from(address: u64) -> Address {
        Address([address, 0])
    }
}

/// A number of 32 bits, in 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Word([u32; 4]);

impl From<u32> for Word {
    fn from(word: u32) -> Word {
        Word([word, 0, 0, 0])
    }
}

/// A number of 32 bits, in 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Short([u32; 2]);

impl From<u32> for Short {
    fn from(word: u32) -> Short {
        Short([word, 0])
    }
}
