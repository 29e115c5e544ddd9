// attention: O = softmax(Q · Kᵀ · scale + …) · V, without the scores ever being in memory.
//
// Shapes : Q [batches, heads, q_rows, depth], K [batches, heads / group, k_rows, depth], V [.., k_rows, value_depth],
//          O [batches, heads, q_rows, value_depth], LSE [batches, heads, q_rows]; strides in elements, last axes 1
// Grid   : attention (tiles, heads / packed, batches * splits)      one workgroup per RESIDENT_ROWS queries and slice of the keys
//          attention_combine (ceil(rows * value_depth / 256), 1, 1) adds up the slices; rows = batches * heads * q_rows
// Block  : attention (THREADS, 1, 1), attention_combine (256, 1, 1)
// LDS    : a KV tile of STREAMED_ROWS rows of K and of V, through which the Q tile and results pass, rows of the Q tile that
//          registers do not keep, and for FMA RESIDENT_ROWS * (STREAMED_ROWS + 1) weights, static; or ATTENTION_STAGES KV
//          tiles, and operands of the Q tile that registers do not keep, dynamic
// Needs  : depth <= ATTENTION_D, value_depth <= ATTENTION_DV, multiples of 8; rows aligned to 16 bytes; O and LSE overlap
//          nothing                                                   checked by the launcher
// Numeric: products, exponentials and sums in ATTENTION_REAL; weights are rounded to the input's type for the second product
//          on the matrix unit. Tiles of keys in ascending order, rescaled to the running maximum once that is passed by more
//          than a factor of 2^8; slices, whose length is
//          a function of the shape, in ascending order. A row that sees nothing gives zeros and an LSE of -inf; a NaN
//          spoils its row only.
//
// Macros : those of tile.h; ATTENTION_EXTRA (see scores.h); ATTENTION_SPLIT: whether keys are cut into slices, whose O is then
//          neither divided nor rounded, with maximum and sum beside it
struct AttentionArgs {
    Problem p;
    void* out;  // In; slices: Real, [splits, rows, value_depth]
    Real* lse;   // null: not asked for; slices: [splits, rows, 2]
    i64 out_batch, out_head, out_row, out_slice, lse_batch, lse_head, lse_row, lse_slice;
    i32 packed;  // query heads of one workgroup: 1, or all that share a head of keys
    i32 batches, slice_rows, padding;
};
static_assert(sizeof(AttentionArgs) == sizeof(Problem) + 96, "as in attention.rs");
static_assert(sizeof(Problem) == 304, "as in problem.rs");

#if ATTENTION_SPLIT
typedef Real Out;
#else
typedef In Out;
#endif

