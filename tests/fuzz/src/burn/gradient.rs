//! Gradients: a call is the operator under `Autodiff`, and its results are the gradients of its float operands.
//!
//! What is differentiated is half the sum of the squares of the operator's result, so that the gradient that arrives there is
//! the result itself. The rows are those of the float operators; a program calls gradients on gradients' results.

use std::sync::LazyLock;

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, TensorMetadata};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::{Fused, Rocm, RocmDevice};

use super::{On, Value, called, known, print};
use crate::data::Data;
use crate::machine::{Family, Machine, Types};
use crate::program::{Meta, Params, Program};
use crate::table::{Kind, Numerics, Row};

/// Where operators that have gradients lie in Burn's table, and their rows here.
static ROWS: LazyLock<(Vec<usize>, Vec<Row>)> = LazyLock::new(|| {
    let taken = |row: &Row| {
        let is_float =
            row.operands.first() == Some(&Kind::Float) && row.results == "Float" && !row.name.starts_with("q_");
        is_float && !row.name.contains("backward") && !NONE.contains(&row.name)
    };
    let rows = super::ROWS.iter().enumerate().filter(|(_, row)| taken(row));
    let numerics = |row: &Row| match row.numerics {
        Numerics::Product => Numerics::Quotient,
        Numerics::Squares => Numerics::Squares,
        // Burn's formulas divide by squares or by what is added to them.
        _ if ["float_asinh", "float_atan2", "float_div"].contains(&row.name) => Numerics::Squares,
        _ => Numerics::Conditioned,
    };
    rows.map(|(at, row)| (at, Row { numerics: numerics(row), ..*row })).unzip()
});

/// Operators that have no gradient in Burn, and those whose gradient jumps where the operator does, as that of the largest jumps
/// between equals. Of acos and acosh Burn's formula cancels beside 1, where what arrives goes to 0 as slowly: no operand that
/// is off by its last place shows that.
const NONE: [&str; 24] = [
    "float_topk",
    "float_acos",
    "float_acosh",
    "float_round",
    "float_floor",
    "float_ceil",
    "float_trunc",
    "float_sign",
    "float_remainder",
    "float_remainder_scalar",
    "float_scatter_nd_mul",
    "float_scatter_nd_max",
    "float_scatter_nd_min",
    "float_cummin",
    "float_cummax",
    "float_max_abs",
    "float_max_abs_dim",
    "float_cast",
    "deform_conv2d",
    "float_grid_sample_2d",
    "interpolate_nearest",
    "interpolate_nearest_exact",
    "float_mask_select",
    "float_unfold",
];

/// A backend under `Autodiff`.
pub struct Under<B: Backend> {
    inner: On<B>,
}

