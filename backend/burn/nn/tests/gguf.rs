//! Experts in blocks of GGUF against experts of what the blocks stand for.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::FlexDevice;
use burn::module::{Module, Param};
use burn::store::ModuleRecord;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::numbers;
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{
    Activation, ByExpert, Experts, Gguf, GgufExperts, GgufLinear, GgufMatrices, GroupedEpilogue, grouped_matmul_gguf,
    listed_matmul_gguf, matmul_gguf,
};

const EXPERTS: usize = 4;

/// Blocks of lines along K, `[experts, n, k]`, and what they stand for, `[experts, k, n]`.
fn blocks(kind: Gguf, [n, k]: [usize; 2], seed: usize, device: &Device) -> (GgufMatrices, Tensor<3>) {
    let (mut bytes, mut values) = (Vec::new(), vec![0.0; EXPERTS * k * n]);
    for number in 0..EXPERTS * n * k / 32 {
        let (line, first) = (number / (k / 32), number % (k / 32) * 32);
        // Powers of two, whose f16 is an exponent alone.
        let exponent = (number + seed) % 3;
        let scale = 1.0 / (16 << exponent) as f32;
        bytes.extend(((11 - exponent as u16) << 10).to_le_bytes());
        let code = |at: usize| (number * 29 + at * 13 + seed) % 16;
        let mut put = |at: usize, weight: f32| {
            values[(line / n * k + first + at) * n + line % n] = weight * scale;
        };
        for at in 0..32 {
            put(at, code(at) as f32 - 8.0);
        }
        match kind {
            Gguf::Q4_0 => bytes.extend((0..16).map(|at| (code(at) | code(at + 16) << 4) as u8)),
            Gguf::Q8_0 => bytes.extend((0..32).map(|at| code(at) as u8).map(|code| code.wrapping_sub(8))),
            _ => unreachable!("blocks of two types are made here"),
        }
    }
    let data = TensorData::new(bytes, [EXPERTS, n, k / 32 * kind.bytes()]);
    let own = Tensor::<3, Int>::from_data(data, (device, DType::U8));
    (GgufMatrices::new(own, kind), Tensor::from_data(TensorData::new(values, [EXPERTS, k, n]), device))
}

#[test]
fn experts_in_blocks_are_those_of_what_the_blocks_stand_for() {
    let device = Device::from(RocmDevice::emulated("gfx942").unwrap().burn());
    let (model, hidden) = (32, 96);
    for kind in [Gguf::Q8_0, Gguf::Q4_0] {
        let of = |shape, seed| blocks(kind, shape, seed, &device);
        let [(gate, of_gate), (up, of_up)] = [of([hidden, model], 1), of([hidden, model], 2)];
        let (down, of_down) = of([model, hidden], 3);
        let coded = GgufExperts { gate, up, down, activation: Activation::Silu };
        let [gate, up, down] = [of_gate, of_up, of_down].map(Param::from_tensor);
        let plain = Experts { gate, up, down, activation: Activation::Silu };
        // By lanes and by tiles, in 16 bits by codes as operands, with choices of no expert; of numbers that an operator has just made.
        for (rows, dtype, near) in
            [(1, DType::F32, 2e-5), (13, DType::F32, 2e-5), (1, DType::F16, 4e-3), (13, DType::F16, 4e-3)]
        {
            let chosen: Vec<i64> = (0..2 * rows as i64).map(|at| [3, 1, 0, -1, 2][at as usize % 5]).collect();
            let chosen = || Tensor::<2, Int>::from_data(TensorData::new(chosen.clone(), [rows, 2]), &device);
            let (x, shares) =
                (numbers([rows, model], 4, DType::F32, &device), numbers([rows, 2], 5, DType::F32, &device));
            let x = x.cast(dtype).mul_scalar(0.75).cast(DType::F32);
            let theirs = plain.forward(x.clone(), chosen(), shares.clone()).into_data();
            let ours = || coded.forward(x.clone().cast(dtype), chosen(), shares.clone().cast(dtype)).into_data();
            let again = ours();
            let ours = ours();
            ours.assert_eq(&again, true);
            let values = |data: &TensorData| data.clone().convert::<f64>().try_into_vec::<f64>().unwrap();
            let (ours, theirs) = (values(&ours), values(&theirs));
            let bound = near * theirs.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
            for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                assert!((a - b).abs() <= bound, "{kind:?}, {rows} rows of {dtype:?}, element {at}: {a} and {b}");
            }
            assert!(theirs.iter().any(|x| x.abs() > 0.01));
        }
        let bytes = coded.clone().into_record().into_bytes().unwrap();
        let (other, _) = of([hidden, model], 9);
        let other = GgufExperts { gate: other, ..coded.clone() };
        let other = other.load_record(ModuleRecord::from_bytes(bytes).unwrap());
        other.gate.blocks.val().into_data().assert_eq(&coded.gate.blocks.val().into_data(), true);
    }
}