extern "C" __global__ ATTENTION_BOUNDS void attention(AttentionArgs a) {
#if ATTENTION_STAGES
    extern __shared__ __attribute__((aligned(128))) char lds[];
#else
    __shared__ __attribute__((aligned(16))) char lds_rows[StreamedLds<ATTENTION_D, ATTENTION_DV>::BYTES];
    __shared__ __attribute__((aligned(16))) char lds_resident[ResidentTile<ATTENTION_D>::LDS_BYTES + 16];
    In *lds_k = (In*)lds_rows, *lds_v = lds_k + STREAMED_ROWS * Row<ATTENTION_D>::LENGTH;
#endif
    __shared__ Real lds_p[EXCHANGE];
    const Problem& g = a.p;

    u32 slice = group_z() / a.batches, batch = group_z() - slice * a.batches;
    Sequence s = sequence(g, batch);
    int head = (int)group_y() * a.packed, rows = s.q_rows * a.packed;
    // The last queries first: where only the past is seen, they have the most to do.
    int tile_first = ((rows + RESIDENT_ROWS - 1) / RESIDENT_ROWS - 1 - (int)group_x()) * RESIDENT_ROWS;
    if (tile_first < 0) return;
    const In* k = g.k + batch * g.k_batch + head / g.group * g.k_head + s.k_first * g.k_row;
    const In* v = g.v + batch * g.v_batch + head / g.group * g.v_head + s.k_first * g.v_row;

    Lane at;
    at.start();
    ResidentTile<ATTENTION_D> q_tile;
    int place[Lane::SLOTS], heads[Lane::SLOTS];
    bool there[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        int row = tile_first + at.row(slot);
        there[slot] = row < rows;
        row = there[slot] ? row : rows - 1;
        int above = a.packed > 1 ? row / s.q_rows : 0;
        heads[slot] = head + above;
        place[slot] = row - above * s.q_rows;
        q_tile.rows[slot] = g.q + batch * g.q_batch + heads[slot] * g.q_head + (s.q_first + place[slot]) * g.q_row;
    }
#if ATTENTION_STAGES
    char* lds_rows = (char*)0;
    q_tile.start(at, g.depth, lds + ATTENTION_STAGES * Stages<ATTENTION_D, ATTENTION_DV>::STAGE_BYTES, lds_rows);
#else
    q_tile.start(at, g.depth, lds_resident, lds_rows);
    if (ResidentTile<ATTENTION_D>::KEPT) barrier();
#endif

    // Keys that some query of this workgroup sees.
    int first_query = a.packed > 1 ? 0 : tile_first, last_query = a.packed > 1 ? s.q_rows : tile_first + RESIDENT_ROWS;
    last_query = (last_query < s.q_rows ? last_query : s.q_rows) - 1;
    int k_end = s.k_rows, end = last_query + s.shift + g.right + 1, first = first_query + s.shift - g.left;
#if ATTENTION_SPLIT
    int slice_first = (int)slice * a.slice_rows, slice_end = slice_first + a.slice_rows;
    k_end = k_end < slice_end ? k_end : slice_end;
    first = first > slice_first ? first : slice_first;
#endif
    end = end < k_end ? end : k_end;
    first = first > 0 ? first / STREAMED_ROWS * STREAMED_ROWS : 0;

    const Real unit = unit_of(g), none = (Real)-__builtin_inff();
    // What exponents are taken from: once above what was seen, it stays until that is RESCALE_ABOVE powers of two more.
    Real base[Lane::SLOTS], sum[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        base[slot] = none;
        sum[slot] = (Real)0;
    }
    Output<ATTENTION_DV> out;
    out.clear();
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
    stages.a.start(k, g.k_row, first, g.depth);
    stages.b.start(v, g.v_row, first, g.value_depth);
    stages.start(lds_address(lds), end - first);
    // Past the last key that its queries see a wave has nothing to do.
    int wave_end = a.packed > 1 ? end : tile_first + at.first + WAVE_ROWS + s.shift + g.right;
#else
    Loader<ATTENTION_D> load_k;
    Loader<ATTENTION_DV> load_v;
    if (first < end) load_k.fetch(k, g.k_row, first, s.k_rows, g.depth);
#endif
    for (; first < end; first += STREAMED_ROWS) {
#if ATTENTION_STAGES
        stages.advance();
        if (first >= wave_end) continue;
        Rows lds_k = stages.rows_a(), lds_v = stages.rows_b();
#else
        load_k.put(lds_k);
        barrier();
        load_v.fetch(v, g.v_row, first, s.k_rows, g.value_depth);
#endif
        Real p[Lane::VALUES];
        product<ATTENTION_D>(at, q_tile, lds_k, p);
        bool whole = first + STREAMED_ROWS <= k_end && first + STREAMED_ROWS - 1 <= first_query + s.shift + g.right &&
                     first >= last_query + s.shift - g.left;
        finish_scores<true>(g, s, at, batch, place, heads, first, k_end, whole, p, (Real*)0);

        Real high[Lane::SLOTS], from[Lane::SLOTS];
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) high[slot] = none;
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) high[Lane::slot(i)] = larger(high[Lane::slot(i)], p[i]);
        bool moves = false;
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            high[slot] = at.across(high[slot], Larger()) * unit;
            moves = moves || high[slot] > base[slot] + (Real)RESCALE_ABOVE;
        }
        if (rf::ballot(moves)) {
            Real by[Lane::SLOTS];
#pragma unroll
            for (int slot = 0; slot < Lane::SLOTS; ++slot) {
                // Others of the wave may have to; a row's own bits do not depend on them.
                bool moved = high[slot] > base[slot] + (Real)RESCALE_ABOVE;
                by[slot] = moved ? exp2_of(base[slot] - high[slot]) : (Real)1;
                base[slot] = moved ? high[slot] : base[slot];
                sum[slot] *= by[slot];
            }
            out.scale(by);
        }
        // Where nothing was seen yet, there is nothing to shift by.
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) from[slot] = base[slot] == none ? (Real)0 : base[slot];
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) {
            int slot = Lane::slot(i);
            p[i] = exp2_of(rf::fma(p[i], unit, -from[slot]));
            sum[slot] += p[i];
        }
