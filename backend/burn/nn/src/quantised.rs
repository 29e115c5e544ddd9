//! A linear layer of codes by codes: weights of fp8, int8, fp4 or microscaled formats, activations coded on the way.

use std::fmt;

use burn::backend::DispatchTensor;
use burn::nn::Linear;
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::CustomKernel;
use rocfire_burn::custom::operators::{self, CodedSource, Format, Granularity};

use crate::{custom, one};

/// What codes are, and which elements share a scale.
pub type Coding = (Format, Granularity);

/// Rows of codes and their scales: of rows as they are, of a gate or of a norm.
#[derive(Clone, Debug)]
pub struct Coded {
    /// u8, `[rows, bytes]`, the even column in the low half where a code has 4 bits.
    pub codes: Tensor<2, Int>,
    /// f32, or the bits of E8M0, u8, for microscaling: [`Granularity::scales_shape`].
    scales: DispatchTensor,
    /// What they are.
    pub coding: Coding,
}

/// Codes of what `source` makes of `inputs`, in one launch mostly; `None` off rocfire's devices. There is no gradient.
///
/// # Panics
/// For a type other than f32, f16 and bf16, shapes that do not fit the source, a granularity or a format that is not implemented: each
/// with the argument's name, told by whoever reads the result. For tensors with a gradient, at once.
pub(crate) fn code(source: CodedSource, inputs: Vec<DispatchTensor>, coding: Coding) -> Option<Coded> {
    let (format, granularity) = coding;
    let mut outputs = custom(&operators::coded(source, format, granularity), inputs, &[])?.into_iter();
    let (codes, scales) = (outputs.next()?, outputs.next()?);
    Some(Coded { codes: Tensor::from_dispatch(codes), scales, coding })
}

impl Coded {
    /// Codes of rows, `[rows, cols]` of f32, f16 or bf16; `None` off rocfire's devices.
    ///
    /// # Panics
    /// Where the result is read, if type, format and granularity do not fit; at once for a tensor with a gradient.
    pub fn of(x: Tensor<2>, coding: Coding) -> Option<Coded> {
        code(CodedSource::Plain, vec![x.into_dispatch()], coding)
    }

    /// Codes of [`gate`](crate::gate()) of rows `[rows, 2 n]`, which is written nowhere else.
    ///
    /// # Panics
    /// As [`Coded::of`] and [`gate`](crate::gate()).
    pub fn of_gate(x: Tensor<2>, params: operators::GateParams<'static>, coding: Coding) -> Option<Coded> {
        assert!(params.bias.is_none(), "gate: params.bias must be none: it is added before");
        code(CodedSource::Gate(params), vec![x.into_dispatch()], coding)
    }
}

/// `y = x · Wᵀ + bias` with the weight in codes. For inference: there is no gradient.
#[derive(Clone)]
pub struct QuantLinear {
    weight: Coded,
    bias: Option<Tensor<1>>,
    activations: Coding,
    dtype: DType,
    product: CustomKernel,
}

impl QuantLinear {
    /// Codes the weight of a layer of Burn's; `None` off rocfire's devices. Results are of the weight's type. With `is_laid_out` the codes
    /// are laid out once, when the layer first runs, for products that read them past LDS where that gains something; they
    /// then lie in memory twice.
    ///
    /// # Panics
    /// As [`Coded::of`].
    pub fn new(linear: Linear, weight: Coding, activations: Coding, is_laid_out: bool) -> Option<QuantLinear> {
        let dtype = linear.weight.dtype();
        let weight = Coded::of(linear.weight.val().detach().inner().transpose(), weight)?;
        let product = operators::product(activations, weight.coding, dtype, is_laid_out);
        Some(QuantLinear { weight, bias: linear.bias.map(|bias| bias.val().inner()), activations, dtype, product })
    }

    /// `[rows, d_output]` from `[rows, d_input]`: its activations are coded, then multiplied.
    ///
    /// # Panics
    /// If there are not `d_input` columns.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let coded =
            Coded::of(x, self.activations).expect("the weight is on a device of rocfire's, so must the input be");
        self.forward_coded(coded)
    }

    /// The same from codes, such as [`RmsNorm::forward_coded`](crate::RmsNorm::forward_coded) gives.
    ///
    /// # Panics
    /// If they are not coded as the layer says, or not `d_input` columns.
    pub fn forward_coded(&self, x: Coded) -> Tensor<2> {
        assert_eq!(x.coding, self.activations, "QuantLinear: x.coding must be the layer's");
        let codes = [x.codes, self.weight.codes.clone()].map(Tensor::into_dispatch);
        let [a, b] = codes;
        let inputs = vec![a, x.scales, b, self.weight.scales.clone()];
        let y: Tensor<2> = one(custom(&self.product, inputs, &[])).expect("codes are on a device of rocfire's");
        match &self.bias {
            Some(bias) => y + bias.clone().cast(self.dtype).unsqueeze(),
            None => y,
        }
    }
}

impl fmt::Debug for QuantLinear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weight, activations) = (self.weight.coding, self.activations);
        write!(f, "QuantLinear({:?} by {weight:?}, {activations:?})", self.weight.codes.dims())
    }
}
