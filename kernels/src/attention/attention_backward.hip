// attention_backward: gradients of attention, from its output's gradient and the logarithms of sums that it left.
//
//   P = exp(S - LSE), dP = dO · Vᵀ, delta = Σ dO ∘ O per row, dS = P ∘ (dP - delta)
//   dQ = scale · dS · K, dK = scale · dSᵀ · Q, dV = Pᵀ · dO
//
// Shapes : as attention; dO as O, dQ as Q, dK as K, dV as V; delta [batches, heads, q_rows], contiguous
// Grid   : attention_delta (ceil(q_rows / 32), heads, batches)
//          attention_sinks (heads, 1, 1), behind it
//          attention_backward_q (tiles of queries, heads, batches)
//          attention_backward_kv (tiles of keys, heads / group, batches)
// Block  : attention_delta and attention_sinks (256, 1, 1), the others (THREADS, 1, 1)
// LDS    : STREAMED_ROWS rows of K and V, or of Q and dO with their LSE and delta, through which resident rows and results pass,
//          what sums are made of in the order of fours.h beside them on MFMA, and resident rows that registers do not keep; or
//          ATTENTION_STAGES such tiles, and operands that registers do not keep, dynamic; for FMA RESIDENT_ROWS * (STREAMED_ROWS + 1) values twice
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
// Elements that a lane takes at a time, in one access or two: even ones and odd ones have sums of their own.
#define EACH (VEC < 4 ? 4 : VEC)
extern "C" __global__ __launch_bounds__(256) void attention_delta(GradientArgs a) {
    const Problem& g = a.p;
    const u32 head = group_y(), batch = group_z();
    const In *out = a.out + batch * a.out_batch + head * a.out_head, *dout = a.dout + batch * a.dout_batch + head * a.dout_head;
    Real* delta = a.delta + batch * a.delta_batch + head * a.delta_head;
    // Sixteen lanes have two rows, whose results lie side by side.
    const int first = (int)(group_x() * 32 + thread_x() / 16 * 2), lane = (int)(thread_x() % 16);
    Real sum[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const i64 row = first + r < g.q_rows ? first + r : g.q_rows - 1;
        const In *out_row = out + row * a.out_row, *dout_row = dout + row * a.dout_row;
        Real even = (Real)0, odd = (Real)0;
        for (int d = lane * EACH; d < g.value_depth; d += 16 * EACH) {
            Vec<In, VEC> x[EACH / VEC], y[EACH / VEC];
#pragma unroll
            for (int part = 0; part < EACH / VEC; ++part) {
                x[part] = load<VEC>(out_row + d + part * VEC);
                y[part] = load<VEC>(dout_row + d + part * VEC);
            }
#pragma unroll
            for (int e = 0; e < EACH; e += 2) {
                even = rf::fma(cast<Real>(x[e / VEC][e % VEC]), cast<Real>(y[e / VEC][e % VEC]), even);
                odd = rf::fma(cast<Real>(x[e / VEC][e % VEC + 1]), cast<Real>(y[e / VEC][e % VEC + 1]), odd);
            }
        }
        sum[r] = even + odd;
        sum[r] += dpp<RF_DPP_XOR1>(sum[r]);
        sum[r] += dpp<RF_DPP_XOR2>(sum[r]);
        sum[r] += dpp<RF_DPP_HALF_MIRROR>(sum[r]);
        sum[r] += dpp<RF_DPP_MIRROR>(sum[r]);
    }
    if (lane < 2 && first + lane < g.q_rows) delta[first + lane] = lane ? sum[1] : sum[0];
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

#if ATTENTION_PART
// Resident rows of one head, and which rows of their matrices they are. What is past the end is read as the last row, and not written.
struct HeadRows : ResidentRows {
    i64 from[Lane::SLOTS];

    // `rows` from `first` on.
    RF_FN void start(const Lane& at, int tile_first, i64 first, int rows, int head) {
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            int row = tile_first + at.row(slot);
            there[slot] = row < rows;
            place[slot] = row;
            heads[slot] = head;
            from[slot] = first + (there[slot] ? row : rows - 1);
        }
    }
};
// Which tiles of a gradient are operands of the scores, and which of the sums.
#define GIVES_Q (ATTENTION_PART == 1)
#define GIVES_V (ATTENTION_PART == 2 || ATTENTION_PART == 3)
#define GIVES_K (ATTENTION_PART == 2 || ATTENTION_PART == 4)
#if ATTENTION_STAGES
typedef Reader<ATTENTION_D> SummedA;
typedef Reader<ATTENTION_DV> SummedB;
#else
// K and V, or Q and dO.
typedef Streamed<ATTENTION_D, true, !GIVES_V || GIVES_K> TileA;
typedef Streamed<ATTENTION_DV, !GIVES_V || GIVES_K, GIVES_V> TileB;
typedef TileA::Read SummedA;
typedef TileB::Read SummedB;
#define STREAMED_BYTES (TileA::BYTES + TileB::BYTES)
#endif

