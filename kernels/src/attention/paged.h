// paged.h: what a workgroup of paged attention is told, which split of which sequence it has, where the split's keys are, and where
// results
// go. Stands between code.h and what computes a split, paged_lanes.h, paged_matrix.h, paged_pairs.h, paged_tiles.h, paged_latents.h or
// paged_hopper.h; the kernels are in paged.hip.
RF_CHECKS_INDICES

typedef PAGED_IN In;
#define TEAM PAGED_TEAM
#define ROWS PAGED_ROWS
#define THREADS PAGED_THREADS
#define SPLIT PAGED_SPLIT
// What computes a split: lanes, each wave with the matrix unit, or all waves with tiles of keys in LDS, by mma.h's products or Hopper's own;
// each wave of CDNA's with two tiles at once; all of CDNA's with the same values in LDS.
#define PAGED_LATENTS (PAGED_WAY == 5)
#define PAGED_PAIRS (PAGED_WAY == 4)
#define PAGED_MATRIX (PAGED_WAY == 1 || PAGED_PAIRS)
#define PAGED_TILES (PAGED_WAY == 2 || PAGED_WAY == 3 || PAGED_LATENTS)
#define CHANNELS 8
#define WAVES (THREADS / ARCH_WAVE_SIZE)
// Scales of codes: none, one for all keys and one for all values of a head, or of blocks or tokens.
#define HEAD_SCALES (PAGED_SCALES == 1)
#define KEY_SCALES (PAGED_SCALES == 2)
// What codes as a kernel has them are to be multiplied by: the matrix unit's are words of `decode_word`.
#define DECODED_BY (PAGED_WAY == 0 ? 1.0f : decoded_by<In>())
// Eight channels of each lane at once: so often for those of a key, and of a value.
#define K_TURNS PAGED_K_TURNS
#define V_TURNS PAGED_V_TURNS
// Channels that a value has at most.
#define V_CHANNELS_MOST (TEAM * CHANNELS * V_TURNS)
#if !PAGED_TILES
// Rows whose results go through LDS at once, and where their channels are: products leave eight rows in neighbouring lanes, which meet no bank
// twice; lanes that have eight channels each put the second four behind all first ones, sixteen banks on.
#define RESULT_ROWS (ROWS < 8 ? ROWS : 8)
#define RESULT_LENGTH (V_CHANNELS_MOST + (PAGED_MATRIX ? 4 : 16))
#define SECOND_FOUR (V_CHANNELS_MOST / 2 + (V_CHANNELS_MOST / 2 % 32 == 0 ? 16 : 0))
RF_FN u32 result_at(u32 channel) {
    return PAGED_MATRIX ? channel : channel / 4 % 2 * SECOND_FOUR + channel / 8 * 4 + channel % 4;
}
#endif
#define WAVE_TEAMS (ARCH_WAVE_SIZE / TEAM)
#define LOG2_E 1.44269504088896340736f
#define LN_2 0.69314718055994530942f
#define RESCALE_ABOVE 8.0f

struct PagedArgs {
    const In* q;
    In* out;
    float* lse;           // null: not asked for
    float* parts;         // [tokens * heads, splits, value_depth], of rows with several splits
    float* states;        // [tokens * heads, splits, 2]: exponent of the maximum, sum
    const float* slopes;  // of each head; null: none
    const float* sinks;
    const float* bias;
    const i32* q_starts;  // tokens of sequence s are q_starts[s] to q_starts[s + 1]; null: q_most each
    CachePlane k, v;
    CacheScales k_scales, v_scales;
    CachePages pages;
    i64 q_token, q_head, out_token, out_head, lse_token, lse_head, bias_token;
    FastDiv group, chunks, kv_heads;
    float scale, softcap;  // softcap 0: none
    i32 window;            // keys that a query sees at most
    u32 tokens, heads, q_most, q_is_whole, groups, splits;
    u32 run_shift;  // an item is a run of 2^run_shift splits
    u32 has_extras;  // whether there is a softcap, or slopes, or a bias
};
static_assert(sizeof(PagedArgs) == 9 * 8 + 144 + 64 + 64 + 56 + 80, "as in paged.rs");

