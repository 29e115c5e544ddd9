//! Products of codes with scales and of bytes by the vendors' libraries, over `tests/fake/blas.rs`.

use super::super::{Gpu, Platform};
use super::put;
use crate::DType;
use crate::driver::Driver;
use crate::vendor::{Addresses, Code, Coded, End, EndActivation, Operand, Product, Scaling, VendorGemm, VendorPlan};

/// M, N, K: two squares of 128 columns, and three runs of 128 along K, so that a row of squares is filled up. The last are not whole.
const SIZE: [usize; 3] = [20, 144, 272];
/// The same where scales are by 32 along K: 128 divides it.
const SIZE_BY_32: [usize; 3] = [20, 144, 256];

/// Bytes and what they say.
fn alphabet(code: Code) -> [(u8, f64); 4] {
    let [one, two, minus_three] = match code {
        Code::E4M3 => [0x38, 0x40, 0xc4],
        Code::E5M2 => [0x3c, 0x40, 0xc2],
        Code::E4M3Fnuz => [0x40, 0x48, 0xcc],
        Code::E5M2Fnuz => [0x40, 0x44, 0xc6],
        Code::E2M1 => [2, 4, 13],
    };
    [(0, 0.0), (one, 1.0), (two, 2.0), (minus_three, -3.0)]
}

/// What is where, without order.
fn pick(line: usize, depth: usize, salt: usize) -> usize {
    (line * 7 + depth * 5 + line * depth / 11 + salt) % 4
}

/// Codes of `lines` of `leading` codes each, of which `k` are looked at.
fn codes(code: Code, lines: usize, leading: usize, salt: usize) -> Vec<u8> {
    let at = |index: usize| alphabet(code)[pick(index / leading, index % leading, salt)].0;
    match code {
        Code::E2M1 => (0..lines * leading / 2).map(|byte| at(2 * byte) | at(2 * byte + 1) << 4).collect(),
        _ => (0..lines * leading).map(at).collect(),
    }
}

/// Lines and depth that share a scale.
fn block(scaling: Scaling) -> [usize; 2] {
    match scaling {
        Scaling::None | Scaling::Tensor => [usize::MAX; 2],
        Scaling::Line => [1, usize::MAX],
        Scaling::Run128 => [1, 128],
        Scaling::Block128 => [128, 128],
        Scaling::Mx32 => [1, 32],
    }
}

/// The exponent of a block's scale, so that no product is rounded.
fn exponent(block: [usize; 2], salt: usize) -> i32 {
    ((block[0] * 3 + block[1] * 5 + salt) % 4) as i32 - 2
}

/// Scales as the library is to find them.
fn scales(scaling: Scaling, [lines, k]: [usize; 2], salt: usize) -> Vec<u8> {
    let value = |line: usize, depth: usize| 2f32.powi(exponent([line, depth], salt)).to_le_bytes();
    let (runs, squares) = (k.div_ceil(128), lines.div_ceil(128));
    match scaling {
        Scaling::None => Vec::new(),
        Scaling::Tensor => value(0, 0).to_vec(),
        Scaling::Line => (0..lines).flat_map(|line| value(line, 0)).collect(),
        Scaling::Run128 => (0..runs).flat_map(|run| (0..lines).flat_map(move |line| value(line, run))).collect(),
        Scaling::Block128 => {
            let row = runs.next_multiple_of(4);
            // What fills a row up is NaN.
            let at = |square: usize, run: usize| if run < runs { value(square, run) } else { [0xff; 4] };
            (0..squares).flat_map(|square| (0..row).flat_map(move |run| at(square, run))).collect()
        }
        Scaling::Mx32 => {
            let at = |line: usize, run: usize| (127 + exponent([line, run], salt)) as u8;
            (0..lines).flat_map(|line| (0..k / 32).map(move |run| at(line, run))).collect()
        }
    }
}

