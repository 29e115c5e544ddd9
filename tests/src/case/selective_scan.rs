//! Selective scans: every number of states around a lane's, groups, gates, steps with and without softplus, slots that there are not;
//! states kept after each token.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::selective_scan::{ScanKept, SelectiveScan, selective_scan};

use super::causal_conv::{Rows, drawn_rows, target};
use super::drawn::Draw;
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};

/// What a case asks for.
#[derive(Clone, Copy, Debug)]
struct Spec {
    rows: Rows,
    dim: usize,
    groups: usize,
    n: usize,
    /// Types of states, and of D and the steps' bias: f32 or that of the inputs.
    wide: [bool; 2],
    /// Whether there are D, z and the bias of steps.
    has: [bool; 3],
    softplus: bool,
    /// Of how many tokens of a sequence the states are kept, in slots of their own if it moves; 0: of the last alone.
    keeps: usize,
    moves: bool,
    placement: Placement,
}

const PLAIN: Spec = Spec {
    rows: Rows::of(&[65]),
    dim: 64,
    groups: 1,
    n: 16,
    wide: [true, true],
    has: [true, true, true],
    softplus: true,
    keeps: 0,
    moves: false,
    placement: Placement::Contiguous,
};
const MIXED: Rows = Rows { fresh: Some((3, DType::U8)), ..Rows::of(&[0, 1, 2, 3, 0, 63, 65, 1]) };
const ONES: [usize; 19] = [1; 19];
/// Drafts of some tokens, one of which is longer than what is kept.
const DRAFTS: Spec = Spec {
    rows: Rows { fresh: Some((5, DType::I32)), ..Rows::of(&[1, 2, 4, 3, 0, 5, 4, 1, 17, 3, 4, 2, 1]) },
    keeps: 4,
    ..PLAIN
};

const SPECS: [Spec; 28] = [
    Spec { rows: Rows::of(&[1]), dim: 1, n: 1, ..PLAIN },
    Spec { rows: Rows::of(&[1]), ..PLAIN },
    Spec { rows: Rows::of(&[2, 3]), dim: 60, groups: 3, has: [false, true, false], ..PLAIN },
    Spec { rows: MIXED, ..PLAIN },
    Spec { rows: MIXED, dim: 130, n: 8, wide: [false, true], ..PLAIN },
    Spec { rows: MIXED, dim: 60, n: 5, groups: 4, wide: [true, false], ..PLAIN },
    Spec { rows: MIXED, dim: 1, n: 32, has: [true, false, true], ..PLAIN },
    Spec { rows: MIXED, dim: 60, n: 64, groups: 2, softplus: false, ..PLAIN },
    Spec { rows: Rows { lens: &[7, 0, 33], ..MIXED }, dim: 12, n: 128, groups: 2, ..PLAIN },
    Spec { rows: Rows { lens: &[5, 18, 1], ..MIXED }, dim: 11, n: 256, wide: [false, false], ..PLAIN },
    Spec { rows: Rows { lens: &[5, 18, 1], ..MIXED }, dim: 9, n: 131, has: [false; 3], softplus: false, ..PLAIN },
    Spec { rows: MIXED, groups: 2, placement: Placement::Transposed, ..PLAIN },
    Spec { rows: MIXED, dim: 60, n: 20, placement: Placement::Strided, ..PLAIN },
    Spec { rows: MIXED, n: 3, placement: Placement::Flipped, wide: [false, true], ..PLAIN },
    Spec { rows: Rows { surplus: [2, 9], slotless: 3, ..MIXED }, ..PLAIN },
    Spec { rows: Rows { surplus: [1, 0], fresh: Some((1, DType::I32)), ..MIXED }, n: 12, ..PLAIN },
    Spec { rows: Rows::of(&ONES), dim: 260, ..PLAIN },
    Spec { rows: Rows { slotless: 4, padded: true, surplus: [0, 6], ..Rows::of(&ONES) }, dim: 130, n: 24, ..PLAIN },
    Spec { rows: Rows::of(&[0, 0]), ..PLAIN },
    Spec { rows: Rows { surplus: [0, 5], ..Rows::of(&[]) }, dim: 3, ..PLAIN },
    Spec { rows: Rows { surplus: [1, 3], ..Rows::of(&[0]) }, dim: 3, ..PLAIN },
    DRAFTS,
    Spec { moves: true, dim: 130, wide: [false, true], groups: 2, ..DRAFTS },
    Spec { rows: Rows { slotless: 4, padded: true, surplus: [2, 3], ..DRAFTS.rows }, moves: true, n: 5, ..DRAFTS },
    Spec { rows: Rows { slotless: 3, ..DRAFTS.rows }, dim: 12, n: 128, wide: [false, false], groups: 2, ..DRAFTS },
    Spec { rows: Rows::of(&ONES), keeps: 1, dim: 33, n: 24, ..PLAIN },
    Spec { placement: Placement::Strided, has: [false; 3], softplus: false, keeps: 3, dim: 60, n: 20, ..DRAFTS },
    Spec { placement: Placement::Transposed, moves: true, keeps: 17, dim: 7, n: 256, wide: [false, true], ..DRAFTS },
];

