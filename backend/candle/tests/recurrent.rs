//! Layers with states by slot against the same written out token by token in f64: values, states over two calls, slots, bits,
//! messages.

mod common;

use candle_core::DType::{BF16, F16, F32, I64, U8};
use candle_core::{DType, Device, Result, Tensor, Var};
use common::{Inputs, gpu, numbers};
use rocfire_candle::{DeltaGates, DeltaParams, ScanInputs, StateSequences, causal_conv, delta_rule, selective_scan};

/// Slots of a pool; no sequence has the one in the middle.
const POOL: usize = 3;

/// One forward: sequences of slots 2 and 0, tokens of nobody behind them.
#[derive(Clone, Copy)]
struct Step {
    starts: [usize; 3],
    tokens: usize,
    /// Which of them begin; `None`: both go on.
    fresh: Option<[bool; 2]>,
}

const SLOTS: [usize; 2] = [2, 0];
/// The second sequence begins, then both go on.
const STEPS: [Step; 2] = [
    Step { starts: [0, 5, 8], tokens: 9, fresh: Some([false, true]) },
    Step { starts: [0, 1, 4], tokens: 6, fresh: None },
];

/// A step's tensors, of other types of whole numbers in each.
struct Told {
    starts: Tensor,
    slots: Tensor,
    fresh: Option<Tensor>,
}

impl Told {
    fn new(step: Step, device: &Device) -> Told {
        let starts = Tensor::new(step.starts.map(|start| start as i64).as_slice(), device).unwrap();
        let slots = Tensor::new(SLOTS.map(|slot| slot as u32).as_slice(), device).unwrap();
        // An operator makes them, and nobody reads them.
        let fresh = step.fresh.map(|fresh| Tensor::new(fresh.map(u32::from).as_slice(), device).unwrap().gt(0_u32));
        let fresh = fresh.map(|fresh| fresh.unwrap());
        Told { starts: if step.fresh.is_some() { starts } else { starts.to_dtype(DType::U32).unwrap() }, slots, fresh }
    }

    fn of(&self) -> StateSequences<'_> {
        StateSequences { fresh: self.fresh.as_ref(), ..StateSequences::new(&self.starts, &self.slots) }
    }
}

/// Goes through the sequences token by token: `token` gives its row and changes the state. Zeros for tokens of nobody.
fn written_out(
    step: Step,
    pool: &mut [f64],
    width: usize,
    mut token: impl FnMut(usize, &mut [f64]) -> Vec<f64>,
) -> Vec<f64> {
    let len = pool.len() / POOL;
    let mut out = vec![0.0; step.tokens * width];
    for sequence in 0..SLOTS.len() {
        let state = &mut pool[SLOTS[sequence] * len..][..len];
        if step.fresh.is_some_and(|fresh| fresh[sequence]) {
            state.fill(0.0);
        }
        for at in step.starts[sequence]..step.starts[sequence + 1] {
            out[at * width..][..width].copy_from_slice(&token(at, state));
        }
    }
    out
}

/// How far a number that is rounded once may be from what it is, of it or of 1.
fn once(dtype: DType) -> f64 {
    match dtype {
        F16 => 1e-3,
        BF16 => 8e-3,
        _ => 2e-5,
    }
}

fn close(what: &str, got: &Tensor, expected: &[f64], tolerance: f64) {
    let got = numbers(got);
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(expected).enumerate() {
        assert!(
            (got - want).abs() <= tolerance * want.abs().max(1.0),
            "{what}: element {at} is {got}, expected {want}"
        );
    }
}

fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

/// What a layer has read: each tensor's numbers.
type Numbers = Vec<Vec<f64>>;
/// Calls a layer on states, its inputs and sequences.
type Run<'a> = dyn Fn(&Tensor, &[Tensor], &StateSequences<'_>) -> Result<Tensor> + 'a;
/// A token's row, by its number, which changes its sequence's state.
type Token<'a> = dyn Fn(&Numbers, usize, &mut [f64]) -> Vec<f64> + 'a;

