// delta: the gated delta rule, one token after the other
//
//   S <- e^g S,  u = beta (v - S^T k),  S <- S + k u^T,  out = S^T (scale q)       S [DELTA_K, columns] of each value head
//
// Shapes : q, k [tokens, key heads, DELTA_K], v, out [tokens, heads, columns], innermost contiguous, any other strides;
//          a [tokens, heads] or [tokens, heads, DELTA_K], b [tokens, heads]; states [slots, heads, DELTA_K, columns], any strides
// Grid   : (sequences * heads * tiles, 1, 1)     Block : (THREADS, 1, 1)       TILE columns of a state, in registers: a lane has
//          COLUMNS of them and EACH rows, eight lanes side by side have all rows
// LDS    : none
// Needs  : grid < 2^31; with DELTA_VEC > 1 columns and what v, out and states are read by aligned, with DELTA_K_VEC > 1 rows of q, k
//          and a                                                                           checked by the launcher
// Numeric: in f32; a state is rounded once, when it is written, or after each token where each has a slot, as if it were read again.
//          The output is (e^g S)^T q + (k . q) u, so that a token's sums are all of the state before it, and lanes meet once. A head's
//          bits depend on its own sequence alone
//
// Macros : as delta.h; DELTA_VEC: columns of one access, 1 or 4; DELTA_K_VEC: channels of one access
#define PARTS 8
#define THREADS 64
#define COLUMNS 4
#define TILE (THREADS / PARTS * COLUMNS)
#define EACH ((DELTA_K + PARTS - 1) / PARTS)
#define DECAYS (DELTA_ROWS ? EACH : 1)

// Channels of a row from `first` on; zeros behind the last.
template <int VEC, class E> RF_FN void read_rows(const E* row, u32 first, E (&to)[EACH]) {
#pragma unroll
    for (int r = 0; r < EACH; r += VEC) {
        Vec<E, VEC> part;
#pragma unroll
        for (int e = 0; e < VEC; ++e) part[e] = cast<E>(0.0f);
        if (PARTS * EACH == DELTA_K || first + r < DELTA_K) part = load<VEC>(row + first + r);
#pragma unroll
        for (int e = 0; e < VEC; ++e) to[r + e] = part[e];
    }
}

// The sum of a part each of eight lanes side by side, in all of them.
RF_FN float over_parts(float x) {
    x += dpp<RF_DPP_XOR1>(x);
    x += dpp<RF_DPP_XOR2>(x);
    return x + dpp<RF_DPP_HALF_MIRROR>(x);
}

// What a lane reads of a token, as it lies there.
struct Token {
    T k[EACH], q[EACH], v[COLUMNS];
    Gate a[DECAYS], b;

    RF_FN void read(const DeltaArgs& g, u32 token, u32 head, u32 row, u32 column) {
        const u32 key_head = g.group.divide(head);
        read_rows<DELTA_K_VEC>(g.k + (i64)token * g.k_token + (i64)key_head * g.k_head, row, k);
        read_rows<DELTA_K_VEC>(g.q + (i64)token * g.q_token + (i64)key_head * g.q_head, row, q);
        const Gate* from = g.a + (i64)token * g.a_token + (i64)head * g.a_head;
#if DELTA_ROWS
        read_rows<(DELTA_K_VEC < 4 ? DELTA_K_VEC : 4)>(from, row, a);
#else
        a[0] = *from;
#endif
        b = g.b[(i64)token * g.b_token + (i64)head * g.b_head];
        const T* values = g.v + (i64)token * g.v_token + (i64)head * g.v_head;
#pragma unroll
        for (int c = 0; c < COLUMNS; c += DELTA_VEC) {
            Vec<T, DELTA_VEC> part;
#pragma unroll
            for (int e = 0; e < DELTA_VEC; ++e) part[e] = cast<T>(0.0f);
            if (column + c < g.columns) part = load<DELTA_VEC>(values + column + c);
#pragma unroll
            for (int e = 0; e < DELTA_VEC; ++e) v[c + e] = part[e];
        }
    }
};

// What a lane has of a state: rows from `row` on, columns from `column` on.
struct Held {
    float s[EACH][COLUMNS];

    RF_FN void clear() {
#pragma unroll
        for (int r = 0; r < EACH; ++r)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) s[r][c] = 0.0f;
    }
    RF_FN void read(const DeltaArgs& g, const State* from, u32 row, u32 column) {
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            if (PARTS * EACH != DELTA_K && row + r >= DELTA_K) continue;
            const State* line = from + (i64)(row + r) * g.state_row;
#pragma unroll
            for (int c = 0; c < COLUMNS; c += DELTA_VEC) {
                if (column + c >= g.columns) continue;
                Vec<State, DELTA_VEC> part = load<DELTA_VEC>(line + (DELTA_VEC > 1 ? column + c : (column + c) * g.state_column));
#pragma unroll
                for (int e = 0; e < DELTA_VEC; ++e) s[r][c + e] = cast<float>(part[e]);
            }
        }
    }
    RF_FN void narrow() {
#pragma unroll
        for (int r = 0; r < EACH; ++r)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) s[r][c] = cast<float>(cast<State>(s[r][c]));
    }
    RF_FN void write(const DeltaArgs& g, State* to, u32 row, u32 column) const {
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            if (PARTS * EACH != DELTA_K && row + r >= DELTA_K) continue;
            State* line = to + (i64)(row + r) * g.state_row;
#pragma unroll
            for (int c = 0; c < COLUMNS; c += DELTA_VEC) {
                if (column + c >= g.columns) continue;
                Vec<State, DELTA_VEC> part;
#pragma unroll
                for (int e = 0; e < DELTA_VEC; ++e) part[e] = cast<State>(s[r][c + e]);
                store<DELTA_VEC>(line + (DELTA_VEC > 1 ? column + c : (column + c) * g.state_column), part);
            }
        }
    }
};

