use super::*;
use crate::testing::{
    Lie, Numbers, assert_close, coordinates, device, device_without_matrix_unit, encode, read, tensor,
};
use rocfire_hal::{Device, Layout};

/// The product written the obvious slow way; integers wrap in the type at the end, which is the same.
fn oracle(a: &[f64], a_shape: &[usize], b: &[f64], b_shape: &[usize]) -> Vec<f64> {
    let shape = output_shape(a_shape, b_shape).unwrap();
    let k = a_shape[a_shape.len() - 1];
    let number = |shape: &[usize], at: &[usize]| {
        let mut n = 0;
        for (axis, &extent) in shape.iter().enumerate() {
            let c = at[axis + at.len() - shape.len()];
            n = n * extent + if extent == 1 { 0 } else { c };
        }
        n
    };
    let rank = shape.len();
    coordinates(&shape)
        .map(|at| {
            let (mut from_a, mut from_b) = (at.clone(), at.clone());
            (0..k)
                .map(|i| {
                    from_a[rank - 1] = i;
                    from_b[rank - 2] = i;
                    a[number(a_shape, &from_a)] * b[number(b_shape, &from_b)]
                })
                .sum()
        })
        .collect()
}

struct Case {
    a: Vec<usize>,
    b: Vec<usize>,
    dtype: DType,
    lies: (Lie, Lie),
    params: GemmParams,
}

impl Case {
    fn new(a: &[usize], b: &[usize], dtype: DType) -> Case {
        Case { a: a.to_vec(), b: b.to_vec(), dtype, lies: (Lie::Plain, Lie::Plain), params: GemmParams::default() }
    }

    fn lying(mut self, a: Lie, b: Lie) -> Case {
        self.lies = (a, b);
        self
    }

    /// Runs it, compares with the oracle, gives the bytes.
    fn check(&self, device: &Device) -> Vec<u8> {
        let what = (&self.a, &self.b, self.dtype, self.lies, self.params);
        let mut numbers = Numbers::new(self.a.iter().chain(&self.b).sum::<usize>() as u64);
        let a = numbers.values(self.a.iter().product(), self.dtype);
        let b = numbers.values(self.b.iter().product(), self.dtype);
        let want = oracle(&a, &self.a, &b, &self.b);
        let a = tensor(device, &self.a, self.dtype, &a, self.lies.0);
        let b = tensor(device, &self.b, self.dtype, &b, self.lies.1);
        let mut c = Tensor::empty(device, &output_shape(&self.a, &self.b).unwrap(), self.dtype).unwrap();
        gemm(device.stream(), a.view(), b.view(), c.view_mut(), &self.params)
            .unwrap_or_else(|e| panic!("{what:?}: {e}"));
        // Through the type, as the oracle's sums of narrow integers are too long.
        let bytes = c.to_bytes().unwrap_or_else(|e| panic!("{what:?}: {e}"));
        let wrapped = if self.dtype.is_int() { wrap(&want, self.dtype) } else { want };
        assert_close(&read(&c), &wrapped, self.dtype, &what);
        bytes
    }
}

fn wrap(values: &[f64], dtype: DType) -> Vec<f64> {
    let bits: Vec<u8> = values.iter().flat_map(|&v| (v as i64).to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
    crate::testing::decode(&bits, dtype)
}

const NUMBERS: [DType; 12] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
];

#[test]
fn every_type_multiplies() {
    for dtype in NUMBERS {
        Case::new(&[1, 1], &[1, 1], dtype).check(&device());
        Case::new(&[17, 33], &[33, 5], dtype).check(&device());
        Case::new(&[64, 48], &[48, 32], dtype).check(&device());
    }
}

#[test]
fn sizes_around_the_tiles_multiply() {
    for (m, n, k) in [(1, 96, 96), (31, 32, 33), (65, 63, 64), (127, 97, 24), (128, 96, 96), (33, 129, 7), (2, 3, 300)]
    {
        for dtype in [DType::F32, DType::BF16] {
            Case::new(&[m, k], &[k, n], dtype).check(&device());
        }
    }
}

