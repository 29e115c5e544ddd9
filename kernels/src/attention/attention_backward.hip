// attention_backward: gradients of attention, from its output's gradient and the logarithms of sums that it left.
//
//   P = exp(S - LSE), dP = dO · Vᵀ, delta = Σ dO ∘ O per row, dS = P ∘ (dP - delta)
//   dQ = scale · dS · K, dK = scale · dSᵀ · Q, dV = Pᵀ · dO
//
// Shapes : as attention; dO as O, dQ as Q, dK as K, dV as V; delta [batches, heads, q_rows], contiguous
// Grid   : attention_delta (ceil(rows / 32), 1, 1), rows = batches * heads * q_rows
//          attention_sinks (heads, 1, 1), behind it
//          attention_backward_q (tiles of queries, heads, batches)
//          attention_backward_kv (tiles of keys, heads / group, batches)
// Block  : attention_delta and attention_sinks (256, 1, 1), the others (THREADS, 1, 1)
// LDS    : STREAMED_ROWS rows of K and V, or of Q and dO with their LSE and delta, through which resident rows and results pass,
//          and resident rows that registers do not keep; or ATTENTION_STAGES such tiles, and operands that registers do not
//          keep, dynamic; for FMA RESIDENT_ROWS * (STREAMED_ROWS + 1) values twice
// Needs  : as attention; gradients overlap nothing                         checked by the launcher
// Numeric: as attention; P and dS are rounded to the input's type for their products on the matrix unit. Every gradient is
//          summed by one workgroup, over tiles in ascending order, dK and dV over the heads that share them first to last:
//          no atomics, the same bits on every run.
//
// Macros : those of tile.h; ATTENTION_EXTRA; ATTENTION_PART: 0 delta, 1 dQ, 2 dK and dV, 3 dV, 4 dK (one by one where
//          registers do not suffice for both)
struct GradientArgs {
    Problem p;
    const In* out;
    const In* dout;
    const Real* lse;
    Real* delta;
    In* dq;
    In* dk;
    In* dv;
    i64 out_batch, out_head, out_row, dout_batch, dout_head, dout_row, lse_batch, lse_head, lse_row;
    i64 delta_batch, delta_head, dq_batch, dq_head, dq_row, dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row;
    i64 rows;  // of all heads and batches
    Real* dsinks;
};
static_assert(sizeof(GradientArgs) == sizeof(Problem) + 232, "as in attention_backward.rs");
static_assert(sizeof(Problem) == 304, "as in problem.rs");

// Resident rows that wait in LDS: the gradient of values alone asks for keys only.
#define RESIDENT_LDS_BYTES (ResidentTile<ATTENTION_D>::LDS_BYTES + (ATTENTION_PART == 3 ? 0 : ResidentTile<ATTENTION_DV>::LDS_BYTES))

