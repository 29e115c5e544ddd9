//! Experts of codes by codes against what the codes stand for, in f64: values, bits, messages.

mod common;

use candle_core::DType::{BF16, F16, F32, F64};
use candle_core::{DType, Device, Result, Tensor};
use common::{Inputs, gpu, numbers, same};
use rocfire_candle::{
    Activation, Coded, CodedMatrices, Coding, Format, GateParams, Granularity, MatrixCoding, MatrixLayout, combine,
    expert_matmul_scaled, experts_scaled, grouped_matmul_scaled, sort_by_expert,
};

const CHOSEN: usize = 2;
const MODEL: usize = 256;
const HIDDEN: usize = 128;

/// Experts of each row: some have none, and a choice in seven is of no expert.
fn ids(rows: usize, experts: usize) -> Vec<i64> {
    let of = |at: usize| if at % 7 == 3 { -1 } else { ([0, 4, 1, 2, 6][(at * 3 + at / 5) % 5] * (experts / 8)) as i64 };
    (0..rows * CHOSEN).map(of).collect()
}

/// What a code of 8 bits stands for.
fn number(format: Format, code: u8) -> f64 {
    let bias = match format {
        Format::I8 => return f64::from(code as i8),
        Format::E4M3 => 7,
        _ => 8,
    };
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let size = if exponent == 0 { fraction } else { 8.0 + fraction } * 2f64.powi(exponent.max(1) - bias - 3);
    if code & 0x80 == 0 { size } else { -size }
}

/// The number of the nearest code, of two the even one's.
fn nearest(format: Format, x: f64) -> f64 {
    if format == Format::I8 {
        return x.round_ties_even().clamp(-127.0, 127.0);
    }
    let codes = (0..128u8).filter(|&code| number(format, code) <= f64::from(format.largest()));
    let off = |code: u8| ((number(format, code) - x.abs()).abs(), code & 1);
    let best = codes.min_by(|&a, &b| off(a).partial_cmp(&off(b)).unwrap()).unwrap();
    number(format, best).copysign(x)
}

/// What the codes of rows stand for, of runs of so many columns.
fn coded(values: &[f64], format: Format, run: usize) -> Vec<f64> {
    let of_run = |run: &[f64]| {
        let peak = run.iter().fold(0f64, |most, x| most.max(x.abs()));
        let scale = if peak == 0.0 { 1.0 } else { peak as f32 / format.largest() };
        let value = |&x: &f64| f64::from(scale * nearest(format, f64::from(x as f32 * (1.0 / scale))) as f32);
        run.iter().map(value).collect::<Vec<_>>()
    };
    values.chunks(run).flat_map(of_run).collect()
}

/// The matrices that codes stand for, as they lie: `[experts, N, K]`.
fn decoded(of: &CodedMatrices) -> Vec<f64> {
    let codes = of.codes.to_device(&Device::Cpu).unwrap();
    let (_, n, k) = codes.dims3().unwrap();
    let ([k_of, n_of], grid) = (of.coding.block, of.scales.dims3().unwrap());
    let (codes, scales) = (codes.flatten_all().unwrap().to_vec1::<u8>().unwrap(), numbers(&of.scales));
    let scale = |at: usize| scales[(at / (n * k) * grid.1 + at / k % n / n_of) * grid.2 + at % k / k_of.min(k)];
    codes.iter().enumerate().map(|(at, &code)| number(of.coding.format, code) * scale(at)).collect()
}

fn rounded(values: Vec<f64>, dtype: DType) -> Vec<f64> {
    numbers(&Tensor::new(values, &Device::Cpu).unwrap().to_dtype(dtype).unwrap())
}

/// A row `[k]` by a matrix `[n, k]`.
fn product(x: &[f64], w: &[f64]) -> Vec<f64> {
    w.chunks(x.len()).map(|w| x.iter().zip(w).map(|(a, b)| a * b).sum()).collect()
}

struct Layer {
    gate_up: CodedMatrices,
    down: CodedMatrices,
    activations: Coding,
}

impl Layer {
    fn new(inputs: &Inputs, experts: usize, matrices: MatrixCoding, activations: Coding) -> Result<Layer> {
        // Sums of so many products stay of the order of 1.
        let made = |shape: &[usize; 3]| {
            let most = (6.0 / shape[1] as f64).sqrt();
            inputs.range(shape, F32, -most, most)
        };
        let gate_up = CodedMatrices::of(&made(&[experts, MODEL, 2 * HIDDEN])?, matrices)?;
        Ok(Layer { gate_up, down: CodedMatrices::of(&made(&[experts, HIDDEN, MODEL])?, matrices)?, activations })
    }

