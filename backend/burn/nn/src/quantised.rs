//! A linear layer of codes by codes: weights of fp8, int8, fp4 or microscaled formats, activations coded on the way.

use burn::backend::DispatchTensor;
use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::operators::{self, CodedProduct, CodedSource, Coding, EndActivation, Format, ProductForm};

use crate::{one, run};

/// What codes are multiplied by.
#[derive(Clone, Debug)]
pub enum Scales {
    /// f32.
    Floats(Tensor<2>),
    /// The bits of E8M0, u8: of microscaling.
    Exponents(Tensor<2, Int>),
}

impl Scales {
    pub(crate) fn into_dispatch(self) -> DispatchTensor {
        match self {
            Scales::Floats(scales) => scales.into_dispatch(),
            Scales::Exponents(scales) => scales.into_dispatch(),
        }
    }
}

/// Rows of codes and their scales: of rows as they are, of a gate or of a norm.
#[derive(Clone, Debug)]
pub struct Coded {
    /// u8, `[rows, bytes]`, the even column in the low half where a code has 4 bits.
    pub codes: Tensor<2, Int>,
    /// As [`Granularity::scales_shape`](operators::Granularity::scales_shape) says.
    pub scales: Scales,
    /// What they are.
    pub coding: Coding,
}

/// Codes of what `source` makes of `inputs`, in one launch mostly; `None` off rocfire's devices. There is no gradient.
///
/// # Panics
/// For a type other than f32, f16 and bf16, shapes that do not fit the source, a granularity or a format that is not
/// implemented: each with the argument's name, told by whoever reads the result. For tensors with a gradient, at once.
pub(crate) fn code(source: CodedSource, inputs: Vec<DispatchTensor>, coding: Coding) -> Option<Coded> {
    let (format, granularity) = coding;
    let mut outputs = run(operators::coded(source, format, granularity), inputs)?.into_iter();
    let (codes, scales) = (outputs.next()?, outputs.next()?);
    let scales = match granularity {
        operators::Granularity::Mx(_) => Scales::Exponents(Tensor::from_dispatch(scales)),
        _ => Scales::Floats(Tensor::from_dispatch(scales)),
    };
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

    /// A checkpoint's codes of OCP's E4M3 as the E4M3 that MI300 multiplies natively, with scales doubled; the same
    /// numbers, but for zero's sign. `None` off rocfire's devices.
    ///
    /// # Panics
    /// For codes of another format, and scales that are exponents.
    pub fn to_fnuz(&self) -> Option<Coded> {
        let ((Format::E4M3, granularity), Scales::Floats(scales)) = (self.coding, &self.scales) else {
            panic!("to_fnuz: coding must be E4M3 with scales of f32, got {:?}", self.coding)
        };
        let codes = run(operators::halve_to_fnuz(), vec![self.codes.clone().into_dispatch()])?.into_iter().next()?;
        let (codes, scales) = (Tensor::from_dispatch(codes), Scales::Floats(scales.clone().mul_scalar(2.0)));
        Some(Coded { codes, scales, coding: (Format::E4M3Fnuz, granularity) })
    }
}

/// `y = activation(x · Wᵀ + bias)` with the weight in codes, in one launch mostly. For inference: there is no gradient.
///
/// Its record has codes and scales: it loads into a layer that was made for the same codings.
#[derive(Module, Debug)]
pub struct QuantLinear {
    /// Codes of the weight, u8, `[d_output, bytes of d_input codes]`.
    pub codes: Param<Tensor<2, Int>>,
    /// Their scales, f32.
    pub scales: Option<Param<Tensor<2>>>,
    /// Their scales, the bits of E8M0, u8: of microscaling.
    pub exponents: Option<Param<Tensor<2, Int>>>,
    /// `[d_output]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// How activations are coded.
    #[module(skip)]
    pub activations: Coding,
    #[module(skip)]
    product: CodedProduct,
}

impl QuantLinear {
    /// Codes the weight of a layer of Burn's; `None` off rocfire's devices. Results are of the weight's type. With
    /// `is_laid_out` the codes are laid out once, when the layer first runs, for products that read them past LDS where
    /// that gains something; they then lie in memory twice.
    ///
    /// # Panics
    /// As [`Coded::of`].
    pub fn new(linear: Linear, weight: Coding, activations: Coding, is_laid_out: bool) -> Option<QuantLinear> {
        let dtype = linear.weight.dtype();
        let weight = Coded::of(linear.weight.val().detach().inner().transpose(), weight)?;
        let bias = linear.bias.map(|bias| bias.val().inner());
        Some(QuantLinear::from_coded(weight, bias, activations, dtype, is_laid_out))
    }

