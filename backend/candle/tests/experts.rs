//! Experts of a mixture against every row through every matrix, in f64 on the CPU: values, gradients, messages.

mod common;

use candle_core::DType::{BF16, F16, F32, F64, I64, U32};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use common::{Inputs, agree_within, gpu, numbers, same};
use rocfire_candle::{
    Activation, ByExpert, CodedMatrices, Format, Gguf, GgufMatrices, GroupedEpilogue, MatrixCoding, combine,
    expert_matmul, expert_matmul_coded, expert_matmul_gguf, experts, experts_coded, experts_gguf, grouped_matmul,
    matmul_gguf, sort_by_expert,
};

const ROWS: usize = 13;
const CHOSEN: usize = 3;
const EXPERTS: usize = 5;
const MODEL: usize = 24;
const HIDDEN: usize = 40;

/// Experts of each row: the fourth has none, one choice is of no expert.
fn ids() -> Vec<i64> {
    let of = |at: usize| if at == 7 { -1 } else { [0, 4, 1, 2, 2][(at * 3 + at / CHOSEN) % 5] };
    (0..ROWS * CHOSEN).map(of).collect()
}

fn chosen(inputs: &Inputs) -> Result<Tensor> {
    Tensor::from_vec(ids(), (ROWS, CHOSEN), inputs.device())
}

/// What each row gives to an expert, `[rows, experts]`, in f64.
fn dense(shares: &Tensor) -> Result<Tensor> {
    let columns = (0..EXPERTS as i64).map(|expert| {
        let is_own: Vec<f64> = ids().iter().map(|&id| f64::from(u8::from(id == expert))).collect();
        (Tensor::from_vec(is_own, (ROWS, CHOSEN), shares.device())? * shares)?.sum(1)
    });
    Tensor::stack(&columns.collect::<Result<Vec<_>>>()?, 1)
}

/// Every row through every expert.
fn written_out(x: &Tensor, [gate, up, down]: [&Tensor; 3], shares: &Tensor) -> Result<Tensor> {
    let x = x.unsqueeze(0)?;
    let gates = x.broadcast_matmul(gate)?;
    let hidden = (candle_nn::ops::silu(&gates)? * x.broadcast_matmul(up)?)?;
    let y = hidden.matmul(down)?;
    y.broadcast_mul(&dense(shares)?.t()?.unsqueeze(D::Minus1)?)?.sum(0)
}

fn make(inputs: &Inputs, dtype: DType) -> Result<([Tensor; 4], Tensor)> {
    // Sums of products of three such numbers stay of the order of 1.
    let made = |shape: &[usize]| inputs.range(shape, dtype, -0.5, 0.5);
    // A view that nobody has read.
    let x = (made(&[MODEL, ROWS])? * 2.0)?.t()?;
    let gate = made(&[EXPERTS, MODEL, HIDDEN])?;
    let up = made(&[EXPERTS, HIDDEN, MODEL])?.transpose(1, 2)?;
    let down = made(&[EXPERTS, HIDDEN, MODEL])?;
    Ok(([x, gate, up, down], inputs.make(&[ROWS, CHOSEN], F32)?))
}

#[test]
fn experts_are_those_that_every_row_goes_through() {
    for dtype in [F32, F16, BF16] {
        agree_within(&format!("experts {dtype:?}"), 64.0, |inputs| {
            let ([x, gate, up, down], shares) = make(inputs, dtype)?;
            if !inputs.device().is_cpu() {
                return experts(&x, [&gate, &up, &down], &chosen(inputs)?, &shares, Activation::Silu);
            }
            let [x, gate, up, down, shares] = [x, gate, up, down, shares].map(|of| of.to_dtype(F64));
            written_out(&x?, [&gate?, &up?, &down?], &shares?)?.to_dtype(dtype)
        });
    }
}

