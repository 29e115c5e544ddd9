// paged_tiles.h: a split of paged attention on NVIDIA's and RDNA's matrix units where many heads share one row of a cache, as MLA's do: values are
// channels of the keys' own rows. Stands behind paged.h.
//
// A workgroup has ROWS rows. TILE keys at a time go to LDS, once for all rows and for both products: as rows of K, and as columns of V.
//
//   scores   a wave has SIDE rows and one of PARTS parts of the depth; parts are added up through LDS by each wave of the rows
//   weights  go through LDS as the operands that they are, and so does what sums are rescaled by
//   sums     a wave has CHANNELS_EACH channels of all rows
//
// PAGED_DEPTH, PAGED_V_DEPTH: channels of a key and of a value; PAGED_SIDE: rows of a product; PAGED_STAGES: tiles in LDS where copies
// go past the registers, else 1; PAGED_LDS_BYTES.
#define TILE 32
#define SIDE PAGED_SIDE
#define STAGES PAGED_STAGES
// Whether copies go past the registers; else whether they wait in registers while the tile before is worked on: RDNA has none left.
#define IS_ASYNC (STAGES > 1)
#define IS_AHEAD !RF_DEVICE_AMD
// Whether a wave's part of Q is in registers; else it is read from LDS again for each tile: on NVIDIA sums take half of the registers,
// and LDS has room.
#define KEEPS_Q RF_DEVICE_AMD

typedef Chain<In, SIDE> C;
static const int DEPTH = PAGED_DEPTH, V_DEPTH = PAGED_V_DEPTH;
static const int ROW_GROUPS = ROWS / SIDE, KEY_GROUPS = TILE / SIDE, PARTS = WAVES / ROW_GROUPS;
static const int PART_DEPTH = DEPTH / PARTS, GROUPS = PART_DEPTH / C::GROUP;
static const int CHANNELS_EACH = V_DEPTH / WAVES, PANELS = CHANNELS_EACH / SIDE;
// Results go through LDS so many rows at a time. Neighbouring channels that a lane has, and elements from one row to the next, by which
// its stores meet no bank twice.
static const int RESULT_ROWS = 16, RUN = C::RUN < 4 ? C::RUN : 4, RESULT_LINE = V_DEPTH + (RUN == 2 ? 8 : 4);
// Values of a lane in a product of keys and rows, four at a time.
static const int QUADS = C::ACC / 4;
static const int OPERAND_WORDS = C::SCORE_OPERANDS * (int)sizeof(C::Operand) / 4;
// Groups of a row that are read together: the first WMMA's operands take twice the registers.
static const int READ_AHEAD = ARCH_MATRIX == ARCH_MATRIX_WMMA11 ? 1 : 4;
// Elements from one key to the next in LDS: 16 bytes more than whole turns of the banks.
static const int LINE = DEPTH + 8;
// Threads of a key, which take neighbouring pieces of eight channels; pieces of each, and channels from one to the next.
static const int COPIERS = THREADS / TILE, COPIES = DEPTH / 8 / COPIERS, APART = COPIERS * 8;
// Threads of a row of Q on its way to LDS.
static const int READERS = THREADS / ROWS;
static_assert(ROW_GROUPS * SIDE == ROWS && PARTS * ROW_GROUPS == WAVES && GROUPS * C::GROUP * PARTS == DEPTH, "whole parts of rows");
static_assert(PARTS == 2 || PARTS == 4, "pairs of parts");
static_assert(PANELS * SIDE * WAVES == V_DEPTH && COPIES * COPIERS * 8 == DEPTH, "whole panels and copies");

// What all lanes have alike, and is asked for anew each time: a loop for each answer would be several times the code.
RF_FN bool ask(bool is) {
    int word = (int)uniform((u32)is);
    hide(word);
    return word != 0;
}

// Numbers of thread and lane, anew each time: the compiler would keep all that follows from them.
RF_FN u32 fresh(u32 number) {
    make_anew(number);
    return number;
}

