//! Experts of codes by codes against what the codes stand for, in f64.

mod common;

use burn::backend::FlexDevice;
use burn::module::{Module, Param};
use burn::store::ModuleRecord;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::numbers;
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{
    Activation, ByExpert, Coded, CodedMatrices, Experts, Format, Granularity, MatrixCoding, MatrixLayout,
    ScaledExperts, Scales, grouped_matmul_scaled,
};

const EXPERTS: usize = 8;
const CHOSEN: usize = 2;
const MODEL: usize = 160;
const HIDDEN: usize = 128;

fn rocm() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn())
}

/// What a code of 8 bits stands for.
fn number(format: Format, code: u8) -> f64 {
    if format == Format::I8 {
        return f64::from(code as i8);
    }
    let bias = if format == Format::E4M3 { 7 } else { 8 };
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let size = if exponent == 0 { fraction } else { 8.0 + fraction } * 2f64.powi(exponent.max(1) - bias - 3);
    if code & 0x80 == 0 { size } else { -size }
}

fn values(data: TensorData) -> Vec<f64> {
    data.convert::<f64>().try_into_vec::<f64>().unwrap()
}

/// What codes of so many matrices stand for, of blocks of rows and columns.
fn decoded(
    codes: TensorData,
    scales: TensorData,
    format: Format,
    [rows, columns]: [usize; 2],
    [down, along]: [usize; 2],
) -> Vec<f64> {
    let codes = codes.convert::<u8>().try_into_vec::<u8>().unwrap();
    let (scales, grid) = (values(scales), [rows.div_ceil(down), columns.div_ceil(along)]);
    let scale = |at: usize| {
        let (matrix, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        scales[(matrix * grid[0] + row / down) * grid[1] + column / along]
    };
    codes.iter().enumerate().map(|(at, &code)| number(format, code) * scale(at)).collect()
}

/// `[experts, N, K]`.
fn matrices(of: &CodedMatrices, [n, k]: [usize; 2]) -> Vec<f64> {
    let [of_k, of_n] = of.coding.block;
    let scales = of.scales.as_ref().expect("scales are floats").val().into_data();
    decoded(of.codes.val().into_data(), scales, of.coding.format, [n, k], [of_n, of_k.min(k)])
}

/// What codes of rows stand for.
fn of_rows(coded: &Coded) -> Vec<f64> {
    let Scales::Floats(scales) = coded.scales.clone() else { panic!("scales are floats") };
    let [rows, columns] = coded.codes.dims();
    let along = if let Granularity::Group(group) = coded.coding.1 { group } else { columns };
    decoded(coded.codes.clone().into_data(), scales.into_data(), coded.coding.0, [rows, columns], [1, along])
}

fn close(what: &str, got: &[f64], want: &[f64], within: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= within, "{what}, {at}: {got} and {want} within {within:e}");
    }
}

fn chosen(rows: usize) -> Vec<i64> {
    (0..rows * CHOSEN).map(|at| if at % 7 == 3 { -1 } else { [0, 4, 1, 2, 6][(at * 3 + at / 5) % 5] }).collect()
}

/// A row by a matrix `[N, K]` of several.
fn product(x: &[f64], matrices: &[f64], expert: usize) -> Vec<f64> {
    let own = &matrices[expert * matrices.len() / EXPERTS..][..matrices.len() / EXPERTS];
    own.chunks(x.len()).map(|w| x.iter().zip(w).map(|(a, b)| a * b).sum()).collect()
}

/// Each row by its experts, one after the other. Codes between the products are the device's, within half a step of what they are made
/// of: of two that are as near either may be taken.
fn written_out(layer: &ScaledExperts, x: Tensor<2>, ids: Tensor<2, Int>, shares: &[f64]) -> Vec<f64> {
    let (gate_up, down) = (matrices(&layer.gate_up, [2 * HIDDEN, MODEL]), matrices(&layer.down, [MODEL, HIDDEN]));
    let by = ByExpert::new(ids.clone(), EXPERTS).unwrap();
    let coded = Coded::of(x, layer.activations).unwrap();
    let (x, ids) = (of_rows(&coded), values(ids.into_data()));
    let lines = by.matmul_scaled(coded, &layer.gate_up, DType::F32).unwrap();
    let hidden = of_rows(&Coded::of_gate(lines.clone(), layer.gate, layer.activations).unwrap());
    let (lines, places) = (values(lines.into_data()), values(by.places.into_data()));
    let mut y = vec![0.0; x.len()];
    for (choice, &expert) in ids.iter().enumerate().filter(|&(_, &expert)| expert >= 0.0) {
        let (row, place) = (choice / CHOSEN * MODEL, places[choice] as usize);
        let want = product(&x[row..row + MODEL], &gate_up, expert as usize);
        let most = |of: &[f64]| of.iter().fold(0f64, |most, x| most.max(x.abs()));
        close("first product", &lines[place * 2 * HIDDEN..][..2 * HIDDEN], &want, 2e-6 * most(&want));
        let gated: Vec<f64> = (0..HIDDEN).map(|at| want[at] / (1.0 + (-want[at]).exp()) * want[HIDDEN + at]).collect();
        let own = &hidden[place * HIDDEN..][..HIDDEN];
        // Of 8-bit floats the largest numbers are 1/16 of them apart.
        let step = most(&gated) * if layer.activations.0 == Format::I8 { 1.0 / 127.0 } else { 1.0 / 14.0 };
        close("gates", own, &gated, 0.501 * step);
        let of_choice = product(own, &down, expert as usize);
        of_choice.into_iter().enumerate().for_each(|(at, value)| y[row + at] += shares[choice] * value);
    }
    y
}

