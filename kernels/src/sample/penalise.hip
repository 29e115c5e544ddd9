// penalise: changes the logits of listed tokens in place
//
//   x > 0: x / repetition, else x * repetition; then - frequency * count, - presence if count > 0; then + bias
//
// Shapes : x [rows, count], innermost contiguous, any row stride; tokens, counts, biases [rows, listed]; factors [rows]
// Grid   : (ceil(rows * listed / 256), 1, 1)     Block : (256, 1, 1)          one lane for an entry
// Needs  : rows * listed < 2^31; a row lists a token once                               the first checked by the launcher
// Numeric: in f32, one rounding; entries whose token is outside the row are passed over
//
// Macros : PENALISE_TYPE
using namespace rf;

struct PenaliseArgs {
    PENALISE_TYPE* x;
    const i32* tokens;
    const i32* counts;         // null: 0, of what was only read
    const float* biases;       // null: 0
    const float* repetitions;  // null: 1
    const float* frequencies;  // null: 0
    const float* presences;    // null: 0
    i64 x_stride, token_stride, count_stride, bias_stride, repetition_stride, frequency_stride, presence_stride;
    u32 count, entries;
    FastDiv listed;
    u32 padding;
};
static_assert(sizeof(PenaliseArgs) == 136, "as in penalise.rs");

extern "C" __global__ __launch_bounds__(256) void penalise_entries(PenaliseArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.entries) return;
    u32 row = g.listed.divide(n), slot = n - row * g.listed.divisor;
    i32 token = g.tokens[row * g.token_stride + slot];
    if ((u32)token >= g.count) return;
    PENALISE_TYPE* x = g.x + row * g.x_stride + token;
    float value = cast<float>(*x);
    float repetition = g.repetitions ? g.repetitions[row * g.repetition_stride] : 1.0f;
    value = value > 0.0f ? value / repetition : value * repetition;
    i32 times = g.counts ? g.counts[row * g.count_stride + slot] : 0;
    if (times > 0) {
        if (g.frequencies) value = value - g.frequencies[row * g.frequency_stride] * (float)times;
        if (g.presences) value = value - g.presences[row * g.presence_stride];
    }
    if (g.biases) value = value + g.biases[row * g.bias_stride + slot];
    *x = cast<PENALISE_TYPE>(value);
}
