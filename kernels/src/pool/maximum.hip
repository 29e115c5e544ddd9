// maximum: the largest element of each window, where it is, and the way back.
//
//   maximum           out[n, c, o] = max over taps t of x[n, c, o · stride + t · dilation - padding]
//                     indices (if any): its number in its image, row after row
//   maximum_gradient  x_grad[n, c, i] = Σ of grad[n, c, o] over the windows o whose index is that of i
//
// Shapes : x, x_grad [batch, channels, 3 axes]; out, grad, indices [batch, channels, 3 axes]; strides in elements, any
// Grid   : (ceil(count / 256), 1, 1)            one lane per element of x_grad, of out; or of out per run of WINDOWS along a row;
//          or per MAXIMUM_PIECE channels of one of these places
// Block  : (256, 1, 1)
// Needs  : count < 2^31, spatial extents and windows within 2^29           checked by the launcher
// Numeric: exact. The first of equals; of a window with NaN the last of them, or with MAXIMUM_NAN 0 NaN if it is first, else the
//          largest number; minus infinity and index -1 for a window that lies outside. The gradient sums in f32 (f64 for f64), windows in ascending order, one rounding.
//
// Macros : types MAXIMUM_TYPE, MAXIMUM_SUM, MAXIMUM_INDEX; MAXIMUM_INDICES, whether indices are written; MAXIMUM_GRADIENT;
//          MAXIMUM_WIDTH, 0 or a window's extent along rows that are read in vectors, and then MAXIMUM_HEIGHT, its extent along the
//          axis before, MAXIMUM_STEP, the stride along rows, MAXIMUM_LEFT, the padding; MAXIMUM_PIECE, 0 or how many channels, side
//          by side and aligned in all tensors, a lane takes at once: then `channels` counts such pieces;
//          MAXIMUM_INNER, whether lanes count channels first, which lie side by side in what is written; MAXIMUM_NAN, whether a NaN counts wherever it stands
using namespace rf;

typedef MAXIMUM_TYPE T;
typedef MAXIMUM_SUM Total;
typedef MAXIMUM_INDEX Index;

struct MaximumArgs {
    const T* from;      // x, or grad
    Index* indices;
    T* to;              // out, or x_grad
    i64 from_batch, from_channel, to_batch, to_channel, index_batch, index_channel;
    i64 from_axis[3], to_axis[3], index_axis[3];
    i32 stride[3], padding[3], dilation[3], kernel[3];
    i32 input[3], output[3];
    FastDiv extent[3], channels, step[3];
    u32 count, vector, unused;
};
static_assert(sizeof(MaximumArgs) == 312, "as in maximum.rs");

struct Position { i32 at[3]; i64 batch, channel; };

RF_FN Position position(const MaximumArgs& g, u32 n) {
    Position p;
#if MAXIMUM_INNER
    u32 places = g.channels.divide(n);
    p.channel = (i64)(n - places * g.channels.divisor) * (MAXIMUM_PIECE ? MAXIMUM_PIECE : 1);
    n = places;
#endif
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        u32 rest = g.extent[axis].divide(n);
        p.at[axis] = (i32)(n - rest * g.extent[axis].divisor);
        n = rest;
    }
#if MAXIMUM_INNER
    p.batch = n;
    return p;
#else
    u32 batch = g.channels.divide(n);
    p.batch = batch;
    p.channel = n - batch * g.channels.divisor;
    return p;
#endif
}

#if MAXIMUM_PIECE
// The indices of a piece, in accesses of 16 bytes at most.
struct IndexPiece {
    static const int EACH = 16 / (int)sizeof(Index) < MAXIMUM_PIECE ? 16 / (int)sizeof(Index) : MAXIMUM_PIECE;
    Index at[MAXIMUM_PIECE];

    RF_FN void get(const Index* from) {
#pragma unroll
        for (int i = 0; i < MAXIMUM_PIECE; i += EACH) {
            Vec<Index, EACH> part = load<EACH>(from + i);
#pragma unroll
            for (int j = 0; j < EACH; ++j) at[i + j] = part[j];
        }
    }
    RF_FN void put(Index* to) const {
#pragma unroll
        for (int i = 0; i < MAXIMUM_PIECE; i += EACH) {
            Vec<Index, EACH> part;
#pragma unroll
            for (int j = 0; j < EACH; ++j) part[j] = at[i + j];
            store<EACH>(to + i, part);
        }
    }
};
#endif

#if !MAXIMUM_GRADIENT
#define AT_ONCE 4

