//! What a sequence's results depend on, what reads and writes nothing, and what is refused before a launch.

use rocfire_hal::{Config, Device, Layout, Tensor};

use super::*;
use crate::testing::{Lie, Numbers, device, encode, read, tensor};

const KEY_HEADS: usize = 1;
const HEADS: usize = 2;
const KEYS: usize = 64;
const CHANNELS: usize = 64;
const SLOTS: usize = 5;

/// A sequence: its tokens are the same wherever it stands, and so is what lies in its slot.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    name: u64,
    tokens: usize,
    slot: usize,
}

/// A device whose launches nobody else adds to.
fn own_device() -> Device {
    Device::open(device().id(), Config::from_env().unwrap()).unwrap()
}

struct Fixture {
    device: Device,
    dtype: DType,
    longest: usize,
    /// Whether each row of a state has a decay.
    by_row: bool,
}

impl Fixture {
    /// Token after token.
    fn steps() -> Fixture {
        Fixture { device: own_device(), dtype: DType::F32, longest: 1, by_row: false }
    }

    /// By chunks, where the device has them.
    fn chunks() -> Fixture {
        Fixture { device: own_device(), dtype: DType::BF16, longest: 100, by_row: false }
    }

    fn chunks_by_row() -> Fixture {
        Fixture { by_row: true, ..Fixture::chunks() }
    }

    /// Launches of a call.
    fn launches(&self) -> u64 {
        let in_chunks = self.longest > CHUNK && has_products(self.device.arch().info(), self.dtype);
        if in_chunks { 2 } else { 1 }
    }

    fn integers(&self, values: &[i32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::from_bytes(&self.device, &[values.len()], DType::I32, &bytes).unwrap()
    }

    fn floats(&self, shape: &[usize], values: &[f64]) -> Tensor {
        tensor(&self.device, shape, DType::F32, values, Lie::Plain)
    }

    fn pool(&self) -> Tensor {
        let shape = [SLOTS, HEADS, KEYS, CHANNELS];
        self.floats(&shape, &Numbers::new(9).values(shape.iter().product(), DType::F32))
    }

    /// Rows of each of a sequence's tokens from `first` on: queries, keys, values, decays, strengths.
    fn rows(&self, sequence: &Sequence, first: usize) -> [Vec<f64>; 5] {
        let decays = if self.by_row { HEADS * KEYS } else { HEADS };
        let extents = [KEY_HEADS * KEYS, KEY_HEADS * KEYS, HEADS * CHANNELS, decays, HEADS];
        let mut rows = [const { Vec::new() }; 5];
        for token in first..first + sequence.tokens {
            let mut numbers = Numbers::new(sequence.name * 1000 + token as u64);
            for (part, (rows, extent)) in rows.iter_mut().zip(extents).enumerate() {
                let of = |x: f64| match part {
                    3 => -x.abs() / 16.0,
                    4 => 0.5 + x / 16.0,
                    _ => x,
                };
                rows.extend(numbers.values(extent, DType::F32).into_iter().map(of));
            }
        }
        rows
    }

    /// Rows of all tokens as the operator takes them.
    fn tensors(&self, tokens: usize, rows: &[Vec<f64>; 5]) -> [Tensor; 5] {
        let shapes: [&[usize]; 5] = [
            &[tokens, KEY_HEADS, KEYS],
            &[tokens, KEY_HEADS, KEYS],
            &[tokens, HEADS, CHANNELS],
            if self.by_row { &[tokens, HEADS, KEYS] } else { &[tokens, HEADS] },
            &[tokens, HEADS],
        ];
        std::array::from_fn(|part| {
            let dtype = if part < 3 { self.dtype } else { DType::F32 };
            tensor(&self.device, shapes[part], dtype, &rows[part], Lie::Plain)
        })
    }

    /// Outputs of each sequence, whose tokens begin at their `first`; states go into the pool.
    fn run(&self, batch: &[(Sequence, usize)], pool: &mut Tensor) -> Vec<Vec<f64>> {
        let (mut all, mut starts) = ([const { Vec::new() }; 5], vec![0]);
        for (sequence, first) in batch {
            all.iter_mut().zip(self.rows(sequence, *first)).for_each(|(all, rows)| all.extend(rows));
            starts.push(starts[starts.len() - 1] + sequence.tokens as i32);
        }
        let tokens = *starts.last().unwrap() as usize;
        let [q, k, v, g, beta] = self.tensors(tokens, &all);
        let slots: Vec<i32> = batch.iter().map(|(sequence, _)| sequence.slot as i32).collect();
        let (starts_there, slots) = (self.integers(&starts), self.integers(&slots));
        let gates = DeltaGates::Given { g: g.view(), beta: beta.view() };
        let inputs = DeltaInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            gates,
            starts: starts_there.view(),
            longest: self.longest,
        };
        let (pool, slots) = (pool.view_mut(), slots.view());
        let states = DeltaStates { pool, from: slots, to: slots, continues: None, accepted: None, pad: None };
        let mut out = Tensor::empty(&self.device, &[tokens, HEADS, CHANNELS], self.dtype).unwrap();
        let (before, blocks) = (self.device.launches(), self.device.memory().blocks);
        let params = DeltaParams { normalises: true, ..DeltaParams::default() };
        delta_rule(self.device.stream(), &inputs, &params, states, out.view_mut(), None).unwrap();
        assert_eq!(self.device.launches() - before, self.launches());
        // A workspace only where chunks are taken.
        assert_eq!(self.device.memory().blocks - blocks, self.launches() - 1);
        let (out, row) = (read(&out), HEADS * CHANNELS);
        starts.windows(2).map(|of| out[of[0] as usize * row..of[1] as usize * row].to_vec()).collect()
    }
}

