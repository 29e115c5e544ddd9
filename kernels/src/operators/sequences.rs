//! Operators over sequences whose states lie in a pool, as values: they change the pool in its place, and have no gradient.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::tokens::of_type;
use super::{Operator, Spec};
use crate::Result;
use crate::causal_conv::{CausalConv, Window, causal_conv as launch_causal_conv};
use crate::selective_scan::{ScanKept, SelectiveScan, selective_scan as launch_selective_scan};
use crate::sequences::Sequences;

/// Where in their lines causal convolutions find the last inputs of sequences: a [`crate::causal_conv::Window`] without its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowForm {
    /// At the first places.
    #[default]
    First,
    /// As many rows of the last call on as were accepted.
    Accepted,
    /// In a circle, as many rows on as there have been.
    Circular,
}

/// Which of the inputs of a causal convolution there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CausalConvForm {
    /// Whether there is a bias.
    pub has_bias: bool,
    /// Whether it is told which sequences begin.
    pub has_fresh: bool,
    /// Where the last inputs are.
    pub window: WindowForm,
    /// The number of a slot that stands for none.
    pub pad: Option<i32>,
    /// Whether the result goes through `x · sigmoid(x)`.
    pub is_silu: bool,
}

/// Each channel along its sequence, as [`crate::causal_conv::causal_conv`].
///
/// # Inputs
/// The pool `[slots, dim, places]`, `w - 1` at least; `x` `[tokens, dim]`; the weight `[dim, w]`; starts `[sequences + 1]` and slots `[sequences]`, whole
/// numbers of any type; then what the form has, in its order: `[dim]`, `[sequences]` and, of a window that is not the first, numbers of
/// rows that were accepted or have been, `[sequences]`. The outputs are the pool and, like `x`, the results, zeros for tokens of no
/// sequence.
pub fn causal_conv(form: CausalConvForm) -> Operator {
    let told = match form.window {
        WindowForm::First => None,
        WindowForm::Accepted => Some("accepted"),
        WindowForm::Circular => Some("lengths"),
    };
    let extras = [form.has_bias.then_some("bias"), form.has_fresh.then_some("fresh"), told];
    let names: Vec<_> =
        ["pool", "x", "weight", "starts", "slots"].into_iter().chain(extras.into_iter().flatten()).collect();
    let run = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [pool, out] = outputs else { unreachable!("two outputs were described") };
        let mut rest = inputs[5..].iter();
        let [bias, fresh, told] = extras.map(|extra| if extra.is_some() { rest.next() } else { None });
        let of = Of::new(stream, &inputs[3..5], fresh, form.pad)?;
        let told = told.map(|told| of_type(stream, told, DType::I32)).transpose()?;
        let window = match (form.window, &told) {
            (WindowForm::Accepted, Some(accepted)) => Window::Accepted(accepted.view()),
            (WindowForm::Circular, Some(lengths)) => Window::Circular(lengths.view()),
            _ => Window::First,
        };
        let read = CausalConv {
            x: inputs[1].view(),
            weight: inputs[2].view(),
            bias: bias.map(Tensor::view),
            sequences: of.sequences(),
            window,
            is_silu: form.is_silu,
        };
        eager::fill(out.view_mut(), Scalar::Int(0))?;
        launch_causal_conv(stream, &read, pool.view_mut(), out.view_mut())
    };
    Operator::new("causal_conv", &names, pool_and_x, run).keeping(1)
}

/// Which of the inputs of a selective scan there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanForm {
    /// Whether a share of `x` goes past the state.
    pub has_d: bool,
    /// Whether there is a gate.
    pub has_z: bool,
    /// Whether something is added to steps.
    pub has_dt_bias: bool,
    /// Whether it is told which sequences begin.
    pub has_fresh: bool,
    /// Whether the slots are a row of each sequence, where the state after each token is kept.
    pub keeps: bool,
    /// Whether slots to write are told apart from those to read.
    pub moves: bool,
    /// Whether it is told at which of several places sequences go on; else at the first.
    pub has_accepted: bool,
    /// The number of a slot that stands for none.
    pub pad: Option<i32>,
    /// Whether steps are `log(1 + e^dt)`.
    pub is_softplus: bool,
}

