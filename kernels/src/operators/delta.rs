//! The gated delta rule as a value: it has no gradient.

use rocfire_hal::{DType, Stream, Tensor};

use super::tokens::of_type;
use super::{Operator, packed, with_rows};
use crate::delta::{DeltaGates, DeltaInputs, DeltaParams, DeltaStates, delta_rule as launch_delta_rule};

/// How gates of a delta rule come in, and whether sequences begin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeltaForm {
    /// Whether gates are made from a layer's products; else they are given.
    pub makes_gates: bool,
    /// Of gates that are made, the bound of a decay's logarithm.
    pub bound: Option<f64>,
    /// Whether slots to write are told apart from those to read.
    pub moves: bool,
    /// Whether it is told which sequences go on; else all do.
    pub has_continues: bool,
    /// Whether it is told at which of several places sequences go on; else at the first.
    pub has_accepted: bool,
    /// The number of a slot that stands for none.
    pub pad: Option<i32>,
}

impl DeltaForm {
    fn names(self) -> Vec<&'static str> {
        let gates: &[&str] = if self.makes_gates { &["a", "b", "a_log", "dt_bias"] } else { &["g", "beta"] };
        let more = [(self.moves, "to"), (self.has_continues, "continues"), (self.has_accepted, "accepted")];
        let more = more.into_iter().filter_map(|(is_there, name)| is_there.then_some(name));
        ["pool", "q", "k", "v"].into_iter().chain(gates.iter().copied()).chain(["starts", "from"]).chain(more).collect()
    }
}

/// Tokens of sequences taken into their states, as [`crate::delta::delta_rule`].
///
/// # Inputs
/// The pool; queries, keys, values; decays and strengths, or what they are made from and with; starts, slots to read and, as the form
/// says, slots to write, which sequences go on, and at which places: whole numbers of any type; slots are one for each sequence or, where
/// the state after each token is kept, a row for each. The outputs are the pool and, like the values, what
/// tokens read; it is zeros for tokens of no sequence. `longest` is at least the tokens of the longest sequence. There is no gradient.
pub fn delta_rule(form: DeltaForm, params: DeltaParams, longest: usize) -> Operator {
    let params = DeltaParams { fills: true, ..params };
    let run = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [pool, out] = outputs else { unreachable!("two outputs were described") };
        let rows = inputs[1..4].iter().map(with_rows).collect::<crate::Result<Vec<_>>>()?;
        let (gates, whole) = inputs[4..].split_at(if form.makes_gates { 4 } else { 2 });
        let a = with_rows(&gates[0])?;
        let made_with = gates[2..].iter().map(packed).collect::<crate::Result<Vec<_>>>()?;
        let gates = match &made_with[..] {
            [a_log, dt_bias] => DeltaGates::Made {
                a: a.view(),
                b: gates[1].view(),
                a_log: a_log.view(),
                dt_bias: dt_bias.view(),
                bound: form.bound,
            },
            _ => DeltaGates::Given { g: a.view(), beta: gates[1].view() },
        };
        let whole = whole.iter().map(|x| of_type(stream, x, DType::I32)).collect::<crate::Result<Vec<_>>>()?;
        let read = DeltaInputs {
            q: rows[0].view(),
            k: rows[1].view(),
            v: rows[2].view(),
            gates,
            starts: whole[0].view(),
            longest,
        };
        let mut rest = whole[2..].iter().map(Tensor::view);
        let mut next = |is_there: bool| if is_there { rest.next() } else { None };
        let from = whole[1].view();
        let to = next(form.moves).unwrap_or(from);
        let (continues, accepted) = (next(form.has_continues), next(form.has_accepted));
        let states = DeltaStates { pool: pool.view_mut(), from, to, continues, accepted, pad: form.pad };
        launch_delta_rule(stream, &read, &params, states, out.view_mut(), None)
    };
    let outputs = |inputs: &[super::Spec]| vec![inputs[0].clone(), inputs[3].clone()];
    Operator::new("delta_rule", &form.names(), outputs, run).keeping(1)
}
