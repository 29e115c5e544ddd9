use super::*;
use crate::testing::{Lie, Numbers, device, read, tensor};

/// Logarithms of the softmax of a row; NaN has no share.
fn logs_of(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().filter(|x| !x.is_nan()).fold(f64::NEG_INFINITY, f64::max);
    let weight = |x: f64| match x {
        x if x.is_nan() => 0.0,
        x if x == most => 1.0,
        _ if most.is_infinite() => 0.0,
        x => (x - most).exp(),
    };
    let sum: f64 = x.iter().map(|&x| weight(x)).sum();
    let log = |x: f64| if x == most { -sum.ln() } else { (x - most) - sum.ln() };
    x.iter()
        .map(|&x| if weight(x) == 0.0 && (x.is_nan() || most.is_infinite()) { f64::NEG_INFINITY } else { log(x) })
        .collect()
}

fn close(got: f64, want: f64) -> bool {
    got == want || (got - want).abs() <= 2e-6 * want.abs().max(1.0)
}

#[test]
fn the_chosen_and_the_best_have_their_logarithms_and_ranks() {
    let device = device();
    for (turn, (count, n)) in [(1, 1), (3, 5), (111, 4), (1000, 20), (5003, 1)].into_iter().enumerate() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let values = Numbers::new(turn as u64 + 1).values(3 * count, dtype);
            let tokens = [0.0, (count / 2) as f64, (count - 1) as f64];
            let x = tensor(&device, &[3, count], dtype, &values, Lie::Plain);
            let index = [DType::I32, DType::I64, DType::U32][turn % 3];
            let chosen = tensor(&device, &[3], index, &tokens, Lie::Sparse);
            let make = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
            let (mut logs, mut ranks) = (make(&[3], DType::F32), make(&[3], DType::I32));
            let (mut best, mut best_logs) = (make(&[3, n], DType::I32), make(&[3, n], DType::F32));
            let asked = LogProbabilities {
                chosen: Some((chosen.view(), logs.view_mut())),
                ranks: Some(ranks.view_mut()),
                best: Some((best.view_mut(), best_logs.view_mut())),
            };
            log_probabilities(device.stream(), x.view(), asked).unwrap();
            let (best, best_logs) = (read(&best), read(&best_logs));
            for row in 0..3 {
                let own = &values[row * count..(row + 1) * count];
                let (want, token) = (logs_of(own), tokens[row] as usize);
                let what = format!("{dtype} {count} row {row}");
                assert!(close(read(&logs)[row], want[token]), "{what}");
                assert_eq!(read(&ranks)[row] as usize, 1 + own.iter().filter(|&&x| x > own[token]).count(), "{what}");
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|&a, &b| own[b].partial_cmp(&own[a]).unwrap());
                for slot in 0..n {
                    let (token, log) = order.get(slot).map_or((-1.0, f64::NEG_INFINITY), |&n| (n as f64, want[n]));
                    assert_eq!(best[row * n + slot], token, "{what} slot {slot}");
                    assert!(close(best_logs[row * n + slot], log), "{what} slot {slot}: {}", best_logs[row * n + slot]);
                }
            }
        }
    }
}

#[test]
fn strange_rows_and_tokens_outside_them_have_logarithms() {
    let device = device();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [[nan; 4], [-inf; 4], [inf, 1.0, inf, nan], [0.0, nan, -inf, 1.0], [0.0, 1.0, 2.0, 3.0], [0.0; 4]];
    let tokens = [1.0, 2.0, 1.0, 2.0, -1.0, 4.0];
    let x = tensor(&device, &[6, 4], DType::F32, &rows.concat(), Lie::Plain);
    let chosen = tensor(&device, &[6], DType::I64, &tokens, Lie::Plain);
    let mut logs = Tensor::empty(&device, &[6], DType::F32).unwrap();
    let mut ranks = Tensor::empty(&device, &[6], DType::I32).unwrap();
    let mut asked = LogProbabilities { chosen: Some((chosen.view(), logs.view_mut())), ..LogProbabilities::default() };
    asked.ranks = Some(ranks.view_mut());
    log_probabilities(device.stream(), x.view(), asked).unwrap();
    let logs = read(&logs);
    assert!(logs[0] == -inf && close(logs[1], -4f64.ln()) && logs[2] == -inf, "{logs:?}");
    assert_eq!(logs[3..], [-inf; 3]);
    assert_eq!(read(&ranks), [1.0, 1.0, 3.0, 3.0, 0.0, 0.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let x = make(&[2, 5], DType::F32);
    let error = log_probabilities(device.stream(), x.view(), LogProbabilities::default()).unwrap_err();
    assert!(error.to_string().contains("chosen must be given"), "{error}");
    let (tokens, mut logs) = (make(&[3], DType::I32), make(&[2], DType::F32));
    let asked = LogProbabilities { chosen: Some((tokens.view(), logs.view_mut())), ..LogProbabilities::default() };
    let error = log_probabilities(device.stream(), x.view(), asked).unwrap_err();
    assert!(error.to_string().contains("chosen.tokens must be [2]"), "{error}");
    let (mut best, mut logs) = (make(&[2, 3], DType::I32), make(&[2, 4], DType::F32));
    let asked = LogProbabilities { best: Some((best.view_mut(), logs.view_mut())), ..LogProbabilities::default() };
    let error = log_probabilities(device.stream(), x.view(), asked).unwrap_err();
    assert!(error.to_string().contains("best.logs must be [2, 3]"), "{error}");
}
