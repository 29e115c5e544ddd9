//! Experts of a mixture against every row through every matrix, in f64 on the CPU: values, gradients, messages.

mod common;

use candle_core::DType::{BF16, F16, F32, F64, I64, U32};
use candle_core::{D, DType, Result, Tensor, Var};
use common::{Inputs, agree_within, gpu, numbers};
use rocfire_candle::{
    Activation, ByExpert, GroupedEpilogue, combine, expert_matmul, experts, grouped_matmul, sort_by_expert,
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
