//! Tuning of products, of numbers and of codes: tries the candidates for a shape on the device, verifies each, and says which is fastest.
//!
//! Called by `rocfire tune`, and by nothing that runs a model. Our tilings must give the bits of the tiling that the heuristic
//! takes, which is itself compared with sums in f64; the vendor's plans must be as close to it as sums in another order are.
//! Buffers are taken in rotation and filled with normal values, times lie between two events of the device. On an emulated
//! device the times are the host's, and the row says so.

use std::sync::OnceLock;
use std::time::Instant;

use half::{bf16, f16};
use rocfire_hal::{DType, Device, Source, Tensor, View};

use super::choice::{decide, modelled};
use super::gemm::{GemmParams, gemm, machine};
use super::tiling::{TILINGS, Unit};
use crate::family::shape;
use crate::random::{Seed, normal};
use crate::tuning::{Candidate, Lies, Row, Shape, driver_name};
use crate::{Error, Result};

/// Operands of one shape add up to this at least, if the limit on memory allows: more than caches hold.
pub(crate) const ROTATION_BYTES: usize = 512 << 20;
pub(crate) const SETS_MOST: usize = 64;
/// A batch between two events lasts about this long.
const BATCH_MS: f64 = 1.0;
const BATCHES: usize = 7;
const LAUNCHES_MOST: usize = 200;
/// Runs of a plan of the vendor's that must give the same bits.
const REPEATS: usize = 20;
/// Plans of the vendor's library that are tried.
pub(crate) const PLANS: usize = 8;
/// A tiling whose modelled time is so many times the best one's is not tried.
const HOPELESS: usize = 4;
/// Candidates that are tried whatever the time: what the dispatch takes without a row, our tiling or the vendor's first plan.
const ALWAYS: usize = 2;
/// Elements that are compared with sums in f64.
pub(crate) const CHECKED: usize = 64;

/// What tuning a shape may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Seconds for all candidates; those that come later are not tried.
    pub seconds: f64,
    /// Device memory for operands, bytes.
    pub memory_bytes: usize,
}

/// A candidate that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which.
    pub candidate: Candidate,
    /// The time of one launch and whether repeats gave the same bits, or why it is not eligible.
    pub outcome: std::result::Result<(f64, bool), String>,
}

/// What came out for a shape.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The row for the table.
    pub row: Row,
    /// Everything that was tried, in order.
    pub tried: Vec<Tried>,
    /// Candidates that the time was not enough for.
    pub left_out: usize,
    /// What the heuristic takes without a row, and its time.
    pub untuned: (Candidate, f64),
}

