// route: the k best experts of each token, and their shares
//
//   s = softmax(x), sigmoid(x) or sqrt(log(1 + e^x)); chosen: the k largest s + bias, of x itself without a bias, where there are
//   groups of the best groups alone; share = s of those chosen, over their sum if asked, times a factor
//
// Shapes : x [tokens, experts and shared columns], innermost contiguous, any row stride; bias [experts]; shares, ids [tokens, k + shared],
//          any row stride; table [.., k], table_rows [tokens]
// Grid   : (ceil(tokens / ROUTE_WAVES), 1, 1)     Block : (ROUTE_WAVES * wave, 1, 1)       one wave for a token
// LDS    : 2 * ROUTE_EXPERTS floats for each wave
// Needs  : k + shared <= 32, k <= experts of the kept groups, experts <= ROUTE_EXPERTS; groups divide experts, at most 32
//                                                                                        checked by the launcher
// Numeric: in f32. Of equals the lowest number is chosen, the best comes first. An expert whose logit is NaN comes after
//          all others and shares nothing. Of infinite logits of a softmax each counts 1. Sums that shares are
//          divided by are 1e-20 at least. A token behind the last that counts has ids -1 and shares 0
//
// Macros : those of route.h, which stands before
#define ITEMS (ROUTE_EXPERTS / ARCH_WAVE_SIZE)

// Scores of this lane's experts, item * wave + lane.
RF_FN void scores(const RouteArgs& g, const float* x, float* s) {
    u32 own = lane();
#if ROUTE_SCORE == 0
    float most = -infinity();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) most = own + i * ARCH_WAVE_SIZE < g.experts && x[i] > most ? x[i] : most;
    most = wave_reduce(most, Max());
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        float power = x[i] == most ? 1.0f : rf::exp(x[i] - most);
        s[i] = own + i * ARCH_WAVE_SIZE < g.experts && power == power ? power : 0.0f;
        sum += s[i];
    }
    sum = wave_reduce(sum, Sum());
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) s[i] = sum > 0.0f ? s[i] / sum : 0.0f;
#else
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) s[i] = x[i] == x[i] ? score_of(x[i]) : 0.0f;
#endif
}

// The largest and the smallest of a wave; NVIDIA's cards from Ampere on have an instruction for each.
#if !RF_DEVICE_AMD && __CUDA_ARCH__ >= 800
RF_FN u32 largest(u32 value) { return __reduce_max_sync(~0u, value); }
RF_FN u32 smallest(u32 value) { return __reduce_min_sync(~0u, value); }
#else
RF_FN u32 largest(u32 value) { return wave_reduce(value, Max()); }
RF_FN u32 smallest(u32 value) { return wave_reduce(value, Min()); }
#endif

// The groups that are kept, a bit for each. Each has 2^parts_log2 neighbouring lanes.
RF_FN u64 best_groups(const RouteArgs& g, const float* choices) {
    u32 own = lane(), group = own >> g.parts_log2, parts = 1u << g.parts_log2, part = own & (parts - 1);
    float first = -infinity(), second = -infinity();
    if (group < g.groups && part < g.group_size) {
        // Groups begin at different places, which lie in different banks.
        u32 count = (g.group_size - part + parts - 1) >> g.parts_log2, n = group;
        while (n >= count) n -= count;
        for (u32 left = 0; left < count; ++left) {
            float c = choices[group * g.group_size + part + (n << g.parts_log2)];
            float lower = c < first ? c : first;
            second = lower > second ? lower : second;
            first = c > first ? c : first;
            n = n + 1 == count ? 0 : n + 1;
        }
    }
    for (u32 reach = 1; reach < parts; reach *= 2) {
        float c = shuffle_xor(first, reach), other = shuffle_xor(second, reach);
        float lower = c < first ? c : first;
        second = other > second ? other : second;
        second = lower > second ? lower : second;
        first = c > first ? c : first;
    }
    u32 key = group < g.groups ? key_of(g.by_two != 0 ? first + second : first) : 0, better = 0;
    for (u32 other = 0; other < g.groups; ++other) {
        u32 key_there = shuffle(key, other << g.parts_log2);
        better += key_there > key || (key_there == key && other < group) ? 1 : 0;
    }
    return rf::ballot(group < g.groups && better < g.groups_kept);
}

