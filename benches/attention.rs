//! Attention on a real GPU: forward, and forward with gradients, f16, batch 32, 8 heads of 64, by the number of rows.
//!
//! Buffers are taken in rotation and filled with normal values; a time is the median of batches between two events. Some rows
//! of every result are compared with the reference in f64, and a hundred repeats of one shape with each other, bit by bit. It refuses to
//! time an emulated device, whose times say nothing of a card.

use half::f16;
use rocfire_hal::{DType, Device, DeviceId, DriverKind, Tensor};
use rocfire_kernels::attention::{
    AttentionInputs, AttentionParams, AttentionSaved, attention as launch_attention, attention_backward,
};
use rocfire_kernels::random::{Seed, normal};

type Error = Box<dyn std::error::Error>;

const BATCH: usize = 32;
const HEADS: usize = 8;
const DEPTH: usize = 64;
const ROWS: [usize; 5] = [128, 256, 512, 1024, 2048];
/// What the buffers of one shape add up to at least: several times the largest cache of any card.
const ROTATION_BYTES: usize = 1 << 29;
const BATCHES: usize = 11;
/// A batch is as long as this, so that what lies between two events is mostly the kernel.
const BATCH_MS: f64 = 2.0;
/// Rows whose results are compared with the reference.
const CHECKED_ROWS: usize = 4;
/// A weight and a result are each rounded to 11 bits.
const TOLERANCE: f64 = 2e-3;
const REPEATS: usize = 100;
const REPEATED_ROWS: usize = 256;

fn main() -> Result<(), Error> {
    let id = DeviceId::from_env()?;
    if !matches!(id.driver(), DriverKind::Hip | DriverKind::Cuda) {
        println!("skipped: {id} is no GPU; set ROCFIRE_DEVICE to one");
        return Ok(());
    }
    let device = Device::get(id)?;
    println!("{} ({id}), {}", device.info().name, device.info().driver_version);
    println!("{:<22} {:>6} {:>9} {:>7} {:>8}", "attention f16", "rows", "ms", "spread", "TFLOP/s");
    for causal in [false, true] {
        for rows in ROWS {
            let sets = Sets::new(&device, rows, causal)?;
            sets.forward(0)?;
            sets.check()?;
            // Scores and their product with the values; half of them where only the past is seen.
            let flops = 4.0 * (BATCH * HEADS * rows * rows * DEPTH) as f64 * if causal { 0.5 } else { 1.0 };
            report(&device, if causal { "forward causal" } else { "forward" }, rows, flops, &|n| sets.forward(n))?;
            if rows == 2048 {
                let name = if causal { "and backward causal" } else { "and backward" };
                report(&device, name, rows, 3.5 * flops, &|n| sets.forward(n).and_then(|()| sets.backward(n)))?;
            }
            if rows == REPEATED_ROWS {
                sets.repeat()?;
            }
        }
    }
    println!("{REPEATS} repeats of forward and backward of {REPEATED_ROWS} rows, full and causal: the same bits");
    Ok(())
}

fn report(device: &Device, name: &str, rows: usize, flops: f64, launch: &Launch<'_>) -> Result<(), Error> {
    let (median, spread) = time(device, launch)?;
    println!("{name:<22} {rows:>6} {median:9.4} {:6.1}% {:8.1}", spread * 100.0, flops / median / 1e9);
    Ok(())
}

type Launch<'a> = dyn Fn(usize) -> Result<(), Error> + 'a;

/// Median and relative spread (first to last decile) of one launch in milliseconds.
fn time(device: &Device, launch: &Launch<'_>) -> Result<(f64, f64), Error> {
    let batch = |first: usize, count: usize| -> Result<f64, Error> {
        let begin = device.stream().record_event()?;
        for n in first..first + count {
            launch(n)?;
        }
        let end = device.stream().record_event()?;
        end.synchronize()?;
        Ok(end.elapsed_ms(&begin)? / count as f64)
    };
    batch(0, 3)?;
    let rough = batch(0, 5)?;
    let count = ((BATCH_MS / rough).ceil() as usize).clamp(2, 500);
    let mut times: Vec<f64> = (0..BATCHES).map(|number| batch(number * count, count)).collect::<Result<_, _>>()?;
    times.sort_by(f64::total_cmp);
    let median = times[BATCHES / 2];
    Ok((median, (times[BATCHES * 9 / 10] - times[BATCHES / 10]) / median))
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
                let mut tensor = Tensor::empty(device, &shape, DType::F16)?;
                let seed = Seed { seed: (set * 8 + slot) as u64, offset: 0 };
                normal(device.stream(), seed, 0.0, 1.0, tensor.view_mut())?;
                made.push(tensor);
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
        AttentionInputs { q, k, v, mask: None, bias: None, starts: None }
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
