use rocfire_hal::{DType, Device, Tensor};

use super::*;
use crate::testing::{Lie, Numbers, coordinates, decode, device, device_without_index_checks, encode, read, tensor};

/// Indices into `extent`, some of them outside of it.
fn indices(numbers: &mut Numbers, count: usize, extent: usize) -> Vec<f64> {
    (0..count)
        .map(|_| match numbers.below(12) {
            0 => -1.0 - numbers.below(3) as f64,
            1 => (extent + numbers.below(100)) as f64,
            _ => numbers.below(extent) as f64,
        })
        .collect()
}

fn inside(index: f64, extent: usize) -> Option<usize> {
    (index >= 0.0 && index < extent as f64).then_some(index as usize)
}

fn number(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |n, (&extent, &c)| n * extent + c)
}

/// What an update gives, in the type; `f32` for the running value of 16-bit floats is the caller's business.
fn updated(update: Update, old: f64, value: f64, dtype: DType) -> f64 {
    let result = match update {
        Update::Assign => value,
        Update::Add => old + value,
        Update::Mul => old * value,
        Update::Min => {
            if value < old {
                value
            } else {
                old
            }
        }
        Update::Max => {
            if value > old {
                value
            } else {
                old
            }
        }
    };
    if dtype.is_int() {
        let wrapped = (result as i64).to_le_bytes()[..dtype.size_bytes()].to_vec();
        return decode(&wrapped, dtype)[0];
    }
    decode(&encode(&[result], dtype), dtype)[0]
}

const SHAPES: [(&[usize], usize, usize); 7] = [
    (&[5], 0, 7),
    (&[1], 0, 1),
    (&[13, 6], 0, 65),
    (&[6, 67], 1, 3),
    (&[3, 4, 5], 1, 64),
    (&[2, 3, 4, 8], 2, 9),
    (&[130, 16], 0, 200),
];

fn with_axis(shape: &[usize], dim: usize, extent: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[dim] = extent;
    shape
}

#[test]
fn gather_takes_the_named_elements() {
    let device = device_without_index_checks();
    let mut numbers = Numbers::new(1);
    for (round, (shape, dim, n)) in SHAPES.into_iter().enumerate() {
        for dtype in DType::ALL {
            let index_type = [DType::I64, DType::I32, DType::I16, DType::U8][round % 4];
            let out_shape = with_axis(shape, dim, n);
            let count: usize = out_shape.iter().product();
            let x = numbers.values(shape.iter().product(), dtype);
            let mut index = indices(&mut numbers, count, shape[dim]);
            if index_type == DType::U8 {
                index.iter_mut().for_each(|i| *i = i.abs());
            }
            let want: Vec<f64> = coordinates(&out_shape)
                .zip(&index)
                .map(|(mut at, &index)| {
                    let Some(index) = inside(index, shape[dim]) else { return 0.0 };
                    at[dim] = index;
                    x[number(shape, &at)]
                })
                .collect();
            let lies = [Lie::ALL[round % 3], Lie::ALL[(round + 1) % 3], Lie::ALL[(round + 2) % 3]];
            let x = tensor(&device, shape, dtype, &x, lies[0]);
            let index = tensor(&device, &out_shape, index_type, &index, lies[1]);
            let mut out = tensor(&device, &out_shape, dtype, &vec![1.0; count], lies[2]);
            gather(device.stream(), dim, x.view(), index.view(), out.view_mut()).unwrap();
            assert_eq!(read(&out), want, "{shape:?} along {dim}, {dtype}, {lies:?}");
        }
    }
}

#[test]
fn select_takes_the_named_slices() {
    let device = device_without_index_checks();
    let mut numbers = Numbers::new(2);
    for (round, (shape, dim, n)) in SHAPES.into_iter().enumerate() {
        for dtype in DType::ALL {
            for lie in Lie::ALL {
                let out_shape = with_axis(shape, dim, n);
                let x = numbers.values(shape.iter().product(), dtype);
                let index = indices(&mut numbers, n, shape[dim]);
                let want: Vec<f64> = coordinates(&out_shape)
                    .map(|mut at| {
                        let Some(index) = inside(index[at[dim]], shape[dim]) else { return 0.0 };
                        at[dim] = index;
                        x[number(shape, &at)]
                    })
                    .collect();
                let x = tensor(&device, shape, dtype, &x, lie);
                let index = tensor(&device, &[n], [DType::I64, DType::I32][round % 2], &index, lie);
                let count = out_shape.iter().product();
                let mut out = tensor(&device, &out_shape, dtype, &vec![1.0; count], Lie::ALL[round % 3]);
                select(device.stream(), dim, x.view(), index.view(), out.view_mut()).unwrap();
                assert_eq!(read(&out), want, "{shape:?} along {dim}, {dtype}, {lie:?}");
            }
        }
    }
}