#[test]
fn every_layout_multiplies() {
    for a in Lie::ALL {
        for b in Lie::ALL {
            Case::new(&[40, 24], &[24, 36], DType::F32).lying(a, b).check(&device());
            Case::new(&[2, 20, 9], &[2, 9, 33], DType::F16).lying(a, b).check(&device());
            Case::new(&[20, 16], &[16, 33], DType::F64).lying(a, b).check(&device());
        }
    }
}

#[test]
fn batches_broadcast() {
    for (a, b) in [
        (vec![3, 20, 8], vec![8, 16]),
        (vec![20, 8], vec![3, 8, 16]),
        (vec![2, 1, 9, 8], vec![3, 8, 7]),
        (vec![2, 3, 1, 5, 4], vec![1, 3, 2, 4, 6]),
        (vec![1, 1, 8], vec![5, 8, 4]),
    ] {
        Case::new(&a, &b, DType::F32).check(&device());
        Case::new(&a, &b, DType::I32).check(&device());
    }
}

#[test]
fn tilings_and_slices_change_no_bit() {
    for dtype in [DType::F32, DType::F16, DType::F64] {
        let case = |tiling, slice_k| {
            let mut case = Case::new(&[35, 1100], &[1100, 40], dtype);
            case.params = GemmParams { tiling: Some(tiling), slice_k: Some(slice_k), ..GemmParams::default() };
            case
        };
        let device = device();
        let unit = Unit::of(device.arch().info(), dtype).reading(false);
        let usable = (0..TILINGS.len()).filter(|&n| TILINGS[n].serves(unit));
        let mut first: Option<Vec<u8>> = None;
        for tiling in usable {
            for slice_k in [false, true] {
                let bytes = case(tiling, slice_k).check(&device);
                assert_eq!(first.get_or_insert_with(|| bytes.clone()), &bytes, "{dtype} {tiling} {slice_k}");
            }
        }
        assert!(first.is_some());
    }
}

/// So many elements of C that a lane adds up four of each slice: in one layout of C all at once, in the other one by one.
#[test]
fn a_large_sum_of_slices_is_that_of_one_product() {
    let device = device();
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32] {
        let ([m, n, k], mut numbers) = ([65, 2020, 1100], Numbers::new(7));
        let a = tensor(&device, &[m, k], dtype, &numbers.values(m * k, dtype), Lie::Plain);
        let b = tensor(&device, &[k, n], dtype, &numbers.values(k * n, dtype), Lie::Plain);
        let product = |sliced: bool, row: usize| {
            let params = GemmParams { slice_k: Some(sliced), ..GemmParams::default() };
            let mut c = Tensor::empty(&device, &[m, row], dtype).unwrap();
            let layout = Layout::strided(&[m, n], &[row as i64, 1], 0).unwrap();
            let to = c.view_mut().with_layout(layout).unwrap();
            gemm(device.stream(), a.view(), b.view(), to, &params).unwrap();
            let (bytes, line) = (c.to_bytes().unwrap(), row * dtype.size_bytes());
            bytes.chunks(line).flat_map(|line| line[..n * dtype.size_bytes()].to_vec()).collect::<Vec<u8>>()
        };
        let whole = product(false, n);
        for (sliced, row) in [(true, n), (true, n + 1), (false, n + 1)] {
            assert!(product(sliced, row) == whole, "{dtype}, sliced {sliced}, rows {row} apart");
        }
    }
}

#[test]
fn plain_tilings_change_no_bit() {
    let device = device_without_matrix_unit();
    for dtype in [DType::F32, DType::F16, DType::F64] {
        let unit = Unit::of(device.arch().info(), dtype).without_matrix().reading(false);
        let usable = (0..TILINGS.len()).filter(|&n| TILINGS[n].serves(unit));
        let bytes: Vec<Vec<u8>> = usable
            .map(|tiling| {
                let mut case = Case::new(&[70, 1100], &[1100, 100], dtype).lying(Lie::ALL[0], Lie::ALL[1]);
                case.params = GemmParams { tiling: Some(tiling), ..GemmParams::default() };
                case.check(&device)
            })
            .collect();
        assert!(bytes.len() >= 2 && bytes.iter().all(|other| *other == bytes[0]), "{dtype}");
    }
}

