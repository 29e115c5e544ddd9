//! Unary operators in f64, for the tests of this crate and of Candle's kernels.

use rocfire_fusion::Unary;

/// The error function.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    // The Taylor series of 2/√π ∫ exp(-t²), with the common factor exp(-x²) taken out so that no term cancels another.
    let mut term = x;
    let mut sum = x;
    for n in 1..300 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
}

/// What a unary operator gives of a float.
pub fn unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x > 0.0 => 1.0,
        Unary::Sign if x < 0.0 => -1.0,
        Unary::Sign => 0.0,
        Unary::Exp | Unary::ExpNear | Unary::ExpBelow => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip | Unary::RecipNear => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Asinh => (x.abs() + (x * x + 1.0).sqrt()).ln().copysign(x),
        Unary::Acosh => x.acosh(),
        // The standard library's own loses digits near -1.
        Unary::Atanh => ((x.abs().ln_1p() - (-x.abs()).ln_1p()) / 2.0).copysign(x),
        Unary::Erf => erf(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        _ => unreachable!("{op} gives no float"),
    }
}