fn state(pool: &Tensor, slot: usize) -> Vec<f64> {
    let each = HEADS * KEYS * CHANNELS;
    read(pool)[slot * each..][..each].to_vec()
}

const LONG: Sequence = Sequence { name: 1, tokens: 67, slot: 3 };
const SHORT: Sequence = Sequence { name: 2, tokens: 1, slot: 0 };
const OTHER: Sequence = Sequence { name: 3, tokens: 9, slot: 4 };
const EMPTY: Sequence = Sequence { name: 4, tokens: 0, slot: 1 };

#[test]
fn the_bits_of_a_sequence_are_those_it_has_alone_whoever_joins_it() {
    let fixtures = [Fixture::steps, Fixture::chunks, Fixture::chunks_by_row];
    for (fixture, sequence) in fixtures.iter().flat_map(|of| [(of(), LONG), (of(), SHORT)]) {
        let mut pool = fixture.pool();
        let alone = fixture.run(&[(sequence, 0)], &mut pool).remove(0);
        assert!(alone.iter().any(|&x| x != 0.0));
        for batch in [vec![sequence, EMPTY, OTHER], vec![EMPTY, OTHER, sequence]] {
            let at = batch.iter().position(|other| other.name == sequence.name).unwrap();
            let mut together = fixture.pool();
            let batch: Vec<_> = batch.into_iter().map(|sequence| (sequence, 0)).collect();
            assert_eq!(fixture.run(&batch, &mut together).remove(at), alone, "{sequence:?} in {batch:?}");
            assert_eq!(state(&together, sequence.slot), state(&pool, sequence.slot), "{sequence:?} in {batch:?}");
            // A sequence without tokens leaves its state, and nobody touches a slot that is nobody's.
            for slot in [1, 2] {
                assert_eq!(state(&together, slot), state(&fixture.pool(), slot));
            }
        }
    }
}

