//! Products of quantised weights with rows of activations. Up to as many rows as a mat-vec takes go to one: it reads the weights
//! once, as codes, and its sums of codes are exact. For more rows, weights and activations become f16, and the matrix units multiply
//! them with f32 sums. Each row of activations is divided by its greatest scale, so that it fits f16, and the result is multiplied
//! by that again. Up to 32 rows read the blocks as they lie.
//!
//! Of more rows weights are decoded [`CHUNK_BYTES`] at a time, so that the memory this needs does not grow with the matrix.

use cudarc::driver::DriverError;
use cudarc::rocfire::{Node, Turn};
use rocfire_hal::{DType, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::quant::{GgufMatrices, gguf_dequantise, gguf_matmul};

use crate::family::quantized::{self, Gguf, MAT_VEC_ROWS};
use crate::geometry::groups;
use crate::run::{self, Args, Use};

pub(crate) type Result = std::result::Result<(), DriverError>;

/// Rows up to which blocks are multiplied as they lie. On an H200, 4096 x 14336 in Q4_K: 16 rows 25 us, 32 rows 39, of which decoding alone takes
/// as much and the product of what it wrote 32 more.
const FEW_ROWS: usize = 32;

/// Bytes of decoded weights that exist at a time: few enough for the caches of large cards, enough to fill their compute units.
const CHUNK_BYTES: usize = 64 << 20;

/// A product: `out[row, m] = weights[m, :] · x[row, :]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub gguf: Gguf,
    /// Lines of weights, u8 `[outputs, bytes of a line]`, one behind the other.
    pub weights: View<'a>,
    /// Address of the rows of int8 activations, laid out as `coded_rows.h` says.
    pub x: u64,
    pub columns: usize,
    pub outputs: usize,
    pub rows: usize,
    /// Codes of a row of activations, with those behind `columns`.
    pub padded: usize,
}

/// Runs Candle's `mul_mat_TYPE`. Its arguments are the addresses of weights, activations and result, then columns, outputs, rows,
/// codes of a row of activations, and the row stride of the result.
pub(crate) fn by_name(gguf: Gguf, node: &Node, stream: &Stream, turn: &Turn) -> Result {
    let size = |slot: usize| node.int(slot) as usize;
    let (outputs, rows, padded) = (size(4), size(5), size(6));
    // Columns behind the last whole block are left out, as in mat-vecs.
    let columns = size(3) / gguf.size * gguf.size;
    let weights = node.tensor(0, &[outputs, columns / gguf.size * gguf.bytes], DType::U8, turn)?;
    let x = node.tensor(1, &[rows * padded / 32 * 36], DType::U8, turn)?;
    let mut out = node.tensor(2, &[rows, size(7)], DType::F32, turn)?;
    let (weights, x) = (weights.view(), x.view().device_address());
    let product = Product { gguf, weights, x, columns, outputs, rows, padded };
    product.run(stream, &mut out)
}

