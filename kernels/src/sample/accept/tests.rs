use super::*;
use crate::testing::{Lie, Numbers, device, philox, read, tensor};
use rocfire_hal::{Device, Tensor};

fn word(place: u64, seed: u64, offset: u64) -> u32 {
    let block = place / 4;
    philox([block as u32, (block >> 32) as u32, offset as u32, (offset >> 32) as u32], seed)[place as usize % 4]
}

/// The place that wins with these weights; 0 where all are.
fn drawn(weights: &[f64], seed: u64, offset: u64) -> Option<usize> {
    let score = |n: usize| weights[n] / -(-((f64::from(word(n as u64, seed, offset)) + 0.5) * 2f64.powi(-32))).ln_1p();
    (0..weights.len()).filter(|&n| weights[n] > 0.0).reduce(|best, n| if score(n) > score(best) { n } else { best })
}

/// What a row keeps, and the token behind.
fn judge(drafts: &[f64], target: &[&[f64]], draft: Option<&[&[f64]]>, seed: u64, offset: u64) -> (usize, usize) {
    for (i, &token) in drafts.iter().enumerate() {
        if token < 0.0 || token as usize >= target[0].len() {
            return (i, drawn(target[i], seed, offset).unwrap_or(0));
        }
        let token = token as usize;
        let (p, q) = (target[i][token], draft.map_or(1.0, |draft| draft[i][token]));
        // Numbers of the judges lie behind all tokens' blocks.
        let u = f64::from(word(4 * (1 << 40) + i as u64, seed, offset) >> 8) * 2f64.powi(-24);
        if u * q < p {
            continue;
        }
        let rest: Vec<f64> = (0..target[i].len())
            .map(|n| {
                draft.map_or(if n == token { 0.0 } else { target[i][n] }, |draft| (target[i][n] - draft[i][n]).max(0.0))
            })
            .collect();
        return (i, drawn(&rest, seed, offset).or(drawn(target[i], seed, offset)).unwrap_or(0));
    }
    (drafts.len(), drawn(target[drafts.len()], seed, offset).unwrap_or(0))
}

/// A distribution: multiples of 2⁻¹⁰, some of them zero, so that differences are exact.
fn distribution(numbers: &mut Numbers, count: usize) -> Vec<f64> {
    (0..count).map(|_| numbers.below(64).saturating_sub(16) as f64 / 1024.0).collect()
}

fn run(device: &Device, drafts: &Drafts<'_>, seeds: [&Tensor; 2]) -> (Vec<f64>, Vec<f64>) {
    let [rows, n] = [drafts.tokens.shape()[0], drafts.tokens.shape()[1]];
    let mut tokens = Tensor::empty(device, &[rows, n + 1], DType::I32).unwrap();
    let mut counts = Tensor::empty(device, &[rows], DType::I32).unwrap();
    let [seeds, offsets] = seeds.map(Tensor::view);
    accept(device.stream(), drafts, seeds, offsets, tokens.view_mut(), counts.view_mut()).unwrap();
    (read(&tokens), read(&counts))
}

#[test]
fn drafts_are_kept_as_the_paper_says() {
    let device = device();
    let mut numbers = Numbers::new(5);
    for (rows, n, count) in [(1, 1, 1), (40, 3, 9), (7, 5, 301), (3, 2, 5003), (2, 0, 30)] {
        let target: Vec<Vec<f64>> = (0..rows * (n + 1)).map(|_| distribution(&mut numbers, count)).collect();
        let draft: Vec<Vec<f64>> = (0..rows * n).map(|_| distribution(&mut numbers, count)).collect();
        let mut tokens: Vec<f64> = (0..rows * n).map(|_| numbers.below(count) as f64).collect();
        if rows == 40 {
            (tokens[4], tokens[9], tokens[30]) = (-1.0, 9.0, -1.0);
        }
        let seeds: Vec<f64> = (0..rows).map(|_| numbers.below(1 << 40) as f64).collect();
        let offsets: Vec<f64> = (0..rows).map(|_| numbers.below(1 << 40) as f64).collect();
        let make = |shape: &[usize], dtype, values: &[f64]| tensor(&device, shape, dtype, values, Lie::Plain);
        let tokens_there = make(&[rows, n], DType::I32, &tokens);
        let target_there = make(&[rows, n + 1, count], DType::F32, &target.concat());
        let draft_there = make(&[rows, n, count], DType::F32, &draft.concat());
        let seeds_there = [make(&[rows], DType::I64, &seeds), make(&[rows], DType::U64, &offsets)];
        for certain in [false, true] {
            let drafts = Drafts {
                tokens: tokens_there.view(),
                target: target_there.view(),
                draft: (!certain).then_some(draft_there.view()),
            };
            let (got, counts) = run(&device, &drafts, seeds_there.each_ref());
            for row in 0..rows {
                let of =
                    |all: &'_ [Vec<f64>], each: usize| -> Vec<Vec<f64>> { all[row * each..(row + 1) * each].to_vec() };
                let (target, draft) = (of(&target, n + 1), of(&draft, n));
                let (target, draft): (Vec<&[f64]>, Vec<&[f64]>) =
                    (target.iter().map(Vec::as_slice).collect(), draft.iter().map(Vec::as_slice).collect());
                let own = &tokens[row * n..(row + 1) * n];
                let (kept, next) =
                    judge(own, &target, (!certain).then_some(&draft), seeds[row] as u64, offsets[row] as u64);
                let want: Vec<f64> =
                    own[..kept].iter().copied().chain([next as f64]).chain(vec![-1.0; n - kept]).collect();
                assert_eq!(counts[row], kept as f64, "{rows} {n} {count} {certain} row {row}");
                assert_eq!(got[row * (n + 1)..(row + 1) * (n + 1)], want, "{rows} {n} {count} {certain} row {row}");
            }
        }
    }
}