fn updates(dtype: DType) -> impl Iterator<Item = Update> {
    Update::ALL
        .into_iter()
        .filter(move |update| dtype != DType::Bool || matches!(update, Update::Assign | Update::Min | Update::Max))
}

#[test]
fn scatter_updates_in_order() {
    let device = device_without_index_checks();
    for (round, (shape, dim, n)) in SHAPES.into_iter().enumerate() {
        let dtypes = [DType::F32, DType::ALL[round % 13], DType::ALL[(round + 7) % 13]];
        for (dtype, update) in dtypes.into_iter().flat_map(|dtype| updates(dtype).map(move |update| (dtype, update))) {
            let lies = [Lie::ALL[round % 3], Lie::ALL[(round + 1) % 3]];
            check_scatter(&device, shape, dim, n, (dtype, update), lies);
        }
    }
}

fn check_scatter(
    device: &Device,
    shape: &[usize],
    dim: usize,
    n: usize,
    (dtype, update): (DType, Update),
    lies: [Lie; 2],
) {
    let mut numbers = Numbers::new((shape.len() * 100 + n) as u64);
    let value_shape = with_axis(shape, dim, n);
    let count: usize = value_shape.iter().product();
    let base = numbers.values(shape.iter().product(), dtype);
    let value = numbers.values(count, dtype);
    let index = indices(&mut numbers, count, shape[dim]);
    let mut want = base.clone();
    for (n, mut at) in coordinates(&value_shape).enumerate() {
        if let Some(index) = inside(index[n], shape[dim]) {
            at[dim] = index;
            let to = number(shape, &at);
            want[to] = updated(update, want[to], value[n], dtype);
        }
    }
    let mut out = tensor(device, shape, dtype, &base, lies[0]);
    let index = tensor(device, &value_shape, DType::I64, &index, lies[1]);
    let value = tensor(device, &value_shape, dtype, &value, lies[1]);
    scatter(device.stream(), update, dim, out.view_mut(), index.view(), value.view()).unwrap();
    // Products of small values may overflow to infinity, and infinity times 0 is NaN on both sides.
    assert_eq!(bits(&read(&out)), bits(&want), "{shape:?} along {dim}, {dtype}, {update:?}, {lies:?}");
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| if v.is_nan() { u64::MAX } else { v.to_bits() }).collect()
}

fn select_update_oracle(
    update: Update,
    dim: usize,
    base: (&[f64], &[usize]),
    index: &[f64],
    value: (&[f64], &[usize]),
    dtype: DType,
) -> Vec<f64> {
    let (base, shape) = base;
    let mut want = base.to_vec();
    let running = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let mut order: Vec<_> = coordinates(value.1).enumerate().collect();
    order.sort_by_key(|(_, at)| at[dim]);
    for (n, mut at) in order {
        if let Some(index) = inside(index[at[dim]], shape[dim]) {
            at[dim] = index;
            let to = number(shape, &at);
            want[to] = updated(update, want[to], value.0[n], running);
        }
    }
    decode(&encode(&want, dtype), dtype)
}

fn check_select_update(device: &Device, shape: &[usize], dim: usize, n: usize, dtype: DType, update: Update, lie: Lie) {
    let mut numbers = Numbers::new((shape.len() * 100 + n) as u64);
    let value_shape = with_axis(shape, dim, n);
    let base = numbers.values(shape.iter().product(), dtype);
    let value = numbers.values(value_shape.iter().product(), dtype);
    let index = indices(&mut numbers, n, shape[dim]);
    let want = select_update_oracle(update, dim, (&base, shape), &index, (&value, &value_shape), dtype);
    let mut out = tensor(device, shape, dtype, &base, lie);
    let index = tensor(device, &[n], DType::I64, &index, lie);
    let value = tensor(device, &value_shape, dtype, &value, lie);
    select_update(device.stream(), update, dim, out.view_mut(), index.view(), value.view()).unwrap();
    assert_eq!(bits(&read(&out)), bits(&want), "{shape:?} along {dim}, {dtype}, {update:?}, {lie:?}");
}

