//! Connectionist temporal classification: each recursion over time one launch, the gradient composed of them.

use burn_backend::ops::ctc::ctc_grad_from_alpha_beta_default;
use rocfire_hal::{DType, Tensor};
use rocfire_kernels::loss::{Ctc, ctc_alpha, ctc_beta};

use super::super::{fused, memory};
use crate::error::Result;
use crate::{Rocm, RocmTensor};

/// What both recursions read, as the kernels take it.
pub(super) struct Samples {
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: usize,
}

impl Samples {
    /// Lengths and labels of any integer type.
    pub(super) fn new(log_probs: &Tensor, [targets, inputs, lengths]: [&Tensor; 3], blank: usize) -> Result<Samples> {
        let narrow = |x: &Tensor| memory::contiguous(&memory::cast(x, DType::I32)?);
        Ok(Samples {
            log_probs: log_probs.clone(),
            targets: narrow(targets)?,
            input_lengths: narrow(inputs)?,
            target_lengths: narrow(lengths)?,
            blank,
        })
    }

    fn ctc(&self) -> Ctc<'_> {
        Ctc {
            log_probs: self.log_probs.view(),
            targets: self.targets.view(),
            input_lengths: self.input_lengths.view(),
            target_lengths: self.target_lengths.view(),
            blank: self.blank,
        }
    }

    /// Unwritten states of every step and sample.
    fn states(&self) -> Result<Tensor> {
        let extent = |x: &Tensor, axis: usize| x.shape().get(axis).copied().unwrap_or(0);
        let shape = [extent(&self.log_probs, 0), extent(&self.log_probs, 1), 2 * extent(&self.targets, 1) + 1];
        memory::empty(self.log_probs.device(), &shape, fused::wide(self.log_probs.dtype()))
    }

    fn alpha(&self) -> Result<(Tensor, Tensor)> {
        let mut alpha = self.states()?;
        let mut loss = memory::empty(alpha.device(), &[alpha.shape()[1]], self.log_probs.dtype())?;
        ctc_alpha(self.log_probs.device().stream(), &self.ctc(), alpha.view_mut(), loss.view_mut())?;
        Ok((alpha, loss))
    }

    /// The loss of each sample.
    pub(super) fn loss(&self) -> Result<Tensor> {
        Ok(self.alpha()?.1)
    }

    /// What the loss's gradient makes of the log-probabilities, in f32 for 16-bit floats and rounded once.
    pub(super) fn gradient(&self, of_loss: &Tensor) -> Result<Tensor> {
        let dtype = self.log_probs.dtype();
        let wide = fused::wide(dtype);
        let samples = Samples {
            log_probs: memory::cast(&self.log_probs, wide)?,
            targets: self.targets.clone(),
            input_lengths: self.input_lengths.clone(),
            target_lengths: self.target_lengths.clone(),
            blank: self.blank,
        };
        let (alpha, loss) = samples.alpha()?;
        let mut beta = samples.states()?;
        ctc_beta(alpha.device().stream(), &samples.ctc(), beta.view_mut())?;
        let gradient = ctc_grad_from_alpha_beta_default::<Rocm>(
            RocmTensor::new(samples.log_probs),
            RocmTensor::new(samples.targets),
            RocmTensor::new(samples.input_lengths),
            RocmTensor::new(memory::cast(of_loss, wide)?),
            RocmTensor::new(alpha),
            RocmTensor::new(beta),
            RocmTensor::new(loss),
            self.blank,
        );
        memory::cast(gradient.as_inner(), dtype)
    }
}