#if ATTENTION_PART == 0
// Elements of one access; a lane takes four at a time.
#define PART (VEC < 4 ? VEC : 4)
extern "C" __global__ __launch_bounds__(256) void attention_delta(GradientArgs a) {
    const Problem& g = a.p;
    // Sixteen lanes have two rows, whose results lie side by side.
    i64 first = (i64)group_x() * 32 + thread_x() / 16 * 2;
    u32 lane = thread_x() % 16;
    Real sum[2] = {(Real)0, (Real)0};
    Real* to[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        i64 row = first + r < a.rows ? first + r : a.rows - 1;
        i64 line = row / g.q_rows, place = row - line * g.q_rows, batch = line / g.heads, head = line - batch * g.heads;
        const In* out = a.out + batch * a.out_batch + head * a.out_head + place * a.out_row;
        const In* dout = a.dout + batch * a.dout_batch + head * a.dout_head + place * a.dout_row;
        to[r] = a.delta + batch * a.delta_batch + head * a.delta_head + place;
        for (int d = (int)lane * 4; d < g.value_depth; d += 64) {
            Vec<In, PART> x[4 / PART], y[4 / PART];
#pragma unroll
            for (int part = 0; part < 4 / PART; ++part) {
                x[part] = load<PART>(out + d + part * PART);
                y[part] = load<PART>(dout + d + part * PART);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sum[r] = rf::fma(cast<Real>(x[e / PART][e % PART]), cast<Real>(y[e / PART][e % PART]), sum[r]);
        }
        sum[r] += dpp<RF_DPP_XOR1>(sum[r]);
        sum[r] += dpp<RF_DPP_XOR2>(sum[r]);
        sum[r] += dpp<RF_DPP_HALF_MIRROR>(sum[r]);
        sum[r] += dpp<RF_DPP_MIRROR>(sum[r]);
    }
    if (lane < 2 && first + lane < a.rows) *(lane ? to[1] : to[0]) = lane ? sum[1] : sum[0];
}
#endif

// LSE as an exponent of 2; a row that saw nothing hides everything.
RF_FN Real exponent_of(Real lse) {
    return lse == (Real)-__builtin_inff() ? (Real)__builtin_inff() : lse * (Real)LOG2_E;
}

#if ATTENTION_PART == 0
// The gradient of a head's sink, whose weight is exp(sink - LSE) and whose value is zero.
extern "C" __global__ __launch_bounds__(256) void attention_sinks(GradientArgs a) {
    __shared__ Real scratch[256 / ARCH_WAVE_SIZE];
    const Problem& g = a.p;
    int head = (int)group_x();
    Real sink = sink_of(g.sinks, head), sum = (Real)0;
    i64 rows = a.rows / g.heads;
    for (i64 row = thread_x(); row < rows; row += 256) {
        i64 batch = row / g.q_rows, place = row - batch * g.q_rows;
        Real lse = exponent_of(a.lse[batch * a.lse_batch + head * a.lse_head + place * a.lse_row]);
        sum -= exp2_of(sink - lse) * a.delta[batch * a.delta_batch + head * a.delta_head + place];
    }
    sum = group_reduce(sum, Sum(), scratch, thread_x(), 256u);
    if (thread_x() == 0) a.dsinks[head] = sum;
}
#endif

#if ATTENTION_PART == 1
extern "C" __global__ ATTENTION_BOUNDS void attention_backward_q(GradientArgs a) {
#if ATTENTION_STAGES
    extern __shared__ __attribute__((aligned(128))) char lds[];
    char *lds_resident = lds + ATTENTION_STAGES * Stages<ATTENTION_D, ATTENTION_DV>::STAGE_BYTES, *lds_rows = 0;
#else
    __shared__ __attribute__((aligned(16))) char lds_rows[StreamedLds<ATTENTION_D, ATTENTION_DV>::BYTES];
    __shared__ __attribute__((aligned(16))) char lds_resident[RESIDENT_LDS_BYTES + 16];
    In *lds_k = (In*)lds_rows, *lds_v = lds_k + STREAMED_ROWS * Row<ATTENTION_D>::LENGTH;
#endif
    __shared__ Real lds_s[EXCHANGE];
    const Problem& g = a.p;

    u32 batch = group_z();
    Sequence s = sequence(g, batch);
    // The last queries first: where only the past is seen, they have the most to do.
    int head = (int)group_y(), tile_first = ((s.q_rows + RESIDENT_ROWS - 1) / RESIDENT_ROWS - 1 - (int)group_x()) * RESIDENT_ROWS;
    if (tile_first < 0) return;
    const In* k = g.k + batch * g.k_batch + head / g.group * g.k_head + s.k_first * g.k_row;
    const In* v = g.v + batch * g.v_batch + head / g.group * g.v_head + s.k_first * g.v_row;

    Lane at;
    at.start();
    ResidentTile<ATTENTION_D> q_tile;
    ResidentTile<ATTENTION_DV> dout_tile;
    int place[Lane::SLOTS], heads[Lane::SLOTS];
    bool there[Lane::SLOTS];
    Real lse[Lane::SLOTS], delta[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        int row = tile_first + at.row(slot);
        there[slot] = row < s.q_rows;
        place[slot] = row;
        heads[slot] = head;
        i64 from = s.q_first + (there[slot] ? row : s.q_rows - 1);
        q_tile.rows[slot] = g.q + batch * g.q_batch + head * g.q_head + from * g.q_row;
        dout_tile.rows[slot] = a.dout + batch * a.dout_batch + head * a.dout_head + from * a.dout_row;
        lse[slot] = exponent_of(a.lse[batch * a.lse_batch + head * a.lse_head + from * a.lse_row]);
        delta[slot] = a.delta[batch * a.delta_batch + head * a.delta_head + from];
    }
    q_tile.start(at, g.depth, lds_resident, lds_rows);
    dout_tile.start(at, g.value_depth, lds_resident + ResidentTile<ATTENTION_D>::LDS_BYTES, lds_rows);
    if (!ATTENTION_STAGES && (ResidentTile<ATTENTION_D>::KEPT || ResidentTile<ATTENTION_DV>::KEPT)) barrier();

    int last_query = (tile_first + RESIDENT_ROWS < s.q_rows ? tile_first + RESIDENT_ROWS : s.q_rows) - 1;
    int end = last_query + s.shift + g.right + 1, first = tile_first + s.shift - g.left;
    end = end < s.k_rows ? end : s.k_rows;
    first = first > 0 ? first / STREAMED_ROWS * STREAMED_ROWS : 0;

    const Real unit = unit_of(g);
    Output<ATTENTION_D> out;
    out.clear();
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
    stages.a.start(k, g.k_row, first, g.depth);
    stages.b.start(v, g.v_row, first, g.value_depth);
    stages.start(lds_address(lds), end - first);
    // Past the last key that its queries see a wave has nothing to do.
    int wave_end = tile_first + at.first + WAVE_ROWS + s.shift + g.right;
#else
    Loader<ATTENTION_D> load_k;
    Loader<ATTENTION_DV> load_v;
    if (first < end) {
        load_k.fetch(k, g.k_row, first, s.k_rows, g.depth);
        load_v.fetch(v, g.v_row, first, s.k_rows, g.value_depth);
    }
#endif
    for (; first < end; first += STREAMED_ROWS) {
#if ATTENTION_STAGES
        stages.advance();
        if (first >= wave_end) continue;
        Rows lds_k = stages.rows_a(), lds_v = stages.rows_b();
#else
        load_k.put(lds_k);
        load_v.put(lds_v);
        barrier();
        if (first + STREAMED_ROWS < end) {
            load_k.fetch(k, g.k_row, first + STREAMED_ROWS, s.k_rows, g.depth);
            load_v.fetch(v, g.v_row, first + STREAMED_ROWS, s.k_rows, g.value_depth);
        }
#endif
        Real p[Lane::VALUES], dp[Lane::VALUES], slope[ATTENTION_EXTRA ? Lane::VALUES : 1];
        product<ATTENTION_D>(at, q_tile, lds_k, p);
        bool whole = first + STREAMED_ROWS <= s.k_rows && first + STREAMED_ROWS - 1 <= tile_first + s.shift + g.right &&
                     first >= last_query + s.shift - g.left;
        finish_scores<true>(g, s, at, batch, place, heads, first, s.k_rows, whole, p, ATTENTION_EXTRA ? slope : (Real*)0);
        product<ATTENTION_DV>(at, dout_tile, lds_v, dp);
#if ATTENTION_EXTRA
        if (g.keep >> 32 == 0) {
            Real factor[Lane::VALUES];
            u64 keys[Lane::SLOTS];
#pragma unroll
            for (int slot = 0; slot < Lane::SLOTS; ++slot) keys[slot] = draw_key(g, batch, head);
            draw<true>(g, at, place, keys, first, factor);
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) dp[i] *= factor[i];
        }
#endif
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) {
            int slot = Lane::slot(i);
            p[i] = exp2_of(rf::fma(p[i], unit, -lse[slot])) * (dp[i] - delta[slot]);
            if (ATTENTION_EXTRA) p[i] *= slope[ATTENTION_EXTRA ? i : 0];
        }
        at.exchange(p, lds_s);
        if (!ATTENTION_SIZE) barrier();
        out.add(at, p, lds_s, lds_k);
        if (!ATTENTION_STAGES) barrier();
    }

    In* to[Lane::SLOTS];
    Real scale[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        to[slot] = a.dq + batch * a.dq_batch + head * a.dq_head + (s.q_first + place[slot]) * a.dq_row;
        scale[slot] = (Real)g.scale;
    }
    out.write(at, to, there, scale, g.depth, lds_rows);
}
#endif