impl<B: Backend> Machine for Under<B>
where
    B::Device: Sync,
{
    type Value = Value<B>;

    fn input(&self, data: &Data) -> Value<B> {
        self.inner.input(data)
    }

    fn call(&self, row: usize, operands: Vec<Value<B>>, params: &Params) -> Vec<Value<B>> {
        let mut tracked: Vec<FloatTensor<Autodiff<B>>> = Vec::new();
        let mut lift = |value: Value<B>| match value {
            Value::Float(tensor) => {
                let leaf = Autodiff::<B>::float_set_require_grad(Autodiff::<B>::from_inner(tensor), true);
                tracked.push(leaf.clone());
                Value::Float(leaf)
            }
            Value::Int(tensor) => Value::Int(tensor),
            Value::Bool(tensor) => Value::Bool(tensor),
        };
        let operands = operands.into_iter().map(&mut lift).collect();
        let made = called::<Autodiff<B>>(ROWS.0[row], operands, params, &self.inner.device);
        let Some(Value::Float(result)) = made.into_iter().next() else {
            unreachable!("rows with gradients make floats")
        };
        let arriving = Autodiff::<B>::float_detach(result.clone());
        let gradients = Autodiff::<B>::backward(Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(result, arriving)));
        let gradient = |leaf: &FloatTensor<Autodiff<B>>| {
            let none = || B::float_zeros(leaf.shape(), &self.inner.device, leaf.dtype().into());
            Value::Float(Autodiff::<B>::grad(leaf, &gradients).unwrap_or_else(none))
        };
        tracked.iter().map(gradient).collect()
    }

    /// The operator's own result, which arrives at its end as a gradient. Of a sum also the sum of magnitudes, since its parts may
    /// leave the range where the whole does not.
    fn passed(&self, row: usize, operands: Vec<Value<B>>, params: &Params) -> Vec<Value<B>> {
        let row = ROWS.0[row];
        let mut magnitudes = Vec::new();
        if matches!(super::ROWS[row].numerics, Numerics::Sum | Numerics::SumOfRounded | Numerics::Mean) {
            let magnitude = |operand: &Value<B>| match operand {
                Value::Float(tensor) => Value::Float(B::float_abs(tensor.clone())),
                other => other.clone(),
            };
            magnitudes = self.inner.call(row, operands.iter().map(magnitude).collect(), params);
        }
        [self.inner.call(row, operands, params), magnitudes].into_iter().flatten().collect()
    }

    fn meta(&self, value: &Value<B>) -> Meta {
        self.inner.meta(value)
    }

    fn read(&self, value: Value<B>) -> Data {
        self.inner.read(value)
    }
}

/// Burn's gradients on Flex and on ours.
pub struct Gradients {
    reference: Under<Flex>,
    separate: Under<Rocm>,
    joined: Under<Fused>,
    beside: Option<Under<Fused>>,
}

impl Gradients {
    /// On a device of ours.
    pub fn new(device: RocmDevice) -> Gradients {
        Gradients {
            reference: Under { inner: On { device: FlexDevice } },
            separate: Under { inner: On { device } },
            joined: Under { inner: On { device } },
            beside: super::second(device).map(|device| Under { inner: On { device } }),
        }
    }
}

impl Family for Gradients {
    type Reference = Under<Flex>;
    type Separate = Under<Rocm>;
    type Joined = Under<Fused>;

    fn name(&self) -> &'static str {
        "gradients"
    }

    fn rows(&self) -> &'static [Row] {
        &ROWS.1
    }

    fn types(&self) -> Types {
        Types { floats: &super::FLOATS, ints: &super::INTS, truth: super::DType::Bool, indices: &super::INDICES }
    }

    fn reference(&self) -> &Under<Flex> {
        &self.reference
    }

    fn separate(&self) -> &Under<Rocm> {
        &self.separate
    }

    fn joined(&self) -> &Under<Fused> {
        &self.joined
    }

    fn beside(&self) -> Option<&Under<Fused>> {
        self.beside.as_ref()
    }

    fn known(
        &self,
        row: &Row,
        params: &Params,
        operands: &[Meta],
        values: &dyn Fn() -> Vec<Data>,
    ) -> Option<&'static str> {
        // A gradient of what is not a number is whatever the formula makes of it.
        if values().iter().any(Data::has_nan) {
            return Some("the gradient at a NaN");
        }
        let of_weights =
            Row { name: if row.name.starts_with("conv") { "conv_d_weight_backward" } else { row.name }, ..*row };
        known::reason(&of_weights, params, operands)
    }

    fn differs_together(&self, row: &Row) -> bool {
        // `Fused` knows no gradient of a transposed convolution: that of weights is a convolution of images and channels exchanged.
        row.name.starts_with("conv_transpose") || known::is_written_out(row)
    }

    fn coarser_together(&self, row: &Row, operands: &[Data]) -> Option<f64> {
        known::coarser(row.name, row.name == "gelu", operands)
    }

    fn is_its_own_refusal(&self, _said: &str) -> bool {
        false
    }

    fn print(&self, program: &Program, name: &str) -> String {
        print::test(program, &ROWS.1, name, print::Calls::Gradients)
    }
}
