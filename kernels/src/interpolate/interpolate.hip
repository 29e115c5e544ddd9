// interpolate: images resized, and the way back.
//
//   interpolate_taps      for each row and column of the result: which rows and columns of the image it is made of, and their
//                         weights; for each row and column of the image: which of the result it went into
//   interpolate           out[n, c, y, x] = Σ over the taps of y and x of weight · weight · image[n, c, row, column]
//   interpolate_gradient  grad[n, c, row, column] = Σ over y and x that have it as a tap of weight · weight · out_grad[n, c, y, x]
//
// Shapes : images [batch, channels, height, width], strides in elements, any; tables of INTERPOLATE_TAPS per row and column of
//          the result, rows first, and of two per row and column of the image
// Grid   : (ceil(count / 256), 1, 1)            one lane per table entry, per element of grad, per INTERPOLATE_COLUMNS columns of
//          out and `rows` rows of it
// Block  : (256, 1, 1)
// Needs  : count < 2^31, extents at least 1 and below 2^29                 checked by the launcher
// Numeric: weights in f64, rounded to INTERPOLATE_SUM; products and sums in INTERPOLATE_SUM, row after row; a tap of weight 0
//          is not read, so that an infinity there does not become NaN; one rounding
//
// Macros : types INTERPOLATE_TYPE, INTERPOLATE_SUM; INTERPOLATE_TAPS (1, 2, 4, 6); INTERPOLATE_COLUMNS, more than one where columns
//          are neighbours in memory
using namespace rf;

typedef INTERPOLATE_TYPE T;
typedef INTERPOLATE_SUM Total;

enum Mode { NEAREST = 0, NEAREST_EXACT = 1, LINEAR = 2, CUBIC = 3, LANCZOS3 = 4 };

struct TapsArgs {
    i32* index;
    Total* weight;
    i32* reach;
    i32 inputs[2], outputs[2];
    i32 mode, align_corners, entries, unused;
};
static_assert(sizeof(TapsArgs) == 56, "as in interpolate.rs");

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
    if (n >= g.entries - outputs) return;
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
    i32 columns, rows, vector;
    u32 unused;
};
static_assert(sizeof(InterpolateArgs) == 168, "as in interpolate.rs");

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

// What a lane has of a row of the image: its columns of it, weighted and summed.
#if INTERPOLATE_TAPS == 1
struct Line {
    T at[INTERPOLATE_COLUMNS];
    RF_FN void read(const InterpolateArgs& g, const T* from, const i32 (*column)[1], const Total (*)[1]) {
#pragma unroll
        for (int c = 0; c < INTERPOLATE_COLUMNS; ++c)
            at[c] = from[INTERPOLATE_COLUMNS > 1 ? column[c][0] : (i64)column[c][0] * g.from_column];
    }
};
#else
struct Line {
    Total at[INTERPOLATE_COLUMNS];
    RF_FN void read(const InterpolateArgs& g, const T* from, const i32 (*column)[INTERPOLATE_TAPS],
                    const Total (*weight)[INTERPOLATE_TAPS]) {
        T pixel[INTERPOLATE_COLUMNS][INTERPOLATE_TAPS];
#pragma unroll
        for (int c = 0; c < INTERPOLATE_COLUMNS; ++c)
#pragma unroll
            for (int i = 0; i < INTERPOLATE_TAPS; ++i)
                pixel[c][i] = from[INTERPOLATE_COLUMNS > 1 ? column[c][i] : (i64)column[c][i] * g.from_column];
#pragma unroll
        for (int c = 0; c < INTERPOLATE_COLUMNS; ++c) {
            at[c] = (Total)0;
#pragma unroll
            for (int i = 0; i < INTERPOLATE_TAPS; ++i)
                if (weight[c][i] != (Total)0) at[c] = rf::fma(weight[c][i], cast<Total>(pixel[c][i]), at[c]);
        }
    }
};
#endif

// `outputs`: rows of the result, before which its columns stand in the tables. A lane goes down its columns of the result and
// keeps the lines that it has summed, since the next row is mostly made of the same ones.
extern "C" __global__ __launch_bounds__(256) void interpolate(InterpolateArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    u32 across = g.width.divide(n);
    i32 first_column = (i32)(n - across * g.width.divisor) * INTERPOLATE_COLUMNS;
    u32 image = g.height.divide(across);
    i32 y = (i32)(across - image * g.height.divisor) * g.rows;
    i32 end = g.outputs - y < g.rows ? g.outputs : y + g.rows;
    u32 batch = g.channels.divide(image), channel = image - batch * g.channels.divisor;
    const T* from = g.from + (i64)batch * g.from_batch + (i64)channel * g.from_channel;
    T* to = g.to + (i64)batch * g.to_batch + (i64)channel * g.to_channel + (i64)y * g.to_row + (i64)first_column * g.to_column;
    i32 column[INTERPOLATE_COLUMNS][INTERPOLATE_TAPS];
    Total weight[INTERPOLATE_COLUMNS][INTERPOLATE_TAPS];
#pragma unroll
    for (int c = 0; c < INTERPOLATE_COLUMNS; ++c) {
        i32 entry = first_column + c < g.columns ? first_column + c : g.columns - 1;
#pragma unroll
        for (int i = 0; i < INTERPOLATE_TAPS; ++i) {
            column[c][i] = g.index[(g.outputs + entry) * INTERPOLATE_TAPS + i];
            weight[c][i] = g.weight[(g.outputs + entry) * INTERPOLATE_TAPS + i];
        }
    }
    Line line[INTERPOLATE_TAPS];
    i32 held[INTERPOLATE_TAPS];
#pragma unroll
    for (int j = 0; j < INTERPOLATE_TAPS; ++j) held[j] = -1;
    for (; y < end; ++y, to += g.to_row) {
        Vec<T, INTERPOLATE_COLUMNS> values;
        Total of_row[INTERPOLATE_TAPS];
#pragma unroll
        for (int j = 0; j < INTERPOLATE_TAPS; ++j) {
            i32 row = g.index[y * INTERPOLATE_TAPS + j];
            of_row[j] = g.weight[y * INTERPOLATE_TAPS + j];
            if (row == held[j] || of_row[j] == (Total)0) continue;
            const int next = j + 1 < INTERPOLATE_TAPS ? j + 1 : j;
            if (row == held[next]) line[j] = line[next];
            else line[j].read(g, from + (i64)row * g.from_row, column, weight);
            held[j] = row;
        }
#pragma unroll
        for (int c = 0; c < INTERPOLATE_COLUMNS; ++c) {
#if INTERPOLATE_TAPS == 1
            values[c] = line[0].at[c];
#else
            Total sum = (Total)0;
#pragma unroll
            for (int j = 0; j < INTERPOLATE_TAPS; ++j)
                if (of_row[j] != (Total)0) sum = rf::fma(of_row[j], line[j].at[c], sum);
            values[c] = cast<T>(sum);
#endif
        }
        if (g.vector) {
            store<INTERPOLATE_COLUMNS>(to, values);
            continue;
        }
#pragma unroll
        for (int c = 0; c < INTERPOLATE_COLUMNS; ++c)
            if (first_column + c < g.columns) to[c * g.to_column] = values[c];
    }
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
