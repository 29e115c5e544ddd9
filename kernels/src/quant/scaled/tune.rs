//! Products of codes for tuning: their operands, and what results are held to.

use rocfire_hal::vendor::Scaling;
use rocfire_hal::{DType, Device, Tensor};

use super::{CodedRows, CodedWeight, OP, ScaledEnd, code_product, multiply};
use crate::Result;
use crate::family::shape;
use crate::gemm::tune::{CHECKED, Measured, ROTATION_BYTES, SETS_MOST, element};
use crate::quant::activations::{Granularity, MxRounding, RowCodes, quantise_activations};
use crate::quant::dequantise::dequantise;
use crate::quant::format::{CodeLayout, Scales};
use crate::random::{Seed, normal};
use crate::tuning::{Candidate, Codes, Shape};

/// Codes and scales of A and B and the result of a shape, several sets of them, made of normal values.
pub(crate) struct CodedOperands {
    sets: Vec<[Tensor; 5]>,
    shape: Shape,
    codes: Codes,
}

/// What is coded so; no product is tuned that has no scales.
fn granularity(scaling: Scaling) -> Granularity {
    match scaling {
        Scaling::None | Scaling::Tensor => Granularity::Tensor,
        Scaling::Line => Granularity::Token,
        Scaling::Run128 => Granularity::Group(128),
        Scaling::Block128 => Granularity::Block(128),
        Scaling::Mx32 => Granularity::Mx(MxRounding::Up),
    }
}

/// A side as a launcher takes it.
fn rows<'t>(codes: Codes, side: usize, shape: [usize; 2], [made, scales]: [&'t Tensor; 2]) -> CodedRows<'t> {
    let granularity = granularity(codes.scaling[side]);
    CodedRows {
        format: codes.formats[side],
        codes: made.view(),
        scales: scales.view(),
        kind: granularity.kind(),
        block: granularity.block(shape),
    }
}

impl CodedOperands {
    /// Operands that take so many bytes at most.
    ///
    /// # Errors
    /// `Shape` for formats that there is no product of, more than one product, and operands beyond the limit; the device's own.
    pub fn new(device: &Device, wanted: Shape, codes: Codes, memory_bytes: usize) -> Result<CodedOperands> {
        let ([m, n, k], formats) = (wanted.size, codes.formats);
        if code_product(device.arch(), formats[0], formats[1]).is_none() || wanted.batches != 1 {
            return Err(shape("tune", "shape", "one product of codes of 8 or 4 bits", format!("{wanted:?}")));
        }
        let coded = |side: usize, rows: usize| rows * k * formats[side].bits() / 8;
        let result = m * n * wanted.output.size_bytes();
        let bytes = coded(0, m) + coded(1, n) + result;
        // What is coded is there once, in 16 bits; scales are a part of that.
        let first = bytes + 2 * k * m.max(n) * DType::BF16.size_bytes();
        if first > memory_bytes {
            return Err(shape("tune", "memory", format!("at least {first} bytes for the operands"), memory_bytes));
        }
        let sets = (ROTATION_BYTES.min(memory_bytes - first) / bytes.max(1)).clamp(1, SETS_MOST);
        let stream = device.stream();
        let side = |side: usize, rows: usize, seed: u64| -> Result<[Tensor; 2]> {
            let (format, granularity) = (formats[side], granularity(codes.scaling[side]));
            let mut x = Tensor::empty(device, &[rows, k], DType::BF16)?;
            normal(stream, Seed { seed, offset: 0 }, 0.0, 1.0, x.view_mut())?;
            let mut made = Tensor::empty(device, &[rows, (k * format.bits()).div_ceil(8)], DType::U8)?;
            let mut scales = Tensor::empty(device, &granularity.scales_shape([rows, k]), granularity.kind().dtype())?;
            let to = RowCodes { format, granularity, codes: made.view_mut(), scales: scales.view_mut() };
            quantise_activations(stream, x.view(), None, to)?;
            Ok([made, scales])
        };
        let set = |number: u64| -> Result<[Tensor; 5]> {
            let ([a, a_scales], [b, b_scales]) = (side(0, m, 2 * number)?, side(1, n, 2 * number + 1)?);
            Ok([a, a_scales, b, b_scales, Tensor::empty(device, &[m, n], wanted.output)?])
        };
        let sets = (0..sets as u64).map(set).collect::<Result<_>>()?;
        Ok(CodedOperands { sets, shape: wanted, codes })
    }