fn product(coded: Coded, [m, n, k]: [usize; 3]) -> Product {
    let operand =
        |leading: usize| Operand { leading: leading as i64, along_k: true, batch_stride: 0, alignment_bytes: 256 };
    let c = Operand { along_k: false, ..operand(n + 8) };
    let (input, output, coded) = (DType::U8, DType::BF16, Some(coded));
    let (a, b) = (operand(k + 16), operand(k + 32));
    Product { input, coded, output, end: End::default(), tf32: false, m, n, k, batches: 1, a, b, c }
}

/// Multiplies by a plan, twice, with other scales the second time, and compares.
fn check_coded<P: Platform>(gpu: &Gpu<P>, library: &dyn VendorGemm, coded: Coded) {
    let Coded { codes: [a_code, b_code], scaling: [a_scaling, b_scaling] } = coded;
    let [m, n, k] = if a_scaling == Scaling::Mx32 { SIZE_BY_32 } else { SIZE };
    let product = product(coded, [m, n, k]);
    let plan = library.plan(&product, 0).unwrap().unwrap_or_else(|| panic!("{coded:?}"));
    let (a, b) = (put(gpu, &codes(a_code, m, k + 16, 1)), put(gpu, &codes(b_code, n, k + 32, 2)));
    let workspace = gpu.allocate(plan.workspace_bytes().max(1)).unwrap();
    for turn in 0..2 {
        let (a_salt, b_salt) = (turn, 3 * turn + 1);
        let at = |scaling: Scaling, lines: usize, salt: usize| match scaling {
            Scaling::None => 0,
            _ => put(gpu, &scales(scaling, [lines, k], salt)),
        };
        let at = [at(a_scaling, m, a_salt), at(b_scaling, n, b_salt)];
        let mut got = vec![0xff; m * (n + 8) * 2];
        let c = put(gpu, &got);
        // SAFETY: all of it was put there as the product says.
        unsafe { plan.launch(&Addresses { a, b, c, scales: at, end: [0; 2], workspace }) }.unwrap();
        // SAFETY: C is as long.
        unsafe { gpu.read(c, &mut got) }.unwrap();
        let factor = |code: Code, scaling: Scaling, line: usize, depth: usize, salt: [usize; 2]| {
            let [lines, run] = block(scaling);
            let exponent = if scaling == Scaling::None { 0 } else { exponent([line / lines, depth / run], salt[1]) };
            alphabet(code)[pick(line, depth, salt[0])].1 * 2f64.powi(exponent)
        };
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let a = |depth: usize| factor(a_code, a_scaling, row, depth, [1, a_salt]);
            let b = |depth: usize| factor(b_code, b_scaling, column, depth, [2, b_salt]);
            let expected = (0..k).map(|depth| a(depth) * b(depth)).sum::<f64>() as f32;
            let at = (row * (n + 8) + column) * 2;
            let bits = u16::from_le_bytes([got[at], got[at + 1]]);
            assert_eq!(bits, (expected.to_bits() >> 16) as u16, "{coded:?}, turn {turn}: {row} {column} {expected}");
        }
    }
}

/// Every way of scaling that the library has.
pub(crate) fn check_scaled_products<P: Platform>(
    gpu: &Gpu<P>,
    library: &dyn VendorGemm,
    codes: &[[Code; 2]],
    ways: &[[Scaling; 2]],
) {
    for (&codes, &scaling) in codes.iter().flat_map(|codes| ways.iter().map(move |way| (codes, way))) {
        check_coded(gpu, library, Coded { codes, scaling });
    }
}

