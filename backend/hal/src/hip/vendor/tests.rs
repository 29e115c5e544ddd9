//! The two libraries, over `tests/fake/blas.rs`.

use super::*;
use crate::gpu::tests::coded;
use crate::gpu::tests::products::{blas_or_skip, check_product, check_product_of, check_products};
use crate::vendor::Code::{E2M1, E4M3, E4M3Fnuz, E5M2Fnuz};
use crate::vendor::Scaling::{Block128, Line, Mx32, None as Unscaled, Run128, Tensor};

fn arch(name: &str) -> Arch {
    Arch::parse(name).unwrap()
}

#[test]
fn both_libraries_multiply_every_layout() {
    let test = "both_libraries_multiply_every_layout";
    let Some((_folder, _fake, hip, library)) = blas_or_skip::<Hip>(test) else { return };
    let shared = hip.shared();
    let paths = [library];
    let first = open_hipblaslt(&paths, Arc::clone(shared) as _, arch("gfx90a")).unwrap();
    let second = open_rocblas(&paths, shared, arch("gfx90a")).unwrap();
    assert_eq!((first.name(), second.name()), ("hipBLASLt 1.2.3", "rocBLAS 4.4.0.fake"));
    check_products(&hip, &*first);
    check_products(&hip, &*second);
    // Only where it is allowed, and the library has it.
    check_product_of(&hip, &*first, [true, true], Some(true));
    let both = both(Ok(first), Ok(second), arch("gfx90a")).unwrap();
    assert_eq!(both.name(), "hipBLASLt 1.2.3, rocBLAS 4.4.0.fake");
    check_product(&hip, &*both, [true, false]);
}

#[test]
fn hipblaslt_multiplies_codes_with_every_scaling_that_it_has() {
    let test = "hipblaslt_multiplies_codes_with_every_scaling_that_it_has";
    let Some((_folder, _fake, hip, library)) = blas_or_skip::<Hip>(test) else { return };
    let paths = [library];
    let blas = open_hipblaslt(&paths, Arc::clone(hip.shared()) as _, arch("gfx90a")).unwrap();
    let ways = [[Tensor; 2], [Line; 2], [Unscaled; 2]];
    coded::check_scaled_products(&hip, &*blas, &[[E4M3Fnuz; 2], [E5M2Fnuz, E4M3Fnuz], [E4M3; 2]], &ways);
    coded::check_scaled_products(&hip, &*blas, &[[E4M3; 2], [E2M1; 2], [E4M3, E2M1]], &[[Mx32; 2]]);
    coded::check_bytes(&hip, &*blas);
    let refused = [
        ([E4M3; 2], [Run128; 2]),
        ([E4M3; 2], [Run128, Block128]),
        ([E4M3; 2], [Line, Tensor]),
        ([E4M3; 2], [Mx32, Tensor]),
    ];
    coded::check_refused(&*blas, &refused);
    coded::check_odd_layouts_are_refused(&*blas, [E4M3Fnuz; 2]);
    coded::check_ends(&hip, &*blas, E4M3, &[]);
    // Codes are hipBLASLt's alone.
    let other = open_rocblas(&paths, hip.shared(), arch("gfx90a")).unwrap();
    coded::check_refused(&*other, &[([E4M3Fnuz; 2], [Tensor; 2])]);
}

#[test]
fn a_library_without_kernels_for_the_architecture_is_refused() {
    let test = "a_library_without_kernels_for_the_architecture_is_refused";
    let Some((_folder, _fake, hip, library)) = blas_or_skip::<Hip>(test) else { return };
    let paths = [library];
    let refused = open_rocblas(&paths, hip.shared(), arch("gfx1030")).err().unwrap();
    assert!(refused.contains("no kernels for gfx1030"), "{refused}");
    let refused = open_hipblaslt(&paths, Arc::clone(hip.shared()) as _, arch("gfx90a"));
    let one = both(refused, Err("no kernels".to_owned()), arch("gfx90a")).unwrap();
    assert_eq!(one.name(), "hipBLASLt 1.2.3 (rocBLAS: no kernels)");
    let none = both(Err("gone".to_owned()), Err("no kernels".to_owned()), arch("gfx90a")).err().unwrap();
    assert_eq!(none, "hipBLASLt: gone; rocBLAS: no kernels");
}

#[test]
fn kernels_are_known_by_whole_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("TensileLibrary_gfx1100-xnack.dat"), "").unwrap();
    assert!(has_kernels(folder.path(), arch("gfx1100")));
    std::fs::write(folder.path().join("TensileLibrary_gfx90abc.dat"), "").unwrap();
    assert!(!has_kernels(folder.path(), arch("gfx90a")) && !has_kernels(folder.path(), arch("gfx1101")));
}
