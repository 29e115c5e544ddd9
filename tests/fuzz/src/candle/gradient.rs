//! Gradients of Candle: a call is the operator of variables, and its results are the gradients of its float operands.
//!
//! What arrives at the operator's result is one more operand, the last, drawn like the others: so an element of a gradient is as
//! sensitive to it as its sum is, whatever the sum comes to. Without it a call is the operator: so inputs become views.

use std::sync::LazyLock;

use candle_core::Tensor;

use super::{Candle, On, called, known, paste, print};
use crate::data::Data;
use crate::machine::{Family, Machine, Types};
use crate::program::{Meta, Params, Program};
use crate::table::{Kind, Numerics, Row, Rule};

/// Where operators that have gradients lie in Candle's table, and their rows here.
static ROWS: LazyLock<(Vec<usize>, Vec<Row>)> = LazyLock::new(|| {
    let taken = |row: &Row| {
        let is_float = row.operands.contains(&Kind::Float) && row.results == "Float";
        is_float && !matches!(row.rule, Rule::Quantised(_)) && !NONE.contains(&row.name)
    };
    let rows = super::ROWS.iter().enumerate().filter(|(_, row)| taken(row));
    let numerics = |row: &Row| match row.numerics {
        _ if SLOPES.contains(&row.name) => Numerics::Slope { sums: false },
        _ if SHARES.contains(&row.name) => Numerics::Slope { sums: true },
        Numerics::Sum | Numerics::SumOfRounded | Numerics::Mean => Numerics::Terms,
        _ if moves(row.rule) || PRODUCTS.contains(&row.name) => Numerics::Terms,
        _ => Numerics::Conditioned,
    };
    rows.map(|(at, row)| (at, Row { numerics: numerics(row), ..*row })).unzip()
});

/// Operators whose gradients Candle does not know, those that have none, and a cast, whose row rounds on the host for the CPU.
const NONE: [&str; 12] = [
    "ceil",
    "floor",
    "round",
    "sign",
    "conv_transpose1d",
    "upsample_bilinear2d",
    "softmax_last_dim",
    "rms_norm",
    "layer_norm",
    "rope",
    "rope_i",
    "to_float",
];

/// Whether an operator of the rule takes its elements from elsewhere: its gradient adds up what arrives.
fn moves(rule: Rule) -> bool {
    use Rule::{Cat, Embedding, Expand, Flip, Gather, MaskWhere, Pad, Permute, Repeat, Reshape, Scatter, Select};
    let taking = [Cat, Embedding, Expand, Flip, Gather, MaskWhere, Pad, Permute, Repeat, Reshape, Scatter, Select];
    taking.contains(&rule) || [Rule::SelectAssign, Rule::Slice, Rule::Swap, Rule::Unfold].contains(&rule)
}

/// Operators that repeat an operand whose gradient is the sum of what arrives, times a factor or divided by one.
const PRODUCTS: [&str; 4] = ["broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"];

/// Operators whose slope is made of numbers of size 1 that are subtracted from each other.
const SLOPES: [&str; 7] = ["tanh", "gelu", "gelu_erf", "silu", "sigmoid", "hard_sigmoid", "elu"];

/// The same of operators that divide by a sum, and of those that repeat an operand. Candle takes the largest of a row off as an
/// operator of its own, whose gradient is the sum of the others'.
const SHARES: [&str; 5] = ["softmax", "log_softmax", "log_sum_exp", "maximum", "minimum"];

/// A device whose calls are gradients.
pub struct Under(On);

impl Under {
    fn forward(&self, row: usize, operands: &[Tensor], params: &Params) -> candle_core::Result<Tensor> {
        called(ROWS.0[row], operands, params, self.0.handle(params.size))
    }
}

impl Machine for Under {
    type Value = Tensor;

    fn input(&self, data: &Data) -> Tensor {
        self.0.input(data)
    }

    fn call(&self, row: usize, mut operands: Vec<Tensor>, params: &Params) -> Vec<Tensor> {
        let arriving = (operands.len() > ROWS.1[row].operands.len()).then(|| operands.pop()).flatten();
        let made = match arriving {
            Some(arriving) => {
                let operands: Vec<&Tensor> = operands.iter().collect();
                paste::gradients(&operands, &arriving, |leaves| self.forward(row, leaves, params))
            }
            None => self.forward(row, &operands, params).map(|made| vec![made]),
        };
        self.0.settle(params);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The operator's own result: of a variance, what is squared on the way back leaves the range with it. Of a norm also its square,
    /// which is the sum that Candle takes the root of.
    fn passed(&self, row: usize, mut operands: Vec<Tensor>, params: &Params) -> Vec<Tensor> {
        operands.truncate(ROWS.1[row].operands.len());
        let made = self.forward(row, &operands, params).ok();
        let square = made.as_ref().filter(|_| ROWS.1[row].name == "norm").and_then(|made| made.sqr().ok());
        made.into_iter().chain(square).collect()
    }

    fn meta(&self, value: &Tensor) -> Meta {
        self.0.meta(value)
    }

    fn read(&self, value: Tensor) -> Data {
        self.0.read(value)
    }
}

/// Candle's gradients on its CPU device and on ours.
pub struct CandleGradients {
    reference: Under,
    separate: Under,
    joined: Under,
}

impl CandleGradients {
    /// On the device that `ROCFIRE_DEVICE` names.
    ///
    /// # Errors
    /// What opening the device says.
    pub fn new() -> candle_core::Result<CandleGradients> {
        let Candle { reference, separate, joined } = Candle::new()?;
        Ok(CandleGradients { reference: Under(reference), separate: Under(separate), joined: Under(joined) })
    }
}

impl Family for CandleGradients {
    type Reference = Under;
    type Separate = Under;
    type Joined = Under;

    fn name(&self) -> &'static str {
        "candle-gradients"
    }

    fn rows(&self) -> &'static [Row] {
        &ROWS.1
    }

    fn types(&self) -> Types {
        super::types()
    }

    fn reference(&self) -> &Under {
        &self.reference
    }

    fn separate(&self) -> &Under {
        &self.separate
    }

    fn joined(&self) -> &Under {
        &self.joined
    }

    fn arriving(&self, row: usize, operands: &[Tensor], params: &Params) -> Option<Meta> {
        let made = self.reference.forward(row, operands, params).unwrap_or_else(|error| panic!("{error}"));
        Some(self.reference.meta(&made))
    }

    fn known(
        &self,
        row: &Row,
        params: &Params,
        operands: &[Meta],
        values: &dyn Fn() -> Vec<Data>,
    ) -> Option<&'static str> {
        known::of_gradient(row, params, operands, values).or_else(|| known::reason(row, params, operands, values))
    }

    fn differs_together(&self, _row: &Row) -> bool {
        false
    }

    fn is_its_own_refusal(&self, said: &str) -> bool {
        super::is_its_own_refusal(said)
    }

    fn print(&self, program: &Program, name: &str) -> String {
        print::test(program, &ROWS.1, name, print::Calls::Gradients)
    }
}
