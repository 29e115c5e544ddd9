// causal_conv: out[t, c] = act(bias[c] + sum_k weight[c, k] * x[t - (w - 1) + k, c]), each channel along its own sequence
//
//   Inputs before a sequence's first row are those that its slot holds; the last w - 1 inputs are put there, or those that a later
//   window may need.
//
// Shapes : x, out [tokens, dim]; weight [dim, w]; bias [dim]; state [slots, dim, places >= w - 1], the oldest first; told [sequences];
//          strides in elements
// Grid   : (ceil(lanes / 256), 1, 1): a lane has CAUSAL_VEC channels of `run` rows
// Block  : (256, 1, 1)
// Needs  : lanes, tokens, slots < 2^31; out and state apart from each other and from what is read; with CAUSAL_VEC > 1 channels
//          contiguous, accesses of x and out aligned                                       checked by the launcher
// Numeric: f32 products added up from the bias on, oldest first, one rounding at the store; states are moved as bits, from a 16-bit x
//          to f32 exactly. A row's bits depend on its own sequence alone
//
// Macros : CAUSAL_TYPE, CAUSAL_STATE, CAUSAL_WEIGHT: types; CAUSAL_TAPS: w; CAUSAL_WINDOW: where in its line a sequence's last inputs
//          lie: 0 at its beginning, 1 from place told - 1 on, 2 before place told of a circle; CAUSAL_VEC; CAUSAL_BY_TOKENS: whether
//          rows of a channel lie side by side, and lanes take them; CAUSAL_SILU; CAUSAL_WHOLE: whether a channel's weights lie side by
//          side, and its states, each channel's behind those of the channel before, from a multiple of 16 bytes on, with CAUSAL_WINDOW 0
//
// The state of a sequence is read and written by one lane for each channel, so that nothing waits for another lane: that of the
// sequence's first row has the first w - 1 rows, also those of the next lane's run.

#define TAPS CAUSAL_TAPS
#define OLD (CAUSAL_TAPS - 1)
#define VEC CAUSAL_VEC
#define AHEAD 4  // rows that are loaded at once

typedef CAUSAL_TYPE T;
typedef CAUSAL_STATE State;

struct CausalConvArgs {
    const T* x;
    T* out;
    const CAUSAL_WEIGHT* weight;
    const CAUSAL_WEIGHT* bias;  // or no address
    State* state;
    const i32* told;
    i64 x_token, x_channel, out_token, out_channel, weight_channel, weight_tap, bias_channel;
    i64 state_slot, state_channel, state_place, told_stride;
    Sequences sequences;
    FastDiv across;  // how many lanes are side by side: runs of rows, or groups of channels
    u32 lanes, run, places;
};
static_assert(sizeof(CausalConvArgs) == 48 + 88 + 64 + 24, "as in causal_conv.rs");

typedef Vec<T, VEC> Row;

struct Filter { float weight[TAPS][VEC], bias[VEC]; };

#if CAUSAL_WHOLE
// COUNT elements that lie side by side from a multiple of 16 bytes on, in as few accesses as that allows.
#define WHOLE(COUNT) ((COUNT) % 8 == 0 && sizeof(E) == 2 ? 8 : 4)
template <int COUNT, class E> RF_FN void read_flat(const E* from, E (&to)[COUNT]) {
#pragma unroll
    for (int n = 0; n < COUNT; n += WHOLE(COUNT)) {
        const Vec<E, WHOLE(COUNT)> piece = load<WHOLE(COUNT)>(from + n);
#pragma unroll
        for (int e = 0; e < WHOLE(COUNT); ++e) to[n + e] = piece[e];
    }
}
template <int COUNT, class E> RF_FN void write_flat(E* to, const E (&from)[COUNT]) {
#pragma unroll
    for (int n = 0; n < COUNT; n += WHOLE(COUNT)) {
        Vec<E, WHOLE(COUNT)> piece;
#pragma unroll
        for (int e = 0; e < WHOLE(COUNT); ++e) piece[e] = from[n + e];
        store<WHOLE(COUNT)>(to + n, piece);
    }
}
#endif

RF_FN void read_filter(const CausalConvArgs& g, u32 channel, Filter& f) {
#if CAUSAL_WHOLE
    CAUSAL_WEIGHT flat[TAPS * VEC], bias[VEC];
    read_flat(g.weight + (i64)channel * TAPS, flat);
    __builtin_memset(bias, 0, sizeof(bias));
    if (g.bias != 0) read_flat(g.bias + channel, bias);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
        for (int k = 0; k < TAPS; ++k) f.weight[k][v] = cast<float>(flat[v * TAPS + k]);
        f.bias[v] = cast<float>(bias[v]);
    }
#else
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
        const i64 c = channel + v;
