// average: the mean of each window or box, and the way back.
//
//   average           out[n, c, o] = Σ of x[n, c, i] over the elements i of box o, divided by what the box counts
//   average_gradient  x_grad[n, c, i] = Σ of grad[n, c, o] / what o counts, over the boxes o that hold i
//
// AVERAGE_ADAPTIVE 0: boxes are windows, o · stride - padding and `kernel` more; they count the elements inside x, or with
// `include_padding` those inside x and its padding. AVERAGE_ADAPTIVE 1: box o of an axis is floor(o · input / output) to
// ceil((o + 1) · input / output).
//
// Shapes : x, x_grad [batch, channels, 3 axes]; out, grad [batch, channels, 3 axes]; strides in elements, any
// Grid   : (ceil(count / 256), 1, 1)            one lane per element of out, of x_grad
// Block  : (256, 1, 1)
// Needs  : count < 2^31, spatial extents and windows within 2^29; adaptive: input · output of an axis below 2^31
//                                                                          checked by the launcher
// Numeric: sums in AVERAGE_SUM, row after row, one division (of each gradient), one rounding
//
// Macros : types AVERAGE_TYPE, AVERAGE_SUM; AVERAGE_ADAPTIVE; AVERAGE_GRADIENT
using namespace rf;

typedef AVERAGE_TYPE T;
typedef AVERAGE_SUM Total;

struct AverageArgs {
    const T* from;      // x, or grad
    T* to;              // out, or x_grad
    i64 from_batch, from_channel, to_batch, to_channel;
    i64 from_axis[3], to_axis[3];
    i32 stride[3], padding[3], kernel[3];
    i32 input[3], output[3];
    // `step`: strides; adaptive: outputs, and `inputs` inputs.
    FastDiv extent[3], channels, step[3], inputs[3];
    // `last`: lanes side by side take channels side by side.
    u32 count, include_padding, last;
};
static_assert(sizeof(AverageArgs) == 288, "as in average.rs");

struct Box { i32 first, end, count; };

// The elements that a box takes in along an axis, and how many it counts.
RF_FN Box box(const AverageArgs& g, int axis, i32 o) {
    Box b;
    i32 input = g.input[axis];
#if AVERAGE_ADAPTIVE
    u32 product = (u32)o * (u32)input;
    b.first = (i32)g.step[axis].divide(product);
    b.end = (i32)g.step[axis].divide(product + (u32)input + g.step[axis].divisor - 1);
    b.count = b.end - b.first;
#else
    i32 first = o * g.stride[axis] - g.padding[axis], end = first + g.kernel[axis];
    i32 padded = input + g.padding[axis];
    b.first = first < 0 ? 0 : first;
    b.end = end < input ? end : input;
    i32 inside = b.end > b.first ? b.end - b.first : 0;
    b.count = g.include_padding ? (end < padded ? end : padded) - first : inside;
#endif
    if (b.count < 1) b.count = 1;
    return b;
}

// The boxes that may hold coordinate `at`.
RF_FN void boxes(const AverageArgs& g, int axis, i32 at, i32* first, i32* end) {
#if AVERAGE_ADAPTIVE
    u32 product = (u32)at * (u32)g.output[axis];
    *first = (i32)g.inputs[axis].divide(product);
    i32 last = (i32)g.inputs[axis].divide(product + (u32)g.output[axis] + g.inputs[axis].divisor - 1);
    *end = last < g.output[axis] ? last : g.output[axis];
#else
    i32 shifted = at + g.padding[axis], reach = shifted - (g.kernel[axis] - 1);
    *first = reach <= 0 ? 0 : (i32)g.step[axis].divide((u32)(reach + g.stride[axis] - 1));
    i32 last = (i32)g.step[axis].divide((u32)shifted);
    *end = last < g.output[axis] ? last + 1 : g.output[axis];
#endif
}

#define AT_ONCE 4
#if AVERAGE_GRADIENT
#define AVERAGE_KERNEL average_gradient
#else
#define AVERAGE_KERNEL average
#endif

extern "C" __global__ __launch_bounds__(256) void AVERAGE_KERNEL(AverageArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    i32 first[3], end[3];
    Total divisor = (Total)1;
    i64 to = 0;
    u32 channel = 0;
    if (g.last) {
        u32 places = g.channels.divide(n);
        channel = n - places * g.channels.divisor;
        n = places;
    }
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        u32 rest = g.extent[axis].divide(n);
        i32 at = (i32)(n - rest * g.extent[axis].divisor);
        n = rest;
        to += (i64)at * g.to_axis[axis];
#if AVERAGE_GRADIENT
        boxes(g, axis, at, first + axis, end + axis);
#else
        Box b = box(g, axis, at);
        first[axis] = b.first;
        end[axis] = b.end;
        divisor *= (Total)b.count;
#endif
    }
    u32 batch = n;
    if (!g.last) {
        batch = g.channels.divide(n);
        channel = n - batch * g.channels.divisor;
    }
    const T* from = g.from + (i64)batch * g.from_batch + (i64)channel * g.from_channel;
    to += (i64)batch * g.to_batch + (i64)channel * g.to_channel;
    Total sum = (Total)0;
    for (i32 c0 = first[0]; c0 < end[0]; ++c0)
        for (i32 c1 = first[1]; c1 < end[1]; ++c1) {
            const T* line = from + (i64)c0 * g.from_axis[0] + (i64)c1 * g.from_axis[1];
#if AVERAGE_GRADIENT
            Total counted = (Total)box(g, 0, c0).count * (Total)box(g, 1, c1).count;
#endif
            // A few elements at once, so that their loads overlap; past the box its first is read and forgotten.
            for (i32 c2 = first[2]; c2 < end[2]; c2 += AT_ONCE) {
                T elements[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    elements[i] = line[(i64)(c2 + i < end[2] ? c2 + i : c2) * g.from_axis[2]];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    if (c2 + i >= end[2]) continue;
                    Total value = cast<Total>(elements[i]);
#if AVERAGE_GRADIENT
                    value /= counted * (Total)box(g, 2, c2 + i).count;
#endif
                    sum += value;
                }
            }
        }
    g.to[to] = cast<T>(sum / divisor);
}
