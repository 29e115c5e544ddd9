//! Activations. Burn composes all of them of other operators except one.

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{Scalar, TensorMetadata};
use burn_std::{DType, FloatDType};

use crate::recorder::backend::Fused;
use crate::recorder::channel::Lazy;

impl ActivationOps<Fused> for Fused {
    /// The derivative of [`ActivationOps::gelu`] itself, in f32 with one rounding (f64 in f64), as in the eager backend. Burn's default
    /// is the derivative of the approximation by tanh; in a model that computes in 16 bits each of its 16 steps is rounded to these.
    fn gelu_backward(x: Lazy, grad: Lazy) -> Lazy {
        let dtype = x.dtype();
        let wide = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
        let scaled = |value: Lazy, by: f64| Fused::float_mul_scalar(value, Scalar::Float(by));
        let (x, grad) = (Fused::float_cast(x, wide), Fused::float_cast(grad, wide));
        let erf = Fused::float_erf(Fused::float_div_scalar(x.clone(), Scalar::Float(std::f64::consts::SQRT_2)));
        let below = scaled(Fused::float_add_scalar(erf, Scalar::Float(1.0)), 0.5);
        let bell = Fused::float_exp(scaled(Fused::float_mul(x.clone(), x.clone()), -0.5));
        let density = scaled(bell, 1.0 / (2.0 * std::f64::consts::PI).sqrt());
        let slope = Fused::float_add(below, Fused::float_mul(x, density));
        Fused::float_cast(Fused::float_mul(grad, slope), dtype.into())
    }
}
