//! Matrix products by addresses, as Candle asks for them.

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::OnceLock;

use half::f16;
use rocfire_fusion::{Binary, Graph, Scalar};
use rocfire_hal::{DType, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::{GemmParams, gemm, is_ours};

use super::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cudaDataType_t};
use crate::driver::queue::{Kept, Node, Settled, Touched, Turn, Work};
use crate::driver::{CudaStream, DriverError};
use crate::rocfire::Extent;

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

/// `C = alpha · op(A) · op(B) + beta · C` for each product of a batch, column-major.
///
/// # Errors
/// The handle names no live stream; an extent is negative; element types differ; an operand does not lie in live memory of the
/// device; else as `rocfire_kernels::gemm`.
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
        tf32: compute_type == cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
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

/// A, B or C: the matrices of a batch, column-major.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The address of its first element.
    pub address: u64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Elements from one matrix of the batch to the next.
    pub stride: i64,
    /// Whether it is transposed for the product.
    pub is_transposed: bool,
}

impl Operand {
    /// The layout of the transpose of what cuBLAS calls `op(X)`, as row-major `[batch, rows, columns]`. `offset` is that of the first
    /// element in its memory.
    fn layout(&self, shape: [usize; 3], offset: u64) -> Result<Layout, CublasError> {
        let strides = if self.is_transposed { [self.stride, 1, self.leading] } else { [self.stride, self.leading, 1] };
        Ok(Layout::strided(&shape, &strides, offset as i64)?)
    }
}

/// A batch of products with extents as cuBLAS counts them: `C = alpha · op(A) · op(B) + beta · C`, column-major.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// How many products.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The extent that is summed over: columns of `op(A)`.
    pub k: usize,
    /// The element type of A, B and C.
    pub dtype: DType,
    /// Whether factors of f32 may be rounded to TF32.
    pub tf32: bool,
    /// The product's factor.
    pub alpha: f64,
    /// The factor of the old C; with 0 that is not read.
    pub beta: f64,
    /// The left factor.
    pub a: Operand,
    /// The right factor.
    pub b: Operand,
    /// The result.
    pub c: Operand,
}

/// A product `C = op(A) · op(B)` whose A, B and C were found in memory, so that it can wait in the queue.
pub struct Resolved {
    /// The product as it was asked for. `alpha` is 1 and `beta` 0, and no extent is 0.
    pub product: Product,
    /// The memory and the row-major layout of the transposes of `op(A)`, `op(B)` and C.
    places: [(Kept, Layout); 3],
    /// The answer of [`Resolved::is_ours`], once it was asked.
    is_ours: OnceLock<bool>,
}

impl Resolved {
    /// The product as one of row-major matrices: the left factor `[batch, n, k]`, the right one `[batch, k, m]`, and the result
    /// `[batch, n, m]`.
    ///
    /// # Errors
    /// None: the layouts were checked when the product was resolved.
    pub fn tensors(&self, turn: &Turn) -> Result<[Tensor; 3], CublasError> {
        let dtype = self.product.dtype;
        let tensor = |place: &(Kept, Layout)| Tensor::from_buffer(place.0.buffer(turn).clone(), place.1, dtype);
        let [a, b, c] = &self.places;
        Ok([tensor(b)?, tensor(a)?, tensor(c)?])
    }

    /// The result's shape, `[batch, n, m]`.
    pub fn shape(&self) -> [usize; 3] {
        [self.product.batch, self.product.n, self.product.m]
    }

    /// Launches the product.
    pub(crate) fn run(&self, stream: &Stream, turn: &Turn) -> Result<(), CublasError> {
        let dtype = self.product.dtype;
        let [(a, a_layout), (b, b_layout), (c, c_layout)] = &self.places;
        let [a, b, c] = [a, b, c].map(|kept| kept.buffer(turn));
        let mut c = Tensor::from_buffer(c.clone(), *c_layout, dtype)?;
        let (left, right) = (View::new(b, *b_layout, dtype)?, View::new(a, *a_layout, dtype)?);
        gemm(stream, left, right, c.view_mut(), &self.product.params())?;
        Ok(())
    }

    /// Whether `rocfire_kernels` takes its own kernels for the product, and not the vendor's library.
    pub fn is_ours(&self, stream: &Stream, turn: &Turn) -> bool {
        let of = |[left, right, mut c]: [Tensor; 3]| {
            is_ours(stream, left.view(), right.view(), c.view_mut(), &self.product.params())
        };
        *self.is_ours.get_or_init(|| self.tensors(turn).is_ok_and(|tensors| of(tensors).unwrap_or(false)))
    }

