//! Selective scans: every number of states around a lane's, groups, gates, steps with and without softplus, slots that there are not.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::selective_scan::{SelectiveScan, selective_scan};

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
    placement: Placement::Contiguous,
};
const MIXED: Rows = Rows { fresh: Some((3, DType::U8)), ..Rows::of(&[0, 1, 2, 3, 0, 63, 65, 1]) };
const ONES: [usize; 19] = [1; 19];

const SPECS: [Spec; 21] = [
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
        placement: draw.placement(),
    };
    scan(dtype, spec)
}

impl Spec {
    fn name(&self) -> String {
        let Spec { rows, dim, groups, n, wide, has, softplus, placement } = *self;
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
        name
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
            Array::random(&[self.rows.pool(), dim, n], state, 9),
            Array::random(&rows, dtype, 10),
        ]
    }

    fn oracle(&self, inputs: &[Array]) -> Vec<Vec<f64>> {
        let Spec { rows, dim, groups, n, has, .. } = *self;
        let at = |array: usize, index: usize| inputs[array].values[index];
        let (mut states, mut out) = (inputs[8].values.clone(), inputs[9].values.clone());
        for ([begin, end], slot, has_state) in rows.spans() {
            for channel in 0..dim {
                let Some(slot) = slot else {
                    (begin..end).for_each(|token| out[token * dim + channel] = 0.0);
                    continue;
                };
                let group = channel / (dim / groups);
                let held = &mut states[(slot * dim + channel) * n..][..n];
                if !has_state && end > begin {
                    held.fill(0.0);
                }
                for token in begin..end {
                    let (place, line) = (token * dim + channel, (token * groups + group) * n);
                    let step = at(1, place) + if has[2] { at(7, channel) } else { 0.0 };
                    let step = if self.softplus { step.exp().ln_1p() } else { step };
                    let mut y = if has[0] { at(5, channel) * at(0, place) } else { 0.0 };
                    for (number, s) in held.iter_mut().enumerate() {
                        *s = (step * at(2, channel * n + number)).exp() * *s
                            + step * at(3, line + number) * at(0, place);
                        y += at(4, line + number) * *s;
                    }
                    let z = at(6, place);
                    out[place] = if has[1] { y * z / (1.0 + (-z).exp()) } else { y };
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
    let told = spec.rows.arrays().into_iter().map(|array| (array, Placement::Contiguous));
    let oracle = move |inputs: &[Array]| spec.oracle(inputs);
    let call = Call { inputs: placed.chain(told).collect(), outputs, launch, oracle };
    Case::new("selective_scan", dtype, spec.name(), flops, call).summing(spec.n + 1)
}
