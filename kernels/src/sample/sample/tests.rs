use super::*;
use crate::testing::{Lie, Numbers, decode, device, encode, philox, read, tensor};
use rocfire_hal::{Device, Layout, Tensor};

/// What one row is told.
#[derive(Clone, Copy, Debug)]
struct Rule {
    temperature: f64,
    top_k: i32,
    top_p: f64,
    min_p: f64,
    seed: u64,
    offset: u64,
}

const ALL: Rule = Rule { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 7, offset: 3 };

/// Numbers spread like logits, exact in the type.
fn logits(seed: u64, count: usize, dtype: DType) -> Vec<f64> {
    let mut numbers = Numbers::new(seed);
    let values: Vec<f64> = (0..count)
        .map(|_| (0..4).map(|_| (numbers.next() >> 40) as f64 / f64::from(1u32 << 24) - 0.5).sum::<f64>() * 3.0)
        .collect();
    decode(&encode(&values, dtype), dtype)
}

/// What is left of a row, in sum 1, by sorting it; empty where nothing is there.
fn left_of(x: &[f64], form: Form, mask: Option<&[bool]>, rule: Rule) -> Vec<f64> {
    let there = |n: usize| !x[n].is_nan() && mask.is_none_or(|mask| mask[n]);
    let number = |n: usize| if form == Form::Probabilities { x[n].max(0.0) } else { x[n] };
    let most = (0..x.len()).filter(|&n| there(n)).map(number).fold(f64::NEG_INFINITY, f64::max);
    if !(0..x.len()).any(there) {
        return vec![];
    }
    let weight = |n: usize| match form {
        _ if !there(n) => 0.0,
        _ if number(n) == most => 1.0,
        _ if most.is_infinite() => 0.0,
        Form::Logits => ((number(n) - most) / rule.temperature.max(1e-5)).exp(),
        Form::Probabilities => number(n) / most,
    };
    let p: Vec<f64> = (0..x.len()).map(weight).collect();
    let whole: f64 = p.iter().sum();
    let mut order: Vec<usize> = (0..x.len()).filter(|&n| there(n)).collect();
    order.sort_by(|&a, &b| number(b).total_cmp(&number(a)));
    let mut kept = vec![0.0; x.len()];
    for (at, &n) in order.iter().enumerate() {
        let larger: Vec<usize> = order[..at].iter().copied().filter(|&m| number(m) > number(n)).collect();
        let mass: f64 = larger.iter().map(|&m| p[m]).sum();
        let by_k = rule.top_k <= 0 || larger.len() < rule.top_k as usize;
        let by_p = rule.top_p >= 1.0 || mass < rule.top_p * whole;
        let by_least = rule.min_p <= 0.0 || p[n] >= rule.min_p;
        if larger.is_empty() || (by_k && by_p && by_least) {
            kept[n] = p[n];
        } else if !by_k || !by_p {
            break;
        }
    }
    let sum: f64 = kept.iter().sum();
    kept.iter().map(|p| p / sum).collect()
}

/// The token that wins with these chances.
fn drawn(chances: &[f64], rule: Rule) -> usize {
    let score = |n: usize| {
        let word = philox([n as u32 / 4, 0, rule.offset as u32, (rule.offset >> 32) as u32], rule.seed)[n % 4];
        let v = (f64::from(word) + 0.5) * 2f64.powi(-32);
        chances[n] / -(-v).ln_1p()
    };
    let best = |best: usize, n: usize| if score(n) > score(best) { n } else { best };
    (0..chances.len()).filter(|&n| chances[n] > 0.0).reduce(best).unwrap_or(0)
}

/// Tensors that rules are told by.
struct Told {
    floats: [Tensor; 3],
    top_k: Tensor,
    seeds: [Tensor; 2],
}

