//! A product by addresses, as Candle asks for it.

use std::ffi::{c_int, c_longlong, c_void};

use half::f16;
use rocfire_fusion::{Binary, Graph, Scalar};
use rocfire_hal::{Buffer, DType, Layout, Tensor, View};
use rocfire_kernels::gemm::{GemmParams, gemm};

use super::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cudaDataType_t};
use crate::driver::{CudaStream, DriverError};

/// Why a product failed, in rocfire's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("matrix product: {0}")]
pub struct CublasError(pub DriverError);

impl CublasError {
    fn new(message: String) -> CublasError {
        CublasError(DriverError::new(message))
    }
}

impl<E: Into<DriverError>> From<E> for CublasError {
    fn from(error: E) -> CublasError {
        CublasError(error.into())
    }
}

/// `C = alpha · op(A) · op(B) + beta · C` for each of a batch, column-major.
///
/// # Errors
/// A handle that is none, negative extents, mixed element types, addresses or extents outside live memory of the device; as
/// `rocfire_kernels::gemm`.
///
/// # Safety
/// - `alpha` and `beta` point to a number of the type that `compute_type` says.
#[allow(clippy::too_many_arguments)] // cuBLAS's signature.
pub unsafe fn gemm_strided_batched_ex(
    handle: cublasHandle_t,
    transa: cublasOperation_t,
    transb: cublasOperation_t,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: cudaDataType_t,
    lda: c_int,
    stride_a: c_longlong,
    b: *const c_void,
    b_type: cudaDataType_t,
    ldb: c_int,
    stride_b: c_longlong,
    beta: *const c_void,
    c: *mut c_void,
    c_type: cudaDataType_t,
    ldc: c_int,
    stride_c: c_longlong,
    batch_count: c_int,
    compute_type: cublasComputeType_t,
    _algo: cublasGemmAlgo_t,
) -> Result<(), CublasError> {
    let stream = CudaStream::of_number(handle)
        .ok_or_else(|| CublasError::new("the handle is that of no live stream".to_owned()))?;
    if a_type != b_type || a_type != c_type {
        return Err(CublasError::new(format!(
            "one element type for all three, got {a_type:?}, {b_type:?}, {c_type:?}"
        )));
    }
    let factor = |pointer: *const c_void| match compute_type {
        // SAFETY: the caller's duty: the number has this type.
        cublasComputeType_t::CUBLAS_COMPUTE_16F => f64::from(unsafe { pointer.cast::<f16>().read_unaligned() }),
        // SAFETY: as above.
        cublasComputeType_t::CUBLAS_COMPUTE_64F => unsafe { pointer.cast::<f64>().read_unaligned() },
        cublasComputeType_t::CUBLAS_COMPUTE_32F
        | cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF
        | cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16F
        // SAFETY: as above.
        | cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 => f64::from(unsafe { pointer.cast::<f32>().read_unaligned() }),
    };
    let operand = |address: *const c_void, leading: c_int, stride: c_longlong, op: cublasOperation_t| Operand {
        address: address as u64,
        leading: i64::from(leading),
        stride,
        is_transposed: op == cublasOperation_t::CUBLAS_OP_T,
    };
    let product = Product {
        batch: extent("batch_count", batch_count)?,
        m: extent("m", m)?,
        n: extent("n", n)?,
        k: extent("k", k)?,
        dtype: match a_type {
            cudaDataType_t::CUDA_R_32F => DType::F32,
            cudaDataType_t::CUDA_R_64F => DType::F64,
            cudaDataType_t::CUDA_R_16F => DType::F16,
            cudaDataType_t::CUDA_R_16BF => DType::BF16,
        },
        alpha: factor(alpha),
        beta: factor(beta),
        a: operand(a, lda, stride_a, transa),
        b: operand(b, ldb, stride_b, transb),
        c: operand(c, ldc, stride_c, cublasOperation_t::CUBLAS_OP_N),
    };
    product.run(&stream)
}

fn extent(name: &str, value: c_int) -> Result<usize, CublasError> {
    usize::try_from(value).map_err(|_| CublasError::new(format!("{name} is {value}")))
}

/// A matrix of a batch, column-major.
pub(super) struct Operand {
    pub address: u64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Elements from one matrix of the batch to the next.
    pub stride: i64,
    pub is_transposed: bool,
}

