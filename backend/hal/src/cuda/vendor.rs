//! cuBLASLt for a device.

use std::sync::{Arc, OnceLock};

use super::Shared;
use super::api::candidates;
use super::sys::Library;
use super::sys::cublaslt::CublasLt;
use crate::Result;
use crate::collective::{Collectives, library as collective};
use crate::vendor::lt::LtVendor;
use crate::vendor::{Context, VendorGemm};

const NAMES: [&str; 6] = [
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.11",
    "libcublasLt.so",
    "cublasLt64_13.dll",
    "cublasLt64_12.dll",
];

impl Context for Shared {
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is never released.
        self.api.check("cuCtxSetCurrent", unsafe { self.api.cuda().cuCtxSetCurrent(self.context.0)? })
    }

    fn stream(&self) -> *mut std::ffi::c_void {
        self.stream.0
    }
}

const NCCL_NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// NCCL, opened when it is first asked for, for every device.
pub(super) fn collectives(context: &Arc<dyn Context>) -> Collectives<'_> {
    static LIBRARY: OnceLock<Result<collective::Library, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| collective::Library::open("NCCL", &candidates(&NCCL_NAMES)));
    Collectives::Library { library, context }
}

/// The library, open.
///
/// # Errors
/// [`crate::Error::Load`] with what was tried; the library's own.
pub(super) fn open(shared: &Arc<Shared>) -> Result<Box<dyn VendorGemm>> {
    let table = CublasLt::new(Library::open("libcublasLt", &candidates(&NAMES))?);
    let context: Arc<dyn Context> = Arc::clone(shared) as _;
    let name = |table: &CublasLt, _| {
        // SAFETY: it takes nothing.
        let version = unsafe { table.cublasLtGetVersion()? };
        Ok(format!("cuBLASLt {}", version_text(version)))
    };
    Ok(Box::new(LtVendor::new(table, context, name)?))
}

/// A version's parts: from 12 on the major one has the ten thousands.
fn version_text(version: usize) -> String {
    let major_unit = if version < 100_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::version_text;

    #[test]
    fn versions_of_both_schemes_are_told_apart() {
        assert_eq!(version_text(11_402), "11.4.2");
        assert_eq!(version_text(120_805), "12.8.5");
        assert_eq!(version_text(130_100), "13.1.0");
    }
}