#if RF_DEVICE_AMD && (PAGED_PAIRS || PAGED_LATENTS || ARCH_WAVE_SIZE == 32)
// The kernel's arguments, read anew from here on: kept from the beginning they would be more than there are scalar registers, and what
// goes to lanes of vector registers and back costs vector instructions. CDNA's other ways spill with it, and do not without.
RF_FN const PagedArgs& read_anew(const PagedArgs&) {
    typedef const __attribute__((address_space(4))) PagedArgs* Constant;
    // As many bytes behind the first argument as nobody but the device knows: none.
    u32 bytes = 0;
    asm volatile("" : "+s"(bytes));
    return *(const PagedArgs*)(Constant)((const __attribute__((address_space(4))) char*)__builtin_amdgcn_kernarg_segment_ptr() + bytes);
}
#else
RF_FN const PagedArgs& read_anew(const PagedArgs& g) { return g; }
#endif

// A sequence: its keys, queries, and the splits that they see.
struct Sequence {
    i32 keys, q_first, q_len, split_first, splits;

    RF_FN void start(const PagedArgs& g, u32 number) {
        keys = keys_of(g.pages, number);
        q_first = (i32)(number * g.q_most);
        q_len = (i32)g.q_most;
        if (g.q_starts) {
            q_first = held_inside(g.q_starts[number], 0, (i32)g.tokens);
            q_len = held_inside(g.q_starts[number + 1], q_first, (i32)g.tokens) - q_first;
        }
        i32 least = keys - q_len + 1 - g.window, last = keys > 0 ? (keys - 1) / SPLIT : 0;
        split_first = least > 0 ? least / SPLIT : 0;
        splits = q_len > 0 ? last - split_first + 1 : 0;
    }
    // All lanes have the same one.
    RF_FN void is_uniform() {
        keys = (i32)uniform((u32)keys);
        q_first = (i32)uniform((u32)q_first);
        q_len = (i32)uniform((u32)q_len);
        split_first = (i32)uniform((u32)split_first);
        splits = (i32)uniform((u32)splits);
    }
};

// What exponents are taken from, and a sum of them.
struct State { float base, sum; };
RF_FN float exp2_from(float base, float from) { return exp2_fast(base - (from == -__builtin_inff() ? 0.0f : from)); }

struct Larger { RF_FN float operator()(float a, float b) const { return __builtin_fmaxf(a, b); } };

#if !PAGED_TILES
// Where the keys of a split are: bytes from a plane's begin to a key's channels, -1 where there is no key.
struct Places {
#if !PAGED_WHOLE_PAGES
    i64 k_at[SPLIT], v_at[SPLIT];
#endif
#if KEY_SCALES
    alignas(16) float k_scale[SPLIT];
    alignas(16) float v_scale[SPLIT];
#endif
};
#endif
// What threads of a workgroup share. Results are written where places were, behind a barrier.
struct Shared {
#if !PAGED_TILES
    union {
        Places places;
        alignas(16) float results[WAVES][RESULT_ROWS][RESULT_LENGTH];
    };
    State states[WAVES][ROWS];
#endif
#if !RF_DEVICE_AMD
    u32 sums[WAVES];
    u32 sequence, run;
#endif
};

#if RF_DEVICE_AMD
RF_FN u32 read_lane(u32 value, u32 lane) { return (u32)__builtin_amdgcn_readlane((int)value, (int)lane); }
// Sums over the lanes up to each.
#if ARCH_MATRIX == ARCH_MATRIX_MFMA
template <int CTRL, int ROWS_MASK> RF_FN u32 moved(u32 value) {
    return (u32)__builtin_amdgcn_update_dpp(0, (int)value, CTRL, ROWS_MASK, 0xf, false);
}
RF_FN u32 sum_up_to_lane(u32 value) {
    // Within rows of 16, then the last of a row to the next one, and of the lower half to the upper one.
    value += moved<0x111, 0xf>(value);
    value += moved<0x112, 0xf>(value);
    value += moved<0x114, 0xf>(value);
    value += moved<0x118, 0xf>(value);
    value += moved<0x142, 0xa>(value);
    value += moved<0x143, 0xc>(value);
    return value;
}
#else
RF_FN u32 sum_up_to_lane(u32 value) {
#pragma unroll
    for (u32 by = 1; by < ARCH_WAVE_SIZE; by *= 2) {
        const u32 other = shuffle(value, lane() - by);
        value += lane() >= by ? other : 0;
    }
    return value;
}
#endif
#endif