impl Told {
    fn new(device: &Device, rules: &[Rule]) -> Told {
        let floats = |of: &dyn Fn(&Rule) -> f64| {
            tensor(device, &[rules.len()], DType::F32, &rules.iter().map(of).collect::<Vec<_>>(), Lie::Sparse)
        };
        let whole = |of: &dyn Fn(&Rule) -> f64, dtype| {
            tensor(device, &[rules.len()], dtype, &rules.iter().map(of).collect::<Vec<_>>(), Lie::Plain)
        };
        Told {
            floats: [floats(&|rule| rule.temperature), floats(&|rule| rule.top_p), floats(&|rule| rule.min_p)],
            top_k: whole(&|rule| f64::from(rule.top_k), DType::I32),
            seeds: [whole(&|rule| rule.seed as f64, DType::I64), whole(&|rule| rule.offset as f64, DType::U64)],
        }
    }

    fn params(&self, form: Form) -> SampleParams<'_> {
        let [temperature, top_p, min_p] = self.floats.each_ref().map(Tensor::view);
        let [seeds, offsets] = self.seeds.each_ref().map(Tensor::view);
        SampleParams {
            form,
            temperature: (form == Form::Logits).then_some(temperature),
            top_k: Some(self.top_k.view()),
            top_p: Some(top_p),
            min_p: Some(min_p),
            draw: Draw::Seeds { seeds, offsets },
            ..SampleParams::default()
        }
    }
}

/// Distributions and tokens of some rows.
fn run(device: &Device, x: &Tensor, form: Form, mask: Option<&Tensor>, rules: &[Rule]) -> (Vec<f64>, Vec<f64>) {
    let told = Told::new(device, rules);
    let mut params = told.params(form);
    params.mask = mask.map(Tensor::view);
    let mut out = Tensor::empty(device, x.shape(), DType::F32).unwrap();
    let mut tokens = Tensor::empty(device, &[rules.len()], DType::I64).unwrap();
    probabilities(device.stream(), x.view(), &params, out.view_mut()).unwrap();
    sample(device.stream(), x.view(), &params, tokens.view_mut()).unwrap();
    (read(&out), read(&tokens))
}

/// The bits of a mask.
fn words(device: &Device, rows: usize, mask: &[bool]) -> Tensor {
    let count = mask.len() / rows;
    let of_row = |row: &[bool]| -> Vec<f64> {
        let word = |bits: &[bool]| bits.iter().enumerate().map(|(n, &bit)| f64::from(u32::from(bit) << n)).sum();
        row.chunks(32).map(word).collect()
    };
    let words: Vec<f64> = mask.chunks(count).flat_map(of_row).collect();
    tensor(device, &[rows, count.div_ceil(32)], DType::U32, &words, Lie::Plain)
}

/// Rows of one length by rules of their own, against the oracle.
fn check(device: &Device, values: &[f64], dtype: DType, form: Form, mask: Option<&[bool]>, rules: &[Rule]) {
    let count = values.len() / rules.len();
    let x = tensor(device, &[rules.len(), count], dtype, values, Lie::Plain);
    let words = mask.map(|mask| words(device, rules.len(), mask));
    let (out, tokens) = run(device, &x, form, words.as_ref(), rules);
    for (row, &rule) in rules.iter().enumerate() {
        let own = row * count..(row + 1) * count;
        let want = left_of(&values[own.clone()], form, mask.map(|mask| &mask[own.clone()]), rule);
        let want = if want.is_empty() { vec![0.0; count] } else { want };
        let what = format!("{dtype} {form:?} {count} {rule:?}");
        for (n, (&got, &want)) in out[own].iter().zip(&want).enumerate() {
            assert_eq!(got > 0.0, want > 0.0, "{what}: {n} has {got}, not {want}");
            assert!((got - want).abs() <= 1e-5 * want, "{what}: {n} has {got}, not {want}");
        }
        assert_eq!(tokens[row], drawn(&want, rule) as f64, "{what}");
    }
}