impl Product<'_> {
    /// Launches the product; `out` is `[rows, at least outputs]`, dense.
    pub(crate) fn run(&self, stream: &Stream, out: &mut Tensor) -> Result {
        self.run_by(stream, out, CHUNK_BYTES)
    }

    /// The same with at most `chunk_bytes` bytes of decoded weights at a time, but at least two lines of them.
    fn run_by(&self, stream: &Stream, out: &mut Tensor, chunk_bytes: usize) -> Result {
        if self.rows == 0 || self.outputs == 0 {
            return Ok(());
        }
        if self.columns == 0 {
            let bytes = (out.layout().len() * out.dtype().size_bytes()) as u64;
            let first = out.view().device_address() - out.buffer().device_address();
            return Ok(stream.fill(out.buffer(), first, 0, bytes)?);
        }
        if self.rows <= MAT_VEC_ROWS {
            return self.mat_vec(stream, out);
        }
        let device = stream.device();
        let x = Tensor::empty(&device, &[self.rows, self.columns], DType::F16)?;
        let divisors = Tensor::empty(&device, &[self.rows], DType::F32)?;
        self.codes_to_f16(stream, &x, &divisors)?;
        if self.rows <= FEW_ROWS {
            let columns = out.layout().slice(1, 0, self.outputs, 1)?;
            let c = out.view_mut().with_layout(columns)?;
            gguf_matmul(stream, x.view(), &self.lines(0, self.outputs)?, c)?;
            return self.scale_rows(stream, out, &divisors);
        }
        // Two lines of any type are whole words, at which the next chunk begins.
        let lines = (chunk_bytes / (2 * self.columns)).max(1).next_multiple_of(2).min(self.outputs);
        let mut weights = Tensor::empty(&device, &[lines, self.columns], DType::F16)?;
        for first in (0..self.outputs).step_by(lines) {
            let lines = lines.min(self.outputs - first);
            self.decode(stream, first, lines, &mut weights)?;
            let transposed = Layout::strided(&[self.columns, lines], &[1, self.columns as i64], 0)?;
            let chunk = out.layout().slice(1, first, first + lines, 1)?;
            let (b, c) = (View::new(weights.buffer(), transposed, DType::F16)?, out.view_mut().with_layout(chunk)?);
            gemm(stream, x.view(), b, c, &GemmParams::default())?;
        }
        self.scale_rows(stream, out, &divisors)
    }

    fn mat_vec(&self, stream: &Stream, out: &Tensor) -> Result {
        let key = (Use::MatVec, self.gguf.name, "float", self.rows);
        let source = run::source(key, || quantized::mat_vec_of(self.gguf, "float", &self.rows.to_string()));
        let args =
            Args::new().word(self.weights.device_address()).word(self.x).word(address(out)).int(int(self.columns)?);
        let stride = out.layout().strides()[0] as usize;
        let args = args.int(int(self.outputs)?).int(int(self.padded)?).int(int(stride)?);
        let config = quantized::mat_vec_grid(self.outputs as u64, self.rows);
        // SAFETY:
        // - the arguments are those of mat_vec.hip, kind 0; the caller's weights and codes are as long as they say, and `out` has
        //   `rows` rows of `stride` elements (1).
        // - the output is named (2).
        unsafe { run::launch(stream, key, source, config, &args, &[out.buffer()]) }
    }

    /// Decodes `lines` lines from line `first` on to the first of `to`.
    fn decode(&self, stream: &Stream, first: usize, lines: usize, to: &mut Tensor) -> Result {
        let lies = Layout::contiguous(&[1, lines, self.columns])?;
        Ok(gguf_dequantise(stream, &self.lines(first, lines)?, to.view_mut().with_layout(lies)?)?)
    }

    /// So many lines from line `first` on, as a matrix.
    fn lines(&self, first: usize, lines: usize) -> std::result::Result<GgufMatrices<'_>, DriverError> {
        let line_bytes = self.weights.shape()[1];
        let blocks = self.weights.layout().slice(0, first, first + lines, 1)?.reshape(&[1, lines, line_bytes]);
        let blocks = self.weights.with_layout(blocks.expect("lines lie one behind the other"))?;
        Ok(GgufMatrices { blocks, kind: self.gguf.kind })
    }

    /// Decodes the activations to `x`, each row divided by its number in `divisors`.
    fn codes_to_f16(&self, stream: &Stream, x: &Tensor, divisors: &Tensor) -> Result {
        let key = (Use::CodesToF16, "", "", 0);
        let source = run::source(key, quantized::codes_to_f16);
        let args = Args::new().word(self.x).word(address(x)).word(address(divisors));
        let args = args.int(int(self.columns)?).int(int(self.padded)?);
        let outputs = [x.buffer(), divisors.buffer()];
        // SAFETY:
        // - the arguments are those of codes_to_f16.hip; `x` and `divisors` have `rows` rows, and the caller's codes too (1).
        // - both outputs are named (2).
        unsafe { run::launch(stream, key, source, groups(self.rows as u64, 256), &args, &outputs) }
    }

    /// Multiplies each row of `out` by its factor, in place.
    fn scale_rows(&self, stream: &Stream, out: &Tensor, factors: &Tensor) -> Result {
        let key = (Use::ScaleRows, "", "", 0);
        let source = run::source(key, quantized::scale_rows);
        let stride = out.layout().strides()[0];
        let args = Args::new().word(address(out)).word(address(factors)).int(int(self.outputs)?).word(stride as u64);
        // SAFETY:
        // - the arguments are those of scale_rows.hip; `out` has `rows` rows of `stride` elements, `factors` as many (1).
        // - the output is named (2).
        unsafe { run::launch(stream, key, source, groups(self.rows as u64, 256), &args, &[out.buffer()]) }
    }
}

fn address(tensor: &Tensor) -> u64 {
    tensor.view().device_address()
}

/// A size as the 32-bit number that Candle's kernels take.
pub(crate) fn int(size: usize) -> std::result::Result<i32, DriverError> {
    i32::try_from(size).map_err(|_| DriverError::new(format!("{size} does not fit the 32 bits that Candle counts in")))
}

#[cfg(test)]
mod tests {
    use rocfire_hal::{Config, Device, DeviceId};

    use super::*;
    use crate::family::quantized::TYPES;

    #[test]
    fn weights_decoded_in_chunks_give_the_same_product() {
        let device = Device::open(DeviceId::emulated("gfx1100").unwrap(), Config::from_env().unwrap()).unwrap();
        let (columns, outputs, rows, padded) = (64, 7, 33, 512);
        let gguf = TYPES[4];
        // Codes that count up, and scales of one half.
        let block = |n: usize| [0, 0x38].into_iter().chain((0..32).map(move |i| (n * 5 + i) as u8));
        let weights: Vec<u8> = (0..outputs * columns / 32).flat_map(block).collect();
        let codes = |row: usize| (0..padded).map(move |i| if i < columns { (row + i) as u8 } else { 0 });
        let scales = |_| [0, 0x38, 0, 0].repeat(padded / 32);
        let x: Vec<u8> = (0..rows).flat_map(|row| codes(row).chain(scales(row))).collect();
        let upload = |bytes: &[u8]| Tensor::from_bytes(&device, &[bytes.len()], DType::U8, bytes).unwrap();
        let (weights, x) = (upload(&weights), upload(&x));
        let lines = Layout::contiguous(&[outputs, columns / gguf.size * gguf.bytes]).unwrap();
        let weights = weights.view().with_layout(lines).unwrap();
        let product = Product { gguf, weights, x: address(&x), columns, outputs, rows, padded };
        let run = |chunk_bytes: usize| {
            let mut out = Tensor::empty(&device, &[rows, outputs], DType::F32).unwrap();
            product.run_by(device.stream(), &mut out, chunk_bytes).unwrap();
            out.to_bytes().unwrap()
        };
        // Two lines at a time, the last chunk of one; and where there is room for one alone.
        for lines in [2, 1] {
            assert_eq!(run(lines * 2 * columns), run(CHUNK_BYTES));
        }
        let first = f32::from_le_bytes(run(CHUNK_BYTES)[..4].try_into().unwrap());
        let expected: i32 = (0..64i32).map(|i| (i % 32 + 5 * (i / 32)) * i).sum();
        assert!((f64::from(first) - f64::from(expected) / 4.0).abs() <= 1e-3 * f64::from(expected), "{first}");
    }
}
