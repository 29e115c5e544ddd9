// conv: convolutions as matrix products whose right operand is never stored (implicit GEMM).
//
//   CONV_WEIGHT 0   out[n, m, place] = Σ over (c, tap) of a[m, c, tap] · x[n, c, place · mul + tap · dil + off]  (+ bias[m])
//                   the convolution itself (a: the weight), and its gradient by x, stride by stride (a: the weight turned)
//   CONV_WEIGHT 1   out[m, c, tap] = Σ over (n, place) of a[n, m, place] · x[n, c, place · mul + tap · dil + off]
//                   the gradient by the weight (a: the gradient of the result), in slices of the sum
//
// The text is in parts: this one, `store.hip` (where results go), then `plain.hip` for any layout or, where both operands lie in
// vectors, along the sum or for the weight's gradient across it, and there is a matrix unit, gemm's `stage.hip` and `matrix.hip` and `tiled.hip`, with `last.hip` in
// `store.hip`'s place where the result has its channels innermost.
//
// In both a step of the sum and a line (a column of the product) together name an element of x; one is a place of an image,
// the other a channel and a tap. Coordinates outside of x are zeros, and are never read.
//
// Shapes : three spatial axes, of which the last CONV_AXES are more than one element; strides in elements, any
// Grid   : conv (tiles, 1, groups * slices)      one workgroup per tile of CONV_BM x CONV_BN; neighbours share columns
//          conv_sum (ceil(count / 256), 1, 1)    adds up slices, the first to the last
// Block  : conv (CONV_THREADS, 1, 1), conv_sum (256, 1, 1)
// LDS    : plain: 2 * (CONV_BM + CONV_BN) * CONV_ROW elements, of two buffers one is filled while the other is read, and
//          2 * CONV_BK steps, static; tiled: CONV_STAGES * (CONV_BM + CONV_BN) * CONV_BK elements, static, or CONV_LDS_BYTES,
//          dynamic. Then the buffers hold what `store` needs
// Needs  : `flat`: the places of out lie one after the other;
//          CONV_LAST: lines of out are `out_line` apart, channels side by side, and m, a multiple of 8, strides and addresses
//          are whole pieces of 16 bytes; the epilogue's axes are channels and lines;
//          m, lines >= 1; lines, k < 2^31; a coordinate before it is checked within +-2^30, an image within 2^31
//          elements; with CONV_A_VECTOR or CONV_X_VECTOR CONV_VEC consecutive steps are one aligned 16-byte access and k
//          (of a slice, too) is a multiple of CONV_VEC; with CONV_X_VECTOR and CONV_WEIGHT so are lines of both sides, and
//          m and channels                                                  checked by the launcher
// Numeric: products and sums in CONV_SUM; steps in the order of their numbers, within a group of the matrix unit as
//          `Fragment` says: taps within channels, or channels within taps with CONV_X_VECTOR; places row after row. One
//          rounding, after the bias. The tile changes no bit.
//
// Macros : types CONV_IN, CONV_OUT, CONV_SUM; CONV_WEIGHT; CONV_AXES (2, 3); CONV_MATRIX_SIZE (32, 16; 0: plain FMA);
//          CONV_WAVES_M, CONV_WAVES_N (lanes for FMA); CONV_TILES_M, CONV_TILES_N per wave (values per lane for FMA);
//          CONV_A_VECTOR, CONV_X_VECTOR; CONV_TILED: both of these and a matrix unit, with CONV_WEIGHT one that turns operands where it reads
//          them: a_line is then the elements from place to place; then also CONV_LAST, CONV_STAGES, CONV_WHOLE (channels of a
//          tap are whole rounds of CONV_BK, the taps of all axes together 32 at most; not with CONV_WEIGHT),
//          CONV_COPIES, whether copies to LDS go past the registers, CONV_LDS_BYTES; CONV_NARROW_OUT, whether CONV_OUT has 16 bits; CONV_EPILOGUE: 1 where the text of a
//          `fusion` epilogue stands in front of this one: it stores what it computes of out, along spatial axes, channels
//          and batch, and nothing else is stored (not with CONV_WEIGHT); with CONV_LAST the text is one for runs
using namespace rf;

typedef CONV_IN In;
typedef CONV_OUT Out;
typedef CONV_SUM Total;

#if CONV_MATRIX_SIZE
#define CONV_THREADS (CONV_WAVES_M * CONV_WAVES_N * ARCH_WAVE_SIZE)
#define CONV_BM (CONV_WAVES_M * CONV_TILES_M * CONV_MATRIX_SIZE)
#define CONV_BN (CONV_WAVES_N * CONV_TILES_N * CONV_MATRIX_SIZE)
#else
#define CONV_THREADS (CONV_WAVES_M * CONV_WAVES_N)
#define CONV_BM (CONV_WAVES_M * CONV_TILES_M)
#define CONV_BN (CONV_WAVES_N * CONV_TILES_N)
#endif
// What a lane moves at once: 16 bytes of consecutive steps. A round of the sum is four of those.
#define CONV_VEC (16 / (int)sizeof(In))
#define CONV_BK (4 * CONV_VEC)
// The weight's gradient with channels innermost on both sides: lines, not steps, lie side by side.
#define CONV_TURNED (CONV_WEIGHT && CONV_X_VECTOR)
// The first of the three axes that has more than one element.
#define FIRST_AXIS (3 - CONV_AXES)
// Spatial coordinate of a step or a line that does not exist: whatever is added, it lies outside.
#define NOWHERE (-(1 << 30))
#if CONV_TILED
// The parts that gemm has for its tiles.
#define GEMM_MATRIX_SIZE CONV_MATRIX_SIZE
#define GEMM_WAVES_M CONV_WAVES_M
#define GEMM_WAVES_N CONV_WAVES_N
#define GEMM_TILES_M CONV_TILES_M
#define GEMM_TILES_N CONV_TILES_N
#define GEMM_THREADS CONV_THREADS
#define GEMM_BM CONV_BM
#define GEMM_BN CONV_BN
#define GEMM_FULL CONV_VEC
#define GEMM_VEC CONV_VEC
#define GEMM_SLABS 1
#define GEMM_ASYNC CONV_COPIES
#define GEMM_A_MODE CONV_WEIGHT
#define GEMM_B_MODE CONV_WEIGHT
#endif

