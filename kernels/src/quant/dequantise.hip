// dequantise: x = global * scale * decode(code)
//
// Shapes : as `quantise`
// Grid   : (ceil(words / 256), 1, 1)            one lane per word
// Block  : (256, 1, 1)
// Needs  : as `quantise`
// Numeric: products in f32, the scales first; one rounding to the type of x
//
// Macros : QUANT_X, QUANT_WORD, QUANT_PER, QUANT_FORMAT
using namespace rf;

typedef Format<QUANT_FORMAT> Code;

struct DequantiseArgs {
    QUANT_X* x;
    const QUANT_WORD* words;
    const void* scales;
    const float* global;
    CodeWalk walk;
    u32 vector, padding;
};
static_assert(sizeof(DequantiseArgs) == 440, "as in dequantise.rs");

#define QUANT_FULL (16 / (int)sizeof(QUANT_X))
#define QUANT_VEC (QUANT_PER < QUANT_FULL ? QUANT_PER : QUANT_FULL)

extern "C" __global__ __launch_bounds__(256) void dequantise(DequantiseArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.walk.count) return;
    CodeAt at = code_at<QUANT_PER>(g.walk, n);
    QUANT_X* to = g.x + at.x;
    i64 step = g.walk.x[g.walk.axes - 1];
    float global = g.global ? *g.global : 1.0f;
    u32 word = (u32)g.words[at.word];
    QUANT_X x[QUANT_PER];
#pragma unroll
    for (int i = 0; i < QUANT_PER; ++i) {
        u32 last = at.last + i < g.walk.last_extent ? at.last + i : at.last;
        u32 code = (word >> (i * Code::BITS)) & ((1u << Code::BITS) - 1u);
        x[i] = cast<QUANT_X>(global * scale_at(g.walk, g.scales, at, last) * Code::decode(code));
    }
    if (g.vector) {
#pragma unroll
        for (int i = 0; i < QUANT_PER; i += QUANT_VEC) {
            Vec<QUANT_X, QUANT_VEC> some;
#pragma unroll
            for (int j = 0; j < QUANT_VEC; ++j) some[j] = x[i + j];
            store<QUANT_VEC>(to + i, some);
        }
    } else {
#pragma unroll
        for (int i = 0; i < QUANT_PER; ++i)
            if (at.last + i < g.walk.last_extent) to[i * step] = x[i];
    }
}
