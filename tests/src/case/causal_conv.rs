//! Causal convolutions: sequences shorter than the filter, of a row, around a lane's rows; slots that there are not, states of other
//! types, every way in which rows lie; windows after some of the rows of a call before, and in circles.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::causal_conv::{CausalConv, Sequences, Window, causal_conv};

use super::drawn::{Draw, forever};
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// Sequences one after the other, as kernels with states by slot take them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// How many rows each has.
    pub lens: &'static [usize],
    /// Rows before the first and behind the last, which nobody has.
    pub surplus: [usize; 2],
    /// Every so many sequences one has no slot; 0: each has.
    pub slotless: usize,
    /// Every so many one begins anew, told in numbers of a type.
    pub fresh: Option<(usize, DType)>,
    /// Whether a number tells of no slot that would be one.
    pub padded: bool,
}

impl Rows {
    pub const fn of(lens: &'static [usize]) -> Rows {
        Rows { lens, surplus: [0, 0], slotless: 0, fresh: None, padded: false }
    }

    /// Rows of all, with those that nobody has.
    pub fn tokens(&self) -> usize {
        self.surplus[0] + self.lens.iter().sum::<usize>() + self.surplus[1]
    }

    /// States in the pool, some of which nobody has.
    pub fn pool(&self) -> usize {
        self.lens.len() + 2
    }

    /// First row and end, slot, and whether its state counts, of each.
    pub fn spans(&self) -> Vec<([usize; 2], Option<usize>, bool)> {
        let mut begin = self.surplus[0];
        let every = |n: usize, among: usize| among != 0 && n % among == among - 1;
        let mut span = |(n, &len): (usize, &usize)| {
            let own = [begin, begin + len];
            begin += len;
            let slot = (!every(n, self.slotless)).then_some(self.pool() - 1 - n);
            (own, slot, !self.fresh.is_some_and(|(among, _)| every(n, among)))
        };
        self.lens.iter().enumerate().map(&mut span).collect()
    }

    /// Starts, slots, and which are fresh where that is told.
    pub fn arrays(&self) -> Vec<Array> {
        let spans = self.spans();
        let mut starts: Vec<f64> = spans.iter().map(|([begin, _], ..)| *begin as f64).collect();
        starts.push((self.tokens() - self.surplus[1]) as f64);
        let none = self.none();
        let slots = spans.iter().map(|(_, slot, _)| slot.map_or(none, |slot| slot as f64)).collect();
        let mut arrays =
            vec![Array::new(&[starts.len()], DType::I32, starts), Array::new(&[spans.len()], DType::I32, slots)];
        if let Some((_, dtype)) = self.fresh {
            let fresh = spans.iter().map(|(.., has)| f64::from(u8::from(!has))).collect();
            arrays.push(Array::new(&[spans.len()], dtype, fresh));
        }
        arrays
    }

    /// What a launcher takes, from tensors of the arrays.
    pub fn sequences<'a>(&self, tensors: &'a [Tensor]) -> Sequences<'a> {
        let fresh = self.fresh.map(|_| tensors[2].view());
        Sequences { starts: tensors[0].view(), slots: tensors[1].view(), fresh, pad: self.pad() }
    }

    /// What is told of a sequence without a slot.
    pub fn none(&self) -> f64 {
        self.pad().map_or(-1.0, f64::from)
    }

    /// A slot that no sequence has.
    fn pad(&self) -> Option<i32> {
        self.padded.then_some(1)
    }

    pub fn name(&self) -> String {
        let lens = if self.lens.len() > 12 {
            format!("{} sequences of {} rows", self.lens.len(), self.tokens())
        } else {
            format!("{:?}", self.lens)
        };
        let mut name = lens;
        if self.surplus != [0, 0] {
            name += &format!(" amid {:?}", self.surplus);
        }
        if self.slotless != 0 {
            name += &format!(" slotless {}", self.slotless);
        }
        if let Some((among, dtype)) = self.fresh {
            name += &format!(" fresh {among} {dtype}");
        }
        if self.padded {
            name += " padded";
        }
        name
    }
}