/// Mamba's scan, as [`crate::selective_scan::selective_scan`].
///
/// # Inputs
/// The pool `[slots, dim, N]`; `x` and steps `[tokens, dim]`; `a` `[dim, N]`; `b` and `c` `[tokens, groups, N]`; starts
/// `[sequences + 1]` and slots `[sequences]`, whole numbers of any type; then what the form has, in its order: `d` `[dim]`, `z`
/// `[tokens, dim]`, the steps' bias `[dim]`, which sequences begin `[sequences]`, slots to write and, `[sequences]`, the places at which
/// they go on. Slots are one for each sequence or, where states are kept, a row for each, `[sequences, places]`. The outputs are the
/// pool and, like `x`, the results, zeros for tokens of no sequence.
pub fn selective_scan(form: ScanForm) -> Operator {
    let extras = [
        (form.has_d, "d"),
        (form.has_z, "z"),
        (form.has_dt_bias, "dt_bias"),
        (form.has_fresh, "fresh"),
        (form.moves, "to"),
        (form.has_accepted, "accepted"),
    ];
    let names = ["pool", "x", "dt", "a", "b", "c", "starts", "slots"].into_iter();
    let names: Vec<_> =
        names.chain(extras.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)).collect();
    let run = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [pool, out] = outputs else { unreachable!("two outputs were described") };
        let mut rest = inputs[8..].iter();
        let [d, z, dt_bias, fresh, to, accepted] =
            extras.map(|(is_there, _)| if is_there { rest.next() } else { None });
        let of = Of::new(stream, &inputs[6..8], fresh, form.pad)?;
        let [x, dt, a, b, c] = [1, 2, 3, 4, 5].map(|at| inputs[at].view());
        let [d, z, dt_bias] = [d, z, dt_bias].map(|extra| extra.map(Tensor::view));
        let [to, accepted] = [to, accepted].map(|told| told.map(|told| of_type(stream, told, DType::I32)).transpose());
        let (to, accepted) = (to?, accepted?);
        let kept = (form.keeps || form.moves || form.has_accepted).then(|| ScanKept {
            to: to.as_ref().unwrap_or(&of.slots).view(),
            accepted: accepted.as_ref().map(Tensor::view),
        });
        let is_softplus = form.is_softplus;
        let read = SelectiveScan { x, dt, a, b, c, d, z, dt_bias, is_softplus, sequences: of.sequences(), kept };
        eager::fill(out.view_mut(), Scalar::Int(0))?;
        launch_selective_scan(stream, &read, pool.view_mut(), out.view_mut())
    };
    Operator::new("selective_scan", &names, pool_and_x, run).keeping(1)
}

/// The first two inputs' shapes and types.
fn pool_and_x(inputs: &[Spec]) -> Vec<Spec> {
    inputs[..2].to_vec()
}

/// Where sequences begin and what they have, as the launchers take it.
struct Of {
    starts: Tensor,
    slots: Tensor,
    fresh: Option<Tensor>,
    pad: Option<i32>,
}

impl Of {
    /// From starts and slots.
    fn new(stream: &Stream, whole: &[Tensor], fresh: Option<&Tensor>, pad: Option<i32>) -> Result<Of> {
        let [starts, slots] = [0, 1].map(|at| of_type(stream, &whole[at], DType::I32));
        let fresh = fresh.map(|fresh| of_type(stream, fresh, DType::I32)).transpose()?;
        Ok(Of { starts: starts?, slots: slots?, fresh, pad })
    }

    fn sequences(&self) -> Sequences<'_> {
        let fresh = self.fresh.as_ref().map(Tensor::view);
        Sequences { starts: self.starts.view(), slots: self.slots.view(), fresh, pad: self.pad }
    }
}
