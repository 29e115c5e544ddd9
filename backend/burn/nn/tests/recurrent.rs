//! Layers with states by slot against the same written out token by token on Flex: values, states, parts, slots, messages.

mod common;

use burn::backend::flex::FlexDevice;
use burn::tensor::activation::{sigmoid, silu, softplus};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::numbers;
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{DeltaGates, DeltaParams, ScanInputs, StateSequences, States};

fn flex() -> Device {
    Device::from(FlexDevice)
}

fn rocm() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn())
}

fn ints(values: &[i64]) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &rocm())
}

/// Two sequences, of slots 2 and 0; the second begins. A token behind them is nobody's.
const STARTS: [usize; 3] = [0, 5, 8];
const TOKENS: usize = 9;
const SLOTS: [usize; 2] = [2, 0];
const FRESH: [bool; 2] = [false, true];

fn sequences() -> StateSequences {
    let of = StateSequences::new(ints(&STARTS.map(|start| start as i64)), ints(&SLOTS.map(|slot| slot as i64)));
    StateSequences { fresh: Some(ints(&FRESH.map(i64::from))), ..of }
}

fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().convert::<f32>().try_into_vec().unwrap()
}

fn close<const D: usize>(what: &str, ours: Tensor<D>, theirs: Tensor<D>) {
    assert_eq!(ours.dims(), theirs.dims(), "{what}");
    for (at, (a, b)) in values(ours).into_iter().zip(values(theirs)).enumerate() {
        assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{what}: element {at} is {a}, expected {b}");
    }
}

/// Goes through the sequences token by token: `step` gives a token's result and the next state. The results, zeros for nobody's
/// token, and the states.
fn written_out<const S: usize, const D: usize, const R: usize>(
    states: Tensor<D>,
    width: [usize; R],
    step: impl Fn(usize, Tensor<S>) -> (Tensor<R>, Tensor<S>),
) -> (Tensor<R>, Tensor<D>) {
    let mut rows = Vec::new();
    let mut after: Vec<Tensor<D>> = (0..states.dims()[0]).map(|slot| states.clone().narrow(0, slot, 1)).collect();
    for sequence in 0..SLOTS.len() {
        let slot = SLOTS[sequence];
        let mut state: Tensor<S> = after[slot].clone().squeeze_dim(0);
        if FRESH[sequence] {
            state = state.zeros_like();
        }
        for token in STARTS[sequence]..STARTS[sequence + 1] {
            let (row, next) = step(token, state);
            rows.push(row);
            state = next;
        }
        after[slot] = state.unsqueeze_dim(0);
    }
    rows.push(Tensor::zeros(width, &flex()));
    (Tensor::cat(rows, 0), Tensor::cat(after, 0))
}

#[test]
fn causal_convolutions_go_on_where_they_were() {
    let (dim, w) = (6, 4);
    let make = |device: &Device| {
        let states = numbers([3, dim, w - 1], 1, DType::F32, device);
        // A view that nobody has read.
        let x = numbers([dim, TOKENS], 2, DType::F32, device).mul_scalar(2.0).transpose();
        (states, x, numbers([dim, w], 3, DType::F32, device), numbers([dim], 4, DType::F32, device))
    };
    let (states, x, weight, bias) = make(&flex());
    let (y, after) = written_out::<2, 3, 2>(states, [1, dim], |token, state| {
        let own: Tensor<2> = x.clone().narrow(0, token, 1).transpose();
        let window = Tensor::cat(vec![state, own], 1);
        let row = (window.clone() * weight.clone()).sum_dim(1).transpose() + bias.clone().unsqueeze_dim(0);
        (silu(row), window.narrow(1, 1, w - 1))
    });
    let (pool, x, weight, bias) = make(&rocm());
    let mut states = States::of(pool).unwrap();
    let before = states.clone();
    let ours = states.causal_conv(x.clone(), weight.clone(), Some(bias.clone()), &sequences(), true);
    close("causal_conv", ours.clone(), y);
    close("its states", states.tensor(), after);
    // A clone is as it was, and gives the same bits again.
    let mut again = before.clone();
    let second = again.causal_conv(x, weight, Some(bias), &sequences(), true);
    second.into_data().assert_eq(&ours.into_data(), true);
    again.tensor().into_data().assert_eq(&states.tensor().into_data(), true);
    assert_ne!(before.tensor().into_data(), states.tensor().into_data());
}

