//! Matrix products by a vendor's library: one door for cuBLASLt, hipBLASLt and rocBLAS.
//!
//! A driver opens its library when a product is first planned, at run time like everything of its platform; a device without one
//! (emulated, noop, a GPU whose library is not installed or has no kernels for it) says why and plans nothing. A [`Product`] is
//! planned once, for its shapes, strides, element types and the alignment of its operands, and its [`Plan`] is kept by the
//! device; a launch then allocates nothing on the host. Plans have numbers: 0 is what the library thinks fastest, the others are
//! for tuning.
//!
//! What a library sums in which order is its own business and may change with its version: the bits are not those of our
//! kernels. Who calls: `kernels::gemm`'s dispatch and that of products of codes in `kernels::quant`, which say when. Nothing is checked here besides what the libraries'
//! interfaces can express.

#[cfg(any(feature = "hip", feature = "cuda"))]
pub(crate) mod lt;

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::log::{Level, report};
use crate::profile::Work;
use crate::{Buffer, DType, Device, Result};

/// Device memory that a plan may ask for, bytes: what NVIDIA recommends for Hopper, and enough for what AMD's libraries use.
pub(crate) const WORKSPACE_BYTES: u64 = 32 << 20;
/// Alignment beyond which no library looks, bytes.
const ALIGNMENT_MOST: u64 = 256;

/// One of the two factors of a [`Product`], a matrix of which one axis is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Stride of the axis that is not contiguous, elements.
    pub leading: i64,
    /// Whether the contiguous axis is K: the columns of A, the rows of B.
    pub along_k: bool,
    /// Stride of the batch, elements; 0 where all share one.
    pub batch_stride: i64,
    /// Alignment of its first element, bytes: [`alignment_of`].
    pub alignment_bytes: u16,
}

/// What a code of a factor is, where it is no number of a type that tensors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// OCP's E4M3.
    E4M3,
    /// OCP's E5M2.
    E5M2,
    /// E4M3 with one zero and bias 8: CDNA 3's.
    E4M3Fnuz,
    /// E5M2 with one zero and bias 16: CDNA 3's.
    E5M2Fnuz,
    /// OCP's E2M1, two to a byte, the even one in the low half.
    E2M1,
}

/// Which codes of a factor share a scale, and where the scales lie. A line is a row of A or a column of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// No scales: codes are what they say.
    None,
    /// All of them: one f32.
    Tensor,
    /// Those of a line: f32 `[lines]`. Both factors have them so, or neither.
    Line,
    /// 128 of a line along K: f32 `[ceil(K / 128), lines]`.
    Run128,
    /// 128 lines by 128 along K: f32 `[ceil(lines / 128), ceil(K / 128)]`, rows a multiple of four apart: the least that holds them.
    Block128,
    /// 32 of a line along K: exponents in bytes, E8M0, `[lines, K / 32]`. Both factors have them so, or neither.
    Mx32,
}

/// Factors of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coded {
    /// What codes of A and B are.
    pub codes: [Code; 2],
    /// How A and B are scaled.
    pub scaling: [Scaling; 2],
}

/// A function of each element of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndActivation {
    /// It stays as it is.
    #[default]
    None,
    /// `max(x, 0)`; a NaN stays one.
    Relu,
    /// `x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    GeluTanh,
    /// `x · sigmoid(x)`.
    Silu,
}

/// What a library does to each sum of codes before it stores it, in this order; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// The type of a bias, one for each column of C, which is added.
    pub bias: Option<DType>,
    /// What becomes of the sum with its bias.
    pub activation: EndActivation,
    /// C is codes of that, of the result times one f32.
    pub code: Option<Code>,
}

/// `C = A · B`, batched: A `[batches, m, k]`, B `[batches, k, n]`, C `[batches, m, n]` with contiguous rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Element type of A and B; of codes `U8`.
    pub input: DType,
    /// What A and B are where they are codes with scales. One product, no batch.
    pub coded: Option<Coded>,
    /// Element type of C; of codes `U8`.
    pub output: DType,
    /// What is done to sums of codes; of others nothing.
    pub end: End,
    /// Whether factors of f32 may be rounded to TF32's 10 bits of fraction. A library that cannot multiplies as without.
    pub tf32: bool,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// How many products.
    pub batches: usize,
    /// A.
    pub a: Operand,
    /// B.
    pub b: Operand,
    /// C; `along_k` means nothing.
    pub c: Operand,
}

/// The largest power of two that divides an address, up to what libraries care for.
pub fn alignment_of(address: u64) -> u16 {
    1 << (address | ALIGNMENT_MOST).trailing_zeros()
}

/// A product as libraries want it: `D = op(X) · op(Y)`, all stored by columns. Rows stored one by one are the transposed matrix
/// stored by columns, so X is our B, Y our A, and D the transposed C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnMajor {
    /// Rows and columns of D.
    pub size: [usize; 2],
    /// Whether X and Y are read transposed.
    pub transposed: [bool; 2],
    /// Rows and columns of X, Y and D as they are stored.
    pub stored: [[usize; 2]; 3],
    /// Distance of the columns of X, Y and D, elements.
    pub leading: [i64; 3],
    /// Distance of the batch's matrices, elements.
    pub batch_stride: [i64; 3],
}