    fn forward(&self, x: &Tensor, ids: &Tensor, shares: &Tensor) -> Result<Tensor> {
        let gate = GateParams::new(Activation::Silu);
        experts_scaled(x, [&self.gate_up, &self.down], ids, shares, gate, self.activations)
    }

    /// Each row by its experts, one after the other.
    fn written_out(&self, [x, shares]: [&Tensor; 2], ids: &[i64]) -> Vec<f64> {
        let ((format, granularity), dtype) = (self.activations, x.dtype());
        let run = |columns: usize| if let Granularity::Group(run) = granularity { run } else { columns };
        let [gate_up, down] = [&self.gate_up, &self.down].map(decoded);
        let (x, shares) = (coded(&numbers(x), format, run(MODEL)), numbers(shares));
        let mut y = vec![0.0; x.len()];
        for (choice, &expert) in ids.iter().enumerate().filter(|&(_, &expert)| expert >= 0) {
            let row = choice / CHOSEN * MODEL;
            let matrix = |of: &[f64]| -> Vec<f64> {
                let each = of.len() / self.down.codes.dim(0).unwrap();
                of[expert as usize * each..][..each].to_vec()
            };
            let rows = rounded(product(&x[row..row + MODEL], &matrix(&gate_up)), dtype);
            let gated = (0..HIDDEN).map(|at| rows[at] / (1.0 + (-rows[at]).exp()) * rows[HIDDEN + at]).collect();
            let hidden = coded(&rounded(gated, dtype), format, run(HIDDEN));
            for (at, value) in rounded(product(&hidden, &matrix(&down)), dtype).into_iter().enumerate() {
                y[row + at] += shares[choice] * value;
            }
        }
        y
    }
}

const BY_COLUMN: [usize; 2] = [usize::MAX, 1];
const BY_BLOCK: [usize; 2] = [128, 128];

fn matrices(format: Format, block: [usize; 2]) -> MatrixCoding {
    MatrixCoding { is_transposed: true, ..MatrixCoding::new(format, block) }
}

/// What rows lie in that an operator has just made and nobody has read, ids and shares.
fn make(inputs: &Inputs, rows: usize, experts: usize, dtype: DType) -> Result<[Tensor; 3]> {
    let x = (inputs.range(&[MODEL, rows], dtype, -0.5, 0.5)? * 2.0)?.t()?;
    let ids = Tensor::from_vec(ids(rows, experts), (rows, CHOSEN), inputs.device())?;
    Ok([x, ids, inputs.make(&[rows, CHOSEN], F32)?])
}

