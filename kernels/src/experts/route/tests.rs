use super::*;
use crate::testing::{Lie, Numbers, decode, device, encode, read, tensor};
use rocfire_hal::{Device, Tensor};

fn score_of(score: Score, x: f64) -> f64 {
    match score {
        Score::Softmax => unreachable!("the softmax is of a whole row"),
        Score::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Score::SqrtSoftplus => (x.max(0.0) + (-x.abs()).exp().ln_1p()).sqrt(),
    }
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().filter(|x| !x.is_nan()).fold(f64::NEG_INFINITY, f64::max);
    let power = |x: f64| if x == most { 1.0 } else { (x - most).exp() };
    let powers: Vec<f64> = x.iter().map(|&x| if x.is_nan() { 0.0 } else { power(x) }).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|p| if sum > 0.0 { p / sum } else { 0.0 }).collect()
}

/// Numbers of experts, best first, and their shares.
fn oracle(x: &[f64], bias: Option<&[f64]>, params: &RouteParams<'_>, k: usize) -> (Vec<f64>, Vec<f64>) {
    let (own, behind) = x.split_at(params.experts);
    let scores: Vec<f64> = match params.score {
        Score::Softmax => softmax(own),
        score => own.iter().map(|&x| if x.is_nan() { 0.0 } else { score_of(score, x) }).collect(),
    };
    let by_two = params.groups.is_some_and(|groups| groups.score == GroupScore::TwoLargest);
    let nothing = f64::NEG_INFINITY;
    let choice = |n: usize| match bias {
        _ if own[n].is_nan() => nothing,
        Some(bias) => scores[n] + bias[n],
        None => own[n],
    };
    let groups = params.groups.unwrap_or(Groups { count: 1, kept: 1, score: GroupScore::Largest });
    let size = params.experts / groups.count;
    let worth = |group: usize| {
        let value = |n: usize| if by_two && bias.is_none() && !own[n].is_nan() { scores[n] } else { choice(n) };
        let mut values: Vec<f64> = (group * size..(group + 1) * size).map(value).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        if by_two { values[0] + values.get(1).copied().unwrap_or(nothing) } else { values[0] }
    };
    let mut best: Vec<usize> = (0..groups.count).collect();
    best.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    best.truncate(groups.kept);
    // Behind all numbers, in this order: infinities of kept experts, then what is no number and groups left out.
    let rank = |n: usize| (best.contains(&(n / size)) && !own[n].is_nan(), choice(n));
    let mut order: Vec<usize> = (0..params.experts).collect();
    order.sort_by(|&a, &b| rank(b).partial_cmp(&rank(a)).unwrap());
    order.truncate(k);
    let sum: f64 = if params.renormalises { order.iter().map(|&n| scores[n]).sum::<f64>().max(1e-20) } else { 1.0 };
    let mut shares: Vec<f64> = order.iter().map(|&n| scores[n] / sum * params.factor).collect();
    let mut ids: Vec<f64> = order.iter().map(|&n| n as f64).collect();
    if let Some(shared) = params.shared {
        ids.extend((0..shared.count).map(|n| (params.experts + n) as f64));
        shares.extend(match shared.score {
            SharedScore::One => vec![1.0; shared.count],
            SharedScore::Sigmoid => behind.iter().map(|&x| score_of(Score::Sigmoid, x)).collect(),
            SharedScore::Softmax => softmax(behind),
        });
    }
    (ids, shares)
}