const TYPES: [DType; 3] = [DType::BF16, DType::F32, DType::F16];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SPECS.into_iter().enumerate() {
        cases.push(scan(TYPES[turn % 3], spec));
        if turn % 2 == 0 {
            cases.push(scan(TYPES[(turn + 1) % 3], spec));
        }
    }
    cases
}

/// A scan of any sequences.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let (dtype, groups) = (draw.pick(&TYPES), draw.pick(&[1, 1, 2, 3]));
    let spec = Spec {
        rows: drawn_rows(draw, 17),
        dim: groups * draw.extent(33),
        groups,
        n: draw.pick(&[16, 1, 4, 5, 8, 31, 64, 128, 200, 256]),
        wide: [draw.flag(), draw.flag()],
        has: [draw.flag(), draw.flag(), draw.flag()],
        softplus: draw.flag(),
        keeps: draw.pick(&[0, 0, 1, 3]),
        moves: draw.flag(),
        placement: draw.placement(),
    };
    scan(dtype, spec)
}

impl Spec {
    fn name(&self) -> String {
        let Spec { rows, dim, groups, n, wide, has, softplus, keeps, moves, placement } = *self;
        let mut name = format!("{} dim {dim} groups {groups} N {n} {placement:?}", rows.name());
        let named = [
            (!wide[0], " own states"),
            (!wide[1], " own D"),
            (!has[0], " without D"),
            (!has[1], " without z"),
            (!has[2], " without bias"),
            (!softplus, " linear"),
        ];
        name.extend(named.into_iter().filter_map(|(is, word)| is.then_some(word)));
        if keeps > 0 {
            name += &format!(" keeps {keeps}");
        }
        if self.is_told() && moves {
            name += " moved";
        }
        name
    }

    /// Whether slots to write are told.
    fn is_told(&self) -> bool {
        self.keeps > 0 || self.moves
    }

    /// Slots of the pool: for each of those that sequences would have a row, and another to write.
    fn pool(&self) -> usize {
        let rows = self.rows.pool();
        if self.is_told() { rows * self.keeps.max(1) * 2 } else { rows }
    }

    /// At which place a sequence goes on, counted from 1: of every seventh, at none.
    fn accepted(&self, sequence: usize) -> i32 {
        match sequence % 7 {
            6 => [self.keeps as i32 + 1, 0, i32::MIN][sequence / 7 % 3],
            _ => (1 + sequence % self.keeps.max(1)) as i32,
        }
    }

    /// The slot at a place of a sequence's row, to be read or written; `own`: its slot if it had one.
    fn slot_at(&self, own: Option<usize>, place: usize, writes: bool) -> Option<usize> {
        // Some of those of a sequence keep nothing.
        let is_none = self.keeps > 2 && writes && own.is_some_and(|own| (own + place) % 4 == 3);
        let row = own? + if writes && self.moves { self.rows.pool() } else { 0 };
        (!is_none).then_some(row * self.keeps.max(1) + place)
    }

    /// Where a sequence's state is read, nowhere if it begins; and whether it is gone through.
    fn begin(&self, sequence: usize, own: Option<usize>, has_state: bool) -> (Option<usize>, bool) {
        if !self.is_told() {
            return (own.filter(|_| has_state), own.is_some());
        }
        let place = if self.keeps > 0 { self.accepted(sequence) as usize } else { 1 };
        let from = if (1..=self.keeps.max(1)).contains(&place) { self.slot_at(own, place - 1, false) } else { None };
        let is_there = (!has_state || from.is_some()) && (self.keeps > 0 || own.is_some());
        (from.filter(|_| has_state), is_there)
    }

    /// Where the state after a token of a sequence of so many is written.
    fn written(&self, own: Option<usize>, token: usize, count: usize) -> Option<usize> {
        let is_last = token + 1 == count;
        match self.is_told() {
            false => own.filter(|_| is_last),
            true if self.keeps > 0 && count <= self.keeps => self.slot_at(own, token, true),
            true => self.slot_at(own, 0, true).filter(|_| is_last),
        }
    }

    /// Starts, slots and what else is told of sequences; slots to write, places to go on at.
    fn told(&self) -> Vec<Array> {
        let (mut arrays, spans) = (self.rows.arrays(), self.rows.spans());
        if !self.is_told() {
            return arrays;
        }
        let (count, places) = (spans.len(), self.keeps.max(1));
        let none = self.rows.none();
        let table = |writes: bool| {
            let slots = spans.iter().flat_map(|(_, own, _)| (0..places).map(move |place| (*own, place)));
            let slots = slots.map(|(own, place)| self.slot_at(own, place, writes).map_or(none, |slot| slot as f64));
            let shape: &[usize] = if self.keeps > 0 { &[count, places] } else { &[count] };
            Array::new(shape, DType::I32, slots.collect())
        };
        arrays[1] = table(false);
        let accepted = (0..count).map(|sequence| self.accepted(sequence).into()).collect();
        arrays.extend([table(true), Array::new(&[count], DType::I32, accepted)]);
        arrays
    }