impl Operand {
    /// The transpose of what cuBLAS calls `op(X)`, of `rows × columns` after the transpose.
    fn layout(&self, shape: [usize; 3], offset: u64) -> Result<Layout, CublasError> {
        let strides = if self.is_transposed { [self.stride, 1, self.leading] } else { [self.stride, self.leading, 1] };
        Ok(Layout::strided(&shape, &strides, offset as i64)?)
    }
}

/// A product with its extents as cuBLAS counts them.
pub(super) struct Product {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub dtype: DType,
    pub alpha: f64,
    pub beta: f64,
    pub a: Operand,
    pub b: Operand,
    pub c: Operand,
}

impl Product {
    pub(super) fn run(&self, stream: &CudaStream) -> Result<(), CublasError> {
        stream.context().check_err()?;
        if self.batch == 0 || self.m == 0 || self.n == 0 {
            return Ok(());
        }
        let (c_buffer, c_layout) = self.place(stream, "C", &self.c, [self.batch, self.n, self.m])?;
        let mut c = Tensor::from_buffer(c_buffer, c_layout, self.dtype)?;
        if self.k == 0 {
            // Nothing is added, and an operand without elements has no memory.
            let left = View::new(c.buffer(), Layout::contiguous(&[self.batch, self.n, 0])?, self.dtype)?;
            let right = View::new(c.buffer(), Layout::contiguous(&[self.batch, 0, self.m])?, self.dtype)?;
            return self.multiply(stream, left, right, c.clone());
        }
        let (b_buffer, b_layout) = self.place(stream, "B", &self.b, [self.batch, self.n, self.k])?;
        let (a_buffer, a_layout) = self.place(stream, "A", &self.a, [self.batch, self.k, self.m])?;
        let left = View::new(&b_buffer, b_layout, self.dtype)?;
        let right = View::new(&a_buffer, a_layout, self.dtype)?;
        if self.alpha == 1.0 && self.beta == 0.0 {
            gemm(stream.hal(), left, right, c.view_mut(), &GemmParams::default())?;
            return Ok(());
        }
        self.multiply(stream, left, right, c)
    }

    /// The product, then what `alpha` and `beta` make of it.
    fn multiply(&self, stream: &CudaStream, left: View<'_>, right: View<'_>, mut c: Tensor) -> Result<(), CublasError> {
        let mut product = Tensor::empty(c.device(), c.shape(), self.dtype)?;
        gemm(stream.hal(), left, right, product.view_mut(), &GemmParams::default())?;
        // A C that counts for nothing may hold anything, NaN included.
        let old = if self.beta == 0.0 { None } else { Some(rocfire_fusion::eager::copy(&c)?) };
        let mut graph = Graph::new("gemm_scale");
        let value = graph.input(self.dtype);
        let alpha = graph.scalar(self.dtype);
        let mut sum = graph.binary(Binary::Mul, value, alpha);
        let mut inputs = vec![product.view()];
        let mut scalars = vec![Scalar::Float(self.alpha)];
        if let Some(old) = &old {
            let (value, beta) = (graph.input(self.dtype), graph.scalar(self.dtype));
            let scaled = graph.binary(Binary::Mul, value, beta);
            sum = graph.binary(Binary::Add, sum, scaled);
            inputs.push(old.view());
            scalars.push(Scalar::Float(self.beta));
        }
        graph.output(sum);
        let shape = c.shape().to_vec();
        rocfire_fusion::run(stream.hal(), &graph, &shape, &inputs, &scalars, &mut [c.view_mut()])?;
        Ok(())
    }

    fn place(
        &self,
        stream: &CudaStream,
        name: &str,
        operand: &Operand,
        shape: [usize; 3],
    ) -> Result<(Buffer, Layout), CublasError> {
        let found = stream.context().memory_at(operand.address);
        let (buffer, byte) = found
            .ok_or_else(|| CublasError::new(format!("{name}: {:#x} is no address of live memory", operand.address)))?;
        let size = self.dtype.size_bytes() as u64;
        if !byte.is_multiple_of(size) {
            return Err(CublasError::new(format!("{name}: byte {byte} is between two elements of {}", self.dtype)));
        }
        Ok((buffer, operand.layout(shape, byte / size)?))
    }
}
