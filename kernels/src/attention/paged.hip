// paged: attention of queries at the end of sequences, whose keys and values are on the pages of a cache
//
//   query i of a sequence's q_len has place keys - q_len + i and sees keys up to it, with a window of w keys only the last w of them
//   score = cap(scale * <q, k>) - slope * (place - key) + bias;   O = sum e^score v / (sum e^score + e^sink)
//
// Shapes : Q [tokens, heads, depth], O [tokens, heads, value_depth], LSE [tokens, heads]; strides in elements, last axes of Q and O 1;
//          bias [tokens, ..]: of a query, for keys from keys - q_len on; cache as in cache.h, heads / group heads
// Grid   : paged (items at most, 1, 1): an item is a run of splits, of SPLIT keys each, of ROWS rows that share a head of keys: heads of
//          the group, then queries.
//          Workgroups find what their items are by the lengths, and take one after the other until there is none
//          paged_combine (tokens * heads, 1, 1) adds up the splits of a row
// Block  : (THREADS, 1, 1) both
// LDS    : places of a split's keys, then results of waves; weights on their way between lanes; static. Of tiles, dynamic: what
//          paged_tiles.h, paged_latents.h or paged_hopper.h says
// Needs  : planes as PAGED_ACROSS says, aligned to their pieces; depths at most 8 * TEAM * turns; O and LSE overlap nothing
//                                                                                                  checked by the launcher
// Numeric: products, exponentials and sums in f32; on the matrix unit weights are rounded to PAGED_IN for the second product. Keys
//          in ascending order,
//          rescaled to the running maximum of a wave once that is passed by more than a factor of 2^8. Teams, waves and splits are
//          added up in one order. Splits begin at multiples of SPLIT keys of the sequence, so that a row's bits depend on its own
//          sequence alone. A row that sees nothing gives zeros and an LSE of -inf, and nothing of it is read. Keys on a page that is
//          not
//          there are not seen, and the page is told of.
//
// Macros : those of cache.h; PAGED_IN, type of Q and O; PAGED_TEAM: lanes that a row of keys has with eight channels in each;
//          PAGED_K_TURNS, PAGED_V_TURNS: how often that is, for the channels of a key and of a value;
//          PAGED_ROWS, PAGED_SPLIT, PAGED_THREADS; PAGED_WAY: what computes a split, as paged.h has the numbers; those of paged_tiles.h
//          or paged_hopper.h; PAGED_WHOLE_PAGES, of paged_pairs.h: whether each tile of keys is on one page, and keys and values lie alike;
//          PAGED_SCALES: scales of codes, as paged.h has the numbers; PAGED_GROUPS: workgroups that a unit has registers for;
//          PAGED_SLOTS: whether keys are found by slots and not by pages; PAGED_ACROSS: whether tokens are neighbours in the plane of
//          values, and not channels
#if !PAGED_TILES
// Results of all waves, through LDS.
RF_FN void write_all(const PagedArgs& g, Shared& shared, const Rows& rows, u32 kv_head, u32 split, bool is_only, Work& work) {
#pragma unroll
    for (u32 row = 0; row < ROWS; row += RESULT_ROWS) {
        if (row >= rows.count) break;
        // Nobody reads places, or the rows before, any more.
        barrier();
        work.put(shared, row);
        barrier();
        write_rows(g, shared, rows, row, kv_head, split, is_only);
    }
}
#endif
// A split of a sequence, of the workgroup's rows.
RF_FN void run_split(const PagedArgs& g, Shared& shared, Exchanged& exchanged, u32 sequence, u32 split, u32 chunk, u32 kv_head) {
    Sequence s;
    s.start(g, sequence);
    s.is_uniform();
    if (split >= (u32)s.splits) return;
    Rows rows;
    rows.first = chunk * ROWS;
    const u32 all = (u32)s.q_len * g.group.divisor, most = g.q_most * g.group.divisor;
    const u32 there = all < most ? all : most;
    if (rows.first >= there) return;
    rows.count = there - rows.first < ROWS ? there - rows.first : ROWS;
    rows.q_first = s.q_first;
    rows.place = s.keys - s.q_len;
    // Keys that any of the rows sees.
    const i32 begin = (s.split_first + (i32)split) * SPLIT;
    const i32 least = rows.place + (i32)rows.query(g, 0) + 1 - g.window;
    const i32 last = rows.place + (i32)rows.query(g, rows.count - 1) + 1;
    const i32 first = least > begin ? least : begin;
    i32 end = last < begin + SPLIT ? last : begin + SPLIT;
    end = end < s.keys ? end : s.keys;
#if PAGED_TILES
    Work work;
    work.start(read_anew(g), exchanged, rows, kv_head);
    work.run(read_anew(g), exchanged, rows, sequence, kv_head, first, end);
    work.write(read_anew(g), exchanged, rows, kv_head, split, s.splits == 1);
#elif PAGED_PAIRS
    Work work;
    work.start(read_anew(g), rows, kv_head);
    work.run(read_anew(g), shared, exchanged, rows, sequence, kv_head, begin, first - begin, end - begin);
    write_all(read_anew(g), shared, rows, kv_head, split, s.splits == 1, work);
#else
    const bool are_there = find_keys<WAVE_RUN>(g, shared, sequence, kv_head, begin, first, end);
    Work work;
    work.start(g, rows, kv_head);
    // None are taken for all there where a page is not.
    work.run(g, shared, exchanged, begin, first - begin, end - begin, are_there ? first - begin : SPLIT, rows.place);
    write_all(g, shared, rows, kv_head, split, s.splits == 1, work);
#endif
}

