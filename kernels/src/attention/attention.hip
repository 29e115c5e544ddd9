// attention: O = softmax(Q · Kᵀ · scale + …) · V, without the scores ever being in memory.
//
// Shapes : Q [batches, heads, q_rows, depth], K [batches, heads / group, k_rows, depth], V [.., k_rows, value_depth],
//          O [batches, heads, q_rows, value_depth], LSE [batches, heads, q_rows]; strides in elements, last axes 1
// Grid   : attention (tiles, heads / packed, batches * splits)      one workgroup per RESIDENT_ROWS queries and slice of the keys
//          attention_combine (ceil(rows * value_depth / 256), 1, 1) adds up the slices; rows = batches * heads * q_rows
// Block  : attention (THREADS, 1, 1), attention_combine (256, 1, 1)
// LDS    : a KV tile of TILE_ROWS rows of K and of V, through which the Q tile and results pass, rows of the Q tile that
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

typedef Output<ATTENTION_DV, OfValues::Read, true> ValueSums;

// Running maxima and sums of a lane's rows.
struct Softmax {
    // What exponents are taken from: once above what was seen, it stays until that is RESCALE_ABOVE powers of two more.
    Real base[Lane::SLOTS], sum[Lane::SLOTS];

    RF_FN void start() {
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            base[slot] = -(Real)__builtin_inff();
            sum[slot] = (Real)0;
        }
    }
    // Brings what was summed to maxima that have moved too far.
    RF_FN void rescale(const Lane& at, const Real* p, Real unit, ValueSums& out) {
        Real high[Lane::SLOTS];
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) high[slot] = -(Real)__builtin_inff();
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) high[Lane::slot(i)] = larger(high[Lane::slot(i)], p[i]);
        bool moves = false;
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            high[slot] = at.across(high[slot], Larger()) * unit;
            moves = moves || high[slot] > base[slot] + (Real)RESCALE_ABOVE;
        }
        if (!rf::ballot(moves)) return;
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
    // Makes weights of scores.
    RF_FN void weigh(Real* p, Real unit) {
        const Real none = -(Real)__builtin_inff();
        Real shift[Lane::VALUES];
        // Where nothing was seen yet, there is nothing to shift by.
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) shift[i] = base[Lane::slot(i)] == none ? (Real)0 : -base[Lane::slot(i)];
        weights_of(p, unit, shift);
        add(p);
    }
    RF_FN void add(const Real* p) {
#if ARCH_PACKED_F32 && ATTENTION_SIZE
        // The even and the odd ones of a lane's row, two by an instruction.
        static_assert(Lane::SLOTS == 1, "all are of one row");
        typedef Real Two __attribute__((ext_vector_type(2)));
        Two both = {p[0], p[1]};
#pragma unroll
        for (int i = 2; i < Lane::VALUES; i += 2) both += (Two){p[i], p[i + 1]};
        sum[0] += both[0] + both[1];
#else
#pragma unroll
        for (int i = 0; i < Lane::VALUES; ++i) sum[Lane::slot(i)] += p[i];
#endif
    }
    // Sums are added up before what follows: among products of the matrix unit the compiler would make two additions of each.
    RF_FN void settle() {
#if ARCH_PACKED_F32 && ATTENTION_SIZE
        asm volatile("" : "+v"(sum[0]));
        hold_schedule();
#endif
    }
};
// What a row's output is multiplied by, and its LSE.
struct Finished {
    Real scale, lse;
};
RF_FN Finished finished(const Real* sinks, int head, Real base, Real sum) {
    const Real none = (Real)-__builtin_inff();
    // A sink has no value: it only takes its share.
    Real sink = sink_of(sinks, head), top = larger(base, sink);
    Real by = base == none ? (Real)0 : exp2_of(base - top);
    if (sink > none) sum = sum * by + exp2_of(sink - top);
    else by = (Real)1;
    Real lse = top == none ? none : (top + rf::log2(sum)) * (Real)LN_2;
    Finished row = {sum == (Real)0 ? (Real)0 : by / sum, lse};
    return row;
}

