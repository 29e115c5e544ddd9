//! A mixture of experts for many tokens. The tokens' rows are gathered in the order of the list of experts,
//! a grouped product multiplies them on the matrix units, and its rows are scattered back to the tokens. Quantised weights are
//! decoded by the product itself, or, for many rows of each expert, first to the activations' type, some experts at a time.

use cudarc::driver::DriverError;
use rocfire_hal::{Buffer, DType, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};
use rocfire_kernels::quant::{GgufMatrices, gguf_matmul_grouped};

use crate::family::quantized::{self, Gguf};
use crate::geometry::groups;
use crate::product::{Lines, int};
use crate::run::{self, Args, Use};

/// A buffer from an address inside it on.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub buffer: &'a Buffer,
    pub first: u64,
}

/// The addresses and sizes of one such mixture; `moe_gemm.hip` says what each is.
pub(crate) struct Prefill<'a> {
    /// The type of activations and of dense weights.
    pub dtype: DType,
    /// The name of `dtype` in device code.
    pub device_type: &'static str,
    /// The results' type in device code.
    pub out_type: &'static str,
    pub x: u64,
    /// Dense weights of `dtype`, or blocks of the type `gguf`.
    pub weights: Part<'a>,
    pub gguf: Option<Gguf>,
    pub tokens: u64,
    pub experts: u64,
    /// Address of a factor for each token, or 0 for none. Without factors `top` tokens in turn share a row of `x`.
    pub factors: u64,
    pub out: Part<'a>,
    pub all: usize,
    pub top: usize,
    pub count: usize,
    pub outputs: usize,
    pub columns: usize,
    /// Rows of each expert in the mean from which on weights are decoded before they are multiplied.
    pub decoded_rows: usize,
    /// Bytes of decoded weights that exist at a time; at least one expert is decoded.
    pub chunk_bytes: usize,
}

/// Decoding weights before the product pays from so many rows per expert on: a product decodes them once for each tile of up to 64
/// rows.
pub(crate) const DECODED_ROWS: usize = 256;

/// Sorting tokens by expert pays from so many rows per expert on. It costs a gather and a scatter; without it each row reads the
/// codes again.
pub(crate) const ROWS_LEAST: usize = 4;

impl Prefill<'_> {
    /// Launches all of it on the stream.
    pub(crate) fn run(&self, stream: &Stream) -> Result<(), DriverError> {
        let device = stream.device();
        let rows = Tensor::empty(&device, &[self.count, self.columns], self.dtype)?;
        let starts = Tensor::empty(&device, &[self.all + 1], DType::I32)?;
        let mut products = Tensor::empty(&device, &[self.count, self.outputs], DType::F32)?;
        self.gather(stream, &rows, &starts)?;
        let mut multiply = |weights: &Buffer, at: u64, first: usize, experts: usize| -> Result<(), DriverError> {
            let (outputs, columns) = (self.outputs as i64, self.columns as i64);
            // Weights are [experts, outputs, columns]; the product wants [experts, columns, outputs].
            let shape = [experts, self.columns, self.outputs];
            let layout = Layout::strided(&shape, &[outputs * columns, 1, columns], at as i64)?;
            let weights = View::new(weights, layout, self.dtype)?;
            let bounds = starts.view().with_layout(starts.layout().slice(0, first, first + experts + 1, 1)?)?;
            let by_expert = GemmGroups::Offsets(bounds);
            gemm_grouped(stream, rows.view(), weights, &by_expert, products.view_mut(), &GemmParams::default())?;
            Ok(())
        };
        match self.gguf {
            None => {
                let first = self.weights.first - self.weights.buffer.device_address();
                multiply(self.weights.buffer, first / self.dtype.size_bytes() as u64, 0, self.all)?;
            }
            Some(gguf) if self.count < self.all * self.decoded_rows => {
                let shape = [self.all, self.outputs, self.columns / gguf.size * gguf.bytes];
                let first = (self.weights.first - self.weights.buffer.device_address()) as i64;
                let strides = [(shape[1] * shape[2]) as i64, shape[2] as i64, 1];
                let layout = Layout::strided(&shape, &strides, first)?;
                let blocks = View::new(self.weights.buffer, layout, DType::U8)?;
                let (w, groups) = (GgufMatrices { blocks, kind: gguf.kind }, GemmGroups::Offsets(starts.view()));
                gguf_matmul_grouped(stream, rows.view(), &w, &groups, products.view_mut())?;
            }
            Some(gguf) => {
                let most = (self.chunk_bytes / (self.dtype.size_bytes() * self.outputs * self.columns).max(1))
                    .clamp(1, self.all);
                let decoded = Tensor::empty(&device, &[most, self.outputs, self.columns], self.dtype)?;
                let lines = Lines { gguf, weights: self.weights.first, columns: self.columns, to: self.device_type };
                for first in (0..self.all).step_by(most) {
                    let experts = most.min(self.all - first);
                    lines.decode(stream, first * self.outputs, experts * self.outputs, decoded.buffer())?;
                    multiply(decoded.buffer(), 0, first, experts)?;
                }
            }
        }
        self.scatter(stream, &products)
    }

    /// Copies the tokens' rows to `rows` in the list's order, and notes in `starts` where each expert's begin.
    fn gather(&self, stream: &Stream, rows: &Tensor, starts: &Tensor) -> Result<(), DriverError> {
        let key = (Use::MoeGather, "", self.device_type, 0);
        let source = run::source(key, || quantized::moe_gather(self.device_type));
        let args = Args::new().word(self.x).word(self.tokens).word(self.experts);
        let args = args.word(rows.view().device_address()).word(starts.view().device_address()).int(int(self.all)?);
        let top = if self.factors == 0 { self.top } else { 0 };
        let args = args.int(int(top)?).int(int(self.count)?).int(int(self.columns)?);
        let outputs = [rows.buffer(), starts.buffer()];
        // SAFETY:
        // - the arguments are those of moe_rows.hip, kind 0; the caller looked up x and the lists for these sizes, rows and
        //   starts have what it writes (1).
        // - both outputs are named (2).
        unsafe { run::launch(stream, key, source, groups(self.count as u64, 256), &args, &outputs) }
    }

    /// Writes the rows of `products` to `out` in the order of tokens, times the tokens' factors.
    fn scatter(&self, stream: &Stream, products: &Tensor) -> Result<(), DriverError> {
        let key = (Use::MoeScatter, "", self.out_type, 0);
        let source = run::source(key, || quantized::moe_scatter(self.out_type));
        let args = Args::new().word(products.view().device_address()).word(self.tokens).word(self.experts);
        let args = args.word(self.factors).word(self.out.first);
        let args = args.int(int(self.all)?).int(int(self.count)?).int(int(self.outputs)?);
        // SAFETY:
        // - the arguments are those of moe_rows.hip, kind 1; the caller looked up the lists, the factors and `out` for these
        //   sizes, and the kernel passes over tokens that lie outside (1).
        // - the output is named (2).
        unsafe { run::launch(stream, key, source, groups(self.count as u64, 256), &args, &[self.out.buffer]) }
    }
}