#[test]
fn a_layer_in_blocks_is_that_of_what_the_blocks_stand_for() {
    let device = Device::from(RocmDevice::emulated("gfx942").unwrap().burn());
    let [n, k] = [40, 96];
    for (kind, dtype, near) in
        [(Gguf::Q8_0, DType::F32, 2e-5), (Gguf::Q4_0, DType::BF16, 2e-2), (Gguf::Q8_0, DType::F16, 4e-3)]
    {
        let (all, of_all) = blocks(kind, [n, k], 3, &device);
        let weight = GgufMatrices::new(all.blocks.val().narrow(0, 1, 1), kind);
        let plain = of_all.narrow(0, 1, 1).reshape([k, n]);
        let written = weight.dequantise(DType::F32).unwrap().reshape([n, k]);
        written.into_data().assert_eq(&plain.clone().transpose().into_data(), true);
        let bias = numbers([n], 7, DType::F32, &device);
        let layer = GgufLinear { weight, bias: Some(Param::from_tensor(bias.clone())) };
        // A row, a few, and so many that weights are written out; of numbers that an operator has just made.
        for rows in [1, 13, 257] {
            let x = numbers([2, rows as usize, k], rows, DType::F32, &device).cast(dtype).mul_scalar(0.75);
            let ours = || layer.forward(x.clone()).cast(DType::F32).into_data();
            ours().assert_eq(&ours(), true);
            let theirs = x.clone().cast(DType::F32).matmul(plain.clone().unsqueeze()) + bias.clone().unsqueeze();
            let values = |data: TensorData| data.convert::<f64>().try_into_vec::<f64>().unwrap();
            let (ours, theirs) = (values(ours()), values(theirs.into_data()));
            let bound = near * theirs.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
            let far = ours.iter().zip(&theirs).find(|(a, b)| (*a - *b).abs() > bound);
            assert!(far.is_none(), "{kind:?}, {rows} rows of {dtype:?}: {far:?}");
        }
    }
    let flex = Device::from(FlexDevice);
    assert!(matmul_gguf(Tensor::<2>::zeros([1, 32], &flex), &blocks(Gguf::Q8_0, [4, 32], 0, &flex).0).is_none());
}

#[test]
fn a_layer_in_blocks_is_the_same_in_threads_and_where_operators_wait_for_it() {
    let device = || Device::from(RocmDevice::emulated("gfx942").unwrap().burn());
    let [n, k] = [40, 96];
    let weight = GgufMatrices::new(blocks(Gguf::Q8_0, [n, k], 3, &device()).0.blocks.val().narrow(0, 1, 1), Gguf::Q8_0);
    let layer = GgufLinear { weight, bias: Some(Param::from_tensor(numbers([n], 7, DType::F32, &device()))) };
    let run = |layer: &GgufLinear, waits: bool| {
        let settled = |x: Tensor<2>| if waits { x } else { Tensor::from_data(x.into_data(), (&device(), DType::F16)) };
        [1, 13, 257].map(|rows: usize| {
            let x = numbers([rows, k], rows as u32, DType::F16, &device()).mul_scalar(0.75);
            settled(layer.forward(settled(x))).mul_scalar(2.0).into_data()
        })
    };
    let alone = run(&layer, false);
    let same = |got: [TensorData; 3]| got.iter().zip(&alone).for_each(|(got, alone)| got.assert_eq(alone, true));
    same(run(&layer, true));
    std::thread::scope(|scope| {
        let both = [true, false].map(|waits| {
            let (layer, run) = (layer.clone(), &run);
            scope.spawn(move || run(&layer, waits))
        });
        both.into_iter().for_each(|thread| same(thread.join().unwrap()));
    });
}