// Rows that a wave has of the resident ones; without a matrix unit waves have parts of rows, and all of them work alike.
#if ATTENTION_SIZE
#define OWN_ROWS WAVE_ROWS
#define OWN_FIRST(at) at.first
#else
#define OWN_ROWS RESIDENT_ROWS
#define OWN_FIRST(at) 0
#endif
// What queries from one row up to another see of such keys.
struct Sight {
    bool any, whole;

    RF_FN Sight(const Problem& g, const Sequence& s, int query, int queries, int key, int keys) {
        const int query_end = query + queries < s.q_rows ? query + queries : s.q_rows;
        const int key_end = key + keys < s.k_rows ? key + keys : s.k_rows;
        any = query < query_end && key < key_end && key < query_end + s.shift + g.right && key_end > query + s.shift - g.left;
        whole = key_end <= query + s.shift + g.right + 1 && key >= query_end - 1 + s.shift - g.left;
    }
};

// Writes a gradient of resident rows; `first`: row of their sequence.
template <class Sums>
RF_FN void write(const Lane& at, const ResidentRows& rows, const Sums& out, In* matrix, i64 first, i64 stride, double by,
                 int depth, char* lds) {
    In* to[Lane::SLOTS];
    Real scale[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        to[slot] = matrix + (first + rows.place[slot]) * stride;
        scale[slot] = (Real)by;
    }
    out.write(at, to, rows.there, scale, depth, lds);
}
#endif

#if ATTENTION_PART == 1
// Makes gradients of scores of the scores' exponents and the gradients of weights.
RF_FN void score_gradient(Real* p, const Real* dp, const Real* slope, Real unit, const Real* lse, const Real* delta) {
    Real shift[Lane::VALUES];
#pragma unroll
    for (int i = 0; i < Lane::VALUES; ++i) shift[i] = -lse[Lane::slot(i)];
    weights_of(p, unit, shift);
#pragma unroll
    for (int i = 0; i < Lane::VALUES; ++i) {
        p[i] *= dp[i] - delta[Lane::slot(i)];
        if (ATTENTION_EXTRA) p[i] *= slope[ATTENTION_EXTRA ? i : 0];
    }
}

// Registers suffice for two waves with extras too, if the compiler is told to see to it.
#if ATTENTION_SIZE == 32 && ARCH_MFMA_GENERATION >= 2
#define TWO_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define TWO_WAVES
#endif

