// hadamard: y = scale * H x along one axis, H the Hadamard matrix in Sylvester's order
//
//   H(1) = [1], H(2 n) = [[H(n), H(n)], [H(n), -H(n)]]: a butterfly (a, b) -> (a + b, a - b) for each bit of the place
//
// Shapes : x, y [outer, 2^BITS, inner], any strides, in elements
// Grid   : (ceil(rows / ROWS), 1, 1)     Block : (BLOCK, 1, 1)         LANES lanes of EACH elements for a row (outer, inner)
// LDS    : HADAMARD_REAL for each element of ROWS rows
// Needs  : rows < 2^31; with HADAMARD_VEC > 1 the axis contiguous, accesses aligned; y is x or apart from it
//                                                                                          checked by the launcher
// Numeric: in HADAMARD_REAL, one rounding at the store after the scale; every row by itself, and its bits one after the other in an
//          order that type and extent decide, not layout: those of a lane's elements, then the others in ascending order
//
// Macros : HADAMARD_TYPE, HADAMARD_REAL, HADAMARD_BITS; HADAMARD_VEC: elements of one access
using namespace rf;

#define BITS HADAMARD_BITS
#define EACH_BITS (BITS < 4 ? BITS : 4)
#define EACH (1 << EACH_BITS)
#define SIZE (1 << BITS)
#define LANES (SIZE / EACH)
#define BLOCK (LANES > 256 ? LANES : 256)
#define ROWS (BLOCK / LANES)
#define ELEMENTS (ROWS * SIZE)

typedef HADAMARD_TYPE T;
typedef HADAMARD_REAL Real;
// Elements on end that a lane has in a row: 16 bytes. It has EACH / RUN such runs, as far apart as a row allows, so that lanes side
// by side read on end.
const int WHOLE = 16 / (int)sizeof(T), RUN_BITS = WHOLE == 8 ? 3 : WHOLE == 4 ? 2 : 1;
const int LOW_BITS = RUN_BITS < EACH_BITS ? RUN_BITS : EACH_BITS, RUN = 1 << LOW_BITS, APART = SIZE / EACH * RUN;
// The bits of an element's place that are none of a lane's elements': from LOW_BITS to this.
const int OTHERS_END = BITS - EACH_BITS + LOW_BITS;
// What a lane moves between registers and LDS at once, of rows that take several lanes.
const int CHUNK = RUN < 16 / (int)sizeof(Real) ? RUN : 16 / (int)sizeof(Real);
static_assert(RUN % HADAMARD_VEC == 0, "a run is whole accesses");

struct HadamardArgs {
    const T* x;
    T* y;
    Strides3 x_strides, y_strides;
    double scale;
    FastDiv inner;
    u32 rows;
};
static_assert(sizeof(HadamardArgs) == 88, "as in hadamard.rs");

// Where a lane's element number j lies in a row, from the lane's first.
RF_FN u32 offset(int j) { return j % RUN + j / RUN * APART; }

// Where LDS holds an element of the workgroup's: a swizzle of chunks of four. Lanes meet no bank twice, neither where each takes
// a run nor where they take one each of groups 4 or more elements apart. Of two numbers without a bit in common the
// place of the sum is the exclusive or of their places.
RF_FN u32 place(u32 element) { return element ^ ((element >> 5 ^ element >> 6) & 7) << 2; }

// Butterflies over bits of an element's number in its lane, from FIRST to END.
template <int FIRST, int END> RF_FN void butterflies(Real* v) {
#pragma unroll
    for (int bit = FIRST; bit < END; ++bit) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            if (j >> bit & 1) continue;
            Real a = v[j], b = v[j | 1 << bit];
            v[j] = a + b;
            v[j | 1 << bit] = a - b;
        }
    }
}

// The bits of the place from FROM on, EACH_BITS at a time: lanes take elements 2^SHIFT apart from LDS and put them back there.
template <int FROM, bool MORE = FROM < OTHERS_END> struct Passes {
    RF_FN static void run(Real* lds) {
        // Of the last bits of a row some may have been dealt with.
        const int SHIFT = FROM + EACH_BITS <= BITS ? FROM : BITS - EACH_BITS;
        const int END = OTHERS_END - SHIFT < EACH_BITS ? OTHERS_END - SHIFT : EACH_BITS;
        u32 thread = thread_x(), first = (thread >> SHIFT << (SHIFT + EACH_BITS)) | (thread & ((1u << SHIFT) - 1));
        first = place(first);
        barrier();
        Real v[EACH];
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = lds[first ^ place(j << SHIFT)];
        butterflies<FROM - SHIFT, END>(v);
#pragma unroll
        for (int j = 0; j < EACH; ++j) lds[first ^ place(j << SHIFT)] = v[j];
        Passes<FROM + EACH_BITS>::run(lds);
    }
};
template <int FROM> struct Passes<FROM, false> {
    RF_FN static void run(Real*) { barrier(); }
};

extern "C" __global__ __launch_bounds__(BLOCK) void hadamard_rows(HadamardArgs g) {
    alignas(16) __shared__ Real lds[BITS > EACH_BITS ? ELEMENTS : 4];
    u32 n = group_x() * ROWS + thread_x() / LANES, lane = thread_x() % LANES;
    bool there = n < g.rows;
    u32 outer = g.inner.divide(n), inner = n - outer * g.inner.divisor, first = lane * RUN;
    // The stride of an access of several elements is 1.
    const bool CONTIGUOUS = HADAMARD_VEC > 1;
    Real v[EACH];
    if (there) {
        const T* x = g.x + g.x_strides.at(outer, 0, inner);
#pragma unroll
        for (int j = 0; j < EACH; j += HADAMARD_VEC) {
            u32 element = first + offset(j);
            Vec<T, HADAMARD_VEC> part = load<HADAMARD_VEC>(x + (CONTIGUOUS ? element : element * g.x_strides.middle));
#pragma unroll
            for (int e = 0; e < HADAMARD_VEC; ++e) v[j + e] = cast<Real>(part[e]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = 0;
    }
    butterflies<0, EACH_BITS>(v);
    if (BITS > EACH_BITS) {
        u32 own = place((thread_x() - lane) * EACH + first);
#pragma unroll
        for (int j = 0; j < EACH; j += CHUNK) {
            Vec<Real, CHUNK> chunk;
#pragma unroll
            for (int e = 0; e < CHUNK; ++e) chunk[e] = v[j + e];
            store<CHUNK>(lds + (own ^ place(offset(j))), chunk);
        }
        Passes<LOW_BITS>::run(lds);
#pragma unroll
        for (int j = 0; j < EACH; j += CHUNK) {
            Vec<Real, CHUNK> chunk = load<CHUNK>(lds + (own ^ place(offset(j))));
#pragma unroll
            for (int e = 0; e < CHUNK; ++e) v[j + e] = chunk[e];
        }
    }
    if (!there) return;
    T* y = g.y + g.y_strides.at(outer, 0, inner);
    Real scale = (Real)g.scale;
#pragma unroll
    for (int j = 0; j < EACH; j += HADAMARD_VEC) {
        Vec<T, HADAMARD_VEC> part;
#pragma unroll
        for (int e = 0; e < HADAMARD_VEC; ++e) part[e] = cast<T>(v[j + e] * scale);
        u32 element = first + offset(j);
        store<HADAMARD_VEC>(y + (CONTIGUOUS ? element : element * g.y_strides.middle), part);
    }
}