    /// A layer of codes, such as a checkpoint has them, with results of `dtype`, f32, f16 or bf16, and as
    /// [`QuantLinear::new`].
    pub fn from_coded(
        weight: Coded,
        bias: Option<Tensor<1>>,
        activations: Coding,
        dtype: DType,
        is_laid_out: bool,
    ) -> QuantLinear {
        let (scales, exponents) = match weight.scales {
            Scales::Floats(scales) => (Some(Param::from_tensor(scales)), None),
            Scales::Exponents(exponents) => (None, Some(Param::initialized(ParamId::new(), exponents))),
        };
        let form = ProductForm { is_laid_out, has_bias: bias.is_some(), ..ProductForm::default() };
        QuantLinear {
            codes: Param::initialized(ParamId::new(), weight.codes),
            scales,
            exponents,
            bias: bias.map(|bias| Param::from_tensor(bias.cast(dtype))),
            activations,
            product: CodedProduct::new(activations, weight.coding, operators::row_type(dtype), form),
        }
    }

    /// The same with an activation behind the bias.
    pub fn with_activation(mut self, activation: EndActivation) -> QuantLinear {
        self.product = self.product.with_activation(activation);
        self
    }

    /// The same that can give codes of 8 bits for a layer after it, [`QuantLinear::forward_recoded`].
    pub fn with_codes(mut self, format: Format) -> QuantLinear {
        self.product = self.product.with_codes(format);
        self
    }

    /// `[.., d_output]` from `[.., d_input]`: its activations are coded, then multiplied.
    ///
    /// # Panics
    /// If there are not `d_input` columns.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mut shape = x.dims();
        let columns = shape[D - 1];
        let rows = shape[..D - 1].iter().product::<usize>();
        let coded = Coded::of(x.reshape([rows, columns]), self.activations);
        let y = self.forward_coded(coded.expect("the weight is on a device of rocfire's, so must the input be"));
        shape[D - 1] = y.dims()[1];
        y.reshape(shape)
    }

    /// The same from codes, such as [`RmsNorm::forward_coded`](crate::RmsNorm::forward_coded) gives.
    ///
    /// # Panics
    /// If they are not coded as the layer says, or not `d_input` columns.
    pub fn forward_coded(&self, x: Coded) -> Tensor<2> {
        one(run(self.product.plain().clone(), self.inputs(x))).expect("codes are on a device of rocfire's")
    }

    /// The same as codes, all by one scale, f32 `[1, 1]` on the device: what comes out is nowhere else.
    ///
    /// # Panics
    /// As [`QuantLinear::forward_coded`]; without [`QuantLinear::with_codes`].
    pub fn forward_recoded(&self, x: Coded, scale: Tensor<2>) -> Coded {
        let (format, operator) = self.product.recoded().expect("QuantLinear: with_codes says of which format");
        let mut inputs = self.inputs(x);
        inputs.push(scale.clone().into_dispatch());
        let made = run(operator.clone(), inputs).and_then(|outputs| outputs.into_iter().next());
        let codes = Tensor::from_dispatch(made.expect("codes are on a device of rocfire's"));
        Coded { codes, scales: Scales::Floats(scale), coding: (format, operators::Granularity::Static) }
    }

    /// What a product reads.
    fn inputs(&self, x: Coded) -> Vec<DispatchTensor> {
        assert_eq!(x.coding, self.activations, "QuantLinear: x.coding must be the layer's");
        let scales = self.scales.as_ref().map(|scales| scales.val().detach().into_dispatch());
        let scales = scales.or_else(|| self.exponents.as_ref().map(|scales| scales.val().into_dispatch()));
        let weight = [self.codes.val().into_dispatch(), scales.expect("codes have scales of one kind")];
        let bias = self.bias.as_ref().map(|bias| bias.val().detach().into_dispatch());
        [x.codes.into_dispatch(), x.scales.into_dispatch()].into_iter().chain(weight).chain(bias).collect()
    }
}
