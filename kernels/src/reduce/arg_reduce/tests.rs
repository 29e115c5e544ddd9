use super::*;
use crate::testing::{Lie, Numbers, coordinates, device, read, tensor};
use rocfire_hal::{Device, Tensor};

/// The first place of the extremum, NaN before any number.
fn oracle(max: bool, dim: usize, x: &[f64], shape: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let mut reduced = shape.to_vec();
    reduced[dim] = 1;
    let number = |at: &[usize]| shape.iter().zip(at).fold(0, |n, (&extent, &c)| n * extent + c);
    coordinates(&reduced)
        .map(|mut at| {
            let mut best = (0, f64::NAN);
            for m in 0..shape[dim] {
                at[dim] = m;
                let value = x[number(&at)];
                let better = if max { value > best.1 } else { value < best.1 };
                if m == 0 || (!best.1.is_nan() && (value.is_nan() || better)) {
                    best = (m, value);
                }
            }
            (best.0 as f64, best.1)
        })
        .unzip()
}

fn check(device: &Device, shape: &[usize], dim: usize, dtype: DType, x: &[f64], lie: Lie) {
    let mut reduced = shape.to_vec();
    reduced[dim] = 1;
    let count = reduced.iter().product();
    let x_tensor = tensor(device, shape, dtype, x, lie);
    for (max, index) in [(true, DType::I64), (false, DType::I32)] {
        let (want_indices, want_values) = oracle(max, dim, x, shape);
        let mut indices = tensor(device, &reduced, index, &vec![7.0; count], lie);
        let mut values = tensor(device, &reduced, dtype, &vec![1.0; count], lie);
        let run = if max { arg_max } else { arg_min };
        run(device.stream(), dim, x_tensor.view(), indices.view_mut(), Some(values.view_mut())).unwrap();
        assert_eq!(read(&indices), want_indices, "{shape:?} along {dim}, {dtype}, {lie:?}");
        let same = read(&values).iter().zip(&want_values).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same, "{shape:?} along {dim}, {dtype}, {lie:?}");
        run(device.stream(), dim, x_tensor.view(), indices.view_mut(), None).unwrap();
        assert_eq!(read(&indices), want_indices, "without values");
    }
}

#[test]
fn every_type_and_axis_finds_its_extremum() {
    let device = device();
    let shapes: [&[usize]; 6] = [&[1], &[63], &[7, 65], &[3, 200], &[2, 40, 3], &[2, 3, 130]];
    for (round, shape) in shapes.into_iter().enumerate() {
        for (dim, dtype) in (0..shape.len()).flat_map(|dim| DType::ALL.map(|dtype| (dim, dtype))) {
            let x = Numbers::new((round * 8 + dim) as u64).values(shape.iter().product(), dtype);
            check(&device, shape, dim, dtype, &x, Lie::ALL[(round + dim) % 3]);
        }
    }
}

#[test]
fn few_long_lines_are_shared_among_waves() {
    let device = device();
    for (round, dtype) in [DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool].into_iter().enumerate() {
        for (shape, dim) in [(vec![9001], 0), (vec![2, 20_000], 1), (vec![8193, 3], 0)] {
            // Many equal extrema: the first counts, in whichever chunk it is.
            let x = Numbers::new(round as u64).values(shape.iter().product(), dtype);
            check(&device, &shape, dim, dtype, &x, Lie::ALL[round % 3]);
        }
    }
    let mut x = vec![0.0; 9000];
    (x[5000], x[8999]) = (f64::NAN, f64::NAN);
    check(&device, &[9000], 0, DType::F32, &x, Lie::Plain);
}

#[test]
fn the_first_nan_wins_and_infinities_order() {
    let device = device();
    for (length, places) in [(5, [1, 3]), (100, [70, 99])] {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let mut x = vec![0.5; 2 * length];
            x[places[0]] = f64::INFINITY;
            x[places[1]] = f64::NEG_INFINITY;
            check(&device, &[2, length], 1, dtype, &x, Lie::Plain);
            x[places[0]] = f64::NAN;
            x[places[1]] = f64::NAN;
            check(&device, &[2, length], 1, dtype, &x, Lie::Plain);
            check(&device, &[length, 2], 0, dtype, &x, Lie::Plain);
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |x: &Tensor, indices: &mut Tensor, part: &str| {
        let error = arg_max(device.stream(), 1, x.view(), indices.view_mut(), None).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let x = make(&[2, 3], DType::F32);
    refused(&x, &mut make(&[2, 3], DType::I64), "with 1 at axis 1");
    refused(&x, &mut make(&[2, 1], DType::F32), "i32 or i64");
    refused(&make(&[2, 0], DType::F32), &mut make(&[2, 1], DType::I64), "at least one element");
    refused(&make(&[2], DType::F32), &mut make(&[2], DType::I64), "an axis of 1");
    // No lines: nothing to find.
    arg_max(device.stream(), 1, make(&[0, 0], DType::F32).view(), make(&[0, 1], DType::I64).view_mut(), None).unwrap();
}

#[test]
fn long_lines_are_shared_where_they_are_few() {
    let of = |middle, inner, dense| choice(Box3 { outer: 4, middle, inner }, 4 * inner, dense, 64);
    assert_eq!(of(10_000, 1, true), Choice::Chunks);
    assert_eq!(of(10_000, 1000, true), Choice::Waves, "4000 of them fill a device");
    assert_eq!(of(1000, 1000, false), Choice::Lanes, "neighbouring lanes read neighbouring lines");
    assert_eq!(of(1000, 63, false), Choice::Waves);
    assert_eq!(of(31, 1, true), Choice::Lanes, "most lanes of a wave would be idle");
}
