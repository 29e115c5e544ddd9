//! cuBLASLt for a device.

use std::path::PathBuf;
use std::sync::Arc;

use rocfire_arch::Vendor;

use super::candidates;
use super::sys::cublaslt::{ALGORITHM_WORDS, CODES, CublasLt};
use crate::Result;
use crate::foreign::Library;
use crate::gpu::sys::blas::BlasLt;
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

/// The library, open.
///
/// # Errors
/// [`crate::Error::Load`] with what was tried; the library's own.
pub(super) fn open(context: Arc<dyn Context>) -> Result<Box<dyn VendorGemm>> {
    open_at(&candidates(&NAMES), context)
}

fn open_at(paths: &[PathBuf], context: Arc<dyn Context>) -> Result<Box<dyn VendorGemm>> {
    let library = Arc::new(Library::open("libcublasLt", paths)?);
    let own = CublasLt::new(Arc::clone(&library));
    // SAFETY: it takes nothing.
    let version = |_| Ok(version_text(unsafe { own.cublasLtGetVersion()? }.1));
    let table = BlasLt::new(library, Vendor::Nvidia);
    Ok(Box::new(LtVendor::<ALGORITHM_WORDS>::new(table, &CODES, context, version)?))
}

/// A version's parts: from 12 on the major one has the ten thousands.
fn version_text(version: usize) -> String {
    let major_unit = if version < 100_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Cuda;
    use crate::gpu::tests::coded;
    use crate::gpu::tests::products::{blas_or_skip, check_product_of, check_products};
    use crate::vendor::Code::{E4M3, E4M3Fnuz, E5M2};
    use crate::vendor::EndActivation;
    use crate::vendor::Scaling::{Block128, Line, Mx32, None as Unscaled, Run128, Tensor};

    #[test]
    fn cublaslt_multiplies_every_layout() {
        let test = "cublaslt_multiplies_every_layout";
        let Some((_folder, _fake, cuda, library)) = blas_or_skip::<Cuda>(test) else { return };
        let blas = open_at(&[library], Arc::clone(cuda.shared()) as _).unwrap();
        assert_eq!(blas.name(), "cuBLASLt 13.1.0");
        check_products(&cuda, &*blas);
        check_product_of(&cuda, &*blas, [true, true], Some(true));
    }

    #[test]
    fn cublaslt_multiplies_codes_with_every_scaling_that_it_has() {
        let test = "cublaslt_multiplies_codes_with_every_scaling_that_it_has";
        let Some((_folder, _fake, cuda, library)) = blas_or_skip::<Cuda>(test) else { return };
        let blas = open_at(&[library], Arc::clone(cuda.shared()) as _).unwrap();
        let ways = [[Tensor; 2], [Line; 2], [Run128; 2], [Run128, Block128], [Block128, Run128], [Unscaled; 2]];
        coded::check_scaled_products(&cuda, &*blas, &[[E4M3; 2], [E4M3, E5M2], [E5M2, E4M3]], &ways);
        coded::check_bytes(&cuda, &*blas);
        let refused = [
            ([E4M3; 2], [Block128; 2]),
            ([E4M3; 2], [Mx32; 2]),
            ([E4M3; 2], [Line, Tensor]),
            ([E4M3; 2], [Unscaled, Tensor]),
            ([E4M3Fnuz; 2], [Tensor; 2]),
            ([E5M2; 2], [Tensor; 2]),
        ];
        coded::check_refused(&*blas, &refused);
        coded::check_odd_layouts_are_refused(&*blas, [E4M3; 2]);
        coded::check_ends(&cuda, &*blas, E4M3, &[EndActivation::Silu]);
    }

    #[test]
    fn versions_of_both_schemes_are_told_apart() {
        assert_eq!(version_text(11_402), "11.4.2");
        assert_eq!(version_text(120_805), "12.8.5");
        assert_eq!(version_text(130_100), "13.1.0");
    }
}