/// Every end that the library has behind products by one scale of each side, and those that it has not; into numbers and codes.
pub(crate) fn check_ends<P: Platform>(gpu: &Gpu<P>, library: &dyn VendorGemm, code: Code, lacks: &[EndActivation]) {
    use EndActivation::{GeluTanh, None as Same, Relu, Silu};
    for activation in [Same, Relu, GeluTanh, Silu] {
        for (bias, coded) in [(false, false), (true, false), (false, true), (true, true)] {
            let end = End { bias: bias.then_some(DType::BF16), activation, code: coded.then_some(code) };
            let whole = product(Coded { codes: [code; 2], scaling: [Scaling::Tensor; 2] }, SIZE);
            let output = if coded { DType::U8 } else { whole.output };
            let plan = library.plan(&Product { end, output, ..whole }, 0).unwrap();
            assert_eq!(plan.is_none(), lacks.contains(&activation), "{end:?}");
            if let Some(plan) = plan {
                check_end(gpu, &*plan, code, end);
            }
        }
    }
    let bytes = Product { input: DType::I8, output: DType::I32, coded: None, ..product(NO_SCALES, SIZE) };
    let end = End { activation: Relu, ..End::default() };
    assert!(library.plan(&bytes, 0).unwrap().is_some());
    assert!(library.plan(&Product { end, ..bytes }, 0).unwrap().is_none(), "nothing follows sums of bytes");
}

const NO_SCALES: Coded = Coded { codes: [Code::E4M3; 2], scaling: [Scaling::None; 2] };