// Of tiles, and of rows of several turns, a run is one split.
#define RUN_SHIFT (PAGED_TILES || K_TURNS * V_TURNS > 1 ? 0 : g.run_shift)
// Splits that run `number` of all is of: which sequence's, and which of its own it is. False where there are not so many.
#if RF_DEVICE_AMD
// Each wave finds out by itself.
RF_FN bool find_run(const PagedArgs& g, Shared&, u32 number, u32& sequence, u32& run) {
    for (u32 first = 0; first < g.pages.sequences; first += ARCH_WAVE_SIZE) {
        Sequence s;
        u32 own = 0;
        if (first + lane() < g.pages.sequences) {
            s.start(g, first + lane());
            own = ((u32)s.splits + (1u << RUN_SHIFT) - 1) >> RUN_SHIFT;
        }
        u32 end = sum_up_to_lane(own);
        const u64 behind = rf::ballot(end > number);
        if (behind != 0) {
            const u32 at = (u32)__builtin_ctzll(behind);
            sequence = first + at;
            run = number - read_lane(end - own, at);
            return true;
        }
        number -= read_lane(end, ARCH_WAVE_SIZE - 1);
    }
    return false;
}
#else
RF_FN bool find_run(const PagedArgs& g, Shared& shared, u32 number, u32& sequence, u32& run) {
    const u32 thread = thread_x();
    u32 before = 0;
    for (u32 first = 0; first < g.pages.sequences; first += THREADS) {
        Sequence s;
        u32 own = 0;
        if (first + thread < g.pages.sequences) {
            s.start(g, first + thread);
            own = ((u32)s.splits + (1u << RUN_SHIFT) - 1) >> RUN_SHIFT;
        }
        u32 end = own;
#pragma unroll
        for (u32 by = 1; by < ARCH_WAVE_SIZE; by *= 2) {
            const u32 other = shuffle(end, lane() - by);
            end += lane() >= by ? other : 0;
        }
        barrier();
        if (lane() == ARCH_WAVE_SIZE - 1) shared.sums[thread / ARCH_WAVE_SIZE] = end;
        barrier();
        u32 total = 0;
#pragma unroll
        for (u32 wave = 0; wave < WAVES; ++wave) {
            if (wave < thread / ARCH_WAVE_SIZE) end += shared.sums[wave];
            total += shared.sums[wave];
        }
        if (number >= before + end - own && number < before + end) {
            shared.sequence = first + thread;
            shared.run = number - (before + end - own);
        }
        before += total;
        if (number < before) {
            barrier();
            sequence = shared.sequence;
            run = shared.run;
            return true;
        }
    }
    return false;
}
#endif

// Rows of a workgroup: row r is of query r / group of its sequence, and of head r % group of those that share a head of keys.
struct Rows {
    u32 first, count;  // of the sequence's head; how many of ROWS there are
    i32 q_first, place;  // the first token, and the place of the first query

    RF_FN u32 query(const PagedArgs& g, u32 row) const { return g.group.divide(first + row); }
    RF_FN u32 head(const PagedArgs& g, u32 row, u32 kv_head) const { return kv_head * g.group.divisor + first + row - query(g, row) * g.group.divisor; }
};

// A key of a sequence: its page, below 0 where a slot is no key, and which of the page's tokens it is.
struct KeyPlace {
    i32 page;
    u32 offset;