extern "C" __global__ ATTENTION_BOUNDS TWO_WAVES void attention_backward_q(GradientArgs a) {
    ATTENTION_LDS(STREAMED_BYTES, RESIDENT_LDS_BYTES);
    __shared__ Real lds_s[EXCHANGE];
    const Problem& g = a.p;
    u32 batch = group_z();
    Sequence s = sequence(g, batch);
    int head = (int)group_y(), tile_first = tile_from_last(s.q_rows);
    if (tile_first < 0) return;
    const In* k = g.k + batch * g.k_batch + head / g.group * g.k_head + s.k_first * g.k_row;
    const In* v = g.v + batch * g.v_batch + head / g.group * g.v_head + s.k_first * g.v_row;

    Lane at;
    at.start();
    HeadRows queries;
    queries.start(at, tile_first, s.q_first, s.q_rows, head);
    ResidentTile<ATTENTION_D> q_tile;
    ResidentTile<ATTENTION_DV> dout_tile;
    Real lse[Lane::SLOTS], delta[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        i64 from = queries.from[slot];
        q_tile.rows[slot] = g.q + batch * g.q_batch + head * g.q_head + from * g.q_row;
        dout_tile.rows[slot] = a.dout + batch * a.dout_batch + head * a.dout_head + from * a.dout_row;
        lse[slot] = exponent_of(a.lse[batch * a.lse_batch + head * a.lse_head + from * a.lse_row]);
        delta[slot] = a.delta[batch * a.delta_batch + head * a.delta_head + from];
    }
    q_tile.start(at, g.depth, lds_resident, lds_rows);
    dout_tile.start(at, g.value_depth, lds_resident + ResidentTile<ATTENTION_D>::LDS_BYTES, lds_rows);
    if (!ATTENTION_STAGES && (ResidentTile<ATTENTION_D>::KEPT || ResidentTile<ATTENTION_DV>::KEPT)) barrier();

    Span keys = {tile_first, tile_first + RESIDENT_ROWS, s.k_rows, 0, 0};
    keys.start(g, s, 0);
    int first = keys.first, end = keys.end;
    const Real unit = unit_of(g);
    Output<ATTENTION_D, SummedA> out;
    out.clear();
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
    stages.start(lds, k, g.k_row, g.depth, v, g.v_row, g.value_depth, first, end);
#else
    TileA k_tile(lds_rows, g.k_row, g.depth);
    TileB v_tile(lds_rows + TileA::BYTES, g.v_row, g.value_depth);
    if (first < end) {
        k_tile.fetch(k, g.k_row, first, s.k_rows, g.depth);
        v_tile.fetch(v, g.v_row, first, s.k_rows, g.value_depth);
    }
#endif
    for (; first < end; first += STREAMED_ROWS) {
#if ATTENTION_STAGES
        stages.advance();
        Rows lds_k = stages.rows_a(), lds_v = stages.rows_b(), summed_k = lds_k;
#else
        k_tile.put();
        v_tile.put();
        barrier();
        if (first + STREAMED_ROWS < end) {
            k_tile.fetch(k, g.k_row, first + STREAMED_ROWS, s.k_rows, g.depth);
            v_tile.fetch(v, g.v_row, first + STREAMED_ROWS, s.k_rows, g.value_depth);
        }
        Rows lds_k = k_tile.rows, lds_v = v_tile.rows, summed_k = k_tile.summed;
#endif
        const Sight sight(g, s, tile_first + OWN_FIRST(at), OWN_ROWS, first, STREAMED_ROWS);
        if (sight.any) {
            Real p[Lane::VALUES], dp[Lane::VALUES], slope[ATTENTION_EXTRA ? Lane::VALUES : 1];
            const bool whole = sight.whole && first + STREAMED_ROWS <= s.k_rows;
            product<ATTENTION_D>(at, q_tile, lds_k, p);
            finish_scores<true>(g, s, at, batch, queries, first, s.k_rows, whole, p, ATTENTION_EXTRA ? slope : (Real*)0);
            product<ATTENTION_DV>(at, dout_tile, lds_v, dp);
            drop(g, at, batch, queries, first, dp);
            score_gradient(p, dp, slope, unit, lse, delta);
            at.exchange(p, lds_s);
            if (!ATTENTION_SIZE) barrier();
            out.add(at, p, lds_s, summed_k);
        }
        if (!ATTENTION_STAGES) barrier();
    }

    In* dq = a.dq + batch * a.dq_batch + head * a.dq_head;
    write(at, queries, out, dq, s.q_first, a.dq_row, g.scale, g.depth, lds_rows);
}
#endif

#if ATTENTION_PART >= 2
// Whether delta is where sums of the gradients of weights begin: these are no plain products with extras.
#define FROM_DELTA (ATTENTION_RESOURCES && !ATTENTION_EXTRA)
#define EXTRA_VALUES (ATTENTION_EXTRA ? Lane::VALUES : 1)
// LSE, as an exponent, and delta of the queries of a head on their way to LDS: what is added to others, so both are negative.
struct QueryRows {
    const Real *lse, *delta;
    i64 stride;
    int count;

