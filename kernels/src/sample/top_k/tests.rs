use super::*;
use crate::testing::{Lie, Numbers, device, read, tensor};
use rocfire_hal::{Device, Tensor};

/// The best of columns `start` to `end`, by a stable sort, and -1 behind them.
fn oracle(x: &[f64], start: usize, end: usize, k: usize, order: Order, sorted: bool) -> Vec<f64> {
    // NaN after all numbers, and both zeros equal.
    let rank = |n: &usize| {
        let x = if order == Order::Descending { -x[*n] } else { x[*n] };
        if x.is_nan() { (1, 0.0) } else { (0, x + 0.0) }
    };
    let mut places: Vec<usize> = (start..end).collect();
    places.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap());
    places.truncate(k);
    if !sorted {
        places.sort();
    }
    let found = places.into_iter().map(|n| n as f64);
    found.chain(std::iter::repeat(-1.0)).take(k).collect()
}

/// Runs rows of one length, the bounds of each told.
fn check(device: &Device, values: &[f64], dtype: DType, k: usize, params: &TopK<'_>, parts: &[(usize, usize)]) {
    let (rows, columns) = (parts.len(), values.len() / parts.len());
    let x = tensor(device, &[rows, columns], dtype, values, Lie::Plain);
    let mut places = Tensor::empty(device, &[rows, k], DType::I32).unwrap();
    let mut numbers = Tensor::empty(device, &[rows, k], dtype).unwrap();
    top_k(device.stream(), x.view(), params, places.view_mut(), Some(numbers.view_mut())).unwrap();
    let (places, numbers) = (read(&places), read(&numbers));
    let worst = if params.order == Order::Descending { f64::NEG_INFINITY } else { f64::INFINITY };
    for (row, &(start, end)) in parts.iter().enumerate() {
        let (own, x) = (row * k..(row + 1) * k, &values[row * columns..(row + 1) * columns]);
        let want = oracle(x, start, end, k, params.order, params.sorted);
        assert_eq!(places[own.clone()], want, "{dtype} {k} of {columns}, {params:?}, row {row}");
        for (&got, &place) in numbers[own].iter().zip(&want) {
            let want = if place < 0.0 { worst } else { x[place as usize] };
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{got}, not {want}");
        }
    }
}

#[test]
fn the_best_are_those_of_a_stable_sort() {
    let device = device();
    for (turn, (columns, k)) in
        [(1, 1), (7, 7), (5, 9), (1000, 1), (1000, 50), (5003, 300), (3000, 2048), (9001, 2000)].into_iter().enumerate()
    {
        for (shift, dtype) in [DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
            let mut params = TopK::new([Order::Descending, Order::Ascending][(turn + shift) % 2]);
            params.sorted = (turn / 2 + shift) % 2 == 0;
            // Eighths: many are equal.
            let values = Numbers::new(turn as u64 + 1).values(2 * columns, dtype);
            check(&device, &values, dtype, k, &params, &[(0, columns); 2]);
        }
    }
}

#[test]
fn numbers_that_differ_in_their_last_bits_are_told_apart() {
    let device = device();
    for (k, sorted) in [(512, false), (2048, false), (1024, true)] {
        let near: Vec<f64> =
            (0..20_000).map(|n| f64::from(f32::from_bits(0x4248_0000 + (n * 7919 % 20_011) as u32 % 1024))).collect();
        let mut params = TopK::new(Order::Descending);
        params.sorted = sorted;
        check(&device, &near, DType::F32, k, &params, &[(0, 20_000)]);
    }
    // All the same: the first.
    check(&device, &[2.5; 9000], DType::F32, 2048, &TopK::new(Order::Ascending), &[(0, 9000)]);
}

#[test]
fn nan_goes_behind_all_numbers_and_zeros_are_equal() {
    let device = device();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = [nan, 0.0, -0.0, -inf, 1.0, nan, inf, -1.0];
    for order in [Order::Descending, Order::Ascending] {
        for k in [3, 6, 7, 8, 10] {
            check(&device, &x, DType::F32, k, &TopK::new(order), &[(0, 8)]);
        }
    }
}

#[test]
fn rows_have_bounds_of_their_own() {
    let device = device();
    let columns = 3001;
    let values = Numbers::new(3).values(6 * columns, DType::F32);
    let starts = [0.0, 17.0, 5.0, 2990.0, 40.0, -4.0];
    let ends = [3001.0, 2050.0, 5.0, 9999.0, 30.0, 64.0];
    let parts = [(0, 3001), (17, 2050), (5, 5), (2990, 3001), (40, 40), (0, 64)];
    let [starts, ends] = [starts, ends].map(|of| tensor(&device, &[6], DType::I32, &of, Lie::Sparse));
    let mut params = TopK::new(Order::Descending);
    params.sorted = false;
    params.bounds = Bounds::Between { starts: starts.view(), ends: ends.view() };
    check(&device, &values, DType::F32, 64, &params, &parts);
    // Two rows of three sequences.
    let lengths = tensor(&device, &[3], DType::I32, &[3001.0, 1.0, 100.0], Lie::Plain);
    params.bounds = Bounds::Lengths { lengths: lengths.view(), each: 2 };
    let parts = [(0, 3000), (0, 3001), (0, 0), (0, 1), (0, 99), (0, 100)];
    check(&device, &values, DType::F32, 64, &params, &parts);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |x: &Tensor, params: &TopK<'_>, places: &mut Tensor, part: &str| {
        let error = top_k(device.stream(), x.view(), params, places.view_mut(), None).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (x, plain) = (make(&[2, 3000], DType::F32), TopK::new(Order::Descending));
    refused(&x, &plain, &mut make(&[2, 2049], DType::I32), "1 to 2048");
    refused(&x, &plain, &mut make(&[3, 4], DType::I32), "places must be [2, 4]");
    refused(&x, &plain, &mut make(&[2, 4], DType::I64), "places must be of [I32]");
    refused(&make(&[2, 9], DType::F64), &plain, &mut make(&[2, 4], DType::I32), "no f64 kernel");
    let lengths = make(&[1], DType::I32);
    let params = TopK { bounds: Bounds::Lengths { lengths: lengths.view(), each: 3 }, ..plain };
    refused(&x, &params, &mut make(&[2, 4], DType::I32), "a divisor of 2 rows");
    let params = TopK { bounds: Bounds::Between { starts: lengths.view(), ends: lengths.view() }, ..plain };
    refused(&x, &params, &mut make(&[2, 4], DType::I32), "bounds.starts must be [2]");
}
