//! What runs programs: a framework on a device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rocfire_hal::DType;

use crate::data::Data;
use crate::program::{Meta, Params};
use crate::table::Row;

/// A framework on a device. Its calls panic where the framework does, or returns an error.
pub trait Machine: Sync {
    /// A tensor.
    type Value: Clone + Send;

    /// A tensor from the host.
    fn input(&self, data: &Data) -> Self::Value;

    /// An operator.
    fn call(&self, row: usize, operands: Vec<Self::Value>, params: &Params) -> Vec<Self::Value>;

    /// What an operator makes on its way to its results, where that may be out of the range of the type when the results are not.
    fn passed(&self, _row: usize, _operands: Vec<Self::Value>, _params: &Params) -> Vec<Self::Value> {
        Vec::new()
    }

    /// What a tensor is.
    fn meta(&self, value: &Self::Value) -> Meta;

    /// A tensor to the host.
    fn read(&self, value: Self::Value) -> Data;
}

/// Types of a framework, the common ones first and more often.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// Of floats.
    pub floats: &'static [DType],
    /// Of integers.
    pub ints: &'static [DType],
    /// Of what is true or not.
    pub truth: DType,
    /// Of indices.
    pub indices: &'static [DType],
}

/// One framework: the same programs on a reference, operator by operator on our device, and as its users run it there.
pub trait Family: Sync {
    /// The framework's own CPU backend.
    type Reference: Machine;
    /// Ours, one launch after the other.
    type Separate: Machine;
    /// Ours, as users meet it: launches wait, join, are fused.
    type Joined: Machine;

    /// As the command line calls it.
    fn name(&self) -> &'static str;
    /// Its operators.
    fn rows(&self) -> &'static [Row];
    /// Types that both sides have.
    fn types(&self) -> Types;
    /// See [`Family::Reference`].
    fn reference(&self) -> &Self::Reference;
    /// See [`Family::Separate`].
    fn separate(&self) -> &Self::Separate;
    /// See [`Family::Joined`].
    fn joined(&self) -> &Self::Joined;
    /// The same on another device, or by another handle to this one, where there is such a thing.
    fn beside(&self) -> Option<&Self::Joined> {
        None
    }
    /// What arrives at a call's result, where its results are gradients: the call gets such a tensor as its last operand. Panics
    /// where the reference refuses the operator.
    fn arriving(
        &self,
        _row: usize,
        _operands: &[<Self::Reference as Machine>::Value],
        _params: &Params,
    ) -> Option<Meta> {
        None
    }
    /// A reason why a call is left out: the reference is known to be wrong there, or we are and it is being mended.
    fn known(
        &self,
        row: &Row,
        params: &Params,
        operands: &[Meta],
        values: &dyn Fn() -> Vec<Data>,
    ) -> Option<&'static str>;
    /// Whether what users run is another computation than the operator alone, so that its bits may differ: it is judged as the
    /// operator is, and takes no part in programs of several.
    fn differs_together(&self, row: &Row) -> bool;
    /// Where what users run is a formula of the framework's own with a rounding at each of its steps: how far the formula
    /// itself is off besides, as a share of the largest operand.
    fn coarser_together(&self, _row: &Row, _operands: &[Data]) -> Option<f64> {
        None
    }
    /// Whether the framework itself refuses on a GPU what its CPU backend takes.
    fn is_its_own_refusal(&self, said: &str) -> bool;
    /// The program as a test.
    fn print(&self, program: &crate::program::Program, name: &str) -> String;
}

static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Keeps panics quiet and remembers what the last one said: operators refuse by panicking, which is no news here.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let mut last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        *last = info.to_string();
    }));
}

/// Runs what may refuse.
///
/// # Errors
/// What the panic said.
pub fn attempt<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let said = payload.downcast_ref::<String>().cloned();
        let said = said.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        said.unwrap_or_else(|| LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone())
    })
}