#[test]
fn tokens_may_come_in_any_number_of_launches() {
    let fixture = Fixture::steps();
    let mut pool = fixture.pool();
    let at_once = fixture.run(&[(LONG, 0)], &mut pool).remove(0);
    let (mut in_parts, mut first, mut parts) = (Vec::new(), 0, fixture.pool());
    for tokens in [1, 1, 40, 2, 23] {
        in_parts.extend(fixture.run(&[(Sequence { tokens, ..LONG }, first)], &mut parts).remove(0));
        first += tokens;
    }
    assert_eq!(first, LONG.tokens);
    assert_eq!(in_parts, at_once);
    assert_eq!(state(&parts, LONG.slot), state(&pool, LONG.slot));
}

/// A call of one sequence from its token `first` on, with rows of slots; what it gives.
fn with_rows_of_slots(
    fixture: &Fixture,
    sequence: Sequence,
    first: usize,
    [from, to, accepted]: [&[i32]; 3],
    pool: &mut Tensor,
) -> Vec<f64> {
    let all = fixture.rows(&sequence, first);
    let tokens = sequence.tokens;
    let [q, k, v, g, beta] = fixture.tensors(tokens, &all);
    let row = |slots: &[i32]| {
        let layout = Layout::contiguous(&[1, slots.len()]).unwrap();
        fixture.integers(slots).with_layout(layout).unwrap()
    };
    let (starts, from, to) = (fixture.integers(&[0, tokens as i32]), row(from), row(to));
    let accepted = fixture.integers(accepted);
    let gates = DeltaGates::Given { g: g.view(), beta: beta.view() };
    let (q, k, v, starts) = (q.view(), k.view(), v.view(), starts.view());
    let inputs = DeltaInputs { q, k, v, gates, starts, longest: fixture.longest };
    let accepted = Some(accepted.view());
    let (from, to, pool) = (from.view(), to.view(), pool.view_mut());
    let states = DeltaStates { pool, from, to, continues: None, accepted, pad: Some(2) };
    let mut out = Tensor::empty(&fixture.device, &[tokens, HEADS, CHANNELS], fixture.dtype).unwrap();
    let params = DeltaParams { normalises: true, ..DeltaParams::default() };
    delta_rule(fixture.device.stream(), &inputs, &params, states, out.view_mut(), None).unwrap();
    read(&out)
}

#[test]
fn kept_states_have_the_bits_of_tokens_one_by_one() {
    // States of 16 bits are rounded after each token either way.
    for (fixture, dtype) in [(Fixture::steps(), DType::F32), (Fixture::steps(), DType::BF16)] {
        let pool = || family::cast(fixture.device.stream(), fixture.pool().view(), dtype).unwrap();
        let mut one_by_one = pool();
        let mut after = Vec::new();
        let all: Vec<Vec<f64>> = (0..7)
            .map(|token| {
                let out = fixture.run(&[(Sequence { tokens: 1, ..LONG }, token)], &mut one_by_one).remove(0);
                after.push(state(&one_by_one, LONG.slot));
                out
            })
            .collect();
        // Three tokens, whose states stay apart from the one that is read; two are accepted; then three more in their place.
        let mut kept = pool();
        let first = Sequence { tokens: 3, ..LONG };
        let got = with_rows_of_slots(&fixture, first, 0, [&[3], &[1, 0, 4], &[1]], &mut kept);
        assert_eq!(got, all[..3].concat(), "{dtype}");
        for (slot, token) in [(1, 0), (0, 1), (4, 2)] {
            assert_eq!(state(&kept, slot), after[token], "{dtype} slot {slot}");
        }
        assert_eq!(state(&kept, 3), state(&pool(), 3), "{dtype}: what was read");
        let slots: &[i32] = &[1, 0, 4];
        let got = with_rows_of_slots(&fixture, first, 2, [slots, slots, &[2]], &mut kept);
        assert_eq!(got, all[2..5].concat(), "{dtype}");
        for (slot, token) in [(1, 2), (0, 3), (4, 4)] {
            assert_eq!(state(&kept, slot), after[token], "{dtype} slot {slot}");
        }
        // Slots that are none keep nothing, and change nothing.
        let got =
            with_rows_of_slots(&fixture, Sequence { tokens: 2, ..LONG }, 5, [slots, &[-1, 3, 4], &[3]], &mut kept);
        assert_eq!(got, all[5..].concat(), "{dtype}");
        assert_eq!(state(&kept, 3), after[6], "{dtype}");
        assert_eq!(state(&kept, 4), after[4], "{dtype}");
        // More tokens than places: the last one's state, at the first place.
        let mut longer = pool();
        let got =
            with_rows_of_slots(&fixture, Sequence { tokens: 7, ..LONG }, 0, [&[3], &[1, 0, 4], &[1]], &mut longer);
        if dtype == DType::F32 {
            assert_eq!(got, all.concat());
            assert_eq!(state(&longer, 1), after[6]);
        }
        for slot in [0, 3, 4] {
            assert_eq!(state(&longer, slot), state(&pool(), slot), "{dtype} slot {slot}");
        }
    }
}

