//! A trial of a vendor's library before products of codes go there: once for a device, formats, a way of scaling, a type of result, what
//! follows that the library does, and whether blocks are whole.
//!
//! What a library makes of scales is said by where they lie and by numbers that its version may not know. So a small product is
//! multiplied first by the same way, one whose sums are exact in any order, and compared with what it should be: with an end also that a NaN
//! stays one and that codes saturate. A library that gives
//! anything else is not asked again that way, and our kernel serves. A trial waits for the device; while a graph is recorded, which
//! cannot, products whose way has not been tried are ours.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rocfire_hal::vendor::Scaling;
use rocfire_hal::{DType, DeviceId, Level, Stream, Tensor};

use super::Side;
use super::end::{EndActivation, EndCodes, EndKey, ScaledEnd};
use super::library::{Ending, Job, Taken, Way};
use crate::Result;
use crate::quant::format::{Format, ScaleKind};

type Key = (DeviceId, [Format; 2], Way, EndKey, DType, [usize; 3]);

/// The scale of a trial's codes: some results are beyond the largest.
fn scale(format: Format) -> f32 {
    (112.0 / format.largest()).min(0.25)
}
/// How far from right functions of x may be, in parts of x: cards have a hyperbolic tangent of 11 bits (PTX ISA, `tanh.approx.f32`).
const CURVED: f64 = 1.0 / 2048.0;

/// M, N, K of a trial for a product: two squares of 128 columns and three runs of 128 along K, the last of either whole where the
/// product's is.
fn size([_, n, k]: [usize; 3]) -> [usize; 3] {
    let last = |extent: usize, part: usize| if extent.is_multiple_of(128) { 128 } else { part };
    [32, 128 + last(n, 32), 256 + last(k, 16)]
}

/// Whether the library does a way of the job as it should.
///
/// # Errors
/// Out of memory, and failures of earlier launches, which a trial waits for.
pub(super) fn is_passed(job: &Job<'_, '_>, way: Way, ending: Ending, output: DType) -> Result<bool> {
    static TRIED: Mutex<Option<HashMap<Key, bool>>> = Mutex::new(None);
    let tried = || TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let (stream, formats) = (job.stream, [job.a.format, job.b.format]);
    // What a launch of ours ends is sums, or results in f32.
    let (end, output) = match ending {
        Ending::Library(_) => (job.end.key(), output),
        Ending::Behind => (EndKey::default(), DType::F32),
    };
    let key = (stream.device().id(), formats, way, end, output, size(job.size));
    if let Some(&known) = tried().as_ref().and_then(|tried| tried.get(&key)) {
        return Ok(known);
    }
    if stream.is_capturing() {
        return Ok(false);
    }
    let trial = Trial::new(stream, formats, way, end, size(job.size))?;
    let outcome = trial.by_library(stream, way, output)?;
    if let Err(why) = &outcome {
        let device = stream.device();
        let library = device.vendor_gemm().unwrap_or("the vendor's library").to_owned();
        device.report(
            Level::Warn,
            format_args!("{library} is not used for products of {formats:?}, {way:?}, {end:?} into {output}: {why}"),
        );
    }
    tried().get_or_insert_default().insert(key, outcome.is_ok());
    Ok(outcome.is_ok())
}

/// A product whose sums are exact.
struct Trial {
    size: [usize; 3],
    formats: [Format; 2],
    scaling: [Scaling; 2],
    /// Codes and scales of A and B.
    codes: [Tensor; 2],
    scales: [Tensor; 2],
    /// What follows, its bias, and the scale of its codes.
    end: EndKey,
    bias: Option<Tensor>,
    scale: Tensor,
}

/// The bias of a column.
fn bias(col: usize) -> f64 {
    (col % 13) as f64 * 0.5 - 3.0
}

/// A code that is no number, if there is one.
fn nan_code(format: Format) -> Option<u8> {
    match format {
        Format::E4M3 | Format::E5M2 => Some(0x7f),
        Format::E4M3Fnuz | Format::E5M2Fnuz => Some(0x80),
        Format::E2M1 | Format::I8 | Format::I4 | Format::I2 => None,
    }
}

/// What a code of 8 bits stands for.
fn decoded(format: Format, code: u8) -> f64 {
    let (fraction_bits, exponent_bias, largest) = match format {
        Format::E4M3 => (3, 7, 0x7e),
        Format::E5M2 => (2, 15, 0x7b),
        Format::E4M3Fnuz => (3, 8, 0x7f),
        Format::E5M2Fnuz => (2, 16, 0x7f),
        Format::I8 | Format::I4 | Format::I2 | Format::E2M1 => return f64::from(code as i8),
    };
    let low = code & 0x7f;
    if low > largest || nan_code(format) == Some(code) {
        // Infinities too: no result is one.
        return f64::NAN;
    }
    let (exponent, fraction) = (i32::from(low >> fraction_bits), f64::from(low & ((1 << fraction_bits) - 1)));
    let whole = f64::from(1 << fraction_bits);
    let size = match exponent {
        0 => fraction / whole * 2f64.powi(1 - exponent_bias),
        _ => (1.0 + fraction / whole) * 2f64.powi(exponent - exponent_bias),
    };
    if code & 0x80 != 0 { -size } else { size }
}

