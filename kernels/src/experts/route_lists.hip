// route_lists: as route.hip has it, the k best experts of each token and their shares, for k up to 8, without bias, groups, tables or
// shared experts. Stands behind route.h.
//
// A token has LANES lanes. Each keeps its own experts in a list, the best first; the best of all lists is the next that is chosen, and
// goes from its list. An entry is the key of a logit with the expert's number behind it, so that no two are alike and the lowest number is
// first of equals; as the fraction of a double it is compared, and the larger of two taken, by one instruction each.
//
// Grid   : (ceil(tokens / TOKENS), 1, 1)     Block : (ROUTE_WAVES * wave, 1, 1)
// Needs  : k <= MOST, LANES * 4 <= ROUTE_EXPERTS <= 256; doubles at the rate of floats             checked by the launcher
// Numeric: as route.hip; the powers that a softmax's sum is made of by the device's own instruction, those of the shares not
#define LANES 16
#define TOKENS (ROUTE_WAVES * ARCH_WAVE_SIZE / LANES)
// Experts of a lane: pieces of neighbours, those of all lanes side by side. How many of a lane's may be chosen.
#define ITEMS (ROUTE_EXPERTS / LANES)
#define PIECE 4
#define MOST 8
#define LIST (ITEMS < MOST ? ITEMS : MOST)
#define LOG2_E 1.44269504088896340736f
static_assert(ITEMS == 4 || ITEMS == 8 || ITEMS == 16, "whole pieces, and lists that are sorted at once or by halves");

RF_FN u32 expert_of(int item, u32 own) { return item / PIECE * (LANES * PIECE) + own * PIECE + item % PIECE; }

// Over the lanes of a token; all get the result.
template <class Op, class T> RF_FN T over_lanes(T x, Op op) {
    x = op(x, dpp<RF_DPP_XOR1>(x));
    x = op(x, dpp<RF_DPP_XOR2>(x));
    x = op(x, dpp<RF_DPP_HALF_MIRROR>(x));
    return op(x, dpp<RF_DPP_MIRROR>(x));
}
struct Larger {
    RF_FN float operator()(float a, float b) const { return __builtin_fmaxf(a, b); }
    RF_FN double operator()(double a, double b) const { return __builtin_fmax(a, b); }
};

// Numbers from 1 to below 2 in the order of keys, and of two with one key the lower expert first.
struct Entry {
    u32 low, high;
    RF_FN static double of(u32 key, u32 expert) {
        Entry e;
        e.low = key << 20 | (0xffu - expert);
        e.high = 0x3ff00000u | key >> 12;
        return bit_cast<double>(e);
    }
    RF_FN u32 key() const { return high << 12 | low >> 20; }
    RF_FN u32 expert() const { return 0xffu - (low & 0xffu); }
};
// The logit of a key.
RF_FN float logit_of(u32 key) { return key == 1 ? nan() : bit_cast<float>(key >> 31 != 0 ? key ^ 0x80000000u : ~key); }

// Puts the larger first.
RF_FN void order(double& a, double& b) {
    const double larger = __builtin_fmax(a, b), smaller = __builtin_fmin(a, b);
    a = larger;
    b = smaller;
}
// Batcher's network.
template <int COUNT> RF_FN void sort(double* list) {
#pragma unroll
    for (int run = 1; run < COUNT; run *= 2)
#pragma unroll
        for (int apart = run; apart >= 1; apart /= 2)
#pragma unroll
            for (int n = 0; n + apart < COUNT; ++n) {
                const bool is_first = n >= apart % run && (n - apart % run) % (2 * apart) < apart;
                if (is_first && n / (2 * run) == (n + apart) / (2 * run)) order(list[n], list[n + apart]);
            }
}
// The best of a lane's entries, the best first.
RF_FN void sort_best(double (&all)[ITEMS]) {
    if (ITEMS <= MOST) {
        sort<ITEMS>(all);
        return;
    }
    sort<LIST>(all);
    sort<LIST>(all + ITEMS - LIST);
    // The better of the first of one half and the last of the other, and so on, are the best of both: they rise, then fall.
#pragma unroll
    for (int n = 0; n < LIST; ++n) all[n] = __builtin_fmax(all[n], all[ITEMS - 1 - n]);
#pragma unroll
    for (int apart = LIST / 2; apart >= 1; apart /= 2)
#pragma unroll
        for (int n = 0; n < LIST; ++n)
            if (n / apart % 2 == 0) order(all[n], all[n + apart]);
}

