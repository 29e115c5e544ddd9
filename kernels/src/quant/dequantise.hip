// dequantise: x = global * scale * decode(code)
//
// Shapes : as `quantise`
// Grid   : (ceil(words / (256 QUANT_WORDS)), 1, 1)            one lane per word, or for some that are neighbours
// Block  : (256, 1, 1)
// Needs  : as `quantise`
// Numeric: products in f32, the scales first; one rounding to the type of x
//
// Macros : QUANT_X, QUANT_WORD, QUANT_FORMAT; QUANT_WORDS: words of a lane, an aligned vector; QUANT_PER: codes of all of them;
//          QUANT_AXES: of the walk, 0 for more than two; QUANT_VECTOR: a lane's elements lie side by side, whole and aligned;
//          QUANT_SCALE: the scales' type, QUANT_KIND: what they are; QUANT_SPAN: whether each element of a lane looks for its scale (0),
//          all have one (1), or scales are aligned neighbours as elements are (2)
using namespace rf;

typedef Format<QUANT_FORMAT> Code;

struct DequantiseArgs {
    QUANT_X* x;
    const QUANT_WORD* words;
    const void* scales;
    const float* global;
    CodeWalk walk;
};
static_assert(sizeof(DequantiseArgs) == 432, "as in dequantise.rs");

#define AXES (QUANT_AXES ? QUANT_AXES : g.walk.axes)
static const int IN_WORD = QUANT_PER / QUANT_WORDS;
static const int X_FULL = 16 / sizeof(QUANT_X), X_VEC = QUANT_PER < X_FULL ? QUANT_PER : X_FULL;
static const int SCALE_FULL = 16 / sizeof(QUANT_SCALE), SCALE_VEC = QUANT_PER < SCALE_FULL ? QUANT_PER : SCALE_FULL;

// What a lane's codes are multiplied by.
RF_FN void factors_of(const DequantiseArgs& g, const CodeAt& at, float* to) {
    const float global = g.global ? *g.global : 1.0f;
#if QUANT_SPAN == 2
    const QUANT_SCALE* from = (const QUANT_SCALE*)g.scales + at.scale + at.last;
#pragma unroll
    for (int i = 0; i < QUANT_PER; i += SCALE_VEC) {
        const Vec<QUANT_SCALE, SCALE_VEC> some = load<SCALE_VEC>(from + i);
#pragma unroll
        for (int j = 0; j < SCALE_VEC; ++j) to[i + j] = global * read_scale(&some, j, QUANT_KIND);
    }
#else
    const u32 axis = AXES - 1;
    const i64 step = g.walk.scales[axis];
#pragma unroll
    for (int i = 0; i < QUANT_PER; ++i) {
        if (QUANT_SPAN == 1 && i > 0) {
            to[i] = to[0];
            continue;
        }
        const u32 last = at.last + i < g.walk.last_extent ? at.last + i : at.last;
        to[i] = global * read_scale(g.scales, at.scale + g.walk.block[axis].divide(last) * step, QUANT_KIND);
    }
#endif
}

#if QUANT_VECTOR
// Stores numbers that lie side by side, of `PAIRED` types two to a word.
template <class X, bool PAIRED> struct Beside;
template <class X> struct Beside<X, false> {
    RF_FN static void store_all(X* to, const float* x) {
#pragma unroll
        for (int i = 0; i < QUANT_PER; i += X_VEC) {
            Vec<X, X_VEC> some;
#pragma unroll
            for (int j = 0; j < X_VEC; ++j) some[j] = cast<X>(x[i + j]);
            store<X_VEC>(to + i, some);
        }
    }
};
template <class X> struct Beside<X, true> {
    RF_FN static void store_all(X* to, const float* x) {
#pragma unroll
        for (int i = 0; i < QUANT_PER; i += X_VEC) {
            Vec<u32, X_VEC / 2> some;
#pragma unroll
            for (int j = 0; j < X_VEC / 2; ++j) some[j] = two_of<X>(x[i + 2 * j], x[i + 2 * j + 1]);
            store<X_VEC / 2>((u32*)(to + i), some);
        }
    }
};
#endif

extern "C" __global__ __launch_bounds__(256) void dequantise(DequantiseArgs g) {
    const u32 n = group_x() * 256 + thread_x();
    if (n >= g.walk.count) return;
    const CodeAt at = code_at<QUANT_PER, QUANT_AXES>(g.walk, n);
    QUANT_X* to = g.x + at.x;
    const Vec<QUANT_WORD, QUANT_WORDS> words = load<QUANT_WORDS>(g.words + at.word * QUANT_WORDS);
    float x[QUANT_PER];
    factors_of(g, at, x);
#pragma unroll
    for (int i = 0; i < QUANT_PER; ++i) {
        const u32 code = ((u32)words[i / IN_WORD] >> (i % IN_WORD * Code::BITS)) & ((1u << Code::BITS) - 1u);
        x[i] *= Code::decode(code);
    }
#if QUANT_VECTOR
    Beside<QUANT_X, sizeof(QUANT_X) == 2 && X_VEC >= 2>::store_all(to, x);
#else
    const i64 step = g.walk.x[AXES - 1];
#pragma unroll
    for (int i = 0; i < QUANT_PER; ++i)
        if (at.last + i < g.walk.last_extent) to[i * step] = cast<QUANT_X>(x[i]);
#endif
}