#[test]
fn a_place_that_is_not_there_gives_zeros() {
    let fixture = Fixture::steps();
    let sequence = Sequence { tokens: 2, ..LONG };
    // Places before the first and behind the last; slots that are none: negative, behind the pool, for padding.
    let places = [0, 4, -1, i32::MIN, i32::MAX].map(|accepted| ([0, 1, 3], accepted));
    for (slots, accepted) in places.into_iter().chain([([0, -1, 3], 2), ([5, 1, 0], 1), ([0, 1, 2], 3)]) {
        let mut pool = fixture.pool();
        let got = with_rows_of_slots(&fixture, sequence, 0, [&slots, &[0, 1, 3], &[accepted]], &mut pool);
        assert!(got.iter().all(|&x| x == 0.0), "{slots:?} {accepted}");
        assert_eq!(read(&pool), read(&fixture.pool()), "{slots:?} {accepted}");
    }
}

#[test]
fn sequences_longer_than_told_are_right_too() {
    for of in [Fixture::chunks, Fixture::chunks_by_row] {
        let mut fixture = Fixture { longest: 300, ..of() };
        let (sequence, mut pool) = (Sequence { tokens: 300, ..LONG }, fixture.pool());
        let told = fixture.run(&[(sequence, 0)], &mut pool);
        fixture.longest = 65;
        let mut again = fixture.pool();
        assert_eq!(fixture.run(&[(sequence, 0)], &mut again), told);
        assert_eq!(read(&again), read(&pool));
    }
}

#[test]
fn starts_that_make_no_sense_stay_inside() {
    let fixture = Fixture::steps();
    let make = |shape: &[usize]| fixture.floats(shape, &vec![1.0; shape.iter().product()]);
    let (q, v, gate) = (make(&[4, 1, 8]), make(&[4, 1, 8]), make(&[4, 1]));
    let slots = fixture.integers(&[0, 1, 2]);
    for starts in [[-7, 2, 1, 90], [i32::MAX, i32::MIN, 0, i32::MAX]] {
        let (mut pool, starts) = (make(&[3, 1, 8, 8]), fixture.integers(&starts));
        let gates = DeltaGates::Given { g: gate.view(), beta: gate.view() };
        let inputs = DeltaInputs { q: q.view(), k: q.view(), v: v.view(), gates, starts: starts.view(), longest: 1 };
        let (pool, slots) = (pool.view_mut(), slots.view());
        let states = DeltaStates { pool, from: slots, to: slots, continues: None, accepted: None, pad: None };
        let mut out = make(&[4, 1, 8]);
        let stream = fixture.device.stream();
        delta_rule(stream, &inputs, &DeltaParams::default(), states, out.view_mut(), None).unwrap();
        assert!(read(&out).iter().all(|x| x.is_finite()));
    }
}