/// Of each choice the sum over K of what its blocks stand for, times its factor; the same twice; nothing of the wrong row.
#[test]
fn choices_are_products_with_the_matrices_they_name() {
    let device = Device::from(RocmDevice::emulated("gfx1100").unwrap().burn());
    let (n, k, rows, each) = (40, 96, 5, 3);
    for (kind, dtype, near) in [(Gguf::Q8_0, DType::F32, 2e-5), (Gguf::Q4_0, DType::F16, 4e-3)] {
        let (own, plain) = blocks(kind, [n, k], 3, &device);
        let plain = plain.into_data().try_into_vec::<f32>().unwrap();
        let chosen: Vec<i64> = (0..rows * each).map(|at| [3, 1, 0, -1, 2, 1, 1][at % 7]).collect();
        let a = numbers([rows, k], 4, DType::F32, &device).mul_scalar(0.75).cast(dtype);
        let factors = numbers([rows, each], 6, DType::F32, &device);
        for factored in [false, true] {
            let product = || {
                let matrices = Tensor::<2, Int>::from_data(TensorData::new(chosen.clone(), [rows, each]), &device);
                let factors = factored.then(|| factors.clone());
                let y = listed_matmul_gguf(a.clone(), &own, matrices, factors).expect("the device is rocfire's");
                assert_eq!((y.dims(), y.dtype()), ([rows * each, n], dtype));
                y.into_data()
            };
            let (got, again) = (product(), product());
            got.assert_eq(&again, true);
            let got = got.convert::<f32>().try_into_vec::<f32>().unwrap();
            let values = |x: &Tensor<2>| x.clone().cast(DType::F32).into_data().try_into_vec::<f32>().unwrap();
            let (a, factors) = (values(&a), values(&factors));
            for (choice, matrix) in chosen.iter().enumerate() {
                for column in 0..n {
                    let weight = |at: usize| plain[(*matrix as usize * k + at) * n + column];
                    let sum = |matrix: i64| -> f32 {
                        if matrix < 0 { 0.0 } else { (0..k).map(|at| a[choice / each * k + at] * weight(at)).sum() }
                    };
                    let want = sum(*matrix) * if factored { factors[choice] } else { 1.0 };
                    let got = got[choice * n + column];
                    assert!(
                        (got - want).abs() <= near * 4.0,
                        "{kind:?}, choice {choice}, column {column}: {got} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn blocks_are_read_on_devices_of_rocfire_only() {
    let flex = Device::from(FlexDevice);
    let (of_flex, _) = blocks(Gguf::Q8_0, [8, 32], 1, &flex);
    let offsets = Tensor::<1, Int>::from_data(TensorData::new(vec![0_i32; EXPERTS + 1], [EXPERTS + 1]), &flex);
    let a = numbers([3, 32], 4, DType::F32, &flex);
    assert!(grouped_matmul_gguf(a, &of_flex, offsets, GroupedEpilogue::None, None).is_none());
    let ids = Tensor::<2, Int>::from_data(TensorData::new(vec![0_i64; 3], [3, 1]), &flex);
    assert!(ByExpert::new(ids, EXPERTS).is_none());
}

#[test]
fn a_row_of_another_length_is_told_by_name() {
    let device = Device::from(RocmDevice::emulated("gfx942").unwrap().burn());
    let (own, _) = blocks(Gguf::Q8_0, [8, 32], 1, &device);
    let offsets = Tensor::<1, Int>::from_data(TensorData::new(vec![0_i32; EXPERTS + 1], [EXPERTS + 1]), &device);
    let a = numbers([3, 33], 4, DType::F32, &device);
    let product = move || {
        let c = grouped_matmul_gguf(a, &own, offsets, GroupedEpilogue::None, None).expect("the device is rocfire's");
        c.into_data()
    };
    let told = catch_unwind(AssertUnwindSafe(product)).expect_err("33 is no block");
    let message = told.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(message.contains("a must be K in whole blocks of Q8_0"), "{message}");
}