/// A tensor for an output of that shape, its last two axes swapped in memory if asked for.
pub(super) fn target(like: &Tensor, swapped: bool) -> Result<Tensor, Failure> {
    if !swapped {
        return Ok(like.clone());
    }
    let rank = like.shape().len();
    let shape = like.layout().swap(rank - 1, rank - 2)?.dims();
    let memory = temporary(like.device(), &shape, like.dtype())?;
    Ok(memory.with_layout(memory.layout().swap(rank - 1, rank - 2)?)?)
}

/// Where a line's inputs lie, and how many places it has beside w - 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    First(usize),
    Accepted(usize),
    Circular(usize),
}

impl Lie {
    fn spare(self) -> usize {
        let (Lie::First(spare) | Lie::Accepted(spare) | Lie::Circular(spare)) = self;
        spare
    }

    /// What a sequence is told: every fifth, nothing that can be.
    fn told(self, sequence: usize) -> i32 {
        let spare = self.spare() as i32;
        match self {
            Lie::First(_) => 0,
            Lie::Accepted(_) if sequence % 5 == 4 => [0, spare + 2, -1, i32::MIN, i32::MAX][sequence / 5 % 5],
            Lie::Accepted(_) => 1 + sequence as i32 % (spare + 1),
            Lie::Circular(_) if sequence % 5 == 4 => [-1, i32::MIN][sequence / 5 % 2],
            Lie::Circular(_) => [0, 1, 2, 3, 0, 5, 1_000_003, i32::MAX][sequence % 8],
        }
    }
}

/// What a case asks for.
#[derive(Clone, Copy, Debug)]
struct Spec {
    rows: Rows,
    dim: usize,
    taps: usize,
    /// Types of states and of weights: f32 or that of the inputs.
    wide: [bool; 2],
    bias: bool,
    silu: bool,
    lie: Lie,
    /// How inputs lie. Of transposed ones the outputs are, too, and states.
    placement: Placement,
}

const PLAIN: Spec = Spec {
    rows: Rows::of(&[65]),
    dim: 64,
    taps: 4,
    wide: [false, false],
    bias: true,
    silu: true,
    lie: Lie::First(0),
    placement: Placement::Contiguous,
};
/// Every length around the filter and around a wave, one of which has no slot and some of which are fresh.
const MIXED: Rows = Rows { fresh: Some((3, DType::U8)), ..Rows::of(&[0, 1, 2, 3, 0, 63, 65, 1, 1, 4, 5]) };
/// Drafts of some tokens of many sequences, a part of which is longer than what a line keeps.
const DRAFTS: Rows = Rows::of(&[1, 2, 3, 4, 4, 0, 1, 5, 4, 7, 2, 17, 1, 3, 63]);
const ONES: [usize; 37] = [1; 37];