/// A call of which one argument is replaced.
struct Arguments {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    a_log: Option<Tensor>,
    dt_bias: Tensor,
    bound: Option<f64>,
    starts: Tensor,
    from: Tensor,
    to: Tensor,
    continues: Tensor,
    accepted: Option<Tensor>,
    pool: Tensor,
    out: Tensor,
    longest: usize,
    workspace: Option<Tensor>,
}

#[test]
fn wrong_arguments_are_refused() {
    let device = own_device();
    let make = |shape: &[usize], dtype: DType| {
        let values = vec![0.0; shape.iter().product()];
        Tensor::from_bytes(&device, shape, dtype, &encode(&values, dtype)).unwrap()
    };
    let f32s = |shape: &[usize]| make(shape, DType::F32);
    let i32s = |count: usize| make(&[count], DType::I32);
    let plain = || Arguments {
        q: f32s(&[6, 2, 16]),
        k: f32s(&[6, 2, 16]),
        v: f32s(&[6, 4, 8]),
        a: f32s(&[6, 4]),
        b: f32s(&[6, 4]),
        a_log: None,
        dt_bias: f32s(&[4]),
        bound: None,
        starts: i32s(3),
        from: i32s(2),
        to: i32s(2),
        continues: i32s(2),
        accepted: None,
        pool: f32s(&[3, 4, 16, 8]),
        out: f32s(&[6, 4, 8]),
        longest: 6,
        workspace: None,
    };
    let call = |mut of: Arguments| {
        let gates = match &of.a_log {
            None => DeltaGates::Given { g: of.a.view(), beta: of.b.view() },
            Some(a_log) => DeltaGates::Made {
                a: of.a.view(),
                b: of.b.view(),
                a_log: a_log.view(),
                dt_bias: of.dt_bias.view(),
                bound: of.bound,
            },
        };
        let inputs = DeltaInputs {
            q: of.q.view(),
            k: of.k.view(),
            v: of.v.view(),
            gates,
            starts: of.starts.view(),
            longest: of.longest,
        };
        let continues = Some(of.continues.view());
        let workspace = of.workspace.as_mut().map(Tensor::view_mut);
        let (from, to, accepted) = (of.from.view(), of.to.view(), of.accepted.as_ref().map(Tensor::view));
        let states = DeltaStates { pool: of.pool.view_mut(), from, to, continues, accepted, pad: None };
        delta_rule(device.stream(), &inputs, &DeltaParams::default(), states, of.out.view_mut(), workspace)
    };
    call(plain()).unwrap();
    call(Arguments { a_log: Some(f32s(&[4])), ..plain() }).unwrap();
    let refused = |of: Arguments, part: &str| {
        let launches = device.launches();
        let error = call(of).unwrap_err().to_string();
        assert!(error.contains(part), "{error}, not {part}");
        assert_eq!(device.launches(), launches, "{part}");
    };
    let sparse = |shape: &[usize]| {
        let mut wide = shape.to_vec();
        *wide.last_mut().unwrap() *= 2;
        let mut strides = Layout::contiguous(&wide).unwrap().strides().to_vec();
        *strides.last_mut().unwrap() = 2;
        f32s(&wide).with_layout(Layout::strided(shape, &strides, 0).unwrap()).unwrap()
    };
    refused(Arguments { q: make(&[6, 2, 16], DType::F64), ..plain() }, "no f64 kernel");
    refused(Arguments { q: f32s(&[6, 32]), ..plain() }, "q must be [tokens, key heads, key channels]");
    refused(Arguments { q: f32s(&[6, 2, 257]), ..plain() }, "q must be 1 to 256 channels");
    refused(Arguments { q: sparse(&[6, 2, 16]), ..plain() }, "q must be rows");
    refused(Arguments { k: f32s(&[6, 2, 15]), ..plain() }, "k must be [6, 2, 16]");
    refused(Arguments { k: make(&[6, 2, 16], DType::F16), ..plain() }, "k must be of [F32]");
    refused(Arguments { v: f32s(&[6, 3, 8]), ..plain() }, "v must be a number of heads that 2 divides");
    refused(Arguments { v: f32s(&[5, 4, 8]), ..plain() }, "v must be [6, 4, 8]");
    refused(Arguments { out: f32s(&[6, 4, 9]), ..plain() }, "out must be [6, 4, 8]");
    refused(Arguments { a: f32s(&[6, 3]), ..plain() }, "g must be [6, 4]");
    refused(Arguments { a: sparse(&[6, 4, 16]), ..plain() }, "g must be rows");
    refused(Arguments { a: make(&[6, 4], DType::F16), ..plain() }, "g must be of");
    refused(Arguments { b: f32s(&[6, 4, 16]), ..plain() }, "beta must be [6, 4]");
    refused(Arguments { a_log: Some(f32s(&[5])), ..plain() }, "a_log must be [4]");
    refused(Arguments { a_log: Some(sparse(&[4])), ..plain() }, "a_log must be contiguous");
    refused(Arguments { a_log: Some(f32s(&[4])), dt_bias: f32s(&[4, 16]), ..plain() }, "dt_bias must be [4]");
    refused(Arguments { a_log: Some(f32s(&[4])), bound: Some(f64::NAN), ..plain() }, "bound must be a finite number");
    refused(Arguments { starts: make(&[3], DType::I64), ..plain() }, "starts must be of [I32]");
    refused(Arguments { from: i32s(3), ..plain() }, "from must be [2]");
    refused(Arguments { to: i32s(1), ..plain() }, "to must be [2]");
    refused(Arguments { continues: i32s(4), ..plain() }, "continues must be [2]");
    let i32s_of = |shape: &[usize]| make(shape, DType::I32);
    call(Arguments { from: i32s_of(&[2, 3]), to: i32s_of(&[2, 4]), accepted: Some(i32s(2)), ..plain() }).unwrap();
    refused(Arguments { accepted: Some(i32s(3)), ..plain() }, "accepted must be [2]");
    refused(Arguments { accepted: Some(make(&[2], DType::U32)), ..plain() }, "accepted must be of [I32]");
    refused(Arguments { from: i32s_of(&[3, 2]), ..plain() }, "from must be [2, 2]");
    refused(Arguments { to: i32s_of(&[2, 0]), ..plain() }, "to must be rows of at least a slot");
    let apart = Layout::strided(&[2, 2], &[1, 2], 0).unwrap();
    refused(Arguments { to: i32s_of(&[2, 2]).with_layout(apart).unwrap(), ..plain() }, "to must be rows");
    refused(Arguments { pool: f32s(&[3, 4, 8, 16]), ..plain() }, "pool must be [3, 4, 16, 8]");
    refused(Arguments { pool: make(&[3, 4, 16, 8], DType::F16), ..plain() }, "pool must be of");
    let halves = |workspace: Tensor| Arguments {
        q: make(&[6, 2, 64], DType::F16),
        k: make(&[6, 2, 64], DType::F16),
        v: make(&[6, 4, 32], DType::F16),
        pool: f32s(&[3, 4, 64, 32]),
        out: make(&[6, 4, 32], DType::F16),
        longest: 65,
        workspace: Some(workspace),
        ..plain()
    };
    call(halves(f32s(&[6 * 4 * 68]))).unwrap();
    refused(halves(f32s(&[6 * 4 * 68 - 1])), "workspace must be 1632 elements");
    refused(halves(make(&[6 * 4 * 68], DType::I32)), "workspace must be f32");
    refused(halves(sparse(&[6 * 4 * 68])), "workspace must be 1632 elements");
    let of = plain();
    let out = of.v.clone();
    refused(Arguments { out, ..of }, "v must be memory apart");
    let once = Layout::strided(&[6, 4, 8], &[0, 8, 1], 0).unwrap();
    let of = plain();
    let out = of.out.with_layout(once).unwrap();
    refused(Arguments { out, ..of }, "out must be a layout");
}