// The largest element of a window and its number.
struct Largest { T value; i64 number; };

RF_FN Largest largest(const MaximumArgs& g, const T* x, const i32* at) {
    i32 first[3];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) first[axis] = at[axis] * g.stride[axis] - g.padding[axis];
    Largest found = {cast<T>(-(float)infinity()), -1};
    Total known = -(Total)infinity();
    for (i32 t0 = 0, c0 = first[0]; t0 < g.kernel[0]; ++t0, c0 += g.dilation[0]) {
        if ((u32)c0 >= (u32)g.input[0] || g.input[2] == 0) continue;
        for (i32 t1 = 0, c1 = first[1]; t1 < g.kernel[1]; ++t1, c1 += g.dilation[1]) {
            if ((u32)c1 >= (u32)g.input[1]) continue;
            const T* line = x + (i64)c0 * g.from_axis[0] + (i64)c1 * g.from_axis[1];
            i64 number = ((i64)c0 * g.input[1] + c1) * g.input[2];
            // A few elements at once, so that their loads overlap; past the window the line's first is read and forgotten.
            for (i32 t2 = 0, c2 = first[2]; t2 < g.kernel[2]; t2 += AT_ONCE, c2 += AT_ONCE * g.dilation[2]) {
                T elements[AT_ONCE];
                bool inside[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    i32 at = c2 + i * g.dilation[2];
                    inside[i] = t2 + i < g.kernel[2] && (u32)at < (u32)g.input[2];
                    elements[i] = line[inside[i] ? (i64)at * g.from_axis[2] : 0];
                }
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    Total value = cast<Total>(elements[i]);
                    if (inside[i] && (found.number < 0 || value > known || (MAXIMUM_NAN && value != value))) {
                        known = value;
                        found.value = elements[i];
                        found.number = number + c2 + i * g.dilation[2];
                    }
                }
            }
        }
    }
    return found;
}

struct Targets { T* out; Index* indices; };

RF_FN Targets targets(const MaximumArgs& g, const Position& p) {
    i64 out = p.batch * g.to_batch + p.channel * g.to_channel;
    i64 index = p.batch * g.index_batch + p.channel * g.index_channel;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        out += (i64)p.at[axis] * g.to_axis[axis];
        index += (i64)p.at[axis] * g.index_axis[axis];
    }
    Targets to = {g.to + out, g.indices + index};
    return to;
}

#if MAXIMUM_PIECE
extern "C" __global__ __launch_bounds__(256) void maximum(MaximumArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Position p = position(g, n);
    const T* x = g.from + p.batch * g.from_batch + p.channel;
    Vec<T, MAXIMUM_PIECE> values;
    Total known[MAXIMUM_PIECE];
    IndexPiece places;
#pragma unroll
    for (int i = 0; i < MAXIMUM_PIECE; ++i) {
        values[i] = cast<T>(-(float)infinity());
        known[i] = -(Total)infinity();
        places.at[i] = (Index)-1;
    }
    bool any = false;
    for (i32 t0 = 0; t0 < g.kernel[0]; ++t0) {
        i32 c0 = p.at[0] * g.stride[0] - g.padding[0] + t0 * g.dilation[0];
        if ((u32)c0 >= (u32)g.input[0]) continue;
        for (i32 t1 = 0; t1 < g.kernel[1]; ++t1) {
            i32 c1 = p.at[1] * g.stride[1] - g.padding[1] + t1 * g.dilation[1];
            if ((u32)c1 >= (u32)g.input[1]) continue;
            const T* line = x + (i64)c0 * g.from_axis[0] + (i64)c1 * g.from_axis[1];
            for (i32 t2 = 0; t2 < g.kernel[2]; ++t2) {
                i32 c2 = p.at[2] * g.stride[2] - g.padding[2] + t2 * g.dilation[2];
                if ((u32)c2 >= (u32)g.input[2]) continue;
                Vec<T, MAXIMUM_PIECE> elements = load<MAXIMUM_PIECE>(line + (i64)c2 * g.from_axis[2]);
                const Index number = (Index)(((i64)c0 * g.input[1] + c1) * g.input[2] + c2);
#pragma unroll
                for (int i = 0; i < MAXIMUM_PIECE; ++i) {
                    Total value = cast<Total>(elements[i]);
                    bool larger = !any || value > known[i] || (MAXIMUM_NAN && value != value);
                    known[i] = larger ? value : known[i];
                    values[i] = larger ? elements[i] : values[i];
                    places.at[i] = larger ? number : places.at[i];
                }
                any = true;
            }
        }
    }
    Targets to = targets(g, p);
    store<MAXIMUM_PIECE>(to.out, values);
#if MAXIMUM_INDICES
    places.put(to.indices);
#endif
}
#elif !MAXIMUM_WIDTH
extern "C" __global__ __launch_bounds__(256) void maximum(MaximumArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Position p = position(g, n);
    Largest found = largest(g, g.from + p.batch * g.from_batch + p.channel * g.from_channel, p.at);
    Targets to = targets(g, p);
    *to.out = found.value;
#if MAXIMUM_INDICES
    *to.indices = (Index)found.number;
#endif
}
#else
// Windows of a lane: so many that the next lane's begin a vector further on. A lane reads the vectors before its own that hold
// padding's counterpart, its own, and those behind that its last window reaches into.
static const int LANES = 16 / (int)sizeof(T);
static const int WINDOWS = LANES / MAXIMUM_STEP;
static const int BEFORE = (MAXIMUM_LEFT + LANES - 1) / LANES;
static const int LAST = (WINDOWS - 1) * MAXIMUM_STEP - MAXIMUM_LEFT + MAXIMUM_WIDTH - 1;
static const int VECTORS = BEFORE + 1 + (LAST < LANES ? 0 : LAST / LANES);
static_assert(LANES % MAXIMUM_STEP == 0, "the windows of a lane begin with a vector");

