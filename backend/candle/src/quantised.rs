//! Rows of codes, and a linear layer of codes by codes: fp8, int8, fp4 and microscaled formats.

use candle_core::{DType, Error, Module, Result, Tensor, bail};
use rocfire_kernels::norm::NormKind;
pub use rocfire_kernels::operators::Coding;
use rocfire_kernels::operators::{self as kernels, CodedProduct, CodedSource, ProductForm};
pub use rocfire_kernels::quant::{EndActivation, Format, Granularity, MxRounding};

use crate::operators::GateParams;
use crate::record::{apply, one};

/// Rows of codes and their scales. There are no gradients.
#[derive(Clone, Debug)]
pub struct Coded {
    /// u8, `[rows, bytes]`, the even column in the low half where a code has 4 bits.
    pub codes: Tensor,
    /// f32, or the bits of E8M0, u8, for microscaling: [`Granularity::scales_shape`].
    pub scales: Tensor,
    /// What they are.
    pub coding: Coding,
}

impl Coded {
    fn from(source: CodedSource, inputs: &[&Tensor], coding: Coding) -> Result<Coded> {
        let outputs = apply(&kernels::coded(source, coding.0, coding.1), inputs)?;
        let Ok([codes, scales]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        Ok(Coded { codes, scales, coding })
    }

    /// Codes of rows, `[rows, columns]` of f32, f16 or bf16.
    ///
    /// # Errors
    /// Another type, shape or device; a format or a granularity that is not implemented.
    pub fn of(x: &Tensor, coding: Coding) -> Result<Coded> {
        Coded::from(CodedSource::Plain, &[x], coding)
    }

    /// Codes of [`rms_norm`](crate::rms_norm), which is written nowhere else.
    ///
    /// # Errors
    /// As there and [`Coded::of`].
    pub fn of_rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64, coding: Coding) -> Result<Coded> {
        Coded::from(CodedSource::Norm(NormKind::Rms, epsilon), &[x, weight], coding)
    }

    /// Codes of [`gate`](crate::gate()) of rows `[rows, 2 n]`, which is written nowhere else.
    ///
    /// # Errors
    /// As there and [`Coded::of`].
    pub fn of_gate(x: &Tensor, params: GateParams<'static>, coding: Coding) -> Result<Coded> {
        Coded::from(CodedSource::Gate(params), &[x], coding)
    }

    /// A checkpoint's codes of OCP's E4M3 as the E4M3 that MI300 multiplies natively, with scales of f32 doubled; the
    /// same numbers, but for zero's sign.
    ///
    /// # Errors
    /// Codes of another format; scales of another type.
    pub fn to_fnuz(&self) -> Result<Coded> {
        if self.coding.0 != Format::E4M3 || self.scales.dtype() != DType::F32 {
            bail!("to_fnuz: coding must be E4M3 with scales of f32, got {:?}", self.coding);
        }
        let codes = one(&kernels::halve_to_fnuz(), &[&self.codes])?;
        Ok(Coded { codes, scales: (&self.scales * 2.0)?, coding: (Format::E4M3Fnuz, self.coding.1) })
    }
}

/// The type of products of codes.
pub(crate) fn row_type(dtype: DType, op: &'static str) -> Result<rocfire_hal::DType> {
    match dtype {
        DType::F32 => Ok(rocfire_hal::DType::F32),
        DType::F16 => Ok(rocfire_hal::DType::F16),
        DType::BF16 => Ok(rocfire_hal::DType::BF16),
        other => Err(Error::UnsupportedDTypeForOp(other, op).bt()),
    }
}

/// `y = activation(x · Wᵀ + bias)` with the weight in codes and activations coded on the way; product and what follows are
/// one launch mostly. There is no gradient.
#[derive(Clone, Debug)]
pub struct QuantLinear {
    weight: Coded,
    bias: Option<Tensor>,
    activations: Coding,
    product: CodedProduct,
}

impl QuantLinear {
    /// A layer of a weight's codes, `[outputs, inputs]`, with results of `dtype`, f32, f16 or bf16. With `is_laid_out`
    /// the codes are laid out once, when the layer first runs, for products that read them past LDS where that gains
    /// something; they then lie in memory twice.
    ///
    /// # Errors
    /// Another type.
    pub fn new(
        weight: Coded,
        bias: Option<Tensor>,
        activations: Coding,
        dtype: DType,
        is_laid_out: bool,
    ) -> Result<QuantLinear> {
        let form = ProductForm { is_laid_out, has_bias: bias.is_some(), ..ProductForm::default() };
        let of_rows = row_type(dtype, "QuantLinear")?;
        let (bias, dtype) = (bias.map(|bias| bias.to_dtype(dtype)).transpose()?, of_rows);
        let product = CodedProduct::new(activations, weight.coding, dtype, form);
        Ok(QuantLinear { weight, bias, activations, product })
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

    /// `[rows, outputs]` from codes, such as [`Coded::of_rms_norm`] gives.
    ///
    /// # Errors
    /// Codes of another kind than the layer's activations, or of another number of columns.
    pub fn forward_coded(&self, x: &Coded) -> Result<Tensor> {
        one(self.product.plain(), &self.inputs(x)?)
    }

    /// The same as codes, all by one scale, f32 `[1, 1]` on the device: what comes out is nowhere else.
    ///
    /// # Errors
    /// As [`QuantLinear::forward_coded`]; without [`QuantLinear::with_codes`]; another scale.
    pub fn forward_recoded(&self, x: &Coded, scale: &Tensor) -> Result<Coded> {
        let Some((format, operator)) = self.product.recoded() else {
            bail!("QuantLinear: with_codes says of which format")
        };
        let codes = one(operator, &[&self.inputs(x)?[..], &[scale]].concat())?;
        Ok(Coded { codes, scales: scale.clone(), coding: (format, Granularity::Static) })
    }

    /// What a product reads.
    fn inputs<'t>(&'t self, x: &'t Coded) -> Result<Vec<&'t Tensor>> {
        if x.coding != self.activations {
            bail!("QuantLinear: x.coding must be {:?}, got {:?}", self.activations, x.coding);
        }
        let inputs = [&x.codes, &x.scales, &self.weight.codes, &self.weight.scales];
        Ok(inputs.into_iter().chain(&self.bias).collect())
    }
}

impl Module for QuantLinear {
    /// `[.., outputs]` from `[.., inputs]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let columns = x.dim(candle_core::D::Minus1)?;
        let y = self.forward_coded(&Coded::of(&x.reshape(((), columns))?, self.activations)?)?;
        let outputs = y.dim(1)?;
        y.reshape([&x.dims()[..x.rank() - 1], &[outputs]].concat())
    }
}
