// rope: rotary position embedding of queries and keys, in one launch; rope_table: its cosines and sines
//
//   (a, b) -> (a cos - b sin, b cos + a sin), angle = position * inverse[i], for pair i of rot / 2
//   NeoX style: a = x[i], b = x[i + rot / 2]; GPT-J style: a = x[2 i], b = x[2 i + 1]
//
// Shapes : x, y [batches, heads, rows, depth], strides in elements, last axis 1; inverse [rot / 2]; tables [positions, rot / 2]
// Grid   : rope (rows * parts, batches, tensors), parts = ceil(heads * chunks / 256); rope_table (ceil(count / 256), 1, 1)
// Block  : (256, 1, 1); a lane of rope has ROPE_VEC pairs, or 2 ROPE_VEC elements behind the rotated ones
// Needs  : rot even, at most depth; y is x itself or overlaps no input; vectors aligned        checked by the launcher
// Numeric: angles and their reduction in f64, cosines, sines and products in ROPE_REAL, one rounding at the store. The
//          inverse turns by the negative angle: it is the gradient. Positions outside of a table take its nearest row.
//
// Macros : types ROPE_TYPE, ROPE_REAL, ROPE_POSITION; ROPE_VEC: elements of one access; ROPE_PAIRS: 1 for GPT-J style
using namespace rf;

typedef ROPE_TYPE T;
typedef ROPE_REAL Real;

struct RopeTensor {
    const T* from;
    T* to;
    i64 from_batch, from_head, from_row, to_batch, to_head, to_row;
    u32 heads, parts;
};
struct RopeArgs {
    RopeTensor tensor[2];
    const double* inverse;           // null: from tables
    const Real* cosines;
    const Real* sines;
    const ROPE_POSITION* positions;  // [batches, rows]; null: rows in order
    const i32* starts;               // [sequences + 1]: rows count from their sequence's start; null: from 0
    i64 offset, positions_batch, positions_row, table_rows;
    double magnitude, sign;
    u32 rows, half, chunks, rotated_chunks, sequences, padding;
};
static_assert(sizeof(RopeArgs) == 2 * 72 + 40 + 48 + 24, "as in rope.rs");

// Cosine and sine of an angle, exact to the type however large it is.
RF_FN void turn(double angle, float* c, float* s) {
    double turns = rf::round_even(angle * 0.15915494309189533577);
    rf::sincos((float)rf::fma(-turns, 6.28318530717958647693, angle), s, c);
}
RF_FN void turn(double angle, double* c, double* s) { rf::sincos(angle, s, c); }

extern "C" __global__ __launch_bounds__(256) void rope(RopeArgs g) {
    const RopeTensor& x = g.tensor[group_z()];
    // Both tensors have the grid of the one with more heads.
    u32 parts = g.tensor[0].parts > g.tensor[1].parts ? g.tensor[0].parts : g.tensor[1].parts;
    u32 row = group_x() / parts, batch = group_y(), n = (group_x() - row * parts) * 256 + thread_x();
    u32 head = n / g.chunks, chunk = n - head * g.chunks;
    if (head >= x.heads) return;
    const T* from = x.from + batch * x.from_batch + head * x.from_head + row * x.from_row;
    T* to = x.to + batch * x.to_batch + head * x.to_head + row * x.to_row;

    if (chunk >= g.rotated_chunks) {
        // Behind what is rotated: as it is.
        u32 first = 2 * g.half + (chunk - g.rotated_chunks) * ROPE_VEC;
        store<ROPE_VEC>(to + first, load<ROPE_VEC>(from + first));
        return;
    }
    i64 position = row;
    if (g.positions) {
        position = (i64)g.positions[batch * g.positions_batch + row * g.positions_row];
    } else if (g.starts) {
        // The last sequence that starts at this row or before.
        u32 low = 0, high = g.sequences;
        while (high - low > 1) {
            u32 middle = (low + high) / 2;
            if ((i64)g.starts[middle] <= (i64)row) low = middle; else high = middle;
        }
        position = (i64)row - g.starts[low];
    }
    position += g.offset;

    u32 pair = chunk * ROPE_VEC;
    T* first = to + (ROPE_PAIRS ? 2 * pair : pair);
    T* second = first + (ROPE_PAIRS ? ROPE_VEC : g.half);
    Vec<T, ROPE_VEC> a = load<ROPE_VEC>(from + (first - to)), b = load<ROPE_VEC>(from + (second - to));
    T* flat[2] = {a.at, b.at};
    i64 line = position < 0 ? 0 : position >= g.table_rows ? g.table_rows - 1 : position;
#pragma unroll
    for (int e = 0; e < ROPE_VEC; ++e) {
        Real c, s;
        if (g.inverse) {
            turn((double)position * g.inverse[pair + e], &c, &s);
            c *= (Real)g.magnitude;
            s *= (Real)g.magnitude;
        } else {
            c = g.cosines[line * g.half + pair + e];
            s = g.sines[line * g.half + pair + e];
        }
        s *= (Real)g.sign;
        T& u = ROPE_PAIRS ? flat[2 * e / ROPE_VEC][2 * e % ROPE_VEC] : a[e];
        T& v = ROPE_PAIRS ? flat[(2 * e + 1) / ROPE_VEC][(2 * e + 1) % ROPE_VEC] : b[e];
        Real left = cast<Real>(u), right = cast<Real>(v);
        u = cast<T>(rf::fma(left, c, -(right * s)));
        v = cast<T>(rf::fma(right, c, left * s));
    }
    store<ROPE_VEC>(first, a);
    store<ROPE_VEC>(second, b);
}

struct RopeTableArgs {
    const double* inverse;
    Real* cosines;
    Real* sines;
    i64 first, count;  // first position; elements
    double magnitude;
    u32 half, padding;
};
static_assert(sizeof(RopeTableArgs) == 56, "as in rope.rs");

extern "C" __global__ __launch_bounds__(256) void rope_table(RopeTableArgs g) {
    i64 n = (i64)group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Real c, s;
    turn((double)(g.first + n / g.half) * g.inverse[n % g.half], &c, &s);
    g.cosines[n] = c * (Real)g.magnitude;
    g.sines[n] = s * (Real)g.magnitude;
}