    RF_FN void find(const PagedArgs& g, u32 sequence, i32 key) {
#if PAGED_SLOTS
        const i32 slot = g.pages.table[(i64)sequence * g.pages.row + key];
        page = slot < 0 ? -1 : (i32)g.pages.block.divide((u32)slot);
        offset = (u32)(slot - page * (i32)g.pages.block.divisor);
#else
        const u32 number = g.pages.block.divide((u32)key);
        offset = (u32)key - number * g.pages.block.divisor;
        page = page_of(g.pages, sequence, number);
#endif
    }
    // Whether there is such a page. One that is not is told of, but for a slot that is no key.
    RF_FN bool is_there(const PagedArgs& g) const {
        if (page >= 0 && page < (i32)g.pages.pages) return true;
        if (!PAGED_SLOTS || page >= 0) RF_TELL_INDEX("paged_attention", page, (i64)g.pages.pages);
        return false;
    }
};

// What a row comes to, and its LSE: a sink has no value, it only takes its share.
RF_FN float sink_of(const PagedArgs& g, u32 head) { return g.sinks ? g.sinks[head] * LOG2_E : -__builtin_inff(); }
RF_FN float total_of(float base, float sum, float sink, float most) { return sum * exp2_from(base, most) + exp2_from(sink, most); }
// What sums are multiplied by.
RF_FN float inverse(float total) { return total == 0.0f ? 0.0f : 1.0f / total; }
RF_FN float lse_of(float most, float total) {
    return most == -__builtin_inff() ? most : (most + rf::log2(total)) * LN_2;
}

// Where a row of a split is written, and what its sums come to: results where the split is the only one, else what is added up
// later.
struct RowEnd {
    u32 token, head;
    i64 line;
    float factor;  // of sums whose split is the only one

    RF_FN void start(const PagedArgs& g, const Rows& rows, u32 row, u32 kv_head, u32 split, State state, bool is_only) {
        token = (u32)rows.q_first + rows.query(g, row);
        head = rows.head(g, row, kv_head);
        line = (i64)((u64)(token * g.heads + head) * g.splits + split);
        if (!is_only) return;
        const float sink = sink_of(g, head), most = __builtin_fmaxf(state.base, sink);
        factor = exp2_from(state.base, most) * inverse(total_of(state.base, state.sum, sink, most));
    }
    RF_FN void put(const PagedArgs& g, u32 channel, float x, bool is_only) const {
        if (is_only) g.out[token * g.out_token + head * g.out_head + channel] = cast<In>(x * factor);
        else g.parts[line * g.v.depth + channel] = x;
    }
    // Four channels from `channel` on, a multiple of four.
    RF_FN void put_four(const PagedArgs& g, u32 channel, const Vec<float, 4>& x, bool is_only) const {
        if (!is_only) {
            store<4>(g.parts + line * g.v.depth + channel, x);
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) put(g, channel + i, x[i], true);
    }
    RF_FN void put_state(const PagedArgs& g, State state, bool is_only) const {
        if (!is_only) {
            g.states[2 * line] = state.base;
            g.states[2 * line + 1] = state.sum;
        } else if (g.lse) {
            const float sink = sink_of(g, head), most = __builtin_fmaxf(state.base, sink);
            const float total = total_of(state.base, state.sum, sink, most);
            g.lse[token * g.lse_token + head * g.lse_head] = lse_of(most, total);
        }
    }
};

