use std::cmp::Ordering;

use super::*;
use crate::testing::{Lie, Numbers, coordinates, device, read, tensor};

/// The first `kept` of each line along `dim`, and where they were: by a stable sort.
fn oracle(order: Order, dim: usize, x: &[f64], shape: &[usize], kept: usize) -> (Vec<f64>, Vec<f64>) {
    let mut short = shape.to_vec();
    short[dim] = kept;
    let number = |at: &[usize], shape: &[usize]| at.iter().zip(shape).fold(0, |n, (&c, &extent)| n * extent + c);
    let (mut values, mut places) = (vec![0.0; short.iter().product()], vec![0.0; short.iter().product()]);
    for mut at in coordinates(&short).filter(|at| at[dim] == 0) {
        let line: Vec<f64> = (0..shape[dim])
            .map(|m| {
                at[dim] = m;
                x[number(&at, shape)]
            })
            .collect();
        let mut sorted: Vec<usize> = (0..line.len()).collect();
        let by =
            |a: f64, b: f64| -> Ordering { if order == Order::Ascending { a.total_cmp(&b) } else { b.total_cmp(&a) } };
        sorted.sort_by(|&a, &b| by(line[a], line[b]));
        for (m, &place) in sorted[..kept].iter().enumerate() {
            at[dim] = m;
            values[number(&at, &short)] = line[place];
            places[number(&at, &short)] = place as f64;
        }
    }
    (values, places)
}

fn same(got: &[f64], want: &[f64], what: &dyn std::fmt::Debug) {
    let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(got), bits(want), "{what:?}\n got {got:?}\nwant {want:?}");
}

/// Sorts, and compares values and places with the oracle.
fn check(
    device: &rocfire_hal::Device,
    order: Order,
    dim: usize,
    x: &[f64],
    shape: &[usize],
    kept: usize,
    dtype: DType,
) {
    let lie = Lie::ALL[(dim + kept + dtype as usize) % 3];
    let index = if kept.is_multiple_of(2) { DType::I32 } else { DType::I64 };
    let mut short = shape.to_vec();
    short[dim] = kept;
    let count = short.iter().product();
    let (want_values, want_places) = oracle(order, dim, x, shape, kept);
    let x = tensor(device, shape, dtype, x, lie);
    let mut values = tensor(device, &short, dtype, &vec![1.0; count], lie);
    let mut places = tensor(device, &short, index, &vec![0.0; count], Lie::Plain);
    sort(device.stream(), order, dim, x.view(), Some(values.view_mut()), Some(places.view_mut())).unwrap();
    let what = (shape, dim, kept, dtype, order, lie);
    same(&read(&values), &want_values, &what);
    same(&read(&places), &want_places, &what);
}

#[test]
fn every_type_is_sorted_along_every_axis_and_ties_keep_their_order() {
    let device = device();
    let shapes: [&[usize]; 6] = [&[1], &[2], &[67], &[5, 9], &[3, 17, 65], &[2, 1, 3]];
    for (round, shape) in shapes.into_iter().enumerate() {
        for dim in 0..shape.len() {
            for (turn, dtype) in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool).enumerate() {
                let order = [Order::Ascending, Order::Descending][(round + turn + dim) % 2];
                let x = Numbers::new((round * 7 + turn) as u64 + 1).values(shape.iter().product(), dtype);
                check(&device, order, dim, &x, shape, shape[dim], dtype);
            }
        }
    }
}

#[test]
fn long_lines_are_merged_and_their_first_few_taken_from_tiles() {
    let device = device();
    for (shape, dim, kept, dtype) in [
        (vec![1025], 0, 1025, DType::F32),
        (vec![2, 3001], 1, 3001, DType::F16),
        (vec![2100, 2], 0, 2100, DType::I64),
        (vec![9000], 0, 9000, DType::I8),
        (vec![5000], 0, 300, DType::U32),
        (vec![3, 5000], 1, 1, DType::F32),
        (vec![2, 20_001], 1, 256, DType::BF16),
        (vec![3000, 2], 0, 7, DType::F64),
    ] {
        let x = Numbers::new(kept as u64).values(shape.iter().product(), dtype);
        for order in [Order::Ascending, Order::Descending] {
            check(&device, order, dim, &x, &shape, kept, dtype);
        }
    }
}

#[test]
fn nan_is_beyond_infinity_and_zeros_are_told_apart() {
    let device = device();
    let x = [1.0, f64::NAN, 0.0, f64::INFINITY, -0.0, -f64::NAN, f64::NEG_INFINITY, -1.0];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let ordered = |order| {
            let x = tensor(&device, &[8], dtype, &x, Lie::Plain);
            let mut places = Tensor::empty(&device, &[8], DType::I32).unwrap();
            sort(device.stream(), order, 0, x.view(), None, Some(places.view_mut())).unwrap();
            read(&places)
        };
        let want = [5.0, 6.0, 7.0, 4.0, 2.0, 0.0, 3.0, 1.0];
        assert_eq!(ordered(Order::Ascending), want, "{dtype}");
        assert_eq!(ordered(Order::Descending), want.into_iter().rev().collect::<Vec<_>>(), "{dtype}");
    }
}

#[test]
fn nothing_is_sorted_into_nothing() {
    let device = device();
    for (shape, kept) in [(vec![0, 3], 3), (vec![3, 0], 0), (vec![3, 4], 0)] {
        let x = tensor(&device, &shape, DType::F32, &vec![1.0; shape.iter().product()], Lie::Plain);
        let mut values = Tensor::empty(&device, &[shape[0], kept], DType::F32).unwrap();
        sort(device.stream(), Order::Ascending, 1, x.view(), Some(values.view_mut()), None).unwrap();
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |dim, x: &Tensor, values: &mut Tensor, part: &str| {
        let error = sort(device.stream(), Order::Ascending, dim, x.view(), Some(values.view_mut()), None).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(1, &make(&[3], DType::F32), &mut make(&[3], DType::F32), "dim must be an axis of 1");
    refused(0, &make(&[3], DType::F32), &mut make(&[4], DType::F32), "values must be [3] with at most 3");
    refused(0, &make(&[3], DType::F32), &mut make(&[3], DType::F64), "values must be f32");
    refused(0, &make(&[3], DType::Bool), &mut make(&[3], DType::Bool), "no bool kernel");
    let x = make(&[3], DType::F32);
    refused(0, &x, &mut x.clone(), "apart from the output's");
    let error = sort(device.stream(), Order::Ascending, 0, x.view(), None, None).unwrap_err();
    assert!(error.to_string().contains("neither"), "{error}");
}