#[test]
fn what_comes_out_is_distributed_as_the_target() {
    let device = device();
    let (rows, p, q) = (4096, [0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]);
    let mut numbers = Numbers::new(8);
    // Drafts drawn with q.
    let drafts: Vec<f64> = (0..rows)
        .map(|_| {
            let u = numbers.below(1000) as f64 / 1000.0;
            [0.1, 0.3, 0.6, 1.0].iter().position(|&end| u < end).unwrap() as f64
        })
        .collect();
    let make = |shape: &[usize], dtype, values: &[f64]| tensor(&device, shape, dtype, values, Lie::Plain);
    let tokens = make(&[rows, 1], DType::I32, &drafts);
    let (target, draft) =
        (make(&[rows, 2, 4], DType::F32, &p.repeat(2 * rows)), make(&[rows, 1, 4], DType::F32, &q.repeat(rows)));
    let offsets: Vec<f64> = (0..rows).map(|row| row as f64).collect();
    let seeds = [make(&[rows], DType::I64, &vec![1.0; rows]), make(&[rows], DType::I64, &offsets)];
    let drafts = Drafts { tokens: tokens.view(), target: target.view(), draft: Some(draft.view()) };
    let (got, _) = run(&device, &drafts, seeds.each_ref());
    let statistic: f64 = (0..4)
        .map(|n| {
            let count = got.chunks(2).filter(|row| row[0] == n as f64).count() as f64;
            let want = p[n] * rows as f64;
            (count - want) * (count - want) / want
        })
        .sum();
    // χ² of 3 is beyond this once in a thousand times.
    assert!(statistic < 16.3, "{statistic}");
}

#[test]
fn distributions_without_anything_give_a_token_inside() {
    let device = device();
    let make = |shape: &[usize], dtype, values: &[f64]| tensor(&device, shape, dtype, values, Lie::Plain);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    // Refused with nothing left of p - q, zeros alone, NaN alone, an infinity.
    let target = [[0.5, 0.5, 0.0], [0.0; 3], [nan; 3], [0.0, inf, 1.0]];
    let draft = [[0.5, 0.5, 1.0], [0.5; 3], [0.5; 3], [1.0, 1.0, 1.0]];
    let tokens = make(&[4, 1], DType::I32, &[2.0, 1.0, 1.0, 0.0]);
    let target: Vec<f64> = target.iter().flat_map(|row| [*row; 2].concat()).collect();
    let (target, draft) = (make(&[4, 2, 3], DType::F32, &target), make(&[4, 1, 3], DType::F32, &draft.concat()));
    let seeds = [make(&[4], DType::I64, &[1.0; 4]), make(&[4], DType::I64, &[0.0, 1.0, 2.0, 3.0])];
    let drafts = Drafts { tokens: tokens.view(), target: target.view(), draft: Some(draft.view()) };
    let (got, counts) = run(&device, &drafts, seeds.each_ref());
    assert_eq!(counts, [0.0; 4]);
    assert!(got[0] == 0.0 || got[0] == 1.0, "{got:?}");
    assert_eq!([got[2], got[4], got[6]], [0.0, 0.0, 1.0]);
}

#[test]
fn greedy_drafts_are_kept_while_they_are_the_targets() {
    let device = device();
    let drafts = [3.0, 4.0, 5.0, 3.0, 9.0, 5.0, -1.0, -1.0, -1.0, 7.0, 8.0, -1.0];
    let targets = [3.0, 4.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0, 2.0, 1.0, 0.0, 9.0, 7.0, 8.0, 1.0, 2.0];
    let [drafts, targets] = [(drafts.to_vec(), 3), (targets.to_vec(), 4)]
        .map(|(of, n)| tensor(&device, &[4, n], DType::I32, &of, Lie::Plain));
    let mut tokens = Tensor::empty(&device, &[4, 4], DType::I32).unwrap();
    let mut counts = Tensor::empty(&device, &[4], DType::I32).unwrap();
    accept_greedy(device.stream(), drafts.view(), targets.view(), tokens.view_mut(), counts.view_mut()).unwrap();
    assert_eq!(read(&counts), [3.0, 1.0, 0.0, 2.0]);
    let want = [3.0, 4.0, 5.0, 6.0, 3.0, 4.0, -1.0, -1.0, 2.0, -1.0, -1.0, -1.0, 7.0, 8.0, 1.0, -1.0];
    assert_eq!(read(&tokens), want);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let (tokens, seeds) = (make(&[2, 3], DType::I32), make(&[2], DType::I64));
    let refused = |target: &Tensor, out: &[usize], part: &str| {
        let drafts = Drafts { tokens: tokens.view(), target: target.view(), draft: None };
        let (mut out, mut counts) = (make(out, DType::I32), make(&[2], DType::I32));
        let error = accept(device.stream(), &drafts, seeds.view(), seeds.view(), out.view_mut(), counts.view_mut())
            .unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(&make(&[2, 4, 5], DType::F32), &[2, 3], "tokens must be [2, 4]");
    refused(&make(&[2, 3, 5], DType::F32), &[2, 4], "target must be [2, 4, 5]");
    refused(&make(&[2, 4, 0], DType::F32), &[2, 4], "target must be a vocabulary");
    refused(&make(&[2, 4, 5], DType::F16), &[2, 4], "no f16 kernel");
}
