// log_probabilities: the logarithm of the softmax of a row at a token, how many are likelier, and at the row's best
//
// Shapes : x [rows, count], innermost contiguous, any row stride; tokens, chosen, ranks [rows]; best [rows, n] of x's type, logs [rows, n]
// Grid   : (rows, 1, 1)     Block : (SELECT_THREADS, 1, 1)          one workgroup for a row
// LDS    : some words for each wave
// Needs  : 1 <= count < 2^31                                                            checked by the launcher
// Numeric: sums in f32 in an order that the places decide; (x - largest) - log(sum), -inf of NaN and of what is not there. Of an
//          infinite largest its equals share everything
//
// Macros : LOGS_TYPE; LOGS_INDEX, the type of tokens
using namespace rf;

struct LogProbabilitiesArgs {
    const LOGS_TYPE* x;
    const LOGS_INDEX* tokens;  // null if not wanted, as chosen and ranks
    const LOGS_TYPE* best;     // null if not wanted: the row's largest numbers, in order
    float* chosen;
    i32* ranks;                // null if not wanted
    float* logs;
    i64 x_stride, token_stride, best_stride, chosen_stride, rank_stride, log_stride;
    u32 count, n;
};
static_assert(sizeof(LogProbabilitiesArgs) == 104, "as in log_probabilities.rs");

RF_FN u32 key_here(float x) { return x == x ? key_of(x) : 0; }

struct Most {
    u32 key;
    RF_FN void operator()(u32, float x) {
        u32 own = key_here(x);
        key = own > key ? own : key;
    }
};
RF_FN float weight(u32 key, u32 most, float number, bool finite) {
    float w = exp2_fast((number_of(key) - number) * 0x1.715476p+0f);
    w = finite && w > 0.0f ? w : 0.0f;
    return key == 0 ? 0.0f : (key == most ? 1.0f : w);
}
struct Weigh {
    u32 most, token;
    float number;
    bool finite;
    float sum;
    u32 likelier;
    RF_FN void operator()(u32, float x) {
        u32 key = key_here(x);
        sum += weight(key, most, number, finite);
        likelier += key > token ? 1 : 0;
    }
};

extern "C" __global__ __launch_bounds__(SELECT_THREADS) void log_probabilities_rows(LogProbabilitiesArgs g) {
    __shared__ u32 words[SELECT_WAVES];
    __shared__ float floats[SELECT_WAVES];
    u32 own = group_x(), thread = thread_x();
    const LOGS_TYPE* x = g.x + own * g.x_stride;
    Row<LOGS_TYPE> row(x, (const u32*)0, g.count);
    Most find = {0};
    each(row, find);
    u32 most = group_reduce(find.key, Max(), words, thread, (u32)SELECT_THREADS);
    float number = number_of(most);
    bool finite = !is_inf(number);
    i64 token = g.tokens ? (i64)g.tokens[own * g.token_stride] : -1;
    bool there = token >= 0 && token < (i64)g.count;
    u32 of_token = there ? key_here(cast<float>(x[token])) : ~0u;
    Weigh weigh = {most, of_token, number, finite, 0.0f, 0};
    each(row, weigh);
    float sum = group_reduce(weigh.sum, Sum(), floats, thread, (u32)SELECT_THREADS);
    u32 likelier = group_reduce(weigh.likelier, Sum(), words, thread, (u32)SELECT_THREADS);
    float lost = rf::log(sum);
    if (thread == 0 && g.tokens) {
        bool counts = there && of_token != 0 && (finite || of_token == most);
        float log = of_token == most ? -lost : (number_of(of_token) - number) - lost;
        g.chosen[own * g.chosen_stride] = counts ? log : -infinity();
        if (g.ranks) g.ranks[own * g.rank_stride] = there ? (i32)likelier + 1 : 0;
    }
    for (u32 slot = thread; slot < g.n; slot += SELECT_THREADS) {
        u32 key = key_here(cast<float>(g.best[own * g.best_stride + slot]));
        float log = key == most ? -lost : (number_of(key) - number) - lost;
        g.logs[own * g.log_stride + slot] = key != 0 && (finite || key == most) ? log : -infinity();
    }
}