// Which queries a workgroup has and which keys they see.
struct GroupTile {
    u32 slice, batch;
    int head, tile_first;
    Sequence s;
    Span keys;
};
RF_FN GroupTile group_tile(const AttentionArgs& a) {
    GroupTile to;
    to.slice = group_z() / a.batches;
    to.batch = group_z() - to.slice * a.batches;
    to.s = sequence(a.p, to.batch);
    to.head = (int)group_y() * a.packed;
    to.tile_first = tile_from_last(to.s.q_rows * a.packed);
    int k_first = 0, k_end = to.s.k_rows;
#if ATTENTION_SPLIT
    k_first = (int)to.slice * a.slice_rows;
    k_end = k_end < k_first + a.slice_rows ? k_end : k_first + a.slice_rows;
#endif
    // A tile of packed heads has queries of all places.
    to.keys.first_query = a.packed > 1 ? 0 : to.tile_first;
    to.keys.last_query = a.packed > 1 ? to.s.q_rows : to.tile_first + RESIDENT_ROWS;
    to.keys.rows = k_end;
    to.keys.start(a.p, to.s, k_first);
    return to;
}

// Writes results of resident rows, and what their sums come to.
RF_FN void write_rows(const AttentionArgs& a, const GroupTile& here, const Lane& at, const ResidentRows& queries, const Softmax& softmax,
                      const ValueSums& out, char* lds_rows) {
    Out* to[Lane::SLOTS];
    Real scale[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        const Real base = softmax.base[slot], sum = at.across(softmax.sum[slot], rf::Sum());
        i64 head = queries.heads[slot], row = here.s.q_first + queries.place[slot];
        to[slot] = (Out*)a.out + here.slice * a.out_slice + here.batch * a.out_batch + head * a.out_head + row * a.out_row;
        Real* lse = a.lse + here.slice * a.lse_slice + here.batch * a.lse_batch + head * a.lse_head + row * a.lse_row;
        const bool mine = queries.there[slot] && at.leads();
#if ATTENTION_SPLIT
        scale[slot] = (Real)1;
        if (mine) lse[0] = base, lse[1] = sum;
#else
        Finished row_end = finished(a.p.sinks, queries.heads[slot], base, sum);
        scale[slot] = row_end.scale;
        if (mine && a.lse) *lse = row_end.lse;
#endif
    }
    out.write(at, to, queries.there, scale, a.p.value_depth, lds_rows);
}

#if ATTENTION_BLOCKS > 1
// Takes all keys from `keys.first` on, of heads that are not packed; `wave_end`: past the last that the wave's queries see.
RF_FN void weigh_blocks(const Problem& g, const Sequence& s, const Lane& at, const ResidentRows& queries, const Span& keys, int wave_end,
                        const ResidentTile<ATTENTION_D>& q_tile, Blocks& tile, Softmax& softmax, ValueSums& out) {
    const Real unit = unit_of(g);
    if (keys.first < keys.end) tile.fetch(g, keys.first, s.k_rows);
    for (int first = keys.first; first < keys.end; first += TILE_ROWS) {
        tile.put();
        if (first + TILE_ROWS < keys.end) tile.fetch(g, first + TILE_ROWS, s.k_rows);
        KeyOperands<ATTENTION_D> of_keys;
        of_keys.read(at, tile.keys(0));
        arrive<WAIT_FOR_LDS>();
#pragma unroll
        for (int block = 0; block < ATTENTION_BLOCKS; ++block) {
            const int begin = first + block * STREAMED_ROWS;
            if (begin >= wave_end) break;
            Real p[Lane::VALUES];
            of_keys.multiply(at, q_tile, p);
            ValueOperands<ATTENTION_DV> of_values;
            of_values.read(at, tile.values(block));
            if (block + 1 < ATTENTION_BLOCKS) of_keys.read(at, tile.keys(block + 1));
            finish_scores<true>(g, s, at, 0, queries, begin, keys.rows, keys.whole(g, s, begin), p, (Real*)0);
            softmax.rescale(at, p, unit, out);
            softmax.weigh(p, unit);
            C::Operand weights[C::SCORE_OPERANDS];
            C::weight_operands(p, weights);
            softmax.settle();
            of_values.add(weights, out);
        }
        barrier();
    }
}
#endif

