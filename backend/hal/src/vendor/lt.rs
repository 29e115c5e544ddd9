//! cuBLASLt and hipBLASLt, which differ in names and numbers only: descriptors, the heuristic's list, the product.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::{Context, Product, VendorGemm, VendorPlan, WORKSPACE_BYTES};
use crate::{DType, Error, Result};

/// `cublasStatus_t`, `hipblasStatus_t`: 0 is success in both.
pub(crate) type Status = c_int;
const SUCCESS: Status = 0;

/// Algorithms that the heuristic is asked for, at most.
const ALGORITHMS: usize = 8;

/// The numbers that differ between the two libraries.
pub(crate) struct Codes {
    /// The library's name.
    pub library: &'static str,
    /// Computing in f32, f64 and i32.
    pub compute: [c_int; 3],
    /// Computing in f32 with factors that may be rounded to TF32.
    pub tf32: c_int,
    /// Not transposed, transposed.
    pub operations: [i32; 2],
    /// Attributes of a layout: number of matrices, distance between them.
    pub layout_batch: [c_int; 2],
    /// Attributes of the product: how each factor is read.
    pub transpose: [c_int; 2],
    /// Attribute of the preference: most workspace, bytes.
    pub workspace: c_int,
    /// Attributes of the preference: alignment of X, Y, C and D, where the library asks for it.
    pub alignment: Option<[c_int; 4]>,
}

/// What the heuristic returns for each algorithm, the same in both but for the algorithm itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Found<A> {
    /// The algorithm, opaque.
    pub algorithm: A,
    /// Workspace that it needs, bytes.
    pub workspace_bytes: usize,
    /// Whether the rest means anything.
    pub state: Status,
    /// How many waves of workgroups there would be.
    pub waves: f32,
    /// Nothing.
    pub reserved: [c_int; 4],
}

/// A library with the common interface; implemented by [`lt_library`] over a table.
///
/// # Safety
/// Of every method: the arguments are as the library's documentation demands.
#[allow(clippy::missing_safety_doc, reason = "said above, once for all")]
#[allow(clippy::too_many_arguments, reason = "the library's own")]
pub(crate) trait LtLibrary: Send + Sync + 'static {
    /// An algorithm, opaque.
    type Algorithm: Copy + Default + Send + Sync + 'static;
    /// Its numbers.
    const CODES: Codes;
    unsafe fn create(&self, handle: *mut *mut c_void) -> Result<Status>;
    unsafe fn product_create(&self, product: *mut *mut c_void, compute: c_int, scale: c_int) -> Result<Status>;
    unsafe fn product_destroy(&self, product: *mut c_void) -> Result<Status>;
    unsafe fn product_set(
        &self,
        product: *mut c_void,
        what: c_int,
        value: *const c_void,
        size: usize,
    ) -> Result<Status>;
    unsafe fn layout_create(
        &self,
        layout: *mut *mut c_void,
        dtype: c_int,
        rows: u64,
        cols: u64,
        leading: i64,
    ) -> Result<Status>;
    unsafe fn layout_destroy(&self, layout: *mut c_void) -> Result<Status>;
    unsafe fn layout_set(&self, layout: *mut c_void, what: c_int, value: *const c_void, size: usize) -> Result<Status>;
    unsafe fn preference_create(&self, preference: *mut *mut c_void) -> Result<Status>;
    unsafe fn preference_destroy(&self, preference: *mut c_void) -> Result<Status>;
    unsafe fn preference_set(
        &self,
        preference: *mut c_void,
        what: c_int,
        value: *const c_void,
        size: usize,
    ) -> Result<Status>;
    unsafe fn heuristic(
        &self,
        handle: *mut c_void,
        product: *mut c_void,
        layouts: [*mut c_void; 4],
        preference: *mut c_void,
        wanted: c_int,
        found: *mut Found<Self::Algorithm>,
        count: *mut c_int,
    ) -> Result<Status>;
    unsafe fn multiply(
        &self,
        handle: *mut c_void,
        product: *mut c_void,
        factors: [*const c_void; 2],
        addresses: [u64; 4],
        layouts: [*mut c_void; 4],
        algorithm: *const Self::Algorithm,
        workspace: u64,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> Result<Status>;
}