/// What becomes of a sum with its bias.
fn activated(activation: EndActivation, x: f64) -> f64 {
    match activation {
        EndActivation::None => x,
        EndActivation::Relu => x.max(0.0),
        EndActivation::GeluTanh => {
            x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        EndActivation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// The bias of a column: other ones the second time.
fn bias_of(column: usize, turn: usize) -> f64 {
    ((column * 5 + turn * 3) % 9) as f64 - 4.0
}

/// Multiplies by a plan with an end, twice, with another bias and another scale of C the second time.
fn check_end<P: Platform>(gpu: &Gpu<P>, plan: &dyn VendorPlan, code: Code, end: End) {
    let [m, n, k] = SIZE;
    let (a, b) = (put(gpu, &codes(code, m, k + 16, 1)), put(gpu, &codes(code, n, k + 32, 2)));
    let workspace = gpu.allocate(plan.workspace_bytes().max(1)).unwrap();
    let one = |value: f32| put(gpu, &value.to_le_bytes());
    for turn in 0..2 {
        // Sums are small enough for functions that are curved near 0.
        let scales = [one(1.0 / 64.0), one(1.0)];
        let factor = if turn == 0 { 2.0 } else { 64.0 };
        let biases: Vec<u8> =
            (0..n).flat_map(|column| (((bias_of(column, turn) as f32).to_bits() >> 16) as u16).to_le_bytes()).collect();
        let at_end =
            [if end.bias.is_some() { put(gpu, &biases) } else { 0 }, if end.code.is_some() { one(factor) } else { 0 }];
        let bytes = if end.code.is_some() { 1 } else { 2 };
        let mut got = vec![0xff; m * (n + 8) * bytes];
        let c = put(gpu, &got);
        // SAFETY: all of it was put there as the product says.
        unsafe { plan.launch(&Addresses { a, b, c, scales, end: at_end, workspace }) }.unwrap();
        // SAFETY: C is as long.
        unsafe { gpu.read(c, &mut got) }.unwrap();
        let number = |code: Code, line: usize, depth: usize, salt: usize| alphabet(code)[pick(line, depth, salt)].1;
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let sum: f64 = (0..k).map(|depth| number(code, row, depth, 1) * number(code, column, depth, 2)).sum();
            let bias = if end.bias.is_some() { bias_of(column, turn) } else { 0.0 };
            let expected = activated(end.activation, sum / 64.0 + bias);
            let at = row * (n + 8) + column;
            let (off, most) = match end.code {
                None => {
                    let bits = u16::from_le_bytes([got[2 * at], got[2 * at + 1]]);
                    (f64::from(f32::from_bits(u32::from(bits) << 16)) - expected, expected.abs() / 128.0 + 1e-30)
                }
                // Half a step of three bits.
                Some(_) => {
                    let expected = (expected * f64::from(factor)).clamp(-448.0, 448.0);
                    (e4m3(got[at]) - expected, expected.abs().max(1.0 / 64.0) / 16.0)
                }
            };
            assert!(off.abs() <= most, "{end:?}, turn {turn}: {row} {column}, {expected}, off by {off}");
        }
    }
}

/// A code of OCP's E4M3.
fn e4m3(code: u8) -> f64 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let size = if exponent == 0 { fraction * 2f64.powi(-9) } else { (8.0 + fraction) * 2f64.powi(exponent - 10) };
    if code & 0x80 != 0 { -size } else { size }
}

/// What the library has not is no plan, and no error.
pub(crate) fn check_refused(library: &dyn VendorGemm, refused: &[([Code; 2], [Scaling; 2])]) {
    for &(codes, scaling) in refused {
        let size = if scaling[0] == Scaling::Mx32 { SIZE_BY_32 } else { SIZE };
        let product = product(Coded { codes, scaling }, size);
        assert!(library.plan(&product, 0).unwrap().is_none(), "{codes:?} {scaling:?}");
    }
}

/// Layouts and types that no library takes, of a product that it else has.
pub(crate) fn check_odd_layouts_are_refused(library: &dyn VendorGemm, codes: [Code; 2]) {
    let whole = product(Coded { codes, scaling: [Scaling::Tensor; 2] }, SIZE);
    let is_planned = |product: Product| library.plan(&product, 0).unwrap().is_some();
    assert!(is_planned(whole));
    assert!(!is_planned(Product { a: Operand { along_k: false, ..whole.a }, ..whole }), "A by columns");
    assert!(!is_planned(Product { b: Operand { along_k: false, ..whole.b }, ..whole }), "B by rows");
    assert!(!is_planned(Product { k: SIZE[2] - 8, ..whole }), "no whole 16 along K");
    assert!(!is_planned(Product { n: SIZE[1] - 8, ..whole }), "no whole 16 columns");
    assert!(!is_planned(Product { a: Operand { leading: SIZE[2] as i64 + 8, ..whole.a }, ..whole }), "unaligned rows");
    assert!(!is_planned(Product { output: DType::F64, ..whole }), "another result");
    assert!(!is_planned(Product { output: DType::I32, ..whole }), "no sums of floats");
}

/// Bytes into words of 32 bits, which have no scales.
pub(crate) fn check_bytes<P: Platform>(gpu: &Gpu<P>, library: &dyn VendorGemm) {
    let [m, n, k] = SIZE;
    let coded = Coded { codes: [Code::E4M3; 2], scaling: [Scaling::None; 2] };
    let whole = Product { input: DType::I8, output: DType::I32, coded: None, ..product(coded, SIZE) };
    let plan = library.plan(&whole, 0).unwrap().expect("the fakes do bytes");
    let of = |lines: usize, leading: usize, salt: usize| -> Vec<u8> {
        (0..lines * leading).map(|index| ((index * 37 + index / 7 + salt) % 256) as u8).collect()
    };
    let (a_data, b_data) = (of(m, k + 16, 3), of(n, k + 32, 5));
    let mut got = vec![0xff; m * (n + 8) * 4];
    let (a, b, c) = (put(gpu, &a_data), put(gpu, &b_data), put(gpu, &got));
    let workspace = gpu.allocate(plan.workspace_bytes().max(1)).unwrap();
    // SAFETY: all of it was put there as the product says.
    unsafe { plan.launch(&Addresses { a, b, c, scales: [0; 2], end: [0; 2], workspace }) }.unwrap();
    // SAFETY: C is as long.
    unsafe { gpu.read(c, &mut got) }.unwrap();
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let term = |depth: usize| {
            i32::from(a_data[row * (k + 16) + depth] as i8) * i32::from(b_data[column * (k + 32) + depth] as i8)
        };
        let at = (row * (n + 8) + column) * 4;
        let value = i32::from_le_bytes(got[at..at + 4].try_into().unwrap());
        assert_eq!(value, (0..k).map(term).sum::<i32>(), "{}: {row} {column}", plan.library());
    }
}
