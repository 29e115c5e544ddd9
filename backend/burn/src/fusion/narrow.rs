//! Tensors that lie in memory in a narrower type than the type that Burn knows.
//!
//! A float has the same value before it is widened, in half the memory. Mixed precision computes a convolution in f16, widens its
//! result for the normalisation behind it, and keeps that for its gradient. So a kernel that ends in widening stores the narrow
//! values if all operations that come next are kernels, which widen as they read. Anything else that reads the tensor gets it
//! widened, once. No bit of any result depends on it.

use burn_ir::{TensorId, TensorIr};
use rocfire_fusion::{Graph, Node};
use rocfire_hal::{DType, Tensor};

use super::arrange::Arrangement;
use super::bindings::Bindings;
use super::execute::Bases;
use super::handle::{Handle, wrap};
use super::handles::Handles;
use super::plan::{Kernel, Plan, operands};
use super::trace::Trace;
use crate::convert::to_hal;
use crate::error::Result;
use crate::ops::memory;

/// Whether `to` is another type that holds every value of `from`.
fn is_widened(from: DType, to: DType) -> bool {
    matches!((from, to), (DType::F16 | DType::BF16, DType::F32))
}

impl Arrangement {
    /// Stores results that are widened last in the type before that. `is_read_by_kernels` says whether kernels behind this one read a
    /// tensor, and nothing else does.
    pub(super) fn narrow(&mut self, trace: &Trace, is_read_by_kernels: impl Fn(TensorId) -> bool) {
        for store in &mut self.stores {
            let Node::Cast(before) = trace.graph.node(store.node) else { continue };
            // A tensor that is only read and widened would become a plain copy.
            let is_computed = trace.read_by(trace.graph.node(before)).is_none();
            let ids = || store.tensors.iter().map(|(at, _)| trace.entries[usize::from(*at)].id);
            if is_computed && is_widened(trace.dtype(before), trace.dtype(store.node)) && ids().all(&is_read_by_kernels)
            {
                store.node = before;
            }
        }
        self.needed = trace.graph.needed(self.stores.iter().map(|store| store.node));
    }
}

impl Handles {
    /// Gives a tensor the type in memory that Burn knows, for anything that reads it and is no kernel of a plan.
    ///
    /// # Errors
    /// As launches.
    pub(crate) fn widen(&mut self, tensor: &TensorIr) -> Result<()> {
        if let Some((own, dtype)) = self.narrow(tensor) {
            let widened = memory::cast(own, dtype)?;
            self.put(tensor.id, wrap(widened, tensor.dtype));
        }
        Ok(())
    }

    fn is_narrow(&self, tensor: &TensorIr) -> bool {
        self.narrow(tensor).is_some()
    }

    /// A tensor that lies in a narrower type than Burn knows, and Burn's type; `None` for any other tensor.
    fn narrow(&self, tensor: &TensorIr) -> Option<(&Tensor, DType)> {
        let Some(Handle::Plain(own)) = self.get(tensor.id) else { return None };
        let own = own.as_inner();
        let known = to_hal(tensor.dtype).ok().filter(|known| is_widened(own.dtype(), *known))?;
        Some((own, known))
    }
}

/// Widens the sources that a product or a convolution reads, as their launchers do not widen.
///
/// # Errors
/// As launches.
pub(super) fn widen_operands(plan: &Plan, bindings: &mut Bindings) -> Result<()> {
    let Bindings { tensors, handles, .. } = bindings;
    for (number, source) in plan.sources.iter().enumerate() {
        let global = &tensors[source.id.value() as usize];
        if handles.is_narrow(global)
            && plan.kernels.iter().flat_map(operands).any(|base| plan.source_of(base) == number)
        {
            handles.widen(global)?;
        }
    }
    Ok(())
}

/// The kernel's graph with casts of the inputs that lie in a narrower type than it reads; `None` where none does.
pub(super) fn widening(graph: &Graph, kernel: &Kernel, bases: &Bases) -> Option<Graph> {
    let first = usize::from(kernel.product.is_some());
    let own = |slot: usize, dtype: DType| {
        let input = slot.checked_sub(first).map(|at| bases.tensors[kernel.inputs[at].base].dtype());
        input.filter(|own| is_widened(*own, dtype)).unwrap_or(dtype)
    };
    let is_narrow = |(slot, (dtype, _)): (usize, (DType, _))| own(slot, dtype) != dtype;
    graph.inputs().enumerate().any(is_narrow).then(|| graph.reading(own))
}
