//! A mixture of experts with dense 16-bit weights for many tokens: their rows in the list's order, a grouped product on the matrix
//! units, and its rows where the tokens want them.

use cudarc::driver::DriverError;
use cudarc::rocfire::Access;
use rocfire_hal::{DType, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};

use crate::family::quantized;
use crate::geometry::groups;
use crate::product::int;
use crate::run::{self, Args, Use};

/// Addresses and sizes: `moe_gemm.hip` says what each is.
pub(crate) struct Prefill<'a> {
    /// The type of rows, weights and results, and its name in device code.
    pub dtype: DType,
    pub device_type: &'static str,
    pub x: u64,
    pub weights: &'a Access,
    pub tokens: u64,
    pub experts: u64,
    /// 0 for none: then there is a row for `top` tokens.
    pub factors: u64,
    pub out: &'a Access,
    pub all: usize,
    pub top: usize,
    pub count: usize,
    pub outputs: usize,
    pub columns: usize,
}

impl Prefill<'_> {
    pub(crate) fn run(&self, stream: &Stream) -> Result<(), DriverError> {
        let device = stream.device();
        let rows = Tensor::empty(&device, &[self.count, self.columns], self.dtype)?;
        let starts = Tensor::empty(&device, &[self.all + 1], DType::I32)?;
        let mut products = Tensor::empty(&device, &[self.count, self.outputs], DType::F32)?;
        self.gather(stream, &rows, &starts)?;
        let size = self.dtype.size_bytes() as u64;
        let first = (self.weights.first - self.weights.buffer.device_address()) / size;
        let (outputs, columns) = (self.outputs as i64, self.columns as i64);
        // Weights are [experts, outputs, columns]; the product wants [experts, columns, outputs].
        let shape = [self.all, self.columns, self.outputs];
        let layout = Layout::strided(&shape, &[outputs * columns, 1, columns], first as i64)?;
        let weights = View::new(&self.weights.buffer, layout, self.dtype)?;
        let by_expert = GemmGroups::Offsets(starts.view());
        gemm_grouped(stream, rows.view(), weights, &by_expert, products.view_mut(), &GemmParams::default())?;
        self.scatter(stream, &products)
    }

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

    fn scatter(&self, stream: &Stream, products: &Tensor) -> Result<(), DriverError> {
        let key = (Use::MoeScatter, "", self.device_type, 0);
        let source = run::source(key, || quantized::moe_scatter(self.device_type));
        let args = Args::new().word(products.view().device_address()).word(self.tokens).word(self.experts);
        let args = args.word(self.factors).word(self.out.first);
        let args = args.int(int(self.all)?).int(int(self.count)?).int(int(self.outputs)?);
        // SAFETY:
        // - the arguments are those of moe_rows.hip, kind 1; the caller looked up the lists, the factors and `out` for these
        //   sizes, and the kernel passes over tokens that lie outside (1).
        // - the output is named (2).
        unsafe { run::launch(stream, key, source, groups(self.count as u64, 256), &args, &[&self.out.buffer]) }
    }
}
