use super::*;
use crate::testing::{Lie, Numbers, assert_close, coordinates, decode, device, read, tensor};
use rocfire_hal::Tensor;

fn oracle(op: Cumulative, dim: usize, x: &[f64], shape: &[usize]) -> Vec<f64> {
    let inner: usize = shape[dim + 1..].iter().product();
    let mut out = x.to_vec();
    for (n, at) in coordinates(shape).enumerate() {
        if at[dim] == 0 {
            continue;
        }
        let (before, value) = (out[n - inner], x[n]);
        out[n] = match op {
            Cumulative::Sum => before + value,
            Cumulative::Prod => before * value,
            Cumulative::Min if before.is_nan() || value.is_nan() => f64::NAN,
            Cumulative::Max if before.is_nan() || value.is_nan() => f64::NAN,
            Cumulative::Min => before.min(value),
            Cumulative::Max => before.max(value),
        };
    }
    out
}

#[test]
fn every_operation_runs_along_every_axis() {
    let device = device();
    let shapes: [&[usize]; 5] = [&[1], &[67], &[5, 9], &[3, 4, 65], &[2, 1, 3]];
    for (round, shape) in shapes.into_iter().enumerate() {
        for (dim, dtype) in (0..shape.len()).flat_map(|dim| DType::ALL.map(|dtype| (dim, dtype))) {
            if dtype == DType::Bool {
                continue;
            }
            let op = Cumulative::ALL[(round + dim + dtype as usize) % 4];
            let mut x = Numbers::new(round as u64 + 1).values(shape.iter().product(), dtype);
            if op == Cumulative::Prod {
                // Signs and a zero: products that every type holds.
                x.iter_mut().for_each(|x| *x = if dtype.is_unsigned_int() { 1.0 } else { x.signum() });
            }
            let mut want = oracle(op, dim, &x, shape);
            if dtype.is_int() {
                let wrapped: Vec<u8> =
                    want.iter().flat_map(|&v| (v as i64).to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
                want = decode(&wrapped, dtype);
            }
            let lie = Lie::ALL[(round + dim) % 3];
            let x = tensor(&device, shape, dtype, &x, lie);
            let mut out = tensor(&device, shape, dtype, &vec![0.0; x.layout().len()], Lie::ALL[round % 3]);
            cumulative(device.stream(), op, dim, x.view(), out.view_mut()).unwrap();
            assert_close(&read(&out), &want, dtype, &(shape, dim, dtype, op, lie));
        }
    }
}

#[test]
fn long_lines_are_shared_among_workgroups() {
    let device = device();
    for (shape, dim, dtype) in [
        (vec![4096], 0, DType::F32),
        (vec![4097], 0, DType::I32),
        (vec![2, 70_000], 1, DType::F16),
        (vec![9001, 2], 0, DType::U8),
        (vec![3, 257], 1, DType::F64),
        (vec![66_000], 0, DType::I64),
    ] {
        for (turn, op) in Cumulative::ALL.into_iter().enumerate() {
            let mut x = Numbers::new(turn as u64 + 1).values(shape.iter().product(), dtype);
            if op == Cumulative::Prod {
                x.iter_mut().for_each(|x| *x = if dtype.is_unsigned_int() { 1.0 } else { 1.0_f64.copysign(*x) });
            } else if op == Cumulative::Sum {
                // Sums that every type holds.
                x.iter_mut().enumerate().for_each(|(n, x)| *x = if n.is_multiple_of(500) { *x } else { 0.0 });
            }
            let mut want = oracle(op, dim, &x, &shape);
            if dtype.is_int() {
                let wrapped: Vec<u8> =
                    want.iter().flat_map(|&v| (v as i64).to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
                want = decode(&wrapped, dtype);
            }
            let x = tensor(&device, &shape, dtype, &x, Lie::ALL[turn % 3]);
            let mut out = Tensor::empty(&device, &shape, dtype).unwrap();
            cumulative(device.stream(), op, dim, x.view(), out.view_mut()).unwrap();
            assert_close(&read(&out), &want, dtype, &(&shape, dim, dtype, op));
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_which_kernel_runs() {
    let device = device();
    const EXTENT: usize = 300;
    // Sums of numbers of very different sizes, whose last bits depend on the order.
    let mut numbers = Numbers::new(9);
    let line: Vec<f64> = (0..EXTENT).map(|_| (numbers.below(1 << 20) as f64 / 3.0) * 0.001).collect();
    let across: Vec<f64> = line.iter().flat_map(|&x| std::iter::repeat_n(x, LINES_MIN)).collect();
    let run = |x: &Tensor, dim| {
        let mut out = Tensor::empty(&device, x.shape(), DType::F32).unwrap();
        cumulative(device.stream(), Cumulative::Sum, dim, x.view(), out.view_mut()).unwrap();
        read(&out)
    };
    let by_group = run(&tensor(&device, &[1, EXTENT], DType::F32, &line, Lie::Plain), 1);
    let by_lane = run(&tensor(&device, &[EXTENT, LINES_MIN], DType::F32, &across, Lie::Plain), 0);
    let first: Vec<f64> = by_lane.chunks(LINES_MIN).map(|row| row[0]).collect();
    assert_eq!(first, by_group);
    let sequential = line.iter().scan(0.0_f32, |sum, &x| {
        *sum += x as f32;
        Some(f64::from(*sum))
    });
    assert_ne!(sequential.collect::<Vec<_>>(), by_group, "the numbers must tell orders apart");
}

#[test]
fn nan_stays_from_where_it_comes_in() {
    let device = device();
    let x = [2.0, f64::NAN, 1.0, f64::INFINITY];
    for op in Cumulative::ALL {
        let x = tensor(&device, &[4], DType::F32, &x, Lie::Plain);
        let mut out = Tensor::empty(&device, &[4], DType::F32).unwrap();
        cumulative(device.stream(), op, 0, x.view(), out.view_mut()).unwrap();
        let got = read(&out);
        assert!(got[0] == 2.0 && got[1..].iter().all(|v| v.is_nan()), "{op:?}: {got:?}");
    }
}

#[test]
fn it_may_run_in_place_and_on_nothing() {
    let device = device();
    let x = tensor(&device, &[2, 3], DType::I32, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], Lie::Plain);
    let mut same = x.clone();
    cumulative(device.stream(), Cumulative::Sum, 1, x.view(), same.view_mut()).unwrap();
    assert_eq!(read(&x), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    let empty = tensor(&device, &[2, 0], DType::I32, &[], Lie::Plain);
    let mut out = empty.clone();
    cumulative(device.stream(), Cumulative::Sum, 0, empty.view(), out.view_mut()).unwrap();
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |dim, x: &Tensor, out: &mut Tensor, part: &str| {
        let error = cumulative(device.stream(), Cumulative::Sum, dim, x.view(), out.view_mut()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(1, &make(&[3], DType::F32), &mut make(&[3], DType::F32), "dim must be an axis of 1");
    refused(0, &make(&[3], DType::F32), &mut make(&[4], DType::F32), "out must be [3]");
    refused(0, &make(&[3], DType::F32), &mut make(&[3], DType::F64), "out must be f32");
    refused(0, &make(&[3], DType::Bool), &mut make(&[3], DType::Bool), "no bool kernel");
}