#if ROUTE_SCORE == 0
// The largest logit, and the sum of powers from there.
RF_FN void sum_up(const float (&x)[ITEMS], float& most, float& sum) {
    most = -infinity();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) most = __builtin_fmaxf(most, x[i]);
    most = over_lanes(most, Larger());
    sum = 0.0f;
    // Of infinite ones each counts 1.
    const bool is_infinite = rf::abs(most) == infinity();
    if (rf::ballot(is_infinite) != 0) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const float power = exp2_fast((x[i] - most) * LOG2_E);
            sum += is_infinite ? (x[i] == most ? 1.0f : 0.0f) : __builtin_fmaxf(power, 0.0f);
        }
    } else {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) sum += __builtin_fmaxf(exp2_fast((x[i] - most) * LOG2_E), 0.0f);
    }
    sum = over_lanes(sum, Sum());
}
#endif

extern "C" __global__ __launch_bounds__(ROUTE_WAVES * ARCH_WAVE_SIZE) void route_lists(RouteArgs g) {
    const u32 own = lane() % LANES, token = group_x() * TOKENS + thread_x() / LANES;
    // Lanes of no token do as those of the last one, and write nothing.
    const u32 held = token < g.tokens ? token : g.tokens - 1;
    const ROUTE_TYPE* row = g.x + held * g.x_stride;
    float x[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i += PIECE) {
        const u32 first = expert_of(i, own);
        if (g.x_is_whole != 0 && first < g.experts) {
            const Vec<ROUTE_TYPE, PIECE> piece = load<PIECE>(row + first);
#pragma unroll
            for (int e = 0; e < PIECE; ++e) x[i + e] = cast<float>(piece[e]);
        } else {
#pragma unroll
            for (int e = 0; e < PIECE; ++e) x[i + e] = first + e < g.experts ? cast<float>(row[first + e]) : nan();
        }
    }
    double entries[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const u32 expert = expert_of(i, own);
        entries[i] = Entry::of(expert < g.experts ? key_of(x[i]) : 0, expert);
    }
#if ROUTE_SCORE == 0
    float most, sum;
    sum_up(x, most, sum);
#endif
    sort_best(entries);
    double chosen = 0.0;
#pragma unroll
    for (u32 slot = 0; slot < MOST; ++slot) {
        if (slot >= g.k) break;
        const double best = over_lanes(entries[0], Larger());
        chosen = own == slot ? best : chosen;
        const bool goes = entries[0] == best;
#pragma unroll
        for (int n = 0; n < LIST; ++n) entries[n] = goes ? (n + 1 < LIST ? entries[n + 1] : 0.0) : entries[n];
    }
    const Entry entry = bit_cast<Entry>(chosen);
    const float logit = logit_of(entry.key());
#if ROUTE_SCORE == 0
    const float power = logit == most ? 1.0f : rf::exp(logit - most);
    float share = power == power && sum > 0.0f ? power / sum : 0.0f;
#else
    float share = logit == logit ? score_of(logit) : 0.0f;
#endif
    if (own >= g.k) share = 0.0f;
    if (g.renormalises != 0) {
        const float all = over_lanes(share, Sum());
        share = share / (all > 1e-20f ? all : 1e-20f);
    }
    if (token >= g.tokens || own >= g.k) return;
    const bool counts = !g.count || (i64)token < (i64)*g.count;
    g.ids[token * g.id_stride + own] = counts ? (i32)entry.expert() : -1;
    g.shares[token * g.share_stride + own] = counts ? share * g.factor : 0.0f;
}
