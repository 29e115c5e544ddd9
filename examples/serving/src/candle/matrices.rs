//! Matrices of linear layers and of experts: floats, or codes in blocks as DeepSeek-V3's checkpoints have them.

use candle_core::{DType, Device, Result, Tensor};
use rocfire_candle::{
    Activation, CodedMatrices, Format, GroupedEpilogue, MatrixCoding, ScaleKind, experts, experts_coded, gated_mlp,
    grouped_matmul_coded,
};

use super::Source;
use super::batch::Batch;
use crate::weights::BLOCK;

/// Codes and scales of matrices that lie as `[outputs, inputs]`.
const BLOCKS: MatrixCoding =
    MatrixCoding { format: Format::E4M3, block: [BLOCK, BLOCK], kind: ScaleKind::F32, is_transposed: true };

/// How a model's matrices lie in its checkpoint. Those of the embedding, the router and the head are floats anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// f32.
    Floats,
    /// E4M3 with a scale for each block of 128 x 128.
    Blocks,
}

/// `x · w`.
#[derive(Debug)]
pub(crate) enum Linear {
    /// `[inputs, outputs]`.
    Floats(Tensor),
    /// Of one matrix.
    Coded(CodedMatrices),
}

impl Linear {
    pub fn new(source: &Source, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Linear> {
        Ok(match source.stored {
            Stored::Floats => Linear::Floats(source.matrix(name, &[inputs, outputs])?),
            Stored::Blocks => Linear::Coded(coded(source, name, [1, inputs, outputs])?),
        })
    }

    /// The outputs of several beside each other.
    ///
    /// # Errors
    /// Codes in blocks that would not lie in those of the whole.
    pub fn beside(parts: [Linear; 3]) -> Result<Linear> {
        let (mut floats, mut codes, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            match part {
                Linear::Floats(weight) => floats.push(weight),
                Linear::Coded(weight) => {
                    let outputs = weight.codes.dim(1)?;
                    if !outputs.is_multiple_of(BLOCK) {
                        candle_core::bail!("outputs beside others must be whole blocks of {BLOCK}, got {outputs}");
                    }
                    codes.push(weight.codes);
                    scales.push(weight.scales);
                }
            }
        }
        if codes.is_empty() {
            return Ok(Linear::Floats(Tensor::cat(&floats, 1)?));
        }
        let (codes, scales) = (Tensor::cat(&codes, 1)?, Tensor::cat(&scales, 1)?);
        Ok(Linear::Coded(CodedMatrices::from_codes(codes, scales, BLOCKS)))
    }

    /// `[rows, inputs]` to `[rows, outputs]`. Codes are numbers exactly, and no row's bits depend on how many rows there are.
    pub fn forward(&self, x: &Tensor, batch: &Batch) -> Result<Tensor> {
        match self {
            Linear::Floats(weight) => x.matmul(weight),
            Linear::Coded(weight) => grouped_matmul_coded(x, weight, &batch.whole, GroupedEpilogue::None, None),
        }
    }
}

/// A gated block: `down(silu(gate(x)) · up(x))`.
#[derive(Debug)]
pub(crate) enum Gated {
    /// As [`gated_mlp`] takes them.
    Floats([Tensor; 2]),
    /// Gate, up and down, of one matrix each.
    Coded([CodedMatrices; 3]),
}

impl Gated {
    pub fn new(source: &Source, name: &str, [width, hidden]: [usize; 2]) -> Result<Gated> {
        if source.stored == Stored::Blocks {
            return Ok(Gated::Coded(coded_gated(source, name, [1, width, hidden])?));
        }
        let of = |part: &str| source.matrix(&format!("{name}.{part}"), &[width, hidden]);
        let gate_up = Tensor::cat(&[of("gate")?, of("up")?], 1)?.t()?.contiguous()?;
        let down = source.matrix(&format!("{name}.down"), &[hidden, width])?.t()?.contiguous()?;
        Ok(Gated::Floats([gate_up, down]))
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, batch: &Batch) -> Result<Tensor> {
        let [gate, up, down] = match self {
            Gated::Floats([gate_up, down]) => return gated_mlp(x, gate_up, down, Activation::Silu),
            Gated::Coded(matrices) => matrices,
        };
        let product = |x: &Tensor, weight: &CodedMatrices, epilogue: GroupedEpilogue, factor: Option<&Tensor>| {
            grouped_matmul_coded(x, weight, &batch.whole, epilogue, factor)
        };
        let up = product(x, up, GroupedEpilogue::None, None)?;
        let hidden = product(x, gate, GroupedEpilogue::Gate(Activation::Silu), Some(&up))?;
        product(&hidden, down, GroupedEpilogue::None, None)
    }
}

/// Gate, up and down of experts.
#[derive(Debug)]
pub(crate) enum Mixed {
    Floats([Tensor; 3]),
    Coded([CodedMatrices; 3]),
}

impl Mixed {
    /// Of `[experts, width, hidden]`.
    pub fn new(source: &Source, name: &str, [experts, width, hidden]: [usize; 3]) -> Result<Mixed> {
        if source.stored == Stored::Blocks {
            return Ok(Mixed::Coded(coded_gated(source, name, [experts, width, hidden])?));
        }
        let of = |part: &str, shape: [usize; 3]| source.matrix(&format!("{name}.{part}"), &shape);
        let inward = [experts, width, hidden];
        Ok(Mixed::Floats([of("gate", inward)?, of("up", inward)?, of("down", [experts, hidden, width])?]))
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, ids: &Tensor, shares: &Tensor) -> Result<Tensor> {
        match self {
            Mixed::Floats(matrices) => experts(x, matrices.each_ref(), ids, shares, Activation::Silu),
            Mixed::Coded(matrices) => experts_coded(x, matrices.each_ref(), ids, shares, Activation::Silu),
        }
    }
}

fn coded_gated(source: &Source, name: &str, [count, width, hidden]: [usize; 3]) -> Result<[CodedMatrices; 3]> {
    let of = |part: &str, extents: [usize; 3]| coded(source, &format!("{name}.{part}"), extents);
    let inward = [count, width, hidden];
    Ok([of("gate", inward)?, of("up", inward)?, of("down", [count, hidden, width])?])
}

/// `[count, inputs, outputs]` as it lies in a checkpoint.
fn coded(source: &Source, name: &str, extents: [usize; 3]) -> Result<CodedMatrices> {
    let (blocks, [of_codes, of_scales]) = (source.weights.blocks(name, extents), BLOCKS.shapes(extents));
    let codes = Tensor::from_vec(blocks.codes, &of_codes, &source.device)?;
    let scales = Tensor::from_vec(blocks.scales, &of_scales, &source.device)?;
    Ok(CodedMatrices::from_codes(codes, scales, BLOCKS))
}

/// The numbers of `[count, inputs, outputs]`: floats as they are, codes by Candle's own E4M3 on the CPU, times their scales.
pub(crate) fn numbers(source: &Source, name: &str, extents: [usize; 3]) -> Result<Tensor> {
    let [count, inputs, outputs] = extents;
    if source.stored == Stored::Floats {
        return source.matrix(name, &extents);
    }
    let blocks = source.weights.blocks(name, extents);
    let codes = Tensor::from_raw_buffer(&blocks.codes, DType::F8E4M3, &[count, outputs, inputs], &Device::Cpu)?;
    let [_, of_scales] = BLOCKS.shapes(extents);
    let scales = Tensor::from_vec(blocks.scales, &of_scales, &Device::Cpu)?;
    let block = |extent: usize| Tensor::from_iter((0..extent).map(|at| (at / BLOCK) as u32), &Device::Cpu);
    let scales = scales.index_select(&block(outputs)?, 1)?.index_select(&block(inputs)?, 2)?;
    (codes.to_dtype(DType::F32)? * scales)?.transpose(1, 2)?.contiguous()?.to_device(&source.device)
}
