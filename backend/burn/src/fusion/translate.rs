//! Makes nodes of Burn's operations: which operations join a kernel, and as which nodes.
//!
//! Each operation becomes the same nodes that the eager backend runs for it (`ops::elementwise`), so that a chain gives the
//! same bits fused and unfused. An operation that does not join is refused with the reason. The trace cannot be used after that: the
//! caller keeps a copy from before.

use burn_ir::{
    BaseOperationIr, BinaryOpIr, BoolOperationIr, FloatOperationIr, IntOperationIr, NumericOperationIr, OperationIr,
    ScalarIr, ScalarOpIr, TensorIr, UnaryOpIr,
};
use rocfire_fusion::{Binary, Compare, Reduce, Scalar, Unary, Value};
use rocfire_hal::DType;

use super::refusal::Refusal;
use super::rows::whole;
use super::trace::{Number, Trace};
use crate::convert::to_hal;
use crate::ops::float_unary;

pub(super) type Result<T> = std::result::Result<T, Refusal>;

impl Trace {
    /// Adds an operation, or says why it does not join.
    pub(super) fn take(&mut self, operation: &OperationIr) -> Result<()> {
        match operation {
            OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => self.base(op),
            OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => {
                let before = self.graph.nodes().len();
                self.numeric(op).map(|()| self.note_without_answer(op, before))
            }
            OperationIr::Float(_, op) => self.float(op),
            OperationIr::Int(op) => self.int(op),
            OperationIr::Bool(op) => self.bool(op),
            OperationIr::Module(op) => self.module(op),
            OperationIr::Drop(tensor) => self.drop_tensor(tensor),
            _ => Err(Refusal::Operation),
        }?;
        self.operations += 1;
        Ok(())
    }

    fn drop_tensor(&mut self, tensor: &TensorIr) -> Result<()> {
        if self.operations == 0 {
            return Err(Refusal::Empty);
        }
        if let Some(at) = self.find(tensor.id) {
            self.entries[usize::from(at)].consumed = true;
        }
        Ok(())
    }

    fn base(&mut self, op: &BaseOperationIr) -> Result<()> {
        use BaseOperationIr as Op;
        match op {
            Op::Reshape(op) => self.reshape(&op.input, &op.out),
            Op::SwapDims(op) => self.swap(&op.input, &op.out, op.dim1, op.dim2),
            Op::Permute(op) => self.permute(&op.input, &op.out, &op.axes),
            Op::Flip(op) => self.flip(&op.input, &op.out, &op.axes),
            Op::Expand(op) => self.expand(&op.input, &op.out),
            Op::Slice(op) => self.slice(&op.tensor, &op.out, &op.ranges),
            Op::SliceAssign(op) => self.slice_assign(op),
            Op::MaskWhere(op) => {
                self.elementwise(&op.out, &[&op.mask, &op.value, &op.tensor], |t, v| t.choose(v[0], v[1], v[2]))
            }
            Op::MaskFill(op) => self.elementwise(&op.out, &[&op.mask, &op.tensor], |t, v| {
                let value = t.scalar(op.value, t.dtype(v[1]))?;
                t.choose(v[0], value, v[1])
            }),
            Op::Equal(op) => self.compare(Compare::Eq, op),
            Op::NotEqual(op) => self.compare(Compare::Ne, op),
            Op::EqualElem(op) => self.compare_scalar(Compare::Eq, op),
            Op::NotEqualElem(op) => self.compare_scalar(Compare::Ne, op),
            Op::Cast(op) => self.cast(&op.input, &op.out),
            Op::Ones(op) => self.create(&op.out, |t, dtype| t.constant(Scalar::Int(1), dtype)),
            Op::Zeros(op) => self.create(&op.out, |t, dtype| t.constant(Scalar::Int(0), dtype)),
            Op::AllDim(op) => self.test(Reduce::All, &op.input, &op.out, op.axis),
            Op::AnyDim(op) => self.test(Reduce::Any, &op.input, &op.out, op.axis),
            Op::All(op) => self.test_whole(Reduce::All, op),
            Op::Any(op) => self.test_whole(Reduce::Any, op),
            Op::Gather(op) => self.gather(op),
            Op::Select(op) => self.select(op),
            Op::Cat(op) => self.cat(op),
            Op::RepeatDim(op) => self.repeat(op),
            Op::Scatter(op) => self.scatter(op),
            _ => Err(Refusal::Operation),
        }
    }

    /// Notes the results of a reduction that has no answer for a row without elements, if they are values made since node `before`.
    fn note_without_answer(&mut self, op: &NumericOperationIr, before: usize) {
        let Some((name, results)) = without_answer(op) else { return };
        for result in results.into_iter().flatten() {
            if let Some((node, _)) = self.find(result.id).and_then(|at| self.value_of(at))
                && node.at() >= before
            {
                self.without_answer.push((node, name));
            }
        }
    }