    RF_FN QueryRows(const GradientArgs& a, const Sequence& s, u32 batch, int head)
        : lse(a.lse + batch * a.lse_batch + head * a.lse_head + s.q_first * a.lse_row),
          delta(a.delta + batch * a.delta_batch + head * a.delta_head + s.q_first), stride(a.lse_row), count(s.q_rows) {}
#if ATTENTION_STAGES
    // Loaded a stage ahead.
    static_assert(THREADS >= STREAMED_ROWS, "one row for a thread");
    Real next_lse, next_delta;
    RF_FN void fetch(int first) {
        int row = first + (int)thread_x();
        bool inside = thread_x() < STREAMED_ROWS && row < count;
        next_lse = inside ? lse[(i64)row * stride] : -(Real)__builtin_inff();
        next_delta = inside ? delta[row] : (Real)0;
    }
    RF_FN void put(Real* lds_lse, Real* lds_delta) const {
        if (thread_x() >= STREAMED_ROWS) return;
        lds_lse[thread_x()] = -exponent_of(next_lse);
        lds_delta[thread_x()] = -next_delta;
    }
#else
    RF_FN void move(int first, Real* lds_lse, Real* lds_delta) const {
        for (int row = (int)thread_x(); row < STREAMED_ROWS; row += THREADS) {
            bool inside = first + row < count;
            lds_lse[row] = inside ? -exponent_of(lse[(i64)(first + row) * stride]) : -(Real)__builtin_inff();
            lds_delta[row] = inside ? -delta[first + row] : (Real)0;
        }
    }
#endif
};

// Keys and values of a workgroup.
struct KeyTile {
    ResidentTile<ATTENTION_D> k;
    ResidentTile<ATTENTION_DV> v;
    Real unit;

    RF_FN void start(const Problem& g, const Lane& at, u32 batch, const HeadRows& keys, int head, char* lds_resident, char* lds_rows) {
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            k.rows[slot] = g.k + batch * g.k_batch + head * g.k_head + keys.from[slot] * g.k_row;
            v.rows[slot] = g.v + batch * g.v_batch + head * g.v_head + keys.from[slot] * g.v_row;
        }
        k.start(at, g.depth, lds_resident, lds_rows);
#if GIVES_K
        v.start(at, g.value_depth, lds_resident + ResidentTile<ATTENTION_D>::LDS_BYTES, lds_rows);
#endif
        unit = unit_of(g);
    }
    // Weights of a tile of queries from `first` on, and with extras what soft-cap and dropout multiply their gradients by.
    RF_FN void weigh(const Problem& g, const Sequence& s, const Lane& at, u32 batch, const HeadRows& keys, int first, bool whole, Rows lds_q,
                     const Real* lse, Real* p, Real* slope, Real* factor) const {
        product<ATTENTION_D>(at, k, lds_q, p);
        finish_scores<false>(g, s, at, batch, keys, first, s.k_rows, whole, p, ATTENTION_EXTRA ? slope : (Real*)0);
        Real shift[Lane::VALUES];
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) shift[i] = lse[at.column(i)];
        weights_of(p, unit, shift);
#if ATTENTION_EXTRA
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) factor[i] = (Real)1;
        if (g.keep >> 32 == 0) draw<false>(g, at, batch, keys, first, factor);
#endif
    }
    // Adds what the tile's queries give to the gradient of keys. `p`: their weights.
    RF_FN void add(const Lane& at, Rows summed_q, Rows lds_dout, const Real* delta, const Real* slope, const Real* factor, Real* p,
                   Real* exchange, Output<GIVES_K ? ATTENTION_D : 32, SummedA>& dk) const {
        Real ds[Lane::VALUES];
#if FROM_DELTA
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) ds[i] = delta[at.column(i)];
#endif
        product<ATTENTION_DV, FROM_DELTA>(at, v, lds_dout, ds);
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) {
#if ATTENTION_EXTRA
            ds[i] *= factor[i];
            p[i] *= slope[i];
#endif
            ds[i] = p[i] * (FROM_DELTA ? ds[i] : ds[i] + delta[at.column(i)]);
        }
        at.exchange(ds, exchange);
        if (!ATTENTION_SIZE) barrier();
        dk.add(at, ds, exchange, summed_q);
    }
};

// Queries that see some key of a workgroup's tile, from a whole tile of them on.
struct Viewers {
    int begin, end;