#[test]
fn rounded_factors_are_taken_where_allowed_and_tilings_change_no_bit_of_that() {
    let device = device();
    let unit = Unit::of(device.arch().info(), DType::F32).reading(false);
    let ([m, n, k], noise) = ([35, 40, 1100], |at: usize| (at * 7919 % 8191) as f64 / 4096.0 - 1.0);
    let values = [m * k, k * n].map(|count| (0..count).map(noise).collect::<Vec<f64>>());
    let a = tensor(&device, &[m, k], DType::F32, &values[0], Lie::Plain);
    let b = tensor(&device, &[k, n], DType::F32, &values[1], Lie::Plain);
    let product = |params: GemmParams| {
        let mut c = Tensor::empty(&device, &[m, n], DType::F32).unwrap();
        gemm(device.stream(), a.view(), b.view(), c.view_mut(), &params).unwrap();
        c
    };
    let want = oracle(&values[0], &[m, k], &values[1], &[k, n]);
    let error = |of: &Tensor| read(of).iter().zip(&want).map(|(got, want)| (got - want).abs()).fold(0.0, f64::max);
    let full = product(GemmParams::default());
    let fast = product(GemmParams { tf32: true, ..GemmParams::default() });
    // A term is at most 1 and loses less than 2^-9 of itself.
    assert!(error(&fast) > 16.0 * error(&full) && error(&fast) < k as f64 / 512.0, "{}", error(&fast));
    for tiling in (0..TILINGS.len()).filter(|&n| TILINGS[n].serves(unit)) {
        for slice_k in [false, true] {
            let params =
                GemmParams { tiling: Some(tiling), slice_k: Some(slice_k), tf32: true, ..GemmParams::default() };
            let other = product(params).to_bytes().unwrap();
            assert_eq!(other, fast.to_bytes().unwrap(), "tiling {tiling}, sliced {slice_k}");
        }
    }
}

#[test]
fn products_without_matrix_unit_agree_with_the_oracle() {
    let device = device_without_matrix_unit();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        Case::new(&[70, 40], &[40, 65], dtype).check(&device);
        Case::new(&[3, 300], &[300, 2], dtype).lying(Lie::Swapped, Lie::Sparse).check(&device);
    }
}

#[test]
fn empty_extents_give_zeros_or_nothing() {
    let device = device();
    for dtype in [DType::F32, DType::I32] {
        Case::new(&[0, 4], &[4, 3], dtype).check(&device);
        Case::new(&[2, 4], &[4, 0], dtype).check(&device);
        Case::new(&[0, 2, 4], &[4, 3], dtype).check(&device);
        let (a, b) =
            (tensor(&device, &[2, 0], dtype, &[], Lie::Plain), tensor(&device, &[0, 3], dtype, &[], Lie::Plain));
        let mut c = tensor(&device, &[2, 3], dtype, &[7.0; 6], Lie::Plain);
        gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
        assert_eq!(read(&c), [0.0; 6]);
    }
}

#[test]
fn a_nan_or_infinity_spoils_its_row_and_column_only() {
    let device = device();
    let (m, k, n) = (40, 20, 36);
    let mut numbers = Numbers::new(5);
    let (mut a, mut b) = (numbers.values(m * k, DType::F32), numbers.values(k * n, DType::F32));
    a[7 * k + 3] = f64::NAN;
    b[5 * n + 9] = f64::INFINITY;
    a[11 * k + 5] = 0.0;
    let want = oracle(&a, &[m, k], &b, &[k, n]);
    let (a, b) =
        (tensor(&device, &[m, k], DType::F32, &a, Lie::Plain), tensor(&device, &[k, n], DType::F32, &b, Lie::Plain));
    let mut c = Tensor::empty(&device, &[m, n], DType::F32).unwrap();
    gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
    assert!(want[11 * n + 9].is_nan(), "0 times infinity");
    assert_close(&read(&c), &want, DType::F32, &"NaN");
}