/// The hash of what a candidate is measured by: the kernels' source with the prelude and the tilings, or the vendor's library by
/// name and version; `None` where the device has no such library.
pub(crate) fn candidate_hash(device: &Device, candidate: Candidate) -> Option<String> {
    static OURS: OnceLock<String> = OnceLock::new();
    static OF_CODES: OnceLock<String> = OnceLock::new();
    let prelude = || format!("{:?}", rocfire_prelude::hash());
    let short = |source: &Source| source.hash()[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match candidate {
        Candidate::Tiling { .. } => Some(
            OURS.get_or_init(|| {
                let tilings = format!("{TILINGS:?}");
                short(&Source::new("gemm", super::sources::TEXTS, &[("PRELUDE", &prelude()), ("TILINGS", &tilings)]))
            })
            .clone(),
        ),
        Candidate::Ours => Some(
            OF_CODES
                .get_or_init(|| short(&Source::new("scaled", crate::quant::SCALED_TEXTS, &[("PRELUDE", &prelude())])))
                .clone(),
        ),
        Candidate::Vendor { .. } => {
            device.vendor_gemm().ok().map(|name| short(&Source::new("vendor", "", &[("LIBRARY", name)])))
        }
    }
}

/// What is tuned: the operands of a shape, and what is done with them.
pub(crate) trait Measured {
    /// Puts set `number`'s product on the stream by a candidate, or by what the dispatch takes.
    fn launch(&mut self, device: &Device, number: usize, candidate: Option<Candidate>) -> Result<()>;

    /// The result of set 0 by a candidate, over what was there before.
    fn result(&mut self, device: &Device, candidate: Candidate) -> Result<Vec<u8>>;

    /// Compares a result of set 0 with sums in f64.
    fn check(&self, result: &[u8]) -> Result<(), String>;

    /// Whether a result of the library's is as near to ours as another order and precision of sums makes it.
    fn is_close(&self, got: &[u8], reference: &[u8]) -> bool;
}

/// The operands of a shape, several sets of them.
struct Operands {
    sets: Vec<[Tensor; 3]>,
    shape: Shape,
}

impl Operands {
    fn new(device: &Device, wanted: Shape, memory_bytes: usize) -> Result<Operands> {
        let Shape { input, output, lies, size: [m, n, k], batches, .. } = wanted;
        let bytes = batches * ((m * k + k * n) * input.size_bytes() + m * n * output.size_bytes());
        // One set more for the reference's result.
        if bytes + batches * m * n * output.size_bytes() > memory_bytes {
            return Err(shape("tune", "memory", format!("at least {bytes} bytes for the operands"), memory_bytes));
        }
        let sets = (ROTATION_BYTES.min(memory_bytes) / bytes.max(1)).clamp(1, SETS_MOST);
        let (a_turned, b_turned) = (matches!(lies, Lies::Tn | Lies::Tt), matches!(lies, Lies::Nt | Lies::Tt));
        let filled = |turned: bool, [rows, cols]: [usize; 2], seed: usize| -> Result<Tensor> {
            let stored = if turned { [batches, cols, rows] } else { [batches, rows, cols] };
            let mut tensor = Tensor::empty(device, &stored, input)?;
            normal(device.stream(), Seed { seed: seed as u64, offset: 0 }, 0.0, 1.0, tensor.view_mut())?;
            let layout = if turned { tensor.layout().swap(1, 2)? } else { *tensor.layout() };
            Ok(tensor.with_layout(layout)?)
        };
        let set = |number: usize| -> Result<[Tensor; 3]> {
            let (a, b) = (filled(a_turned, [m, k], 2 * number)?, filled(b_turned, [k, n], 2 * number + 1)?);
            Ok([a, b, Tensor::empty(device, &[batches, m, n], output)?])
        };
        Ok(Operands { sets: (0..sets).map(set).collect::<Result<_>>()?, shape: wanted })
    }
}

impl Measured for Operands {
    fn launch(&mut self, device: &Device, number: usize, candidate: Option<Candidate>) -> Result<()> {
        let params = match candidate {
            Some(Candidate::Tiling { number, sliced }) => {
                GemmParams { tiling: Some(number), slice_k: Some(sliced), ..GemmParams::default() }
            }
            Some(Candidate::Vendor { choice }) => GemmParams { vendor: Some(choice), ..GemmParams::default() },
            Some(Candidate::Ours) | None => GemmParams::default(),
        };
        let count = self.sets.len();
        let [a, b, c] = &mut self.sets[number % count];
        gemm(device.stream(), a.view(), b.view(), c.view_mut(), &params)
    }

    fn result(&mut self, device: &Device, candidate: Candidate) -> Result<Vec<u8>> {
        let c = &self.sets[0][2];
        device.stream().fill(c.buffer(), 0, 0xff, c.buffer().bytes())?;
        self.launch(device, 0, Some(candidate))?;
        Ok(self.sets[0][2].to_bytes()?)
    }

    /// At places spread over it.
    fn check(&self, result: &[u8]) -> Result<(), String> {
        let Shape { input, output, size: [m, n, k], batches, .. } = self.shape;
        let host = |view: View<'_>| -> Result<Vec<u8>, String> {
            let tensor = crate::family::contiguous(view.device().stream(), view).map_err(|error| error.to_string())?;
            tensor.to_bytes().map_err(|error| error.to_string())
        };
        let (a, b) = (host(self.sets[0][0].view())?, host(self.sets[0][1].view())?);
        let total = batches * m * n;
        for place in (0..CHECKED).map(|part| (total - 1) * part / (CHECKED - 1)) {
            let (batch, row, col) = (place / (m * n), place / n % m, place % n);
            let (mut sum, mut size) = (0.0, 0.0);
            for depth in 0..k {
                let product = element(&a, input, (batch * m + row) * k + depth)
                    * element(&b, input, (batch * k + depth) * n + col);
                sum += product;
                size += product.abs();
            }
            let (got, allowed) = (element(result, output, place), allowed(self.shape, sum, size));
            let off = (got - sum).abs();
            if off.is_nan() || off > allowed {
                return Err(format!("element {place} is {got}, not {sum}: off by {off:e}, allowed {allowed:e}"));
            }
        }
        Ok(())
    }

    /// Products of normal values are 2/pi in size on average.
    fn is_close(&self, got: &[u8], reference: &[u8]) -> bool {
        let shape = self.shape;
        let size = shape.size[2] as f64 * std::f64::consts::FRAC_2_PI;
        let count = reference.len() / shape.output.size_bytes();
        (0..count).all(|at| {
            let (got, expected) = (element(got, shape.output, at), element(reference, shape.output, at));
            (got - expected).abs() <= 2.0 * allowed(shape, expected, size)
        })
    }
}