    fn numeric(&mut self, op: &NumericOperationIr) -> Result<()> {
        use NumericOperationIr as Op;
        match op {
            Op::Add(op) => self.binary(Binary::Add, op),
            Op::AddScalar(op) => self.binary_scalar(Binary::Add, op),
            Op::Sub(op) => self.binary(Binary::Sub, op),
            Op::SubScalar(op) => self.binary_scalar(Binary::Sub, op),
            Op::Mul(op) => self.binary(Binary::Mul, op),
            Op::MulScalar(op) => self.binary_scalar(Binary::Mul, op),
            Op::Div(op) => self.binary(Binary::Div, op),
            Op::DivScalar(op) => self.binary_scalar(Binary::Div, op),
            Op::Rem(op) => self.binary(Binary::Rem, op),
            Op::RemScalar(op) => self.binary_scalar(Binary::Rem, op),
            Op::Powi(op) => self.binary(Binary::Pow, op),
            Op::PowiScalar(op) => self.binary_scalar(Binary::Pow, op),
            Op::ClampMin(op) => self.binary_scalar(Binary::Max, op),
            Op::ClampMax(op) => self.binary_scalar(Binary::Min, op),
            Op::Clamp(op) => self.elementwise(&op.out, &[&op.tensor], |t, v| {
                let (low, high) = (t.scalar(op.min, t.dtype(v[0]))?, t.scalar(op.max, t.dtype(v[0]))?);
                let below = t.two(Binary::Min, v[0], high)?;
                t.two(Binary::Max, below, low)
            }),
            Op::Abs(op) => self.unary(Unary::Abs, &op.input, &op.out),
            Op::Neg(op) => self.unary(Unary::Neg, &op.input, &op.out),
            Op::Full(op) => self.create(&op.out, |t, dtype| t.scalar(op.value, dtype)),
            Op::Greater(op) => self.compare(Compare::Gt, op),
            Op::GreaterElem(op) => self.compare_scalar(Compare::Gt, op),
            Op::GreaterEqual(op) => self.compare(Compare::Ge, op),
            Op::GreaterEqualElem(op) => self.compare_scalar(Compare::Ge, op),
            Op::Lower(op) => self.compare(Compare::Lt, op),
            Op::LowerElem(op) => self.compare_scalar(Compare::Lt, op),
            Op::LowerEqual(op) => self.compare(Compare::Le, op),
            Op::LowerEqualElem(op) => self.compare_scalar(Compare::Le, op),
            Op::SumDim(op) => self.reduce(Reduce::Sum, &op.input, &op.out, &[op.axis]),
            Op::SumDims(op) => self.reduce(Reduce::Sum, &op.input, &op.out, &op.axes),
            Op::MeanDim(op) => self.reduce(Reduce::Mean, &op.input, &op.out, &[op.axis]),
            Op::ProdDim(op) => self.reduce(Reduce::Prod, &op.input, &op.out, &[op.axis]),
            Op::MaxDim(op) => self.reduce(Reduce::Max, &op.input, &op.out, &[op.axis]),
            Op::MinDim(op) => self.reduce(Reduce::Min, &op.input, &op.out, &[op.axis]),
            Op::MaxAbsDim(op) => self.reduce_abs(&op.input, &op.out, &[op.axis]),
            Op::MaxAbs(op) => self.reduce_abs(&op.input, &op.out, &whole(&op.input)),
            Op::Sum(op) => self.reduce_whole_of(Reduce::Sum, op),
            Op::Mean(op) => self.reduce_whole_of(Reduce::Mean, op),
            Op::Prod(op) => self.reduce_whole_of(Reduce::Prod, op),
            Op::Max(op) => self.reduce_whole_of(Reduce::Max, op),
            Op::Min(op) => self.reduce_whole_of(Reduce::Min, op),
            Op::ArgMax(op) => self.extreme(Reduce::Max, &op.input, op.axis, None, &op.out),
            Op::ArgMin(op) => self.extreme(Reduce::Min, &op.input, op.axis, None, &op.out),
            Op::MaxDimWithIndices(op) => self.extreme(Reduce::Max, &op.tensor, op.dim, Some(&op.out), &op.out_indices),
            Op::MinDimWithIndices(op) => self.extreme(Reduce::Min, &op.tensor, op.dim, Some(&op.out), &op.out_indices),
            _ => Err(Refusal::Operation),
        }
    }

