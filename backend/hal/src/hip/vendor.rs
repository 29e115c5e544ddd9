//! hipBLASLt and rocBLAS for a device.
//!
//! Both come with kernels for some architectures only, in files beside the library. Asked for another, some versions of rocBLAS
//! end the process; so the files are looked for first, and a library whose folder is not known is not used. hipBLASLt goes first,
//! where it has kernels; rocBLAS does the element types that hipBLASLt has none for.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocfire_arch::{Arch, Family, Vendor};

use super::sys::hipblaslt::{self, HipblasLt};
use super::sys::rocblas::{self, Rocblas};
use super::{Hip, candidates};
use crate::foreign::{Answer, Handle, Library, SUCCESS};
use crate::gpu::Shared;
use crate::gpu::sys::blas::BlasLt;
use crate::vendor::lt::{LtVendor, Scale};
use crate::vendor::{Addresses, Context, End, Product, VendorGemm, VendorPlan, WORKSPACE_BYTES};
use crate::{DType, Error, Result};

const HIPBLASLT_NAMES: [&str; 4] = ["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so", "libhipblaslt.dll"];
const ROCBLAS_NAMES: [&str; 4] = ["librocblas.so.5", "librocblas.so.4", "librocblas.so", "rocblas.dll"];
/// hipBLASLt from 0.6 on numbers element types as HIP does: ROCm 6.
const HIPBLASLT_OLDEST: c_int = 600;

/// Both libraries, those that can be used.
struct Vendors {
    name: String,
    first: Option<Box<dyn VendorGemm>>,
    second: Option<Box<dyn VendorGemm>>,
    /// Whether f32 goes to the second only: hipBLASLt is 12 times slower than itself beyond 4096 on RDNA 4
    /// (rocm-libraries#10861).
    f32_to_second: bool,
}

impl VendorGemm for Vendors {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>> {
        let skips = self.f32_to_second && product.input == DType::F32;
        if let Some(first) = self.first.as_ref().filter(|_| !skips)
            && let Some(plan) = first.plan(product, choice)?
        {
            return Ok(Some(plan));
        }
        self.second.as_ref().map_or(Ok(None), |second| second.plan(product, choice))
    }
}

/// The libraries, open.
///
/// # Errors
/// Why neither can be used, in words.
pub(super) fn open(shared: &Arc<Shared<Hip>>, arch: Arch) -> Result<Box<dyn VendorGemm>, String> {
    let context: Arc<dyn Context> = Arc::clone(shared) as _;
    let hipblaslt = open_hipblaslt(&candidates(&HIPBLASLT_NAMES), Arc::clone(&context), arch);
    let rocblas = open_rocblas(&candidates(&ROCBLAS_NAMES), shared, arch);
    both(hipblaslt, rocblas, arch)
}

fn both(
    hipblaslt: Result<Box<dyn VendorGemm>, String>,
    rocblas: Result<Box<dyn VendorGemm>, String>,
    arch: Arch,
) -> Result<Box<dyn VendorGemm>, String> {
    let name = match (&hipblaslt, &rocblas) {
        (Ok(first), Ok(second)) => format!("{}, {}", first.name(), second.name()),
        (Ok(first), Err(why)) => format!("{} (rocBLAS: {why})", first.name()),
        (Err(why), Ok(second)) => format!("{} (hipBLASLt: {why})", second.name()),
        (Err(first), Err(second)) => return Err(format!("hipBLASLt: {first}; rocBLAS: {second}")),
    };
    let f32_to_second = arch.info().family == Family::Rdna4;
    Ok(Box::new(Vendors { name, first: hipblaslt.ok(), second: rocblas.ok(), f32_to_second }))
}

/// Refuses a library that has no kernels for an architecture: files named after it in `folder` beside it.
fn require_kernels(library: &Library, folder: &str, variable: &str, arch: Arch) -> Result<(), String> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let beside = library.folder().map(|own| own.join(folder).join("library"));
    let Some(path) = named.or(beside) else {
        return Err(format!("{} was found by its name alone, so not where its kernels are", library.path()));
    };
    if has_kernels(&path, arch) { Ok(()) } else { Err(format!("no kernels for {arch} in {}", path.display())) }
}

fn has_kernels(folder: &Path, arch: Arch) -> bool {
    let is_of = |name: &str| {
        // gfx90a is no prefix of another name, gfx1100 none of gfx11001: the name ends before a sign or a word.
        name.match_indices(arch.name())
            .any(|(at, found)| !name[at + found.len()..].starts_with(|next: char| next.is_ascii_alphanumeric()))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_of(&entry.file_name().to_string_lossy()))
}

fn open_hipblaslt(paths: &[PathBuf], context: Arc<dyn Context>, arch: Arch) -> Result<Box<dyn VendorGemm>, String> {
    let library = Arc::new(Library::open("libhipblaslt", paths).map_err(|error| error.to_string())?);
    require_kernels(&library, "hipblaslt", "HIPBLASLT_TENSILE_LIBPATH", arch)?;
    let own = HipblasLt::new(Arc::clone(&library));
    let version = |handle| {
        let mut version = 0;
        // SAFETY: the version goes to a local.
        let (call, status) = unsafe { own.hipblasLtGetVersion(handle, &mut version)? };
        if status != SUCCESS || version < HIPBLASLT_OLDEST {
            let name = format!("version {version} is older than 0.6");
            return Err(Error::Driver { call, name, code: status });
        }
        Ok(format!("{}.{}.{}", version / 100_000, version % 100_000 / 100, version % 100))
    };
    let table = BlasLt::new(library, Vendor::Amd);
    match LtVendor::<{ hipblaslt::ALGORITHM_WORDS }>::new(table, &hipblaslt::CODES, context, version) {
        Ok(vendor) => Ok(Box::new(vendor)),
        Err(error) => Err(error.to_string()),
    }
}

