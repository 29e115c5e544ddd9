// hadamard: y = scale * H x along one axis, H the Hadamard matrix in Sylvester's order
//
//   H(1) = [1], H(2 n) = [[H(n), H(n)], [H(n), -H(n)]]: a butterfly (a, b) -> (a + b, a - b) for each bit of the place
//
// Shapes : x, y [outer, 2^BITS, inner], any strides, in elements
// Grid   : (ceil(rows / ROWS), 1, 1)     Block : (BLOCK, 1, 1)         LANES lanes of 8 elements for a row (outer, inner)
// LDS    : HADAMARD_REAL for each element of ROWS rows, 4 places more for every 32
// Needs  : rows < 2^31; with HADAMARD_VEC > 1 the axis contiguous, accesses aligned; y is x or apart from it
//                                                                                          checked by the launcher
// Numeric: in HADAMARD_REAL, bits in ascending order, one rounding at the store after the scale; every row by itself
//
// Macros : HADAMARD_TYPE, HADAMARD_REAL, HADAMARD_BITS; HADAMARD_VEC: elements of one access
using namespace rf;

#define BITS HADAMARD_BITS
#define EACH_BITS (BITS < 3 ? BITS : 3)
#define EACH (1 << EACH_BITS)
#define SIZE (1 << BITS)
#define LANES (SIZE / EACH)
#define BLOCK (LANES > 256 ? LANES : 256)
#define ROWS (BLOCK / LANES)
#define ELEMENTS (ROWS * SIZE)

typedef HADAMARD_TYPE T;
typedef HADAMARD_REAL Real;

struct HadamardArgs {
    const T* x;
    T* y;
    Strides3 x_strides, y_strides;
    double scale;
    FastDiv inner;
    u32 rows;
};
static_assert(sizeof(HadamardArgs) == 88, "as in hadamard.rs");

// Where LDS holds an element of the workgroup's. Lanes then meet no bank twice, neither where each takes 8 elements on end nor where
// lanes take one each of groups 8, 4 or more elements apart.
RF_FN u32 place(u32 element) { return element + element / 32 * 4; }

// Butterflies over the bits of an element's number in its lane, from FIRST on.
template <int FIRST> RF_FN void butterflies(Real* v) {
#pragma unroll
    for (int bit = FIRST; bit < EACH_BITS; ++bit) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            if (j >> bit & 1) continue;
            Real a = v[j], b = v[j | 1 << bit];
            v[j] = a + b;
            v[j | 1 << bit] = a - b;
        }
    }
}

// The bits of the place from FROM on, three at a time: lanes take elements 2^shift apart from LDS and put them back there.
template <int FROM, bool MORE = FROM < BITS> struct Passes {
    RF_FN static void run(Real* lds) {
        // The last three bits of a row, of which the first may have been dealt with.
        const int SHIFT = FROM + 3 <= BITS ? FROM : BITS - 3;
        u32 thread = thread_x(), first = (thread >> SHIFT << (SHIFT + 3)) | (thread & ((1u << SHIFT) - 1));
        barrier();
        Real v[EACH];
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = lds[place(first + (j << SHIFT))];
        butterflies<FROM - SHIFT>(v);
#pragma unroll
        for (int j = 0; j < EACH; ++j) lds[place(first + (j << SHIFT))] = v[j];
        Passes<FROM + 3>::run(lds);
    }
};
template <int FROM> struct Passes<FROM, false> {
    RF_FN static void run(Real*) { barrier(); }
};

extern "C" __global__ __launch_bounds__(BLOCK) void hadamard_rows(HadamardArgs g) {
    alignas(16) __shared__ Real lds[BITS > 3 ? ELEMENTS + ELEMENTS / 32 * 4 : 1];
    u32 n = group_x() * ROWS + thread_x() / LANES, lane = thread_x() % LANES;
    bool there = n < g.rows;
    u32 outer = g.inner.divide(n), inner = n - outer * g.inner.divisor;
    Real v[EACH];
    if (there) {
        const T* x = g.x + g.x_strides.at(outer, 0, inner);
#pragma unroll
        for (int j = 0; j < EACH; j += HADAMARD_VEC) {
            // The stride of an access of several elements is 1.
            i64 at = HADAMARD_VEC > 1 ? lane * EACH + j : (i64)(lane * EACH + j) * g.x_strides.middle;
            Vec<T, HADAMARD_VEC> part = load<HADAMARD_VEC>(x + at);
#pragma unroll
            for (int e = 0; e < HADAMARD_VEC; ++e) v[j + e] = cast<Real>(part[e]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = 0;
    }
    butterflies<0>(v);
    if (BITS > 3) {
        Real* own = lds + place(thread_x() * EACH);
#pragma unroll
        for (int j = 0; j < EACH; ++j) own[j] = v[j];
        Passes<3>::run(lds);
#pragma unroll
        for (int j = 0; j < EACH; ++j) v[j] = own[j];
    }
    if (!there) return;
    T* y = g.y + g.y_strides.at(outer, 0, inner);
    Real scale = (Real)g.scale;
#pragma unroll
    for (int j = 0; j < EACH; j += HADAMARD_VEC) {
        Vec<T, HADAMARD_VEC> part;
#pragma unroll
        for (int e = 0; e < HADAMARD_VEC; ++e) part[e] = cast<T>(v[j + e] * scale);
        i64 at = HADAMARD_VEC > 1 ? lane * EACH + j : (i64)(lane * EACH + j) * g.y_strides.middle;
        store<HADAMARD_VEC>(y + at, part);
    }
}
