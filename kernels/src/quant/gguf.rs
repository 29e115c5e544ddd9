//! The quantised types of GGUF: what a block of them is.

use rocfire_hal::{DType, View, ViewMut};

use crate::Result;
use crate::family::{self, shape};

/// A quantised type of GGUF: blocks of weights along K, each with its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gguf {
    /// 32 weights, 4 bits, one scale.
    Q4_0,
    /// 32 weights, 4 bits, a scale and a least value.
    Q4_1,
    /// 32 weights, 5 bits, one scale.
    Q5_0,
    /// 32 weights, 5 bits, a scale and a least value.
    Q5_1,
    /// 32 weights, 8 bits, one scale.
    Q8_0,
    /// 256 weights, 2 bits, a scale and a least value for each 16.
    Q2K,
    /// 256 weights, 3 bits, a scale for each 16.
    Q3K,
    /// 256 weights, 4 bits, a scale and a least value for each 32.
    Q4K,
    /// 256 weights, 5 bits, a scale and a least value for each 32.
    Q5K,
    /// 256 weights, 6 bits, a scale for each 16.
    Q6K,
}

impl Gguf {
    /// Every type.
    pub const ALL: [Gguf; 10] = [
        Gguf::Q4_0,
        Gguf::Q4_1,
        Gguf::Q5_0,
        Gguf::Q5_1,
        Gguf::Q8_0,
        Gguf::Q2K,
        Gguf::Q3K,
        Gguf::Q4K,
        Gguf::Q5K,
        Gguf::Q6K,
    ];

    /// Weights of a block.
    pub const fn weights(self) -> usize {
        match self {
            Gguf::Q4_0 | Gguf::Q4_1 | Gguf::Q5_0 | Gguf::Q5_1 | Gguf::Q8_0 => 32,
            Gguf::Q2K | Gguf::Q3K | Gguf::Q4K | Gguf::Q5K | Gguf::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        match self {
            Gguf::Q4_0 => 18,
            Gguf::Q4_1 => 20,
            Gguf::Q5_0 => 22,
            Gguf::Q5_1 => 24,
            Gguf::Q8_0 => 34,
            Gguf::Q2K => 84,
            Gguf::Q3K => 110,
            Gguf::Q4K => 144,
            Gguf::Q5K => 176,
            Gguf::Q6K => 210,
        }
    }

    /// Weights that a lane decodes at once: of a unit of `gguf.h`.
    pub(crate) const fn unit(self) -> usize {
        if self.weights() == 32 { 32 } else { 64 }
    }

    /// Bytes of which a block's address is a multiple.
    const fn aligned(self) -> usize {
        match self {
            Gguf::Q4_0 | Gguf::Q5_0 | Gguf::Q8_0 | Gguf::Q3K | Gguf::Q6K => 2,
            Gguf::Q4_1 | Gguf::Q5_1 | Gguf::Q2K => 4,
            Gguf::Q4K | Gguf::Q5K => 16,
        }
    }

    /// Its name in `gguf.h`.
    pub(crate) const fn device_name(self) -> &'static str {
        match self {
            Gguf::Q4_0 => "Q4_0",
            Gguf::Q4_1 => "Q4_1",
            Gguf::Q5_0 => "Q5_0",
            Gguf::Q5_1 => "Q5_1",
            Gguf::Q8_0 => "Q8_0",
            Gguf::Q2K => "Q2_K",
            Gguf::Q3K => "Q3_K",
            Gguf::Q4K => "Q4_K",
            Gguf::Q5K => "Q5_K",
            Gguf::Q6K => "Q6_K",
        }
    }
}

/// Matrices in blocks of GGUF, one for each of several groups, as the files have them: a line of blocks along K for each column.
#[derive(Clone, Copy, Debug)]
pub struct GgufMatrices<'a> {
    /// Blocks, u8 `[groups, N, bytes of K weights]`.
    pub blocks: View<'a>,
    /// What they are.
    pub kind: Gguf,
}

impl GgufMatrices<'_> {
    /// Groups, K and N, checked against `a`, `[.., K]`, and what is written.
    pub(crate) fn check(&self, op: &'static str, a: &View<'_>, c: &ViewMut<'_>) -> Result<[usize; 3]> {
        let GgufMatrices { blocks, kind } = self;
        family::same_dtype(op, "blocks", blocks, DType::U8)?;
        let &[count, n, line_bytes] = blocks.shape() else {
            let got = format!("{:?}", blocks.shape());
            return Err(shape(op, "blocks", "three axes, groups, N and the bytes of a line", got));
        };
        let name = kind.device_name();
        if line_bytes == 0 || !line_bytes.is_multiple_of(kind.bytes()) {
            let expected = format!("lines of whole blocks of {name}, {} bytes each", kind.bytes());
            return Err(shape(op, "blocks", expected, format!("{line_bytes} bytes")));
        }
        if let Some(k) = a.shape().last().filter(|k| !k.is_multiple_of(kind.weights())) {
            return Err(shape(op, "a", format!("K in whole blocks of {name}, {} weights each", kind.weights()), k));
        }
        let strides = blocks.layout().strides();
        let is_apart = |axis: usize| blocks.shape()[axis] > 1 && strides[axis] % kind.aligned() as i64 != 0;
        if strides[2] != 1 || is_apart(0) || is_apart(1) {
            let expected = format!("lines that lie multiples of {} bytes apart, bytes side by side", kind.aligned());
            return Err(shape(op, "blocks", expected, format!("strides {strides:?}")));
        }
        // A block that is aligned to two bytes is read by words, of which the first may begin before it.
        let aligned = kind.aligned().max(4);
        if !blocks.is_empty() && !blocks.device_address().is_multiple_of(aligned as u64) {
            let got = format!("{:#x}", blocks.device_address());
            return Err(shape(op, "blocks", format!("at a multiple of {aligned} bytes"), got));
        }
        family::disjoint(op, "blocks", c, blocks)?;
        Ok([count, line_bytes / kind.bytes() * kind.weights(), n])
    }
}
