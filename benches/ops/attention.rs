//! Attention: forward, and forward with gradients, f16, batch 32, 8 heads of 64, by the number of rows.
//!
//! Rows of every result are compared with the reference in f64, and a hundred repeats of one shape with each other, bit by bit.

use std::rc::Rc;

use half::f16;
use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::attention::{
    AttentionInputs, AttentionParams, AttentionSaved, attention as launch_attention, attention_backward,
};

use crate::op::{Error, Make, Op, ROTATION_BYTES, filled};

const BATCH: usize = 32;
const HEADS: usize = 8;
const DEPTH: usize = 64;
/// Rows whose results are compared with the reference.
const CHECKED_ROWS: usize = 4;
/// A weight and a result are each rounded to 11 bits.
const TOLERANCE: f64 = 2e-3;
const REPEATS: usize = 100;

/// What of attention is timed.
#[derive(Clone, Copy, PartialEq)]
enum Timed {
    Forward,
    /// And the gradients of all three inputs.
    Both,
}

pub const OPS: &[Make] = &[
    ("attention f16", |device, name| op(device, name, Timed::Forward, 128, false)),
    ("attention f16", |device, name| op(device, name, Timed::Forward, 256, false)),
    ("attention f16", |device, name| op(device, name, Timed::Forward, 512, false)),
    ("attention f16", |device, name| op(device, name, Timed::Forward, 1024, false)),
    ("attention f16", |device, name| op(device, name, Timed::Forward, 2048, false)),
    // Small enough to be repeated a hundred times.
    ("attention f16 both", |device, name| op(device, name, Timed::Both, 256, false)),
    ("attention f16 both", |device, name| op(device, name, Timed::Both, 2048, false)),
    ("attention f16 causal", |device, name| op(device, name, Timed::Forward, 128, true)),
    ("attention f16 causal", |device, name| op(device, name, Timed::Forward, 256, true)),
    ("attention f16 causal", |device, name| op(device, name, Timed::Forward, 512, true)),
    ("attention f16 causal", |device, name| op(device, name, Timed::Forward, 1024, true)),
    ("attention f16 causal", |device, name| op(device, name, Timed::Forward, 2048, true)),
    ("attention f16 both causal", |device, name| op(device, name, Timed::Both, 256, true)),
    ("attention f16 both causal", |device, name| op(device, name, Timed::Both, 2048, true)),
];

/// Rows up to which the repeats are quick.
const REPEATED_ROWS: usize = 256;

