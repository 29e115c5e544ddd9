//! cuBLASLt and hipBLASLt, which differ in names and numbers only: descriptors, the heuristic's list, the product.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Addresses, Coded, Context, End, Product, Scaling, VendorGemm, VendorPlan, WORKSPACE_BYTES};
use crate::foreign::{Answer, Handle, SUCCESS};
use crate::gpu::sys::blas::{BlasLt, Codes, Found};
use crate::{DType, Error, Result};

/// Algorithms that the heuristic is asked for, at most.
const ALGORITHMS: usize = 8;
/// Where scales and biases are while a product is planned, aligned as any: what has none then is planned without. Nothing is read there.
const LATER: u64 = 1 << 12;

/// An answer's status as an error that names the call.
fn check(answer: Answer) -> Result<()> {
    match answer? {
        (_, SUCCESS) => Ok(()),
        (call, code) => Err(Error::Driver { call, name: "see the library's status codes".to_owned(), code }),
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
pub(crate) enum Scale {
    F32,
    F64,
    I32,
}

impl Scale {
    pub fn of(input: DType, output: DType) -> Option<Scale> {
        match (input, output) {
            (DType::F32, DType::F32) => Some(Scale::F32),
            (DType::F16, DType::F16 | DType::F32) | (DType::BF16, DType::BF16 | DType::F32) => Some(Scale::F32),
            (DType::F64, DType::F64) => Some(Scale::F64),
            (DType::I8, DType::I32) => Some(Scale::I32),
            _ => None,
        }
    }

    pub fn dtype(self) -> DType {
        match self {
            Scale::F32 => DType::F32,
            Scale::F64 => DType::F64,
            Scale::I32 => DType::I32,
        }
    }

    /// Addresses of a one and a zero.
    pub fn one_and_zero(self) -> [*const c_void; 2] {
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

/// The library for one device; its algorithms have so many words.
pub(crate) struct LtVendor<const WORDS: usize> {
    opened: Arc<Opened>,
    name: String,
}

/// What plans need of it, too.
struct Opened {
    library: BlasLt,
    codes: &'static Codes,
    /// Never given back: that would wait for the device, and a process has one for each device.
    handle: Handle,
    context: Arc<dyn Context>,
}

impl<const WORDS: usize> LtVendor<WORDS> {
    /// The library over its table; `version` gets the handle and says the version, or why it will not do.
    pub fn new(
        library: BlasLt,
        codes: &'static Codes,
        context: Arc<dyn Context>,
        version: impl FnOnce(*mut c_void) -> Result<String>,
    ) -> Result<LtVendor<WORDS>> {
        context.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle goes to a local; the device is the thread's.
        check(unsafe { library.create(&mut handle) })?;
        let name = format!("{} {}", codes.library, version(handle)?);
        Ok(LtVendor { opened: Arc::new(Opened { library, codes, handle: Handle(handle), context }), name })
    }
}

/// An object of the library's that is destroyed with it.
struct Owned {
    opened: Arc<Opened>,
    handle: Handle,
    destroy: unsafe fn(&BlasLt, *mut c_void) -> Answer,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Nobody is left to tell of a failure.
        // SAFETY: the object was made by the library, and nothing else has it.
        let _ = unsafe { (self.destroy)(&self.opened.library, self.handle.0) };
    }
}

impl Opened {
    fn own(self: &Arc<Self>, handle: *mut c_void, destroy: unsafe fn(&BlasLt, *mut c_void) -> Answer) -> Owned {
        Owned { opened: Arc::clone(self), handle: Handle(handle), destroy }
    }

    fn product(self: &Arc<Self>, scale: Scale, tf32: bool, transposed: [bool; 2]) -> Result<Owned> {
        let codes = self.codes;
        let compute = if tf32 { codes.tf32 } else { codes.compute[scale as usize] };
        let scale_code = type_code(scale.dtype()).expect("what is scaled in has a code");
        let mut handle = std::ptr::null_mut();
        // SAFETY: the descriptor goes to a local.
        check(unsafe { self.library.product_create(&mut handle, compute, scale_code) })?;
        let owned = self.own(handle, BlasLt::product_destroy);
        for (what, transposed) in codes.transpose.into_iter().zip(transposed) {
            // A 32-bit integer.
            self.set::<i32>(&owned, what, codes.operations[usize::from(transposed)])?;
        }
        Ok(owned)
    }

    fn set<T: Copy>(&self, product: &Owned, what: c_int, value: T) -> Result<()> {
        // SAFETY: the value is a local of the attribute's type, as the callers say.
        check(unsafe { self.library.product_set(product.handle.0, what, (&raw const value).cast(), size_of::<T>()) })
    }

    fn layout(self: &Arc<Self>, dtype: c_int, size: [usize; 2], leading: i64, batch: [i64; 2]) -> Result<Owned> {
        let mut handle = std::ptr::null_mut();
        let [rows, cols] = size.map(|extent| extent as u64);
        // SAFETY: the layout goes to a local.
        check(unsafe { self.library.layout_create(&mut handle, dtype, rows, cols, leading) })?;
        let owned = self.own(handle, BlasLt::layout_destroy);
        let [count_code, stride_code] = self.codes.layout_batch;
        let (count, stride) = (batch[0] as i32, batch[1]);
        // SAFETY: the values are locals of the attributes' types, a 32-bit and a 64-bit integer.
        let (counted, placed) = unsafe {
            (
                self.library.layout_set(handle, count_code, (&raw const count).cast(), size_of_val(&count)),
                self.library.layout_set(handle, stride_code, (&raw const stride).cast(), size_of_val(&stride)),
            )
        };
        check(counted)?;
        check(placed)?;
        Ok(owned)
    }

    /// Says how X and Y are scaled. One scale for a whole factor is the default and is left unsaid, since older libraries lack the
    /// attribute. Sums are as precise as the library can, which is a default, too (`..._FAST_ACCUM`).
    fn scaled_by(&self, product: &Owned, modes: [c_int; 2]) -> Result<()> {
        let mut modes = self.codes.scale_mode.into_iter().zip(modes).filter(|&(_, mode)| mode != 0);
        // 32-bit integers.
        modes.try_for_each(|(what, mode)| self.set::<i32>(product, what, mode))
    }

    /// Says where X's and Y's scales are.
    fn scaled_at(&self, product: &Owned, addresses: [u64; 2]) -> Result<()> {
        let mut addresses = self.codes.scale_pointer.into_iter().zip(addresses);
        addresses.try_for_each(|(what, address)| self.set::<u64>(product, what, address))
    }

    /// Says what is done to sums; `false` for what the library has no name for.
    fn ended(&self, product: &Owned, end: &End) -> Result<bool> {
        if *end == End::default() {
            return Ok(true);
        }
        let Some(epilogue) = self.codes.epilogues[end.activation as usize][usize::from(end.bias.is_some())] else {
            return Ok(false);
        };
        // A 32-bit integer, as types are.
        self.set::<i32>(product, self.codes.epilogue, epilogue)?;
        if let Some(bias) = end.bias {
            let Some(dtype) = type_code(bias) else { return Ok(false) };
            self.set::<i32>(product, self.codes.bias[1], dtype)?;
        }
        self.ended_at(product, end, [LATER; 2])?;
        Ok(true)
    }

    /// Says where a bias and the scale of coded results are, of an end that has them.
    fn ended_at(&self, product: &Owned, end: &End, [bias, scale]: [u64; 2]) -> Result<()> {
        if end.bias.is_some() {
            self.set::<u64>(product, self.codes.bias[0], bias)?;
        }
        if end.code.is_some() {
            self.set::<u64>(product, self.codes.d_scale_pointer, scale)?;
        }
        Ok(())
    }

    /// The library's types of A's and B's codes and, where there are scales, its name for how they lie; `None` for what it lacks.
    fn coded(&self, coded: &Coded) -> Option<([c_int; 2], Option<[c_int; 2]>)> {
        let [a, b] = coded.codes.map(|code| self.codes.code_types[code as usize]);
        let types = [a?, b?];
        if coded.scaling == [Scaling::None; 2] {
            return Some((types, None));
        }
        let mode = |scaling: Scaling| self.codes.scale_modes[(scaling as usize).checked_sub(1)?];
        let [a, b] = coded.scaling.map(mode);
        Some((types, Some([a?, b?])))
    }

    fn preference(self: &Arc<Self>, alignment_bytes: [u16; 4]) -> Result<Owned> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the preference goes to a local.
        check(unsafe { self.library.preference_create(&mut handle) })?;
        let owned = self.own(handle, BlasLt::preference_destroy);
        let limit = WORKSPACE_BYTES;
        let (at, size) = ((&raw const limit).cast(), size_of_val(&limit));
        // SAFETY: the value is a local of the attribute's type, a 64-bit integer.
        check(unsafe { self.library.preference_set(handle, self.codes.workspace, at, size) })?;
        for (what, bytes) in self.codes.alignment.into_iter().flatten().zip(alignment_bytes) {
            let value = u32::from(bytes);
            let (at, size) = ((&raw const value).cast(), size_of_val(&value));
            // SAFETY: the value is a local of the attribute's type, a 32-bit integer.
            check(unsafe { self.library.preference_set(handle, what, at, size) })?;
        }
        Ok(owned)
    }
}

/// A product with the algorithm that was chosen for it.
struct LtPlan<const WORDS: usize> {
    opened: Arc<Opened>,
    product: Owned,
    /// Of X, Y, C and D.
    layouts: [Owned; 4],
    algorithm: [u64; WORDS],
    workspace_bytes: usize,
    scale: Scale,
    has_scales: bool,
    end: End,
    /// Addresses of scales and of a bias are attributes of the product, so one launch at a time sets them.
    setting: Mutex<()>,
}

impl<const WORDS: usize> VendorGemm for LtVendor<WORDS> {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>> {
        let opened = &self.opened;
        let (scale, types, modes) = match &product.coded {
            // Sums are f32.
            Some(coded)
                if matches!(product.output, DType::F32 | DType::F16 | DType::BF16) != product.end.code.is_some() =>
            {
                let Some((types, modes)) = opened.coded(coded) else { return Ok(None) };
                (Some(Scale::F32), types.map(Some), modes)
            }
            Some(_) => return Ok(None),
            None if product.end != End::default() => return Ok(None),
            None => (Scale::of(product.input, product.output), [type_code(product.input); 2], None),
        };
        let output = match product.end.code {
            Some(code) => opened.codes.code_types[code as usize],
            None => type_code(product.output),
        };
        let (Some(scale), [Some(a_type), Some(b_type)], Some(output), Ok(batches)) =
            (scale, types, output, i32::try_from(product.batches))
        else {
            return Ok(None);
        };
        opened.context.enter()?;
        let columns = product.column_major();
        let layout = |which: usize, dtype: c_int| {
            let batch = [i64::from(batches), columns.batch_stride[which]];
            opened.layout(dtype, columns.stored[which], columns.leading[which], batch)
        };
        let added = match (product.end.code, opened.codes.beside_codes.and_then(type_code)) {
            (Some(_), Some(beside)) => beside,
            _ => output,
        };
        let layouts = [layout(0, b_type)?, layout(1, a_type)?, layout(2, added)?, layout(2, output)?];
        let tf32 = product.tf32 && product.input == DType::F32;
        let described = opened.product(scale, tf32, columns.transposed)?;
        if let Some([a_mode, b_mode]) = modes {
            opened.scaled_by(&described, [b_mode, a_mode])?;
            opened.scaled_at(&described, [LATER; 2])?;
        }
        if !opened.ended(&described, &product.end)? {
            return Ok(None);
        }
        let alignment = [product.b, product.a, product.c, product.c].map(|operand| operand.alignment_bytes);
        let preference = opened.preference(alignment)?;
        let empty = Found { algorithm: [0; WORDS], workspace_bytes: 0, state: SUCCESS, waves: 0.0, reserved: [0; 4] };
        let (mut found, mut count) = ([empty; ALGORITHMS], 0);
        let [x, y, c, d] = layouts.each_ref().map(|layout| layout.handle.0);
        // SAFETY: all descriptors are alive; the results go to locals with room for as many as are asked for.
        #[rustfmt::skip]
        let (_, status) = unsafe {
            opened.library.heuristic(
                opened.handle.0, described.handle.0, x, y, c, d, preference.handle.0, ALGORITHMS as c_int,
                found.as_mut_ptr().cast(), &mut count,
            )?
        };
        // What it cannot do it says with a status, or with an empty list.
        let count = if status == SUCCESS { usize::try_from(count).unwrap_or(0).min(ALGORITHMS) } else { 0 };
        let usable = |found: &&Found<WORDS>| found.state == SUCCESS && found.workspace_bytes as u64 <= WORKSPACE_BYTES;
        let Some(chosen) = found[..count].iter().filter(usable).nth(choice) else { return Ok(None) };
        Ok(Some(Arc::new(LtPlan {
            opened: Arc::clone(opened),
            product: described,
            layouts,
            algorithm: chosen.algorithm,
            workspace_bytes: chosen.workspace_bytes,
            scale,
            has_scales: modes.is_some(),
            end: product.end,
            setting: Mutex::default(),
        })))
    }
}

impl<const WORDS: usize> VendorPlan for LtPlan<WORDS> {
    fn library(&self) -> &'static str {
        self.opened.codes.library
    }

    fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes as u64
    }

    unsafe fn launch(&self, at: &Addresses) -> Result<()> {
        let &Addresses { a, b, c, scales: [a_scales, b_scales], end, workspace } = at;
        let opened = &self.opened;
        opened.context.enter()?;
        // Until the product is on the stream: the library has read its description then.
        let is_set = self.has_scales || self.end != End::default();
        let _one_launch = is_set.then(|| self.setting.lock().unwrap_or_else(PoisonError::into_inner));
        if self.has_scales {
            opened.scaled_at(&self.product, [b_scales, a_scales])?;
        }
        opened.ended_at(&self.product, &self.end, end)?;
        let [x, y, added, d] = self.layouts.each_ref().map(|layout| layout.handle.0);
        let [one, zero] = self.scale.one_and_zero();
        // Nothing is added; what has a type of its own may not lie where codes go.
        let added_at = if self.end.code.is_some() && opened.codes.beside_codes.is_some() { 0 } else { c };
        // SAFETY:
        // - handle, descriptors and algorithm are alive and belong together; one and zero are static.
        // - what the addresses lead to is the caller's duty; X is our B, Y our A.
        #[rustfmt::skip]
        let answer = unsafe {
            opened.library.multiply(
                opened.handle.0, self.product.handle.0, one, b, x, a, y, zero, added_at, added, c, d, self.algorithm.as_ptr(),
                workspace, self.workspace_bytes, opened.context.stream(),
            )
        };
        check(answer)
    }
}
