//! Products by the vendors' libraries, over `tests/fake/blas.rs`.

use super::super::{Gpu, Platform};
use super::{Fake, built_or_skip, fake_or_skip, put};
use crate::DType;
use crate::driver::Driver;
use crate::vendor::{Addresses, End, Operand, Product, VendorGemm};

const M: usize = 3;
const N: usize = 5;
const K: usize = 4;
const BATCHES: usize = 2;

/// The fake libraries beside a folder of kernels for gfx90a, over the fake platform.
pub(crate) fn blas_or_skip<P: Platform>(test: &str) -> Option<(tempfile::TempDir, Fake, Gpu<P>, std::path::PathBuf)> {
    let (fake, gpu) = fake_or_skip(test)?;
    let (folder, library) = built_or_skip(test, "blas", P::VENDOR)?;
    for name in ["hipblaslt", "rocblas"] {
        let kernels = folder.path().join(name).join("library");
        std::fs::create_dir_all(&kernels).unwrap();
        std::fs::write(kernels.join("TensileLibrary_lazy_gfx90a.dat"), "").unwrap();
    }
    Some((folder, fake, gpu, library))
}

/// Multiplies by a plan and compares: the memory of the fakes is the host's.
pub(crate) fn check_product<P: Platform>(gpu: &Gpu<P>, library: &dyn VendorGemm, along_k: [bool; 2]) {
    check_product_of(gpu, library, along_k, None);
}

/// The same with factors a little larger than what TF32 keeps of them: `Some(true)`: these are to be rounded to it.
pub(crate) fn check_product_of<P: Platform>(
    gpu: &Gpu<P>,
    library: &dyn VendorGemm,
    along_k: [bool; 2],
    rounded: Option<bool>,
) {
    // A bit that f32 has of numbers from 1 to 16, and TF32 has not.
    const BEYOND: f32 = 1.0 / 8192.0;
    let operand = |along_k: bool, lines: usize| {
        let leading = if along_k { K } else { lines } as i64 + 1;
        let batch_stride = leading * if along_k { lines } else { K } as i64;
        Operand { leading, along_k, batch_stride, alignment_bytes: 256 }
    };
    let (a, b) = (operand(along_k[0], M), operand(along_k[1], N));
    let c = Operand { leading: N as i64, along_k: false, batch_stride: (M * N) as i64, alignment_bytes: 256 };
    let tf32 = rounded == Some(true);
    let (input, output) = (DType::F32, DType::F32);
    let product =
        Product { input, coded: None, output, end: End::default(), tf32, m: M, n: N, k: K, batches: BATCHES, a, b, c };
    let plan = library.plan(&product, 0).unwrap().expect("the fakes do f32");
    let first = if rounded.is_some() { 1.0 + BEYOND } else { -6.0 };
    let values = |salt: usize| -> Vec<f32> { (0..100).map(|at| ((at * 7 + salt) % 13) as f32 + first).collect() };
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (a_data, b_data) = (values(1), values(5));
    let (a_at, b_at) = (put(gpu, &bytes(&a_data)), put(gpu, &bytes(&b_data)));
    let c_at = put(gpu, &[0xff; BATCHES * M * N * 4]);
    let workspace = gpu.allocate(plan.workspace_bytes().max(1)).unwrap();
    // SAFETY: 100 elements hold either operand, and C has its own.
    unsafe { plan.launch(&Addresses { a: a_at, b: b_at, c: c_at, scales: [0; 2], end: [0; 2], workspace }) }.unwrap();
    let mut got = [0; BATCHES * M * N * 4];
    // SAFETY: C is as long.
    unsafe { gpu.read(c_at, &mut got) }.unwrap();
    let got: Vec<f32> = got.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
    let at = |operand: &Operand, batch: usize, line: usize, depth: usize| {
        let leading = operand.leading as usize;
        let inner = if operand.along_k { line * leading + depth } else { depth * leading + line };
        batch * operand.batch_stride as usize + inner
    };
    for (index, &value) in got.iter().enumerate() {
        let (batch, row, column) = (index / (M * N), index / N % M, index % N);
        let kept = |factor: f32| if tf32 { factor.floor() } else { factor };
        let pairs = (0..K).map(|depth| (a_data[at(&a, batch, row, depth)], b_data[at(&b, batch, column, depth)]));
        let expected: f32 = pairs.map(|(a, b)| kept(a) * kept(b)).sum();
        assert_eq!(value, expected, "{} {along_k:?}: {batch} {row} {column}", plan.library());
    }
}

/// Every layout; TF32 only where it is allowed.
pub(crate) fn check_products<P: Platform>(gpu: &Gpu<P>, library: &dyn VendorGemm) {
    for along_k in [[true, false], [true, true], [false, false], [false, true]] {
        check_product(gpu, library, along_k);
    }
    check_product_of(gpu, library, [true, true], Some(false));
}