#[test]
fn tokens_and_distributions_are_those_of_sorted_rows() {
    let device = device();
    let rules = [
        ALL,
        Rule { top_k: 5, ..ALL },
        Rule { top_p: 0.7, ..ALL },
        Rule { min_p: 0.3, ..ALL },
        Rule { top_k: 20, top_p: 0.9, min_p: 0.05, temperature: 0.7, seed: 11, offset: 0 },
        Rule { top_k: 1, seed: 1 << 40, offset: 1 << 33, ..ALL },
        Rule { top_k: 40, top_p: 0.2, temperature: 2.0, ..ALL },
    ];
    for (turn, count) in [1, 2, 31, 111, 1024, 5003].into_iter().enumerate() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let values = logits(turn as u64 + 1, rules.len() * count, dtype);
            check(&device, &values, dtype, Form::Logits, None, &rules);
        }
        let values: Vec<f64> = logits(turn as u64 + 77, rules.len() * count, DType::F32)
            .iter()
            .map(|x| f64::from(x.exp() as f32))
            .collect();
        let rules = rules.map(|rule| Rule { temperature: 1.0, ..rule });
        check(&device, &values, DType::F32, Form::Probabilities, None, &rules);
    }
}

#[test]
fn what_the_mask_leaves_out_is_as_if_it_were_not_there() {
    let device = device();
    let rules = [Rule { top_k: 4, ..ALL }, Rule { top_p: 0.8, ..ALL }, Rule { min_p: 0.2, top_k: 900, ..ALL }];
    for count in [33, 130, 1000] {
        let values = logits(count as u64, rules.len() * count, DType::F32);
        let mask: Vec<bool> = (0..values.len()).map(|n| (n * 7919) % 5 < 2).collect();
        check(&device, &values, DType::F32, Form::Logits, Some(&mask), &rules);
    }
}

#[test]
fn long_lists_are_counted_in_bins() {
    let device = device();
    let count = 9000;
    // More than a list holds are equal to the threshold.
    let equal = vec![0.5; count];
    check(&device, &equal, DType::F32, Form::Logits, None, &[Rule { top_k: 50, ..ALL }]);
    check(&device, &equal, DType::F32, Form::Logits, None, &[Rule { top_p: 0.5, ..ALL }]);
    check(&device, &equal, DType::F32, Form::Probabilities, None, &[Rule { top_k: 3, top_p: 0.5, ..ALL }]);
    // More than one lane each may give the bound.
    let values = logits(5, count, DType::F32);
    check(&device, &values, DType::F32, Form::Logits, None, &[Rule { top_k: 3000, ..ALL }]);
    check(&device, &values, DType::F32, Form::Logits, None, &[Rule { top_k: 3000, top_p: 0.6, ..ALL }]);
    check(&device, &values, DType::F32, Form::Logits, None, &[Rule { top_p: 0.95, temperature: 3.0, ..ALL }]);
    // Nearly equal: one bin of weights has all, and keys differ in their last bits.
    let near: Vec<f64> =
        (0..count).map(|n| f64::from(f32::from_bits(0x3f80_0000 + (n as u32 * 7919) % 5000))).collect();
    check(&device, &near, DType::F32, Form::Logits, None, &[Rule { top_k: 2500, ..ALL }]);
    check(&device, &near, DType::F32, Form::Probabilities, None, &[Rule { top_k: 2500, ..ALL }]);
    // Everything but the largest is in the last bin.
    check(&device, &values, DType::F32, Form::Logits, None, &[Rule { top_k: 3000, temperature: 1e-4, ..ALL }]);
}

