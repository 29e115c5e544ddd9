//! The plan of an attention, which is kept and run again.

use burn_ir::{TensorError, TensorId};
use rocfire_fusion::Scalar;
use rocfire_hal::{DType, Tensor};
use rocfire_kernels::pattern::attention::Attention;

use crate::RocmDevice;
use crate::convert::to_hal;
use crate::error::{Result, execution};
use crate::fusion::bindings::Bindings;
use crate::fusion::execute::{execute, failure, take};
use crate::fusion::handle;
use crate::fusion::plan::{Plan, Source};
use crate::fusion::report::KernelReport;

/// One attention, and how its operations run without its kernel.
#[derive(Clone, Debug)]
pub(in crate::fusion) struct AttentionPlan {
    pub(in crate::fusion) pattern: Attention<TensorId>,
    /// The tensors that the pattern reads, each once.
    pub(in crate::fusion) sources: Vec<Source>,
    /// Plans of the single operations, for extents and scalars that the kernel does not take.
    pub(in crate::fusion) apart: Vec<Plan>,
}

impl AttentionPlan {
    /// The name of such a plan, for which Burn has none.
    pub(in crate::fusion) const NAME: &'static str = "Attention";

    /// What a report says of its kernel.
    pub(in crate::fusion) fn report(&self) -> KernelReport {
        KernelReport {
            name: AttentionPlan::NAME,
            launches_apart: self.pattern.steps(),
            graph: "softmax(q * k^T, scaled and masked) * v, without its scores in memory".to_owned(),
        }
    }

    /// Runs it. A failure leaves its error in the tensor that should have been written. For shapes and scalars that the kernel does
    /// not take, the single operations run; which way is taken depends on them alone.
    pub(in crate::fusion) fn execute(&self, device: &RocmDevice, bindings: &mut Bindings) {
        if !self.fits(bindings) {
            return self.apart.iter().for_each(|plan| execute(plan, device, &[], bindings));
        }
        let output = self.pattern.output().expect("a plan's pattern is whole");
        let result = match failure(&self.sources, bindings) {
            Some(error) => Err(error),
            None => self.attend(bindings).map_err(|error| {
                let kernel = AttentionPlan::NAME;
                tracing::debug!(target: "rocfire::fusion", kernel, %error, "failed before its launch");
                TensorError::new(execution(error))
            }),
        };
        let global = &bindings.tensor(output);
        match result {
            Ok(tensor) => bindings.handles.put(global.id, handle::wrap(tensor, global.dtype)),
            Err(error) => bindings.handles.fail(global.id, error),
        }
    }

    fn fits(&self, bindings: &Bindings) -> bool {
        let shape = |id: TensorId| {
            let global = &bindings.tensor(id);
            // A type that rocfire does not have stands for one that the kernel does not take.
            (&global.shape[..], to_hal(global.dtype).unwrap_or(DType::Bool))
        };
        self.pattern.fits(shape, |number| self.number(bindings, number))
    }

    fn number(&self, bindings: &Bindings, number: u64) -> f64 {
        match crate::ops::elementwise::scalar(bindings.scalar(number).into()) {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Uint(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    fn attend(&self, bindings: &mut Bindings) -> Result<Tensor> {
        let mut tensors: Vec<(TensorId, Tensor)> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let Bindings { tensors: known, handles, .. } = &mut *bindings;
            handles.widen(&known[source.id.value() as usize])?;
            tensors.push((source.id, take(source, bindings)?));
        }
        let tensor = |id: TensorId| {
            let found = tensors.iter().find(|(known, _)| *known == id);
            &found.expect("a pattern reads nothing but its sources").1
        };
        let first = &tensors[0].1;
        Ok(self.pattern.run(first.device().stream(), tensor, |number| self.number(bindings, number))?)
    }
}