    /// What the product reads and writes; of C only its own rows, unless there is a batch.
    fn touched(&self) -> Vec<Touched> {
        let [a, b, c] = &self.places;
        let read = |place: &(Kept, Layout)| Touched::whole(place.0.clone(), true, false);
        let mut written = Touched::whole(c.0.clone(), false, true);
        written.asked = self.product.c.address;
        let Product { batch, m, n, dtype, c, .. } = self.product;
        if batch == 1 {
            let size = dtype.size_bytes() as u64;
            let (rows, row_bytes) = (n as u64, m as u64 * size);
            written.narrow_to(Some(Extent { rows, row_bytes, stride_bytes: c.leading as u64 * size }));
        }
        vec![read(a), read(b), written]
    }
}

impl Product {
    /// What `rocfire_kernels` may choose for the product.
    pub fn params(&self) -> GemmParams {
        let mut params = GemmParams::default();
        params.tf32 = self.tf32;
        params
    }

    /// Puts the product into the queue, or launches it at once if it cannot wait.
    pub(super) fn run(&self, stream: &CudaStream) -> Result<(), CublasError> {
        stream.context().check_err()?;
        if self.batch == 0 || self.m == 0 || self.n == 0 {
            return Ok(());
        }
        let c = self.place(stream, "C", &self.c, [self.batch, self.n, self.m])?;
        if self.k == 0 {
            // The sum over nothing is zero. A and B have no elements, so they need no memory.
            let settled = stream.settled();
            let (c, layout) = (settled.buffer(&c.0)?, c.1);
            let left = View::new(c, Layout::contiguous(&[self.batch, self.n, 0])?, self.dtype)?;
            let right = View::new(c, Layout::contiguous(&[self.batch, 0, self.m])?, self.dtype)?;
            return self.multiply(&settled, left, right, Tensor::from_buffer(c.clone(), layout, self.dtype)?);
        }
        let b = self.place(stream, "B", &self.b, [self.batch, self.n, self.k])?;
        let a = self.place(stream, "A", &self.a, [self.batch, self.k, self.m])?;
        [&c, &b, &a].into_iter().try_for_each(|(memory, layout)| memory.require(*layout, self.dtype))?;
        let shared = stream.context().shared();
        if self.alpha == 1.0 && self.beta == 0.0 && shared.has_queue() {
            let resolved = Resolved { product: *self, places: [a, b, c], is_ours: OnceLock::new() };
            let touched = resolved.touched();
            shared.wait(Node::new(Work::Product(Box::new(resolved)), touched));
            return Ok(());
        }
        let settled = stream.settled();
        let left = View::new(settled.buffer(&b.0)?, b.1, self.dtype)?;
        let right = View::new(settled.buffer(&a.0)?, a.1, self.dtype)?;
        let mut c = Tensor::from_buffer(settled.buffer(&c.0)?.clone(), c.1, self.dtype)?;
        if self.alpha != 1.0 || self.beta != 0.0 {
            return self.multiply(&settled, left, right, c);
        }
        gemm(settled.stream(), left, right, c.view_mut(), &self.params())?;
        Ok(())
    }

    /// Launches the product into memory of its own, and then `alpha` times it plus `beta` times the old C.
    fn multiply(&self, on: &Settled<'_>, left: View<'_>, right: View<'_>, mut c: Tensor) -> Result<(), CublasError> {
        let mut product = Tensor::empty(c.device(), c.shape(), self.dtype)?;
        gemm(on.stream(), left, right, product.view_mut(), &self.params())?;
        // With a `beta` of 0 the old C may hold anything, NaN included, so it is not read.
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
        rocfire_fusion::run(on.stream(), &graph, &shape, &inputs, &scalars, &mut [c.view_mut()])?;
        Ok(())
    }

    /// The memory of A, B or C, which errors call `name`, and its layout there.
    fn place(
        &self,
        stream: &CudaStream,
        name: &str,
        operand: &Operand,
        shape: [usize; 3],
    ) -> Result<(Kept, Layout), CublasError> {
        let found = stream.context().shared().memory_at(operand.address);
        let (memory, byte) = found
            .ok_or_else(|| CublasError::new(format!("{name}: {:#x} is no address of live memory", operand.address)))?;
        let size = self.dtype.size_bytes() as u64;
        if !byte.is_multiple_of(size) {
            return Err(CublasError::new(format!("{name}: byte {byte} is between two elements of {}", self.dtype)));
        }
        Ok((memory, operand.layout(shape, byte / size)?))
    }
}