/// A layer: its inputs for a number of tokens, what runs it, the same written out, and how near they are.
struct Layer<'a> {
    name: &'a str,
    pool: &'a [usize],
    /// Elements of a token's row.
    width: usize,
    state: DType,
    tolerance: [f64; 2],
    make: &'a dyn Fn(&Inputs, usize) -> Vec<Tensor>,
    run: &'a Run<'a>,
    token: &'a Token<'a>,
}

/// Both steps, twice: results, states, and their bits. What was made of states before is as it was, and so is the slot of nobody.
fn check(layer: &Layer<'_>) {
    let both = || {
        let inputs = Inputs::new(&gpu(), 1);
        let pool = inputs.make(layer.pool, layer.state).unwrap();
        let mut expected = numbers(&pool);
        let len = expected.len() / POOL;
        // Neither has been read: it waits to be launched when the pool changes.
        let states = pool.affine(0.5, 0.0).unwrap();
        let before = states.affine(2.0, 0.0).unwrap();
        expected.iter_mut().for_each(|x| *x /= 2.0);
        let first = expected.clone();
        let mut bits = Vec::new();
        for (turn, step) in STEPS.into_iter().enumerate() {
            let made = (layer.make)(&inputs, step.tokens);
            let told = Told::new(step, inputs.device());
            let out = (layer.run)(&states, &made, &told.of()).unwrap();
            // What it gives is an input like another.
            let twice = (&out * 2.0).unwrap();
            let made: Numbers = made.iter().map(numbers).collect();
            let want = written_out(step, &mut expected, layer.width, |at, state| (layer.token)(&made, at, state));
            let what = format!("{}, step {turn}", layer.name);
            close(&what, &out, &want, layer.tolerance[0]);
            assert_eq!(numbers(&twice), numbers(&out).iter().map(|x| 2.0 * x).collect::<Vec<_>>(), "{what}");
            close(&format!("{what}, states"), &states, &expected, layer.tolerance[1]);
            bits.push([numbers(&out), numbers(&states)]);
        }
        assert_eq!(numbers(&states)[len..2 * len], first[len..2 * len], "{}: the slot of nobody", layer.name);
        assert_ne!(numbers(&states), first, "{}: states stay", layer.name);
        assert_eq!(numbers(&before), first.iter().map(|x| 2.0 * x).collect::<Vec<_>>(), "{}: before", layer.name);
        bits
    };
    assert_eq!(both(), both(), "{}: bits", layer.name);
}

/// A matrix whose axes an operator has swapped, and nobody has read.
fn swapped(inputs: &Inputs, [rows, columns]: [usize; 2], dtype: DType) -> Tensor {
    (inputs.range(&[columns, rows], dtype, -1.0, 1.0).unwrap() * 2.0).unwrap().t().unwrap()
}

#[test]
fn causal_convolutions_go_on_where_they_were() {
    let dim = 6;
    for (dtype, state, w) in [(F32, F32, 4), (F16, F16, 3), (BF16, BF16, 2), (BF16, F32, 4)] {
        for (is_silu, has_bias) in [(true, true), (false, false)] {
            let make = |inputs: &Inputs, tokens: usize| {
                let of_x = swapped(inputs, [tokens, dim], dtype);
                let weight = inputs.range(&[dim, w], dtype, -1.0, 1.0).unwrap();
                vec![of_x, weight, inputs.range(&[dim], dtype, -1.0, 1.0).unwrap()]
            };
            let token = |made: &Numbers, at: usize, state: &mut [f64]| {
                let row = (0..dim).map(|c| {
                    let window = &mut state[c * (w - 1)..][..w - 1];
                    let x = made[0][at * dim + c];
                    let sum: f64 = window.iter().chain([&x]).zip(&made[1][c * w..]).map(|(x, weight)| x * weight).sum();
                    window.rotate_left(1);
                    window[w - 2] = x;
                    let sum = sum + if has_bias { made[2][c] } else { 0.0 };
                    if is_silu { silu(sum) } else { sum }
                });
                row.collect()
            };
            check(&Layer {
                name: &format!("causal_conv {dtype:?}, states {state:?}, {w} taps"),
                pool: &[POOL, dim, w - 1],
                width: dim,
                state,
                // States are inputs as they were.
                tolerance: [once(dtype), 0.0],
                make: &make,
                run: &|states, made, of| {
                    causal_conv(states, &made[0], &made[1], has_bias.then_some(&made[2]), of, is_silu)
                },
                token: &token,
            });
        }
    }
}