fn open_rocblas(paths: &[PathBuf], shared: &Arc<Shared<Hip>>, arch: Arch) -> Result<Box<dyn VendorGemm>, String> {
    let library = Library::open("librocblas", paths).map_err(|error| error.to_string())?;
    require_kernels(&library, "rocblas", "ROCBLAS_TENSILE_LIBPATH", arch)?;
    match Opened::new(Rocblas::new(library), Arc::clone(shared)) {
        Ok(opened) => Ok(Box::new(RocblasVendor { name: opened.name(), opened: Arc::new(opened) })),
        Err(error) => Err(error.to_string()),
    }
}

fn check(answer: Answer) -> Result<()> {
    match answer? {
        (_, SUCCESS) => Ok(()),
        (call, code) => Err(Error::Driver { call, name: "see rocBLAS's status codes".to_owned(), code }),
    }
}

/// rocBLAS for one device.
struct RocblasVendor {
    opened: Arc<Opened>,
    name: String,
}

struct Opened {
    table: Rocblas,
    /// Never given back: a process has one for each device. Its functions are called with the stream locked, one at a time.
    handle: Handle,
    shared: Arc<Shared<Hip>>,
}

impl Opened {
    fn new(table: Rocblas, shared: Arc<Shared<Hip>>) -> Result<Opened> {
        shared.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle goes to a local; the device is the thread's.
        check(unsafe { table.rocblas_create_handle(&mut handle) })?;
        // SAFETY: handle and stream are alive and of one device.
        check(unsafe { table.rocblas_set_stream(handle, shared.stream()) })?;
        let mode = rocblas::ATOMICS_NOT_ALLOWED;
        // SAFETY: the handle is alive.
        check(unsafe { table.rocblas_set_atomics_mode(handle, mode) })?;
        // Memory of its own, so that a product asks for none while a graph is recorded.
        let bytes = WORKSPACE_BYTES as usize;
        let workspace = shared.allocate(bytes)?;
        // SAFETY: the memory was just taken and is never given back, as the handle is not.
        check(unsafe { table.rocblas_set_workspace(handle, workspace, bytes) })?;
        Ok(Opened { table, handle: Handle(handle), shared })
    }

    fn name(&self) -> String {
        let mut text = [0_u8; 128];
        // SAFETY: the text goes to a local of the length that is passed.
        let status = unsafe { self.table.rocblas_get_version_string(text.as_mut_ptr().cast(), text.len()) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        match status {
            Ok((_, SUCCESS)) => format!("rocBLAS {}", String::from_utf8_lossy(&text[..end])),
            _ => "rocBLAS of unknown version".to_owned(),
        }
    }
}

/// A product's numbers, as rocBLAS takes them.
struct RocblasPlan {
    opened: Arc<Opened>,
    operations: [c_int; 2],
    /// Rows and columns of D, and K.
    size: [c_int; 3],
    types: [c_int; 3],
    scale: Scale,
    leading: [c_int; 3],
    batch_stride: [i64; 3],
    batches: c_int,
}

impl VendorGemm for RocblasVendor {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>> {
        let scale = Scale::of(product.input, product.output).filter(|_| product.end == End::default());
        let Some(scale) = scale else { return Ok(None) };
        let types = [product.input, product.output, scale.dtype()].map(rocblas::type_code);
        let columns = product.column_major();
        let narrow = |values: [i64; 3]| -> Option<[c_int; 3]> {
            let [x, y, z] = values.map(c_int::try_from);
            Some([x.ok()?, y.ok()?, z.ok()?])
        };
        let size = narrow([columns.size[0] as i64, columns.size[1] as i64, product.k as i64]);
        let (Some(size), Some(leading), Ok(batches), 0) =
            (size, narrow(columns.leading), c_int::try_from(product.batches), choice)
        else {
            return Ok(None);
        };
        let operations = columns.transposed.map(|transposed| rocblas::OPERATIONS[usize::from(transposed)]);
        let (opened, batch_stride) = (Arc::clone(&self.opened), columns.batch_stride);
        Ok(Some(Arc::new(RocblasPlan { opened, operations, size, types, scale, leading, batch_stride, batches })))
    }
}

impl VendorPlan for RocblasPlan {
    fn library(&self) -> &'static str {
        "rocBLAS"
    }

    fn workspace_bytes(&self) -> u64 {
        0
    }

    unsafe fn launch(&self, at: &Addresses) -> Result<()> {
        let Addresses { a, b, c, .. } = *at;
        let [operand, result, compute] = self.types;
        let [one, zero] = self.scale.one_and_zero();
        let ([m, n, k], [ldx, ldy, ldd], [sx, sy, sd]) = (self.size, self.leading, self.batch_stride);
        let opened = &self.opened;
        opened.shared.enter()?;
        // SAFETY:
        // - the handle is alive; one and zero are static.
        // - what the addresses lead to is the caller's duty; X is our B, Y our A.
        #[rustfmt::skip]
        let answer = unsafe {
            opened.table.rocblas_gemm_strided_batched_ex(
                opened.handle.0, self.operations[0], self.operations[1], m, n, k,
                one, b, operand, ldx, sx, a, operand, ldy, sy, zero, c, result, ldd, sd, c, result, ldd, sd,
                self.batches, compute, rocblas::ALGORITHM_STANDARD, 0, 0,
            )
        };
        check(answer)
    }
}

#[cfg(test)]
mod tests;