const SPECS: [Spec; 38] = [
    Spec { rows: Rows::of(&[1]), dim: 1, ..PLAIN },
    Spec { rows: Rows::of(&[1]), taps: 2, ..PLAIN },
    Spec { rows: Rows::of(&[2]), dim: 130, taps: 3, bias: false, ..PLAIN },
    Spec { rows: Rows::of(&[3, 1]), dim: 60, silu: false, ..PLAIN },
    Spec { rows: MIXED, ..PLAIN },
    Spec { rows: MIXED, dim: 60, wide: [true, false], ..PLAIN },
    Spec { rows: MIXED, dim: 130, wide: [false, true], silu: false, ..PLAIN },
    Spec { rows: MIXED, dim: 1, wide: [true, true], bias: false, ..PLAIN },
    Spec { rows: MIXED, taps: 2, placement: Placement::Transposed, ..PLAIN },
    Spec { rows: MIXED, dim: 130, taps: 3, placement: Placement::Strided, ..PLAIN },
    Spec { rows: MIXED, dim: 60, placement: Placement::Flipped, ..PLAIN },
    Spec { rows: Rows { slotless: 4, fresh: Some((2, DType::I32)), ..MIXED }, dim: 60, ..PLAIN },
    Spec { rows: Rows { surplus: [3, 7], slotless: 3, fresh: None, ..MIXED }, ..PLAIN },
    Spec {
        rows: Rows { surplus: [2, 70], fresh: Some((1, DType::Bool)), ..MIXED },
        placement: Placement::Transposed,
        ..PLAIN
    },
    // Decoding: a row of each sequence, one of them of none.
    Spec { rows: Rows::of(&ONES), dim: 260, ..PLAIN },
    Spec { rows: Rows { slotless: 5, surplus: [0, 11], ..Rows::of(&ONES) }, dim: 130, taps: 3, ..PLAIN },
    Spec { rows: Rows { lens: &[1, 1, 0, 1, 2, 1], ..MIXED }, placement: Placement::Strided, ..PLAIN },
    // As many lanes as leave each four rows, and sixteen.
    Spec { rows: Rows { lens: &[700, 0, 2, 5, 1, 331], ..MIXED }, dim: 64, taps: 4, ..PLAIN },
    Spec { rows: Rows { lens: &[300, 17, 3, 733, 16, 1], ..MIXED }, dim: 260, taps: 3, ..PLAIN },
    Spec { rows: Rows { lens: &[1, 2, 1100, 14, 1], ..MIXED }, dim: 65, placement: Placement::Transposed, ..PLAIN },
    Spec { rows: Rows { lens: &[1030, 2, 15], ..MIXED }, dim: 260, taps: 2, placement: Placement::Strided, ..PLAIN },
    Spec { rows: Rows::of(&[0, 0]), ..PLAIN },
    Spec { rows: Rows { surplus: [0, 5], ..Rows::of(&[]) }, ..PLAIN },
    Spec { rows: Rows { surplus: [1, 3], ..Rows::of(&[0]) }, dim: 3, ..PLAIN },
    // Lines longer than a window, a slot that is none, rows that go on from within the last call's.
    Spec { rows: MIXED, lie: Lie::First(3), ..PLAIN },
    Spec { rows: Rows { slotless: 3, padded: true, ..MIXED }, taps: 3, ..PLAIN },
    Spec { rows: Rows::of(&[1]), dim: 1, taps: 2, lie: Lie::Accepted(0), ..PLAIN },
    Spec { rows: DRAFTS, lie: Lie::Accepted(3), ..PLAIN },
    Spec {
        rows: Rows { slotless: 4, padded: true, surplus: [1, 2], ..DRAFTS },
        dim: 60,
        lie: Lie::Accepted(4),
        ..PLAIN
    },
    Spec { rows: Rows { fresh: Some((3, DType::I32)), ..DRAFTS }, dim: 65, taps: 3, lie: Lie::Accepted(3), ..PLAIN },
    Spec {
        rows: DRAFTS,
        taps: 2,
        wide: [true, true],
        placement: Placement::Transposed,
        lie: Lie::Accepted(7),
        ..PLAIN
    },
    Spec { rows: MIXED, dim: 130, placement: Placement::Strided, lie: Lie::Accepted(0), silu: false, ..PLAIN },
    Spec { rows: Rows { lens: &[700, 4, 2, 5, 1, 331], ..DRAFTS }, dim: 260, lie: Lie::Accepted(5), ..PLAIN },
    Spec { rows: Rows::of(&[1, 1, 1]), dim: 1, taps: 2, lie: Lie::Circular(0), ..PLAIN },
    Spec { rows: DRAFTS, lie: Lie::Circular(0), ..PLAIN },
    Spec { rows: Rows { slotless: 4, fresh: Some((2, DType::U8)), ..DRAFTS }, dim: 60, lie: Lie::Circular(4), ..PLAIN },
    Spec { rows: MIXED, taps: 3, wide: [true, false], placement: Placement::Flipped, lie: Lie::Circular(1), ..PLAIN },
    Spec { rows: MIXED, dim: 130, placement: Placement::Transposed, lie: Lie::Circular(13), bias: false, ..PLAIN },
];

const TYPES: [DType; 3] = [DType::BF16, DType::F32, DType::F16];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SPECS.into_iter().enumerate() {
        cases.push(conv(TYPES[turn % 3], spec));
        if turn % 2 == 0 {
            cases.push(conv(TYPES[(turn + 1) % 3], spec));
        }
    }
    cases
}