#[test]
fn causal_convolutions_go_on_behind_accepted_tokens() {
    let (dim, w, draft) = (6, 4, 3);
    let inputs = Inputs::new(&gpu(), 1);
    let device = inputs.device();
    let whole = |values: &[i64]| Tensor::new(values, device).unwrap();
    for (dtype, state) in [(F32, F32), (F16, F16), (BF16, F32)] {
        let (x, weight) = (inputs.make(&[7, dim], dtype).unwrap(), inputs.make(&[dim, w], dtype).unwrap());
        let (starts, slots, begins) = (whole(&[0, 7]), whole(&[0]), whole(&[1]));
        let pool = inputs.make(&[2, dim, w - 1], state).unwrap();
        let of = StateSequences { fresh: Some(&begins), ..StateSequences::new(&starts, &slots) };
        let all = numbers(&causal_conv(&pool, &x, &weight, None, &of, true).unwrap());
        for is_circular in [false, true] {
            let pool = inputs.make(&[2, dim, w - 1 + draft], state).unwrap();
            let (starts, slots, none) = (whole(&[0, draft as i64]), whole(&[1]), whole(&[0]));
            let run = |from: usize, fresh: Option<&Tensor>, slots: &Tensor, count: i64| {
                let count = whole(&[count]);
                let of = StateSequences { fresh, pad: Some(0), ..StateSequences::new(&starts, slots) };
                let of = match is_circular {
                    true => StateSequences { lengths: Some(&count), ..of },
                    false => StateSequences { accepted: Some(&count), ..of },
                };
                let own = x.narrow(0, from, draft).unwrap();
                numbers(&causal_conv(&pool, &own, &weight, None, &of, true).unwrap())
            };
            // Three tokens, of which two are accepted, and three more.
            assert_eq!(run(0, Some(&begins), &slots, 0), all[..draft * dim]);
            assert_eq!(run(2, None, &slots, 2), all[2 * dim..(2 + draft) * dim]);
            // What stands for no slot changes nothing, and neither does a window that is not there.
            let before = numbers(&pool);
            assert_eq!(run(2, None, &none, 1), [0.0; 18]);
            assert_eq!(run(2, None, &slots, -1), [0.0; 18]);
            assert_eq!(numbers(&pool), before);
        }
    }
}

#[test]
fn scans_go_on_where_they_were() {
    let (dim, n, groups) = (6, 5, 2);
    for (dtype, state) in [(F32, F32), (F16, F32), (BF16, F32), (BF16, BF16)] {
        for is_whole in [true, false] {
            let make = |inputs: &Inputs, tokens: usize| {
                let of = |shape: &[usize], dtype| inputs.range(shape, dtype, -1.0, 1.0).unwrap();
                let a = of(&[dim, n], F32).abs().unwrap().neg().unwrap();
                let (x, dt) = (swapped(inputs, [tokens, dim], dtype), of(&[tokens, dim], dtype));
                // Steps that are not made positive are so by themselves.
                let dt = if is_whole { dt } else { dt.abs().unwrap() };
                let [b, c] = [(); 2].map(|()| of(&[tokens, groups, n], dtype));
                vec![x, dt, a, b, c, of(&[dim], dtype), of(&[tokens, dim], dtype), of(&[dim], dtype)]
            };
            let token = |made: &Numbers, at: usize, state: &mut [f64]| {
                let [x, dt, a, b, c, d, z, bias] = &made[..] else { unreachable!("eight were made") };
                let row = (0..dim).map(|channel| {
                    let own = at * dim + channel;
                    let step = if is_whole { softplus(dt[own] + bias[channel]) } else { dt[own] };
                    let group = (at * groups + channel / (dim / groups)) * n;
                    let mut sum = if is_whole { d[channel] * x[own] } else { 0.0 };
                    for number in 0..n {
                        let s = &mut state[channel * n + number];
                        *s = (step * a[channel * n + number]).exp() * *s + step * b[group + number] * x[own];
                        sum += c[group + number] * *s;
                    }
                    if is_whole { sum * silu(z[own]) } else { sum }
                });
                row.collect()
            };
            let run = |states: &Tensor, made: &[Tensor], of: &StateSequences<'_>| {
                let [x, dt, a, b, c, d, z, dt_bias] = made else { unreachable!("eight were made") };
                let [d, z, dt_bias] = [d, z, dt_bias].map(|of| is_whole.then_some(of));
                selective_scan(states, &ScanInputs { x, dt, a, b, c, d, z, dt_bias, is_softplus: is_whole }, of)
            };
            check(&Layer {
                name: &format!("selective_scan {dtype:?}, states {state:?}, {is_whole}"),
                pool: &[POOL, dim, n],
                width: dim,
                state,
                tolerance: [once(dtype), 2.0 * once(state)],
                make: &make,
                run: &run,
                token: &token,
            });
        }
    }
}