struct ConvArgs {
    const In* a;
    const In* x;
    const In* bias;
    Out* out;
    i64 a_line, a_group, a_batch;
    i64 x_batch, x_group;
    i64 out_line, out_group, out_batch, out_slice;
    i64 out_axis[3];
    i32 a_channel, x_channel;
    i32 a_axis[3], x_axis[3];
    i32 extent[3], mul[3], dil[3], off[3];
    FastDiv place[3], tap[3], channels;
    u32 m, lines, k, slice_k, tiles_m, groups, flat;
#if CONV_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if CONV_EPILOGUE
static_assert(sizeof(ConvArgs) == 320 + sizeof(EpilogueArgs), "as in conv.rs");
#else
static_assert(sizeof(ConvArgs) == 320, "as in conv.rs");
#endif

#if CONV_WEIGHT
typedef i64 StepOffset;
#else
typedef i32 StepOffset;
#endif

// What a step of the sum adds to the addresses and the coordinates that a line begins with.
struct KOffset {
    StepOffset a, x;
    i32 at[CONV_AXES];
    RF_FN bool inside() const { return at[0] > NOWHERE / 2; }
};
struct Line {
    i64 x;
    i32 at[CONV_AXES];
};

// A channel and a tap: its part of the offsets and coordinates.
RF_FN void decode_tap(const ConvArgs& g, u32 n, StepOffset* a, i32* x, i32* at) {
#if CONV_X_VECTOR
    u32 rest = g.channels.divide(n), channel = n - rest * g.channels.divisor;
    n = rest;
#endif
    i32 from_a = 0, from_x = 0;
#pragma unroll
    for (int axis = 2; axis >= FIRST_AXIS; --axis) {
        u32 rest = g.tap[axis].divide(n);
        i32 tap = (i32)(n - rest * g.tap[axis].divisor);
        n = rest;
        i32 coordinate = tap * g.dil[axis];
        at[axis - FIRST_AXIS] = coordinate;
        from_a += tap * g.a_axis[axis];
        from_x += coordinate * g.x_axis[axis];
    }
#if !CONV_X_VECTOR
    u32 channel = n;
#endif
    *a = (StepOffset)(from_a + (i32)channel * g.a_channel);
    *x = from_x + (i32)channel * g.x_channel;
}

// A place of an image: where its window begins, and its offsets in x and in a tensor that has an element per place.
RF_FN void decode_place(const ConvArgs& g, u32 n, i64* x, i32* at, i64* other, i64 other_batch, const i64* other_axis) {
    i64 from_x = 0, from_other = 0;
#pragma unroll
    for (int axis = 2; axis >= FIRST_AXIS; --axis) {
        u32 rest = g.place[axis].divide(n);
        i32 place = (i32)(n - rest * g.place[axis].divisor);
        n = rest;
        i32 coordinate = place * g.mul[axis] + g.off[axis];
        at[axis - FIRST_AXIS] = coordinate;
        from_x += (i64)coordinate * g.x_axis[axis];
        from_other += (i64)place * other_axis[axis];
    }
    *x = from_x + (i64)n * g.x_batch;
    *other = from_other + (i64)n * other_batch;
}

RF_FN KOffset k_offset(const ConvArgs& g, u32 n, u32 end) {
    KOffset s;
    s.a = 0;
    s.x = 0;
#pragma unroll
    for (int axis = 0; axis < CONV_AXES; ++axis) s.at[axis] = NOWHERE;
    if (n < end) {
#if CONV_WEIGHT
        i64 axes[3] = {g.a_axis[0], g.a_axis[1], g.a_axis[2]};
        decode_place(g, n, &s.x, s.at, &s.a, g.a_batch, axes);
#else
        decode_tap(g, n, &s.a, &s.x, s.at);
#endif
    }
    return s;
}

RF_FN Line line(const ConvArgs& g, u32 n) {
    Line l;
    l.x = 0;
#pragma unroll
    for (int axis = 0; axis < CONV_AXES; ++axis) l.at[axis] = NOWHERE;
    if (n < g.lines) {
#if CONV_WEIGHT
        i64 unused;
        i32 x;
        decode_tap(g, n, &unused, &x, l.at);
        l.x = x;
#else
        i64 unused;
        i64 none[3] = {0, 0, 0};
        decode_place(g, n, &l.x, l.at, &unused, 0, none);
#endif
    }
    return l;
}