#if ATTENTION_PART >= 2
#define GIVES_V (ATTENTION_PART != 4)
#define GIVES_K (ATTENTION_PART != 3)
extern "C" __global__ ATTENTION_BOUNDS void attention_backward_kv(GradientArgs a) {
#if ATTENTION_STAGES
    extern __shared__ __attribute__((aligned(128))) char lds[];
    char *lds_resident = lds + ATTENTION_STAGES * Stages<ATTENTION_D, ATTENTION_DV>::STAGE_BYTES, *lds_rows = 0;
#else
    __shared__ __attribute__((aligned(16))) char lds_rows[StreamedLds<ATTENTION_D, ATTENTION_DV>::BYTES];
    __shared__ __attribute__((aligned(16))) char lds_resident[RESIDENT_LDS_BYTES + 16];
    In *lds_q = (In*)lds_rows, *lds_dout = lds_q + STREAMED_ROWS * Row<ATTENTION_D>::LENGTH;
#endif
    __shared__ Real lds_s[2][EXCHANGE];
    // By turns, where a barrier is saved.
    __shared__ Real both_lse[ATTENTION_STAGES ? 2 : 1][STREAMED_ROWS], both_delta[ATTENTION_STAGES ? 2 : 1][STREAMED_ROWS];
    const Problem& g = a.p;

    u32 batch = group_z();
    Sequence s = sequence(g, batch);
    int kv_head = (int)group_y(), tile_first = (int)group_x() * RESIDENT_ROWS;
    if (tile_first >= s.k_rows) return;

    Lane at;
    at.start();
    ResidentTile<ATTENTION_D> k_tile;
    ResidentTile<ATTENTION_DV> v_tile;
    int place[Lane::SLOTS], heads[Lane::SLOTS];
    bool there[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        int row = tile_first + at.row(slot);
        there[slot] = row < s.k_rows;
        place[slot] = row;
        i64 from = s.k_first + (there[slot] ? row : s.k_rows - 1);
        k_tile.rows[slot] = g.k + batch * g.k_batch + kv_head * g.k_head + from * g.k_row;
        v_tile.rows[slot] = g.v + batch * g.v_batch + kv_head * g.v_head + from * g.v_row;
    }
    k_tile.start(at, g.depth, lds_resident, lds_rows);
#if GIVES_K
    v_tile.start(at, g.value_depth, lds_resident + ResidentTile<ATTENTION_D>::LDS_BYTES, lds_rows);
#endif

    // Queries that see some key of this workgroup.
    int last_key = (tile_first + RESIDENT_ROWS < s.k_rows ? tile_first + RESIDENT_ROWS : s.k_rows) - 1;
    int end = last_key - s.shift + g.left + 1, begin = tile_first - s.shift - g.right;
    end = end < s.q_rows ? end : s.q_rows;
    begin = begin > 0 ? begin / STREAMED_ROWS * STREAMED_ROWS : 0;

    const Real unit = unit_of(g);
    Output<GIVES_K ? ATTENTION_D : 32> out_k;
    Output<GIVES_V ? ATTENTION_DV : 32> out_v;
    out_k.clear();
    out_v.clear();
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
    // Before the first query that sees its keys a wave has nothing to do.
    int wave_begin = tile_first + at.first - s.shift - g.right;
#else
    Loader<ATTENTION_D> load_q;
    Loader<ATTENTION_DV> load_dout;
#endif
    int parity = 0;
    for (int head = kv_head * g.group; head < (kv_head + 1) * g.group; ++head) {
        const In* q = g.q + batch * g.q_batch + head * g.q_head + s.q_first * g.q_row;
        const In* dout = a.dout + batch * a.dout_batch + head * a.dout_head + s.q_first * a.dout_row;
        const Real* lse = a.lse + batch * a.lse_batch + head * a.lse_head + s.q_first * a.lse_row;
        const Real* delta = a.delta + batch * a.delta_batch + head * a.delta_head + s.q_first;
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) heads[slot] = head;
#if ATTENTION_STAGES
        if (head > kv_head * g.group) {
            async_wait<0>();
            barrier();
        }
        stages.a.start(q, g.q_row, begin, g.depth);
        stages.b.start(dout, a.dout_row, begin, g.value_depth);
        stages.start(lds_address(lds), end - begin);
        // Loaded a stage ahead.
        static_assert(THREADS >= STREAMED_ROWS, "one row for a thread");
        Real next_lse = (Real)0, next_delta = (Real)0;
        auto fetch = [&](int first) {
            int row = first + (int)thread_x();
            bool inside = thread_x() < STREAMED_ROWS && row < s.q_rows;
            next_lse = inside ? lse[(i64)row * a.lse_row] : -(Real)__builtin_inff();
            next_delta = inside ? delta[row] : (Real)0;
        };
        fetch(begin);
#endif
        for (int first = begin; first < end; first += STREAMED_ROWS) {
            Real *lds_lse = both_lse[parity], *lds_delta = both_delta[parity];
#if ATTENTION_STAGES
            parity ^= 1;
            if (thread_x() < STREAMED_ROWS) {
                lds_lse[thread_x()] = exponent_of(next_lse);
                lds_delta[thread_x()] = next_delta;
            }
            stages.advance();
            fetch(first + STREAMED_ROWS);
            if (first + STREAMED_ROWS <= wave_begin) continue;
            Rows lds_q = stages.rows_a(), lds_dout = stages.rows_b();
#else
            load_q.fetch(q, g.q_row, first, s.q_rows, g.depth);
            load_dout.fetch(dout, a.dout_row, first, s.q_rows, g.value_depth);
            barrier();
            load_q.put(lds_q);
            load_dout.put(lds_dout);
            for (int row = (int)thread_x(); row < STREAMED_ROWS; row += THREADS) {
                bool inside = first + row < s.q_rows;
                lds_lse[row] = inside ? exponent_of(lse[(i64)(first + row) * a.lse_row]) : (Real)__builtin_inff();
                lds_delta[row] = inside ? delta[first + row] : (Real)0;
            }
            barrier();
#endif
            Real p[Lane::VALUES], slope[ATTENTION_EXTRA ? Lane::VALUES : 1];
            product<ATTENTION_D>(at, k_tile, lds_q, p);
            bool whole = first + STREAMED_ROWS <= s.q_rows && last_key <= first + s.shift + g.right &&
                         tile_first >= first + STREAMED_ROWS - 1 + s.shift - g.left;
            finish_scores<false>(g, s, at, batch, place, heads, first, s.k_rows, whole, p, ATTENTION_EXTRA ? slope : (Real*)0);
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) p[i] = exp2_of(rf::fma(p[i], unit, -lds_lse[at.column(i)]));
#if ATTENTION_EXTRA
            Real factor[Lane::VALUES];
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) factor[i] = (Real)1;
            if (g.keep >> 32 == 0) {
                u64 keys[Lane::SLOTS];
#pragma unroll
                for (int slot = 0; slot < Lane::SLOTS; ++slot) keys[slot] = draw_key(g, batch, head);
                draw<false>(g, at, place, keys, first, factor);
            }