#[test]
fn experts_of_codes_by_codes_are_those_of_what_the_codes_stand_for() {
    let device = rocm();
    let group = Granularity::Group(128);
    for (format, block, granularity) in [
        (Format::I8, [usize::MAX, 1], Granularity::Token),
        (Format::E4M3Fnuz, [usize::MAX, 1], Granularity::Token),
        (Format::E4M3Fnuz, [128, 128], group),
        (Format::E4M3, [128, 128], group),
    ] {
        let coding = MatrixCoding { is_transposed: true, ..MatrixCoding::new(format, block) };
        let made = || {
            let weight = |shape, seed| Param::from_tensor(numbers::<3>(shape, seed, DType::F32, &device));
            let [gate, up] = [1, 2].map(|seed| weight([EXPERTS, MODEL, HIDDEN], seed));
            let experts = Experts { gate, up, down: weight([EXPERTS, HIDDEN, MODEL], 3), activation: Activation::Silu };
            ScaledExperts::new(experts, coding, (format, granularity)).expect("the device is rocfire's")
        };
        let layer = made();
        // Rows that an operator has just made and nobody has read.
        let x = |rows: usize| numbers([MODEL, rows], 4, DType::F32, &device).mul_scalar(2.0).swap_dims(0, 1);
        let ids = |rows: usize| Tensor::<2, Int>::from_data(TensorData::new(chosen(rows), [rows, CHOSEN]), &device);
        let shares = |rows: usize| numbers::<2>([rows, CHOSEN], 5, DType::F32, &device);
        for rows in [1, 3, 40] {
            let got = values(layer.forward(x(rows), ids(rows), shares(rows)).into_data());
            let want = written_out(&layer, x(rows), ids(rows), &values(shares(rows).into_data()));
            let most = want.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
            close(&format!("{format:?} {granularity:?}, {rows} rows"), &got, &want, 2e-6 * most);
            let again = values(layer.forward(x(rows), ids(rows), shares(rows)).into_data());
            assert_eq!(again, got, "{format:?}: the same thing twice");
            // Some of the rows have the bits that they have among all.
            let part = |first: usize, rows_of: usize| {
                let of = layer.forward(
                    x(rows).narrow(0, first, rows_of),
                    ids(rows).narrow(0, first, rows_of),
                    shares(rows).narrow(0, first, rows_of),
                );
                values(of.into_data())
            };
            for row in [0, rows / 2, rows - 1] {
                assert_eq!(part(row, 1), got[row * MODEL..][..MODEL], "{format:?}: row {row} of {rows}");
            }
        }
        // Laid out, the same bits; also those of a clone, which takes what is laid out.
        let laid_out = layer.clone().laid_out();
        let is_laid_out = |of: &CodedMatrices| of.layout.as_ref().is_some_and(MatrixLayout::is_laid_out);
        for (rows, layer_of) in [(1, laid_out.clone()), (3, laid_out.clone()), (40, laid_out.clone())] {
            let want = values(layer.forward(x(rows), ids(rows), shares(rows)).into_data());
            let got = values(layer_of.forward(x(rows), ids(rows), shares(rows)).into_data());
            assert_eq!(got, want, "{format:?} laid out, {rows} rows");
        }
        assert!(is_laid_out(&laid_out.gate_up) && is_laid_out(&laid_out.down) && !is_laid_out(&layer.down));
        let bytes = laid_out.into_record().into_bytes().unwrap();
        let other = made().load_record(ModuleRecord::from_bytes(bytes).unwrap());
        other.gate_up.codes.val().into_data().assert_eq(&layer.gate_up.codes.val().into_data(), true);
    }
}