/// Implements [`LtLibrary`] over a table by the names of its functions.
macro_rules! lt_library {
    ($table:ident, $algorithm:ty, $codes:expr; $create:ident, $product_create:ident, $product_destroy:ident,
     $product_set:ident, $layout_create:ident, $layout_destroy:ident, $layout_set:ident, $preference_create:ident,
     $preference_destroy:ident, $preference_set:ident, $heuristic:ident, $multiply:ident) => {
        // SAFETY of every block below: the arguments are passed on, and are the caller's duty.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "said above, once for all")]
        impl $crate::vendor::lt::LtLibrary for $table {
            type Algorithm = $algorithm;
            const CODES: $crate::vendor::lt::Codes = $codes;
            unsafe fn create(&self, handle: *mut *mut c_void) -> $crate::Result<c_int> {
                unsafe { self.$create(handle) }
            }
            unsafe fn product_create(
                &self,
                product: *mut *mut c_void,
                compute: c_int,
                scale: c_int,
            ) -> $crate::Result<c_int> {
                unsafe { self.$product_create(product, compute, scale) }
            }
            unsafe fn product_destroy(&self, product: *mut c_void) -> $crate::Result<c_int> {
                unsafe { self.$product_destroy(product) }
            }
            unsafe fn product_set(
                &self,
                product: *mut c_void,
                what: c_int,
                value: *const c_void,
                size: usize,
            ) -> $crate::Result<c_int> {
                unsafe { self.$product_set(product, what, value, size) }
            }
            unsafe fn layout_create(
                &self,
                layout: *mut *mut c_void,
                dtype: c_int,
                rows: u64,
                cols: u64,
                leading: i64,
            ) -> $crate::Result<c_int> {
                unsafe { self.$layout_create(layout, dtype, rows, cols, leading) }
            }
            unsafe fn layout_destroy(&self, layout: *mut c_void) -> $crate::Result<c_int> {
                unsafe { self.$layout_destroy(layout) }
            }
            unsafe fn layout_set(
                &self,
                layout: *mut c_void,
                what: c_int,
                value: *const c_void,
                size: usize,
            ) -> $crate::Result<c_int> {
                unsafe { self.$layout_set(layout, what, value, size) }
            }
            unsafe fn preference_create(&self, preference: *mut *mut c_void) -> $crate::Result<c_int> {
                unsafe { self.$preference_create(preference) }
            }
            unsafe fn preference_destroy(&self, preference: *mut c_void) -> $crate::Result<c_int> {
                unsafe { self.$preference_destroy(preference) }
            }
            unsafe fn preference_set(
                &self,
                preference: *mut c_void,
                what: c_int,
                value: *const c_void,
                size: usize,
            ) -> $crate::Result<c_int> {
                unsafe { self.$preference_set(preference, what, value, size) }
            }
            unsafe fn heuristic(
                &self,
                handle: *mut c_void,
                product: *mut c_void,
                [x, y, c, d]: [*mut c_void; 4],
                preference: *mut c_void,
                wanted: c_int,
                found: *mut $crate::vendor::lt::Found<$algorithm>,
                count: *mut c_int,
            ) -> $crate::Result<c_int> {
                unsafe { self.$heuristic(handle, product, x, y, c, d, preference, wanted, found, count) }
            }
            unsafe fn multiply(
                &self,
                handle: *mut c_void,
                product: *mut c_void,
                [alpha, beta]: [*const c_void; 2],
                [x, y, c, d]: [u64; 4],
                [x_layout, y_layout, c_layout, d_layout]: [*mut c_void; 4],
                algorithm: *const $algorithm,
                workspace: u64,
                workspace_bytes: usize,
                stream: *mut c_void,
            ) -> $crate::Result<c_int> {
                unsafe {
                    self.$multiply(
                        handle,
                        product,
                        alpha,
                        x,
                        x_layout,
                        y,
                        y_layout,
                        beta,
                        c,
                        c_layout,
                        d,
                        d_layout,
                        algorithm,
                        workspace,
                        workspace_bytes,
                        stream,
                    )
                }
            }
        }
    };
}
pub(crate) use lt_library;

/// A status as an error that names the call.
fn check(call: &'static str, status: Status) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        code => Err(Error::Driver { call, name: "see the library's status codes".to_owned(), code }),
    }
}

/// `cudaDataType`, `hipDataType`: the same numbers.
fn type_code(dtype: DType) -> Option<c_int> {
    match dtype {
        DType::F32 => Some(0),
        DType::F64 => Some(1),
        DType::F16 => Some(2),
        DType::I8 => Some(3),
        DType::I32 => Some(10),
        DType::BF16 => Some(14),
        DType::I64 | DType::I16 | DType::U64 | DType::U32 | DType::U16 | DType::U8 | DType::Bool => None,
    }
}

/// One and zero in the type that a product is scaled in.
#[derive(Clone, Copy)]
enum Scale {
    F32,
    F64,
    I32,
}

impl Scale {
    fn of(input: DType, output: DType) -> Option<Scale> {
        match (input, output) {
            (DType::F32, DType::F32) => Some(Scale::F32),
            (DType::F16, DType::F16 | DType::F32) | (DType::BF16, DType::BF16 | DType::F32) => Some(Scale::F32),
            (DType::F64, DType::F64) => Some(Scale::F64),
            (DType::I8, DType::I32) => Some(Scale::I32),
            _ => None,
        }
    }