#[test]
fn causal_convolutions_go_on_behind_accepted_tokens() {
    let (dim, w, draft) = (6, 4, 3);
    let device = rocm();
    let x = numbers([7, dim], 2, DType::F32, &device);
    let weight = numbers([dim, w], 3, DType::F32, &device);
    let begins = |slots: &[i64]| StateSequences {
        fresh: Some(ints(&[1])),
        ..StateSequences::new(ints(&[0, slots[1]]), ints(&slots[..1]))
    };
    let mut whole = States::<3>::new([2, dim, w - 1], DType::F32, &device).unwrap();
    let all = whole.causal_conv(x.clone(), weight.clone(), None, &begins(&[0, 7]), false);
    // Three tokens, of which two are accepted, the second of them and two others; of a slot behind that for padding.
    let first = x.clone().narrow(0, 0, 3);
    let second = x.clone().narrow(0, 2, 3);
    for is_circular in [false, true] {
        let mut states = States::of(numbers([2, dim, w - 2 + draft + 1], 5, DType::F32, &device)).unwrap();
        let told = |count: i64| {
            let of = StateSequences { pad: Some(0), ..StateSequences::new(ints(&[0, 3]), ints(&[1])) };
            let count = Some(ints(&[count]));
            if is_circular { StateSequences { lengths: count, ..of } } else { StateSequences { accepted: count, ..of } }
        };
        let begun = StateSequences { fresh: Some(ints(&[1])), ..told(0) };
        let y = states.causal_conv(first.clone(), weight.clone(), None, &begun, false);
        y.into_data().assert_eq(&all.clone().narrow(0, 0, 3).into_data(), true);
        let y = states.causal_conv(second.clone(), weight.clone(), None, &told(2), false);
        y.into_data().assert_eq(&all.clone().narrow(0, 2, 3).into_data(), true);
        // What stands for no slot changes nothing, and neither does a window that is not there.
        let before = states.tensor().into_data();
        let nobody = StateSequences { slots: ints(&[0]), ..told(1) };
        for of in [nobody, told(-1)] {
            let y = states.causal_conv(second.clone(), weight.clone(), None, &of, false);
            assert!(values(y).iter().all(|&y| y == 0.0));
            states.tensor().into_data().assert_eq(&before, true);
        }
    }
}

#[test]
fn scans_go_on_where_they_were() {
    let (dim, n, groups) = (6, 5, 2);
    let make = |device: &Device| ScanInputs {
        x: numbers([dim, TOKENS], 2, DType::F32, device).mul_scalar(2.0).transpose(),
        dt: numbers([TOKENS, dim], 3, DType::F32, device),
        a: numbers([dim, n], 4, DType::F32, device).abs().neg(),
        b: numbers([TOKENS, groups, n], 5, DType::F32, device),
        c: numbers([TOKENS, groups, n], 6, DType::F32, device),
        d: Some(numbers([dim], 7, DType::F32, device)),
        z: Some(numbers([TOKENS, dim], 8, DType::F32, device)),
        dt_bias: Some(numbers([dim], 9, DType::F32, device)),
        is_softplus: true,
    };
    let states = |device: &Device| numbers([3, dim, n], 1, DType::F32, device);
    let of = make(&flex());
    let column = |x: Tensor<2>| -> Tensor<2> { x.transpose() };
    let (y, after) = written_out::<2, 3, 2>(states(&flex()), [1, dim], |token, state| {
        let row = |x: &Tensor<2>| column(x.clone().narrow(0, token, 1));
        let each = |x: &Tensor<3>| -> Tensor<2> {
            x.clone().narrow(0, token, 1).reshape([groups, 1, n]).repeat_dim(1, dim / groups).reshape([dim, n])
        };
        let dt = softplus(row(&of.dt) + of.dt_bias.clone().unwrap().unsqueeze_dim(1), 1.0);
        let x = row(&of.x);
        let state = (dt.clone() * of.a.clone()).exp() * state + dt * each(&of.b) * x.clone();
        let y = (state.clone() * each(&of.c)).sum_dim(1) + of.d.clone().unwrap().unsqueeze_dim(1) * x;
        ((y * silu(row(of.z.as_ref().unwrap()))).transpose(), state)
    });
    let mut ours = States::of(states(&rocm())).unwrap();
    let row = ours.selective_scan(make(&rocm()), &sequences());
    close("selective_scan", row, y);
    close("its states", ours.tensor(), after);
}