fn check(device: &Device, values: &[f64], dtype: DType, params: &RouteParams<'_>, bias: Option<&[f64]>, k: usize) {
    let shared = params.shared.map_or(0, |shared| shared.count);
    let columns = params.experts + params.shared.map_or(0, |s| if s.score == SharedScore::One { 0 } else { s.count });
    let tokens = values.len() / columns;
    let x = tensor(device, &[tokens, columns], dtype, values, Lie::Plain);
    let bias_there = bias.map(|bias| tensor(device, &[params.experts], DType::F32, bias, Lie::Plain));
    let params = RouteParams { bias: bias_there.as_ref().map(Tensor::view), ..*params };
    let slots = k + shared;
    let mut shares = Tensor::empty(device, &[tokens, slots], DType::F32).unwrap();
    let mut ids = Tensor::empty(device, &[tokens, slots], DType::I32).unwrap();
    route(device.stream(), x.view(), &params, shares.view_mut(), ids.view_mut()).unwrap();
    let (shares, ids) = (read(&shares), read(&ids));
    for token in 0..tokens {
        let (want_ids, want) = oracle(&values[token * columns..(token + 1) * columns], bias, &params, k);
        let own = token * slots..(token + 1) * slots;
        assert_eq!(ids[own.clone()], want_ids, "{dtype} {params:?} {k} token {token}");
        for (got, want) in shares[own].iter().zip(want) {
            // Subnormal shares may be 0.
            let allowed = 2e-6 * want + f64::from(f32::MIN_POSITIVE);
            assert!((got - want).abs() <= allowed, "{dtype} {params:?} {k} token {token}: {got}, not {want}");
        }
    }
}

fn logits(seed: u64, count: usize, dtype: DType) -> Vec<f64> {
    let mut numbers = Numbers::new(seed);
    let values: Vec<f64> = (0..count).map(|_| (numbers.next() >> 40) as f64 / f64::from(1u32 << 22) - 2.0).collect();
    decode(&encode(&values, dtype), dtype)
}

#[test]
fn the_best_experts_are_chosen_by_every_score() {
    let device = device();
    let sizes = [(1, 1), (5, 2), (64, 8), (128, 6), (256, 8), (385, 5), (640, 8), (1024, 32)];
    for (turn, (experts, k)) in sizes.into_iter().enumerate() {
        for (shift, score) in [Score::Softmax, Score::Sigmoid, Score::SqrtSoftplus].into_iter().enumerate() {
            let dtype = [DType::F32, DType::BF16, DType::F16][(turn + shift) % 3];
            let tokens = [1, 5, 9][shift];
            let values = logits((turn * 3 + shift) as u64 + 1, tokens * experts, dtype);
            let mut params = RouteParams::new(experts, score);
            (params.renormalises, params.factor) = ((turn + shift) % 2 == 0, [1.0, 2.5][turn % 2]);
            check(&device, &values, dtype, &params, None, k);
            let bias: Vec<f64> = logits(99, experts, DType::F32).iter().map(|b| b / 8.0).collect();
            check(&device, &values, dtype, &params, Some(&bias), k);
        }
    }
}

#[test]
fn groups_that_are_left_out_have_no_expert_chosen() {
    let device = device();
    for (experts, count, kept, k) in [(256, 8, 4, 8), (160, 8, 3, 6), (64, 4, 1, 16), (32, 32, 4, 4), (6, 1, 1, 6)] {
        for score in [GroupScore::Largest, GroupScore::TwoLargest] {
            let values = logits(experts as u64, 6 * experts, DType::F32);
            let mut params = RouteParams::new(experts, Score::Sigmoid);
            params.groups = Some(Groups { count, kept, score });
            params.renormalises = true;
            check(&device, &values, DType::F32, &params, None, k);
            // A bias that makes every choice negative: what is left out must not count as 0.
            let bias: Vec<f64> = logits(7, experts, DType::F32).iter().map(|b| b - 5.0).collect();
            check(&device, &values, DType::F32, &params, Some(&bias), k);
        }
    }
}

#[test]
fn shared_experts_come_behind_the_chosen() {
    let device = device();
    for score in [SharedScore::One, SharedScore::Sigmoid, SharedScore::Softmax] {
        for count in [1, 3] {
            let behind = if score == SharedScore::One { 0 } else { count };
            let mut params = RouteParams::new(60, Score::Softmax);
            params.shared = Some(Shared { count, score });
            (params.renormalises, params.factor) = (true, 1.5);
            let values = logits(count as u64, 5 * (60 + behind), DType::BF16);
            check(&device, &values, DType::BF16, &params, None, 4);
        }
    }
}