// The best of a lane's experts that are left: the lowest of equals.
struct Best {
    u32 key, expert;
    RF_FN void find(const u32 (&keys)[ITEMS]) {
        key = 0;
        expert = ~0u;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            expert = keys[i] > key ? lane() + i * ARCH_WAVE_SIZE : expert;
            key = keys[i] > key ? keys[i] : key;
        }
    }
};

// The expert that is chosen in the place of this lane's number, -1 if there is none.
RF_FN i32 chosen(const RouteArgs& g, u32 token, u32 (&keys)[ITEMS]) {
    u32 own = lane();
    i32 id = -1;
    if (g.table) {
        i32 from = g.table_rows[token];
        if (own < g.k && (u32)from < g.table_rows_count) id = g.table[from * g.table_stride + own];
        if ((u32)id >= g.experts) id = -1;
    } else {
        Best best;
        best.find(keys);
        for (u32 slot = 0; slot < g.k; ++slot) {
            u32 key = largest(best.key), expert = smallest(best.key == key ? best.expert : ~0u);
            if (own == slot) id = (i32)expert;
            if (best.expert != expert) continue;
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                if (own + i * ARCH_WAVE_SIZE == expert) keys[i] = 0;
            best.find(keys);
        }
    }
    return id;
}

extern "C" __global__ __launch_bounds__(ROUTE_WAVES * ARCH_WAVE_SIZE) void route_tokens(RouteArgs g) {
    __shared__ float lds[ROUTE_WAVES][2][ROUTE_EXPERTS];
    u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), token = group_x() * ROUTE_WAVES + wave, own = lane();
    if (token >= g.tokens) return;
    float* shares = g.shares + token * g.share_stride;
    i32* ids = g.ids + token * g.id_stride;
    if (g.count && (i64)token >= (i64)*g.count) {
        if (own < g.k + g.shared) {
            ids[own] = -1;
            shares[own] = 0.0f;
        }
        return;
    }
    const ROUTE_TYPE* row = g.x + token * g.x_stride;
    float x[ITEMS], s[ITEMS], biases[ITEMS];
    u32 keys[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        u32 expert = own + i * ARCH_WAVE_SIZE;
        x[i] = expert < g.experts ? cast<float>(row[expert]) : nan();
        biases[i] = g.bias && expert < g.experts ? g.bias[expert] : 0.0f;
    }
    scores(g, x, s);
    float* of_expert = lds[wave][0];
    float* choices = lds[wave][1];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        u32 expert = own + i * ARCH_WAVE_SIZE;
        float c = x[i];
        if (g.bias) c = x[i] == x[i] ? s[i] + biases[i] : nan();
        keys[i] = expert < g.experts ? key_of(c) : 0;
        of_expert[expert] = s[i];
        c = g.by_two != 0 && !g.bias ? (x[i] == x[i] ? s[i] : nan()) : c;
        choices[expert] = c == c ? c : -infinity();
    }
    wave_barrier();
    if (g.groups > 1) {
        u64 kept = best_groups(g, choices);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            u32 expert = own + i * ARCH_WAVE_SIZE;
            bool stays = ((kept >> (g.size.divide(expert) << g.parts_log2)) & 1) != 0;
            if (expert < g.experts && !stays) keys[i] = 1;
        }
    }

    i32 id = chosen(g, token, keys);
    float share = own < g.k && id >= 0 ? of_expert[id] : 0.0f;
    if (g.renormalises != 0) {
        float sum = wave_reduce(share, Sum());
        share = share / (sum > 1e-20f ? sum : 1e-20f);
    }
    share = share * g.factor;
    if (g.shared != 0) {
        bool is_shared = own >= g.k && own < g.k + g.shared;
        float of_shared = 1.0f;
        if (g.shared_score != 0) {
            float y = is_shared ? cast<float>(row[g.experts + own - g.k]) : -infinity();
            float most = wave_reduce(y == y ? y : -infinity(), Max());
            float power = y == most ? 1.0f : rf::exp(y - most);
            float sum = wave_reduce(is_shared && power == power ? power : 0.0f, Sum());
            of_shared = g.shared_score == 1 ? sigmoid(y) : power / sum;
            of_shared = of_shared == of_shared ? of_shared : 0.0f;
        }
        id = is_shared ? (i32)(g.experts + own - g.k) : id;
        share = is_shared ? of_shared : share;
    }
    if (own < g.k + g.shared) {
        ids[own] = id;
        shares[own] = share;
    }
}