#pragma unroll
        for (int k = 0; k < TAPS; ++k)
            f.weight[k][v] = cast<float>(g.weight[c * g.weight_channel + k * g.weight_tap]);
        f.bias[v] = g.bias != 0 ? cast<float>(g.bias[c * g.bias_channel]) : 0.0f;
    }
#endif
}

// Up to AHEAD rows from `token` on, as far as `end`.
RF_FN void read_rows(const CausalConvArgs& g, u32 channel, u32 token, u32 end, Row* to) {
    const T* from = g.x + (i64)token * g.x_token + (i64)channel * g.x_channel;
#if CAUSAL_BY_TOKENS
    if (token + AHEAD <= end && g.x_token == 1 && ((u64)from & (AHEAD * sizeof(T) - 1)) == 0) {
        const Vec<T, AHEAD> rows = load<AHEAD>(from);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) to[i][0] = rows[i];
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
        if (token + i < end) to[i] = load<VEC>(from + i * g.x_token);
}
RF_FN void write_rows(const CausalConvArgs& g, u32 channel, u32 token, u32 end, const Row* rows) {
    T* to = g.out + (i64)token * g.out_token + (i64)channel * g.out_channel;
#if CAUSAL_BY_TOKENS
    if (token + AHEAD <= end && g.out_token == 1 && ((u64)to & (AHEAD * sizeof(T) - 1)) == 0) {
        Vec<T, AHEAD> whole;
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) whole[i] = rows[i][0];
        store<AHEAD>(to, whole);
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
        if (token + i < end) store<VEC>(to + i * g.out_token, rows[i]);
}

// Rows from `token` to `end`; `window` holds the inputs before them, and is moved along.
RF_FN void filter_rows(const CausalConvArgs& g, const Filter& f, u32 channel, u32 token, u32 end, float (*window)[VEC]) {
    for (; token < end; token += AHEAD) {
        Row rows[AHEAD];
        __builtin_memset(rows, 0, sizeof(rows));
        read_rows(g, channel, token, end, rows);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                const float x = cast<float>(rows[i][v]);
                float y = f.bias[v];
#pragma unroll
                for (int k = 0; k < OLD; ++k) y = rf::fma(f.weight[k][v], window[k][v], y);
                y = rf::fma(f.weight[OLD][v], x, y);
#pragma unroll
                for (int k = 0; k + 1 < OLD; ++k) window[k][v] = window[k + 1][v];
                window[OLD - 1][v] = x;
#if CAUSAL_SILU
                y = y / (1.0f + rf::exp(-y));
#endif
                rows[i][v] = cast<T>(y);
            }
        }
        write_rows(g, channel, token, end, rows);
    }
}

// The place in its line where the window before a sequence's first row begins. False: nothing can lie there.
RF_FN bool find_window(const CausalConvArgs& g, u32 number, u32& at) {
    at = 0;
#if CAUSAL_WINDOW == 1
    if (!is_fresh(g.sequences, number)) at = (u32)g.told[number * g.told_stride] - 1;
    return at <= g.places - OLD;
#elif CAUSAL_WINDOW == 2
    const i32 told = g.told[number * g.told_stride];
    const u32 end = (u32)told % g.places;
    at = end < OLD ? end + g.places - OLD : end - OLD;
    return told >= 0;
#else
    return true;
#endif
}
// The place of a window's input k.
RF_FN u32 place_of(const CausalConvArgs& g, u32 at, u32 k) {
    return CAUSAL_WINDOW == 2 && at + k >= g.places ? at + k - g.places : at + k;
}

