// interpolate: images resized, and the way back.
//
//   interpolate_taps      for each row and column of the result: which rows and columns of the image it is made of, and their
//                         weights; for each row and column of the image: which of the result it went into
//   interpolate           out[n, c, y, x] = Σ over the taps of y and x of weight · weight · image[n, c, row, column]
//   interpolate_gradient  grad[n, c, row, column] = Σ over y and x that have it as a tap of weight · weight · out_grad[n, c, y, x]
//
// Shapes : images [batch, channels, height, width], strides in elements, any; tables of INTERPOLATE_TAPS per row and column of
//          the result, rows first, and of two per row and column of the image
// Grid   : (ceil(count / 256), 1, 1)            one lane per table entry, per element of out, of grad
// Block  : (256, 1, 1)
// Needs  : count < 2^31, extents at least 1 and below 2^29                 checked by the launcher
// Numeric: weights in f64, rounded to INTERPOLATE_SUM; products and sums in INTERPOLATE_SUM, row after row; a tap of weight 0
//          is not read, so that an infinity there does not become NaN; one rounding
//
// Macros : types INTERPOLATE_TYPE, INTERPOLATE_SUM; INTERPOLATE_TAPS (1, 2, 4, 6)
using namespace rf;

typedef INTERPOLATE_TYPE T;
typedef INTERPOLATE_SUM Total;

enum Mode { NEAREST = 0, NEAREST_EXACT = 1, LINEAR = 2, CUBIC = 3, LANCZOS3 = 4 };

struct TapsArgs {
    i32* index;
    Total* weight;
    i32* reach;
    i32 inputs[2], outputs[2];
    i32 mode, align_corners;
};
static_assert(sizeof(TapsArgs) == 48, "as in interpolate.rs");

struct Taps { i32 index[INTERPOLATE_TAPS]; double weight[INTERPOLATE_TAPS]; };

// Keys' cubic convolution (IEEE Trans. ASSP 29, 1981, eq. 4) with the parameter that image libraries use.
RF_FN double cubic(double distance) {
    const double a = -0.75;
    double t = __builtin_fabs(distance);
    if (t < 1.0) return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    return t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a : 0.0;
}

RF_FN i32 clamp(i32 value, i32 last) { return value < 0 ? 0 : value > last ? last : value; }

// The taps of one index of the result, in ascending order of their places.
RF_FN Taps taps(i32 output, i32 inputs, i32 outputs, i32 mode, i32 align_corners) {
    Taps t;
    i32 last = inputs - 1;
    double ratio = (double)inputs / (double)outputs;
#if INTERPOLATE_TAPS == 1
    double at = mode == NEAREST ? (double)output * ratio : ((double)output + 0.5) * ratio;
    t.index[0] = clamp((i32)at, last);
    t.weight[0] = 1.0;
#else
    i32 steps = outputs > 1 ? outputs - 1 : 1;
    double at = align_corners ? (double)output * ((double)last / (double)steps) : ((double)output + 0.5) * ratio - 0.5;
#if INTERPOLATE_TAPS == 2
    i32 low = at > 0.0 ? (i32)at : 0;
    double weight = at - (double)low;
    weight = weight > 0.0 ? weight : 0.0;
    t.index[0] = clamp(low, last);
    t.index[1] = clamp(low + 1, last);
    t.weight[0] = 1.0 - weight;
    t.weight[1] = weight;
#elif INTERPOLATE_TAPS == 4
    double base = __builtin_floor(at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        t.index[i] = clamp((i32)base + i - 1, last);
        t.weight[i] = cubic(at - base - (double)(i - 1));
    }
#else
    // The sinc windowed by the middle lobe of one three times as wide; taps outside of the image are left out and the weights of
    // the others made to sum to 1.
    double base = __builtin_floor(at), total = 0.0;
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        i32 index = (i32)base + i - 2;
        double distance = at - (double)index, x = 3.14159265358979323846 * distance;
        double value = x == 0.0 ? 1.0 : 3.0 * rf::sin(x) * rf::sin(x / 3.0) / (x * x);
        if (index < 0 || index > last || __builtin_fabs(distance) >= 3.0) value = 0.0;
        t.index[i] = clamp(index, last);
        t.weight[i] = value;
        total += value;
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) t.weight[i] /= total;
#endif
#endif
    return t;
}