/// What drafts of two sequences leave, results and states, of each layer: states of one handle, inputs of another, both made by
/// operators that nobody has waited for.
fn drafts(states: &Device, read: &Device) -> Vec<Vec<f64>> {
    let (dim, n, heads, depth) = (6, 20, 2, 32);
    let whole = |values: &[i64], shape: &[usize]| {
        (Tensor::new(values, read).unwrap() + 1.0).unwrap().reshape(shape).unwrap().affine(1.0, -1.0).unwrap()
    };
    let of = |shape: &[usize], dtype, seed| {
        Inputs::new(read, seed).range(shape, dtype, -1.0, 1.0).unwrap().affine(0.5, 0.25).unwrap()
    };
    let pool = |shape: &[usize], dtype| {
        Inputs::new(states, 9).range(shape, dtype, -1.0, 1.0).unwrap().affine(0.5, 0.0).unwrap()
    };
    let (starts, slots, accepted) = (whole(&[0, 3, 5], &[3]), whole(&[1, 0], &[2]), whole(&[2, 3], &[2]));
    let table = whole(&[1, 2, 3, 4, 5, 0], &[2, 3]);
    let plain = StateSequences { accepted: Some(&accepted), ..StateSequences::new(&starts, &slots) };
    let kept = StateSequences { kept: Some(&table), ..plain };
    let mut all = Vec::new();
    let lines = pool(&[2, dim, 5], BF16);
    let (x, weight) = (of(&[5, dim], BF16, 1), of(&[dim, 4], BF16, 2));
    let y = causal_conv(&lines, &x, &weight, None, &plain, true).unwrap();
    all.extend([numbers(&y), numbers(&lines)]);
    let scanned = pool(&[6, dim, n], BF16);
    let (dt, a) = (of(&[5, dim], BF16, 3), of(&[dim, n], F32, 4).abs().unwrap().neg().unwrap());
    let [b, c] = [5, 6].map(|seed| of(&[5, 2, n], BF16, seed));
    let (x, dt, a, b, c) = (&x, &dt, &a, &b, &c);
    let scan = ScanInputs { x, dt, a, b, c, d: None, z: Some(dt), dt_bias: None, is_softplus: true };
    let y = selective_scan(&scanned, &scan, &kept).unwrap();
    all.extend([numbers(&y), numbers(&scanned)]);
    for by_row in [false, true] {
        let pool = pool(&[6, heads, depth, depth], BF16);
        let [q, k, v] = [7, 8, 9].map(|seed| of(&[5, heads, depth], BF16, seed));
        let decays: &[usize] = if by_row { &[5, heads, depth] } else { &[5, heads] };
        let (g, beta) = (of(decays, F32, 10).abs().unwrap().neg().unwrap(), of(&[5, heads], F32, 11));
        let mut params = DeltaParams::default();
        params.normalises = true;
        let y = delta_rule(&pool, [&q, &k, &v], DeltaGates::Given(&g, &beta), &kept, 3, params).unwrap();
        all.extend([numbers(&y), numbers(&pool)]);
    }
    all
}

