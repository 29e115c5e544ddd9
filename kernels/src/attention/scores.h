// scores.h: what attention is asked to do, and what becomes of a tile of products Q · Kᵀ: exponents of 2.
//
// A query at place i of q_rows sees keys up to i + shift + right and down to i + shift - left, where shift = k_rows - q_rows
// puts the last query at the last key. What is hidden is minus infinity. Without extras, a product times `unit` is the
// exponent; with them (ATTENTION_EXTRA: soft-cap, mask, bias, slopes, dropout, a scale that is not positive), the exponent itself is
// made here, and the unit is 1.

#define LOG2_E 1.44269504088896340736
#define LN_2 0.69314718055994530942

struct Problem {
    const In* q;
    const In* k;
    const In* v;
    const bool8* mask;     // true: masked; null: none
    const void* bias;      // of In, or of Real if bias_wide; null: none
    const i32* q_starts;   // rows of batch b are q_starts[b] to q_starts[b + 1]; null: all q_rows of each
    const i32* k_starts;
    const Real* slopes;    // of each query head: what a score loses per key between it and the query's own place; null: nothing
    const Real* sinks;     // of each query head: a score of no key, which takes its share of the weights; null: none
    i64 q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
    i64 mask_batch, mask_head, mask_row, mask_column, bias_batch, bias_head, bias_row, bias_column;
    double scale, softcap, keep_scale;  // softcap 0: none
    u64 seed, offset, keep;             // kept: words below `keep`; 2^32: no dropout
    i32 heads, group, q_rows, k_rows;   // query heads, and how many share a head of keys; rows of all batches with q_starts
    i32 depth, value_depth, left, right;
    i32 bias_wide, first_batch;  // first_batch: what batch 0 of this launch is, for draws
    double masked;               // what a masked score gets added; minus infinity, and always without EXTRA_AHEAD: it is hidden
};

// One batch.
struct Sequence {
    i64 q_first, k_first;
    int q_rows, k_rows, shift;
};

// A start that device memory says, held inside of the tensor.
RF_FN int bounded(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

RF_FN Sequence sequence(const Problem& g, u32 batch) {
    Sequence s = {0, 0, g.q_rows, g.k_rows, 0};
    if (g.q_starts) {
        int q = bounded(g.q_starts[batch], 0, g.q_rows), k = bounded(g.k_starts[batch], 0, g.k_rows);
        s.q_rows = bounded(g.q_starts[batch + 1], q, g.q_rows) - q;
        s.k_rows = bounded(g.k_starts[batch + 1], k, g.k_rows) - k;
        s.q_first = q;
        s.k_first = k;
    }
    s.shift = s.k_rows - s.q_rows;
    return s;
}

// The resident rows of a lane: the place in its head of each, and whether there is such a row.
struct ResidentRows {
    int place[Lane::SLOTS], heads[Lane::SLOTS];
    bool there[Lane::SLOTS];

    // Of `packed` heads from `head` on, one behind the other, with `rows` each. Past the end it is the last row.
    RF_FN void start(const Lane& at, int tile_first, int rows, int packed, int head) {
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            int row = tile_first + at.row(slot);
            there[slot] = row < rows * packed;
            row = there[slot] ? row : rows * packed - 1;
            int above = packed > 1 ? row / rows : 0;
            heads[slot] = head + above;
            place[slot] = row - above * rows;
        }
    }
};
// First row of a workgroup's Q tile, the last one first: where only the past is seen, its queries have the most to do. Negative
// where there is none.
RF_FN int tile_from_last(int rows) {
    return ((rows + RESIDENT_ROWS - 1) / RESIDENT_ROWS - 1 - (int)group_x()) * RESIDENT_ROWS;
}

// Which keys, of those before `rows`, the queries of a workgroup see: tiles from `first` on, before `end`.
struct Span {
    int first_query, last_query, rows, first, end;

    // `last_query` is where the tile ends, `least` the first key that there is for the workgroup.
    RF_FN void start(const Problem& g, const Sequence& s, int least) {
        last_query = (last_query < s.q_rows ? last_query : s.q_rows) - 1;
        end = last_query + s.shift + g.right + 1;
        first = first_query + s.shift - g.left;
        first = first > least ? first : least;
        end = end < rows ? end : rows;
        first = first > 0 ? first / STREAMED_ROWS * STREAMED_ROWS : 0;
    }
    // Whether every query sees all of the tile.
    RF_FN bool whole(const Problem& g, const Sequence& s, int tile) const {
        return tile + STREAMED_ROWS <= rows && tile + STREAMED_ROWS - 1 <= first_query + s.shift + g.right &&
               tile >= last_query + s.shift - g.left;
    }
};

// The key of Philox for the weights of one head: a draw is a function of seed, offset, batch, head, query and key.
RF_FN u64 draw_key(const Problem& g, u32 batch, u32 head) {
    Philox p = philox((u64)(g.first_batch + batch) * g.heads + head, g.offset, g.seed);
    return (u64)p.word[1] << 32 | p.word[0];
}