impl Product {
    pub(crate) fn column_major(&self) -> ColumnMajor {
        let Product { m, n, k, a, b, c, .. } = *self;
        let stored = |along_k: bool, lines: usize| if along_k { [k, lines] } else { [lines, k] };
        ColumnMajor {
            size: [n, m],
            // X = Bᵀ is [n, k]: stored so where B's rows are contiguous.
            transposed: [b.along_k, !a.along_k],
            stored: [stored(b.along_k, n), stored(a.along_k, m), [n, m]],
            leading: [b.leading, a.leading, c.leading],
            batch_stride: [b.batch_stride, a.batch_stride, c.batch_stride],
        }
    }
}

/// A library, opened for a device.
pub(crate) trait VendorGemm: Send + Sync {
    /// Its name and version: `cuBLASLt 13.1.0`.
    fn name(&self) -> &str;

    /// How it would do a product, the fastest in its opinion first; `None` where it cannot, or has no more.
    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>>;
}

/// A planned product.
pub(crate) trait VendorPlan: Send + Sync {
    /// The library's name, for profiles.
    fn library(&self) -> &'static str;

    /// Device memory that a launch needs besides its operands, bytes.
    fn workspace_bytes(&self) -> u64;

    /// Puts it on the driver's stream.
    ///
    /// # Safety
    /// - `a`, `b` and `c` are addresses of live memory that covers what the product's shapes and strides say, aligned as it
    ///   says; `scales` those of A's and B's scales, aligned to 16 bytes, where it has them; `end` those of a bias of N elements and of
    ///   one f32, aligned alike, where the product's end has them; `workspace` covers
    ///   [`VendorPlan::workspace_bytes`].
    unsafe fn launch(&self, at: &Addresses) -> Result<()>;
}

/// Where the operands of a launch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    /// Of A and B; 0 where the product has none.
    pub scales: [u64; 2],
    /// Of the bias, and of what C is multiplied by before it is coded; 0 where the product has none.
    pub end: [u64; 2],
    /// 0 where the plan needs none.
    pub workspace: u64,
}

impl Addresses {
    /// All of them, for messages.
    pub fn words(&self) -> [u64; 8] {
        let Addresses { a, b, c, scales: [a_scales, b_scales], end: [bias, c_scale], workspace } = *self;
        [a, b, c, a_scales, b_scales, bias, c_scale, workspace]
    }
}

/// What a vendor's library needs of a driver.
pub(crate) trait Context: Send + Sync {
    /// Makes the device the calling thread's.
    fn enter(&self) -> Result<()>;

    /// The driver's stream.
    fn stream(&self) -> *mut c_void;
}

/// A product that a vendor's library has planned, for any operands of its shapes and alignment.
#[derive(Clone)]
pub struct Plan(pub(crate) Arc<dyn VendorPlan>);

impl Plan {
    /// The library.
    pub fn library(&self) -> &'static str {
        self.0.library()
    }

    /// Device memory that a launch needs besides its operands, bytes.
    pub fn workspace_bytes(&self) -> u64 {
        self.0.workspace_bytes()
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({}, {} bytes)", self.library(), self.workspace_bytes())
    }
}

/// Operands of a planned product.
#[derive(Clone, Copy, Debug)]
pub struct VendorLaunch<'a> {
    /// The operator, for messages and profiles.
    pub label: &'static str,
    /// Device address of A.
    pub a: u64,
    /// Device address of B.
    pub b: u64,
    /// Device address of C.
    pub c: u64,
    /// Device addresses of A's and B's scales; 0 where the product has none.
    pub scales: [u64; 2],
    /// Device addresses of the end's bias, and of what C is multiplied by before it is coded; 0 where the product has none.
    pub end: [u64; 2],
    /// What holds C, to be poisoned if it fails.
    pub output: &'a Buffer,
    /// Of at least [`Plan::workspace_bytes`]; `None` where that is 0.
    pub workspace: Option<&'a Buffer>,
    /// What it is about, for profiles.
    pub work: Work<'a>,
}

/// Plans of a device, by product and number.
#[derive(Default)]
pub(crate) struct Plans(Mutex<HashMap<(Product, usize), Option<Plan>>>);

impl Device {
    /// The vendor's library for matrix products, or why there is none for this device.
    ///
    /// # Errors
    /// The reason, in words: switched off, not installed, no kernels for this architecture.
    pub fn vendor_gemm(&self) -> std::result::Result<&str, String> {
        if !self.config().vendor {
            return Err("switched off by ROCFIRE_VENDOR".to_owned());
        }
        self.driver().vendor_gemm().map(VendorGemm::name).map_err(str::to_owned)
    }

    /// The vendor's plan number `choice` for a product, `None` where there is no library or it has none. For a product that was
    /// asked for before nothing is allocated.
    pub fn vendor_plan(&self, product: &Product, choice: usize) -> Option<Plan> {
        if !self.config().vendor {
            return None;
        }
        let library = self.driver().vendor_gemm().ok()?;
        let mut plans = self.vendor_plans().0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&(*product, choice)) {
            return plan.clone();
        }
        let plan = library.plan(product, choice).unwrap_or_else(|error| {
            // Ours serves in its place: no reason to fail.
            report(self.config().log, Level::Debug, format_args!("{} plans no {product:?}: {error}", library.name()));
            None
        });
        plans.entry((*product, choice)).or_insert(plan.map(Plan)).clone()
    }
}

#[cfg(test)]
mod tests;