fn op(device: &Device, name: &str, timed: Timed, rows: usize, causal: bool) -> Result<Op, Error> {
    let sets = Rc::new(Sets::new(device, rows, causal)?);
    let of_check = sets.clone();
    // Scores and their product with the values; half of them where only the past is seen. The gradients are two and a half times that.
    let forward = 4.0 * (BATCH * HEADS * rows * rows * DEPTH) as f64 * if causal { 0.5 } else { 1.0 };
    let one = (BATCH * HEADS * rows * DEPTH * 2) as f64;
    let (flops, tensors) = if timed == Timed::Both { (3.5 * forward, 12.0) } else { (forward, 4.0) };
    let launch = move |n: usize| -> Result<(), Error> {
        sets.forward(n)?;
        if timed == Timed::Both { sets.backward(n) } else { Ok(()) }
    };
    let check = move || -> Result<(), Error> {
        of_check.check()?;
        if timed == Timed::Both && rows <= REPEATED_ROWS { of_check.repeat() } else { Ok(()) }
    };
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{BATCH}x{HEADS}x{rows}x{DEPTH}"),
        bytes: tensors * one,
        flops,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

/// Sets of q, k, v, out, dout, dq, dk, dv, and logarithms of sums.
struct Sets {
    device: Device,
    rows: usize,
    params: AttentionParams,
    tensors: Vec<[Tensor; 8]>,
    lse: Vec<Tensor>,
}

impl Sets {
    fn new(device: &Device, rows: usize, causal: bool) -> Result<Sets, Error> {
        let shape = [BATCH, HEADS, rows, DEPTH];
        let bytes = 4 * 2 * shape.iter().product::<usize>();
        let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
        let (mut tensors, mut lse) = (Vec::new(), Vec::new());
        for set in 0..sets {
            let mut made = Vec::new();
            for slot in 0..8 {
                made.push(filled(device, &shape, DType::F16, (set * 8 + slot) as u64)?);
            }
            tensors.push(made.try_into().expect("eight were made"));
            lse.push(Tensor::empty(device, &shape[..3], DType::F32)?);
        }
        let mut params = AttentionParams::default();
        params.causal = causal;
        Ok(Sets { device: device.clone(), rows, params, tensors, lse })
    }

    fn inputs(&self, set: usize) -> AttentionInputs<'_> {
        let [q, k, v] = [0, 1, 2].map(|slot| self.tensors[set][slot].view());
        AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None }
    }

    fn forward(&self, n: usize) -> Result<(), Error> {
        let set = n % self.tensors.len();
        // Another handle to the same memory, to write through.
        let (mut out, mut lse) = (self.tensors[set][3].clone(), self.lse[set].clone());
        let lse = Some(lse.view_mut());
        Ok(launch_attention(self.device.stream(), &self.inputs(set), &self.params, out.view_mut(), lse)?)
    }

    fn backward(&self, n: usize) -> Result<(), Error> {
        let set = n % self.tensors.len();
        let [out, dout] = [3, 4].map(|slot| self.tensors[set][slot].view());
        let saved = AttentionSaved { out, dout, lse: self.lse[set].view() };
        let [mut dq, mut dk, mut dv] = [5, 6, 7].map(|slot| self.tensors[set][slot].clone());
        let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
        Ok(attention_backward(self.device.stream(), &self.inputs(set), &saved, &self.params, gradients)?)
    }

    /// Compares rows of set 0.
    fn check(&self) -> Result<(), Error> {
        let [q, k, v, out] = [0, 1, 2, 3].map(|slot| self.tensors[0][slot].to_bytes());
        let (q, k, v, out) = (q?, k?, v?, out?);
        let row = |bytes: &[u8], head: usize, row: usize| -> Vec<f64> {
            let at = (head * self.rows + row) * DEPTH * 2;
            let part = bytes[at..at + DEPTH * 2].chunks_exact(2);
            part.map(|x| f16::from_le_bytes([x[0], x[1]]).to_f64()).collect()
        };
        for number in 0..CHECKED_ROWS {
            let head = (BATCH * HEADS - 1) / (CHECKED_ROWS - 1) * number;
            let query = (self.rows - 1) / (CHECKED_ROWS - 1) * number;
            let seen = if self.params.causal { query + 1 } else { self.rows };
            let own = row(&q, head, query);
            let score =
                |key: usize| -> f64 { own.iter().zip(row(&k, head, key)).map(|(a, b)| a * b).sum::<f64>() / 8.0 };
            let scores: Vec<f64> = (0..seen).map(score).collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut expected = vec![0.0; DEPTH];
            for (key, weight) in weights.iter().enumerate() {
                expected.iter_mut().zip(row(&v, head, key)).for_each(|(sum, v)| *sum += weight / total * v);
            }
            let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
            let got = row(&out, head, query);
            let error = norm(&mut got.iter().zip(&expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied());
            let good = error <= TOLERANCE;
            if !good {
                return Err(format!("row {query} of head {head}: relative error {error:e}").into());
            }
        }
        Ok(())
    }

    /// Runs set 0 again and again.
    fn repeat(&self) -> Result<(), Error> {
        let results =
            || [3, 5, 6, 7].into_iter().map(|slot| self.tensors[0][slot].to_bytes()).collect::<Result<Vec<_>, _>>();
        self.forward(0)?;
        self.backward(0)?;
        let first = results()?;
        for number in 1..=REPEATS {
            self.forward(0)?;
            self.backward(0)?;
            if results()? != first {
                return Err(format!("repeat {number} gave other bits").into());
            }
        }
        Ok(())
    }
}
