//! The prelude's functions on the emulated device, or on that of `ROCFIRE_DEVICE`, against the host's, in units in the last
//! place.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, TAU};

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::Work;
use rocfire_hal::{DType, Device, DeviceId, Launch, Source, Tensor};

const BLOCK: usize = 256;

/// Names, references, and the limits for float and double. What the host's library lacks or does badly is made of others,
/// which costs the reference of doubles a few units; that of floats none.
type Reference = fn(f64) -> f64;
const UNARY: [(&str, Reference, f64); 22] = [
    ("exp", f64::exp, 2.0),
    ("exp2", f64::exp2, 2.0),
    ("expm1", f64::exp_m1, 3.0),
    ("log", f64::ln, 2.0),
    ("log2", f64::log2, 2.0),
    ("log10", f64::log10, 3.0),
    ("log1p", f64::ln_1p, 2.0),
    ("sqrt", f64::sqrt, 0.5),
    ("rsqrt", |x| 1.0 / x.sqrt(), 3.0),
    ("sin", f64::sin, 4.0),
    ("cos", f64::cos, 4.0),
    ("tan", f64::tan, 5.0),
    ("sinh", f64::sinh, 4.0),
    ("cosh", f64::cosh, 4.0),
    ("tanh", f64::tanh, 4.0),
    ("asin", f64::asin, 4.0),
    ("acos", f64::acos, 4.0),
    ("atan", f64::atan, 4.0),
    ("asinh", asinh, 6.0),
    ("acosh", acosh, 6.0),
    ("atanh", atanh, 6.0),
    ("erf", erf, 4.0),
];
type Reference2 = fn(f64, f64) -> f64;
const BINARY: [(&str, Reference2, f64); 5] = [
    ("pow", f64::powf, 3.0),
    ("atan2", f64::atan2, 4.0),
    ("hypot", f64::hypot, 3.0),
    ("fmod", |x, y| x % y, 0.0),
    ("floor_mod", floor_mod, 0.0),
];
/// Of every function of floats.
const FLOAT_LIMIT: f64 = 2.0;

/// Rust's own lose digits near 0.
fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let y = if a > 1e150 { a.ln() + LN_2 } else { (a + a * a / (1.0 + a.hypot(1.0))).ln_1p() };
    y.copysign(x)
}

fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x < 1.0 {
        f64::NAN
    } else if x > 1e150 {
        x.ln() + LN_2
    } else {
        (t + (t * (t + 2.0)).sqrt()).ln_1p()
    }
}

fn atanh(x: f64) -> f64 {
    (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x)
}

/// Below 1 the Maclaurin series; above, the continued fraction of the complement (Abramowitz and Stegun 7.1.14), whose
/// errors are small beside 1.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let y = if x.is_nan() {
        return x;
    } else if a < 1.0 {
        let (mut power, mut sum) = (a, 0.0);
        let mut terms = Vec::new();
        for n in 1..40 {
            power *= -a * a / f64::from(n);
            terms.push(power / f64::from(2 * n + 1));
        }
        // The smallest first.
        terms.iter().rev().for_each(|term| sum += term);
        FRAC_2_SQRT_PI * (a + sum)
    } else if a < 7.0 {
        let tail = (1..4000).rev().fold(a, |tail, n| a + f64::from(n) / 2.0 / tail);
        1.0 - (-a * a).exp() * FRAC_2_SQRT_PI / 2.0 / tail
    } else {
        1.0
    };
    y.copysign(x)
}