#[test]
fn experts_of_codes_by_codes_are_those_of_what_the_codes_stand_for() {
    let inputs = Inputs::new(&gpu(), 1);
    let group = Granularity::Group(128);
    for (experts, dtype, format, block, granularity) in [
        (8, F32, Format::I8, BY_COLUMN, Granularity::Token),
        (8, F16, Format::E4M3Fnuz, BY_COLUMN, Granularity::Token),
        (32, BF16, Format::E4M3Fnuz, BY_BLOCK, group),
        (32, F32, Format::E4M3, BY_BLOCK, group),
        (8, BF16, Format::I8, BY_BLOCK, group),
    ] {
        let layer = Layer::new(&inputs, experts, matrices(format, block), (format, granularity)).unwrap();
        for rows in [1, 3, 130] {
            let [x, ids, shares] = make(&inputs, rows, experts, dtype).unwrap();
            let got = layer.forward(&x, &ids, &shares).unwrap();
            let own = ids.flatten_all().unwrap().to_vec1::<i64>().unwrap();
            let want = layer.written_out([&x, &shares], &own);
            let want = Tensor::from_vec(want, (rows, MODEL), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
            // Hidden rows are coded from the same numbers in f32; of 16 bits a product that is rounded the other way may give another code.
            let within = [1e-4, 1e-2, 6e-2][[F32, F16, BF16].iter().position(|&of| of == dtype).unwrap()];
            let what = format!("{format:?} {granularity:?} {dtype:?} {rows} of {experts}");
            same(&what, &got, &want, within);
            let again = layer.forward(&x, &ids, &shares).unwrap();
            assert_eq!(numbers(&again), numbers(&got), "{what}: the same thing twice");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_batch() {
    const ROWS: usize = 130;
    let inputs = Inputs::new(&gpu(), 1);
    for (format, block, granularity) in [
        (Format::I8, BY_COLUMN, Granularity::Token),
        (Format::E4M3Fnuz, BY_BLOCK, Granularity::Group(128)),
        (Format::E4M3, BY_COLUMN, Granularity::Token),
    ] {
        let layer = Layer::new(&inputs, 8, matrices(format, block), (format, granularity)).unwrap();
        let [x, ids, shares] = make(&inputs, ROWS, 8, BF16).unwrap();
        let of = |first: usize, rows: usize| {
            let part = |of: &Tensor| of.narrow(0, first, rows).unwrap();
            numbers(&layer.forward(&part(&x), &part(&ids), &part(&shares)).unwrap())
        };
        let whole = of(0, ROWS);
        for (row, rows) in [(0, 1), (17, 3), (60, 40), (ROWS - 1, 1)] {
            assert_eq!(of(row, rows), whole[row * MODEL..][..rows * MODEL], "{format:?}: {rows} rows from {row}");
        }
    }
}

/// Whether what the first product's matrices are laid out as is in tiles on the emulated device.
fn is_laid_out(of: &CodedMatrices) -> bool {
    of.layout.as_ref().is_some_and(MatrixLayout::is_laid_out)
}

#[test]
fn matrices_laid_out_give_the_bits_of_those_in_rows() {
    let inputs = Inputs::new(&gpu(), 1);
    for (format, block, granularity) in [
        (Format::I8, BY_COLUMN, Granularity::Token),
        (Format::E4M3Fnuz, BY_BLOCK, Granularity::Group(128)),
        (Format::E4M3, BY_BLOCK, Granularity::Group(128)),
    ] {
        let layer = Layer::new(&inputs, 8, matrices(format, block), (format, granularity)).unwrap();
        let [gate_up, down] = [&layer.gate_up, &layer.down].map(|of| of.clone().laid_out());
        let laid_out = Layer { gate_up, down, activations: layer.activations };
        assert!(!is_laid_out(&laid_out.gate_up), "nothing was multiplied by");
        for rows in [1, 3, 130] {
            let [x, ids, shares] = make(&inputs, rows, 8, BF16).unwrap();
            let want = numbers(&layer.forward(&x, &ids, &shares).unwrap());
            for turn in 0..2 {
                let got = numbers(&laid_out.forward(&x, &ids, &shares).unwrap());
                assert_eq!(got, want, "{format:?}, {rows} rows, turn {turn}");
            }
        }
        assert!(is_laid_out(&laid_out.gate_up) && is_laid_out(&laid_out.down) && !is_laid_out(&layer.down));
        // Other codes than those that were laid out.
        let other = Layer::new(&inputs, 8, matrices(format, block), (format, granularity)).unwrap();
        let [x, ids, shares] = make(&inputs, 9, 8, BF16).unwrap();
        let with = |layer: &Layer, layout: Option<&MatrixLayout>| {
            let gate_up = CodedMatrices { layout: layout.cloned(), ..other.gate_up.clone() };
            let layer = Layer { gate_up, down: layer.down.clone(), activations: layer.activations };
            numbers(&layer.forward(&x, &ids, &shares).unwrap())
        };
        assert_eq!(with(&laid_out, laid_out.gate_up.layout.as_ref()), with(&layer, None), "{format:?}, other codes");
    }
}

/// What one handle has just made, with matrices, ids or shares of the other.
#[test]
fn rows_and_experts_of_two_handles_go_together() {
    let [here, there] = [(); 2].map(|()| {
        let inputs = Inputs::new(&Device::new_cuda(0).expect("there is always an emulated device"), 1);
        let coding = (Format::E4M3Fnuz, Granularity::Group(128));
        let layer = Layer::new(&inputs, 8, matrices(Format::E4M3Fnuz, BY_BLOCK), coding).unwrap();
        (layer, make(&inputs, 9, 8, BF16).unwrap())
    });
    let (layer, [x, ids, shares]) = &here;
    let want = numbers(&layer.forward(x, ids, shares).unwrap());
    let (other, [other_x, other_ids, other_shares]) = &there;
    let [gate_up, down] = [&other.gate_up, &other.down].map(|of| of.clone().laid_out());
    let laid_out = Layer { gate_up, down, activations: other.activations };
    for (what, got) in [
        ("matrices", other.forward(x, ids, shares)),
        ("matrices laid out", laid_out.forward(x, ids, shares)),
        ("rows, and matrices laid out before", laid_out.forward(other_x, ids, shares)),
        ("rows", layer.forward(other_x, ids, shares)),
        ("ids and shares", layer.forward(x, other_ids, other_shares)),
    ] {
        assert_eq!(numbers(&got.unwrap()), want, "{what} of the other handle");
    }
}

#[test]
fn experts_of_another_device_count_nothing() {
    let inputs = Inputs::new(&gpu(), 1);
    let (rows, coding) = (5, (Format::I8, Granularity::Token));
    let layer = Layer::new(&inputs, 8, matrices(Format::I8, BY_COLUMN), coding).unwrap();
    let [x, ids, shares] = make(&inputs, rows, 8, F32).unwrap();
    // The second half is here: experts 4 to 7.
    let map = Tensor::new(&[-1i64, -1, -1, -1, 0, 1, 2, 3], inputs.device()).unwrap();
    let by = sort_by_expert(&ids, 8, Some((&map, 4)), None).unwrap();
    let half = |of: &CodedMatrices| {
        let part = |of: &Tensor| of.narrow(0, 4, 4).unwrap();
        CodedMatrices::from_codes(part(&of.codes), part(&of.scales), of.coding)
    };
    let hidden = expert_matmul_scaled(&Coded::of(&x, coding).unwrap(), &half(&layer.gate_up), &by, F32).unwrap();
    let hidden = Coded::of_gate(&hidden, GateParams::new(Activation::Silu), coding).unwrap();
    let y = grouped_matmul_scaled(&hidden, &half(&layer.down), &by.offsets, F32).unwrap();
    let got = combine(&y, &shares, &by, None).unwrap();
    let own: Vec<i64> = ids.flatten_all().unwrap().to_vec1().unwrap();
    let own: Vec<i64> = own.into_iter().map(|expert| if expert < 4 { -1 } else { expert }).collect();
    let masked = Tensor::from_vec(own, (rows, CHOSEN), inputs.device()).unwrap();
    assert_eq!(numbers(&got), numbers(&layer.forward(&x, &masked, &shares).unwrap()));
}

#[test]
fn codes_of_a_checkpoint_are_those_of_the_machine() {
    let inputs = Inputs::new(&gpu(), 1);
    let group = Granularity::Group(128);
    let theirs = Layer::new(&inputs, 8, matrices(Format::E4M3, BY_BLOCK), (Format::E4M3Fnuz, group)).unwrap();
    let (gate_up, down) = (theirs.gate_up.to_fnuz().unwrap(), theirs.down.to_fnuz().unwrap());
    assert_eq!(decoded(&gate_up), decoded(&theirs.gate_up));
    let ours = Layer { gate_up, down, activations: theirs.activations };
    let [x, ids, shares] = make(&inputs, 9, 8, F32).unwrap();
    // One by the unit, the other decoded: products are exact in both, their sums are of another order.
    let [got, want] = [ours, theirs].map(|layer| layer.forward(&x, &ids, &shares).unwrap());
    same("fnuz", &got, &want.to_device(&Device::Cpu).unwrap(), 1e-4);
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let inputs = Inputs::new(&gpu(), 1);
    let by_block = matrices(Format::E4M3, BY_BLOCK);
    let group = (Format::E4M3, Granularity::Group(128));
    let layer = Layer::new(&inputs, 8, by_block, group).unwrap();
    let [x, ids, shares] = make(&inputs, 5, 8, F32).unwrap();
    let told = |what: &str, result: Result<Tensor>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(what), "{what}: {message}");
    };
    let fewer = x.narrow(1, 0, MODEL - 8).unwrap();
    told("b.codes must be 248 codes to a row, got 256", layer.forward(&fewer, &ids, &shares));
    let along_n = CodedMatrices { coding: MatrixCoding::new(Format::E4M3, BY_BLOCK), ..layer.gate_up.clone() };
    let of = |gate_up: CodedMatrices, activations: Coding| {
        Layer { gate_up, down: layer.down.clone(), activations }.forward(&x, &ids, &shares)
    };
    told("b.coding must be of transposed matrices", of(along_n, group));
    // Rows that are no multiple of 128 have a scale for what is left over.
    let wide = CodedMatrices::of(&inputs.make(&[8, 300, 2 * HIDDEN], F32).unwrap(), by_block).unwrap();
    let short = CodedMatrices { scales: wide.scales.narrow(2, 0, 2).unwrap(), ..wide.clone() };
    let by = sort_by_expert(&ids, 8, None, None).unwrap();
    let rows = Coded::of(&inputs.make(&[5, 300], F32).unwrap(), group).unwrap();
    told("b.scales must be [2, 3], got [2, 2]", expert_matmul_scaled(&rows, &short, &by, F32));
    told(
        "a.block must be rows, and a multiple of 32",
        of(layer.gate_up.clone(), (Format::E4M3, Granularity::Group(40))),
    );
    told("expert_matmul_scaled", expert_matmul_scaled(&rows, &wide, &by, F64));
    assert!(layer.gate_up.to_fnuz().unwrap().to_fnuz().unwrap_err().to_string().contains("coding must be E4M3"));
}