#[test]
fn select_update_updates_in_order() {
    let device = device_without_index_checks();
    for (round, (shape, dim, n)) in SHAPES.into_iter().enumerate() {
        let dtypes = [DType::F32, DType::ALL[round % 13], DType::ALL[(round + 4) % 13]];
        for (dtype, update) in dtypes.into_iter().flat_map(|dtype| updates(dtype).map(move |update| (dtype, update))) {
            check_select_update(&device, shape, dim, n, dtype, update, Lie::ALL[round % 3]);
        }
    }
}

#[test]
fn select_update_into_many_rows_updates_in_order() {
    // So many rows for so few indices that lines are cheaper.
    let device = device_without_index_checks();
    for (dtype, update) in [(DType::F32, Update::Add), (DType::I64, Update::Assign), (DType::BF16, Update::Max)] {
        check_select_update(&device, &[9001, 2], 0, 12, dtype, update, Lie::Plain);
    }
    // 16-bit sums stay with rows.
    check_select_update(&device, &[900, 2], 0, 12, DType::BF16, Update::Add, Lie::Plain);
}

#[test]
fn many_indices_are_sorted_and_update_in_order() {
    let device = device_without_index_checks();
    for (dtype, update) in [
        (DType::F32, Update::Add),
        (DType::BF16, Update::Add),
        (DType::I64, Update::Assign),
        (DType::U8, Update::Mul),
        (DType::Bool, Update::Max),
        (DType::F16, Update::Min),
    ] {
        check_select_update(&device, &[1100, 3], 0, 500, dtype, update, Lie::Plain);
        check_select_update(&device, &[2, 2003], 1, 301, dtype, update, Lie::Sparse);
        for (shape, dim, n) in [(vec![2, 5, 3], 1, 700), (vec![40], 0, 1500)] {
            let lie = [Lie::Swapped, Lie::Plain][dim % 2];
            check_scatter(&device, &shape, dim, n, (dtype, update), [lie, Lie::Plain]);
        }
    }
}

#[test]
fn sums_of_16_bit_floats_are_kept_in_f32() {
    let device = device();
    let mut out = tensor(&device, &[1, 2], DType::BF16, &[256.0, 0.0], Lie::Plain);
    let index = tensor(&device, &[8], DType::I32, &[0.0; 8], Lie::Plain);
    let value = tensor(&device, &[8, 2], DType::BF16, &[1.0; 16], Lie::Plain);
    select_update(device.stream(), Update::Add, 0, out.view_mut(), index.view(), value.view()).unwrap();
    assert_eq!(read(&out), [264.0, 8.0], "one by one, 256 + 1 would stay 256");
}

#[test]
fn a_nan_that_arrives_is_passed_over_by_minimum_and_maximum() {
    let device = device();
    for update in [Update::Min, Update::Max] {
        let mut out = tensor(&device, &[2], DType::F32, &[1.0, f64::NAN], Lie::Plain);
        let index = tensor(&device, &[2], DType::I32, &[0.0, 1.0], Lie::Plain);
        let value = tensor(&device, &[2], DType::F32, &[f64::NAN, 5.0], Lie::Plain);
        scatter(device.stream(), update, 0, out.view_mut(), index.view(), value.view()).unwrap();
        let got = read(&out);
        assert!(got[0] == 1.0 && got[1].is_nan(), "{update:?}: {got:?}");
    }
}

