// direct: convolutions of groups with so few channels that a tile of a matrix product would be empty: an element per lane.
//
//   direct         out[n, g, m, place] = Σ over (c, tap) of a[g, m, c, tap] · x[n, g, c, place · mul + tap · dil + off]  (+ bias)
//   direct_weight  out[g, m, c, tap] = Σ over (n, place) of a[n, g, m, place] · x[n, g, c, place · mul + tap · dil + off]
//
// Shapes : three spatial axes, strides in elements, any; direct_weight's out contiguous
// Grid   : direct (ceil(count / 256), 1, 1)      one lane per element of out
//          direct_weight (count, 1, 1)           one workgroup per element of out
// Block  : (256, 1, 1)
// LDS    : direct_weight 256 sums, static
// Needs  : numbers of elements and steps below 2^31                        checked by the launcher
// Numeric: products and sums in DIRECT_SUM. direct: channel by channel, in each tap by tap. direct_weight: lane l sums
//          the steps l, l + 256, …; then the lanes are added pairwise, l and l + 128, l + 64, …: one order for every wave
//          size. One rounding at the store
//
// Macros : types DIRECT_IN, DIRECT_SUM; DIRECT_EPILOGUE: 1 where the text of a `fusion` epilogue stands in front of this one: it
//          stores what it computes of out, along spatial axes, channels and batch, and nothing else is stored
using namespace rf;

typedef DIRECT_IN In;
typedef DIRECT_SUM Total;

struct DirectArgs {
    const In* a;
    const In* x;
    const In* bias;
    In* out;
    i64 a_group, a_row, a_channel, a_batch;
    i64 x_batch, x_channel, out_batch, out_channel;
    i64 a_axis[3], x_axis[3], out_axis[3];
    i32 extent[3], mul[3], dil[3], off[3];
    FastDiv place[3], tap[3], rows, channels, groups;
    u32 count, steps, padding;
#if DIRECT_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if DIRECT_EPILOGUE
static_assert(sizeof(DirectArgs) == 336 + sizeof(EpilogueArgs), "as in direct.rs");
#else
static_assert(sizeof(DirectArgs) == 336, "as in direct.rs");
#endif

struct Decoded { i32 at[3]; u32 rest; };

RF_FN Decoded decode(const FastDiv* extents, u32 n) {
    Decoded p;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        u32 rest = extents[axis].divide(n);
        p.at[axis] = (i32)(n - rest * extents[axis].divisor);
        n = rest;
    }
    p.rest = n;
    return p;
}

extern "C" __global__ __launch_bounds__(256) void direct(DirectArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Decoded p = decode(g.place, n);
    u32 rest = g.rows.divide(p.rest), row = p.rest - rest * g.rows.divisor;
    u32 batch = g.groups.divide(rest), group = rest - batch * g.groups.divisor;
    i32 first[3];
    i64 to = (i64)batch * g.out_batch + (i64)(group * g.rows.divisor + row) * g.out_channel;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        first[axis] = p.at[axis] * g.mul[axis] + g.off[axis];
        to += (i64)p.at[axis] * g.out_axis[axis];
    }
    const In* a = g.a + (i64)group * g.a_group + (i64)row * g.a_row;
    const In* x = g.x + (i64)batch * g.x_batch + (i64)group * g.channels.divisor * g.x_channel;
    Total sum = (Total)0;
    for (u32 c = 0; c < g.channels.divisor; ++c, a += g.a_channel, x += g.x_channel)
        for (u32 r0 = 0; r0 < g.tap[0].divisor; ++r0) {
            i32 c0 = first[0] + (i32)r0 * g.dil[0];
            if ((u32)c0 >= (u32)g.extent[0]) continue;
            for (u32 r1 = 0; r1 < g.tap[1].divisor; ++r1) {
                i32 c1 = first[1] + (i32)r1 * g.dil[1];
                if ((u32)c1 >= (u32)g.extent[1]) continue;
                const In* line = x + (i64)c0 * g.x_axis[0] + (i64)c1 * g.x_axis[1];
                const In* taps = a + (i64)r0 * g.a_axis[0] + (i64)r1 * g.a_axis[1];
                for (u32 r2 = 0; r2 < g.tap[2].divisor; ++r2) {
                    i32 c2 = first[2] + (i32)r2 * g.dil[2];
                    if ((u32)c2 >= (u32)g.extent[2]) continue;
                    sum = rf::fma(cast<Total>(taps[(i64)r2 * g.a_axis[2]]), cast<Total>(line[(i64)c2 * g.x_axis[2]]), sum);
                }
            }
        }
    if (g.bias) sum += cast<Total>(g.bias[group * g.rows.divisor + row]);
#if DIRECT_EPILOGUE
    Epilogue end;
    end.start(g.epilogue);
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) end.move(g.epilogue, axis, p.at[axis]);
    end.move(g.epilogue, 3, group * g.rows.divisor + row);
    end.move(g.epilogue, 4, batch);
    end.put(g.epilogue, 0, 0, cast<In>(sum));
#else
    g.out[to] = cast<In>(sum);
#endif
}

extern "C" __global__ __launch_bounds__(256) void direct_weight(DirectArgs g) {
    __shared__ Total sums[256];
    u32 lane = thread_x(), n = group_x();
    Decoded tap = decode(g.tap, n);
    u32 rest = g.channels.divide(tap.rest), channel = tap.rest - rest * g.channels.divisor;
    u32 group = g.rows.divide(rest), row = rest - group * g.rows.divisor;
    const In* a = g.a + (i64)group * g.a_group + (i64)row * g.a_row;
    const In* x = g.x + (i64)(group * g.channels.divisor + channel) * g.x_channel;
    Total sum = (Total)0;
    for (u32 step = lane; step < g.steps; step += 256) {
        Decoded p = decode(g.place, step);
        i64 from = (i64)p.rest * g.x_batch, with = (i64)p.rest * g.a_batch;
        bool inside = true;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            i32 at = p.at[axis] * g.mul[axis] + g.off[axis] + tap.at[axis] * g.dil[axis];
            inside = inside && (u32)at < (u32)g.extent[axis];
            from += (i64)at * g.x_axis[axis];
            with += (i64)p.at[axis] * g.a_axis[axis];
        }
        if (inside) sum = rf::fma(cast<Total>(a[with]), cast<Total>(x[from]), sum);
    }
    sums[lane] = sum;
    barrier();
    for (u32 half = 128; half > 0; half /= 2) {
        if (lane < half) sums[lane] += sums[lane + half];
        barrier();
    }
    if (lane == 0) g.out[n] = cast<In>(sums[0]);
}