    fn dtype(self) -> DType {
        match self {
            Scale::F32 => DType::F32,
            Scale::F64 => DType::F64,
            Scale::I32 => DType::I32,
        }
    }

    /// Addresses of a one and a zero.
    fn one_and_zero(self) -> [*const c_void; 2] {
        const FLOATS: &[f32; 2] = &[1.0, 0.0];
        const DOUBLES: &[f64; 2] = &[1.0, 0.0];
        const INTEGERS: &[i32; 2] = &[1, 0];
        match self {
            Scale::F32 => [0, 1].map(|at| (&raw const FLOATS[at]).cast()),
            Scale::F64 => [0, 1].map(|at| (&raw const DOUBLES[at]).cast()),
            Scale::I32 => [0, 1].map(|at| (&raw const INTEGERS[at]).cast()),
        }
    }
}

/// A handle of the library's. Its functions may be called from any thread.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: the libraries' handles are tokens; their functions take them from any thread, and handles are thread-safe.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The library for one device.
pub(crate) struct LtVendor<L: LtLibrary> {
    opened: Arc<Opened<L>>,
    name: String,
}

/// What plans need of it, too.
struct Opened<L> {
    library: L,
    /// Never given back: that would wait for the device, and a process has one for each device.
    handle: Handle,
    context: Arc<dyn Context>,
}

impl<L: LtLibrary> LtVendor<L> {
    /// The library over its table; `name` gets the handle and says name and version, or why it will not do.
    pub fn new(
        library: L,
        context: Arc<dyn Context>,
        name: impl FnOnce(&L, *mut c_void) -> Result<String>,
    ) -> Result<LtVendor<L>> {
        context.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle goes to a local; the device is the thread's.
        check("create", unsafe { library.create(&mut handle)? })?;
        let name = name(&library, handle)?;
        Ok(LtVendor { opened: Arc::new(Opened { library, handle: Handle(handle), context }), name })
    }
}

/// An object of the library's that is destroyed with it.
struct Owned<L: LtLibrary> {
    opened: Arc<Opened<L>>,
    handle: Handle,
    destroy: unsafe fn(&L, *mut c_void) -> Result<Status>,
}

impl<L: LtLibrary> Drop for Owned<L> {
    fn drop(&mut self) {
        // Nobody is left to tell of a failure.
        // SAFETY: the object was made by the library, and nothing else has it.
        let _ = unsafe { (self.destroy)(&self.opened.library, self.handle.0) };
    }
}

impl<L: LtLibrary> Opened<L> {
    fn own(self: &Arc<Self>, handle: *mut c_void, destroy: unsafe fn(&L, *mut c_void) -> Result<Status>) -> Owned<L> {
        Owned { opened: Arc::clone(self), handle: Handle(handle), destroy }
    }

    fn product(self: &Arc<Self>, scale: Scale, tf32: bool, transposed: [bool; 2]) -> Result<Owned<L>> {
        let codes = L::CODES;
        let compute = if tf32 { codes.tf32 } else { codes.compute[scale as usize] };
        let scale_code = type_code(scale.dtype()).expect("what is scaled in has a code");
        let mut handle = std::ptr::null_mut();
        // SAFETY: the descriptor goes to a local.
        check("product_create", unsafe { self.library.product_create(&mut handle, compute, scale_code)? })?;
        let owned = self.own(handle, L::product_destroy);
        for (what, transposed) in codes.transpose.into_iter().zip(transposed) {
            let value = codes.operations[usize::from(transposed)];
            let (at, size) = ((&raw const value).cast(), size_of_val(&value));
            // SAFETY: the value is a local of the attribute's type, a 32-bit integer.
            check("product_set", unsafe { self.library.product_set(handle, what, at, size)? })?;
        }
        Ok(owned)
    }

    fn layout(self: &Arc<Self>, dtype: c_int, size: [usize; 2], leading: i64, batch: [i64; 2]) -> Result<Owned<L>> {
        let mut handle = std::ptr::null_mut();
        let [rows, cols] = size.map(|extent| extent as u64);
        // SAFETY: the layout goes to a local.
        check("layout_create", unsafe { self.library.layout_create(&mut handle, dtype, rows, cols, leading)? })?;
        let owned = self.own(handle, L::layout_destroy);
        let [count_code, stride_code] = L::CODES.layout_batch;
        let (count, stride) = (batch[0] as i32, batch[1]);
        // SAFETY: the values are locals of the attributes' types, a 32-bit and a 64-bit integer.
        let (counted, placed) = unsafe {
            (
                self.library.layout_set(handle, count_code, (&raw const count).cast(), size_of_val(&count))?,
                self.library.layout_set(handle, stride_code, (&raw const stride).cast(), size_of_val(&stride))?,
            )
        };
        check("layout_set", counted)?;
        check("layout_set", placed)?;
        Ok(owned)
    }