#if !PAGED_TILES
#if !PAGED_WHOLE_PAGES
// Where the keys of a split are that a wave takes, from `first` to `end`: RUN neighbours in each step of all waves. Whether all of them are
// there. A wave finds its own, and waits for no other.
template <int RUN> RF_FN bool find_keys(const PagedArgs& g, Shared& shared, u32 sequence, u32 kv_head, i32 begin, i32 first, i32 end) {
    // All of a lane's are asked for before the first is waited for. Rows of several turns leave no registers for it.
    const int EACH = SPLIT / THREADS, AT_ONCE = K_TURNS * V_TURNS == 1 ? EACH : 1;
    static_assert(SPLIT % THREADS == 0 && SPLIT % (WAVES * RUN) == 0, "each lane finds as many, in whole steps");
    const i32 wave = (i32)(thread_x() / ARCH_WAVE_SIZE);
    bool all = true;
#pragma unroll 1
    for (int from = 0; from < EACH; from += AT_ONCE) {
        KeyPlace places[AT_ONCE];
        i32 own[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const i32 at = (from + i) * ARCH_WAVE_SIZE + (i32)lane();
            own[i] = at / RUN * (WAVES * RUN) + wave * RUN + at % RUN;
            // Those that are not of the split ask for another.
            if (first < end) places[i].find(g, sequence, held_inside(begin + own[i], first, end - 1));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const KeyPlace place = places[i];
            const i32 n = own[i], key = begin + n;
            i64 k_at = -1, v_at = -1;
            if (key >= first && key < end) {
                if (place.is_there(g)) {
                    k_at = token_at(g.k, place.page, kv_head, place.offset) * (i64)sizeof(Code);
                    v_at = token_at(g.v, place.page, kv_head, place.offset) * (i64)sizeof(Code);
#if KEY_SCALES
                    shared.places.k_scale[n] = DECODED_BY * *scale_at(g.k_scales, place.page, kv_head, place.offset);
                    shared.places.v_scale[n] = DECODED_BY * *scale_at(g.v_scales, place.page, kv_head, place.offset);
#endif
                } else {
                    all = false;
                }
            }
            shared.places.k_at[n] = k_at;
            shared.places.v_at[n] = v_at;
        }
    }
    wave_barrier();
    return !rf::ballot(!all);
}
#endif

// A row of all waves: its state, and what a channel of each wave is multiplied by.
RF_FN State state_of_row(const Shared& shared, u32 r, float (&by)[WAVES]) {
    State all = {-__builtin_inff(), 0.0f};
#pragma unroll
    for (int wave = 0; wave < WAVES; ++wave) all.base = __builtin_fmaxf(all.base, shared.states[wave][r].base);
#pragma unroll
    for (int wave = 0; wave < WAVES; ++wave) {
        by[wave] = exp2_from(shared.states[wave][r].base, all.base);
        all.sum += shared.states[wave][r].sum * by[wave];
    }
    return all;
}
// Writes rows of a split whose results are in LDS, from `first` on.
RF_FN void write_rows(const PagedArgs& g, const Shared& shared, const Rows& rows, u32 first, u32 kv_head, u32 split, bool is_only) {
    // Threads of a row, four channels each, and rows at once.
    const u32 row_threads = V_CHANNELS_MOST / 4, at_once = THREADS / row_threads;
    // What follows from it would else be kept from the beginning.
    u32 thread = thread_x();
    make_anew(thread);
    const u32 channel = thread % row_threads * 4;
    if (thread >= row_threads * at_once) return;
#if HEAD_SCALES
    const float scale = DECODED_BY * *scale_at(g.v_scales, 0, kv_head, 0);
#endif
    for (u32 n = thread / row_threads; n < RESULT_ROWS && first + n < rows.count; n += at_once) {
        float by[WAVES];
        const State state = state_of_row(shared, first + n, by);
        RowEnd end;
        end.start(g, rows, first + n, kv_head, split, state, is_only);
        if (channel < g.v.depth) {
            Vec<float, 4> x;
#pragma unroll
            for (int e = 0; e < 4; ++e) x[e] = 0.0f;
#pragma unroll
            for (int wave = 0; wave < WAVES; ++wave) {
                const Vec<float, 4> part = load<4>(&shared.results[wave][n][result_at(channel)]);
#pragma unroll
                for (int e = 0; e < 4; ++e) x[e] += part[e] * by[wave];
            }
#if HEAD_SCALES
#pragma unroll
            for (int e = 0; e < 4; ++e) x[e] *= scale;
#endif
            end.put_four(g, channel, x, is_only);
        }
        if (channel == 0) end.put_state(g, state, is_only);
    }
}
#endif