// The rows of a lane's windows.
struct WindowRows {
    Vec<T, LANES> row[MAXIMUM_HEIGHT][VECTORS];
    bool inside[MAXIMUM_HEIGHT][VECTORS];

    // From row `first` of a plane on; `own`: number of the lane's vector.
    RF_FN void fetch(const MaximumArgs& g, const T* plane, i32 first, i32 own) {
#pragma unroll
        for (int t1 = 0; t1 < MAXIMUM_HEIGHT; ++t1) {
            i32 c1 = first + t1 * g.dilation[1];
            const T* line = plane + (i64)c1 * g.from_axis[1];
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                i32 c2 = (own + v - BEFORE) * LANES;
                inside[t1][v] = (u32)c1 < (u32)g.input[1] && (u32)c2 < (u32)g.input[2];
                if (inside[t1][v]) row[t1][v] = load<LANES>(line + c2);
                else __builtin_memset(&row[t1][v], 0, 16);
            }
        }
    }
};

extern "C" __global__ __launch_bounds__(256) void maximum(MaximumArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Position p = position(g, n);
    i32 own = p.at[2];
    p.at[2] *= WINDOWS;
    const T* x = g.from + p.batch * g.from_batch + p.channel * g.from_channel;
    const Total least = -(Total)infinity();
    Total known[WINDOWS];
    i64 number[WINDOWS];
#pragma unroll
    for (int w = 0; w < WINDOWS; ++w) {
        known[w] = least;
        number[w] = -1;
    }
    // Products with zero: NaN once an element is not finite. Then windows are looked at one by one.
    Total odd = (Total)0;
    i32 c0 = p.at[0] * g.stride[0] - g.padding[0], first = p.at[1] * g.stride[1] - g.padding[1];
    for (i32 t0 = 0; t0 < g.kernel[0]; ++t0, c0 += g.dilation[0]) {
        if ((u32)c0 >= (u32)g.input[0]) continue;
        WindowRows rows;
        rows.fetch(g, x + (i64)c0 * g.from_axis[0], first, own);
#pragma unroll
        for (int t1 = 0; t1 < MAXIMUM_HEIGHT; ++t1) {
#if MAXIMUM_INDICES
            i64 line = ((i64)c0 * g.input[1] + first + t1 * g.dilation[1]) * g.input[2] + p.at[2] * MAXIMUM_STEP - MAXIMUM_LEFT;
#endif
            Total element[LAST + MAXIMUM_LEFT + 1];
#pragma unroll
            for (int i = 0; i <= LAST + MAXIMUM_LEFT; ++i) {
                const int at = i - MAXIMUM_LEFT + BEFORE * LANES;
                Total value = cast<Total>(rows.row[t1][at / LANES][at % LANES]);
                odd = rf::fma(value, (Total)0, odd);
                element[i] = rows.inside[t1][at / LANES] ? value : least;
            }
#pragma unroll
            for (int t2 = 0; t2 < MAXIMUM_WIDTH; ++t2)
#pragma unroll
                for (int w = 0; w < WINDOWS; ++w) {
                    const int i = w * MAXIMUM_STEP + t2;
                    bool larger = element[i] > known[w];
                    known[w] = larger ? element[i] : known[w];
#if MAXIMUM_INDICES
                    number[w] = larger ? line + i : number[w];
#endif
                }
        }
    }
    Vec<T, WINDOWS> values;
#pragma unroll
    for (int w = 0; w < WINDOWS; ++w) {
        values[w] = cast<T>(known[w]);
        if (odd == odd) continue;
        i32 at[3] = {p.at[0], p.at[1], p.at[2] + w};
        Largest found = largest(g, x, at);
        values[w] = found.value;
        number[w] = found.number;
    }
    Targets to = targets(g, p);
    if (g.vector) {
        store<WINDOWS>(to.out, values);
    } else {
#pragma unroll
        for (int w = 0; w < WINDOWS; ++w)
            if (p.at[2] + w < g.output[2]) to.out[w * g.to_axis[2]] = values[w];
    }
#if MAXIMUM_INDICES
#pragma unroll
    for (int w = 0; w < WINDOWS; ++w)
        if (p.at[2] + w < g.output[2]) to.indices[w * g.index_axis[2]] = (Index)number[w];
#endif
}
#endif
#else
// The windows along an axis that may hold coordinate `at`: from the first that reaches it to the last that begins before.
RF_FN void windows(const MaximumArgs& g, int axis, i32 at, i32* first, i32* end) {
    i32 shifted = at + g.padding[axis], reach = shifted - (g.kernel[axis] - 1) * g.dilation[axis];
    *first = reach <= 0 ? 0 : (i32)g.step[axis].divide((u32)(reach + g.stride[axis] - 1));
    i32 last = (i32)g.step[axis].divide((u32)shifted);
    *end = last < g.output[axis] ? last + 1 : g.output[axis];
}