    fn float(&mut self, op: &FloatOperationIr) -> Result<()> {
        use FloatOperationIr as Op;
        match op {
            Op::PowfScalar(op) => self.binary_scalar(Binary::Pow, op),
            Op::Powf(op) => self.binary(Binary::Pow, op),
            Op::ArcTan2(op) => self.binary(Binary::Atan2, op),
            Op::Hypot(op) => self.binary(Binary::Hypot, op),
            Op::IntoInt(op) => self.cast(&op.input, &op.out),
            Op::IsNan(op) => self.unary(Unary::IsNan, &op.input, &op.out),
            Op::IsInf(op) => self.unary(Unary::IsInf, &op.input, &op.out),
            Op::Matmul(op) => self.multiply(op),
            Op::Random(op) => self.random(op),
            op => {
                let (op, tensors) = operator(op).ok_or(Refusal::Operation)?;
                self.unary(op, &tensors.input, &tensors.out)
            }
        }
    }

    fn int(&mut self, op: &IntOperationIr) -> Result<()> {
        use IntOperationIr as Op;
        match op {
            Op::IntoFloat(op) => self.cast(&op.input, &op.out),
            Op::BitwiseAnd(op) => self.binary(Binary::And, op),
            Op::BitwiseAndScalar(op) => self.binary_scalar(Binary::And, op),
            Op::BitwiseOr(op) => self.binary(Binary::Or, op),
            Op::BitwiseOrScalar(op) => self.binary_scalar(Binary::Or, op),
            Op::BitwiseXor(op) => self.binary(Binary::Xor, op),
            Op::BitwiseXorScalar(op) => self.binary_scalar(Binary::Xor, op),
            Op::BitwiseNot(op) => self.unary(Unary::Not, &op.input, &op.out),
            Op::BitwiseLeftShift(op) => self.binary(Binary::Shl, op),
            Op::BitwiseLeftShiftScalar(op) => self.binary_scalar(Binary::Shl, op),
            Op::BitwiseRightShift(op) => self.binary(Binary::Shr, op),
            Op::BitwiseRightShiftScalar(op) => self.binary_scalar(Binary::Shr, op),
            Op::Matmul(op) => self.multiply(op),
        }
    }

    fn bool(&mut self, op: &BoolOperationIr) -> Result<()> {
        use BoolOperationIr as Op;
        match op {
            Op::IntoFloat(op) | Op::IntoInt(op) => self.cast(&op.input, &op.out),
            Op::Not(op) => self.unary(Unary::Not, &op.input, &op.out),
            Op::And(op) => self.binary(Binary::And, op),
            Op::Or(op) => self.binary(Binary::Or, op),
            Op::Xor(op) => self.binary(Binary::Xor, op),
        }
    }

    /// An operation that computes each element of `out` from the same element of its inputs.
    pub(super) fn elementwise(
        &mut self,
        out: &TensorIr,
        inputs: &[&TensorIr],
        build: impl FnOnce(&mut Trace, &[Value]) -> Result<Value>,
    ) -> Result<()> {
        let entries = inputs.iter().map(|input| self.operand(input)).collect::<Result<Vec<_>>>()?;
        let frame = self.resolve(out, &entries)?;
        let values = entries.iter().map(|at| self.value(*at, &frame)).collect::<Result<Vec<_>>>()?;
        let node = build(self, &values)?;
        self.require_dtype(node, out)?;
        let at = self.define(out, node, frame, &entries)?;
        self.count(at);
        Ok(())
    }

    fn create(&mut self, out: &TensorIr, build: impl FnOnce(&mut Trace, DType) -> Result<Value>) -> Result<()> {
        let dtype = to_hal(out.dtype).map_err(|_| Refusal::DType)?;
        self.elementwise(out, &[], |trace, _| build(trace, dtype))
    }

    pub(super) fn require_dtype(&self, node: Value, out: &TensorIr) -> Result<()> {
        match to_hal(out.dtype) {
            Ok(dtype) if dtype == self.dtype(node) => Ok(()),
            _ => Err(Refusal::DType),
        }
    }

    fn unary(&mut self, op: Unary, input: &TensorIr, out: &TensorIr) -> Result<()> {
        self.elementwise(out, &[input], |trace, v| trace.one(op, v[0]))
    }

    fn binary(&mut self, op: Binary, tensors: &BinaryOpIr) -> Result<()> {
        self.elementwise(&tensors.out, &[&tensors.lhs, &tensors.rhs], |trace, v| {
            // A power of a float may have an integer as its exponent.
            let exponent = if op == Binary::Pow { trace.converted(v[1], trace.dtype(v[0]))? } else { v[1] };
            trace.two(op, v[0], exponent)
        })
    }

    fn binary_scalar(&mut self, op: Binary, tensors: &ScalarOpIr) -> Result<()> {
        self.elementwise(&tensors.out, &[&tensors.lhs], |trace, v| {
            let value = trace.scalar(tensors.rhs, trace.dtype(v[0]))?;
            trace.two(op, v[0], value)
        })
    }

