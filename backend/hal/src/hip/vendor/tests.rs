//! The two libraries, over `tests/fake/blas.rs`.

use super::super::{Hip, tests::fake_or_skip};
use super::*;
use crate::vendor::Operand;

const M: usize = 3;
const N: usize = 5;
const K: usize = 4;
const BATCHES: usize = 2;

/// The fake libraries beside a folder of kernels for gfx90a, over the fake HIP.
fn fakes_or_skip(test: &str) -> Option<(tempfile::TempDir, Hip, PathBuf)> {
    let (folder, hip) = fake_or_skip(test)?;
    let library = folder.path().join("libblas.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake/blas.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = std::process::Command::new(rustc);
    let built = command.args(["--edition", "2024", "-Copt-level=1", "-o"]).arg(&library).arg(source).output();
    let built = built.expect("it compiled the other fake");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in ["hipblaslt", "rocblas"] {
        let kernels = folder.path().join(name).join("library");
        std::fs::create_dir_all(&kernels).unwrap();
        std::fs::write(kernels.join("TensileLibrary_lazy_gfx90a.dat"), "").unwrap();
    }
    Some((folder, hip, library))
}

fn arch(name: &str) -> Arch {
    Arch::parse(name).unwrap()
}

/// Multiplies by a plan and compares: the memory of the fake HIP is the host's.
fn check_product(hip: &Hip, library: &dyn VendorGemm, along_k: [bool; 2]) {
    check_product_of(hip, library, along_k, None);
}

/// The same with factors a little larger than what TF32 keeps of them: `Some(true)`: these are to be rounded to it.
fn check_product_of(hip: &Hip, library: &dyn VendorGemm, along_k: [bool; 2], rounded: Option<bool>) {
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
    let product = Product { input: DType::F32, output: DType::F32, tf32, m: M, n: N, k: K, batches: BATCHES, a, b, c };
    let plan = library.plan(&product, 0).unwrap().expect("the fakes do f32");
    let first = if rounded.is_some() { 1.0 + BEYOND } else { -6.0 };
    let values = |salt: usize| -> Vec<f32> { (0..100).map(|at| ((at * 7 + salt) % 13) as f32 + first).collect() };
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (a_data, b_data) = (values(1), values(5));
    use crate::driver::Driver;
    let put = |data: &[u8]| {
        let address = hip.allocate(data.len() as u64).unwrap();
        // SAFETY: the memory was just taken.
        unsafe { hip.write(address, data) }.unwrap();
        address
    };
    let (a_at, b_at, c_at) = (put(&bytes(&a_data)), put(&bytes(&b_data)), put(&[0xff; BATCHES * M * N * 4]));
    // The fake libraries multiply at once, the fake HIP copies when it is waited for.
    hip.synchronize().unwrap();
    let workspace = hip.allocate(plan.workspace_bytes().max(1)).unwrap();
    // SAFETY: 100 elements hold either operand, and C has its own.
    unsafe { plan.launch(a_at, b_at, c_at, workspace) }.unwrap();
    let mut got = [0; BATCHES * M * N * 4];
    // SAFETY: C is as long.
    unsafe { hip.read(c_at, &mut got) }.unwrap();
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

#[test]
fn both_libraries_multiply_every_layout() {
    let Some((_folder, hip, library)) = fakes_or_skip("both_libraries_multiply_every_layout") else { return };
    let shared = &hip.shared;
    let paths = [library];
    let first = open_hipblaslt(&paths, Arc::clone(shared) as _, arch("gfx90a")).unwrap();
    let second = open_rocblas(&paths, shared, arch("gfx90a")).unwrap();
    assert_eq!((first.name(), second.name()), ("hipBLASLt 1.2.3", "rocBLAS 4.4.0.fake"));
    for along_k in [[true, false], [true, true], [false, false], [false, true]] {
        check_product(&hip, &*first, along_k);
        check_product(&hip, &*second, along_k);
    }
    // Only where it is allowed, and the library has it.
    check_product_of(&hip, &*first, [true, true], Some(true));
    check_product_of(&hip, &*first, [true, true], Some(false));
    check_product_of(&hip, &*second, [true, true], Some(false));
    let both = together(Ok(first), Ok(second), arch("gfx90a")).unwrap();
    assert_eq!(both.name(), "hipBLASLt 1.2.3, rocBLAS 4.4.0.fake");
    check_product(&hip, &*both, [true, false]);
}

#[test]
fn a_library_without_kernels_for_the_architecture_is_refused() {
    let test = "a_library_without_kernels_for_the_architecture_is_refused";
    let Some((_folder, hip, library)) = fakes_or_skip(test) else { return };
    let paths = [library];
    let refused = open_rocblas(&paths, &hip.shared, arch("gfx1030")).err().unwrap();
    assert!(refused.contains("no kernels for gfx1030"), "{refused}");
    let refused = open_hipblaslt(&paths, Arc::clone(&hip.shared) as _, arch("gfx90a"));
    let one = together(refused, Err("no kernels".to_owned()), arch("gfx90a")).unwrap();
    assert_eq!(one.name(), "hipBLASLt 1.2.3 (rocBLAS: no kernels)");
    let none = together(Err("gone".to_owned()), Err("no kernels".to_owned()), arch("gfx90a")).err().unwrap();
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