    fn preference(self: &Arc<Self>, alignment_bytes: [u16; 4]) -> Result<Owned<L>> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the preference goes to a local.
        check("preference_create", unsafe { self.library.preference_create(&mut handle)? })?;
        let owned = self.own(handle, L::preference_destroy);
        let limit = WORKSPACE_BYTES;
        let (at, size) = ((&raw const limit).cast(), size_of_val(&limit));
        // SAFETY: the value is a local of the attribute's type, a 64-bit integer.
        check("preference_set", unsafe { self.library.preference_set(handle, L::CODES.workspace, at, size)? })?;
        for (what, bytes) in L::CODES.alignment.into_iter().flatten().zip(alignment_bytes) {
            let value = u32::from(bytes);
            let (at, size) = ((&raw const value).cast(), size_of_val(&value));
            // SAFETY: the value is a local of the attribute's type, a 32-bit integer.
            check("preference_set", unsafe { self.library.preference_set(handle, what, at, size)? })?;
        }
        Ok(owned)
    }
}

/// A product with the algorithm that was chosen for it.
struct LtPlan<L: LtLibrary> {
    opened: Arc<Opened<L>>,
    product: Owned<L>,
    layouts: [Owned<L>; 3],
    algorithm: L::Algorithm,
    workspace_bytes: usize,
    scale: Scale,
}

impl<L: LtLibrary> VendorGemm for LtVendor<L> {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>> {
        let scale = Scale::of(product.input, product.output);
        let (Some(scale), Some(input), Some(output), Ok(batches)) =
            (scale, type_code(product.input), type_code(product.output), i32::try_from(product.batches))
        else {
            return Ok(None);
        };
        let opened = &self.opened;
        opened.context.enter()?;
        let columns = product.column_major();
        let layout = |which: usize, dtype: c_int| {
            let batch = [i64::from(batches), columns.batch_stride[which]];
            opened.layout(dtype, columns.stored[which], columns.leading[which], batch)
        };
        let layouts = [layout(0, input)?, layout(1, input)?, layout(2, output)?];
        let tf32 = product.tf32 && product.input == DType::F32;
        let described = opened.product(scale, tf32, columns.transposed)?;
        let alignment = [product.b, product.a, product.c, product.c].map(|operand| operand.alignment_bytes);
        let preference = opened.preference(alignment)?;
        let empty = Found {
            algorithm: L::Algorithm::default(),
            workspace_bytes: 0,
            state: SUCCESS,
            waves: 0.0,
            reserved: [0; 4],
        };
        let (mut found, mut count) = ([empty; ALGORITHMS], 0);
        let [x, y, d] = layouts.each_ref().map(|layout| layout.handle.0);
        // SAFETY: all descriptors are alive; the results go to locals with room for as many as are asked for.
        let status = unsafe {
            opened.library.heuristic(
                opened.handle.0,
                described.handle.0,
                [x, y, d, d],
                preference.handle.0,
                ALGORITHMS as c_int,
                found.as_mut_ptr(),
                &mut count,
            )?
        };
        // What it cannot do it says with a status, or with an empty list.
        let count = if status == SUCCESS { usize::try_from(count).unwrap_or(0).min(ALGORITHMS) } else { 0 };
        let usable =
            |found: &&Found<L::Algorithm>| found.state == SUCCESS && found.workspace_bytes as u64 <= WORKSPACE_BYTES;
        let Some(chosen) = found[..count].iter().filter(usable).nth(choice) else { return Ok(None) };
        Ok(Some(Arc::new(LtPlan {
            opened: Arc::clone(opened),
            product: described,
            layouts,
            algorithm: chosen.algorithm,
            workspace_bytes: chosen.workspace_bytes,
            scale,
        })))
    }
}

impl<L: LtLibrary> VendorPlan for LtPlan<L> {
    fn library(&self) -> &'static str {
        L::CODES.library
    }

    fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes as u64
    }

    unsafe fn launch(&self, a: u64, b: u64, c: u64, workspace: u64) -> Result<()> {
        let opened = &self.opened;
        opened.context.enter()?;
        let [x, y, d] = self.layouts.each_ref().map(|layout| layout.handle.0);
        // SAFETY:
        // - handle, descriptors and algorithm are alive and belong together; one and zero are static.
        // - what the addresses lead to is the caller's duty; X is our B, Y our A.
        let status = unsafe {
            opened.library.multiply(
                opened.handle.0,
                self.product.handle.0,
                self.scale.one_and_zero(),
                [b, a, c, c],
                [x, y, d, d],
                &raw const self.algorithm,
                workspace,
                self.workspace_bytes,
                opened.context.stream(),
            )?
        };
        check("multiply", status)
    }
}