#[test]
fn drafts_are_the_same_of_two_handles_and_in_threads() {
    let one = gpu();
    let alone = drafts(&one, &one);
    assert!(alone.iter().all(|numbers| numbers.iter().any(|&x| x != 0.0)));
    let other = gpu();
    assert_eq!(drafts(&one, &other), alone);
    assert_eq!(drafts(&other, &one), alone);
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| drafts(&gpu(), &one)));
        for thread in both {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

/// Holds drafts against one token after the other. `run` goes from a token on by so many, of a pool and its sequences; it gives outputs.
fn goes_on_behind_accepted<Run>(made: &Tensor, dtype: DType, run: Run)
where
    Run: Fn(&Tensor, usize, usize, &StateSequences<'_>) -> Vec<f64>,
{
    let whole = |values: &[i64]| Tensor::new(values, made.device()).unwrap();
    // One token after the other, in slot 2.
    let (one_by_one, pool) = (made.copy().unwrap(), made.copy().unwrap());
    let (starts, slots, table) = (whole(&[0, 1]), whole(&[2]), whole(&[2, 0, 1]).reshape((1, 3)).unwrap());
    let each = StateSequences::new(&starts, &slots);
    let all: Vec<_> = (0..5).map(|token| run(&one_by_one, token, 1, &each)).collect();
    // Three tokens, of which two are accepted, and three more.
    let (starts, none, two) = (whole(&[0, 3]), whole(&[7]), whole(&[2]));
    let first = StateSequences { kept: Some(&table), ..StateSequences::new(&starts, &none) };
    assert_eq!(run(&pool, 0, 3, &first), all[..3].concat(), "{dtype:?}");
    let second = StateSequences { accepted: Some(&two), ..first };
    assert_eq!(run(&pool, 2, 3, &second), all[2..].concat(), "{dtype:?}");
    let last = |pool: &Tensor, slot: usize| numbers(&pool.narrow(0, slot, 1).unwrap());
    assert_eq!(last(&pool, 1), last(&one_by_one, 2), "{dtype:?}");
    // A place that is not there, and a slot that stands for none.
    let before = numbers(&pool);
    let four = whole(&[4]);
    for of in [StateSequences { accepted: Some(&four), ..second }, StateSequences { pad: Some(0), ..second }] {
        assert!(run(&pool, 2, 3, &of).iter().all(|&y| y == 0.0));
        assert_eq!(numbers(&pool), before);
    }
}

#[test]
fn scans_go_on_behind_accepted_tokens() {
    let inputs = Inputs::new(&gpu(), 1);
    let (dim, n) = (6, 20);
    for (dtype, state) in [(F32, F32), (BF16, BF16), (F16, F32)] {
        let of = |shape: &[usize], dtype| inputs.range(shape, dtype, -1.0, 1.0).unwrap();
        let [x, dt, z] = [(); 3].map(|()| of(&[5, dim], dtype));
        let [b, c] = [(); 2].map(|()| of(&[5, 2, n], dtype));
        let a = of(&[dim, n], F32).abs().unwrap().neg().unwrap();
        let made = of(&[POOL, dim, n], state);
        let run = |pool: &Tensor, from: usize, tokens: usize, of: &StateSequences<'_>| {
            // Made by an operator, and read by nobody.
            let x = x.narrow(0, from, tokens).unwrap().affine(2.0, 0.0).unwrap();
            let [dt, z, b, c] = [&dt, &z, &b, &c].map(|x| x.narrow(0, from, tokens).unwrap());
            let (dt, a, b, c, z) = (&dt, &a, &b, &c, Some(&z));
            let inputs = ScanInputs { x: &x, dt, a, b, c, d: None, z, dt_bias: None, is_softplus: true };
            numbers(&selective_scan(pool, &inputs, of).unwrap())
        };
        goes_on_behind_accepted(&made, dtype, run);
    }
}

/// How gates of a delta rule come in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Given,
    ByRow,
    Made,
}

