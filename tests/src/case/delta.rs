//! The gated delta rule: sequences of many lengths, heads shared or not, every kind of gate, slots that there are not, states of
//! either type, rows of any stride.

use rocfire_fusion::Scalar;
use rocfire_fusion::eager::{copy_into, fill};
use rocfire_hal::{DType, Layout, Stream, Tensor};
use rocfire_kernels::delta::{DeltaGates, DeltaInputs, DeltaParams, DeltaStates, delta_rule};

use super::drawn::{Draw, forever};
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// Where gates come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Given,
    Made,
    Bounded(f64),
}

/// What a case asks for.
#[derive(Clone, Copy, Debug)]
struct Spec {
    /// Tokens of each sequence.
    lengths: &'static [usize],
    key_heads: usize,
    heads: usize,
    /// Channels of keys, and of values.
    depths: [usize; 2],
    state: DType,
    form: Form,
    /// Whether each row of a state has a decay.
    by_row: bool,
    normalises: bool,
    scale: Option<f64>,
    /// Whether zeros are asked for where tokens are nobody's.
    fills: bool,
    /// Elements, heads of the pool and tokens that are nobody's, between and around those that are read: no row is aligned.
    pad: usize,
    /// Whether a state's columns lie side by side in memory, and not its rows.
    across: bool,
    /// Whether states are written elsewhere.
    moves: bool,
    /// Whether the first sequence begins, the second has no slot, and the third one behind the last.
    odd: bool,
}

const PLAIN: Spec = Spec {
    lengths: &[5],
    key_heads: 1,
    heads: 2,
    depths: [64, 64],
    state: DType::F32,
    form: Form::Given,
    by_row: false,
    normalises: true,
    scale: None,
    fills: false,
    pad: 0,
    across: false,
    moves: false,
    odd: false,
};