#if (PAGED_PAIRS && ROWS == 8) || (PAGED_LATENTS && ROWS == 16)
// Two waves of a SIMD have registers at once, where LDS allows it.
#define PAGED_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define PAGED_WAVES
#endif
extern "C" __global__ RF_BOUNDS(THREADS, PAGED_GROUPS) PAGED_WAVES void paged(PagedArgs g) {
#if PAGED_WAY != 3
    __shared__ Shared shared;
#endif
#if PAGED_TILES
    extern __shared__ __attribute__((aligned(alignof(Exchanged)))) char lds[];
    Exchanged& exchanged = *(Exchanged*)lds;
#else
    __shared__ Exchanged exchanged;
#endif
#if PAGED_WAY == 3
    Shared& shared = exchanged.shared;
#endif
    for (u32 item = group_x();; item += g.groups) {
        const u32 line = g.kv_heads.divide(item), run = g.chunks.divide(line);
        u32 sequence, of_sequence;
        if (!find_run(read_anew(g), shared, run, sequence, of_sequence)) return;
#pragma unroll 1
        for (u32 n = 0; n < 1u << RUN_SHIFT; ++n) {
            run_split(read_anew(g), shared, exchanged, sequence, (of_sequence << RUN_SHIFT) + n, line - run * g.chunks.divisor, item - line * g.kv_heads.divisor);
            barrier();
        }
    }
}

// Threads that have four channels each of a row, and how many rows of splits are read at once.
#define COLUMNS (V_CHANNELS_MOST / 4)
#define COLUMN_READERS (THREADS / COLUMNS)

// Splits that one wave adds up alone, without LDS: what takes part of a workgroup's work to the others is more than the work.
#define FEW_SPLITS 8
// Neighbouring channels that a lane has at once of a row.
#define FEW_CHANNELS (V_CHANNELS_MOST / ARCH_WAVE_SIZE < 1 ? 1 : V_CHANNELS_MOST / ARCH_WAVE_SIZE > 4 ? 4 : V_CHANNELS_MOST / ARCH_WAVE_SIZE)
// What one lane has, for all.
RF_FN float of_lane(float x, u32 lane) {
#if RF_DEVICE_AMD
    return bit_cast<float>(read_lane(bit_cast<u32>(x), lane));
#else
    return shuffle(x, lane);
#endif
}
// Channels of a result, at once where they are aligned.
RF_FN void store_whole(In* to, const Vec<In, FEW_CHANNELS>& results) {
    if ((u64)to % (FEW_CHANNELS * sizeof(In)) == 0) {
        store<FEW_CHANNELS>(to, results);
        return;
    }
#pragma unroll
    for (int e = 0; e < FEW_CHANNELS; ++e) to[e] = results[e];
}
RF_FN void combine_few(const PagedArgs& g, i32 splits, i64 line, u32 token, u32 head) {
    // A split to a lane, all in one access.
    Vec<float, 2> own;
    own[0] = -__builtin_inff();
    own[1] = 0.0f;
    if ((i32)lane() < splits) own = load<2>(g.states + 2 * line + 2 * lane());
    const float sink = sink_of(g, head);
    float most = sink, by[FEW_SPLITS];
#pragma unroll
    for (int i = 0; i < FEW_SPLITS; ++i) {
        by[i] = of_lane(own[0], (u32)i);
        most = __builtin_fmaxf(most, by[i]);
    }
    const float shift = most == -__builtin_inff() ? 0.0f : most;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < FEW_SPLITS; ++i) {
        if (i >= splits) break;
        by[i] = exp2_fast(by[i] - shift);
        sum += of_lane(own[1], (u32)i) * by[i];
    }
    const float total = sum + exp2_fast(sink - shift), factor = inverse(total);
    for (u32 channel = lane() * FEW_CHANNELS; channel < g.v.depth; channel += ARCH_WAVE_SIZE * FEW_CHANNELS) {
        const float* parts = g.parts + line * g.v.depth + channel;
        Vec<float, FEW_CHANNELS> x;
#pragma unroll
        for (int e = 0; e < FEW_CHANNELS; ++e) x[e] = 0.0f;
#pragma unroll
        for (int i = 0; i < FEW_SPLITS; ++i) {
            if (i >= splits) break;
            // What is not seen was not written.
            if (by[i] == 0.0f) continue;
            const Vec<float, FEW_CHANNELS> part = load<FEW_CHANNELS>(parts + (i64)i * g.v.depth);
#pragma unroll
            for (int e = 0; e < FEW_CHANNELS; ++e) x[e] += part[e] * by[i];
        }
        Vec<In, FEW_CHANNELS> results;
#pragma unroll
        for (int e = 0; e < FEW_CHANNELS; ++e) results[e] = cast<In>(x[e] * factor);
        store_whole(g.out + token * g.out_token + head * g.out_head + channel, results);
    }
    if (lane() == 0 && g.lse) g.lse[token * g.lse_token + head * g.lse_head] = lse_of(most, total);
}