extern "C" __global__ ATTENTION_BOUNDS void attention(AttentionArgs a) {
    const int K_VALUES = TILE_ROWS * Row<ATTENTION_D>::LENGTH, V_VALUES = TILE_ROWS * Row<ATTENTION_DV>::LENGTH;
    ATTENTION_LDS((K_VALUES + V_VALUES) * (int)sizeof(In), ResidentTile<ATTENTION_D>::LDS_BYTES);
    __shared__ Real lds_p[EXCHANGE];
    const Problem& g = a.p;
    const GroupTile here = group_tile(a);
    const Sequence& s = here.s;
    const u32 batch = here.batch;
    if (here.tile_first < 0) return;
    const In* k = g.k + batch * g.k_batch + here.head / g.group * g.k_head + s.k_first * g.k_row;
    const In* v = g.v + batch * g.v_batch + here.head / g.group * g.v_head + s.k_first * g.v_row;
    Lane at;
    at.start();
    ResidentRows queries;
    queries.start(at, here.tile_first, s.q_rows, a.packed, here.head);
    ResidentTile<ATTENTION_D> q_tile;
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot)
        q_tile.rows[slot] = g.q + batch * g.q_batch + queries.heads[slot] * g.q_head + (s.q_first + queries.place[slot]) * g.q_row;
    q_tile.start(at, g.depth, lds_resident, lds_rows);
    if (!ATTENTION_STAGES && ResidentTile<ATTENTION_D>::KEPT) barrier();
    int first = here.keys.first, end = here.keys.end;
    const Real unit = unit_of(g);
    Softmax softmax;
    softmax.start();
    ValueSums out;
    out.clear();
#if ATTENTION_STAGES
    Stages<ATTENTION_D, ATTENTION_DV> stages;
    stages.start(lds, k, g.k_row, g.depth, v, g.v_row, g.value_depth, first, end);
    // Past the last key that its queries see a wave has nothing to do.
    int wave_end = a.packed > 1 ? end : here.tile_first + at.first + WAVE_ROWS + s.shift + g.right;
#elif ATTENTION_BLOCKS > 1
    Blocks tile(g, k, v, lds_rows);
    // Past the last key that its queries see a wave has nothing to do, nor without any.
    const int wave_first = here.tile_first + at.first, seen = wave_first + WAVE_ROWS + s.shift + g.right;
    const int wave_end = wave_first >= s.q_rows ? 0 : end < seen ? end : seen;
    weigh_blocks(g, s, at, queries, here.keys, wave_end, q_tile, tile, softmax, out);
#else
    In *lds_k = (In*)lds_rows, *lds_v = lds_k + K_VALUES;
    Loader<ATTENTION_D> load_k(g.k_row, g.depth);
    OfValues::Load load_v(g.v_row, g.value_depth);
    if (first < end) load_k.fetch(k, g.k_row, first, s.k_rows, g.depth);
#endif
#if ATTENTION_BLOCKS == 1
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
        finish_scores<true>(g, s, at, batch, queries, first, here.keys.rows, here.keys.whole(g, s, first), p, (Real*)0);
        softmax.rescale(at, p, unit, out);
        softmax.weigh(p, unit);
        drop(g, at, batch, queries, first, p);
        at.exchange(p, lds_p);
#if !ATTENTION_STAGES
        load_v.put(lds_v);
        barrier();
        if (first + STREAMED_ROWS < end) load_k.fetch(k, g.k_row, first + STREAMED_ROWS, s.k_rows, g.depth);
#endif
        out.add(at, p, lds_p, lds_v);
    }
#endif
    write_rows(a, here, at, queries, softmax, out, lds_rows);
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
