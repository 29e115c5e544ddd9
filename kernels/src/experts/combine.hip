// combine: what the experts of a token gave, weighted and added; and its gradients.
//
//   y[t] = sum over slots s, in their order, of weights[t, s] * (rows[p] + bias[group of p])        p = places[t, s]
//
// Shapes : rows [places, n], y [tokens, n], bias [groups, n]: rows contiguous, at any distance; places i32 [tokens, k], contiguous;
//          weights COMBINE_SUM [tokens, k], rows contiguous; offsets i32 [groups + 1]
// Grid   : combine (ceil(n / (256 * COMBINE_VEC)) * tokens, 1, 1)           Block : (256, 1, 1)      a token's run of columns
//          combine_backward (tokens * k, 1, 1)                              Block : (256, 1, 1)      a choice
// Needs  : tokens * k < 2^31; with COMBINE_VEC > 1 rows of all matrices aligned to it; no output overlaps an input or another
//                                                                                                     checked by the launcher
// Numeric: in COMBINE_SUM, one rounding at the store; a place that is negative, at the last offset or behind it counts nothing. A
//          token's bits depend on its own choices alone
//
// Macros : COMBINE_IN of rows and bias, COMBINE_OUT of y; COMBINE_SUM; COMBINE_VEC: elements of one access
using namespace rf;

typedef COMBINE_IN In;
typedef COMBINE_OUT Out;
typedef COMBINE_SUM Real;
#define BLOCK 256
// Slots whose rows are under way at once.
#define TURN 4

// What both kernels read besides the outputs of experts.
struct Choices {
    const i32* places;
    const Real* weights;
    const In* bias;
    const i32* offsets;
    i64 weight_stride, bias_stride;
    u32 n, k, groups, limit;

    // The first place that is no choice's.
    RF_FN u32 end() const {
        u32 last = offsets ? (u32)offsets[groups] : limit;
        return last < limit ? last : limit;
    }
    RF_FN Real weight(u32 token, u32 slot) const { return weights ? weights[token * weight_stride + slot] : (Real)1; }
    // The bias of the group that a place is of: the first that ends behind it.
    RF_FN const In* bias_of(u32 place) const {
        u32 low = 0, high = groups - 1;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if ((u32)offsets[middle + 1] > place) high = middle; else low = middle + 1;
        }
        return bias + low * bias_stride;
    }
};

struct CombineArgs {
    Choices of;
    const In* rows;
    Out* y;
    i64 row_stride, y_stride;
    FastDiv runs;
    u32 padding;
};
static_assert(sizeof(CombineArgs) == 112, "as in combine.rs");

typedef Vec<In, COMBINE_VEC> Row;

extern "C" __global__ __launch_bounds__(BLOCK) void combine(CombineArgs g) {
    u32 token = g.runs.divide(group_x()), run = group_x() - token * g.runs.divisor;
    u32 col = (run * BLOCK + thread_x()) * COMBINE_VEC, end = g.of.end();
    if (col >= g.of.n) return;
    Real sum[COMBINE_VEC];
#pragma unroll
    for (int e = 0; e < COMBINE_VEC; ++e) sum[e] = 0;
    for (u32 first = 0; first < g.of.k; first += TURN) {
        Row row[TURN];
        u32 place[TURN];
#pragma unroll
        for (int i = 0; i < TURN; ++i) {
            u32 slot = first + i;
            place[i] = slot < g.of.k ? (u32)g.of.places[(i64)token * g.of.k + slot] : ~0u;
            if (place[i] < end) row[i] = load<COMBINE_VEC>(g.rows + place[i] * g.row_stride + col);
        }
#pragma unroll
        for (int i = 0; i < TURN; ++i) {
            if (place[i] >= end) continue;
            Row bias;
            __builtin_memset(&bias, 0, sizeof(bias));
            if (g.of.bias) bias = load<COMBINE_VEC>(g.of.bias_of(place[i]) + col);
            Real weight = g.of.weight(token, first + i);
#pragma unroll
            for (int e = 0; e < COMBINE_VEC; ++e)
                sum[e] = rf::fma(weight, g.of.bias ? cast<Real>(row[i][e]) + cast<Real>(bias[e]) : cast<Real>(row[i][e]), sum[e]);
        }
    }
    Vec<Out, COMBINE_VEC> y;
#pragma unroll
    for (int e = 0; e < COMBINE_VEC; ++e) y[e] = cast<Out>(sum[e]);
    store<COMBINE_VEC>(g.y + token * g.y_stride + col, y);
}

struct CombineBackwardArgs {
    Choices of;
    const Out* grad;
    const In* rows;
    In* rows_grad;
    Real* weights_grad;
    i64 grad_stride, row_stride, rows_grad_stride, weights_grad_stride;
    FastDiv k;
    u32 padding;
};
static_assert(sizeof(CombineBackwardArgs) == 144, "as in combine.rs");

// Of the row that a choice has: grad * weight; of its weight: the sum of grad * (row + bias). A choice that counts nothing has zeros.
extern "C" __global__ __launch_bounds__(BLOCK) void combine_backward(CombineBackwardArgs g) {
    __shared__ Real scratch[BLOCK / ARCH_WAVE_SIZE];
    u32 token = g.k.divide(group_x()), slot = group_x() - token * g.k.divisor;
    u32 place = (u32)g.of.places[group_x()];
    bool counts = place < g.of.end(), there = place < g.of.limit;
    const In* bias = counts && g.of.bias ? g.of.bias_of(place) : nullptr;
    Real weight = counts ? g.of.weight(token, slot) : (Real)0, sum = 0;
    for (u32 col = thread_x() * COMBINE_VEC; col < g.of.n; col += BLOCK * COMBINE_VEC) {
        Vec<Out, COMBINE_VEC> grad;
        __builtin_memset(&grad, 0, sizeof(grad));
        if (counts) grad = load<COMBINE_VEC>(g.grad + token * g.grad_stride + col);
        if (counts && g.weights_grad) {
            Row row = load<COMBINE_VEC>(g.rows + place * g.row_stride + col), shift;
            __builtin_memset(&shift, 0, sizeof(shift));
            if (bias) shift = load<COMBINE_VEC>(bias + col);
#pragma unroll
            for (int e = 0; e < COMBINE_VEC; ++e)
                sum = rf::fma(cast<Real>(grad[e]), bias ? cast<Real>(row[e]) + cast<Real>(shift[e]) : cast<Real>(row[e]), sum);
        }
        if (there && g.rows_grad) {
            Row to;
#pragma unroll
            for (int e = 0; e < COMBINE_VEC; ++e) to[e] = cast<In>(counts ? weight * cast<Real>(grad[e]) : (Real)0);
            store<COMBINE_VEC>(g.rows_grad + place * g.rows_grad_stride + col, to);
        }
    }
    if (!g.weights_grad) return;
    sum = group_reduce(sum, Sum(), scratch, thread_x(), BLOCK);
    if (thread_x() == 0) g.weights_grad[token * g.weights_grad_stride + slot] = sum;
}