extern "C" __global__ __launch_bounds__(256) void maximum_gradient(MaximumArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Position p = position(g, n);
    i64 number = ((i64)p.at[0] * g.input[1] + p.at[1]) * g.input[2] + p.at[2];
    const T* grad = g.from + p.batch * g.from_batch + p.channel * g.from_channel;
    const Index* indices = g.indices + p.batch * g.index_batch + p.channel * g.index_channel;
    i32 first[3], end[3];
    i64 to = p.batch * g.to_batch + p.channel * g.to_channel;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        windows(g, axis, p.at[axis], first + axis, end + axis);
        to += (i64)p.at[axis] * g.to_axis[axis];
    }
#if MAXIMUM_PIECE
    Total sums[MAXIMUM_PIECE];
#pragma unroll
    for (int i = 0; i < MAXIMUM_PIECE; ++i) sums[i] = (Total)0;
    for (i32 o0 = first[0]; o0 < end[0]; ++o0)
        for (i32 o1 = first[1]; o1 < end[1]; ++o1)
            for (i32 o2 = first[2]; o2 < end[2]; ++o2) {
                IndexPiece places;
                places.get(indices + (i64)o0 * g.index_axis[0] + (i64)o1 * g.index_axis[1] + (i64)o2 * g.index_axis[2]);
                Vec<T, MAXIMUM_PIECE> of = load<MAXIMUM_PIECE>(
                    grad + (i64)o0 * g.from_axis[0] + (i64)o1 * g.from_axis[1] + (i64)o2 * g.from_axis[2]);
#pragma unroll
                for (int i = 0; i < MAXIMUM_PIECE; ++i)
                    sums[i] = (i64)places.at[i] == number ? sums[i] + cast<Total>(of[i]) : sums[i];
            }
    Vec<T, MAXIMUM_PIECE> values;
#pragma unroll
    for (int i = 0; i < MAXIMUM_PIECE; ++i) values[i] = cast<T>(sums[i]);
    store<MAXIMUM_PIECE>(g.to + to, values);
#else
    Total sum = (Total)0;
    for (i32 o0 = first[0]; o0 < end[0]; ++o0)
        for (i32 o1 = first[1]; o1 < end[1]; ++o1)
            for (i32 o2 = first[2]; o2 < end[2]; ++o2) {
                i64 at = (i64)o0 * g.index_axis[0] + (i64)o1 * g.index_axis[1] + (i64)o2 * g.index_axis[2];
                if ((i64)indices[at] != number) continue;
                sum += cast<Total>(grad[(i64)o0 * g.from_axis[0] + (i64)o1 * g.from_axis[1] + (i64)o2 * g.from_axis[2]]);
            }
    g.to[to] = cast<T>(sum);
#endif
}
#endif