#endif
#if GIVES_V
            Real kept[Lane::VALUES];
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) {
                kept[i] = p[i];
#if ATTENTION_EXTRA
                kept[i] *= factor[i];
#endif
            }
            at.exchange(kept, lds_s[0]);
            if (!ATTENTION_SIZE) barrier();
            out_v.add(at, kept, lds_s[0], lds_dout);
#endif
#if GIVES_K
            Real ds[Lane::VALUES];
            product<ATTENTION_DV>(at, v_tile, lds_dout, ds);
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) {
#if ATTENTION_EXTRA
                ds[i] *= factor[i];
                p[i] *= slope[i];
#endif
                ds[i] = p[i] * (ds[i] - lds_delta[at.column(i)]);
            }
            at.exchange(ds, lds_s[1]);
            if (!ATTENTION_SIZE) barrier();
            out_k.add(at, ds, lds_s[1], lds_q);
#endif
        }
    }

    Real scale[Lane::SLOTS];
    In* to[Lane::SLOTS];
#if GIVES_K
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        scale[slot] = (Real)g.scale;
        to[slot] = a.dk + batch * a.dk_batch + kv_head * a.dk_head + (s.k_first + place[slot]) * a.dk_row;
    }
    out_k.write(at, to, there, scale, g.depth, lds_rows);
#endif
#if GIVES_V
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        scale[slot] = (Real)1;
        to[slot] = a.dv + batch * a.dv_batch + kv_head * a.dv_head + (s.k_first + place[slot]) * a.dv_row;
    }
    out_v.write(at, to, there, scale, g.value_depth, lds_rows);
#endif
}
#endif
