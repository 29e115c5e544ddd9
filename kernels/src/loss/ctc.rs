//! `ctc`: the launchers of `ctc.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, KernelLaunch, Sources, Strides3, c_type, shape};

const OP: &str = "ctc";

/// What both recursions read.
#[derive(Clone, Copy, Debug)]
pub struct Ctc<'a> {
    /// `[steps, batch, classes]`, a float, any strides.
    pub log_probs: View<'a>,
    /// `[batch, symbols]`, i32, contiguous; beyond a sample's own length anything.
    pub targets: View<'a>,
    /// `[batch]`, i32, contiguous: steps of each sample.
    pub input_lengths: View<'a>,
    /// `[batch]`, i32, contiguous: symbols of each sample.
    pub target_lengths: View<'a>,
    /// The label that stands for none.
    pub blank: usize,
}

/// `alpha[t, n, s]` = the logarithm of the probability of all ways to be in state `s` at step `t`; `loss[n]` = minus that of
/// all ways to spell the target.
///
/// # Shapes
/// `alpha`: `[steps, batch, 2 · symbols + 1]`; `loss`: `[batch]`. Both contiguous.
/// # Types
/// `loss` that of `log_probs`; `alpha` f64 for f64, else f32.
/// # Numerics
/// f32 for 16-bit floats. From a sample's own length on its `alpha` stays. A label outside the classes is never emitted, so
/// its sample's loss is infinite, as is that of a target that its steps cannot hold.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, without steps, and for 2³¹ states or classes; `Unsupported` for
/// `log_probs` that are no floats.
pub fn ctc_alpha(stream: &Stream, ctc: &Ctc<'_>, alpha: ViewMut<'_>, loss: ViewMut<'_>) -> Result<()> {
    let (_, batch) = ctc.check(stream, &alpha)?;
    family::on_device(OP, "loss", stream, &loss)?;
    if loss.shape() != [batch] || !loss.layout().is_contiguous() {
        return Err(shape(OP, "loss", format!("[{batch}], contiguous"), format!("{:?}", loss.layout())));
    }
    family::same_dtype(OP, "loss", &loss, ctc.log_probs.dtype())?;
    for input in [&ctc.log_probs, &ctc.targets, &ctc.input_lengths, &ctc.target_lengths, &alpha] {
        family::disjoint(OP, "loss", &loss, input)?;
    }
    ctc.launch(stream, "ctc_alpha", alpha.view(), Some(loss.view()))
}

/// `beta[t, n, s]` = the logarithm of the probability of all ways to spell the rest of the target from state `s` at step `t`,
/// that step's own probability included; -inf from a sample's own length on.
///
/// # Shapes
/// `beta` as the `alpha` of [`ctc_alpha`].
/// # Errors
/// As [`ctc_alpha`].
pub fn ctc_beta(stream: &Stream, ctc: &Ctc<'_>, beta: ViewMut<'_>) -> Result<()> {
    ctc.check(stream, &beta)?;
    ctc.launch(stream, "ctc_beta", beta.view(), None)
}

impl Ctc<'_> {
    /// Checks everything but the loss; the steps and the batch.
    fn check(&self, stream: &Stream, states: &View<'_>) -> Result<(usize, usize)> {
        let dtype = self.log_probs.dtype();
        if !dtype.is_float() {
            return Err(Error::Unsupported { op: OP, dtype, arch: self.log_probs.arch() }.into());
        }
        let &[steps, batch, classes] = self.log_probs.shape() else {
            return Err(shape(OP, "log_probs", "of rank 3", format!("{:?}", self.log_probs.shape())));
        };
        let symbols = self.targets.shape().get(1).copied().unwrap_or(0);
        let expected = [
            ("targets", &self.targets, &[batch, symbols][..], DType::I32),
            ("input_lengths", &self.input_lengths, &[batch], DType::I32),
            ("target_lengths", &self.target_lengths, &[batch], DType::I32),
            ("states", states, &[steps, batch, 2 * symbols + 1], wide(dtype)),
        ];
        family::on_device(OP, "log_probs", stream, &self.log_probs)?;
        for (arg, view, own, dtype) in expected {
            family::on_device(OP, arg, stream, view)?;
            family::same_dtype(OP, arg, view, dtype)?;
            if view.shape() != own || !view.layout().is_contiguous() {
                return Err(shape(OP, arg, format!("{own:?}, contiguous"), format!("{:?}", view.layout())));
            }
        }
        for input in [&self.log_probs, &self.targets, &self.input_lengths, &self.target_lengths] {
            family::disjoint(OP, "states", states, input)?;
        }
        let large = [steps, batch, classes, 2 * symbols + 1].into_iter().find(|&extent| extent > i32::MAX as usize);
        if let Some(extent) = large {
            return Err(shape(OP, "log_probs", "fewer than 2^31 of each", extent));
        }
        if steps == 0 {
            return Err(shape(OP, "log_probs", "at least one step", 0));
        }
        if self.blank >= classes {
            return Err(shape(OP, "blank", format!("below {classes}"), self.blank));
        }
        Ok((steps, batch))
    }

    fn launch(&self, stream: &Stream, kernel: &str, states: View<'_>, loss: Option<View<'_>>) -> Result<()> {
        let shape = self.log_probs.shape();
        if shape[1] == 0 {
            return Ok(());
        }
        static SOURCES: Sources<CtcKey> = Sources::new();
        let source = SOURCES.get(CtcKey { dtype: self.log_probs.dtype() }, source);
        let strides = self.log_probs.layout().strides();
        let args = CtcArgs {
            log_probs: self.log_probs.device_address(),
            targets: self.targets.device_address(),
            input_lengths: self.input_lengths.device_address(),
            target_lengths: self.target_lengths.device_address(),
            states: states.device_address(),
            loss: loss.as_ref().map_or(0, View::device_address),
            prob_strides: Strides3 { outer: strides[0], middle: strides[1], inner: strides[2] },
            time: shape[0] as u32,
            batch: shape[1] as u32,
            classes: shape[2] as u32,
            symbols: self.targets.shape()[1] as u32,
            blank: self.blank as i32,
            padding: 0,
        };
        let written = [states.buffer(), loss.as_ref().map_or(states.buffer(), View::buffer)];
        // SAFETY:
        // - `CtcArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernels read the log-probabilities
        //   at labels that they find inside the classes, states below 2 · symbols + 1, and a length per sample: all inside
        //   views whose shapes were checked; a length beyond the states is compared, not followed.
        // - They write the states and, where it is given, the loss.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, kernel), [shape[1], 1, 1], [BLOCK, 1, 1]).run(&args, &written)
        }
    }
}

/// What logarithms are kept in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CtcKey {
    pub dtype: DType,
}

/// The source of one variant.
pub(crate) fn source(key: CtcKey) -> Source {
    Source::new("ctc", include_str!("ctc.hip"), &[("CTC_TYPE", c_type(key.dtype))])
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    dtype.is_float().then(|| (OP, source(CtcKey { dtype }))).into_iter()
}

/// `CtcArgs` of `ctc.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CtcArgs {
    log_probs: u64,
    targets: u64,
    input_lengths: u64,
    target_lengths: u64,
    states: u64,
    loss: u64,
    prob_strides: Strides3,
    time: u32,
    batch: u32,
    classes: u32,
    symbols: u32,
    blank: i32,
    padding: u32,
}
const _: () = assert!(size_of::<CtcArgs>() == 96);

#[cfg(test)]
mod tests;
