//! Random tensors inside a kernel, so that dropout's mask is never in memory.
//!
//! An element depends on the draw and on its own index in its tensor, as in `kernels::random`, so it is the same number
//! in whatever kernel it is computed. When a plan runs it takes its draws from the device's sequence, in the order of Burn's
//! operations.

use burn_backend::Distribution;
use burn_ir::{RandomOpIr, TensorIr};
use rocfire_fusion::{Binary, Compare, Scalar, Value};
use rocfire_hal::DType;

use super::axes::Frame;
use super::refusal::Refusal;
use super::trace::{Number, Trace};
use super::translate::Result;
use crate::convert::to_hal;

/// 2^-24: the top 24 bits of a word times this are a number in [0, 1).
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// 2^32, the number of words: a probability times this is what `kernels::random` compares a word with.
const WORDS: f64 = 4_294_967_296.0;

impl Trace {
    /// Takes a draw of flags by a probability, or of floats from [0, 1). Other draws are kernels of their own.
    pub(super) fn random(&mut self, op: &RandomOpIr) -> Result<()> {
        let dtype = to_hal(op.out.dtype).map_err(|_| Refusal::DType)?;
        let is_short_float = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        match op.distribution {
            Distribution::Bernoulli(probability) if (0.0..=1.0).contains(&probability) => {}
            Distribution::Default if is_short_float => {}
            _ => return Err(Refusal::Operation),
        }
        let frame = self.resolve(&op.out, &[])?;
        let index = self.place_in(&op.out, &frame)?;
        let draw = self.draws;
        self.draws = draw.checked_add(1).ok_or(Refusal::Full)?;
        self.numbers.extend([Number::Seed(draw), Number::Offset(draw), Number::Replay]);
        let word = self.add(|graph| graph.draw(index))?;
        let node = match op.distribution {
            Distribution::Bernoulli(probability) => self.flag(word, probability, dtype)?,
            _ => self.unit(word, dtype)?,
        };
        self.require_dtype(node, &op.out)?;
        let at = self.define(&op.out, node, frame, &[])?;
        self.count(at);
        Ok(())
    }

    /// The index of an element in the row-major tensor.
    fn place_in(&mut self, tensor: &TensorIr, frame: &Frame) -> Result<Value> {
        let mut place: Option<Value> = None;
        for (dim, group) in frame.groups().iter().enumerate().filter(|(_, group)| !group.is_none()) {
            let here = self.coordinate(*group)?;
            let extent = |trace: &mut Trace| trace.number(Number::Extent(tensor.id, dim as u8), DType::I64);
            place = Some(self.merged(place, here, extent)?);
        }
        place.map_or_else(|| self.whole_number(0), Ok)
    }

    /// 1 with the given probability, else 0.
    fn flag(&mut self, word: Value, probability: f64, dtype: DType) -> Result<Value> {
        let threshold = Scalar::Uint((probability * WORDS).round() as u64);
        let (word, threshold) = (self.converted(word, DType::U64)?, self.constant(threshold, DType::U64)?);
        let is_below = self.test_two(Compare::Lt, word, threshold)?;
        self.converted(is_below, dtype)
    }

    /// A number in [0, 1). One that a 16-bit type would round up to 1 becomes 0.
    fn unit(&mut self, word: Value, dtype: DType) -> Result<Value> {
        let shift = self.constant(Scalar::Uint(8), DType::U32)?;
        let top = self.two(Binary::Shr, word, shift)?;
        let (top, unit) = (self.converted(top, DType::F32)?, self.constant(Scalar::Float(UNIT), DType::F32)?);
        let exact = self.two(Binary::Mul, top, unit)?;
        if dtype == DType::F32 {
            return Ok(exact);
        }
        let value = self.converted(exact, dtype)?;
        let [zero, one] = [0.0, 1.0].map(|value| self.constant(Scalar::Float(value), dtype));
        let is_below = self.test_two(Compare::Lt, value, one?)?;
        self.choose(is_below, value, zero?)
    }
}