    /// The numbers that a side's codes stand for, row by row.
    fn numbers(&self, side: usize) -> Result<Vec<u8>> {
        let [m, n, k] = self.shape.size;
        let (rows, format) = ([m, n][side], self.codes.formats[side]);
        let granularity = granularity(self.codes.scaling[side]);
        let (codes, scales) = (&self.sets[0][2 * side], &self.sets[0][2 * side + 1]);
        let mut to = Tensor::empty(codes.device(), &[rows, k], DType::F32)?;
        let block = granularity.block([rows, k]);
        let scales = Scales { view: scales.view(), kind: granularity.kind(), block: &block, global: None };
        let layout = CodeLayout::of_rows(format, k);
        dequantise(codes.device().stream(), codes.view(), &layout, Some(&scales), to.view_mut())?;
        Ok(to.to_bytes()?)
    }

    /// The largest share of a sum of squares that errors' squares may have: that of the type's rounding, times 16, and for f32 a sixth
    /// of K more for the sums, as the cases of the tests have it of our own kernel.
    fn allowed(&self) -> f64 {
        let (bits, terms) = match self.shape.output {
            DType::F16 => (11, 0),
            DType::BF16 => (8, 0),
            _ => (24, self.shape.size[2]),
        };
        (16.0 + terms as f64 / 6.0) * 0.25_f64.powi(bits)
    }
}

impl Measured for CodedOperands {
    fn launch(&mut self, device: &Device, number: usize, candidate: Option<Candidate>) -> Result<()> {
        let count = self.sets.len();
        let ([m, n, k], codes) = (self.shape.size, self.codes);
        let [a, a_scales, b, b_scales, c] = &mut self.sets[number % count];
        let (a, b) = (rows(codes, 0, [m, k], [a, a_scales]), rows(codes, 1, [n, k], [b, b_scales]));
        multiply(device.stream(), &a, &CodedWeight::Rows(b), &ScaledEnd::default(), c.view_mut(), candidate)
    }

    fn result(&mut self, device: &Device, candidate: Candidate) -> Result<Vec<u8>> {
        let c = &self.sets[0][4];
        device.stream().fill(c.buffer(), 0, 0xff, c.buffer().bytes())?;
        self.launch(device, 0, Some(candidate))?;
        Ok(self.sets[0][4].to_bytes()?)
    }

    fn check(&self, result: &[u8]) -> std::result::Result<(), String> {
        let [m, n, k] = self.shape.size;
        let [a, b] = [self.numbers(0), self.numbers(1)];
        let (a, b) = (a.map_err(|error| error.to_string())?, b.map_err(|error| error.to_string())?);
        let (mut off, mut size) = (0.0, 0.0);
        for place in (0..CHECKED).map(|part| (m * n - 1) * part / (CHECKED - 1)) {
            let (row, col) = (place / n, place % n);
            let term =
                |depth: usize| element(&a, DType::F32, row * k + depth) * element(&b, DType::F32, col * k + depth);
            let expected: f64 = (0..k).map(term).sum();
            off += (element(result, self.shape.output, place) - expected).powi(2);
            size += expected * expected;
        }
        let allowed = self.allowed() * size;
        if off.is_nan() || off > allowed {
            return Err(format!(
                "{OP}: errors of {CHECKED} elements have squares of {off:e} in all, allowed {allowed:e}"
            ));
        }
        Ok(())
    }

    /// Row by row: twice as far from each other, which is four times the square, as either may be from what is right.
    fn is_close(&self, got: &[u8], reference: &[u8]) -> bool {
        let (row_bytes, output) = (self.shape.size[1] * self.shape.output.size_bytes(), self.shape.output);
        got.chunks_exact(row_bytes).zip(reference.chunks_exact(row_bytes)).all(|(got, reference)| {
            let (mut off, mut size) = (0.0, 0.0);
            for at in 0..self.shape.size[1] {
                let (got, expected) = (element(got, output, at), element(reference, output, at));
                off += (got - expected).powi(2);
                size += expected * expected;
            }
            off <= 4.0 * self.allowed() * size
        })
    }
}