/// What drafts of two sequences leave, results and states, of each layer; of inputs that operators have just made.
fn drafts(device: &Device) -> Vec<Vec<f32>> {
    let (dim, n, heads, depth) = (6, 20, 2, 32);
    fn of<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
        numbers(shape, seed, DType::F32, device).mul_scalar(0.5).add_scalar(0.25)
    }
    let told = |values: &[i64]| ints(values).add_scalar(1).sub_scalar(1);
    let plain =
        StateSequences { accepted: Some(told(&[2, 3])), ..StateSequences::new(told(&[0, 3, 5]), told(&[1, 0])) };
    let table = told(&[1, 2, 3, 4, 5, 0]).reshape([2, 3]);
    let kept = StateSequences { kept: Some(table), ..plain.clone() };
    let mut lines = States::of(of([2, dim, 5], 1, device)).unwrap();
    let y = lines.causal_conv(of([5, dim], 2, device), of([dim, 4], 3, device), None, &plain, true);
    let mut all = vec![values(y.mul_scalar(2.0)), values(lines.tensor())];
    let mut scanned = States::of(of([6, dim, n], 1, device)).unwrap();
    let inputs = ScanInputs {
        x: of([dim, 5], 2, device).transpose(),
        dt: of([5, dim], 3, device),
        a: of([dim, n], 4, device).abs().neg(),
        b: of([5, 2, n], 5, device),
        c: of([5, 2, n], 6, device),
        d: None,
        z: Some(of([5, dim], 7, device)),
        dt_bias: None,
        is_softplus: true,
    };
    let y = scanned.selective_scan(inputs, &kept);
    all.extend([values(y.mul_scalar(2.0)), values(scanned.tensor())]);
    for by_row in [false, true] {
        let mut pool = States::of(of([6, heads, depth, depth], 1, device)).unwrap();
        let qkv = [7, 8, 9].map(|seed| of([5, heads, depth], seed, device));
        let (g, beta) = (of([5, heads], 10, device).abs().neg(), of([5, heads], 11, device));
        let gates = match by_row {
            true => DeltaGates::ByRow(of([5, heads, depth], 12, device).abs().neg(), beta),
            false => DeltaGates::Given(g, beta),
        };
        let y = pool.delta_rule(qkv, gates, &kept, 3, DeltaParams::default());
        all.extend([values(y.mul_scalar(2.0)), values(pool.tensor())]);
    }
    all
}