/// The delta rule of one key head and two heads.
fn delta(dtype: DType, state: DType, form: Form, [keys, columns]: [usize; 2], normalises: bool, longest: usize) {
    const HEADS: usize = 2;
    let scale = 0.25;
    let make = |inputs: &Inputs, tokens: usize| {
        let of = |shape: &[usize], dtype, most: f64| inputs.range(shape, dtype, -most, most).unwrap();
        let short = 1.5 / (keys as f64).sqrt();
        let [q, k] = [(); 2].map(|()| of(&[tokens, 1, keys], dtype, short));
        // Columns of a row of all.
        let wide = of(&[tokens, HEADS, columns + 8], dtype, 1.0).affine(2.0, 0.0).unwrap();
        let v = wide.narrow(2, 8, columns).unwrap();
        let gates = match form {
            Form::Given => vec![
                of(&[tokens, HEADS], F32, 1.0).abs().unwrap().neg().unwrap(),
                of(&[tokens, HEADS], F32, 0.5).affine(1.0, 0.5).unwrap(),
            ],
            Form::ByRow => vec![
                of(&[tokens, HEADS, keys], F32, 1.0).abs().unwrap().neg().unwrap(),
                of(&[tokens, HEADS], F32, 0.5).affine(1.0, 0.5).unwrap(),
            ],
            Form::Made => {
                let made = [(); 2].map(|()| of(&[tokens, HEADS], dtype, 1.0));
                made.into_iter().chain([(); 2].map(|()| of(&[HEADS], F32, 1.0))).collect()
            }
        };
        [q, k, v].into_iter().chain(gates).collect()
    };
    let token = |made: &Numbers, at: usize, pool: &mut [f64]| {
        let direction = |x: &[f64]| {
            let norm = if normalises { (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt() } else { 1.0 };
            x.iter().map(|x| x / norm).collect::<Vec<f64>>()
        };
        let [q, k] = [0, 1].map(|of| direction(&made[of][at * keys..][..keys]));
        let mut row = Vec::new();
        for head in 0..HEADS {
            let own = at * HEADS + head;
            let log = |key: usize| match form {
                Form::Given => made[3][own],
                Form::ByRow => made[3][own * keys + key],
                Form::Made => -made[5][head].exp() * softplus(made[3][own] + made[6][head]),
            };
            let beta = if form == Form::Made { sigmoid(made[4][own]) } else { made[4][own] };
            let state = &mut pool[head * keys * columns..][..keys * columns];
            (0..keys).for_each(|key| state[key * columns..][..columns].iter_mut().for_each(|s| *s *= log(key).exp()));
            for column in 0..columns {
                let old: f64 = (0..keys).map(|key| state[key * columns + column] * k[key]).sum();
                let u = beta * (made[2][own * columns + column] - old);
                (0..keys).for_each(|key| state[key * columns + column] += k[key] * u);
                row.push((0..keys).map(|key| state[key * columns + column] * q[key]).sum::<f64>() * scale);
            }
        }
        row
    };
    let run = |states: &Tensor, made: &[Tensor], of: &StateSequences<'_>| {
        let gates = match form {
            Form::Made => DeltaGates::Made([&made[3], &made[4]], [&made[5], &made[6]]),
            _ => DeltaGates::Given(&made[3], &made[4]),
        };
        let mut params = DeltaParams::default();
        (params.scale, params.normalises) = (Some(scale), normalises);
        delta_rule(states, [&made[0], &made[1], &made[2]], gates, of, longest, params)
    };
    // Chunks round what they multiply.
    let is_chunked = longest > 64 && dtype != F32;
    let tolerance = if is_chunked { [2.0 * once(dtype); 2] } else { [once(dtype), 2.0 * once(state)] };
    check(&Layer {
        name: &format!("delta_rule {dtype:?}, states {state:?}, {form:?}, {keys}x{columns}, longest {longest}"),
        pool: &[POOL, HEADS, keys, columns],
        width: HEADS * columns,
        state,
        tolerance,
        make: &make,
        run: &run,
        token: &token,
    });
}

#[test]
fn the_delta_rule_goes_on_where_it_was() {
    for form in [Form::Given, Form::ByRow, Form::Made] {
        for (dtype, state) in [(F32, F32), (F16, F32), (BF16, F32), (BF16, BF16)] {
            delta(dtype, state, form, [8, 32], form != Form::Given, 5);
        }
    }
    delta(F32, F32, Form::Made, [5, 7], true, 9);
}