// Dynamic LDS.
struct Exchanged {
    alignas(128) In tiles[STAGES][TILE * LINE];
#if !KEEPS_Q
    alignas(128) In q[ROWS * LINE];
#endif
    Vec<float, 4> parts[PARTS][ROW_GROUPS][KEY_GROUPS * QUADS][ARCH_WAVE_SIZE];
    Vec<u32, 4> weights[KEY_GROUPS][ROW_GROUPS][OPERAND_WORDS / 4][ARCH_WAVE_SIZE];
    State states[ROWS];
    float by[ROWS];
    // Of the keys of each tile.
    i32 is_there[STAGES][TILE];
#if CACHE_IS_CODED
    float scales[STAGES][TILE];
#endif
};
static_assert(RESULT_ROWS * RESULT_LINE * 4 <= TILE * LINE * (int)sizeof(In), "results go where a tile was");
static_assert(sizeof(Exchanged) <= PAGED_LDS_BYTES, "as in paged.rs");

#if RF_DEVICE_AMD
typedef PlainRows<In, SIDE, LINE> TileRows;
RF_FN TileRows tile_rows(const In* tile, int channel) { return TileRows(tile + channel, (int)fresh(lane())); }
#else
typedef AddressedRows<In, LINE> TileRows;
RF_FN TileRows tile_rows(const In* tile, int channel) { return TileRows(lds_address(tile + channel), (int)lane()); }
#endif

// Keys on their way to LDS. Pages are looked up a tile ahead of the keys on them.
struct Copier {
    KeyPlace place;
    u32 sequence, kv_head;
    i32 key, first, end;  // the thread's own of the tile that is looked up
    bool is_looked_up;
    int stage, fetched;
#if !IS_ASYNC
    Channels held[COPIES];
    bool is_held;
#if CACHE_IS_CODED
    float scale;
#endif
#endif

    RF_FN static u32 own_key() { return fresh(thread_x()) / COPIERS; }
    // The first channel of a thread's pieces, which are COPIERS pieces apart.
    RF_FN static u32 own_channel() { return fresh(thread_x()) % COPIERS * 8; }

    RF_FN void look_up(const PagedArgs& g) {
        is_looked_up = key >= first && key < end;
        if (is_looked_up) place.find(g, sequence, key);
        key += TILE;
    }
    // Keys from `from` to before `last`; those before `begin` are not there.
    RF_FN void start(const PagedArgs& g, Exchanged& e, u32 of_sequence, u32 of_head, i32 from, i32 begin, i32 last) {
        sequence = of_sequence;
        kv_head = of_head;
        key = from + (i32)own_key();
        first = begin;
        end = last;
        stage = STAGES - 1;
        fetched = 0;
        look_up(g);
#pragma unroll
        for (int i = 1; i < (IS_ASYNC ? STAGES : 1 + IS_AHEAD); ++i) fetch(g, e);
    }
    // The tile that is looked up, and looks up the next one.
    RF_FN void fetch(const PagedArgs& g, Exchanged& e) {
        const bool is_there = is_looked_up && place.is_there(g);
        const Code* from = g.k.at + (is_there ? token_at(g.k, place.page, kv_head, place.offset) : 0) + own_channel();
#if IS_ASYNC
        const LdsAddress to = lds_address(e.tiles[fetched] + own_key() * LINE + own_channel());
#pragma unroll
        for (int i = 0; i < COPIES; ++i) copy_async(to + i * APART * (int)sizeof(In), from + i * APART, is_there);
        async_commit();
        if (thread_x() % COPIERS == 0) e.is_there[fetched][own_key()] = is_there;
        fetched = fetched == STAGES - 1 ? 0 : fetched + 1;
#else
        is_held = is_there;
        if (is_there) {
#pragma unroll
            for (int i = 0; i < COPIES; ++i) held[i].read(from + i * APART, 8);
        } else {
#pragma unroll
            for (int i = 0; i < COPIES; ++i) held[i].clear();
        }
#if CACHE_IS_CODED
        scale = is_there ? decoded_by<In>() * *scale_at(g.k_scales, place.page, kv_head, place.offset) : 0.0f;
#endif
#endif
        look_up(g);
    }
#if !IS_ASYNC
    RF_FN void put(Exchanged& e) const {
        In* to = e.tiles[0] + own_key() * LINE + own_channel();
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            Vec<u32, 4> words;
#if CACHE_IS_CODED
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = decode_word<In>(held[i].words[w / 2], w % 2 != 0);
#else
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = held[i].words[w];
#endif
            store<4>((u32*)(void*)(to + i * APART), words);
        }
        if (thread_x() % COPIERS != 0) return;
        e.is_there[0][own_key()] = is_held;
#if CACHE_IS_CODED
        e.scales[0][own_key()] = scale;
#endif
    }
