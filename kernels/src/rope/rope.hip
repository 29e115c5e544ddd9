// rope: rotary position embedding of queries and keys, in one launch; rope_table: its cosines and sines
//
//   (a, b) -> (a cos - b sin, b cos + a sin), angle = position * inverse[i], for pair i of rot / 2
//   NeoX style: a = x[i], b = x[i + rot / 2]; GPT-J style: a = x[2 i], b = x[2 i + 1]
//
// Shapes : x, y [batches, heads, rows, depth], strides in elements, last axis 1; inverse [rot / 2]; tables [positions, rot / 2]
// Grid   : rope (rows * parts, batches, tensors), parts = ceil(heads * chunks / 256); rope_table (ceil(count / 256), 1, 1)
// Block  : (256, 1, 1); a lane of rope has ROPE_VEC pairs, or 2 ROPE_VEC elements behind the rotated ones
// Needs  : rot even, at most depth; y is x itself or overlaps no input; vectors of all and of tables aligned
//                                                                          checked by the launcher
// Numeric: angles and their reduction in f64, cosines, sines and products in ROPE_REAL, one rounding at the store. The
//          inverse turns by the negative angle: it is the gradient. Positions outside of a table take its nearest row.
//
// Macros : types ROPE_TYPE, ROPE_REAL, ROPE_POSITION; ROPE_VEC: elements of one access; ROPE_PAIRS: 1 for GPT-J style;
//          ROPE_TABLES: 1 from tables, 0 from `inverse`
using namespace rf;

typedef ROPE_TYPE T;
typedef ROPE_REAL Real;

struct RopeTensor {
    const T* from;
    T* to;
    i64 from_batch, from_head, from_row, to_batch, to_head, to_row;
    u32 heads, padding;
};
struct RopeArgs {
    RopeTensor tensor[2];
    const double* inverse;
    const Real* cosines;
    const Real* sines;
    const ROPE_POSITION* positions;  // [batches, rows]; null: rows in order
    const i32* starts;               // [sequences + 1]: rows count from their sequence's start; null: from 0
    i64 offset, positions_batch, positions_row, table_rows;
    double magnitude, sign;
    FastDiv parts, chunks;
    u32 rows, half, rotated_chunks, sequences;
};
static_assert(sizeof(RopeArgs) == 2 * 72 + 40 + 48 + 40, "as in rope.rs");

// What one access moves. Elements of 16 bits lie two in a word, for the compiler stores the parts of others apart.
template <class E, bool HALVES = sizeof(E) == 2 && ROPE_VEC % 2 == 0> struct Run {
    Vec<E, ROPE_VEC> all;
    RF_FN Real get(int e) const { return cast<Real>(all[e]); }
    // From all of its numbers.
    RF_FN void put(const Real* from) {
#pragma unroll
        for (int e = 0; e < ROPE_VEC; ++e) all[e] = cast<E>(from[e]);
    }
    RF_FN void read(const E* from) { all = load<ROPE_VEC>(from); }
    RF_FN void write(E* to) const { store<ROPE_VEC>(to, all); }
};
template <class E> struct Run<E, true> {
    static const int WORDS = ROPE_VEC * (int)sizeof(E) / 4;
    Vec<u32, WORDS> words;
    RF_FN Real get(int e) const {
        E x;
        x.bits = (u16)(words[e / 2] >> e % 2 * 16);
        return cast<Real>(x);
    }
    RF_FN void put(const Real* from) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = two_of<E>(from[2 * w], from[2 * w + 1]);
    }
    RF_FN void read(const E* from) { words = load<WORDS>((const u32*)from); }
    RF_FN void write(E* to) const { store<WORDS>((u32*)to, words); }
};
// Of a table, which a lane reads in accesses of 16 bytes.
template <int COUNT> RF_FN void read_table(const Real* from, Real* to) {
    const int EACH = COUNT * (int)sizeof(Real) > 16 ? 16 / (int)sizeof(Real) : COUNT;
#pragma unroll
    for (int i = 0; i < COUNT; i += EACH) {
        Vec<Real, EACH> part = load<EACH>(from + i);
#pragma unroll
        for (int e = 0; e < EACH; ++e) to[i + e] = part[e];
    }
}

// Cosine and sine of an angle, exact to the type however large it is.
RF_FN void turn(double angle, float* c, float* s) {
    double turns = rf::round_even(angle * 0.15915494309189533577);
    rf::sincos((float)rf::fma(-turns, 6.28318530717958647693, angle), s, c);
}
RF_FN void turn(double angle, double* c, double* s) { rf::sincos(angle, s, c); }

extern "C" __global__ RF_BOUNDS(256, ROPE_TABLES && sizeof(T) == 2 ? 6 : 1) void rope(RopeArgs g) {
    const RopeTensor& x = g.tensor[group_z()];
    // Both tensors have the grid of the one with more heads.
    u32 row = g.parts.divide(group_x()), batch = group_y(), n = (group_x() - row * g.parts.divisor) * 256 + thread_x();
    u32 head = g.chunks.divide(n), chunk = n - head * g.chunks.divisor;
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
    Run<T> in[2], out[2];
    in[0].read(from + (first - to));
    in[1].read(from + (second - to));
    Real c[ROPE_VEC], s[ROPE_VEC];
#if ROPE_TABLES
    i64 line = position < 0 ? 0 : position >= g.table_rows ? g.table_rows - 1 : position;
    read_table<ROPE_VEC>(g.cosines + line * g.half + pair, c);
    read_table<ROPE_VEC>(g.sines + line * g.half + pair, s);
#else
#pragma unroll
    for (int e = 0; e < ROPE_VEC; ++e) {
        turn((double)position * g.inverse[pair + e], &c[e], &s[e]);
        c[e] *= (Real)g.magnitude;
        s[e] *= (Real)g.magnitude;
    }
#endif
    // Of both runs, one after the other.
    Real turned[2 * ROPE_VEC];
#pragma unroll
    for (int e = 0; e < ROPE_VEC; ++e) {
        const int u = ROPE_PAIRS ? 2 * e : e, v = ROPE_PAIRS ? 2 * e + 1 : ROPE_VEC + e;
        Real left = in[u / ROPE_VEC].get(u % ROPE_VEC), right = in[v / ROPE_VEC].get(v % ROPE_VEC);
        Real sine = s[e] * (Real)g.sign;
        turned[u] = rf::fma(left, c[e], -(right * sine));
        turned[v] = rf::fma(right, c[e], left * sine);
    }
    out[0].put(turned);
    out[1].put(turned + ROPE_VEC);
    out[0].write(first);
    out[1].write(second);
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