#[test]
fn the_output_may_have_any_strides_and_be_wider() {
    let device = device();
    let mut numbers = Numbers::new(9);
    let (a, b) = (numbers.values(34 * 20, DType::F16), numbers.values(20 * 18, DType::F16));
    let want = oracle(&a, &[34, 20], &b, &[20, 18]);
    let (a, b) = (
        tensor(&device, &[34, 20], DType::F16, &a, Lie::Plain),
        tensor(&device, &[20, 18], DType::F16, &b, Lie::Plain),
    );
    for lie in Lie::ALL {
        for dtype in [DType::F16, DType::F32] {
            let mut c = tensor(&device, &[34, 18], dtype, &[0.5; 34 * 18], lie);
            gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
            assert_close(&read(&c), &want, dtype, &(lie, dtype));
        }
    }
}

#[test]
fn bytes_sum_to_32_bits() {
    let device = device();
    for (m, n, k) in [(1, 1, 1), (33, 64, 80), (128, 160, 144), (65, 31, 1100)] {
        for lies in [(Lie::Plain, Lie::Plain), (Lie::Swapped, Lie::Swapped), (Lie::Plain, Lie::Swapped)] {
            let value = |n: usize| ((n * 2_654_435_761) >> 7) as u8 as i8;
            let a: Vec<f64> = (0..m * k).map(|n| f64::from(value(n))).collect();
            let b: Vec<f64> = (0..k * n).map(|n| f64::from(value(n + 99_991))).collect();
            let want = oracle(&a, &[m, k], &b, &[k, n]);
            let a = tensor(&device, &[m, k], DType::I8, &a, lies.0);
            let b = tensor(&device, &[k, n], DType::I8, &b, lies.1);
            let mut c = Tensor::empty(&device, &[m, n], DType::I32).unwrap();
            gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
            assert_eq!(read(&c), want, "{m} {n} {k} {lies:?}");
        }
    }
}

#[test]
fn a_shared_matrix_merges_with_the_rows() {
    let device = device();
    let a = tensor(&device, &[4, 5, 16], DType::F32, &[1.0; 320], Lie::Plain);
    let b = tensor(&device, &[16, 8], DType::F32, &[1.0; 128], Lie::Plain);
    let c = Tensor::empty(&device, &[4, 5, 8], DType::F32).unwrap();
    let stream = device.stream();
    let product = Product::new(stream, a.view(), b.view(), c.view(), None);
    assert_eq!((product.m, product.axes), (20, 0));
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| {
        Tensor::from_bytes(&device, shape, dtype, &encode(&vec![0.0; shape.iter().product()], dtype)).unwrap()
    };
    let refuse = |a: &Tensor, b: &Tensor, c: &mut Tensor, part: &str| {
        let error = gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (a, b) = (make(&[2, 3], DType::F32), make(&[3, 4], DType::F32));
    refuse(&a, &make(&[4, 4], DType::F32), &mut make(&[2, 4], DType::F32), "gemm: b must be [.., 3, N]");
    refuse(&a, &b, &mut make(&[2, 5], DType::F32), "gemm: c must be [2, 4]");
    refuse(&a, &make(&[3, 4], DType::F64), &mut make(&[2, 4], DType::F32), "gemm: b must be f32");
    refuse(&a, &b, &mut make(&[2, 4], DType::F64), "gemm: c must be f32");
    refuse(&make(&[3], DType::F32), &b, &mut make(&[4], DType::F32), "gemm: a must be [.., rows, cols]");
    refuse(
        &make(&[2, 2, 3], DType::F32),
        &make(&[3, 3, 4], DType::F32),
        &mut make(&[2, 2, 4], DType::F32),
        "batch axes",
    );
    let (x, y) = (make(&[2, 3], DType::Bool), make(&[3, 4], DType::Bool));
    refuse(&x, &y, &mut make(&[2, 4], DType::Bool), "no bool kernel");
    let square = make(&[4, 4], DType::F32);
    refuse(&square, &make(&[4, 4], DType::F32), &mut square.clone(), "memory apart from the output's");
    let flat = make(&[4], DType::F32);
    let mut repeated = flat.with_layout(Layout::strided(&[2, 4], &[0, 1], 0).unwrap()).unwrap();
    refuse(&a, &b, &mut repeated, "names each element once");
}
