//! A training from its first to its last step, timed and checked.

use std::time::{Duration, Instant};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, DType, Device, Distribution, Tensor, Transaction};
use serde::{Deserialize, Serialize};

use super::{Stepped, Task, Trainer};
use crate::Error;

/// Rows, columns and depth of the product that a training is measured by.
const PRODUCT: usize = 8192;
/// Products between two reads.
const PRODUCTS: usize = 10;
/// Such rounds that the fastest is taken of.
const ROUNDS: usize = 5;

/// What a device's counters say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Launches so far.
    pub launches: u64,
    /// Kernels compiled so far.
    pub compiled: u64,
    /// Time spent so far in planning what had not come before.
    pub planning: Duration,
}

/// How long to train, and when to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Steps.
    pub steps: usize,
    /// Steps between two reads of the losses, which wait for the device.
    pub read_every: usize,
}

/// Steps up to a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// How many.
    pub steps: usize,
    /// For all of them.
    pub wall: Duration,
    /// Counted over all of them.
    pub counted: Counters,
}

/// What a training gave.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// The loss before each step.
    pub losses: Vec<f32>,
    /// The norm of each step's gradients before they were clipped; empty if none were.
    pub norms: Vec<f32>,
    /// In order.
    pub stretches: Vec<Stretch>,
}

impl Trained {
    /// How many stretches it took until nothing was compiled or planned any more.
    pub fn cold(&self) -> usize {
        let is_cold = |stretch: &Stretch| stretch.counted.compiled > 0 || stretch.counted.planning > Duration::ZERO;
        self.stretches.iter().rposition(is_cold).map_or(0, |last| last + 1)
    }

    /// Time, kernels compiled and steps until nothing was compiled or planned any more.
    pub fn cold_cost(&self) -> (Duration, u64, usize) {
        let cold = &self.stretches[..self.cold()];
        let compiled = cold.iter().map(|stretch| stretch.counted.compiled).sum();
        (cold.iter().map(|stretch| stretch.wall).sum(), compiled, cold.iter().map(|stretch| stretch.steps).sum())
    }

    /// The median of a step's time, and the launches of one, after that; `None` if that never was.
    pub fn warm(&self) -> Option<(Duration, u64)> {
        let warm = &self.stretches[self.cold()..];
        let last = warm.last()?;
        let mut times: Vec<Duration> = warm.iter().map(|stretch| stretch.wall / stretch.steps as u32).collect();
        times.sort();
        Some((times[times.len() / 2], last.counted.launches / last.steps as u64))
    }
}

/// Trains, and refuses losses, norms and weights that are not finite.
///
/// # Errors
/// [`Error::Read`], [`Error::NotFinite`].
pub fn train<T: Task>(
    task: &T,
    mut trainer: Trainer<T::Model>,
    schedule: Schedule,
    counters: &dyn Fn() -> Counters,
) -> Result<(Trainer<T::Model>, Trained), Error> {
    let mut trained = Trained::default();
    let mut step = 0;
    while step < schedule.steps {
        let steps = schedule.read_every.max(1).min(schedule.steps - step);
        let (before, start) = (counters(), Instant::now());
        let mut stepped = Vec::with_capacity(steps);
        for number in step..step + steps {
            let next;
            (trainer, next) = trainer.step(|model, part| task.loss(model, number, part));
            stepped.push(next);
        }
        read(stepped, step, &mut trained)?;
        let (wall, after) = (start.elapsed(), counters());
        let counted = Counters {
            launches: after.launches - before.launches,
            compiled: after.compiled - before.compiled,
            planning: after.planning - before.planning,
        };
        trained.stretches.push(Stretch { steps, wall, counted });
        step += steps;
    }
    if is_broken(trainer.model()).map_err(|reason| Error::Read { step, reason })? {
        return Err(Error::NotFinite { what: "a weight", step });
    }
    Ok((trainer, trained))
}

/// Reads what steps gave, the first of them being number `first`.
fn read(stepped: Vec<Stepped>, first: usize, trained: &mut Trained) -> Result<(), Error> {
    let mut transaction = Transaction::default();
    let steps = stepped.len();
    let (losses, norms): (Vec<_>, Vec<_>) = stepped.into_iter().map(|step| (step.loss, step.norm)).unzip();
    for tensor in losses.into_iter().chain(norms.into_iter().flatten()) {
        transaction = transaction.register(tensor);
    }
    let failed = |reason: String| Error::Read { step: first, reason };
    let data = transaction.try_execute().map_err(|error| failed(error.to_string()))?;
    for (number, data) in data.into_iter().enumerate() {
        let values = data.try_to_vec::<f32>().map_err(|error| failed(format!("{error:?}")))?;
        let [value] = values[..] else { return Err(failed(format!("expected one number, got {}", values.len()))) };
        let (what, step) =
            if number < steps { ("the loss", first + number) } else { ("the norm", first + number - steps) };
        if !value.is_finite() {
            return Err(Error::NotFinite { what, step });
        }
        if number < steps { trained.losses.push(value) } else { trained.norms.push(value) }
    }
    Ok(())
}

/// Whether a number of a model is infinite or none.
fn is_broken<M: Module>(model: &M) -> Result<bool, String> {
    struct Broken(Vec<Tensor<1, Bool>>);
    impl ModuleVisitor for Broken {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().inner().is_finite().bool_not().any());
        }
    }
    let mut broken = Broken(Vec::new());
    model.visit(&mut broken);
    let data = Tensor::cat(broken.0, 0).any().try_into_data().map_err(|error| error.to_string())?;
    Ok(data.iter::<bool>().any(|broken| broken))
}

