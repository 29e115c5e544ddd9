//! Activations as graphs: their values and slopes.

use rocfire_fusion::{Unary, Value};

use crate::graphs::Maker;

/// A function of one number that is neither linear nor a reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    #[default]
    Silu,
    /// `x · Φ(x)`, by the error function.
    Gelu,
    /// The same by a hyperbolic tangent: `x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    GeluTanh,
    /// `x · sigmoid(1.702 x)`.
    QuickGelu,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
}

/// The factor within the sigmoid of [`Activation::QuickGelu`].
const QUICK: f64 = 1.702;
/// The factor of the cube in [`Activation::GeluTanh`].
const CUBE: f64 = 0.044715;

impl Activation {
    /// Every activation.
    pub const ALL: [Activation; 5] =
        [Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::QuickGelu, Activation::Sigmoid];

    /// The number that the kernels know it by.
    pub(crate) const fn number(self) -> usize {
        match self {
            Activation::Silu => 1,
            Activation::Gelu => 2,
            Activation::GeluTanh => 3,
            Activation::QuickGelu => 4,
            Activation::Sigmoid => 5,
        }
    }

    /// Its value at `x`.
    pub(crate) fn value(self, make: &mut Maker, x: Value) -> Value {
        self.both(make, x).0
    }

    /// Value and slope at `x`. What is not used of them, the graph leaves out.
    pub(crate) fn both(self, make: &mut Maker, x: Value) -> (Value, Value) {
        match self {
            Activation::Silu => logistic(make, x, 1.0),
            Activation::QuickGelu => logistic(make, x, QUICK),
            Activation::Sigmoid => {
                let s = sigmoid(make, x, 1.0);
                let one = make.constant(1.0);
                let rest = make.sub(one, s);
                (s, make.mul(s, rest))
            }
            Activation::Gelu => {
                let root = make.constant(std::f64::consts::FRAC_1_SQRT_2);
                let scaled = make.mul(x, root);
                let erf = make.unary(Unary::Erf, scaled);
                let share = above_one(make, erf);
                // The density: e^(-x²/2) / √(2π).
                let square = make.mul(x, x);
                let half = make.constant(-0.5);
                let exponent = make.mul(square, half);
                let exp = make.exp(exponent);
                let norm = make.constant(0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
                let density = make.mul(exp, norm);
                let tail = make.mul(x, density);
                (make.mul(x, share), make.add(share, tail))
            }
            Activation::GeluTanh => {
                let (root, cube) = (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2, CUBE);
                let square = make.mul(x, x);
                let [cube, cubes, root, one, half] = [cube, 3.0 * cube, root, 1.0, 0.5].map(|c| make.constant(c));
                let inner = make.mul(square, cube);
                let inner = make.add(inner, one);
                let inner = make.mul(inner, x);
                let inner = make.mul(inner, root);
                let tanh = make.unary(Unary::Tanh, inner);
                let share = above_one(make, tanh);
                let slope = make.mul(square, cubes);
                let slope = make.add(slope, one);
                let slope = make.mul(slope, root);
                let tanh_square = make.mul(tanh, tanh);
                let rest = make.sub(one, tanh_square);
                let slope = make.mul(slope, rest);
                let slope = make.mul(slope, x);
                let slope = make.mul(slope, half);
                (make.mul(x, share), make.add(share, slope))
            }
        }
    }
}

/// `1 / (1 + e^(-factor x))`.
fn sigmoid(make: &mut Maker, x: Value, factor: f64) -> Value {
    let (minus, one) = (make.constant(-factor), make.constant(1.0));
    let exponent = make.mul(x, minus);
    let exp = make.exp(exponent);
    let below = make.add(one, exp);
    make.recip(below)
}

/// `x · sigmoid(factor x)`, and its slope `s + factor · x · s · (1 - s)`.
fn logistic(make: &mut Maker, x: Value, factor: f64) -> (Value, Value) {
    let s = sigmoid(make, x, factor);
    let value = make.mul(x, s);
    let (one, by) = (make.constant(1.0), make.constant(factor));
    let rest = make.sub(one, s);
    let bend = make.mul(value, rest);
    let bend = make.mul(bend, by);
    (value, make.add(s, bend))
}

/// `(1 + x) / 2`.
fn above_one(make: &mut Maker, x: Value) -> Value {
    let (one, half) = (make.constant(1.0), make.constant(0.5));
    let above = make.add(one, x);
    make.mul(above, half)
}