extern "C" __global__ __launch_bounds__(THREADS) void paged_combine(PagedArgs g) {
    __shared__ float by[THREADS], scratch[WAVES];
    __shared__ alignas(16) float results[COLUMN_READERS][COLUMNS * 4];
    const u32 thread = thread_x(), token = group_x() / g.heads, head = group_x() - token * g.heads;
    u32 sequence = token / g.q_most;
    if (g.q_starts) {
        // The last sequence that begins at this token or before.
        u32 low = 0, high = g.pages.sequences;
        while (high - low > 1) {
            const u32 middle = (low + high) / 2;
            if (g.q_starts[middle] <= (i32)token) low = middle; else high = middle;
        }
        sequence = low;
    }
    if (sequence >= g.pages.sequences) return;
    Sequence s;
    s.start(g, sequence);
    const i32 query = (i32)token - s.q_first;
    if (query < 0 || query >= s.q_len || query >= (i32)g.q_most || s.splits <= 1) return;
    const i64 line = ((i64)token * g.heads + head) * g.splits;
    if (s.splits <= FEW_SPLITS) {
        if (thread < ARCH_WAVE_SIZE) combine_few(g, s.splits, line, token, head);
        return;
    }
    const float* states = g.states + 2 * line;
    float most = -__builtin_inff();
    for (i32 i = (i32)thread; i < s.splits; i += THREADS) most = __builtin_fmaxf(most, load<2>(states + 2 * i)[0]);
    most = group_reduce(most, Larger(), scratch, thread, THREADS);
    const float sink = sink_of(g, head);
    most = __builtin_fmaxf(most, sink);
    const u32 column = thread % COLUMNS * 4, reader = thread / COLUMNS;
    float sum = 0.0f, x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (i32 first = 0; first < s.splits; first += THREADS) {
        const i32 mine = first + (i32)thread;
        float own = 0.0f;
        if (mine < s.splits) {
            const Vec<float, 2> state = load<2>(states + 2 * mine);
            own = exp2_from(state[0], most);
            sum += state[1] * own;
        }
        barrier();
        by[thread] = own;
        barrier();
        const i32 here = s.splits - first < THREADS ? s.splits - first : THREADS;
#pragma unroll 4
        for (i32 i = (i32)reader; i < here; i += COLUMN_READERS) {
            // What is not seen was not written.
            if (by[i] == 0.0f || column >= g.v.depth) continue;
            const Vec<float, 4> part = load<4>(g.parts + (line + first + i) * g.v.depth + column);
#pragma unroll
            for (int e = 0; e < 4; ++e) x[e] += part[e] * by[i];
        }
    }
    sum = group_reduce(sum, Sum(), scratch, thread, THREADS);
    const float total = sum + exp2_from(sink, most);
#pragma unroll
    for (int e = 0; e < 4; ++e) results[reader][column + e] = x[e];
    barrier();
    for (u32 n = thread; n < g.v.depth; n += THREADS) {
        float all = 0.0f;
#pragma unroll
        for (int i = 0; i < COLUMN_READERS; ++i) all += results[i][n];
        g.out[token * g.out_token + head * g.out_head + n] = cast<In>(all * inverse(total));
    }
    if (thread == 0 && g.lse) g.lse[token * g.lse_token + head * g.lse_head] = lse_of(most, total);
}