/// No token, one, around a chunk, several chunks; channels below a lane's, beside a power of two, of more than one tile.
const SIZES: [Spec; 20] = [
    Spec { lengths: &[1], heads: 1, depths: [1, 1], ..PLAIN },
    PLAIN,
    Spec { lengths: &[0, 1, 63, 65], depths: [128, 128], ..PLAIN },
    Spec { lengths: &[64, 3], heads: 3, key_heads: 3, depths: [60, 60], normalises: false, scale: Some(0.1), ..PLAIN },
    Spec { lengths: &[2, 2, 2, 7], odd: true, moves: true, pad: 1, fills: true, ..PLAIN },
    Spec { lengths: &[1, 1, 1, 1], heads: 4, key_heads: 2, depths: [128, 128], form: Form::Made, odd: true, ..PLAIN },
    Spec { lengths: &[70, 1], form: Form::Made, depths: [128, 64], across: true, ..PLAIN },
    Spec { lengths: &[65], by_row: true, depths: [128, 128], ..PLAIN },
    Spec { lengths: &[66, 0], by_row: true, form: Form::Made, depths: [60, 36], pad: 1, ..PLAIN },
    Spec { lengths: &[3, 9], by_row: true, form: Form::Bounded(-5.0), heads: 1, ..PLAIN },
    Spec { lengths: &[17], form: Form::Bounded(-2.0), normalises: false, moves: true, ..PLAIN },
    Spec { lengths: &[4, 19], depths: [33, 7], normalises: false, pad: 3, ..PLAIN },
    Spec { lengths: &[2], depths: [256, 256], heads: 1, ..PLAIN },
    Spec { lengths: &[130, 1, 200], heads: 1, ..PLAIN },
    Spec { lengths: &[100, 3, 2, 64], odd: true, moves: true, heads: 1, depths: [64, 32], ..PLAIN },
    Spec { lengths: &[129], form: Form::Bounded(-5.0), depths: [128, 32], across: true, ..PLAIN },
    Spec {
        lengths: &[80],
        form: Form::Made,
        normalises: false,
        scale: Some(0.1),
        depths: [128, 32],
        heads: 1,
        ..PLAIN
    },
    // Rows at multiples of 16 bytes all the same.
    Spec { lengths: &[66, 0, 64], odd: true, heads: 1, depths: [64, 32], pad: 8, fills: true, ..PLAIN },
    Spec { lengths: &[], ..PLAIN },
    Spec { lengths: &[], pad: 2, fills: true, ..PLAIN },
];

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SIZES.into_iter().enumerate() {
        for dtype in [FLOATS[turn % 3], DType::BF16] {
            // States in 16 bits are judged as such, so what goes with them is.
            let state = if dtype == DType::BF16 && turn % 2 == 0 { DType::BF16 } else { DType::F32 };
            if dtype == DType::BF16 || turn % 3 != 2 {
                cases.extend([false, true].map(|states| delta(dtype, Spec { state, ..spec }, states)));
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    cases.retain(|case| seen.insert(case.name()));
    cases
}

/// Sequences of any lengths.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    // Half of the time what is taken in chunks, unless rows are not aligned.
    let in_chunks = draw.flag();
    let lengths: &[usize] = if in_chunks { &[65, 64, 1, 0, 129, 200] } else { &[1, 0, 2, 3, 63, 64, 65, 129] };
    let lengths: Vec<usize> = (0..1 + draw.below(3)).map(|_| draw.pick(lengths)).collect();
    let key_heads = 1 + draw.below(3);
    let dtype = if in_chunks { draw.pick(&FLOATS[1..]) } else { draw.pick(&FLOATS) };
    let bits16 = dtype == DType::BF16 && draw.flag();
    let spec = Spec {
        lengths: forever(&lengths),
        key_heads,
        heads: key_heads * (1 + draw.below(3)),
        depths: if in_chunks { [draw.pick(&[64, 128]), 32] } else { [draw.extent(129), draw.extent(129)] },
        state: if bits16 { DType::BF16 } else { DType::F32 },
        form: draw.pick(&[Form::Given, Form::Made, Form::Bounded(-3.0)]),
        by_row: !in_chunks && draw.flag(),
        normalises: draw.flag(),
        scale: None,
        fills: draw.flag(),
        pad: draw.pick(&[0, 0, 1, 2, 8]),
        across: draw.flag(),
        moves: draw.flag(),
        odd: draw.flag(),
    };
    delta(dtype, spec, draw.flag())
}

/// Where in a row of all that a token has its query, key and values lie, and how long the row is.
struct Row {
    parts: [usize; 3],
    len: usize,
}

impl Spec {
    fn tokens(&self) -> usize {
        self.lengths.iter().sum::<usize>() + 2 * self.pad
    }

    fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    fn row(&self) -> Row {
        let keys = self.key_heads * self.depths[0] + self.pad;
        Row { parts: [0, keys, 2 * keys], len: 2 * keys + self.heads * self.depths[1] + self.pad }
    }

    fn slots(&self) -> usize {
        self.lengths.len() * if self.moves { 2 } else { 1 } + 1
    }

    /// The pool as it lies in memory, with a head that is nobody's where there is a pad.
    fn pool(&self) -> [usize; 4] {
        let [rows, columns] = self.depths;
        let [inner, last] = if self.across { [columns, rows] } else { [rows, columns] };
        [self.slots(), self.heads + self.pad, inner, last]
    }

    /// Where an element of a state lies in the pool's memory.
    fn at(&self, [slot, head, row, column]: [usize; 4]) -> usize {
        let [_, heads, inner, last] = self.pool();
        let [by, at] = if self.across { [column, row] } else { [row, column] };
        ((slot * heads + head) * inner + by) * last + at
    }

    /// The slots that a sequence reads and writes, and whether its state is not zero.
    fn slots_of(&self, sequence: usize) -> (Option<usize>, Option<usize>, bool) {
        let count = self.lengths.len();
        // Not in order.
        let from = count - 1 - sequence;
        let to = if self.moves { count + sequence } else { from };
        match sequence {
            0 if self.odd => (Some(from), Some(to), false),
            1 | 2 if self.odd => (None, None, true),
            _ => (Some(from), Some(to), true),
        }
    }

    fn name(&self, states: bool) -> String {
        let Spec { lengths, key_heads, heads, depths, state, form, .. } = self;
        let mut name = format!("{lengths:?} {key_heads}/{heads} {depths:?} {form:?} states of {}", state.name());
        let named = [
            (self.by_row, " by row"),
            (self.normalises, " normalised"),
            (self.scale.is_some(), " scaled"),
            (self.fills, " filled"),
            (self.pad > 0, " padded"),
            (self.across, " across"),
            (self.moves, " moved"),
            (self.odd, " odd slots"),
        ];
        named.iter().filter(|(is_there, _)| *is_there).for_each(|(_, word)| name.push_str(word));
        name + if states { ": states" } else { ": out" }
    }

    /// Rows of queries, keys and values; decays, strengths; what they are made with; starts; slots; the pool.
    fn inputs(&self, dtype: DType) -> Vec<Array> {
        let (tokens, row, [keys, _]) = (self.tokens(), self.row(), self.depths);
        let mut rows = Array::random(&[tokens, row.len], dtype, 1);
        if !self.normalises {
            // Longer keys would make states grow without bound.
            let small = |(at, x): (usize, &f64)| {
                if at % row.len < row.parts[2] { x / (keys as f64).sqrt() } else { *x }
            };
            let values = rows.values.iter().enumerate().map(small).collect();
            rows = Array::new(&rows.shape, dtype, values);
        }
        let gates = if self.form == Form::Given { DType::F32 } else { dtype };
        let of_decays = if self.by_row { vec![tokens, self.heads, keys] } else { vec![tokens, self.heads] };
        let [mut a, mut b] =
            [(&of_decays[..], 2), (&of_decays[..2], 3)].map(|(shape, seed)| Array::random(shape, gates, seed));
        if self.form == Form::Given {
            a = Array::new(&a.shape, gates, a.values.iter().map(|x| -0.2 * x.abs()).collect());
            b = Array::new(&b.shape, gates, b.values.iter().map(|&x| sigmoid(x)).collect());
        }
        let a_log = Array::random(&[self.heads], DType::F32, 4);
        let bias = Array::random(&of_decays[1..], DType::F32, 5);
        let bias = Array::new(&bias.shape, DType::F32, bias.values.iter().map(|x| x - 3.0).collect());
        let mut starts = vec![self.pad as f64];
        starts.extend(self.lengths.iter().scan(self.pad, |at, length| {
            *at += length;
            Some(*at as f64)
        }));
        let count = self.lengths.len();
        let none = |sequence: usize| if sequence == 1 { -1.0 } else { self.slots() as f64 };
        #[allow(clippy::type_complexity)] // It is said once.
        let slots = |of: fn((Option<usize>, Option<usize>, bool)) -> Option<usize>| {
            let number = |sequence| of(self.slots_of(sequence)).map_or(none(sequence), |slot| slot as f64);
            Array::new(&[count], DType::I32, (0..count).map(number).collect())
        };
        let (from, to) = (slots(|(from, ..)| from), slots(|(_, to, _)| to));
        let continues = (0..count).map(|sequence| f64::from(u8::from(self.slots_of(sequence).2))).collect();
        let mut pool = Array::random(&self.pool(), self.state, 6);
        for sequence in (0..count).filter(|&sequence| !self.slots_of(sequence).2) {
            // What is not read.
            let slot = self.slots_of(sequence).0.expect("a sequence that begins has a slot");
            pool.values[self.at([slot, 0, 0, 0])] = f64::NAN;
        }
        let starts = Array::new(&[starts.len()], DType::I32, starts);
        vec![rows, a, b, a_log, bias, starts, from, to, Array::new(&[count], DType::I32, continues), pool]
    }

    fn launch(&self, stream: &Stream, inputs: &[Tensor], pool: &Tensor, out: &Tensor) -> Result<(), Failure> {
        let [rows, a, b, a_log, dt_bias, starts, from, to, continues, _] = inputs else {
            return Err("ten inputs".into());
        };
        let (row, [keys, columns], tokens) = (self.row(), self.depths, self.tokens());
        let part = |number: usize, heads: usize, depth: usize| {
            let strides = [row.len as i64, depth as i64, 1];
            let layout = Layout::strided(&[tokens, heads, depth], &strides, row.parts[number] as i64)?;
            rows.view().with_layout(layout)
        };
        let gates = match self.form {
            Form::Given => DeltaGates::Given { g: a.view(), beta: b.view() },
            form => DeltaGates::Made {
                a: a.view(),
                b: b.view(),
                a_log: a_log.view(),
                dt_bias: dt_bias.view(),
                bound: if let Form::Bounded(bound) = form { Some(bound) } else { None },
            },
        };
        let read = DeltaInputs {
            q: part(0, self.key_heads, keys)?,
            k: part(1, self.key_heads, keys)?,
            v: part(2, self.heads, columns)?,
            gates,
            starts: starts.view(),
            longest: self.longest(),
        };
        let mut params = DeltaParams::default();
        (params.scale, params.normalises, params.fills) = (self.scale, self.normalises, self.fills);
        let layout = pool.layout().slice(1, 0, self.heads, 1)?;
        let mut states = pool.with_layout(if self.across { layout.swap(2, 3)? } else { layout })?;
        let states = DeltaStates {
            pool: states.view_mut(),
            from: from.view(),
            to: to.view(),
            continues: self.odd.then(|| continues.view()),
        };
        let mut out = out.with_layout(out.layout().slice(2, 0, columns, 1)?)?;
        Ok(delta_rule(stream, &read, &params, states, out.view_mut(), None)?)
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What lies where nothing is written.
const UNTOUCHED: f64 = 0.25;

/// The output, then the pool: token after token, as the rule is written.
fn oracle(spec: &Spec, inputs: &[Array]) -> [Vec<f64>; 2] {
    let [rows, a, b, a_log, bias, ..] = inputs else { unreachable!("ten inputs are asked for below") };
    let (row, [keys, columns], width) = (spec.row(), spec.depths, spec.depths[1] + spec.pad);
    let mut pool = inputs[9].values.clone();
    let mut out = vec![UNTOUCHED; spec.tokens() * spec.heads * width];
    if spec.fills {
        out.chunks_mut(width).for_each(|row| row[..columns].fill(0.0));
    }
    let scale = spec.scale.unwrap_or(1.0 / (keys as f64).sqrt());
    let mut first = spec.pad;
    for (sequence, &length) in spec.lengths.iter().enumerate() {
        let (from, to, continues) = spec.slots_of(sequence);
        for head in 0..spec.heads {
            let key_head = head / (spec.heads / spec.key_heads);
            let place = |slot: usize, r: usize, c: usize| spec.at([slot, head, r, c]);
            let mut state = vec![vec![0.0; columns]; keys];
            if let (Some(from), true) = (from, continues) {
                (0..keys).for_each(|r| (0..columns).for_each(|c| state[r][c] = inputs[9].values[place(from, r, c)]));
            }
            for token in first..first + length {
                let part = |number: usize, head: usize, depth: usize| {
                    rows.values[token * row.len + row.parts[number] + head * depth..][..depth].to_vec()
                };
                let direction = |number: usize| {
                    let x = part(number, key_head, keys);
                    let norm = if spec.normalises { (dot(x.iter().map(|&x| (x, x))) + 1e-6).sqrt() } else { 1.0 };
                    x.iter().map(|x| x / norm).collect::<Vec<f64>>()
                };
                let (q, k, v) = (direction(0), direction(1), part(2, head, columns));
                let gate = token * spec.heads + head;
                let beta = if spec.form == Form::Given { b.values[gate] } else { sigmoid(b.values[gate]) };
                #[allow(clippy::needless_range_loop)] // It numbers rows of other arrays, too.
                for r in 0..keys {
                    let (at, own) = if spec.by_row { (gate * keys + r, head * keys + r) } else { (gate, head) };
                    let (x, rate) = (a.values[at], a_log.values[head].exp());
                    let log = match spec.form {
                        Form::Given => x,
                        Form::Made => -rate * (x + bias.values[own]).exp().ln_1p(),
                        Form::Bounded(bound) => bound * sigmoid(rate * (x + bias.values[own])),
                    };
                    state[r].iter_mut().for_each(|s| *s *= log.exp());
                }
                for c in 0..columns {
                    let u = beta * (v[c] - dot((0..keys).map(|r| (state[r][c], k[r]))));
                    (0..keys).for_each(|r| state[r][c] += k[r] * u);
                    let read = scale * dot((0..keys).map(|r| (state[r][c], q[r])));
                    out[(token * spec.heads + head) * width + c] = if to.is_some() { read } else { 0.0 };
                }
            }
            if let (Some(to), 1..) = (to, length) {
                (0..keys).for_each(|r| (0..columns).for_each(|c| pool[place(to, r, c)] = state[r][c]));
            }
        }
        first += length;
    }
    [out, pool]
}

/// `states`: whether states are compared, and not the output.
fn delta(dtype: DType, spec: Spec, states: bool) -> Case {
    let [keys, columns] = spec.depths;
    let of_out = vec![spec.tokens(), spec.heads, columns + spec.pad];
    let outputs = if states { (spec.pool().to_vec(), spec.state) } else { (of_out.clone(), dtype) };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let mut other = match states {
            true => temporary(&stream.device(), &of_out, dtype)?,
            false => temporary(&stream.device(), &spec.pool(), spec.state)?,
        };
        let (pool, out) = if states { (&mut outputs[0], &mut other) } else { (&mut other, &mut outputs[0]) };
        copy_into(inputs[9].view(), pool.view_mut())?;
        fill(out.view_mut(), Scalar::Float(UNTOUCHED))?;
        spec.launch(stream, inputs, pool, out)
    };
    let oracle = move |inputs: &[Array]| {
        let [out, pool] = oracle(&spec, inputs);
        vec![if states { pool } else { out }]
    };
    let inputs = spec.inputs(dtype).into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let flops = (8 * spec.tokens() * spec.heads * keys * columns) as f64;
    let terms = keys + spec.longest();
    let call = Call { inputs, outputs: vec![outputs], launch, oracle };
    Case::new("delta_rule", dtype, spec.name(states), flops, call).summing(terms)
}