/// What a sum may be off: a rounding of the result, and 4 sqrt(K) eps of the sum of the products' sizes for adding them up.
fn allowed(shape: Shape, sum: f64, size: f64) -> f64 {
    let rounding = |dtype: DType| match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    };
    let sums = if shape.input == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    rounding(shape.output) * sum.abs() + 4.0 * (shape.size[2] as f64).sqrt() * sums * size
}

pub(crate) fn element(bytes: &[u8], dtype: DType, at: usize) -> f64 {
    let size = dtype.size_bytes();
    let bytes = &bytes[at * size..(at + 1) * size];
    match dtype {
        DType::F64 => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
        DType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        DType::BF16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        _ => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
    }
}

/// Candidates for a shape, the heuristic's own tiling first.
fn candidates(device: &Device, shape: Shape) -> Vec<Candidate> {
    let unit = Unit::of(device.arch().info(), shape.input);
    let unit = if device.config().matrix { unit } else { unit.without_matrix() };
    let machine = machine(device);
    let [m, n, k] = shape.size;
    let unit = unit.reading(shape.lies == Lies::Nt && k.is_multiple_of(4));
    let time = |number: usize| modelled(&TILINGS[number], unit, shape.input, [m, n], shape.batches, machine).time;
    let decision = decide(unit, shape.input, machine, shape.size, shape.batches);
    let first = TILINGS.iter().position(|other| *other == decision.tiling).expect("chosen from the table");
    let mut found = vec![Candidate::Tiling { number: first, sliced: decision.sliced }];
    // Early, so that what the dispatch would take without a row is tried whatever the time.
    if device.vendor_gemm().is_ok() {
        found.extend((0..PLANS).map(|choice| Candidate::Vendor { choice }));
    }
    let eligible = (0..TILINGS.len()).filter(|&number| TILINGS[number].serves(unit));
    let hopeful = eligible.filter(|&number| time(number) <= HOPELESS * time(first));
    for (number, sliced) in hopeful.flat_map(|number| [(number, false), (number, true)]) {
        let candidate = Candidate::Tiling { number, sliced };
        if !found.contains(&candidate) && (!sliced || k > super::chunk_of(k)) {
            found.push(candidate);
        }
    }
    found
}

/// Candidates for a product of codes: our kernel, and the plans of both ways that the library may have.
fn candidates_of_codes(device: &Device) -> Vec<Candidate> {
    let plans = if device.vendor_gemm().is_ok() { 2 * PLANS } else { 0 };
    let by_vendor = (0..plans).map(|choice| Candidate::Vendor { choice });
    std::iter::once(Candidate::Ours).chain(by_vendor).collect()
}

