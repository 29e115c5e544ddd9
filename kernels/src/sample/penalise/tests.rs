use super::*;
use crate::testing::{Lie, Numbers, decode, device, encode, read, tensor};
use rocfire_hal::Tensor;

#[test]
fn listed_tokens_alone_are_changed() {
    let device = device();
    let (rows, count, listed) = (3, 301, 70);
    let tokens: Vec<f64> = (0..rows * listed)
        .map(|n| if n % 9 == 8 { [-1.0, 301.0, 5000.0][n % 3] } else { ((n * 37) % listed * 4 + n / listed) as f64 })
        .collect();
    let counts: Vec<f64> = (0..rows * listed).map(|n| (n % 4) as f64).collect();
    let biases = Numbers::new(2).values(rows * listed, DType::F32);
    let factors = [[2.0, 0.5, 1.0], [0.5, 0.0, -0.25], [0.75, 1.5, 0.0]];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for given in 0..4 {
            let values = Numbers::new(9).values(rows * count, dtype);
            let mut x = tensor(&device, &[rows, count], dtype, &values, Lie::Plain);
            let make = |values: &[f64], dtype| tensor(&device, &[rows, listed], dtype, values, Lie::Plain);
            let (tokens_there, counts_there) = (make(&tokens, DType::I32), make(&counts, DType::I32));
            let biases_there = make(&biases, DType::F32);
            let told = factors.map(|of| tensor(&device, &[rows], DType::F32, &of, Lie::Sparse));
            let mut penalties = Penalties::new(tokens_there.view());
            if given >= 1 {
                penalties.repetition = Some(told[0].view());
            }
            if given >= 2 {
                penalties.counts = Some(counts_there.view());
                (penalties.frequency, penalties.presence) = (Some(told[1].view()), Some(told[2].view()));
            }
            if given >= 3 {
                penalties.biases = Some(biases_there.view());
            }
            penalise(device.stream(), x.view_mut(), &penalties).unwrap();
            let mut want = values;
            for n in 0..rows * listed {
                let (row, token) = (n / listed, tokens[n]);
                if token < 0.0 || token >= count as f64 {
                    continue;
                }
                let x = &mut want[row * count + token as usize];
                if given >= 1 {
                    *x = if *x > 0.0 { *x / factors[0][row] } else { *x * factors[0][row] };
                }
                if given >= 2 && counts[n] > 0.0 {
                    *x -= factors[1][row] * counts[n] + factors[2][row];
                }
                if given >= 3 {
                    *x += biases[n];
                }
            }
            let want = decode(&encode(&want, dtype), dtype);
            assert_eq!(read(&x), want, "{dtype} {given}");
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |x: &mut Tensor, penalties: &Penalties<'_>, part: &str| {
        let error = penalise(device.stream(), x.view_mut(), penalties).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (tokens, wrong, one) = (make(&[2, 3], DType::I32), make(&[3, 2], DType::I32), make(&[1], DType::F32));
    refused(&mut make(&[2, 5], DType::F64), &Penalties::new(tokens.view()), "no f64 kernel");
    refused(&mut make(&[2, 5], DType::F32), &Penalties::new(wrong.view()), "tokens must be [2, 2]");
    let penalties = Penalties { presence: Some(one.view()), ..Penalties::new(tokens.view()) };
    refused(&mut make(&[2, 5], DType::F32), &penalties, "presence must be [2]");
    // Nothing listed, nothing done.
    let (none, mut x) = (make(&[2, 0], DType::I32), make(&[2, 5], DType::F32));
    penalise(device.stream(), x.view_mut(), &Penalties::new(none.view())).unwrap();
}
