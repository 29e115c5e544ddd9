//! Matrix products of slices and views.

use std::ffi::{c_int, c_longlong};
use std::sync::Arc;

use half::{bf16, f16};
use rocfire_hal::DType;

use super::result::{CublasError, Operand, Product};
use super::sys::{cublasHandle_t, cublasOperation_t};
use crate::driver::{CudaStream, DevicePtr, DevicePtrMut};

/// Asks for products on a stream, as cuBLAS does with a handle.
#[derive(Debug)]
pub struct CudaBlas {
    handle: cublasHandle_t,
    /// Kept so that the handle names a live stream.
    stream: Arc<CudaStream>,
}

// SAFETY: the handle is a number that names the stream, and nothing reads what it points to.
unsafe impl Send for CudaBlas {}
// SAFETY: as above.
unsafe impl Sync for CudaBlas {}

impl CudaBlas {
    /// For products on this stream.
    ///
    /// # Errors
    /// None.
    pub fn new(stream: Arc<CudaStream>) -> Result<CudaBlas, CublasError> {
        Ok(CudaBlas { handle: stream.cu_stream(), stream })
    }

    /// The handle that [`super::result::gemm_strided_batched_ex`] takes.
    pub fn handle(&self) -> &cublasHandle_t {
        &self.handle
    }
}

/// One product: `C = alpha · op(A) · op(B) + beta · C`, column-major, `m × k` by `k × n`.
#[derive(Clone, Copy, Debug)]
pub struct GemmConfig<T> {
    /// `op` of A.
    pub transa: cublasOperation_t,
    /// `op` of B.
    pub transb: cublasOperation_t,
    /// Rows of C.
    pub m: c_int,
    /// Columns of C.
    pub n: c_int,
    /// The extent that is summed over: columns of `op(A)`.
    pub k: c_int,
    /// The product's factor.
    pub alpha: T,
    /// Elements from one column of A to the next.
    pub lda: c_int,
    /// Elements from one column of B to the next.
    pub ldb: c_int,
    /// The factor of the old C; with 0 that is not read.
    pub beta: T,
    /// Elements from one column of C to the next.
    pub ldc: c_int,
}

/// A batch of products of the same extents, whose matrices lie at regular distances.
#[derive(Clone, Copy, Debug)]
pub struct StridedBatchedConfig<T> {
    /// What each product is.
    pub gemm: GemmConfig<T>,
    /// How many products.
    pub batch_size: c_int,
    /// Elements from one A to the next.
    pub stride_a: c_longlong,
    /// Elements from one B to the next.
    pub stride_b: c_longlong,
    /// Elements from one C to the next.
    pub stride_c: c_longlong,
}

/// Products of one element type.
pub trait Gemm<T> {
    /// One product.
    ///
    /// # Errors
    /// As [`super::result::gemm_strided_batched_ex`].
    ///
    /// # Safety
    /// Nothing is asked: extents are checked. The `unsafe` is cudarc's signature.
    unsafe fn gemm<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        config: GemmConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), CublasError>;

    /// A batch of products.
    ///
    /// # Errors
    /// As [`Gemm::gemm`].
    ///
    /// # Safety
    /// As [`Gemm::gemm`].
    unsafe fn gemm_strided_batched<A: DevicePtr<T>, B: DevicePtr<T>, C: DevicePtrMut<T>>(
        &self,
        config: StridedBatchedConfig<T>,
        a: &A,
        b: &B,
        c: &mut C,
    ) -> Result<(), CublasError>;
}

macro_rules! gemm {
    ($($element:ty, $dtype:ident);*) => {
        $(
            impl Gemm<$element> for CudaBlas {
                unsafe fn gemm<A: DevicePtr<$element>, B: DevicePtr<$element>, C: DevicePtrMut<$element>>(
                    &self,
                    gemm: GemmConfig<$element>,
                    a: &A,
                    b: &B,
                    c: &mut C,
                ) -> Result<(), CublasError> {
                    let one = StridedBatchedConfig { gemm, batch_size: 1, stride_a: 0, stride_b: 0, stride_c: 0 };
                    // SAFETY: nothing is asked, as the trait says.
                    unsafe { self.gemm_strided_batched(one, a, b, c) }
                }

                unsafe fn gemm_strided_batched<A: DevicePtr<$element>, B: DevicePtr<$element>, C: DevicePtrMut<$element>>(
                    &self,
                    config: StridedBatchedConfig<$element>,
                    a: &A,
                    b: &B,
                    c: &mut C,
                ) -> Result<(), CublasError> {
                    let (alpha, beta) = (f64::from(config.gemm.alpha), f64::from(config.gemm.beta));
                    let (a, b) = (a.device_ptr(&self.stream).0, b.device_ptr(&self.stream).0);
                    let c = c.device_ptr_mut(&self.stream).0;
                    product(config, DType::$dtype, alpha, beta, [a, b, c]).run(&self.stream)
                }
            }
        )*
    };
}

gemm!(f32, F32; f64, F64; f16, F16; bf16, BF16);

fn product<T>(config: StridedBatchedConfig<T>, dtype: DType, alpha: f64, beta: f64, [a, b, c]: [u64; 3]) -> Product {
    let StridedBatchedConfig { gemm, batch_size, stride_a, stride_b, stride_c } = config;
    let operand = |address, leading: c_int, stride, op| {
        let (leading, is_transposed) = (i64::from(leading), op == cublasOperation_t::CUBLAS_OP_T);
        Operand { address, leading, stride, is_transposed }
    };
    // A negative extent counts as 0: there is nothing to do.
    let extent = |value: c_int| usize::try_from(value).unwrap_or(0);
    Product {
        batch: extent(batch_size),
        m: extent(gemm.m),
        n: extent(gemm.n),
        k: extent(gemm.k),
        dtype,
        tf32: false,
        alpha,
        beta,
        a: operand(a, gemm.lda, stride_a, gemm.transa),
        b: operand(b, gemm.ldb, stride_b, gemm.transb),
        c: operand(c, gemm.ldc, stride_c, cublasOperation_t::CUBLAS_OP_N),
    }
}