// Columns of one token's output.
RF_FN void write_out(const DeltaArgs& g, u32 token, u32 head, u32 column, const float (&o)[COLUMNS]) {
    T* to = g.out + (i64)token * g.out_token + (i64)head * g.out_head;
#pragma unroll
    for (int c = 0; c < COLUMNS; c += DELTA_VEC) {
        if (column + c >= g.columns) continue;
        Vec<T, DELTA_VEC> part;
#pragma unroll
        for (int e = 0; e < DELTA_VEC; ++e) part[e] = cast<T>(o[c + e]);
        store<DELTA_VEC>(to + column + c, part);
    }
}

// The factors that a head's gates are made with.
struct Factors {
    float rate, bias[DECAYS];

    RF_FN void read(const DeltaArgs& g, u32 head, u32 row) {
        rate = rate_of(g, head);
#pragma unroll
        for (int r = 0; r < DECAYS; ++r) {
            bias[r] = 0.0f;
#if DELTA_GATES != 0
            if (!DELTA_ROWS) bias[r] = g.dt_bias[head];
            else if (row + r < DELTA_K) bias[r] = g.dt_bias[(i64)head * DELTA_K + row + r];
#endif
        }
    }
};

// Takes a token into the state, and gives its output.
RF_FN void step(const DeltaArgs& g, const Token& token, const Factors& factors, Held& held, float (&o)[COLUMNS]) {
    float k[EACH], old_k[COLUMNS] = {}, old_q[COLUMNS] = {}, kk = 0.0f, qq = 0.0f, kq = 0.0f;
    float decay = rf::exp(decay_log(g, cast<float>(token.a[0]), factors.rate, factors.bias[0]));
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        if (DELTA_ROWS && r > 0) decay = rf::exp(decay_log(g, cast<float>(token.a[r % DECAYS]), factors.rate, factors.bias[r % DECAYS]));
        k[r] = cast<float>(token.k[r]);
        const float q = cast<float>(token.q[r]);
        kk = rf::fma(k[r], k[r], kk);
        qq = rf::fma(q, q, qq);
        kq = rf::fma(k[r], q, kq);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            held.s[r][c] *= decay;
            old_k[c] = rf::fma(k[r], held.s[r][c], old_k[c]);
            old_q[c] = rf::fma(q, held.s[r][c], old_q[c]);
        }
    }
    kq = over_parts(kq);
    // What k and q are multiplied by.
    float by_k = 1.0f, by_q = g.scale;
    if (g.normalises != 0) {
        by_k = 1.0f / rf::sqrt(over_parts(kk) + 1e-6f);
        by_q = g.scale / rf::sqrt(over_parts(qq) + 1e-6f);
    }
    const float beta = strength(cast<float>(token.b));
    float u[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        u[c] = beta * (cast<float>(token.v[c]) - over_parts(old_k[c]) * by_k) * by_k;
        o[c] = rf::fma(kq, u[c], over_parts(old_q[c])) * by_q;
    }
#pragma unroll
    for (int r = 0; r < EACH; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) held.s[r][c] = rf::fma(k[r], u[c], held.s[r][c]);
}

extern "C" __global__ __launch_bounds__(THREADS) void delta_steps(DeltaArgs g) {
    const u32 line = g.tiles.divide(group_x()), tile = group_x() - line * g.tiles.divisor;
    const u32 number = g.heads.divide(line), head = line - number * g.heads.divisor;
    const u32 part = thread_x() % PARTS, row = part * EACH, column = tile * TILE + thread_x() / PARTS * COLUMNS;
    Sequence sequence;
    sequence.read(g, number);
    float o[COLUMNS] = {};
    Spare spare;
    spare.read(g);
    for (u32 n = number * PARTS + part; n < spare.count; n += g.sequences * PARTS) write_out(g, spare.token(n), head, column, o);
    if (sequence.count == 0) return;
    if (!sequence.is_there) {
        for (u32 t = part; t < sequence.count; t += PARTS) write_out(g, sequence.first + t, head, column, o);
        return;
    }
    Held held;
    held.clear();
    if (sequence.continues) held.read(g, g.states + (i64)sequence.from * g.state_slot + (i64)head * g.state_head, row, column);
    Factors factors;
    factors.read(g, head, row);
    // Where each token's state is kept; else the last's alone.
    const bool is_each = DELTA_KEEPS && sequence.count <= g.to_places;
    State* states = g.states + (i64)head * g.state_head;
    Token token;
    token.read(g, sequence.first, head, row, column);
    for (u32 t = 0; t < sequence.count; ++t) {
        // The one behind is on its way meanwhile.
        Token next = token;
        if (t + 1 < sequence.count) next.read(g, sequence.first + t + 1, head, row, column);
        step(g, token, factors, held, o);
        if (part == 0) write_out(g, sequence.first + t, head, column, o);
        if (is_each) {
            held.narrow();
            const u32 to = (u32)g.to[(i64)number * g.to_row + t];
            if (is_slot(g, to)) held.write(g, states + (i64)to * g.state_slot, row, column);
        }
        token = next;
    }
    if (!is_each && is_slot(g, sequence.to)) held.write(g, states + (i64)sequence.to * g.state_slot, row, column);
}
