//! Connectionist temporal classification.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::loss::{Ctc, ctc_alpha};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

/// Steps, samples, classes, symbols. The last has more states than a workgroup has lanes.
const SIZES: [[usize; 4]; 5] = [[1, 1, 2, 1], [9, 3, 5, 2], [4, 2, 3, 0], [67, 2, 31, 20], [311, 1, 4, 150]];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, size) in SIZES.into_iter().enumerate() {
        for shift in 0..2 {
            cases.push(alpha(FLOATS[(turn + 2 * shift) % 4], size, Placement::ALL[(turn + shift) % 4]));
        }
    }
    cases
}

/// Symbols that fit into the steps and some that do not.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let (steps, batch, classes) = (draw.extent(129), draw.extent(3), 1 + draw.extent(33));
    let symbols = draw.below(steps.min(40) + 1);
    alpha(draw.float(), [steps, batch, classes, symbols], draw.placement())
}

/// Logarithms of probabilities that sum to one over the classes.
fn log_probs([steps, batch, classes, _]: [usize; 4], dtype: DType) -> Array {
    let shape = [steps, batch, classes];
    let logits = Array::random(&shape, DType::F64, 1).values;
    let row = |row: &[f64]| {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| x - sum.ln()).collect::<Vec<_>>()
    };
    Array::new(&shape, dtype, logits.chunks(classes).flat_map(row).collect())
}

fn alpha(dtype: DType, size: [usize; 4], placement: Placement) -> Case {
    let [steps, batch, classes, symbols] = size;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [log_probs, targets, input_lengths, target_lengths] = inputs else { return Err("four inputs".into()) };
        let [alpha, loss] = outputs else { return Err("two outputs".into()) };
        let ctc = Ctc {
            log_probs: log_probs.view(),
            targets: targets.view(),
            input_lengths: input_lengths.view(),
            target_lengths: target_lengths.view(),
            blank: 0,
        };
        Ok(ctc_alpha(stream, &ctc, alpha.view_mut(), loss.view_mut())?)
    };
    let states = 2 * symbols + 1;
    // Probabilities themselves, which f64 holds for as many steps as these.
    let oracle = move |inputs: &[Array]| {
        let [log_probs, targets, input_lengths, target_lengths] = inputs else { return Vec::new() };
        let (mut all, mut losses) = (vec![0.0; steps * batch * states], Vec::new());
        for n in 0..batch {
            let label = |s: usize| if s % 2 == 1 { targets.values[n * symbols + s / 2] as usize } else { 0 };
            let last = 2 * target_lengths.values[n] as usize;
            let emitted = |t: usize, s: usize| log_probs.values[(t * batch + n) * classes + label(s)].exp();
            let mut row = vec![0.0; states];
            for t in 0..steps {
                let before = row.clone();
                for s in 0..=last {
                    let skips = s >= 2 && s % 2 == 1 && label(s) != label(s - 2);
                    if t == 0 {
                        row[s] = if s <= 1 { emitted(0, s) } else { 0.0 };
                    } else if t < input_lengths.values[n] as usize {
                        let ways = before[s]
                            + if s >= 1 { before[s - 1] } else { 0.0 }
                            + if skips { before[s - 2] } else { 0.0 };
                        row[s] = ways * emitted(t, s);
                    }
                }
                for s in 0..states {
                    all[(t * batch + n) * states + s] = row[s].ln();
                }
            }
            losses.push(-(row[last] + if last > 0 { row[last - 1] } else { 0.0 }).ln());
        }
        vec![all, losses]
    };
    let ints = |shape: &[usize], values: Vec<f64>| (Array::new(shape, DType::I32, values), Placement::Contiguous);
    let symbol = |i: usize| (1 + (i * 7 + i / 3) % (classes - 1)) as f64;
    let inputs = vec![
        (log_probs(size, dtype), placement),
        ints(&[batch, symbols], (0..batch * symbols).map(symbol).collect()),
        // Later samples are shorter.
        ints(&[batch], (0..batch).map(|n| (steps - n.min(steps - 1)) as f64).collect()),
        ints(&[batch], (0..batch).map(|n| symbols.saturating_sub(n) as f64).collect()),
    ];
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let outputs = vec![(vec![steps, batch, states], wide), (vec![batch], dtype)];
    let flops = (steps * batch * states) as f64;
    let name = format!("{steps} steps {batch} samples {classes} classes {symbols} symbols {placement:?}");
    Case::new("ctc", dtype, name, flops, Call { inputs, outputs, launch, oracle }).summing(steps)
}