// The factor of each weight: keep_scale, or 0 where it is dropped. `query` and `key` of value v are the places of its
// resident and its streamed row, or the other way round.
template <bool QUERIES_RESIDENT>
RF_FN void draw(const Problem& g, const Lane& at, u32 batch, const ResidentRows& mine, int first, Real* factor) {
    u64 keys[Lane::SLOTS];
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) keys[slot] = draw_key(g, batch, mine.heads[slot]);
    Philox p = {{0, 0, 0, 0}};
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) {
        int resident = mine.place[Lane::slot(v)], streamed = first + at.column(v);
        u32 query = QUERIES_RESIDENT ? resident : streamed, key = QUERIES_RESIDENT ? streamed : resident;
        // Four keys in a row share a block of words.
        if (!QUERIES_RESIDENT || v % (Lane::RUN < 4 ? Lane::RUN : 4) == 0)
            p = philox((u64)query << 32 | key >> 2, 0, keys[Lane::slot(v)]);
        u32 low = key & 1 ? p.word[1] : p.word[0], high = key & 1 ? p.word[3] : p.word[2];
        factor[v] = (u64)(key & 2 ? high : low) < g.keep ? (Real)g.keep_scale : (Real)0;
    }
}

// Multiplies weights of queries, or their gradients, by their factors.
RF_FN void drop(const Problem& g, const Lane& at, u32 batch, const ResidentRows& queries, int first, Real* values) {
    if (!ATTENTION_EXTRA || g.keep >> 32 != 0) return;
    Real factor[Lane::VALUES];
    draw<true>(g, at, batch, queries, first, factor);
#pragma unroll
    for (int i = 0; i < Lane::VALUES; ++i) values[i] *= factor[i];
}

// The exponent of a head's sink.
RF_FN Real sink_of(const Real* sinks, int head) { return sinks ? sinks[head] * (Real)LOG2_E : (Real)-__builtin_inff(); }

// Weights of scores: exp2(values · unit + shift).
RF_FN void weights_of(Real* values, Real unit, const Real* shift) {
#if ARCH_PACKED_F32 && ATTENTION_SIZE
    typedef Real Two __attribute__((ext_vector_type(2)));
#pragma unroll
    for (int v = 0; v < Lane::VALUES; v += 2) {
        const Two two = __builtin_elementwise_fma((Two){values[v], values[v + 1]}, (Two){unit, unit}, (Two){shift[v], shift[v + 1]});
        values[v] = two[0];
        values[v + 1] = two[1];
    }
#else
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) values[v] = rf::fma(values[v], unit, shift[v]);
#endif
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) values[v] = exp2_of(values[v]);
}

RF_FN Real unit_of(const Problem& g) { return ATTENTION_EXTRA ? (Real)1 : (Real)(g.scale * LOG2_E); }

// Whether a tile's masks and biases are read before any is used, so that they are on their way together: where rows go to LDS past
// the registers. Elsewhere the registers do not suffice (the first WMMA, whose operands are doubled).
#define EXTRA_AHEAD (ATTENTION_EXTRA && ATTENTION_STAGES)

#if EXTRA_AHEAD
// Where a resident row's part of a mask or bias lies, by slot, and how far apart those of the streamed rows are, in elements.
struct Extra {
    i64 start_of[Lane::SLOTS], apart;
    int most;  // the last streamed row that there is

    template <bool QUERIES_RESIDENT>
    RF_FN void start(const Sequence& s, const ResidentRows& mine, i64 from, i64 head, i64 row, i64 column) {
        int last_resident = (QUERIES_RESIDENT ? s.q_rows : s.k_rows) - 1;
        most = (QUERIES_RESIDENT ? s.k_rows : s.q_rows) - 1;
        apart = QUERIES_RESIDENT ? column : row;
#pragma unroll
        for (int slot = 0; slot < Lane::SLOTS; ++slot) {
            int place = mine.place[slot] < last_resident ? mine.place[slot] : last_resident;
            start_of[slot] = from + mine.heads[slot] * head + place * (QUERIES_RESIDENT ? row : column);
        }
    }
    // Rows that are not there have the place of the last one, so that no value waits to know whether it is asked for.
    RF_FN i64 at(int slot, int row) const { return start_of[slot] + (row < most ? row : most) * apart; }
};