#[test]
fn experts_train() {
    // Of x, the three weights and the shares.
    for of in 0..5 {
        agree_within(&format!("gradient {of}"), 64.0, |inputs| {
            let ([x, gate, up, down], shares) = make(inputs, F32)?;
            let leaves = [x, gate, up, down, shares].map(|of| Var::from_tensor(&of.contiguous()?));
            let leaves = leaves.into_iter().collect::<Result<Vec<_>>>()?;
            let [x, gate, up, down, shares] = &leaves[..] else { unreachable!("five were made") };
            let y = if inputs.device().is_cpu() {
                let wide: Vec<_> = leaves.iter().map(|leaf| leaf.to_dtype(F64)).collect::<Result<_>>()?;
                written_out(&wide[0], [&wide[1], &wide[2], &wide[3]], &wide[4])?.to_dtype(F32)?
            } else {
                let by = sort_by_expert(&chosen(inputs)?, EXPERTS, None, None)?;
                through(x, [gate, up, down], shares, &by)?
            };
            let gradients = (&y * inputs.make(&[ROWS, MODEL], F32)?)?.sum_all()?.backward()?;
            gradients.get(&leaves[of]).cloned().ok_or_else(|| candle_core::Error::msg("no gradient"))
        });
    }
}

/// By the parts that have gradients.
fn through(x: &Tensor, [gate, up, down]: [&Var; 3], shares: &Tensor, by: &ByExpert) -> Result<Tensor> {
    let product = |weight: &Var| expert_matmul(x, weight, by, GroupedEpilogue::None, None);
    let hidden = (candle_nn::ops::silu(&product(gate)?)? * product(up)?)?;
    combine(&grouped_matmul(&hidden, down, &by.offsets, GroupedEpilogue::None, None)?, shares, by, None)
}