#[test]
fn the_delta_rule_in_chunks_goes_on_where_it_was() {
    // It is told of longer sequences than there are.
    for (dtype, form) in [(F16, Form::Given), (BF16, Form::Made), (F16, Form::ByRow), (BF16, Form::ByRow)] {
        delta(dtype, F32, form, [64, 32], true, 65);
        delta(dtype, F32, form, [64, 32], false, 200);
    }
}

#[test]
fn the_delta_rule_goes_on_behind_accepted_tokens() {
    let inputs = Inputs::new(&gpu(), 1);
    for (dtype, state, by_row) in [(F32, F32, false), (BF16, BF16, false), (F16, F32, true)] {
        let of = |shape: &[usize], dtype| inputs.range(shape, dtype, -1.0, 1.0).unwrap();
        let [q, k] = [(); 2].map(|()| of(&[5, 1, 8], dtype));
        let v = of(&[5, 2, 32], dtype);
        let g = if by_row { of(&[5, 2, 8], F32) } else { of(&[5, 2], F32) }.abs().unwrap().neg().unwrap();
        let beta = of(&[5, 2], F32).abs().unwrap();
        let made = of(&[POOL, 2, 8, 32], state);
        let mut params = DeltaParams::default();
        params.normalises = true;
        let run = |pool: &Tensor, from: usize, tokens: usize, of: &StateSequences<'_>| {
            let [q, k, v, g, beta] = [&q, &k, &v, &g, &beta].map(|x| x.narrow(0, from, tokens).unwrap());
            let y = delta_rule(pool, [&q, &k, &v], DeltaGates::Given(&g, &beta), of, tokens, params);
            numbers(&y.unwrap())
        };
        goes_on_behind_accepted(&made, dtype, run);
    }
}

/// Inputs of a call of the delta rule with one token for each sequence.
fn plain() -> (Inputs, Tensor, [Tensor; 3], [Tensor; 2]) {
    let inputs = Inputs::new(&gpu(), 1);
    let of = |shape: &[usize]| inputs.make(shape, F32).unwrap();
    let qkv = [of(&[2, 1, 8]), of(&[2, 1, 8]), of(&[2, 2, 32])];
    let (pool, gates) = (of(&[POOL, 2, 8, 32]), [of(&[2, 2]), of(&[2, 2])]);
    (inputs, pool, qkv, gates)
}