// What is added to each value, and whether the mask hides it.
template <bool QUERIES_RESIDENT>
RF_FN void read_extra(const Problem& g, const Sequence& s, const Lane& at, u32 batch, const ResidentRows& mine, int first,
                      bool* unseen, Real* added) {
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) {
        unseen[v] = false;
        added[v] = (Real)0;
    }
    Extra extra;
    if (g.mask) {
        extra.start<QUERIES_RESIDENT>(s, mine, batch * g.mask_batch, g.mask_head, g.mask_row, g.mask_column);
        const Real by = (Real)g.masked;
        const bool hides = by == (Real)-__builtin_inff();
#pragma unroll
        for (int v = 0; v < Lane::VALUES; ++v) {
            bool masked = g.mask[extra.at(Lane::slot(v), first + at.column(v))].bits != 0;
            unseen[v] = masked && hides;
            added[v] = masked && !hides ? by : (Real)0;
        }
    }
    if (!g.bias) return;
    extra.start<QUERIES_RESIDENT>(s, mine, batch * g.bias_batch, g.bias_head, g.bias_row, g.bias_column);
    if (g.bias_wide) {
#pragma unroll
        for (int v = 0; v < Lane::VALUES; ++v)
            added[v] += ((const Real*)g.bias)[extra.at(Lane::slot(v), first + at.column(v))];
    } else {
#pragma unroll
        for (int v = 0; v < Lane::VALUES; ++v)
            added[v] += cast<Real>(((const In*)g.bias)[extra.at(Lane::slot(v), first + at.column(v))]);
    }
}
#endif

#if !ATTENTION_EXTRA
// Hides what is not seen: of each resident row, the streamed rows from one place up to another are.
template <bool QUERIES_RESIDENT>
RF_FN void hide_unseen(const Problem& g, const Sequence& s, const Lane& at, const ResidentRows& mine, int first, int k_end, Real* values) {
    int from[Lane::SLOTS];
    u32 count[Lane::SLOTS];
    const int ahead = QUERIES_RESIDENT ? s.shift + g.right : g.left - s.shift;
    const int behind = QUERIES_RESIDENT ? g.left - s.shift : s.shift + g.right;
    const int streamed = QUERIES_RESIDENT ? k_end : s.q_rows, resident = QUERIES_RESIDENT ? s.q_rows : k_end;
#pragma unroll
    for (int slot = 0; slot < Lane::SLOTS; ++slot) {
        const int place = mine.place[slot], low = place - behind;
        const int high = place + ahead + 1 < streamed ? place + ahead + 1 : streamed;
        from[slot] = low - first - at.column(0);
        count[slot] = place < resident && low < high ? (u32)(high - low) : 0;
    }
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) {
        const int slot = Lane::slot(v), step = at.column(v) - at.column(0);
        values[v] = (u32)(step - from[slot]) < count[slot] ? values[v] : (Real)-__builtin_inff();
    }
}
#endif

// `slope`, where it is asked for: what the soft-cap's derivative multiplies a gradient of the scores by.
template <bool QUERIES_RESIDENT>
RF_FN void finish_scores(const Problem& g, const Sequence& s, const Lane& at, u32 batch, const ResidentRows& mine, int first,
                         int k_end, bool whole, Real* values, Real* slope) {
#if !ATTENTION_EXTRA
    if (!whole) hide_unseen<QUERIES_RESIDENT>(g, s, at, mine, first, k_end, values);
#else
#if EXTRA_AHEAD
    bool unseen[Lane::VALUES];
    Real added[Lane::VALUES];
    read_extra<QUERIES_RESIDENT>(g, s, at, batch, mine, first, unseen, added);
#endif
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) {
        int slot = Lane::slot(v), resident = mine.place[slot], streamed = first + at.column(v);
        int query = QUERIES_RESIDENT ? resident : streamed, key = QUERIES_RESIDENT ? streamed : resident, last = query + s.shift + g.right;
        bool hidden = query >= s.q_rows || key >= k_end || key > last || key < query + s.shift - g.left;
        Real x = values[v] * (Real)g.scale;
        if (slope) slope[v] = (Real)1;
        if (g.softcap != 0.0) {
            Real bent = rf::tanh(x / (Real)g.softcap);
            x = bent * (Real)g.softcap;
            if (slope) slope[v] = (Real)1 - bent * bent;
        }
#if EXTRA_AHEAD
        hidden = hidden || unseen[v];
        x += added[v];
#else
        if (g.mask && !hidden) {
            i64 from = batch * g.mask_batch + mine.heads[slot] * g.mask_head + query * g.mask_row + key * g.mask_column;
            hidden = g.mask[from].bits != 0;
        }
        if (g.bias && !hidden) {
            i64 from = batch * g.bias_batch + mine.heads[slot] * g.bias_head + query * g.bias_row + key * g.bias_column;
            x += g.bias_wide ? ((const Real*)g.bias)[from] : cast<Real>(((const In*)g.bias)[from]);
        }
#endif
        if (g.slopes) {
            int away = key - query - s.shift;
            x -= g.slopes[mine.heads[slot]] * (Real)(away < 0 ? -away : away);
        }
        values[v] = hidden ? (Real)-__builtin_inff() : x * (Real)LOG2_E;
    }
#endif
}