#if ATTENTION_EXTRA
        if (g.keep >> 32 == 0) {
            Real factor[Lane::VALUES];
            u64 keys[Lane::SLOTS];
#pragma unroll
            for (int slot = 0; slot < Lane::SLOTS; ++slot) keys[slot] = draw_key(g, batch, heads[slot]);
            draw<true>(g, at, place, keys, first, factor);
#pragma unroll
            for (int i = 0; i < Lane::VALUES; ++i) p[i] *= factor[i];
        }
#endif
        at.exchange(p, lds_p);
#if !ATTENTION_STAGES
        load_v.put(lds_v);
        barrier();
        if (first + STREAMED_ROWS < end) load_k.fetch(k, g.k_row, first + STREAMED_ROWS, s.k_rows, g.depth);
#endif
        out.add(at, p, lds_p, lds_v);
    }

    Out* to[Lane::SLOTS];
    Real scale[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        sum[slot] = at.across(sum[slot], rf::Sum());
        i64 row = s.q_first + place[slot];
        to[slot] = (Out*)a.out + slice * a.out_slice + batch * a.out_batch + heads[slot] * a.out_head + row * a.out_row;
        Real* lse = a.lse + slice * a.lse_slice + batch * a.lse_batch + heads[slot] * a.lse_head + row * a.lse_row;
        bool mine = there[slot] && at.leads();
#if ATTENTION_SPLIT
        scale[slot] = (Real)1;
        if (mine) {
            lse[0] = base[slot];
            lse[1] = sum[slot];
        }
#else
        // A sink has no value: it only takes its share.
        Real sink = sink_of(g.sinks, heads[slot]), top = larger(base[slot], sink);
        Real by = base[slot] == none ? (Real)0 : exp2_of(base[slot] - top);
        if (sink > none) sum[slot] = sum[slot] * by + exp2_of(sink - top);
        else by = (Real)1;
        scale[slot] = sum[slot] == (Real)0 ? (Real)0 : by / sum[slot];
        if (mine && a.lse) *lse = top == none ? none : (top + rf::log2(sum[slot])) * (Real)LN_2;
#endif
    }
    out.write(at, to, there, scale, g.value_depth, lds_rows);
}

#if ATTENTION_SPLIT
struct AttentionCombineArgs {
    const Real* slices;  // [splits, rows, value_depth]
    const Real* states;  // [splits, rows, 2]: exponent of the maximum, sum
    In* out;
    Real* lse;  // null: not asked for
    const Real* sinks;
    i64 out_batch, out_head, out_row, lse_batch, lse_head, lse_row;
    i32 splits, heads, q_rows, value_depth;
    i64 rows;
};
static_assert(sizeof(AttentionCombineArgs) == 112, "as in attention.rs");

extern "C" __global__ __launch_bounds__(256) void attention_combine(AttentionCombineArgs g) {
    i64 element = (i64)group_x() * 256 + thread_x(), row = element / g.value_depth;
    if (row >= g.rows) return;
    int column = (int)(element - row * g.value_depth);
    const Real none = (Real)-__builtin_inff();
    i64 line = row / g.q_rows, place = row - line * g.q_rows, batch = line / g.heads, head = line - batch * g.heads;
    Real sink = sink_of(g.sinks, (int)head), most = sink;
    for (int i = 0; i < g.splits; ++i) most = larger(most, g.states[(i * g.rows + row) * 2]);
    Real out = (Real)0, base = most == none ? (Real)0 : most, sum = exp2_of(sink - base);
    for (int i = 0; i < g.splits; ++i) {
        i64 from = i * g.rows + row;
        Real by = exp2_of(g.states[from * 2] - base);
        sum = rf::fma(g.states[from * 2 + 1], by, sum);
        out = rf::fma(g.slices[from * g.value_depth + column], by, out);
    }
    out = sum == (Real)0 ? (Real)0 : out / sum;
    g.out[batch * g.out_batch + head * g.out_head + place * g.out_row + column] = cast<In>(out);
    if (g.lse && column == 0)
        g.lse[batch * g.lse_batch + head * g.lse_head + place * g.lse_row] = most == none ? none : (most + rf::log2(sum)) * (Real)LN_2;
}
#endif