/// Tries the candidates for a shape. `progress` is told how many are done, of how many, and what comes next.
///
/// # Errors
/// `Shape` for integers, for codes that there is no product of, and for operands beyond the limit on memory; `Tuning` if the
/// heuristic's own kernel is wrong; the device's own.
pub fn tune(
    device: &Device,
    shape: Shape,
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Tuned> {
    let begin = Instant::now();
    let (mut operands, candidates): (Box<dyn Measured>, _) = match shape.codes {
        Some(codes) => (
            Box::new(crate::quant::CodedOperands::new(device, shape, codes, limits.memory_bytes)?),
            candidates_of_codes(device),
        ),
        None if !shape.input.is_float() || !shape.output.is_float() => {
            return Err(crate::family::shape("tune", "dtype", "a float", shape.input));
        }
        None => (Box::new(Operands::new(device, shape, limits.memory_bytes)?), candidates(device, shape)),
    };
    let operands = &mut *operands;
    progress(0, candidates.len(), "reference");
    let whole = match candidates[0] {
        Candidate::Tiling { number, .. } => Candidate::Tiling { number, sliced: false },
        other => other,
    };
    let reference = operands.result(device, whole)?;
    operands.check(&reference).map_err(|what| Error::Tuning { path: "the device".to_owned(), line: 0, what })?;
    let mut tried: Vec<Tried> = Vec::new();
    let mut left_out = 0;
    for (done, &candidate) in candidates.iter().enumerate() {
        if begin.elapsed().as_secs_f64() > limits.seconds && done >= ALWAYS {
            left_out = candidates.len() - done;
            break;
        }
        progress(done, candidates.len(), &candidate.to_string());
        let best = tried.iter().filter_map(|tried| Some(tried.outcome.as_ref().ok()?.0)).fold(f64::MAX, f64::min);
        match attempt(device, operands, candidate, &reference, best) {
            // The list of plans ended before.
            Ok(None) => {}
            Ok(Some(outcome)) => tried.push(Tried { candidate, outcome }),
            Err(error) => tried.push(Tried { candidate, outcome: Err(error.to_string()) }),
        }
    }
    let measured = tried.iter().filter_map(|tried| Some((tried.candidate, *tried.outcome.as_ref().ok()?)));
    let (candidate, (alone, repeats_agreed)) = measured.min_by(|a, b| a.1.0.total_cmp(&b.1.0)).ok_or_else(|| {
        Error::Tuning { path: "the device".to_owned(), line: 0, what: "no candidate is right".to_owned() }
    })?;
    let [microseconds, untuned] = side_by_side(device, operands, candidate, alone)?;
    let untuned = (candidates[0], untuned);
    let row = Row {
        driver: driver_name(device).to_owned(),
        arch: device.arch(),
        units: device.info().compute_units as usize,
        shape: shape.bucket(),
        candidate,
        hash: candidate_hash(device, candidate).expect("what was measured is there"),
        repeats_agreed,
        microseconds,
    };
    progress(candidates.len(), candidates.len(), "done");
    Ok(Tuned { row, tried, left_out, untuned })
}

type Outcome = std::result::Result<(f64, bool), String>;

/// One candidate: verified, repeated, timed. `None` for a plan that the vendor's library does not have.
fn attempt(
    device: &Device,
    operands: &mut dyn Measured,
    candidate: Candidate,
    reference: &[u8],
    best: f64,
) -> Result<Option<Outcome>> {
    let is_vendor = matches!(candidate, Candidate::Vendor { .. });
    let result = match operands.result(device, candidate) {
        Err(Error::Hal(rocfire_hal::Error::Shape { arg: "params.vendor", .. })) => return Ok(None),
        result => result?,
    };
    let right = if is_vendor { operands.is_close(&result, reference) } else { result == reference };
    if !right {
        let what = if is_vendor { "differs from ours by more than another order does" } else { "gives other bits" };
        return Ok(Some(Err(what.to_owned())));
    }
    let microseconds = time(device, operands, Some(candidate), best)?;
    // Ours promise it, and the cases of the tests hold them to it.
    let mut agreed = true;
    for _ in 0..if is_vendor { REPEATS } else { 0 } {
        agreed &= operands.result(device, candidate)? == result;
        if !agreed {
            break;
        }
    }
    Ok(Some(Ok((microseconds, agreed))))
}

/// The median times of one launch of a candidate, which takes `about` so many microseconds, and of what the dispatch takes, batch by batch
/// in turn: one after the other they would tell of the card's clock, which drifts by a tenth within seconds.
fn side_by_side(device: &Device, operands: &mut dyn Measured, candidate: Candidate, about: f64) -> Result<[f64; 2]> {
    let count = ((BATCH_MS * 1e3 / about.max(1e-3)).ceil() as usize).clamp(1, LAUNCHES_MOST);
    let batches = if about > 100.0 * BATCH_MS * 1e3 { 1 } else { BATCHES };
    let mut times = [Vec::new(), Vec::new()];
    // The first round is not counted.
    for round in 0..=batches {
        for (which, times) in [Some(candidate), None].into_iter().zip(&mut times) {
            let begin = device.stream().record_event()?;
            for number in 0..count {
                operands.launch(device, number, which)?;
            }
            let end = device.stream().record_event()?;
            if round > 0 {
                times.push(end.elapsed_ms(&begin)? * 1e3 / count as f64);
            }
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[batches / 2]
    }))
}

/// The median time of one launch, microseconds; of a candidate that takes several times as long as the best, that of a few.
fn time(device: &Device, operands: &mut dyn Measured, candidate: Option<Candidate>, best: f64) -> Result<f64> {
    let mut next = 0;
    let mut batch = |count: usize| -> Result<f64> {
        let begin = device.stream().record_event()?;
        for _ in 0..count {
            operands.launch(device, next, candidate)?;
            next += 1;
        }
        let end = device.stream().record_event()?;
        Ok(end.elapsed_ms(&begin)? / count as f64)
    };
    batch(1)?;
    let rough = batch(2)?;
    if rough * 1e3 > 3.0 * best {
        return Ok(rough * 1e3);
    }
    let count = ((BATCH_MS / rough.max(1e-6)).ceil() as usize).clamp(1, LAUNCHES_MOST);
    let batches = if rough > 100.0 * BATCH_MS { 1 } else { BATCHES };
    let mut times = (0..batches).map(|_| batch(count)).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[batches / 2] * 1e3)
}
