// quantise: code = encode(x / scale), packed into words
//
// Shapes : x any, any strides; codes the same with the packed axis in words; a scale per block of elements, times a global one
// Grid   : (ceil(words / 256), 1, 1)            one lane per word
// Block  : (256, 1, 1)
// Needs  : words < 2^31; x is apart from codes; VECTOR only where a word's elements are neighbours, whole and aligned
//                                                                         checked by the launcher
// Numeric: x as f32, times the f32 reciprocal of global * scale or divided by it, then `Format::encode`; what a word has beyond the axis is 0;
//          a whole number alone in its word is sign-extended
//
// Macros : QUANT_X, the elements; QUANT_WORD; QUANT_PER codes in a word; QUANT_FORMAT; QUANT_ROUND, RoundAway or RoundEven;
//          QUANT_DIVIDED, whether by a division
using namespace rf;

typedef Format<QUANT_FORMAT> Code;

struct QuantiseArgs {
    const QUANT_X* x;
    QUANT_WORD* words;
    const void* scales;   // null: 1
    const float* global;  // null: 1
    CodeWalk walk;
    float least, most;    // of integer codes
    u32 vector, padding;
};
static_assert(sizeof(QuantiseArgs) == 448, "as in quantise.rs");

// Elements per access.
#define QUANT_FULL (16 / (int)sizeof(QUANT_X))
#define QUANT_VEC (QUANT_PER < QUANT_FULL ? QUANT_PER : QUANT_FULL)

extern "C" __global__ __launch_bounds__(256) void quantise(QuantiseArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.walk.count) return;
    CodeAt at = code_at<QUANT_PER>(g.walk, n);
    const QUANT_X* from = g.x + at.x;
    i64 step = g.walk.x[g.walk.axes - 1];
    float global = g.global ? *g.global : 1.0f;
    float x[QUANT_PER];
    if (g.vector) {
#pragma unroll
        for (int i = 0; i < QUANT_PER; i += QUANT_VEC) {
            Vec<QUANT_X, QUANT_VEC> some = load<QUANT_VEC>(from + i);
#pragma unroll
            for (int j = 0; j < QUANT_VEC; ++j) x[i + j] = cast<float>(some[j]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < QUANT_PER; ++i) x[i] = at.last + i < g.walk.last_extent ? cast<float>(from[i * step]) : 0.0f;
    }
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < QUANT_PER; ++i) {
        u32 last = at.last + i < g.walk.last_extent ? at.last + i : at.last;
        float scale = global * scale_at(g.walk, g.scales, at, last);
        float scaled = QUANT_DIVIDED ? x[i] / scale : x[i] * (1.0f / scale);
        u32 code = Code::encode<QUANT_ROUND>(scaled, g.least, g.most);
        word |= code << (i * Code::BITS);
    }
    // Alone in its byte a whole number keeps its sign.
    if (QUANT_PER == 1 && QUANT_FORMAT <= 2) word = (u32)((i32)(word << (32 - Code::BITS)) >> (32 - Code::BITS));
    g.words[at.word] = (QUANT_WORD)word;
}