#[test]
fn of_strange_rows_a_token_inside_them_is_taken() {
    let device = device();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [
        [nan; 7],
        [-inf; 7],
        [nan, -inf, nan, -inf, nan, nan, nan],
        [0.0, inf, 3.0, inf, nan, -inf, 1.0],
        [1.0, nan, 3.0, nan, 3.0, -inf, 1.0],
        [-0.0, 0.0, -inf, -inf, -0.0, -3e38, nan],
        [3e38, -3e38, 3e38, nan, 0.0, 1.0, 2.0],
    ];
    for rule in [
        ALL,
        Rule { top_k: 3, ..ALL },
        Rule { top_p: 0.4, ..ALL },
        Rule { top_p: 0.0, ..ALL },
        Rule { min_p: 2.0, ..ALL },
        Rule { top_k: 5, top_p: 0.9, min_p: 0.1, temperature: 0.01, ..ALL },
    ] {
        check(&device, &rows.concat(), DType::F32, Form::Logits, None, &[rule; 7]);
    }
    // Without a draw, and without temperature, the first of the largest.
    let x = tensor(&device, &[7, 7], DType::F32, &rows.concat(), Lie::Plain);
    let mut tokens = Tensor::empty(&device, &[7], DType::U32).unwrap();
    sample(device.stream(), x.view(), &SampleParams::default(), tokens.view_mut()).unwrap();
    assert_eq!(read(&tokens), [0.0, 0.0, 1.0, 1.0, 2.0, 0.0, 0.0]);
    let cold = [Rule { temperature: 0.0, ..ALL }, Rule { temperature: -1.0, ..ALL }, Rule { temperature: nan, ..ALL }];
    let (out, tokens) = run(
        &device,
        &tensor(&device, &[3, 7], DType::F32, &rows[3..6].concat(), Lie::Plain),
        Form::Logits,
        None,
        &cold,
    );
    assert_eq!(tokens, [1.0, 2.0, 0.0]);
    assert_eq!(
        out.iter().enumerate().filter(|(_, p)| **p != 0.0).map(|(n, p)| (n, *p)).collect::<Vec<_>>(),
        [(1, 1.0), (9, 1.0), (14, 1.0)]
    );
    // Infinitely hot: all that is a number has the same.
    let (out, _) = run(
        &device,
        &tensor(&device, &[1, 7], DType::F32, &rows[4], Lie::Plain),
        Form::Logits,
        None,
        &[Rule { temperature: inf, ..ALL }],
    );
    assert_eq!(out, [0.25, 0.0, 0.25, 0.0, 0.25, 0.0, 0.25]);
    // What is no probability is none.
    let odd = [-1.0, 0.5, nan, inf, 0.0, 0.25, inf];
    check(&device, &odd, DType::F32, Form::Probabilities, None, &[Rule { top_p: 0.9, ..ALL }]);
    check(&device, &[0.0, -1.0, nan, 0.0], DType::F32, Form::Probabilities, None, &[ALL]);
}