#[test]
fn padded_blocks_give_the_same_bits_and_the_same_gradients() {
    let inputs = Inputs::new(&gpu(), 1);
    let run = |block: Option<usize>| -> Result<Vec<Vec<f64>>> {
        let ([x, gate, up, down], shares) = make(&Inputs::new(inputs.device(), 1), F32)?;
        let leaves = [x, gate, up, down, shares].map(|of| Var::from_tensor(&of.contiguous()?));
        let leaves = leaves.into_iter().collect::<Result<Vec<_>>>()?;
        let [x, gate, up, down, shares] = &leaves[..] else { unreachable!("five were made") };
        let by = sort_by_expert(&chosen(&inputs)?, EXPERTS, None, block)?;
        let y = through(x, [gate, up, down], shares, &by)?;
        let gradients = y.sqr()?.sum_all()?.backward()?;
        let gradients = leaves.iter().map(|leaf| numbers(gradients.get(leaf).unwrap()));
        Ok(std::iter::once(numbers(&y)).chain(gradients).collect())
    };
    let plain = run(None).unwrap();
    assert!(plain.iter().flatten().all(|x| x.is_finite()));
    let padded = run(Some(16)).unwrap();
    assert_eq!(padded[0], plain[0]);
    // Sums over the rows of an expert meet the zeros of padding in between.
    for (number, (padded, plain)) in padded.iter().zip(&plain).enumerate().skip(1) {
        assert_eq!(padded.len(), plain.len());
        for (a, b) in padded.iter().zip(plain) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "gradient {number}: {a} and {b}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_batch() {
    let inputs = Inputs::new(&gpu(), 1);
    let ([x, gate, up, down], shares) = make(&inputs, BF16).unwrap();
    let ids = chosen(&inputs).unwrap();
    let of = |first: usize, rows: usize| {
        let part = |of: &Tensor| of.narrow(0, first, rows).unwrap();
        let y = experts(&part(&x), [&gate, &up, &down], &part(&ids), &part(&shares), Activation::Silu).unwrap();
        numbers(&y)
    };
    let whole = of(0, ROWS);
    for row in [0, 2, ROWS - 1] {
        assert_eq!(of(row, 1), whole[row * MODEL..][..MODEL], "row {row}");
    }
}

/// What codes of int8 stand for, `[experts, K, N]`.
fn decoded(of: &CodedMatrices) -> Result<Tensor> {
    let (codes, block) = (of.codes.to_device(&Device::Cpu)?, of.coding.block);
    let (count, rows, cols) = codes.dims3()?;
    let block = if of.coding.is_transposed { [block[1], block[0]] } else { block };
    let grid = of.scales.dims3()?;
    let (codes, scales) = (codes.flatten_all()?.to_vec1::<u8>()?, numbers(&of.scales));
    let element = |at: usize| {
        let cell = (at / (rows * cols) * grid.1 + at / cols % rows / block[0]) * grid.2 + at % cols / block[1];
        f64::from(codes[at] as i8) * scales[cell]
    };
    let all =
        Tensor::from_vec((0..count * rows * cols).map(element).collect::<Vec<_>>(), (count, rows, cols), &Device::Cpu)?;
    if of.coding.is_transposed { all.transpose(1, 2) } else { Ok(all) }
}

#[test]
fn experts_of_codes_are_those_of_what_the_codes_stand_for() {
    let inputs = Inputs::new(&gpu(), 1);
    for (dtype, is_transposed) in [(F32, false), (F16, true), (BF16, false)] {
        let coding = MatrixCoding { is_transposed, ..MatrixCoding::new(Format::I8, [8, 5]) };
        let ([x, gate, up, down], shares) = make(&inputs, dtype).unwrap();
        let coded = [&gate, &up, &down].map(|matrices| CodedMatrices::of(matrices, coding).unwrap());
        let ids = chosen(&inputs).unwrap();
        let [a, b, c] = &coded;
        let got = experts_coded(&x, [a, b, c], &ids, &shares, Activation::Silu).unwrap();
        let [gate, up, down] = [a, b, c].map(|of| decoded(of).unwrap());
        let [x, shares] = [&x, &shares].map(|of| of.to_device(&Device::Cpu).unwrap().to_dtype(F64).unwrap());
        let want = written_out(&x, [&gate, &up, &down], &shares).unwrap().to_dtype(dtype).unwrap();
        // Codes by scales are rounded to the type where these vary along K, and so are what lies between the products.
        let within = [2e-5, 1e-2, 6e-2][[F32, F16, BF16].iter().position(|&of| of == dtype).unwrap()];
        same(&format!("{dtype:?}"), &got, &want, within);
    }
    let ([x, gate, ..], shares) = make(&inputs, F32).unwrap();
    let of = CodedMatrices::of(&gate, MatrixCoding::new(Format::I8, [8, 5])).unwrap();
    let by = sort_by_expert(&chosen(&inputs).unwrap(), EXPERTS, None, None).unwrap();
    let told = |what: &str, message: String| assert!(message.contains(what), "{what}: {message}");
    let fewer = x.narrow(1, 0, MODEL - 1).unwrap();
    told("a must be", expert_matmul_coded(&fewer, &of, &by, GroupedEpilogue::None, None).unwrap_err().to_string());
    told(
        "scales",
        expert_matmul_coded(&x, &CodedMatrices { scales: shares, ..of }, &by, GroupedEpilogue::None, None)
            .unwrap_err()
            .to_string(),
    );
    let none = MatrixCoding::new(Format::I8, [0, 5]);
    told("matrices", CodedMatrices::of(&gate, none).unwrap_err().to_string());
}

/// Experts of these widths, `[experts, outputs, inputs]` each, in blocks of a type: Candle's own, and what its CPU makes of them.
fn in_blocks(kind: GgmlDType, [model, hidden]: [usize; 2]) -> Result<([GgufMatrices; 3], [Tensor; 3])> {
    let cpu = Inputs::new(&Device::Cpu, 1);
    // Sums of so many products stay of the order that they have in the other tests.
    let most = (6.0 / model.max(hidden) as f64).sqrt();
    let made = [[EXPERTS, hidden, model], [EXPERTS, hidden, model], [EXPERTS, model, hidden]].map(|shape| {
        let quantised = QTensor::quantize(&cpu.range(&shape, F32, -most, most)?, kind)?;
        let decoded = quantised.dequantize(&Device::Cpu)?.to_dtype(F64)?.transpose(1, 2)?;
        Ok((GgufMatrices::of(&quantised, &gpu())?, decoded))
    });
    let made = made.into_iter().collect::<Result<Vec<_>>>()?;
    let (blocks, decoded): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    Ok((blocks.try_into().expect("three"), decoded.try_into().expect("three")))
}

#[test]
fn experts_in_blocks_of_gguf_are_those_that_candle_decodes() {
    let inputs = Inputs::new(&gpu(), 1);
    use GgmlDType::{Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    for (number, kind) in [Q8_0, Q4K, Q6K, Q4_0, Q5K, Q3K, Q2K, Q4_1, Q5_0, Q5_1].into_iter().enumerate() {
        let dtype = [F32, F16, BF16][number % 3];
        let [model, hidden] = if kind.block_size() == 32 { [32, 96] } else { [256, 256] };
        let (blocks, [gate, up, down]) = in_blocks(kind, [model, hidden]).unwrap();
        let shares = inputs.make(&[ROWS, CHOSEN], F32).unwrap();
        let x = (inputs.range(&[model, ROWS], dtype, -0.5, 0.5).unwrap() * 0.5).unwrap().t().unwrap();
        let [a, b, c] = &blocks;
        // Every row, by tiles, and one alone, by lanes.
        for rows in [ROWS, 1] {
            let part = |of: &Tensor| of.narrow(0, 0, rows).unwrap();
            let ids = part(&chosen(&inputs).unwrap());
            let got = experts_gguf(&part(&x), [a, b, c], &ids, &part(&shares), Activation::Silu).unwrap();
            let [x, shares] = [&x, &shares].map(|of| of.to_device(&Device::Cpu).unwrap().to_dtype(F64).unwrap());
            let want = written_out(&x, [&gate, &up, &down], &shares).unwrap().narrow(0, 0, rows).unwrap();
            // Weights are rounded to the type, and so is what lies between the products.
            let within = [2e-5, 1e-2, 6e-2][number % 3];
            same(&format!("{kind:?} {dtype:?} {rows}"), &got, &want.to_dtype(dtype).unwrap(), within);
        }
    }
}

#[test]
fn rows_by_a_matrix_in_blocks_are_those_by_what_candle_decodes() {
    let inputs = Inputs::new(&gpu(), 1);
    let cpu = Inputs::new(&Device::Cpu, 1);
    for (kind, dtype, within) in
        [(GgmlDType::Q4K, BF16, 1e-2), (GgmlDType::Q8_0, F16, 2e-3), (GgmlDType::Q6K, F32, 2e-5)]
    {
        let quantised = QTensor::quantize(&cpu.range(&[40, 256], F32, -0.5, 0.5).unwrap(), kind).unwrap();
        let decoded = quantised.dequantize(&Device::Cpu).unwrap().to_dtype(F64).unwrap();
        let w = GgufMatrices::of(&quantised, &gpu()).unwrap();
        let weights = w.dequantise(dtype).unwrap().squeeze(0).unwrap();
        same(&format!("{kind:?}"), &weights, &decoded.to_dtype(dtype).unwrap(), within);
        // A row, a few behind another axis, so many that weights are written out; of numbers that an operator has just made.
        for shape in [vec![1, 256], vec![2, 3, 256], vec![260, 256]] {
            let x = (inputs.range(&shape, dtype, -0.5, 0.5).unwrap() * 0.5).unwrap();
            let got = matmul_gguf(&x, &w).unwrap();
            let again = matmul_gguf(&x, &w).unwrap();
            same("the same twice", &got, &again, 0.0);
            let x = x.to_device(&Device::Cpu).unwrap().to_dtype(F64).unwrap();
            let want = x.broadcast_matmul(&decoded.t().unwrap()).unwrap().to_dtype(dtype).unwrap();
            same(&format!("{kind:?} {shape:?}"), &got, &want, within);
        }
    }
    let w = GgufMatrices::of(
        &QTensor::quantize(&cpu.range(&[2, 8, 32], F32, -0.5, 0.5).unwrap(), GgmlDType::Q8_0).unwrap(),
        &gpu(),
    );
    let message = matmul_gguf(&inputs.make(&[3, 32], F32).unwrap(), &w.unwrap()).unwrap_err().to_string();
    assert!(message.contains("blocks must be one matrix, got 2"), "{message}");
}

#[test]
fn blocks_that_do_not_fit_are_told_by_name() {
    let inputs = Inputs::new(&gpu(), 1);
    let (blocks, _) = in_blocks(GgmlDType::Q8_0, [32, 64]).unwrap();
    let ids = chosen(&inputs).unwrap();
    let by = sort_by_expert(&ids, EXPERTS, None, None).unwrap();
    let told = |what: &str, message: String| assert!(message.contains(what), "{what}: {message}");
    let product = |columns: usize, of: &GgufMatrices| {
        let a = inputs.make(&[ROWS, columns], F32).unwrap();
        expert_matmul_gguf(&a, of, &by, GroupedEpilogue::None, None).unwrap_err().to_string()
    };
    told("a must be K in whole blocks of Q8_0, 32 weights each, got 31", product(31, &blocks[0]));
    told("a must be [rows, 32]", product(64, &blocks[0]));
    let of_k = GgufMatrices { kind: Gguf::Q4K, ..blocks[0].clone() };
    told("blocks must be lines of whole blocks of Q4_K, 144 bytes each, got 34 bytes", product(256, &of_k));
    let floats = QTensor::quantize(&Tensor::zeros((2, 3, 32), F32, &Device::Cpu).unwrap(), GgmlDType::F16).unwrap();
    told("matrices must be of a quantised type", GgufMatrices::of(&floats, &gpu()).unwrap_err().to_string());
}

#[test]
fn biases_are_those_of_experts() {
    agree_within("combine with a bias", 8.0, |inputs| {
        let (rows, bias) = (inputs.make(&[ROWS * CHOSEN, 7], F32)?, inputs.make(&[EXPERTS, 7], F32)?);
        let shares = inputs.make(&[ROWS, CHOSEN], F32)?;
        let by_row = dense(&shares.to_dtype(F64)?)?;
        if !inputs.device().is_cpu() {
            let by = sort_by_expert(&chosen(inputs)?, EXPERTS, None, None)?;
            // Each choice's row, where its expert wants it; the last place is the choice of no expert.
            let sorted = rows.index_select(&by.order.to_dtype(U32)?, 0)?;
            return combine(&sorted, &shares, &by, Some(&bias));
        }
        let is_there: Vec<f64> = ids().iter().map(|&id| f64::from(u8::from(id >= 0))).collect();
        let weights = (shares.to_dtype(F64)? * Tensor::from_vec(is_there, (ROWS, CHOSEN), inputs.device())?)?;
        let own = rows.to_dtype(F64)?.reshape((ROWS, CHOSEN, 7))?.broadcast_mul(&weights.unsqueeze(2)?)?.sum(1)?;
        (own + by_row.matmul(&bias.to_dtype(F64)?)?)?.to_dtype(F32)
    });
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let inputs = Inputs::new(&gpu(), 1);
    let ([x, gate, up, down], shares) = make(&inputs, F32).unwrap();
    let by = sort_by_expert(&chosen(&inputs).unwrap(), EXPERTS, None, None).unwrap();
    let told = |what: &str, result: Result<Tensor>| {
        let message = result.expect_err(what).to_string();
        assert!(message.contains(what), "{what}: {message}");
    };
    let none = GroupedEpilogue::None;
    told("places", expert_matmul(&x.narrow(0, 0, ROWS - 1).unwrap(), &gate, &by, none, None));
    told("b", expert_matmul(&x, &down, &by, none, None));
    told("places", combine(&x, &shares.narrow(0, 0, 3).unwrap(), &by, None));
    told("bias", combine(&x, &shares, &by, Some(&up.get(0).unwrap())));
    let ids = chosen(&inputs).unwrap().to_dtype(I64).unwrap();
    let var = Var::from_tensor(&x.contiguous().unwrap()).unwrap();
    told("gradient", experts(&var, [&gate, &up, &down], &ids, &shares, Activation::Silu));
}