    RF_FN Viewers(const Problem& g, const Sequence& s, int tile_first) {
        const int key_end = tile_first + RESIDENT_ROWS < s.k_rows ? tile_first + RESIDENT_ROWS : s.k_rows;
        begin = tile_first - s.shift - g.right;
        end = key_end - s.shift + g.left;
        end = end < s.q_rows ? end : s.q_rows;
        begin = begin > 0 ? begin / STREAMED_ROWS * STREAMED_ROWS : 0;
    }
};

extern "C" __global__ ATTENTION_BOUNDS void attention_backward_kv(GradientArgs a) {
    ATTENTION_LDS(STREAMED_BYTES, RESIDENT_LDS_BYTES);
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
    HeadRows keys;
    keys.start(at, tile_first, s.k_first, s.k_rows, kv_head);
    Output<GIVES_K ? ATTENTION_D : 32, SummedA> out_k;
    Output<GIVES_V ? ATTENTION_DV : 32, SummedB> out_v;
    out_k.clear();
    out_v.clear();
    KeyTile tile;
    tile.start(g, at, batch, keys, kv_head, lds_resident, lds_rows);
    const Viewers viewers(g, s, tile_first);
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
#else
    TileA q_tile(lds_rows, g.q_row, g.depth);
    TileB dout_tile(lds_rows + TileA::BYTES, a.dout_row, g.value_depth);
#endif
    int parity = 0;
    for (int head = kv_head * g.group; head < (kv_head + 1) * g.group; ++head) {
        const In* q = g.q + batch * g.q_batch + head * g.q_head + s.q_first * g.q_row;
        const In* dout = a.dout + batch * a.dout_batch + head * a.dout_head + s.q_first * a.dout_row;
        QueryRows rows(a, s, batch, head);
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) keys.heads[slot] = head;
#if ATTENTION_STAGES
        if (head > kv_head * g.group) stages.drain();
        stages.start(lds, q, g.q_row, g.depth, dout, a.dout_row, g.value_depth, viewers.begin, viewers.end);
        rows.fetch(viewers.begin);
#endif
        for (int first = viewers.begin; first < viewers.end; first += STREAMED_ROWS) {
            Real *lds_lse = both_lse[parity], *lds_delta = both_delta[parity];
#if ATTENTION_STAGES
            parity ^= 1;
            rows.put(lds_lse, lds_delta);
            stages.advance();
            rows.fetch(first + STREAMED_ROWS);
            Rows lds_q = stages.rows_a(), lds_dout = stages.rows_b(), summed_q = lds_q, summed_dout = lds_dout;
#else
            q_tile.fetch(q, g.q_row, first, s.q_rows, g.depth);
            dout_tile.fetch(dout, a.dout_row, first, s.q_rows, g.value_depth);
            barrier();
            q_tile.put();
            dout_tile.put();
            rows.move(first, lds_lse, lds_delta);
            barrier();
            Rows lds_q = q_tile.rows, lds_dout = dout_tile.rows, summed_q = q_tile.summed, summed_dout = dout_tile.summed;
#endif
            const Sight sight(g, s, first, STREAMED_ROWS, tile_first + OWN_FIRST(at), OWN_ROWS);
            if (!sight.any) continue;
            const bool whole = sight.whole && first + STREAMED_ROWS <= s.q_rows;
            Real p[Lane::VALUES], kept[Lane::VALUES], slope[EXTRA_VALUES], factor[EXTRA_VALUES];
            tile.weigh(g, s, at, batch, keys, first, whole, lds_q, lds_lse, p, slope, factor);
#if GIVES_V
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) kept[i] = ATTENTION_EXTRA ? p[i] * factor[i % EXTRA_VALUES] : p[i];
            at.exchange(kept, lds_s[0]);
            if (!ATTENTION_SIZE) barrier();
            out_v.add(at, kept, lds_s[0], summed_dout);
#endif
#if GIVES_K
            tile.add(at, summed_q, lds_dout, lds_delta, slope, factor, p, lds_s[1], out_k);
#endif
        }
    }
    In *dk = a.dk + batch * a.dk_batch + kv_head * a.dk_head, *dv = a.dv + batch * a.dv_batch + kv_head * a.dv_head;
    if (GIVES_K) write(at, keys, out_k, dk, s.k_first, a.dk_row, g.scale, g.depth, lds_rows);
    if (GIVES_V) write(at, keys, out_v, dv, s.k_first, a.dv_row, 1.0, g.value_depth, lds_rows);
}
#endif