/// What becomes of a sum with its bias, and by how much it may be off.
fn activated(activation: EndActivation, x: f64) -> (f64, f64) {
    match activation {
        EndActivation::None => (x, 0.0),
        EndActivation::Relu => (if x < 0.0 { 0.0 } else { x }, 0.0),
        EndActivation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            (x / 2.0 * (1.0 + inner.tanh()), x.abs() * CURVED)
        }
        EndActivation::Silu => (x / (1.0 + (-x).exp()), x.abs() * CURVED),
    }
}

/// The number of a side's code: small and whole.
fn number(side: usize, line: usize, depth: usize) -> i32 {
    let mixed = (line * 0x9e37 + depth * 0x85eb + line * depth + side * 0x27d5) >> 4;
    (mixed % 7) as i32 - 3
}

/// The code of a number from -3 to 3.
fn code(format: Format, number: i32) -> u8 {
    let sizes = match format {
        Format::I8 | Format::I4 | Format::I2 => return number as u8 & (u8::MAX >> (8 - format.bits())),
        Format::E4M3 => [0, 0x38, 0x40, 0x44],
        Format::E5M2 => [0, 0x3c, 0x40, 0x42],
        Format::E4M3Fnuz => [0, 0x40, 0x48, 0x4c],
        Format::E5M2Fnuz => [0, 0x40, 0x44, 0x46],
        Format::E2M1 => [0, 2, 4, 5],
    };
    let sign = if number < 0 { 1 << (format.bits() - 1) } else { 0 };
    sizes[number.unsigned_abs() as usize] | sign
}

/// The exponent of a block's scale.
fn exponent(side: usize, [line, run]: [usize; 2]) -> i32 {
    -(((line * 3 + run * 5 + side) % 4) as i32)
}

impl Trial {
    fn new(stream: &Stream, formats: [Format; 2], way: Way, end: EndKey, size: [usize; 3]) -> Result<Trial> {
        let scaling = if let Way::Scaled(scaling) = way { scaling } else { [Scaling::Line; 2] };
        let [m, n, k] = size;
        let device = stream.device();
        let codes = |side: usize, lines: usize| {
            let none = nan_code(formats[side]).filter(|_| !end.is_none() && side == 0);
            // The last row of A is none.
            let of = |line: usize, depth: usize| match none {
                Some(code) if line == lines - 1 && depth == 0 => code,
                _ => code(formats[side], number(side, line, depth)),
            };
            let bytes: Vec<u8> = match formats[side].bits() {
                8 => (0..lines * k).map(|at| of(at / k, at % k)).collect(),
                _ => (0..lines * k / 2)
                    .map(|at| (2 * at / k, 2 * at % k))
                    .map(|(l, d)| of(l, d) | of(l, d + 1) << 4)
                    .collect(),
            };
            Tensor::from_bytes(&device, &[lines, bytes.len() / lines], DType::U8, &bytes)
        };
        let scales = |side: usize, lines: usize| {
            let [down, along] = block(scaling[side], [lines, k]);
            let grid = [lines.div_ceil(down), k.div_ceil(along)];
            let places = (0..grid[0] * grid[1]).map(|at| exponent(side, [at / grid[1], at % grid[1]]));
            match scaling[side] {
                Scaling::Mx32 => {
                    let bytes: Vec<u8> = places.map(|exponent| (127 + exponent) as u8).collect();
                    Tensor::from_bytes(&device, &grid, DType::U8, &bytes)
                }
                _ => {
                    let bytes: Vec<u8> = places.flat_map(|exponent| 2f32.powi(exponent).to_le_bytes()).collect();
                    Tensor::from_bytes(&device, &grid, DType::F32, &bytes)
                }
            }
        };
        let codes = [codes(0, m)?, codes(1, n)?];
        let biases = |dtype: DType| {
            let bytes: Vec<u8> = (0..n).flat_map(|col| half::bf16::from_f64(bias(col)).to_le_bytes()).collect();
            let made = Tensor::from_bytes(&device, &[n], DType::BF16, &bytes)?;
            crate::family::cast(stream, made.view(), dtype)
        };
        let bias = end.bias.map(biases).transpose()?;
        let scale = Tensor::from_bytes(&device, &[1], DType::F32, &end.code.map_or(1.0, scale).to_le_bytes())?;
        Ok(Trial { size, formats, scaling, codes, scales: [scales(0, m)?, scales(1, n)?], end, bias, scale })
    }