#[test]
fn nothing_to_do_does_nothing() {
    let device = outside::device_with_checks();
    let empty = |shape: &[usize], dtype| tensor(&device, shape, dtype, &[], Lie::Plain);
    let x = tensor(&device, &[3, 2], DType::F32, &[1.0; 6], Lie::Plain);
    let none = empty(&[0], DType::I64);
    let mut out = empty(&[0, 2], DType::F32);
    select(device.stream(), 0, x.view(), none.view(), out.view_mut()).unwrap();
    let mut target = x.clone();
    select_update(device.stream(), Update::Add, 0, target.view_mut(), none.view(), out.view()).unwrap();
    assert_eq!(read(&x), [1.0; 6]);
    // No rows to choose from: every index is outside.
    let index = tensor(&device, &[2], DType::I64, &[0.0, 1.0], Lie::Plain);
    let mut rows = tensor(&device, &[2, 2], DType::F32, &[9.0; 4], Lie::Plain);
    select(device.stream(), 0, empty(&[0, 2], DType::F32).view(), index.view(), rows.view_mut()).unwrap();
    let told = rows.to_bytes().unwrap_err().to_string();
    assert!(told.starts_with("select: index 0 is outside an axis of 0 elements"), "{told}");
    assert_eq!(read(&rows), [0.0; 4]);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let stream = device.stream();
    let (x, index) = (make(&[3, 2], DType::F32), make(&[4], DType::I64));
    let refused = |result: Result<()>, part: &str| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let mut out = make(&[4, 2], DType::F32);
    refused(select(stream, 2, x.view(), index.view(), out.view_mut()), "select: dim must be an axis of 2");
    refused(select(stream, 0, x.view(), make(&[4], DType::F32).view(), out.view_mut()), "an integer type");
    refused(select(stream, 0, x.view(), make(&[5], DType::I64).view(), out.view_mut()), "indices must be [4]");
    refused(select(stream, 1, x.view(), index.view(), out.view_mut()), "but for axis 1");
    refused(gather(stream, 0, x.view(), index.view(), out.view_mut()), "but for axis 0");
    let mut flags = make(&[3, 2], DType::Bool);
    let (rows, value) = (make(&[3, 2], DType::I64), make(&[3, 2], DType::Bool));
    refused(scatter(stream, Update::Add, 0, flags.view_mut(), rows.view(), value.view()), "no bool kernel");
    let alias: Tensor = x.clone();
    refused(scatter(stream, Update::Add, 0, x.clone().view_mut(), rows.view(), alias.view()), "memory apart");
}

#[test]
fn a_mask_chooses_elements_and_their_coordinates_in_order() {
    let device = device();
    let mut numbers = Numbers::new(5);
    let shapes: [&[usize]; 6] = [&[1], &[257], &[5, 9], &[3, 4, 65], &[2049], &[0, 3]];
    for (round, shape) in shapes.into_iter().enumerate() {
        for (turn, dtype) in DType::ALL.into_iter().enumerate() {
            let count: usize = shape.iter().product();
            let x = numbers.values(count, dtype);
            let mask: Vec<f64> = match turn % 4 {
                0 => vec![1.0; count],
                1 => vec![0.0; count],
                _ => numbers.values(count, DType::Bool),
            };
            let (lies, index) = ([Lie::ALL[round % 3], Lie::ALL[turn % 3]], [DType::I32, DType::I64][turn % 2]);
            let held = |n: &usize| mask[*n] != 0.0;
            let values: Vec<f64> = (0..count).filter(held).map(|n| x[n]).collect();
            let places: Vec<f64> = coordinates(shape)
                .enumerate()
                .filter(|(n, _)| held(n))
                .flat_map(|(_, at)| at)
                .map(|c| c as f64)
                .collect();
            let chosen = Chosen::of(device.stream(), &tensor(&device, shape, DType::Bool, &mask, lies[1])).unwrap();
            assert_eq!(chosen.len(), values.len());
            let mut out = Tensor::empty(&device, &[chosen.len()], dtype).unwrap();
            let x = tensor(&device, shape, dtype, &x, lies[0]);
            chosen.values(device.stream(), x.view(), out.view_mut()).unwrap();
            assert_eq!(read(&out), values, "{shape:?} {dtype} {lies:?}");
            let mut out = Tensor::empty(&device, &[chosen.len(), shape.len()], index).unwrap();
            chosen.places(device.stream(), out.view_mut()).unwrap();
            assert_eq!(read(&out), places, "{shape:?} {dtype} {lies:?}");
        }
    }
}

#[test]
fn a_mask_refuses_what_does_not_fit_it() {
    let device = device();
    let stream = device.stream();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![1.0; shape.iter().product()], Lie::Plain);
    let error = Chosen::of(stream, &make(&[3], DType::F32)).unwrap_err();
    assert!(error.to_string().contains("mask must be bool"), "{error}");
    let chosen = Chosen::of(stream, &make(&[3], DType::Bool)).unwrap();
    let x = make(&[4], DType::F32);
    let error = chosen.values(stream, x.view(), make(&[3], DType::F32).view_mut()).unwrap_err();
    assert!(error.to_string().contains("x must be [3]"), "{error}");
    let x = make(&[3], DType::F32);
    let error = chosen.values(stream, x.view(), make(&[2], DType::F32).view_mut()).unwrap_err();
    assert!(error.to_string().contains("out must be [3]"), "{error}");
    let error = chosen.places(stream, make(&[3, 1], DType::U8).view_mut()).unwrap_err();
    assert!(error.to_string().contains("out must be i32 or i64"), "{error}");
}

mod outside;
