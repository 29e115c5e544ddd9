//! What a code means and how codes lie in memory.

use rocfire_hal::{DType, Dims, MAX_RANK, View};

use crate::Result;
use crate::family::shape;

/// How a code is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Two's complement of 8 bits.
    I8,
    /// Two's complement of 4 bits.
    I4,
    /// Two's complement of 2 bits.
    I2,
    /// OCP E4M3: largest 448, NaN, no infinity.
    E4M3,
    /// OCP E5M2: largest 57344, NaN, infinity.
    E5M2,
    /// OCP E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
    E2M1,
    /// E4M3 with one zero and bias 8, as on gfx942: largest 240, NaN is 0x80.
    E4M3Fnuz,
    /// E5M2 with one zero and bias 16: largest 57344, NaN is 0x80.
    E5M2Fnuz,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::I8,
        Format::I4,
        Format::I2,
        Format::E4M3,
        Format::E5M2,
        Format::E2M1,
        Format::E4M3Fnuz,
        Format::E5M2Fnuz,
    ];

    /// The one of a name, which is the variant's in small letters: `e4m3`.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format!("{format:?}").to_ascii_lowercase() == name)
    }

    /// Bits of a code.
    pub const fn bits(self) -> usize {
        match self {
            Format::I8 | Format::E4M3 | Format::E5M2 | Format::E4M3Fnuz | Format::E5M2Fnuz => 8,
            Format::I4 | Format::E2M1 => 4,
            Format::I2 => 2,
        }
    }

    /// The largest magnitude that has a code on both sides of zero.
    pub const fn largest(self) -> f32 {
        match self {
            Format::I8 => 127.0,
            Format::I4 => 7.0,
            Format::I2 => 1.0,
            Format::E4M3 => 448.0,
            Format::E5M2 | Format::E5M2Fnuz => 57344.0,
            Format::E2M1 => 6.0,
            Format::E4M3Fnuz => 240.0,
        }
    }

    /// Whether codes are whole numbers.
    pub const fn is_int(self) -> bool {
        matches!(self, Format::I8 | Format::I4 | Format::I2)
    }

    /// Least and largest number that is encoded; of integers, `symmetric` leaves out the one without a counterpart.
    pub(crate) fn range(self, symmetric: bool) -> [f32; 2] {
        let largest = self.largest();
        [if self.is_int() && !symmetric { -largest - 1.0 } else { -largest }, largest]
    }

    /// The number that the kernels know it by.
    pub(crate) const fn number(self) -> &'static str {
        match self {
            Format::I8 => "0",
            Format::I4 => "1",
            Format::I2 => "2",
            Format::E4M3 => "3",
            Format::E5M2 => "4",
            Format::E2M1 => "5",
            Format::E4M3Fnuz => "6",
            Format::E5M2Fnuz => "7",
        }
    }
}

/// What a number between two whole ones becomes. Small floats always round to nearest, ties to even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The nearest, ties away from zero: Burn 0.22's.
    Away,
    /// The nearest, ties to even.
    Even,
    /// As `Even`, of a quotient: what is rounded, small floats too, was divided by its scale instead of multiplied by the scale's
    /// reciprocal. Burn 0.23's.
    EvenQuotient,
}

impl Rounding {
    pub(crate) const fn c_type(self) -> &'static str {
        match self {
            Rounding::Away => "RoundAway",
            Rounding::Even | Rounding::EvenQuotient => "RoundEven",
        }
    }
}

/// The axis along which a word holds several codes, the first in the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The axis.
    pub axis: usize,
    /// Codes along it; the last word may be partly filled.
    pub extent: usize,
}

/// How codes lie in a tensor of words (u8 or u32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLayout {
    /// What a code means.
    pub format: Format,
    /// Where words hold several; `None` for a byte each, the code in its lowest bits.
    pub packed: Option<Packed>,
}

impl CodeLayout {
    /// A byte for each code.
    pub const fn bytes(format: Format) -> CodeLayout {
        CodeLayout { format, packed: None }
    }

    /// Several codes per word along `axis`, which has `extent` of them.
    pub const fn packed(format: Format, axis: usize, extent: usize) -> CodeLayout {
        CodeLayout { format, packed: Some(Packed { axis, extent }) }
    }

    /// Of rows of `cols` codes, as [`super::RowCodes`] has them: a byte for each, or for two of 4 bits.
    pub const fn of_rows(format: Format, cols: usize) -> CodeLayout {
        match format.bits() {
            8 => CodeLayout::bytes(format),
            _ => CodeLayout::packed(format, 1, cols),
        }
    }