#[test]
fn a_sequence_of_no_slot_leaves_nothing_behind() {
    let (inputs, pool, [q, k, v], [g, beta]) = plain();
    let before = numbers(&pool);
    let starts = Tensor::new(&[0_u32, 1, 2], inputs.device()).unwrap();
    let slots = Tensor::new(&[-1_i64, -7], inputs.device()).unwrap();
    let of = StateSequences::new(&starts, &slots);
    let gates = DeltaGates::Given(&g, &beta);
    let y = delta_rule(&pool, [&q, &k, &v], gates, &of, 1, DeltaParams::default()).unwrap();
    assert!(numbers(&y).iter().all(|&y| y == 0.0));
    assert_eq!(numbers(&pool), before);
    let (x, weight) = (inputs.make(&[2, 6], F32).unwrap(), inputs.make(&[6, 4], F32).unwrap());
    let pool = inputs.make(&[POOL, 6, 3], F32).unwrap();
    let before = numbers(&pool);
    assert!(numbers(&causal_conv(&pool, &x, &weight, None, &of, true).unwrap()).iter().all(|&y| y == 0.0));
    assert_eq!(numbers(&pool), before);
    let a = inputs.make(&[6, 3], F32).unwrap().abs().unwrap().neg().unwrap();
    let b = inputs.make(&[2, 1, 3], F32).unwrap();
    let scan = ScanInputs { x: &x, dt: &x, a: &a, b: &b, c: &b, d: None, z: None, dt_bias: None, is_softplus: true };
    assert!(numbers(&selective_scan(&pool, &scan, &of).unwrap()).iter().all(|&y| y == 0.0));
    assert_eq!(numbers(&pool), before);
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let (inputs, pool, [q, k, v], [g, beta]) = plain();
    let device = inputs.device();
    let starts = Tensor::new(&[0_u32, 1, 2], device).unwrap();
    let slots = Tensor::new(&[0_u32, 1], device).unwrap();
    let of = StateSequences::new(&starts, &slots);
    let told = |what: &str, result: Result<Tensor>| {
        let message = result.expect_err(what).to_string();
        assert!(message.contains(what), "{what}: {message}");
    };
    let rule = |qkv: [&Tensor; 3], g: &Tensor, states: &Tensor, of: &StateSequences<'_>| {
        delta_rule(states, qkv, DeltaGates::Given(g, &beta), of, 1, DeltaParams::default())
    };
    told("delta_rule: k must", rule([&q, &q.narrow(2, 0, 4).unwrap(), &v], &g, &pool, &of));
    told("delta_rule: g must", rule([&q, &k, &v], &g.narrow(0, 0, 1).unwrap(), &pool, &of));
    told("delta_rule: pool must", rule([&q, &k, &v], &g, &pool.to_dtype(F16).unwrap(), &of));
    told("delta_rule: from must", rule([&q, &k, &v], &g, &pool, &StateSequences { slots: &starts, ..of }));
    told(
        "delta_rule: accepted without kept must",
        rule([&q, &k, &v], &g, &pool, &StateSequences { accepted: Some(&slots), ..of }),
    );
    let table = Tensor::zeros((3, 2), DType::U32, device).unwrap();
    told("delta_rule: from must", rule([&q, &k, &v], &g, &pool, &StateSequences { kept: Some(&table), ..of }));
    let fresh = Tensor::zeros(3, U8, device).unwrap();
    told("delta_rule: continues must", rule([&q, &k, &v], &g, &pool, &StateSequences { fresh: Some(&fresh), ..of }));
    let var = Var::from_tensor(&pool).unwrap();
    told("pool has no gradient", rule([&q, &k, &v], &g, &var, &of));
    let var = Var::from_tensor(&q).unwrap();
    told("q has no gradient", rule([&var, &k, &v], &g, &pool, &of));

    let zeros = |shape: &[usize]| Tensor::zeros(shape, F32, device).unwrap();
    let (x, states) = (zeros(&[2, 6]), zeros(&[POOL, 6, 3]));
    let conv = |states: &Tensor, x: &Tensor, weight: &[usize], of: &StateSequences<'_>| {
        causal_conv(states, x, &zeros(weight), None, of, false)
    };
    told("causal_conv: weight must", conv(&states, &x, &[6, 9], &of));
    told("causal_conv: state must", conv(&zeros(&[POOL, 5, 3]), &x, &[6, 4], &of));
    told("causal_conv: slots must", conv(&states, &x, &[6, 4], &StateSequences { slots: &starts, ..of }));
    let on_cpu = x.to_device(&Device::Cpu).unwrap();
    told("causal_conv: x must be on", conv(&states, &on_cpu, &[6, 4], &of));
    let one = Tensor::new(&[1_u32], device).unwrap();
    told("causal_conv: accepted must", conv(&states, &x, &[6, 4], &StateSequences { accepted: Some(&one), ..of }));
    told("causal_conv: lengths must", conv(&states, &x, &[6, 4], &StateSequences { lengths: Some(&one), ..of }));
    let both = StateSequences { accepted: Some(&slots), lengths: Some(&slots), ..of };
    told("causal_conv: lengths beside accepted must", conv(&states, &x, &[6, 4], &both));
    // One state that many slots share cannot be changed.
    let one = zeros(&[1, 6, 3]).broadcast_as((POOL, 6, 3)).unwrap();
    told("causal_conv: state must", conv(&one, &x, &[6, 4], &of));

    let (a, b) = (zeros(&[6, 3]), zeros(&[2, 4, 3]));
    let scan = ScanInputs { x: &x, dt: &x, a: &a, b: &b, c: &b, d: None, z: None, dt_bias: None, is_softplus: true };
    told("selective_scan: b must", selective_scan(&states, &scan, &of));
    let whole = zeros(&[2, 6]).to_dtype(I64).unwrap();
    told(
        "selective_scan: z must",
        selective_scan(
            &states,
            &ScanInputs { z: Some(&whole), b: &b.narrow(1, 0, 2).unwrap(), c: &b.narrow(1, 0, 2).unwrap(), ..scan },
            &of,
        ),
    );
}
