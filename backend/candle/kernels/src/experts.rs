//! A mixture of experts for many tokens. The tokens' rows are gathered in the order of the list of experts,
//! a grouped product multiplies them on the matrix units, and its rows are scattered back to the tokens.

use cudarc::driver::DriverError;
use rocfire_hal::{Buffer, DType, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};
use rocfire_kernels::quant::{GgufMatrices, gguf_matmul_grouped};

use crate::family::quantized::{self, Gguf};
use crate::geometry::groups;
use crate::product::int;
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
}

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
        let by_expert = GemmGroups::Offsets(starts.view());
        let (outputs, columns) = (self.outputs as i64, self.columns as i64);
        let first = self.weights.first - self.weights.buffer.device_address();
        match self.gguf {
            None => {
                // Weights are [experts, outputs, columns]; the product wants [experts, columns, outputs].
                let shape = [self.all, self.columns, self.outputs];
                let first = first / self.dtype.size_bytes() as u64;
                let layout = Layout::strided(&shape, &[outputs * columns, 1, columns], first as i64)?;
                let weights = View::new(self.weights.buffer, layout, self.dtype)?;
                gemm_grouped(stream, rows.view(), weights, &by_expert, products.view_mut(), &GemmParams::default())?;
            }
            Some(gguf) => {
                let shape = [self.all, self.outputs, self.columns / gguf.size * gguf.bytes];
                let strides = [(shape[1] * shape[2]) as i64, shape[2] as i64, 1];
                let layout = Layout::strided(&shape, &strides, first as i64)?;
                let blocks = View::new(self.weights.buffer, layout, DType::U8)?;
                let w = GgufMatrices { blocks, kind: gguf.kind };
                gguf_matmul_grouped(stream, rows.view(), &w, &by_expert, products.view_mut())?;
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