/// What a layer gives for one, a few and many rows that operators have just made: with an operator behind that waits for it, or read at once.
fn forwards(layer: &ScaledExperts, waits: bool) -> Vec<Vec<f64>> {
    let device = rocm();
    let settled = |x: Tensor<2>| match waits {
        true => x,
        false => Tensor::from_data(x.into_data(), &device),
    };
    [1, 3, 40]
        .map(|rows| {
            let x = settled(numbers([MODEL, rows], 4, DType::F32, &device).mul_scalar(2.0).swap_dims(0, 1));
            let shares = settled(numbers([rows, CHOSEN], 5, DType::F32, &device).abs());
            let ids = Tensor::<2, Int>::from_data(TensorData::new(chosen(rows), [rows, CHOSEN]), &device);
            values(settled(layer.forward(x, ids, shares)).add_scalar(1.0).into_data())
        })
        .to_vec()
}

#[test]
fn experts_laid_out_are_the_same_in_threads_and_where_operators_wait_for_them() {
    let made = || {
        let weight = |shape, seed| Param::from_tensor(numbers::<3>(shape, seed, DType::F32, &rocm()));
        let [gate, up] = [1, 2].map(|seed| weight([EXPERTS, MODEL, HIDDEN], seed));
        let experts = Experts { gate, up, down: weight([EXPERTS, HIDDEN, MODEL], 3), activation: Activation::Silu };
        let coding = MatrixCoding { is_transposed: true, ..MatrixCoding::new(Format::E4M3Fnuz, [128, 128]) };
        ScaledExperts::new(experts, coding, (Format::E4M3Fnuz, Granularity::Group(128))).unwrap().laid_out()
    };
    let alone = forwards(&made(), false);
    assert!(alone.iter().all(|rows| rows.iter().any(|&y| (y - 1.0).abs() > 1e-3)));
    assert_eq!(forwards(&made(), true), alone);
    // Two threads lay out the same matrices, each by a handle of its own; then both take what is laid out.
    let layer = made();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let both = [true, false].map(|waits| {
                let layer = layer.clone();
                scope.spawn(move || forwards(&layer, waits))
            });
            for thread in both {
                assert_eq!(thread.join().unwrap(), alone);
            }
        });
    }
}

#[test]
fn codes_of_a_checkpoint_are_those_of_the_machine() {
    let coding = MatrixCoding { is_transposed: true, ..MatrixCoding::new(Format::E4M3, [128, 128]) };
    let theirs = CodedMatrices::of(numbers([2, MODEL, HIDDEN], 1, DType::F32, &rocm()), coding).unwrap();
    let ours = theirs.to_fnuz().unwrap();
    assert_eq!(ours.coding.format, Format::E4M3Fnuz);
    assert_eq!(matrices(&ours, [HIDDEN, MODEL]), matrices(&theirs, [HIDDEN, MODEL]));
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let device = rocm();
    let told = |what: &str, multiply: &dyn Fn() -> Tensor<2>| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| multiply().into_data()));
        let error = result.expect_err("it does not fit");
        let message = error.downcast_ref::<String>().expect("a message");
        assert!(message.contains(what), "{what}: {message}");
    };
    let coding = MatrixCoding { is_transposed: true, ..MatrixCoding::new(Format::I8, [usize::MAX, 1]) };
    let by = ByExpert::new(Tensor::from_data([[0i64, 1], [1, 0]], &device), 2).unwrap();
    let rows = |columns: usize| {
        Coded::of(numbers([2, columns], 1, DType::F32, &device), (Format::I8, Granularity::Token)).unwrap()
    };
    let of = |coding| CodedMatrices::of(numbers([2, 64, 32], 2, DType::F32, &device), coding).unwrap();
    told("b.codes must be 48 codes to a row, got 64", &|| by.matmul_scaled(rows(48), &of(coding), DType::F32).unwrap());
    let along_n = MatrixCoding { is_transposed: false, ..coding };
    told("b.coding must be of transposed matrices", &|| {
        grouped_matmul_scaled(rows(64), &of(along_n), Tensor::from_data([0i64, 1, 2], &device), DType::F32).unwrap()
    });
    told("groups must be contiguous [3]", &|| {
        grouped_matmul_scaled(rows(64), &of(coding), Tensor::from_data([0i64, 2], &device), DType::F32).unwrap()
    });
    let theirs = numbers::<2>([2, 64], 1, DType::F32, &Device::from(FlexDevice));
    assert!(Coded::of(theirs, (Format::I8, Granularity::Token)).is_none());
}
