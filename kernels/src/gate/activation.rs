//! Activations as graphs: their values and slopes.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use rocfire_fusion::{Term, Unary};

use crate::graphs::Precision;

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

    /// Its value at `x`, as part of a graph, in `x`'s type.
    pub fn of(self, x: Term<'_>) -> Term<'_> {
        self.value(Precision::Exact, x)
    }

    /// Its value at `x`.
    pub(crate) fn value(self, precision: Precision, x: Term<'_>) -> Term<'_> {
        self.both(precision, x).0
    }

    /// Value and slope at `x`. What is not used of them, the graph leaves out.
    pub(crate) fn both(self, precision: Precision, x: Term<'_>) -> (Term<'_>, Term<'_>) {
        match self {
            Activation::Silu => logistic(precision, x, 1.0),
            Activation::QuickGelu => logistic(precision, x, QUICK),
            Activation::Sigmoid => {
                let s = sigmoid(precision, x, 1.0);
                (s, s * (1.0 - s))
            }
            Activation::Gelu => {
                let share = (1.0 + (x * FRAC_1_SQRT_2).unary(Unary::Erf)) * 0.5;
                // e^(-x²/2) / √(2π).
                let density = precision.exp(x * x * -0.5) * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
                (x * share, share + x * density)
            }
            // (1 + tanh(u)) / 2 is sigmoid(2 u), where nothing cancels for negative u.
            Activation::GeluTanh => {
                let (square, twice) = (x * x, FRAC_2_SQRT_PI * SQRT_2);
                let share = sigmoid(precision, (square * CUBE + 1.0) * x, twice);
                let value = x * share;
                (value, share + value * (1.0 - share) * ((square * (3.0 * CUBE) + 1.0) * twice))
            }
        }
    }
}

/// `1 / (1 + e^(-factor x))`.
fn sigmoid(precision: Precision, x: Term<'_>, factor: f64) -> Term<'_> {
    precision.recip(1.0 + precision.exp(x * -factor))
}

/// `x · sigmoid(factor x)`, and its slope `s + factor · x · s · (1 - s)`.
fn logistic(precision: Precision, x: Term<'_>, factor: f64) -> (Term<'_>, Term<'_>) {
    let s = sigmoid(precision, x, factor);
    let value = x * s;
    (value, s + value * (1.0 - s) * factor)
}