#endif
    // The next tile: it is there for all threads, and nobody reads the one before.
    RF_FN void next(const PagedArgs& g, Exchanged& e) {
#if IS_ASYNC
        async_wait<STAGES - 2>();
        barrier();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        fetch(g, e);
#else
        barrier();
        if (!IS_AHEAD) fetch(g, e);
        put(e);
        if (IS_AHEAD) fetch(g, e);
        barrier();
#endif
    }
    RF_FN void end_all() const {
#if IS_ASYNC
        async_wait<0>();
#endif
    }
};

// What a wave has of a split.
struct Work {
#if KEEPS_Q
    C::Operand q[GROUPS][C::STEPS];
#endif
    C::Accumulator sums[PANELS][ROW_GROUPS];
    // Of the rows of which the lane has scores.
    float base[C::SLOTS], sum[C::SLOTS];
    i32 place[C::SLOTS];
    u32 wave;
    int group, part;

    RF_FN int row_of(int slot) const { return group * SIDE + C::row(slot, (int)lane()); }
    // Past the last row it is that again, and nothing of it is written.
    RF_FN u32 own_row(const Rows& rows, int slot) const {
        const u32 row = (u32)row_of(slot);
        return row < rows.count ? row : rows.count - 1;
    }

    // The first channel of a row of the workgroup's.
    RF_FN static const In* row_at(const PagedArgs& g, const Rows& rows, u32 kv_head, u32 row) {
        return g.q + (rows.q_first + (i32)rows.query(g, row)) * g.q_token + (i64)rows.head(g, row, kv_head) * g.q_head;
    }
    RF_FN void start(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head) {
        wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        group = (int)wave % ROW_GROUPS;
        part = (int)wave / ROW_GROUPS;
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) {
            place[slot] = rows.place + (i32)rows.query(g, own_row(rows, slot));
            base[slot] = -__builtin_inff();
            sum[slot] = 0.0f;
        }
#if KEEPS_Q
        const In* from[C::SLOTS];
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) from[slot] = row_at(g, rows, kv_head, own_row(rows, slot));
#pragma unroll
        for (int k = 0; k < GROUPS; ++k) C::read_resident(from, part * PART_DEPTH + k * C::GROUP, C::GROUP, (int)lane(), q[k]);
#else
        const u32 row = thread_x() / READERS, channel = thread_x() % READERS * 8;
        const In* from = row_at(g, rows, kv_head, row < rows.count ? row : rows.count - 1) + channel;
        const LdsAddress to = lds_address(e.q + row * LINE + channel);
#pragma unroll
        for (int n = 0; n < DEPTH / 8 / READERS; ++n) copy_async(to + n * READERS * 16, from + n * READERS * 8, true);
        async_commit();
#if !IS_ASYNC
        async_wait<0>();