#[test]
fn drafts_are_the_same_in_threads_and_where_operators_wait_for_them() {
    let alone = drafts(&rocm());
    assert!(alone.iter().all(|numbers| numbers.iter().any(|&x| x != 0.0)));
    assert_eq!(drafts(&rocm()), alone);
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| drafts(&rocm())));
        for thread in both {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

/// Holds drafts against one token after the other. `run` goes from a token on by so many, of states and their sequences; it gives outputs.
fn goes_on_behind_accepted<const D: usize, Run>(pool: Tensor<D>, run: Run)
where
    Run: Fn(&mut States<D>, usize, usize, &StateSequences) -> Vec<f32>,
{
    // One token after the other, in slot 2.
    let mut one_by_one = States::of(pool.clone()).unwrap();
    let each = StateSequences::new(ints(&[0, 1]), ints(&[2]));
    let all: Vec<_> = (0..5).map(|token| run(&mut one_by_one, token, 1, &each)).collect();
    // Three tokens, of which two are accepted, and three more.
    let table = |slots: &[i64]| -> Option<Tensor<2, Int>> { Some(ints(slots).reshape([1, slots.len()])) };
    let mut states = States::of(pool).unwrap();
    let of = StateSequences::new(ints(&[0, 3]), ints(&[7]));
    let first = StateSequences { kept: table(&[2, 0, 1]), ..of };
    assert_eq!(run(&mut states, 0, 3, &first), all[..3].concat());
    // A clone stays as it was.
    let clone = states.clone();
    let kept = clone.tensor().into_data();
    let second = StateSequences { accepted: Some(ints(&[2])), ..first };
    assert_eq!(run(&mut states, 2, 3, &second), all[2..].concat());
    clone.tensor().into_data().assert_eq(&kept, true);
    let last = states.tensor().narrow(0, 1, 1).into_data();
    last.assert_eq(&one_by_one.tensor().narrow(0, 2, 1).into_data(), true);
    // A place that is not there, and a slot that stands for none.
    let before = states.tensor().into_data();
    let beyond = StateSequences { accepted: Some(ints(&[4])), ..second.clone() };
    for of in [beyond, StateSequences { pad: Some(0), ..second }] {
        assert!(run(&mut states, 2, 3, &of).iter().all(|&y| y == 0.0));
        states.tensor().into_data().assert_eq(&before, true);
    }
}

#[test]
fn scans_go_on_behind_accepted_tokens() {
    let (device, dim, n) = (rocm(), 6, 20);
    let inputs = |from: usize, tokens: usize| {
        let rows = |seed| numbers::<2>([TOKENS, dim], seed, DType::F32, &device).narrow(0, from, tokens);
        let by_token = |seed| numbers::<3>([TOKENS, 2, n], seed, DType::F32, &device).narrow(0, from, tokens);
        // Made by operators, and read by nobody.
        let a = numbers::<2>([dim, n], 4, DType::F32, &device).abs().neg();
        let (d, z, dt_bias) = (None, Some(rows(8).mul_scalar(2.0)), None);
        let (x, dt, b, c) = (rows(2), rows(3), by_token(5).mul_scalar(0.5), by_token(6));
        ScanInputs { x, dt, a, b, c, d, z, dt_bias, is_softplus: true }
    };
    let run = |states: &mut States<3>, from: usize, tokens: usize, of: &StateSequences| {
        values(states.selective_scan(inputs(from, tokens), of))
    };
    goes_on_behind_accepted(numbers::<3>([3, dim, n], 1, DType::F32, &device), run);
}

/// Queries, keys and values of one key head and two heads, and states.
fn of_rule(device: &Device) -> ([Tensor<3>; 3], Tensor<4>) {
    let (depth, width) = (8, 32);
    let q = numbers([TOKENS, 1, depth], 2, DType::F32, device).mul_scalar(0.5);
    let k = numbers([TOKENS, 1, depth], 3, DType::F32, device).mul_scalar(0.5);
    let v = numbers([TOKENS, 2, width], 4, DType::F32, device);
    ([q, k, v], numbers([3, 2, depth, width], 1, DType::F32, device))
}

#[test]
fn the_delta_rule_goes_on_where_it_was() {
    let made = |device: &Device| {
        let by_head = |seed| numbers::<2>([TOKENS, 2], seed, DType::F32, device);
        let with = |seed| numbers::<1>([2], seed, DType::F32, device);
        ([by_head(5), by_head(6)], [with(7), with(8)])
    };
    let given = |device: &Device| {
        let ([a, b], [a_log, dt_bias]) = made(device);
        let steps = softplus(a + dt_bias.unsqueeze_dim(0), 1.0);
        (steps * a_log.exp().neg().unsqueeze_dim(0), sigmoid(b))
    };
    let ([q, k, v], states) = of_rule(&flex());
    let (g, beta) = given(&flex());
    let scale = 1.0 / 8.0_f64.sqrt();
    let (y, after) = written_out::<3, 4, 3>(states, [1, 2, 32], |token, state| {
        let of_key = |x: &Tensor<3>| -> Tensor<3> { x.clone().narrow(0, token, 1).repeat_dim(1, 2).reshape([2, 8, 1]) };
        let of_head = |x: &Tensor<2>| -> Tensor<3> { x.clone().narrow(0, token, 1).reshape([2, 1, 1]) };
        let (q, k, v) = (of_key(&q), of_key(&k), v.clone().narrow(0, token, 1).reshape([2, 1, 32]));
        let state = state * of_head(&g).exp();
        let u = (v - (state.clone() * k.clone()).sum_dim(1)) * of_head(&beta);
        let state = state + k * u;
        (((state.clone() * q).sum_dim(1) * scale).reshape([1, 2, 32]), state)
    });
    let device = rocm();
    let (g, beta) = given(&device);
    let (of_layer, with) = made(&device);
    let by_row = g.clone().reshape([TOKENS, 2, 1]).repeat_dim(2, 8);
    let all = [DeltaGates::Given(g, beta.clone()), DeltaGates::ByRow(by_row, beta), DeltaGates::Made(of_layer, with)];
    for gates in all {
        let (qkv, pool) = of_rule(&device);
        let mut states = States::of(pool).unwrap();
        let ours = states.delta_rule(qkv, gates, &sequences(), 5, DeltaParams::default());
        close("delta_rule", ours, y.clone());
        close("its states", states.tensor(), after.clone());
    }
}

#[test]
fn the_delta_rule_goes_on_behind_accepted_tokens() {
    let device = rocm();
    let ([q, k, v], pool) = of_rule(&device);
    let gates = |from: usize, tokens: usize| {
        let of = |seed| numbers::<2>([TOKENS, 2], seed, DType::F32, &device).narrow(0, from, tokens);
        let by_row = of(5).abs().neg().reshape([tokens, 2, 1]).repeat_dim(2, 8);
        DeltaGates::ByRow(by_row, sigmoid(of(6)))
    };
    let run = |states: &mut States<4>, from: usize, tokens: usize, of: &StateSequences| {
        let qkv = [&q, &k, &v].map(|x| x.clone().narrow(0, from, tokens));
        values(states.delta_rule(qkv, gates(from, tokens), of, tokens, DeltaParams::default()))
    };
    goes_on_behind_accepted(pool, run);
}

#[test]
fn a_sequence_of_no_slot_leaves_nothing_behind() {
    let device = rocm();
    let (qkv, pool) = of_rule(&device);
    let mut states = States::of(pool.clone()).unwrap();
    let of = StateSequences { slots: ints(&[-1, -1]), ..sequences() };
    let gates = DeltaGates::Given(Tensor::zeros([TOKENS, 2], &device), Tensor::ones([TOKENS, 2], &device));
    let y = states.delta_rule(qkv, gates, &of, 5, DeltaParams::default());
    assert!(values(y).iter().all(|&y| y == 0.0));
    states.tensor().into_data().assert_eq(&pool.into_data(), true);
}

#[test]
fn elsewhere_there_are_no_states() {
    assert!(States::<3>::new([1, 2, 3], DType::F32, &flex()).is_none());
    let zeros = States::<3>::new([1, 2, 3], DType::F32, &rocm()).unwrap();
    assert!(values(zeros.tensor()).iter().all(|&x| x == 0.0));
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let device = rocm();
    let told = |arg: &str, run: &dyn Fn() -> Tensor<2>| {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run().into_data()));
        let message = failed.expect_err(arg);
        let message = message.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(message.contains(arg), "{arg}: {message}");
    };
    let states = || States::<3>::new([3, 6, 3], DType::F32, &device).unwrap();
    let x = || numbers([TOKENS, 6], 2, DType::F32, &device);
    told("weight", &|| states().causal_conv(x(), Tensor::zeros([6, 9], &device), None, &sequences(), false));
    let accepted = || StateSequences { accepted: Some(ints(&[1])), ..sequences() };
    told("accepted", &|| states().causal_conv(x(), Tensor::zeros([6, 4], &device), None, &accepted(), false));
    told("lengths beside accepted", &|| {
        let both = StateSequences { lengths: Some(ints(&[1, 1])), ..accepted() };
        states().causal_conv(x(), Tensor::zeros([6, 4], &device), None, &both, false)
    });
    let (qkv, pool) = of_rule(&device);
    let rule = |of: StateSequences| {
        let gates = DeltaGates::Given(Tensor::zeros([TOKENS, 2], &device), Tensor::ones([TOKENS, 2], &device));
        let y = States::of(pool.clone()).unwrap().delta_rule(qkv.clone(), gates, &of, 5, DeltaParams::default());
        y.reshape([TOKENS, 64])
    };
    told("accepted without kept", &|| rule(accepted()));
    let table = |rows: usize| Some(Tensor::<2, Int>::zeros([rows, 2], &device));
    told("from must be [2, 2]", &|| rule(StateSequences { kept: table(3), ..sequences() }));
    told("accepted must be [2]", &|| rule(StateSequences { kept: table(2), ..accepted() }));
    told("state", &|| {
        let mut few = States::<3>::new([3, 5, 3], DType::F32, &device).unwrap();
        few.causal_conv(x(), Tensor::zeros([6, 4], &device), None, &sequences(), false)
    });
}