    fn compare(&mut self, op: Compare, tensors: &BinaryOpIr) -> Result<()> {
        self.elementwise(&tensors.out, &[&tensors.lhs, &tensors.rhs], |trace, v| trace.test_two(op, v[0], v[1]))
    }

    fn compare_scalar(&mut self, op: Compare, tensors: &ScalarOpIr) -> Result<()> {
        self.elementwise(&tensors.out, &[&tensors.lhs], |trace, v| {
            let value = trace.scalar(tensors.rhs, trace.dtype(v[0]))?;
            trace.test_two(op, v[0], value)
        })
    }

    fn cast(&mut self, input: &TensorIr, out: &TensorIr) -> Result<()> {
        let dtype = to_hal(out.dtype).map_err(|_| Refusal::DType)?;
        if to_hal(input.dtype).is_ok_and(|from| from == dtype) {
            return self.same(input, out);
        }
        self.elementwise(out, &[input], |trace, v| trace.add(|graph| graph.cast(v[0], dtype)))
    }
}

macro_rules! operator {
    ($($name:ident: $operation:ident => $op:ident;)+) => {
        /// The operator of an operation on one tensor of floats; `None` if it is none of fusion's.
        fn operator(op: &FloatOperationIr) -> Option<(Unary, &UnaryOpIr)> {
            match op {
                $(FloatOperationIr::$operation(op) => Some((Unary::$op, op)),)+
                _ => None,
            }
        }
    };
}
float_unary!(operator);

/// Burn's name and the results of a reduction that has no answer for a row without elements; `None` for other operations. The eager
/// backend refuses the same ones.
fn without_answer(op: &NumericOperationIr) -> Option<(&'static str, [Option<&TensorIr>; 2])> {
    use NumericOperationIr as Op;
    Some(match op {
        Op::Max(op) => ("max", [Some(&op.out), None]),
        Op::Min(op) => ("min", [Some(&op.out), None]),
        Op::MaxAbs(op) => ("max_abs", [Some(&op.out), None]),
        Op::MaxDim(op) => ("max_dim", [Some(&op.out), None]),
        Op::MinDim(op) => ("min_dim", [Some(&op.out), None]),
        Op::MaxAbsDim(op) => ("max_abs_dim", [Some(&op.out), None]),
        Op::ArgMax(op) => ("argmax", [Some(&op.out), None]),
        Op::ArgMin(op) => ("argmin", [Some(&op.out), None]),
        Op::MaxDimWithIndices(op) => ("max_dim_with_indices", [Some(&op.out), Some(&op.out_indices)]),
        Op::MinDimWithIndices(op) => ("min_dim_with_indices", [Some(&op.out), Some(&op.out_indices)]),
        Op::Mean(op) if !op.out.dtype.is_float() => ("mean", [Some(&op.out), None]),
        Op::MeanDim(op) if !op.out.dtype.is_float() => ("mean_dim", [Some(&op.out), None]),
        _ => return None,
    })
}

/// Nodes are added by these, which check their types.
impl Trace {
    pub(super) fn dtype(&self, node: Value) -> DType {
        self.graph.dtype(node)
    }

    fn scalar(&mut self, placeholder: ScalarIr, dtype: DType) -> Result<Value> {
        // A relative scalar is Burn's number of the real one.
        match placeholder {
            ScalarIr::UInt(number) => self.number(Number::Scalar(number), dtype),
            ScalarIr::Float(_) | ScalarIr::Int(_) | ScalarIr::Bool(_) => Err(Refusal::Operation),
        }
    }

    pub(super) fn one(&mut self, op: Unary, a: Value) -> Result<Value> {
        self.add(|graph| graph.unary(op, a))
    }

    pub(super) fn two(&mut self, op: Binary, a: Value, b: Value) -> Result<Value> {
        self.require_same(a, b)?;
        self.add(|graph| graph.binary(op, a, b))
    }

    pub(super) fn test_two(&mut self, op: Compare, a: Value, b: Value) -> Result<Value> {
        self.require_same(a, b)?;
        self.add(|graph| graph.compare(op, a, b))
    }

    pub(super) fn choose(&mut self, condition: Value, a: Value, b: Value) -> Result<Value> {
        self.require_same(a, b)?;
        if self.dtype(condition) != DType::Bool {
            return Err(Refusal::DType);
        }
        self.add(|graph| graph.select(condition, a, b))
    }

    pub(super) fn converted(&mut self, a: Value, dtype: DType) -> Result<Value> {
        if self.dtype(a) == dtype { Ok(a) } else { self.add(|graph| graph.cast(a, dtype)) }
    }

    fn require_same(&self, a: Value, b: Value) -> Result<()> {
        if self.dtype(a) == self.dtype(b) { Ok(()) } else { Err(Refusal::DType) }
    }
}