#endif
#endif
#pragma unroll
        for (int n = 0; n < PANELS * ROW_GROUPS; ++n) sums[n / ROW_GROUPS][n % ROW_GROUPS] = 0;
    }

    // The wave's part of the scores, for those that add up.
    RF_FN void score(Exchanged& e, const In* tile, C::Accumulator (&x)[KEY_GROUPS]) const {
        const TileRows keys = tile_rows(tile, part * PART_DEPTH);
#if !KEEPS_Q
        const LdsAddress own_q =
            lds_address(e.q + (group * SIDE + (int)lane() % SIDE) * LINE + part * PART_DEPTH + (int)lane() / SIDE * 8);
#endif
#pragma unroll
        for (int n = 0; n < KEY_GROUPS; ++n) x[n] = 0;
#pragma unroll
        for (int k = 0; k < GROUPS; ++k) {
#if KEEPS_Q
            const C::Operand(&row)[C::STEPS] = q[k];
#else
            C::Operand row[C::STEPS] = {read_chunk(own_q + (u32)(k * C::GROUP * (int)sizeof(In)))};
#endif
#pragma unroll
            for (int n = 0; n < KEY_GROUPS; ++n) {
                C::Operand key[C::STEPS];
                keys.read_streamed(n, k, key);
#pragma unroll
                for (int step = 0; step < C::STEPS; ++step) x[n] = C::run(row[step], key[step], x[n]);
                if (k % READ_AHEAD == READ_AHEAD - 1) hold_schedule();
            }
        }
#pragma unroll
        for (int quad = 0; quad < KEY_GROUPS * QUADS; ++quad) {
            Vec<float, 4> four;
#pragma unroll
            for (int i = 0; i < 4; ++i) four[i] = x[quad / QUADS][quad % QUADS * 4 + i];
            e.parts[part][group][quad][lane()] = four;
        }
    }
    // Four values of another part, whose number differs by `apart`.
    RF_FN Vec<float, 4> four_of(const Exchanged& e, int apart, int quad) const { return e.parts[part ^ apart][group][quad][lane()]; }
    // All parts of them: neighbours first, then pairs, so that the parts' waves have the same bits.
    RF_FN void add_parts(const Exchanged& e, const C::Accumulator (&own)[KEY_GROUPS], float (&x)[KEY_GROUPS * C::ACC]) const {
#pragma unroll
        for (int quad = 0; quad < KEY_GROUPS * QUADS; ++quad) {
            const Vec<float, 4> next = four_of(e, 1, quad);
#pragma unroll
            for (int i = 0; i < 4; ++i) x[quad * 4 + i] = own[quad / QUADS][quad % QUADS * 4 + i] + next[i];
            if (PARTS == 2) continue;
            const Vec<float, 4> far = four_of(e, 2, quad), farther = four_of(e, 3, quad);
#pragma unroll
            for (int i = 0; i < 4; ++i) x[quad * 4 + i] += far[i] + farther[i];
            hold_schedule();
        }
    }
    // The key of value `i` in a tile, behind that of the lane's first value.
    RF_FN static constexpr int key_behind(int i) { return i / C::ACC * SIDE + C::column(i % C::ACC, 0); }
    RF_FN static i32 first_key() { return C::column(0, (int)fresh(lane())); }
    RF_FN float scaled(const PagedArgs& g, const Exchanged& e, int stage, float score, int n) const {
#if CACHE_IS_CODED
        score *= e.scales[stage][n];
#endif
        return score * g.scale;
    }
    // Scores as exponents of two; of what a row does not see, minus infinity. `at`: the tile's first key.
    RF_FN void exponents(const PagedArgs& g, const Exchanged& e, const Rows& rows, u32 kv_head, int stage, i32 at,
                         float (&x)[KEY_GROUPS * C::ACC]) const {
        const u32 there = (u32)rf::ballot(e.is_there[stage][lane() % TILE] != 0);
        bool is_whole = there == ~0u && !g.slopes && !g.bias && g.softcap == 0.0f;
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot)
            is_whole = is_whole && at + TILE - 1 <= place[slot] && at > place[slot] - g.window;
        const i32 first = first_key();
        if (!rf::ballot(!is_whole)) {
#pragma unroll
            for (int i = 0; i < KEY_GROUPS * C::ACC; ++i) x[i] = scaled(g, e, stage, x[i], first + key_behind(i)) * LOG2_E;
            return;
        }
        float slope[C::SLOTS];
        const float* bias[C::SLOTS];
        const bool has_slopes = ask(g.slopes), has_bias = ask(g.bias), is_capped = ask(g.softcap != 0.0f);
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) {
            const u32 row = own_row(rows, slot);
            slope[slot] = has_slopes ? g.slopes[rows.head(g, row, kv_head)] : 0.0f;
            bias[slot] = g.bias + (i64)(rows.q_first + (i32)rows.query(g, row)) * g.bias_token - rows.place;
        }