extern "C" __global__ __launch_bounds__(256) void interpolate_taps(TapsArgs g) {
    i32 n = (i32)(group_x() * 256 + thread_x()), outputs = g.outputs[0] + g.outputs[1];
    if (n < outputs) {
        int axis = n >= g.outputs[0];
        Taps t = taps(axis ? n - g.outputs[0] : n, g.inputs[axis], g.outputs[axis], g.mode, g.align_corners);
#pragma unroll
        for (int i = 0; i < INTERPOLATE_TAPS; ++i) {
            g.index[n * INTERPOLATE_TAPS + i] = t.index[i];
            g.weight[n * INTERPOLATE_TAPS + i] = (Total)t.weight[i];
        }
        return;
    }
    n -= outputs;
    if (n >= g.inputs[0] + g.inputs[1]) return;
    int axis = n >= g.inputs[0];
    i32 input = axis ? n - g.inputs[0] : n;
    // Places of taps never fall, so the outputs that may hold this input follow each other: the first whose last tap reaches
    // it, to the first whose first tap is past it.
    for (int side = 0; side < 2; ++side) {
        i32 low = 0, high = g.outputs[axis];
        while (low < high) {
            i32 middle = low + (high - low) / 2;
            Taps t = taps(middle, g.inputs[axis], g.outputs[axis], g.mode, g.align_corners);
            bool past = side ? t.index[0] > input : t.index[INTERPOLATE_TAPS - 1] >= input;
            low = past ? low : middle + 1;
            high = past ? middle : high;
        }
        g.reach[2 * n + side] = low;
    }
}

struct InterpolateArgs {
    const T* from;
    T* to;
    const i32* index;
    const Total* weight;
    const i32* reach;
    i64 from_batch, from_channel, from_row, from_column, to_batch, to_channel, to_row, to_column;
    FastDiv height, width, channels;
    i32 inputs, outputs;
    u32 count;
};
static_assert(sizeof(InterpolateArgs) == 152, "as in interpolate.rs");

struct Pixel { i32 row, column; i64 from, to; };

RF_FN Pixel pixel(const InterpolateArgs& g, u32 n) {
    Pixel p;
    u32 line = g.width.divide(n);
    p.column = (i32)(n - line * g.width.divisor);
    u32 image = g.height.divide(line);
    p.row = (i32)(line - image * g.height.divisor);
    u32 batch = g.channels.divide(image), channel = image - batch * g.channels.divisor;
    p.from = (i64)batch * g.from_batch + (i64)channel * g.from_channel;
    p.to = (i64)batch * g.to_batch + (i64)channel * g.to_channel + (i64)p.row * g.to_row + (i64)p.column * g.to_column;
    return p;
}

// `outputs`: rows of the result, before which its columns stand in the tables.
extern "C" __global__ __launch_bounds__(256) void interpolate(InterpolateArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Pixel p = pixel(g, n);
    const T* from = g.from + p.from;
#if INTERPOLATE_TAPS == 1
    i32 row = g.index[p.row], column = g.index[g.outputs + p.column];
    g.to[p.to] = from[(i64)row * g.from_row + (i64)column * g.from_column];
#else
    i32 column[INTERPOLATE_TAPS];
    Total weight[INTERPOLATE_TAPS];
#pragma unroll
    for (int i = 0; i < INTERPOLATE_TAPS; ++i) {
        column[i] = g.index[(g.outputs + p.column) * INTERPOLATE_TAPS + i];
        weight[i] = g.weight[(g.outputs + p.column) * INTERPOLATE_TAPS + i];
    }
    Total sum = (Total)0;
#pragma unroll
    for (int j = 0; j < INTERPOLATE_TAPS; ++j) {
        const T* line = from + (i64)g.index[p.row * INTERPOLATE_TAPS + j] * g.from_row;
        Total of_row = g.weight[p.row * INTERPOLATE_TAPS + j], inner = (Total)0;
        if (of_row == (Total)0) continue;
#pragma unroll
        for (int i = 0; i < INTERPOLATE_TAPS; ++i)
            if (weight[i] != (Total)0) inner = rf::fma(weight[i], cast<Total>(line[(i64)column[i] * g.from_column]), inner);
        sum = rf::fma(of_row, inner, sum);
    }
    g.to[p.to] = cast<T>(sum);
#endif
}

// The weight that an input has among the taps of entry `n`.
RF_FN Total weight_of(const InterpolateArgs& g, i32 n, i32 input) {
    Total weight = (Total)0;
#pragma unroll
    for (int i = 0; i < INTERPOLATE_TAPS; ++i)
        if (g.index[n * INTERPOLATE_TAPS + i] == input) weight += g.weight[n * INTERPOLATE_TAPS + i];
    return weight;
}

extern "C" __global__ __launch_bounds__(256) void interpolate_gradient(InterpolateArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Pixel p = pixel(g, n);
    const T* from = g.from + p.from;
    const i32 *rows = g.reach + 2 * p.row, *columns = g.reach + 2 * (g.inputs + p.column);
    Total sum = (Total)0;
    for (i32 y = rows[0]; y < rows[1]; ++y) {
        Total of_row = weight_of(g, y, p.row), inner = (Total)0;
        if (of_row == (Total)0) continue;
        for (i32 x = columns[0]; x < columns[1]; ++x) {
            Total weight = weight_of(g, g.outputs + x, p.column);
            if (weight != (Total)0)
                inner = rf::fma(weight, cast<Total>(from[(i64)y * g.from_row + (i64)x * g.from_column]), inner);
        }
        sum = rf::fma(of_row, inner, sum);
    }
    g.to[p.to] = cast<T>(sum);
}