#[test]
fn a_row_gives_the_same_bits_wherever_it_lies_and_whatever_is_beside_it() {
    let device = device();
    // Rows of an odd length begin at every place of a line.
    for (dtype, count) in [(DType::F32, 5003), (DType::BF16, 4999)] {
        let values = logits(9, count, dtype);
        let rule = Rule { top_k: 60, top_p: 0.9, ..ALL };
        let alone =
            run(&device, &tensor(&device, &[1, count], dtype, &values, Lie::Plain), Form::Logits, None, &[rule]);
        let others = logits(10, 4 * count, dtype);
        let mut rows: Vec<f64> = Vec::new();
        for row in 0..4 {
            rows.extend(&others[row * count..(row + 1) * count]);
            rows.extend(&values);
        }
        let rules: Vec<Rule> = (0..8).map(|row| if row % 2 == 0 { Rule { top_p: 0.3, ..ALL } } else { rule }).collect();
        let (out, tokens) =
            run(&device, &tensor(&device, &[8, count], dtype, &rows, Lie::Plain), Form::Logits, None, &rules);
        for row in [1, 3, 5, 7] {
            assert_eq!(tokens[row], alone.1[0], "{dtype} {row}");
            assert!(out[row * count..(row + 1) * count] == alone.0, "{dtype} {row}");
        }
    }
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_likely() {
    let device = device();
    let (draws, chances) = (4096, [0.4, 0.25, 0.2, 0.1, 0.04, 0.01]);
    let rows = tensor(&device, &[draws], DType::I32, &vec![0.0; draws], Lie::Plain);
    let rules: Vec<Rule> = (0..draws).map(|offset| Rule { offset: offset as u64, ..ALL }).collect();
    let told = Told::new(&device, &rules);
    let x = tensor(&device, &[1, 6], DType::F32, &chances, Lie::Plain);
    let mut params = told.params(Form::Probabilities);
    params.rows = Some(rows.view());
    let mut tokens = Tensor::empty(&device, &[draws], DType::I32).unwrap();
    sample(device.stream(), x.view(), &params, tokens.view_mut()).unwrap();
    let tokens = read(&tokens);
    let statistic: f64 = (0..6)
        .map(|n| {
            let (got, want) =
                (tokens.iter().filter(|&&token| token == n as f64).count() as f64, chances[n] * draws as f64);
            (got - want) * (got - want) / want
        })
        .sum();
    // χ² of 5 is beyond this once in a thousand times.
    assert!(statistic < 20.5, "{statistic}");
}

#[test]
fn noise_of_the_callers_and_rows_by_number() {
    let device = device();
    let (x, noise) = (logits(3, 2 * 50, DType::F32), logits(4, 3 * 50, DType::F32));
    let noise: Vec<f64> = noise.iter().map(|x| f64::from((x.abs() + 0.01) as f32)).collect();
    let numbers = tensor(&device, &[2, 50], DType::F32, &x, Lie::Plain);
    let given = tensor(&device, &[3, 50], DType::F32, &noise, Lie::Plain);
    // The last row is of numbers that are not there.
    let rows = tensor(&device, &[3], DType::I32, &[1.0, 0.0, 2.0], Lie::Plain);
    let mut params =
        SampleParams { rows: Some(rows.view()), draw: Draw::Noise(given.view()), ..SampleParams::default() };
    let half = tensor(&device, &[1], DType::F32, &[0.5], Lie::Plain);
    let half = half.view().with_layout(Layout::strided(&[3], &[0], 0).unwrap()).unwrap();
    params.temperature = Some(half);
    let mut tokens = tensor(&device, &[3], DType::I32, &[-5.0; 3], Lie::Sparse);
    sample(device.stream(), numbers.view(), &params, tokens.view_mut()).unwrap();
    let winner = |row: usize, from: usize| {
        let score = |n: usize| (x[from * 50 + n] / 0.5).exp() / noise[row * 50 + n];
        (0..50).reduce(|best, n| if score(n) > score(best) { n } else { best }).unwrap() as f64
    };
    assert_eq!(read(&tokens), [winner(0, 1), winner(1, 0), 0.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |x: &Tensor, params: &SampleParams<'_>, tokens: &mut Tensor, part: &str| {
        let error = sample(device.stream(), x.view(), params, tokens.view_mut()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (x, plain) = (make(&[2, 5], DType::F32), SampleParams::default());
    refused(&make(&[2, 5], DType::F64), &plain, &mut make(&[2], DType::I32), "no f64 kernel");
    refused(&make(&[5], DType::F32), &plain, &mut make(&[1], DType::I32), "x must be [rows, numbers]");
    refused(&make(&[2, 0], DType::F32), &plain, &mut make(&[2], DType::I32), "rows of 1 to 1048575 tokens");
    refused(&x, &plain, &mut make(&[3], DType::I32), "x must be 3 rows");
    refused(&x, &plain, &mut make(&[2], DType::F32), "tokens must be of [I32, I64, U32]");
    let three = make(&[3], DType::F32);
    refused(&x, &SampleParams { top_p: Some(three.view()), ..plain }, &mut make(&[2], DType::I32), "top_p must be [2]");
    let words = make(&[2, 2], DType::U32);
    refused(
        &x,
        &SampleParams { mask: Some(words.view()), ..plain },
        &mut make(&[2], DType::I32),
        "mask must be [2, 1]",
    );
    let two = make(&[2], DType::F32);
    let hot = SampleParams { form: Form::Probabilities, temperature: Some(two.view()), ..plain };
    refused(&x, &hot, &mut make(&[2], DType::I32), "temperature must be none");
    let turned = tensor(&device, &[2, 5], DType::F32, &[0.0; 10], Lie::Swapped);
    refused(&turned, &plain, &mut make(&[2], DType::I32), "side by side");
    let mut out = make(&[2, 4], DType::F32);
    let error = probabilities(device.stream(), x.view(), &plain, out.view_mut()).unwrap_err();
    assert!(error.to_string().contains("out must be [2, 5]"), "{error}");
}