/// Operations a second of a product of 8192 x 8192 x 8192.
///
/// # Errors
/// [`Error::Read`].
pub fn product_rate(dtype: DType, device: &Device) -> Result<f64, Error> {
    // A product of these has numbers of the size of the factor's.
    let bound = (3.0 / PRODUCT as f64).sqrt();
    let random =
        |bound: f64| Tensor::<2>::random([PRODUCT, PRODUCT], Distribution::Uniform(-bound, bound), device).cast(dtype);
    let (mut x, factor) = (random(1.0), random(bound));
    let mut best = Duration::MAX;
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..PRODUCTS {
            x = x.matmul(factor.clone());
        }
        let read = x.clone().slice([0..1, 0..1]).try_into_data();
        let read = read.map_err(|error| Error::Read { step: round, reason: error.to_string() })?;
        if !read.iter::<f32>().all(f32::is_finite) {
            return Err(Error::NotFinite { what: "a product", step: round });
        }
        if round > 0 {
            best = best.min(start.elapsed());
        }
    }
    Ok(2.0 * (PRODUCT as f64).powi(3) * PRODUCTS as f64 / best.as_secs_f64())
}

/// A training's figures, as they are kept in a file; `train_torch.py` writes the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Which side it is.
    pub name: String,
    /// Where it ran.
    pub device: String,
    /// `gpt` or `resnet50`.
    pub model: String,
    /// Words or images of a step.
    pub items: usize,
    /// Milliseconds of a step once nothing is compiled: the median.
    pub warm_ms: Option<f64>,
    /// Seconds until then.
    pub cold_s: f64,
    /// Steps until then.
    pub cold_steps: usize,
    /// Kernels compiled until then, where known.
    pub compiled: Option<u64>,
    /// Launches of a step, where known.
    pub launches: Option<u64>,
    /// The most bytes that were live at a time.
    pub peak_bytes: u64,
    /// Bytes that were taken from the driver.
    pub reserved_bytes: u64,
    /// Bytes that were live after the last step.
    pub live_bytes: u64,
    /// Operations of a step, by the formula of the model.
    pub operations: f64,
    /// Operations a second that they are a share of, where known.
    pub peak_operations: Option<f64>,
    /// The loss before each step.
    pub losses: Vec<f32>,
    /// The norm of each step's gradients before they were clipped.
    pub norms: Vec<f32>,
    /// Milliseconds of each step, or of the steps between two reads for one.
    pub step_ms: Vec<f64>,
}

impl From<Trained> for Report {
    /// Times, launches, losses and norms.
    fn from(trained: Trained) -> Report {
        let (cold, compiled, cold_steps) = trained.cold_cost();
        let warm = trained.warm();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let of_each = |stretch: &Stretch| vec![milliseconds(stretch.wall) / stretch.steps as f64; stretch.steps];
        Report {
            warm_ms: warm.map(|(time, _)| milliseconds(time)),
            cold_s: cold.as_secs_f64(),
            cold_steps,
            compiled: Some(compiled),
            launches: warm.map(|(_, launches)| launches),
            step_ms: trained.stretches.iter().flat_map(of_each).collect(),
            losses: trained.losses,
            norms: trained.norms,
            ..Report::default()
        }
    }
}

impl Report {
    /// The titles of [`Report::row`].
    pub const TITLES: &str = "side                      warm ms    cold s  steps  compiled  launches  peak MiB  reserved  live MiB    items/s  \
                              TFLOP/s   share     first      last";

    /// One line of figures.
    pub fn row(&self) -> String {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let mebibytes = |bytes: u64| bytes / (1 << 20);
        let rate = self.warm_ms.map(|ms| 1e3 / ms);
        let share =
            rate.zip(self.peak_operations).map(|(rate, peak)| format!("{:.1}%", 100.0 * self.operations * rate / peak));
        format!(
            "{:<23} {:>9} {:>9.1} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>7} {:>9.4} {:>9.4}",
            self.name,
            or_dash(self.warm_ms.map(|ms| format!("{ms:.3}"))),
            self.cold_s,
            self.cold_steps,
            or_dash(self.compiled.map(|count| count.to_string())),
            or_dash(self.launches.map(|count| count.to_string())),
            mebibytes(self.peak_bytes),
            mebibytes(self.reserved_bytes),
            mebibytes(self.live_bytes),
            or_dash(rate.map(|rate| format!("{:.0}", rate * self.items as f64))),
            or_dash(rate.map(|rate| format!("{:.1}", self.operations * rate / 1e12))),
            or_dash(share),
            self.losses.first().copied().unwrap_or(f32::NAN),
            self.losses.last().copied().unwrap_or(f32::NAN),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_steps_are_those_behind_the_last_that_compiled_or_planned() {
        let stretch = |milliseconds, compiled, planning, launches| Stretch {
            steps: 2,
            wall: Duration::from_millis(milliseconds),
            counted: Counters { launches, compiled, planning: Duration::from_millis(planning) },
        };
        let stretches = vec![stretch(900, 5, 3, 60), stretch(20, 0, 0, 50), stretch(80, 0, 7, 50)];
        let mut trained = Trained { stretches, ..Trained::default() };
        assert_eq!(trained.warm(), None);
        assert_eq!(trained.cold_cost(), (Duration::from_millis(1000), 5, 6));
        trained.stretches.extend([stretch(30, 0, 0, 50), stretch(22, 0, 0, 50), stretch(20, 0, 0, 48)]);
        assert_eq!(trained.warm(), Some((Duration::from_millis(11), 24)));
    }
}
