// operators.h: what elementwise kernels do to a value of f32, f64 or an integer type, as Candle defines it.
#ifndef CANDLE_OPERATORS_H
#define CANDLE_OPERATORS_H

#define CANDLE_UNARY(NAME, RESULT) \
    struct NAME { template <class T> RF_FN T of(T x) const { return RESULT; } };

CANDLE_UNARY(Same, x)
CANDLE_UNARY(Abs, rf::abs(x))
CANDLE_UNARY(Ceil, rf::ceil(x))
CANDLE_UNARY(Cos, rf::cos(x))
CANDLE_UNARY(Erf, rf::erf(x))
CANDLE_UNARY(Exp, rf::exp(x))
CANDLE_UNARY(Floor, rf::floor(x))
// 1 / (1 + exp(-x)) by the power that is at most 1, so that it is no zero where the other one is infinite.
template <class T> RF_FN T logistic(T x) {
    T power = rf::exp(-rf::abs(x));
    return (x < (T)0 ? power : (T)1) / ((T)1 + power);
}
// The approximation by tanh, x / 2 · (1 + tanh(u)), as x · logistic(2 u), where nothing cancels; 1.595… is 2 sqrt(2 / π).
CANDLE_UNARY(Gelu, x * logistic((T)1.59576912160573071176 * (x + (T)0.044715 * x * x * x)))
// x · Φ(x).
CANDLE_UNARY(GeluErf, (T)0.5 * x * ((T)1 + rf::erf(x * (T)0.70710678118654752440)))
CANDLE_UNARY(Log, rf::log(x))
CANDLE_UNARY(Neg, -x)
CANDLE_UNARY(Recip, (T)1 / x)
// Ties away from zero.
CANDLE_UNARY(Round, rf::copysign(rf::trunc(rf::abs(x)) + (rf::abs(x) - rf::trunc(rf::abs(x)) >= (T)0.5 ? (T)1 : (T)0), x))
CANDLE_UNARY(Sigmoid, logistic(x))
// 0 for zeros and NaN.
CANDLE_UNARY(Sign, (T)(x > (T)0) - (T)(x < (T)0))
CANDLE_UNARY(Silu, x / ((T)1 + rf::exp(-x)))
CANDLE_UNARY(Sin, rf::sin(x))
CANDLE_UNARY(Sqr, x * x)
CANDLE_UNARY(Sqrt, rf::sqrt(x))
CANDLE_UNARY(Tanh, rf::tanh(x))
// NaN gives 0, as on Candle's CPU device.
CANDLE_UNARY(Relu, x > (T)0 ? x : (T)0)

// Candle's CPU device asks for the sign: 0 stays where alpha is infinite, and -0 does not.
template <class T> struct Elu {
    T alpha;
    RF_FN T of(T x) const { return rf::copysign((T)1, x) > (T)0 ? x : alpha * (rf::exp(x) - (T)1); }
};
template <class T> struct Powf { T power; RF_FN T of(T x) const { return rf::pow(x, power); } };
template <class T> struct Affine {
    T factor, summand;
    RF_FN T of(T x) const { return (T)(x * factor + summand); }
};

// --- two operands ---

#define CANDLE_BINARY(NAME, RESULT) \
    struct NAME { template <class T> RF_FN static T of(T x, T y) { return RESULT; } };
#define CANDLE_COMPARE(NAME, RESULT) \
    struct NAME { template <class T> RF_FN static u8 of(T x, T y) { return RESULT ? 1 : 0; } };

template <class T> struct Quotient {
    // A divisor of 0, which on a CPU panics, gives all ones, as integer division on GPUs does.
    RF_FN static T of(T x, T y) { return y == (T)0 ? (T)~(T)0 : (T)(x / y); }
};
template <> struct Quotient<float> { RF_FN static float of(float x, float y) { return x / y; } };
template <> struct Quotient<double> { RF_FN static double of(double x, double y) { return x / y; } };

CANDLE_BINARY(Add, (T)(x + y))
CANDLE_BINARY(Sub, (T)(x - y))
CANDLE_BINARY(Mul, (T)(x * y))
CANDLE_BINARY(Div, Quotient<T>::of(x, y))
// The first stays unless the second is beyond it, as on Candle's CPU device: a NaN that comes first is kept, one that comes
// second is not, and of equal zeros the first one's sign stays.
CANDLE_BINARY(Maximum, x < y ? y : x)
CANDLE_BINARY(Minimum, x > y ? y : x)
CANDLE_COMPARE(Equal, x == y)
CANDLE_COMPARE(NotEqual, x != y)
CANDLE_COMPARE(Less, x < y)
CANDLE_COMPARE(LessEqual, x <= y)
CANDLE_COMPARE(Greater, x > y)
CANDLE_COMPARE(GreaterEqual, x >= y)

#endif