#[cfg(test)]
mod tests {
    use rocfire_hal::{Config, Device, DeviceId};

    use super::*;
    use crate::family::quantized::TYPES;

    #[test]
    fn weights_decoded_some_experts_at_a_time_or_by_tiles_give_the_same_product() {
        let device = Device::open(DeviceId::emulated("gfx1100").unwrap(), Config::from_env().unwrap()).unwrap();
        let (all, outputs, columns, count, gguf) = (5, 7, 64, 11, TYPES[4]);
        // Codes that count, and scales of one half.
        let block = |n: usize| [0, 0x38].into_iter().chain((0..32).map(move |i| (n * 5 + i) as u8));
        let weights: Vec<u8> = (0..all * outputs * columns / 32).flat_map(block).collect();
        let x: Vec<u8> = (0..count * columns).flat_map(|n| [0, 0x30 + (n % 7) as u8]).collect();
        // One expert has no token.
        let experts = [0_u32, 0, 0, 1, 1, 3, 3, 3, 3, 4, 4].map(u32::to_le_bytes).concat();
        let tokens: Vec<u8> = (0..count as u32).rev().flat_map(u32::to_le_bytes).collect();
        let upload = |bytes: &[u8]| Tensor::from_bytes(&device, &[bytes.len()], DType::U8, bytes).unwrap();
        let [weights, x, experts, tokens, factors] =
            [&weights, &x, &experts, &tokens, &[0x3f; 44].to_vec()].map(|b| upload(b));
        let address = |tensor: &Tensor| tensor.view().device_address();
        let run = |decoded_rows: usize, chunk_bytes: usize| {
            let out = Tensor::from_bytes(&device, &[4 * count * outputs], DType::U8, &vec![0xff; 4 * count * outputs])
                .unwrap();
            let part = |tensor: &Tensor| (tensor.buffer().clone(), address(tensor));
            let [(weights, weights_at), (to, to_at)] = [part(&weights), part(&out)];
            let prefill = Prefill {
                dtype: DType::F16,
                device_type: "f16",
                out_type: "float",
                x: address(&x),
                weights: Part { buffer: &weights, first: weights_at },
                gguf: Some(gguf),
                tokens: address(&tokens),
                experts: address(&experts),
                factors: address(&factors),
                out: Part { buffer: &to, first: to_at },
                all,
                top: 1,
                count,
                outputs,
                columns,
                decoded_rows,
                chunk_bytes,
            };
            prefill.run(device.stream()).unwrap();
            out.to_bytes().unwrap()
        };
        // Two experts at a time, the last chunk of one; and all at once.
        let (apart, whole) = (run(0, 2 * 2 * outputs * columns), run(0, 1 << 20));
        assert_eq!(apart, whole);
        // Sums of numbers that both types hold are exact in any order.
        assert_eq!(run(DECODED_ROWS, 0), whole);
        let numbers = whole.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(numbers.clone().all(f32::is_finite) && numbers.clone().any(|number| number > 1.0));
    }
}