    /// A and B, as a launcher has them when it has checked them.
    fn sides(&self) -> [Side<'_>; 2] {
        let [m, n, k] = self.size;
        [(0, m), (1, n)].map(|(side, rows)| Side {
            format: self.formats[side],
            codes: self.codes[side].view(),
            rows,
            k,
            row_bytes: self.codes[side].shape()[1] as i64,
            laid_out: false,
            scales: self.scales[side].view(),
            kind: if self.scaling[side] == Scaling::Mx32 { ScaleKind::E8M0 } else { ScaleKind::F32 },
            block: block(self.scaling[side], [rows, k]),
        })
    }

    fn end(&self) -> ScaledEnd<'_> {
        ScaledEnd {
            bias: self.bias.as_ref().map(Tensor::view),
            activation: self.end.activation,
            codes: self.end.code.map(|format| EndCodes { format, scale: self.scale.view() }),
        }
    }

    /// What is wrong with the library's result, if anything is.
    fn by_library(&self, stream: &Stream, way: Way, output: DType) -> Result<std::result::Result<(), String>> {
        let [a, b] = &self.sides();
        let mut c = Tensor::empty(&stream.device(), &self.size[..2], output)?;
        let job = Job { stream, a, b, size: self.size, end: self.end() };
        let Some(ending) = job.library_end(way, output).map(Ending::Library) else {
            return Ok(Err("it is not asked for this end".to_owned()));
        };
        let Some(plan) = job.plan(way, ending, &c.view(), 0) else {
            return Ok(Err("it plans no small product".to_owned()));
        };
        if let Err(error) = job.run(&Taken { way, ending, plan }, c.view_mut()) {
            return Ok(Err(error.to_string()));
        }
        Ok(self.check(output, &c.to_bytes()?))
    }

    /// Compares a result with what the codes and scales say, rounded once.
    fn check(&self, output: DType, bytes: &[u8]) -> std::result::Result<(), String> {
        let [m, n, k] = self.size;
        let blocks = [block(self.scaling[0], [m, k]), block(self.scaling[1], [n, k])];
        let factor = |side: usize, line: usize, depth: usize| {
            let [down, along] = blocks[side];
            f64::from(number(side, line, depth)) * 2f64.powi(exponent(side, [line / down, depth / along]))
        };
        let lines =
            |side: usize, lines: usize| -> Vec<f64> { (0..lines * k).map(|at| factor(side, at / k, at % k)).collect() };
        let (a, b) = (lines(0, m), lines(1, n));
        // Half of a unit in the last place.
        let rounding = match output {
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            _ => 0.0,
        };
        let has_nan = !self.end.is_none() && nan_code(self.formats[0]).is_some();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let pairs = a[row * k..][..k].iter().zip(&b[col * k..][..k]);
            let sum: f64 = pairs.map(|(a, b)| a * b).sum();
            let with_bias = if self.bias.is_some() { sum + bias(col) } else { sum };
            let x = if has_nan && row == m - 1 { f64::NAN } else { with_bias };
            let (value, curved) = activated(self.end.activation, x);
            let at = row * n + col;
            let (got, expected, most) = match self.end.code {
                None => (element(bytes, output, at), value, rounding * value.abs() + curved),
                Some(format) => {
                    let (scale, largest) = (f64::from(scale(format)), f64::from(format.largest()));
                    let value = (value / scale).clamp(-largest, largest);
                    (decoded(format, bytes[at]), value, steps(format, value) + curved / scale)
                }
            };
            let is_right = if expected.is_nan() { got.is_nan() } else { (got - expected).abs() <= most };
            if !is_right {
                return Err(format!("element {row}, {col} of a trial is {got}, not {expected}"));
            }
        }
        Ok(())
    }
}

/// Half a step between codes next to a number.
fn steps(format: Format, value: f64) -> f64 {
    let (fraction_bits, least) = match format {
        Format::E4M3 => (3, -6),
        Format::E4M3Fnuz => (3, -7),
        Format::E5M2 => (2, -14),
        Format::E5M2Fnuz => (2, -15),
        Format::I8 | Format::I4 | Format::I2 | Format::E2M1 => return 0.5,
    };
    value.abs().max(2f64.powi(least)) * 2f64.powi(-1 - fraction_bits)
}

/// Lines and depth that share a scale.
fn block(scaling: Scaling, [lines, k]: [usize; 2]) -> [usize; 2] {
    match scaling {
        Scaling::None | Scaling::Tensor => [lines, k],
        Scaling::Line => [1, k],
        Scaling::Run128 => [1, 128],
        Scaling::Block128 => [128, 128],
        Scaling::Mx32 => [1, 32],
    }
}

fn element(bytes: &[u8], dtype: DType, at: usize) -> f64 {
    let bytes = &bytes[at * dtype.size_bytes()..][..dtype.size_bytes()];
    match dtype {
        DType::F16 => half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        DType::BF16 => half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        _ => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
    }
}

#[cfg(test)]
mod tests;