#if CAUSAL_WINDOW
// Those inputs of a sequence into its line that a later window may have: every row and the w - 2 inputs before them, or the last window
// alone where that is more than there are places; of a circle rows only, and the zeros before those that begin one.
RF_FN void write_line(const CausalConvArgs& g, const Span& span, u32 channel, u32 at, State* state, const State (*old)[VEC]) {
    const u32 rows = span.end - span.begin;
    const u32 kept = CAUSAL_WINDOW == 2 ? g.places : rows <= g.places - (OLD - 1) ? rows + OLD - 1 : OLD;
    const bool is_told = CAUSAL_WINDOW == 1 || is_fresh(g.sequences, span.number);
#pragma unroll
    for (u32 k = 0; k < OLD; ++k) {
        if (!is_told || rows + OLD - k > kept) continue;
        const u32 place = CAUSAL_WINDOW == 2 ? place_of(g, at, k) : kept - rows - (OLD - k);
#pragma unroll
        for (int v = 0; v < VEC; ++v) state[v * g.state_channel + place * g.state_place] = old[k][v];
    }
    u32 row = rows > kept ? rows - kept : 0;
    u32 place = CAUSAL_WINDOW == 2 ? (at + OLD + row) % g.places : row + kept - rows;
    for (; row < rows; ++row) {
        const Row x = load<VEC>(g.x + (i64)(span.begin + row) * g.x_token + (i64)channel * g.x_channel);
#pragma unroll
        for (int v = 0; v < VEC; ++v) state[v * g.state_channel + place * g.state_place] = cast<State>(x[v]);
        if (++place == g.places) place = 0;
    }
}
#else
// The last inputs of a sequence into its slot: of one shorter than that some of the old ones stay.
RF_FN void write_state(const CausalConvArgs& g, const Span& span, u32 channel, State* state, const State (*old)[VEC]) {
    const u32 rows = span.end - span.begin;
#if CAUSAL_WHOLE
    State flat[OLD * VEC];
#endif
#pragma unroll
    for (int k = 0; k < OLD; ++k) {
        Row row;
        __builtin_memset(&row, 0, sizeof(row));
        const bool is_new = rows + k >= OLD;
        if (is_new) row = load<VEC>(g.x + (i64)(span.end - OLD + k) * g.x_token + (i64)channel * g.x_channel);
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            State value = cast<State>(row[v]);
#pragma unroll
            for (int j = k + 1; j < OLD; ++j)
                if (rows + k == j) value = old[j][v];
#if CAUSAL_WHOLE
            flat[v * OLD + k] = value;
#else
            state[v * g.state_channel + k * g.state_place] = value;
#endif
        }
    }
#if CAUSAL_WHOLE
    write_flat(state, flat);
#endif
}
#endif

// A lane's rows of one sequence, from `from` to `to`; `is_first`: they begin where the sequence does.
RF_FN void sequence(const CausalConvArgs& g, const Filter& f, u32 channel, const Span& span, u32 from, u32 to, bool is_first) {
    const i64 slot = SLOT_OF(g.sequences, span.number, "causal_conv");
    u32 at;
    if (slot < 0 || !find_window(g, span.number, at)) {
        Row zeros[AHEAD];
        __builtin_memset(zeros, 0, sizeof(zeros));
        for (; from < to; from += AHEAD) write_rows(g, channel, from, to, zeros);
        return;
    }
    State* state = g.state + slot * g.state_slot + (i64)channel * g.state_channel;
    State old[OLD][VEC];
    float window[OLD][VEC];
    __builtin_memset(old, 0, sizeof(old));
    if (is_first && !is_fresh(g.sequences, span.number)) {
#if CAUSAL_WHOLE
        State flat[OLD * VEC];
        read_flat(state, flat);
#endif
#pragma unroll
        for (int k = 0; k < OLD; ++k) {
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
#if CAUSAL_WHOLE
                old[k][v] = flat[v * OLD + k];
#else
                old[k][v] = state[v * g.state_channel + place_of(g, at, k) * g.state_place];
#endif
            }
        }
    }
#pragma unroll
    for (int k = 0; k < OLD; ++k) {
        Row row;
        __builtin_memset(&row, 0, sizeof(row));
        if (!is_first) row = load<VEC>(g.x + (i64)(from - OLD + k) * g.x_token + (i64)channel * g.x_channel);
#pragma unroll
        for (int v = 0; v < VEC; ++v) window[k][v] = is_first ? cast<float>(old[k][v]) : cast<float>(row[v]);
    }
    filter_rows(g, f, channel, from, to, window);
#if CAUSAL_WINDOW
    if (is_first) write_line(g, span, channel, at, state, old);
#else
    if (is_first) write_state(g, span, channel, state, old);
#endif
}

extern "C" __global__ __launch_bounds__(256) void causal_conv(CausalConvArgs g) {
    const u32 n = group_x() * 256 + thread_x();
    if (n >= g.lanes) return;
    const u32 line = g.across.divide(n), place = n - line * g.across.divisor;
    const u32 channel = (CAUSAL_BY_TOKENS ? line : place) * VEC, tokens = g.sequences.tokens;
    u32 token = (CAUSAL_BY_TOKENS ? place : line) * g.run;
    const u32 stop = token + g.run < tokens ? token + g.run : tokens;
    Filter f;
    read_filter(g, channel, f);
    while (token < stop) {
        const Span span = sequence_at(g.sequences, token);
        if (span.begin > token) {
            token = span.begin;
            continue;
        }
        // Rows behind the last sequence.
        if (span.end <= token) return;
        // The first rows of a sequence are those of the lane that has its first.
        const bool is_first = span.begin == token;
        const u32 first_rows = span.begin + OLD;
        const u32 from = is_first || token > first_rows ? token : first_rows;
        u32 to = is_first && stop < first_rows ? first_rows : stop;
        to = to < span.end ? to : span.end;
        if (from < to) sequence(g, f, channel, span, from, to, is_first);
        token = span.end;
    }
}
