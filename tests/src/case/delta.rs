//! The gated delta rule: sequences of many lengths, heads shared or not, every kind of gate, slots that there are not, states of
//! either type, rows of any stride; states kept after each token.

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
    /// Whether the first sequence begins, the second has no slot, and the third one behind the last; of states that are kept, also
    /// whether the fourth goes on at no place, and some are not kept.
    odd: bool,
    /// Of how many tokens of a sequence the states are kept; 0: of the last alone.
    keeps: usize,
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
    keeps: 0,
};
/// Sequences of drafts.
const DRAFTS: Spec = Spec { lengths: &[1, 2, 4, 3, 5, 2], keeps: 4, depths: [128, 128], ..PLAIN };

/// No token, one, around a chunk, several chunks; channels below a lane's, beside a power of two, of more than one tile.
const SIZES: [Spec; 35] = [
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
    // Chunks with decays by row: weak ones, strong ones, and such that leave nothing from one token to the next.
    Spec { lengths: &[130, 0, 64, 1], by_row: true, heads: 1, depths: [64, 32], ..PLAIN },
    Spec { lengths: &[129], by_row: true, form: Form::Made, key_heads: 2, heads: 4, depths: [128, 64], ..PLAIN },
    Spec {
        lengths: &[100],
        by_row: true,
        form: Form::Bounded(-1e-4),
        depths: [64, 32],
        heads: 1,
        across: true,
        ..PLAIN
    },
    Spec {
        lengths: &[3, 81],
        by_row: true,
        form: Form::Bounded(-5.0),
        depths: [128, 32],
        heads: 1,
        moves: true,
        ..PLAIN
    },
    Spec { lengths: &[90], by_row: true, form: Form::Bounded(-60.0), depths: [64, 32], normalises: false, ..PLAIN },
    Spec { lengths: &[70], by_row: true, form: Form::Bounded(-400.0), depths: [64, 32], heads: 1, ..PLAIN },
    Spec {
        lengths: &[100, 3, 2, 64],
        by_row: true,
        odd: true,
        moves: true,
        pad: 8,
        heads: 1,
        depths: [64, 32],
        fills: true,
        ..PLAIN
    },
    // States after each token of those that are not too many, in slots of their own or in those that are read.
    Spec { lengths: &[1], heads: 1, depths: [1, 1], keeps: 1, ..PLAIN },
    DRAFTS,
    Spec { form: Form::Made, key_heads: 2, heads: 4, moves: true, ..DRAFTS },
    Spec { lengths: &[3, 1, 4, 2, 4, 1], odd: true, moves: true, pad: 1, fills: true, depths: [60, 36], ..DRAFTS },
    Spec { lengths: &[3, 1, 4, 2, 4, 1, 6], odd: true, by_row: true, depths: [64, 64], ..DRAFTS },
    Spec { by_row: true, form: Form::Bounded(-5.0), across: true, keeps: 3, ..DRAFTS },
    Spec { lengths: &[70, 2, 0, 64], moves: true, keeps: 2, depths: [64, 32], heads: 1, ..DRAFTS },
    Spec { lengths: &[2, 7], normalises: false, depths: [33, 7], pad: 3, keeps: 7, ..PLAIN },
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
        form: draw.pick(&[Form::Given, Form::Made, Form::Bounded(-3.0), Form::Bounded(-50.0)]),
        by_row: draw.flag(),
        normalises: draw.flag(),
        scale: None,
        fills: draw.flag(),
        pad: draw.pick(&[0, 0, 1, 2, 8]),
        across: draw.flag(),
        moves: draw.flag(),
        odd: draw.flag(),
        keeps: draw.pick(&[0, 0, 1, 3]),
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
        self.lengths.len() * self.keeps.max(1) * if self.moves { 2 } else { 1 } + 1
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
        if self.keeps > 0 {
            return self.rows_of(sequence);
        }
        match sequence {
            0 if self.odd => (Some(from), Some(to), false),
            1 | 2 if self.odd => (None, None, true),
            _ => (Some(from), Some(to), true),
        }
    }

    /// The slot at a place of a row of those that a sequence reads or writes.
    fn slot_at(&self, sequence: usize, place: usize, writes: bool) -> Option<usize> {
        let count = self.lengths.len();
        let is_none = self.odd && (sequence == 1 || sequence == 2 || sequence > 2 && place == 1);
        let row = if writes && self.moves { count + sequence } else { count - 1 - sequence };
        (!is_none).then_some(row * self.keeps + place)
    }

    /// At which place a sequence goes on, counted from 1.
    fn accepted(&self, sequence: usize) -> i32 {
        match sequence {
            3 if self.odd => self.keeps as i32 + 1,
            _ => (1 + sequence % self.keeps.max(1)) as i32,
        }
    }

    /// [`Spec::slots_of`] where states are kept: the slot that is read, something to say that results are written, as there.
    fn rows_of(&self, sequence: usize) -> (Option<usize>, Option<usize>, bool) {
        let continues = !(self.odd && sequence == 0);
        let place = self.accepted(sequence) as usize - 1;
        let from = if place < self.keeps { self.slot_at(sequence, place, false) } else { None };
        (from, if continues { from } else { Some(0) }, continues)
    }

    /// The slot that the state after a token of a sequence is written to.
    fn written(&self, sequence: usize, token: usize) -> Option<usize> {
        let is_last = token + 1 == self.lengths[sequence];
        match (self.keeps, self.lengths[sequence] <= self.keeps) {
            (0, _) => self.slots_of(sequence).1.filter(|_| is_last),
            (_, true) => self.slot_at(sequence, token, true),
            (_, false) => self.slot_at(sequence, 0, true).filter(|_| is_last),
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
        if self.keeps > 0 {
            name += &format!(" keeps {}", self.keeps);
        }
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
        // Negative, behind the last, or, of rows, one that stands for none.
        let none = |sequence: usize| match sequence {
            1 => -1.0,
            2 => self.slots() as f64,
            _ => (self.slots() - 1) as f64,
        };
        #[allow(clippy::type_complexity)] // It is said once.
        let slots = |of: fn((Option<usize>, Option<usize>, bool)) -> Option<usize>| {
            let number = |sequence| of(self.slots_of(sequence)).map_or(none(sequence), |slot| slot as f64);
            Array::new(&[count], DType::I32, (0..count).map(number).collect())
        };
        let (from, to) = match self.keeps {
            0 => (slots(|(from, ..)| from), slots(|(_, to, _)| to)),
            places => {
                let table = |writes: bool| {
                    let all = (0..count).flat_map(|sequence| (0..places).map(move |place| (sequence, place)));
                    let number = |(sequence, place)| {
                        self.slot_at(sequence, place, writes).map_or(none(sequence), |slot| slot as f64)
                    };
                    Array::new(&[count, places], DType::I32, all.map(number).collect())
                };
                (table(false), table(true))
            }
        };
        let accepted = (0..count).map(|sequence| self.accepted(sequence).into()).collect();
        let continues = (0..count).map(|sequence| f64::from(u8::from(self.slots_of(sequence).2))).collect();
        let mut pool = Array::random(&self.pool(), self.state, 6);
        for sequence in (0..count).filter(|&sequence| !self.slots_of(sequence).2) {
            // What is not read.
            let slot = self.slots_of(sequence).0.expect("a sequence that begins has a slot");
            pool.values[self.at([slot, 0, 0, 0])] = f64::NAN;
        }
        let starts = Array::new(&[starts.len()], DType::I32, starts);
        let [continues, accepted] = [continues, accepted].map(|told| Array::new(&[count], DType::I32, told));
        vec![rows, a, b, a_log, bias, starts, from, to, continues, pool, accepted]
    }

    fn launch(&self, stream: &Stream, inputs: &[Tensor], pool: &Tensor, out: &Tensor) -> Result<(), Failure> {
        let [rows, a, b, a_log, dt_bias, starts, from, to, continues, _, accepted] = inputs else {
            return Err("eleven inputs".into());
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
            accepted: (self.keeps > 0).then(|| accepted.view()),
            pad: (self.keeps > 0).then_some(self.slots() as i32 - 1),
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
    let [rows, a, b, a_log, bias, ..] = inputs else { unreachable!("eleven inputs are asked for below") };
    let (row, [keys, columns], width) = (spec.row(), spec.depths, spec.depths[1] + spec.pad);
    let mut pool = inputs[9].values.to_vec();
    let mut out = vec![UNTOUCHED; spec.tokens() * spec.heads * width];
    if spec.fills {
        out.chunks_mut(width).for_each(|row| row[..columns].fill(0.0));
    }
    let scale = spec.scale.unwrap_or(1.0 / (keys as f64).sqrt());
    let mut first = spec.pad;
    for (sequence, &length) in spec.lengths.iter().enumerate() {
        let (from, to, continues) = spec.slots_of(sequence);
        let is_there = to.is_some();
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
                    out[(token * spec.heads + head) * width + c] = if is_there { read } else { 0.0 };
                }
                if let (Some(to), true) = (spec.written(sequence, token - first), is_there) {
                    (0..keys).for_each(|r| (0..columns).for_each(|c| pool[place(to, r, c)] = state[r][c]));
                }
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