#[test]
fn strange_logits_choose_experts_that_there_are() {
    let device = device();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [
        [nan; 6],
        [-inf; 6],
        [inf, 1.0, nan, inf, -inf, 3.0],
        [nan, nan, 1.0, nan, -inf, nan],
        [0.0, -0.0, 0.0, -0.0, 0.0, 0.0],
        [1e30, 3e38, -3e38, 100.0, 90.0, -100.0],
    ];
    for score in [Score::Softmax, Score::Sigmoid, Score::SqrtSoftplus] {
        // The square root of what overflows is clamped, which the oracle is not told.
        let rows = if score == Score::SqrtSoftplus { &rows[..1] } else { &rows[..] };
        for k in [1, 4, 6] {
            let mut params = RouteParams::new(6, score);
            params.renormalises = k == 4;
            check(&device, &rows.concat(), DType::F32, &params, None, k);
        }
    }
    let mut params = RouteParams::new(6, Score::SqrtSoftplus);
    params.renormalises = true;
    let x = tensor(&device, &[1, 6], DType::F32, &[inf, 3e38, 1e30, 0.0, -inf, -200.0], Lie::Plain);
    let mut shares = Tensor::empty(&device, &[1, 6], DType::F32).unwrap();
    let mut ids = Tensor::empty(&device, &[1, 6], DType::I32).unwrap();
    route(device.stream(), x.view(), &params, shares.view_mut(), ids.view_mut()).unwrap();
    assert_eq!(read(&ids), [0.0, 1.0, 2.0, 3.0, 5.0, 4.0]);
    let shares = read(&shares);
    assert!(shares[..3].iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-6), "{shares:?}");
    assert!(shares[3..].iter().all(|share| (0.0..1e-14).contains(share)), "{shares:?}");
}

/// Experts and choices of every length of a lane's list, most of them no whole number of pieces; then more choices than lists give.
const LISTS: [(usize, usize); 9] =
    [(9, 8), (61, 7), (64, 8), (97, 3), (128, 8), (254, 8), (256, 6), (128, 9), (61, 16)];

#[test]
fn of_equals_the_lowest_is_chosen_and_what_is_no_number_last() {
    let device = device();
    for (experts, k) in LISTS {
        // Few values, so that every choice is among equals; numbers that are none among them, and rows of hardly any number.
        let value = |token: usize, n: usize| match (token % 6, (n * 7 + token) % 13) {
            (0, at) => at as f64 / 4.0,
            (1, 3) => f64::INFINITY,
            (1 | 2, 5) => f64::NAN,
            (3, at) if at != 4 || n > 40 => f64::NAN,
            (4, at) if at > 2 => f64::NEG_INFINITY,
            (5, _) => -0.0 * (n % 2) as f64,
            (_, at) => -2.0 * (at % 3) as f64,
        };
        let values: Vec<f64> = (0..12).flat_map(|token| (0..experts).map(move |n| value(token, n))).collect();
        for (turn, score) in [Score::Softmax, Score::Sigmoid].into_iter().enumerate() {
            for dtype in [DType::F32, DType::BF16] {
                let mut params = RouteParams::new(experts, score);
                (params.renormalises, params.factor) = (turn == 0, 1.5);
                check(&device, &values, dtype, &params, None, k);
            }
        }
    }
}

#[test]
fn the_bits_of_a_token_do_not_depend_on_how_rows_lie_or_how_many_there_are() {
    let device = device();
    for (experts, k) in LISTS {
        for (dtype, score) in
            [(DType::BF16, Score::Softmax), (DType::F32, Score::Softmax), (DType::F16, Score::Sigmoid)]
        {
            let tokens = 19;
            let values = logits(experts as u64, tokens * experts, dtype);
            let params = RouteParams { renormalises: true, ..RouteParams::new(experts, score) };
            let run = |x: View<'_>| {
                let tokens = x.shape()[0];
                let mut shares = Tensor::empty(&device, &[tokens, k], DType::F32).unwrap();
                let mut ids = Tensor::empty(&device, &[tokens, k], DType::I32).unwrap();
                route(device.stream(), x, &params, shares.view_mut(), ids.view_mut()).unwrap();
                (read(&ids), read(&shares))
            };
            let x = tensor(&device, &[tokens, experts], dtype, &values, Lie::Plain);
            let (ids, shares) = run(x.view());
            // Rows behind a column of NaN.
            let padded: Vec<f64> = values.chunks_exact(experts).flat_map(|row| [&[f64::NAN], row].concat()).collect();
            let apart = tensor(&device, &[tokens, experts + 1], dtype, &padded, Lie::Plain);
            let layout = apart.layout().slice(1, 1, experts + 1, 1).unwrap();
            assert_eq!(
                run(apart.view().with_layout(layout).unwrap()),
                (ids.clone(), shares.clone()),
                "{experts} apart"
            );
            for few in [1, 4, 6] {
                let layout = x.layout().slice(0, 0, few, 1).unwrap();
                let alone = run(x.view().with_layout(layout).unwrap());
                assert_eq!(alone, (ids[..few * k].to_vec(), shares[..few * k].to_vec()), "{few} of {experts}");
            }
        }
    }
}