#pragma unroll
        for (int i = 0; i < KEY_GROUPS * C::ACC; ++i) {
            const int slot = C::slot(i % C::ACC);
            const i32 n = first + key_behind(i), key = at + n;
            float score = scaled(g, e, stage, x[i], n);
            if (is_capped) score = rf::tanh(score / g.softcap) * g.softcap;
            if (has_slopes) score -= slope[slot] * (float)(place[slot] - key);
            const bool is_seen = key <= place[slot] && key > place[slot] - g.window && (there >> n & 1) != 0;
            if (has_bias && is_seen && key >= rows.place) score += bias[slot][key];
            x[i] = is_seen ? score * LOG2_E : -__builtin_inff();
            if (i % 4 == 3) hold_schedule();
        }
    }
    // Brings the state to a maximum that has moved too far, and says what sums are rescaled by.
    RF_FN void rescale(Exchanged& e, const float (&x)[KEY_GROUPS * C::ACC]) {
        float high[C::SLOTS], by[C::SLOTS];
        bool is_above = false;
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) {
            high[slot] = -__builtin_inff();
            by[slot] = 1.0f;
#pragma unroll
            for (int i = 0; i < KEY_GROUPS * C::ACC; ++i)
                if (C::slot(i % C::ACC) == slot) high[slot] = __builtin_fmaxf(high[slot], x[i]);
            is_above = is_above || high[slot] > base[slot] + RESCALE_ABOVE;
        }
        if (rf::ballot(is_above)) {
#pragma unroll
            for (int slot = 0; slot < C::SLOTS; ++slot) {
                high[slot] = C::across(high[slot], Larger());
                if (high[slot] > base[slot] + RESCALE_ABOVE) {
                    by[slot] = exp2_from(base[slot], high[slot]);
                    base[slot] = high[slot];
                    sum[slot] *= by[slot];
                }
            }
        }
        if (part != 0 || !C::leads((int)lane())) return;
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) e.by[row_of(slot)] = by[slot];
    }
    // Scores to weights: each part of a row's waves has every PARTS-th group of keys to give to the others.
    RF_FN void weigh(Exchanged& e, int stage, float (&x)[KEY_GROUPS * C::ACC]) {
#pragma unroll
        for (int n = 0; n < KEY_GROUPS; ++n) {
            float* own = x + n * C::ACC;
            const i32 first = first_key();
#pragma unroll
            for (int i = 0; i < C::ACC; ++i) {
                const int slot = C::slot(i);
                own[i] = exp2_from(own[i], base[slot]);
                sum[slot] += own[i];
#if CACHE_IS_CODED
                own[i] *= e.scales[stage][first + key_behind(n * C::ACC + i)];
#endif
            }
            if (n % PARTS != part) continue;
            C::Operand weights[C::SCORE_OPERANDS];
            C::weight_operands(own, weights);
            u32 words[OPERAND_WORDS];
            __builtin_memcpy(words, weights, sizeof(words));
#pragma unroll
            for (int w = 0; w < OPERAND_WORDS; w += 4) {
                Vec<u32, 4> four;
#pragma unroll
                for (int i = 0; i < 4; ++i) four[i] = words[w + i];
                e.weights[n][group][w / 4][lane()] = four;
            }
        }
    }
    // Sums of the first COUNT groups of rows, of which the others have none.
    template <int COUNT> RF_FN void add(const Exchanged& e, const In* tile) {
        float by[COUNT][C::SLOTS];
        bool is_rescaled = false;
#pragma unroll
        for (int n = 0; n < COUNT * C::SLOTS; ++n) {
            float& own = by[n / C::SLOTS][n % C::SLOTS];
            own = e.by[n / C::SLOTS * SIDE + C::row(n % C::SLOTS, (int)lane())];
            is_rescaled = is_rescaled || own != 1.0f;
        }
        if (rf::ballot(is_rescaled)) {
#pragma unroll
            for (int n = 0; n < PANELS * COUNT; ++n)
#pragma unroll
                for (int i = 0; i < C::ACC; ++i) C::scale(sums[n / COUNT][n % COUNT], i, by[n % COUNT][C::slot(i)]);
        }
        const TileRows values = tile_rows(tile, (int)wave * CHANNELS_EACH);
#pragma unroll
        for (int n = 0; n < KEY_GROUPS; ++n) {
            C::Operand weights[COUNT][C::SCORE_OPERANDS];
#pragma unroll
            for (int r = 0; r < COUNT; ++r) {
                u32 words[OPERAND_WORDS];
#pragma unroll
                for (int w = 0; w < OPERAND_WORDS; w += 4) {
                    const Vec<u32, 4> four = e.weights[n][r][w / 4][lane()];
#pragma unroll
                    for (int i = 0; i < 4; ++i) words[w + i] = four[i];
                }
                __builtin_memcpy(weights[r], words, sizeof(words));
            }
#pragma unroll
            for (int p = 0; p < PANELS; ++p) {
                C::Operand value[C::SCORE_OPERANDS];
                values.read_transposed(n, p, value);
#pragma unroll
                for (int step = 0; step < C::SCORE_OPERANDS; ++step)
#pragma unroll
                    for (int r = 0; r < COUNT; ++r) sums[p][r] = C::run(weights[r][step], value[step], sums[p][r]);
                if (p % 2 == 1) hold_schedule();
            }
        }
    }

    // Keys from `first` to before `end`.
    RF_FN void run(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 sequence, u32 kv_head, i32 first, i32 end) {
        const i32 from = first / TILE * TILE;
        // Of a single group of rows no others are added up.
        const bool has_rows = group == 0 || rows.count > SIDE;
        Copier copier;
        copier.start(g, e, sequence, kv_head, from, first, end);
#pragma unroll 1
        for (i32 at = from; at < end; at += TILE) {
            copier.next(g, e);
            const In* tile = e.tiles[copier.stage];
            C::Accumulator part_of[KEY_GROUPS];
            const bool works = ask(has_rows);
            if (works) score(e, tile, part_of);
            barrier();
            if (works) {
                float x[KEY_GROUPS * C::ACC];
                add_parts(e, part_of, x);
                exponents(g, e, rows, kv_head, copier.stage, at, x);
                rescale(e, x);
                weigh(e, copier.stage, x);
            }
            barrier();
            if (ask(rows.count <= SIDE)) add<1>(e, tile);
            else add<ROW_GROUPS>(e, tile);
        }
        copier.end_all();
#pragma unroll
        for (int slot = 0; slot < C::SLOTS; ++slot) {
            const State state = {base[slot], C::across(sum[slot], Sum())};
            if (part == 0 && C::leads((int)lane())) e.states[row_of(slot)] = state;
        }
        barrier();
    }
    // The sums of rows `first` and on, a product's worth at most, to where tiles were.
    RF_FN void put(float* results, int first) const {
        const int r = first / SIDE, own = (int)fresh(lane());
#pragma unroll
        for (int i = 0; i < C::ACC; i += RUN) {
            const u32 row = (u32)(r * SIDE + C::row(C::slot(i), own) - first);
            if (row >= RESULT_ROWS) continue;
            float* to = results + row * RESULT_LINE + wave * CHANNELS_EACH + (u32)C::column(i, own);
#pragma unroll
            for (int p = 0; p < PANELS; ++p) {
                Vec<float, RUN> run;
#pragma unroll
                for (int n = 0; n < RUN; ++n) run[n] = sums[p][r][i + n];
                store<RUN>(to + p * SIDE, run);
            }
            hold_schedule();
        }
    }
    // Through LDS: rows are then written whole, by little code.
    RF_FN void write(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head, u32 split, bool is_only) const {
        float* results = (float*)(void*)e.tiles;
#pragma unroll
        for (int first = 0; first < ROWS; first += RESULT_ROWS) {
            if (first >= (int)rows.count) break;
            if (first > 0) barrier();
            put(results, first);
            barrier();
#pragma unroll 1
            for (u32 n = wave; n < RESULT_ROWS && first + n < rows.count; n += WAVES) {
                const State state = e.states[first + n];
                RowEnd end;
                end.start(g, rows, first + n, kv_head, split, state, is_only);
                for (u32 channel = fresh(lane()) * 4; channel < V_DEPTH; channel += ARCH_WAVE_SIZE * 4)
                    end.put_four(g, channel, load<4>(results + n * RESULT_LINE + channel), is_only);
                if (lane() == 0) end.put_state(g, state, is_only);
            }
        }
    }
};