    /// Codes in a word of this type.
    pub const fn per_word(&self, word: DType) -> usize {
        match (self.packed, word) {
            (None, _) => 1,
            (Some(_), DType::U32) => 32 / self.format.bits(),
            (Some(_), _) => 8 / self.format.bits(),
        }
    }

    /// The shape of the words that hold codes of this shape.
    ///
    /// # Panics
    /// If `shape` has more axes than a tensor can have.
    pub fn words_shape(&self, shape: &[usize], word: DType) -> Dims {
        let mut words = [0; MAX_RANK];
        words[..shape.len()].copy_from_slice(shape);
        if let Some(Packed { axis, .. }) = self.packed {
            words[axis] = words[axis].div_ceil(self.per_word(word));
        }
        Dims::new(&words[..shape.len()]).expect("as many axes as `shape`, which fitted")
    }

    /// Checks that `words` holds codes of `shape`.
    pub(crate) fn check(&self, op: &'static str, words: &View<'_>, of: &[usize]) -> Result<()> {
        let word = words.dtype();
        let fits = matches!((word, self.packed), (DType::U8 | DType::I8, _) | (DType::U32, Some(_)));
        if !fits {
            return Err(shape(op, "words", "u8, or u32 where several codes share one", word));
        }
        if let Some(Packed { axis, extent }) = self.packed
            && of.get(axis) != Some(&extent)
        {
            return Err(shape(op, "words", format!("packed along an axis of {of:?}"), format!("{:?}", self.packed)));
        }
        let expected = self.words_shape(of, word);
        if words.shape() != &expected[..] {
            return Err(shape(op, "words", format!("{expected:?}"), format!("{:?}", words.shape())));
        }
        Ok(())
    }
}

/// The type that scales are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleKind {
    /// f32.
    F32,
    /// f16.
    F16,
    /// bf16.
    BF16,
    /// A bare exponent in a byte: 2^(code − 127), 255 is NaN.
    E8M0,
    /// OCP E4M3 in a byte, positive.
    E4M3,
}

impl ScaleKind {
    /// Every type.
    pub const ALL: [ScaleKind; 5] = [ScaleKind::F32, ScaleKind::F16, ScaleKind::BF16, ScaleKind::E8M0, ScaleKind::E4M3];

    /// The element type of a tensor of such scales.
    pub const fn dtype(self) -> DType {
        match self {
            ScaleKind::F32 => DType::F32,
            ScaleKind::F16 => DType::F16,
            ScaleKind::BF16 => DType::BF16,
            ScaleKind::E8M0 | ScaleKind::E4M3 => DType::U8,
        }
    }

    /// The number that the kernels know it by.
    pub(crate) const fn number(self) -> u32 {
        match self {
            ScaleKind::F32 => 0,
            ScaleKind::F16 => 1,
            ScaleKind::BF16 => 2,
            ScaleKind::E8M0 => 3,
            ScaleKind::E4M3 => 4,
        }
    }
}

/// The scales of a tensor of codes: an element is `global · scale · code`.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// One scale (of any shape), or one per block.
    pub view: View<'a>,
    /// Their type.
    pub kind: ScaleKind,
    /// Elements of a block along each axis of the tensor; empty where there is one scale.
    pub block: &'a [usize],
    /// A factor common to all blocks: f32, one element.
    pub global: Option<View<'a>>,
}

impl Scales<'_> {
    /// Checks that they belong to a tensor of this shape.
    pub(crate) fn check(&self, op: &'static str, of: &[usize]) -> Result<()> {
        if self.view.dtype() != self.kind.dtype() {
            return Err(shape(op, "scales", self.kind.dtype(), self.view.dtype()));
        }
        if let Some(global) = &self.global
            && (global.dtype() != DType::F32 || global.len() != 1)
        {
            return Err(shape(op, "global", "one f32", format!("{} {:?}", global.dtype(), global.shape())));
        }
        if self.block.is_empty() {
            if self.view.len() == 1 {
                return Ok(());
            }
            return Err(shape(op, "scales", "one element", format!("{:?}", self.view.shape())));
        }
        if self.block.len() != of.len() || self.block.contains(&0) {
            return Err(shape(op, "block", format!("an extent for each axis of {of:?}"), format!("{:?}", self.block)));
        }
        let grid = || of.iter().zip(self.block).map(|(&extent, &block)| extent.div_ceil(block));
        if !self.view.shape().iter().copied().eq(grid()) {
            let grid: Vec<usize> = grid().collect();
            return Err(shape(op, "scales", format!("{grid:?}"), format!("{:?}", self.view.shape())));
        }
        Ok(())
    }
}