    /// x, dt, A, B, C, D, z, the bias of steps, states, outputs as they were.
    fn arrays(&self, dtype: DType) -> Vec<Array> {
        let [state, weight] = self.wide.map(|is_wide| if is_wide { DType::F32 } else { dtype });
        let (tokens, dim, n) = (self.rows.tokens(), self.dim, self.n);
        let (rows, by_token) = ([tokens, dim], [tokens, self.groups, n]);
        // Steps forwards in time, and states that fade.
        let sized = |array: Array, by: f64| {
            let values = array.values.iter().map(|value| by * value.abs()).collect();
            Array::new(&array.shape, array.dtype, values)
        };
        vec![
            Array::random(&rows, dtype, 1),
            sized(Array::random(&rows, dtype, 2), 1.0),
            sized(Array::random(&[dim, n], DType::F32, 3), -1.5),
            Array::random(&by_token, dtype, 4),
            Array::random(&by_token, dtype, 5),
            Array::random(&[dim], weight, 6),
            Array::random(&rows, dtype, 7),
            sized(Array::random(&[dim], weight, 8), 0.5),
            Array::random(&[self.pool(), dim, n], state, 9),
            Array::random(&rows, dtype, 10),
        ]
    }

    fn oracle(&self, inputs: &[Array]) -> Vec<Vec<f64>> {
        let Spec { rows, dim, groups, n, has, .. } = *self;
        let at = |array: usize, index: usize| inputs[array].values[index];
        let (mut states, mut out) = (inputs[8].values.to_vec(), inputs[9].values.to_vec());
        for (sequence, ([begin, end], own, has_state)) in rows.spans().into_iter().enumerate() {
            let (from, is_there) = self.begin(sequence, own, has_state);
            for channel in 0..dim {
                if !is_there {
                    (begin..end).for_each(|token| out[token * dim + channel] = 0.0);
                    continue;
                }
                let group = channel / (dim / groups);
                let line = |slot: usize| (slot * dim + channel) * n;
                let mut held = from.map_or(vec![0.0; n], |slot| inputs[8].values[line(slot)..][..n].to_vec());
                for token in begin..end {
                    let (place, told) = (token * dim + channel, (token * groups + group) * n);
                    let step = at(1, place) + if has[2] { at(7, channel) } else { 0.0 };
                    let step = if self.softplus { step.exp().ln_1p() } else { step };
                    let mut y = if has[0] { at(5, channel) * at(0, place) } else { 0.0 };
                    for (number, s) in held.iter_mut().enumerate() {
                        *s = (step * at(2, channel * n + number)).exp() * *s
                            + step * at(3, told + number) * at(0, place);
                        y += at(4, told + number) * *s;
                    }
                    let z = at(6, place);
                    out[place] = if has[1] { y * z / (1.0 + (-z).exp()) } else { y };
                    if let Some(slot) = self.written(own, token - begin, end - begin) {
                        states[line(slot)..][..n].copy_from_slice(&held);
                    }
                }
            }
        }
        vec![out, states]
    }
}

fn scan(dtype: DType, spec: Spec) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let is_turned = spec.placement == Placement::Transposed;
        let (mut out, mut state) = (target(&outputs[0], is_turned)?, target(&outputs[1], is_turned)?);
        copy_into(inputs[9].view(), out.view_mut())?;
        copy_into(inputs[8].view(), state.view_mut())?;
        let maybe = |n: usize, input: usize| spec.has[n].then(|| inputs[input].view());
        let asked = SelectiveScan {
            x: inputs[0].view(),
            dt: inputs[1].view(),
            a: inputs[2].view(),
            b: inputs[3].view(),
            c: inputs[4].view(),
            d: maybe(0, 5),
            z: maybe(1, 6),
            dt_bias: maybe(2, 7),
            is_softplus: spec.softplus,
            sequences: spec.rows.sequences(&inputs[10..]),
            kept: spec.is_told().then(|| ScanKept {
                to: inputs[inputs.len() - 2].view(),
                accepted: (spec.keeps > 0).then(|| inputs[inputs.len() - 1].view()),
            }),
        };
        selective_scan(stream, &asked, state.view_mut(), out.view_mut())?;
        if is_turned {
            copy_into(out.view(), outputs[0].view_mut())?;
            copy_into(state.view(), outputs[1].view_mut())?;
        }
        Ok(())
    };
    let arrays = spec.arrays(dtype);
    let outputs = [9, 8].map(|n: usize| (arrays[n].shape.clone(), arrays[n].dtype)).to_vec();
    let flops = 6.0 * (arrays[0].values.len() * spec.n) as f64;
    let placed = arrays.into_iter().map(|array| (array, spec.placement));
    let told = spec.told().into_iter().map(|array| (array, Placement::Contiguous));
    let oracle = move |inputs: &[Array]| spec.oracle(inputs);
    let call = Call { inputs: placed.chain(told).collect(), outputs, launch, oracle };
    Case::new("selective_scan", dtype, spec.name(), flops, call).summing(spec.n + 1)
}