fn floor_mod(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct MathArgs {
    x: u64,
    y: u64,
    out: u64,
    count: u32,
    padding: u32,
}

/// One kernel per function, all in one source.
fn source(scalar: &'static str) -> Source {
    let unary = UNARY.iter().map(|(name, ..)| format!("UNARY({name})"));
    let binary = BINARY.iter().map(|(name, ..)| format!("BINARY({name})"));
    let kernels: Vec<String> = unary.chain(binary).collect();
    let text = format!(
        "struct MathArgs {{ const MATH_TYPE* x; const MATH_TYPE* y; MATH_TYPE* out; rf::u32 count, padding; }};\n\
         #define KERNEL(name, value) extern \"C\" __global__ __launch_bounds__({BLOCK}) void k_##name(MathArgs a) {{ \
         rf::u32 i = rf::group_x() * {BLOCK} + rf::thread_x(); if (i < a.count) a.out[i] = value; }}\n\
         #define UNARY(name) KERNEL(name, rf::name(a.x[i]))\n\
         #define BINARY(name) KERNEL(name, rf::name(a.x[i], a.y[i]))\n{}\n",
        kernels.join("\n")
    );
    Source::new("math", text, &[("MATH_TYPE", scalar)])
}

struct Bench {
    device: Device,
    dtype: DType,
    source: Source,
}

impl Bench {
    fn new(dtype: DType) -> Bench {
        let id = match std::env::var_os("ROCFIRE_DEVICE") {
            Some(_) => DeviceId::from_env(),
            None => DeviceId::emulated("gfx942"),
        };
        let device = Device::get(id.unwrap()).unwrap();
        let source = source(if dtype == DType::F32 { "float" } else { "double" });
        Bench { device, dtype, source }
    }

    fn bytes(&self, values: &[f64]) -> Vec<u8> {
        match self.dtype {
            DType::F32 => values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    fn run(&self, name: &str, x: &[f64], y: &[f64]) -> Vec<f64> {
        let shape = [x.len()];
        let upload = |values| Tensor::from_bytes(&self.device, &shape, self.dtype, &self.bytes(values)).unwrap();
        let (x_tensor, y_tensor) = (upload(x), upload(y));
        let out = Tensor::empty(&self.device, &shape, self.dtype).unwrap();
        let args = MathArgs {
            x: x_tensor.view().device_address(),
            y: y_tensor.view().device_address(),
            out: out.view().device_address(),
            count: x.len() as u32,
            padding: 0,
        };
        let function = self.device.module(&self.source).unwrap().function(&format!("k_{name}")).unwrap();
        let launch = Launch {
            label: "math",
            grid: [x.len().div_ceil(BLOCK) as u32, 1, 1],
            block: [BLOCK as u32, 1, 1],
            lds_bytes: 0,
            args: bytemuck::bytes_of(&args),
            outputs: &[out.buffer()],
            work: Work::default(),
        };
        // SAFETY: the arguments are those of the kernel above, with tensors of `count` elements that outlive the launch.
        unsafe { self.device.stream().launch(&function, &launch).unwrap() };
        let bytes = out.to_bytes().unwrap();
        match self.dtype {
            DType::F32 => bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap()).into()).collect(),
            _ => bytes.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect(),
        }
    }

    /// The error in units of the last place of the result; infinite where kinds of numbers differ.
    fn error(&self, got: f64, want: f64) -> f64 {
        let (mantissa, least) = if self.dtype == DType::F32 { (24, -149) } else { (53, -1074) };
        let rounded = if self.dtype == DType::F32 { f64::from(want as f32) } else { want };
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        if !got.is_finite() || !rounded.is_finite() || (got == 0.0 && rounded == 0.0) {
            // A result next to overflow may round to either side.
            let largest = if self.dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
            let close = got.signum() == want.signum() && got.abs() >= largest && want.abs() >= largest * (1.0 - 1e-7);
            return if close { 1.0 } else { f64::INFINITY };
        }
        let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1022).max(least + mantissa);
        // In two steps, as the smallest unit is subnormal.
        (got - want).abs()
            * 2f64.powi((mantissa - exponent) / 2)
            * 2f64.powi(mantissa - exponent - (mantissa - exponent) / 2)
    }

    fn round(&self, value: f64) -> f64 {
        if self.dtype == DType::F32 { f64::from(value as f32) } else { value }
    }
}

/// Special values and ranges: everyday, wide, tiny, whole.
fn arguments(bench: &Bench, count: usize, seed: u64) -> Vec<f64> {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        3e38,
        88.8,
        89.0,
        -87.4,
        -104.0,
        710.0,
        -745.2,
        0.92,
        0.57,
        3.93,
        1e5,
        -1e5,
        16777217.0,
        TAU,
        TAU / 4.0,
        5e-324,
        1e300,
        7.5,
        22.0,
        0.999_999_94,
    ];
    let mut state = seed;
    let mut next = || {
        // Numerical Recipes' 64-bit congruential generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 * 0.5f64.powi(53)
    };
    let random = (0..count).map(|n| {
        let (sign, u, v) = (if n % 2 == 0 { 1.0 } else { -1.0 }, next(), next());
        let value = match n / 2 % 5 {
            0 => u,
            1 => u * 20.0,
            2 => u * 2f64.powi((v * 60.0) as i32),
            3 => u * 2f64.powi(-(v * 140.0) as i32),
            _ => (u * 40.0).floor(),
        };
        sign * value
    });
    specials.into_iter().chain(random).map(|value| bench.round(value)).collect()
}

fn check(bench: &Bench, name: &str, limit: f64, x: &[f64], y: &[f64], reference: impl Fn(f64, f64) -> f64) {
    let limit = if bench.dtype == DType::F32 { limit.min(FLOAT_LIMIT) } else { limit };
    for ((&x, &y), got) in x.iter().zip(y).zip(bench.run(name, x, y)) {
        let want = reference(x, y);
        let error = bench.error(got, want);
        assert!(error <= limit, "{name}({x:e}, {y:e}) of {} is {got:e}, not {want:e}: {error} ulp", bench.dtype);
    }
}

#[test]
fn functions_of_one_argument_are_accurate() {
    for dtype in [DType::F32, DType::F64] {
        let bench = Bench::new(dtype);
        let x = arguments(&bench, 6000, 1);
        for (name, reference, limit) in UNARY {
            check(&bench, name, limit, &x, &x, |x, _| reference(x));
        }
    }
}

#[test]
fn functions_of_two_arguments_are_accurate() {
    for dtype in [DType::F32, DType::F64] {
        let bench = Bench::new(dtype);
        let (mut x, mut y) = (arguments(&bench, 6000, 2), arguments(&bench, 6000, 3));
        // Every pair of the first special values.
        for n in 0..20 * 20 {
            (x[n], y[n]) = (arguments(&bench, 0, 0)[n % 20], arguments(&bench, 0, 0)[n / 20]);
        }
        for (name, reference, limit) in BINARY {
            // The sum of a remainder and a float divisor rounds in float.
            let reference = |x, y| if name == "floor_mod" { bench.round(reference(x, y)) } else { reference(x, y) };
            check(&bench, name, limit, &x, &y, reference);
        }
    }
}