/// Sequences of any lengths.
pub(super) fn drawn_rows(draw: &mut Draw<'_>, most: usize) -> Rows {
    let count = 1 + draw.below(6);
    let lens: Vec<usize> = (0..count).map(|_| draw.pick(&[1, 0, 2, 3, 7, 17, 64, 65]).min(most)).collect();
    let fresh =
        if draw.flag() { Some((1 + draw.below(3), draw.pick(&[DType::U8, DType::I32, DType::Bool]))) } else { None };
    Rows {
        lens: forever(&lens),
        surplus: [draw.below(3), draw.below(3)],
        slotless: draw.pick(&[0, 0, 2, 3]),
        fresh,
        padded: draw.flag(),
    }
}

/// A convolution of any sequences.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let dtype = draw.pick(&TYPES);
    let spec = Spec {
        rows: drawn_rows(draw, 65),
        dim: draw.extent(129),
        taps: draw.pick(&[4, 2, 3]),
        wide: [draw.flag(), draw.flag()],
        bias: draw.flag(),
        silu: draw.flag(),
        lie: draw.pick(&[
            Lie::First(0),
            Lie::First(2),
            Lie::Accepted(0),
            Lie::Accepted(3),
            Lie::Circular(0),
            Lie::Circular(5),
        ]),
        placement: draw.placement(),
    };
    conv(dtype, spec)
}

impl Spec {
    fn name(&self) -> String {
        let Spec { rows, dim, taps, wide, bias, silu, lie, placement } = *self;
        let mut name = format!("{} dim {dim} taps {taps} {placement:?}", rows.name());
        let named = [(wide[0], " f32 states"), (wide[1], " f32 weights"), (!bias, " without bias"), (!silu, " linear")];
        name.extend(named.into_iter().filter_map(|(is, word)| is.then_some(word)));
        if lie != PLAIN.lie {
            name += &format!(" {lie:?}");
        }
        name
    }

    /// Places of a line.
    fn places(&self) -> usize {
        self.taps - 1 + self.lie.spare()
    }

    /// Where in its line the input before a sequence's first row lies that has that number among w - 1; `None`: it can be nowhere.
    fn place(&self, sequence: usize, k: usize, has_state: bool) -> Option<usize> {
        let told = i64::from(self.lie.told(sequence));
        match self.lie {
            Lie::First(_) => Some(k),
            Lie::Accepted(_) if !has_state => Some(k),
            Lie::Accepted(spare) => (1..=1 + spare as i64).contains(&told).then(|| told as usize - 1 + k),
            Lie::Circular(_) => {
                let place = (told - (self.taps - 1 - k) as i64).rem_euclid(self.places() as i64);
                (told >= 0).then_some(place as usize)
            }
        }
    }

    /// Puts a sequence's inputs, those before its first row in front, into its line.
    fn keep(&self, sequence: usize, has_state: bool, inputs: &[f64], line: &mut [f64]) {
        let (places, old) = (self.places(), self.taps - 1);
        match self.lie {
            Lie::First(_) => line[..old].copy_from_slice(&inputs[inputs.len() - old..]),
            Lie::Accepted(_) => {
                let kept = if inputs.len() - 1 <= places { inputs.len() - 1 } else { old };
                line[..kept].copy_from_slice(&inputs[inputs.len() - kept..]);
            }
            Lie::Circular(_) => {
                let told = i64::from(self.lie.told(sequence));
                for (at, &input) in inputs.iter().enumerate().skip(if has_state { old } else { 0 }) {
                    line[(told + at as i64 - old as i64).rem_euclid(places as i64) as usize] = input;
                }
            }
        }
    }

    /// x, outputs as they were, weight, bias, states.
    fn arrays(&self, dtype: DType) -> Vec<Array> {
        let [state, weight] = self.wide.map(|is_wide| if is_wide { DType::F32 } else { dtype });
        let (tokens, dim, taps) = (self.rows.tokens(), self.dim, self.taps);
        vec![
            Array::random(&[tokens, dim], dtype, 1),
            Array::random(&[tokens, dim], dtype, 2),
            Array::random(&[dim, taps], weight, 3),
            Array::random(&[dim], weight, 4),
            Array::random(&[self.rows.pool(), dim, self.places()], state, 5),
        ]
    }