#[test]
fn tables_and_counts_are_followed_where_they_lead_inside() {
    let device = device();
    let values = logits(3, 4 * 16, DType::F32);
    let x = tensor(&device, &[4, 16], DType::F32, &values, Lie::Plain);
    let table = tensor(&device, &[3, 2], DType::I32, &[3.0, 15.0, 0.0, 16.0, -1.0, 7.0], Lie::Plain);
    let rows = tensor(&device, &[4], DType::I32, &[2.0, 0.0, 3.0, 1.0], Lie::Plain);
    let count = tensor(&device, &[1], DType::I32, &[3.0], Lie::Plain);
    let mut params = RouteParams::new(16, Score::Sigmoid);
    params.hash = Some(Hash { table: table.view(), rows: rows.view() });
    let run = |params: &RouteParams<'_>| {
        let mut shares = tensor(&device, &[4, 2], DType::F32, &[9.0; 8], Lie::Plain);
        let mut ids = tensor(&device, &[4, 2], DType::I32, &[9.0; 8], Lie::Plain);
        route(device.stream(), x.view(), params, shares.view_mut(), ids.view_mut()).unwrap();
        (read(&ids), read(&shares))
    };
    let (ids, shares) = run(&params);
    assert_eq!(ids, [-1.0, 7.0, 3.0, 15.0, -1.0, -1.0, 0.0, -1.0]);
    for (n, share) in shares.iter().enumerate() {
        let want = if ids[n] < 0.0 { 0.0 } else { score_of(Score::Sigmoid, values[n / 2 * 16 + ids[n] as usize]) };
        assert!((share - want).abs() <= 1e-6, "{n}: {share}, not {want}");
    }
    (params.hash, params.tokens) = (None, Some(count.view()));
    let (ids, shares) = run(&params);
    let (want, _) = oracle(&values[32..48], None, &RouteParams::new(16, Score::Sigmoid), 2);
    assert_eq!(ids[4..], [want[0], want[1], -1.0, -1.0]);
    assert_eq!(shares[6..], [0.0, 0.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |x: &Tensor, params: &RouteParams<'_>, slots: usize, part: &str| {
        let (mut shares, mut ids) = (make(&[2, slots], DType::F32), make(&[2, slots], DType::I32));
        let error = route(device.stream(), x.view(), params, shares.view_mut(), ids.view_mut()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (x, plain) = (make(&[2, 8], DType::F32), RouteParams::new(8, Score::Softmax));
    refused(&x, &plain, 9, "ids must be 1 to 8 choices");
    refused(&x, &RouteParams::new(9, Score::Softmax), 2, "x must be [2, 9]");
    refused(&x, &RouteParams::new(2000, Score::Softmax), 2, "experts must be 1 to 1024");
    refused(&make(&[2, 8], DType::F64), &plain, 2, "no f64 kernel");
    let groups = |count, kept| RouteParams {
        groups: Some(Groups { count, kept, score: GroupScore::Largest }),
        ..RouteParams::new(8, Score::Softmax)
    };
    refused(&x, &groups(3, 1), 2, "groups must be");
    refused(&x, &groups(4, 1), 3, "with 3 experts at least");
    let bias = make(&[7], DType::F32);
    refused(&x, &RouteParams { bias: Some(bias.view()), ..plain }, 2, "bias must be [8]");
}