    fn oracle(&self, inputs: &[Array]) -> Vec<Vec<f64>> {
        let Spec { rows, dim, taps, .. } = *self;
        let old = taps - 1;
        let [x, before, weight, bias, state] = &inputs[..5] else { unreachable!("five arrays were made") };
        let (mut out, mut states) = (before.values.to_vec(), state.values.to_vec());
        for (sequence, ([begin, end], slot, has_state)) in rows.spans().into_iter().enumerate() {
            let slot = slot.filter(|_| self.place(sequence, 0, has_state).is_some());
            for channel in 0..dim {
                let first = slot.map(|slot| (slot * dim + channel) * self.places());
                let held = (0..old).map(|k| match (first, self.place(sequence, k, has_state)) {
                    (Some(first), Some(place)) if has_state => state.values[first + place],
                    _ => 0.0,
                });
                let own = (begin..end).map(|token| x.values[token * dim + channel]);
                let line: Vec<f64> = held.chain(own).collect();
                for token in begin..end {
                    let window = &line[token - begin..][..taps];
                    let filter = &weight.values[channel * taps..][..taps];
                    let first = if self.bias { bias.values[channel] } else { 0.0 };
                    let pairs = window.iter().copied().zip(filter.iter().copied());
                    let y = dot(pairs.chain([(first, 1.0)]));
                    let y = if self.silu { y / (1.0 + (-y).exp()) } else { y };
                    out[token * dim + channel] = if slot.is_some() { y } else { 0.0 };
                }
                if let (Some(first), true) = (first, end > begin) {
                    self.keep(sequence, has_state, &line, &mut states[first..][..self.places()]);
                }
            }
        }
        vec![out, states]
    }
}

fn conv(dtype: DType, spec: Spec) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let is_turned = spec.placement == Placement::Transposed;
        let (mut out, mut state) = (target(&outputs[0], is_turned)?, target(&outputs[1], is_turned)?);
        copy_into(inputs[1].view(), out.view_mut())?;
        copy_into(inputs[4].view(), state.view_mut())?;
        let asked = CausalConv {
            x: inputs[0].view(),
            weight: inputs[2].view(),
            bias: spec.bias.then(|| inputs[3].view()),
            sequences: spec.rows.sequences(&inputs[6..]),
            window: match spec.lie {
                Lie::First(_) => Window::First,
                Lie::Accepted(_) => Window::Accepted(inputs[5].view()),
                Lie::Circular(_) => Window::Circular(inputs[5].view()),
            },
            is_silu: spec.silu,
        };
        causal_conv(stream, &asked, state.view_mut(), out.view_mut())?;
        if is_turned {
            copy_into(out.view(), outputs[0].view_mut())?;
            copy_into(state.view(), outputs[1].view_mut())?;
        }
        Ok(())
    };
    let arrays = spec.arrays(dtype);
    let outputs = [1, 4].map(|n: usize| (arrays[n].shape.clone(), arrays[n].dtype)).to_vec();
    let flops = 2.0 * (arrays[0].values.len() * spec.taps) as f64;
    let placed = arrays.into_iter().map(|array| (array, spec.placement));
    let count = spec.rows.lens.len();
    let windows = (0..count).map(|sequence| spec.lie.told(sequence).into()).collect();
    // Which numbers windows are told in need not lie side by side.
    let windows = (Array::new(&[count], DType::I32, windows), spec.placement);
    let told = spec.rows.arrays().into_iter().map(|array| (array, Placement::Contiguous));
    let told = std::iter::once(windows).chain(told);
    let oracle = move |inputs: &[Array]| spec.oracle(inputs);
    let call = Call { inputs: placed.chain(told).collect(), outputs, launch, oracle };
    Case::new("causal_conv", dtype, spec.name(), flops, call).summing(spec.taps + 1)
}
