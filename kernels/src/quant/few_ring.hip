// few_ring: few.hip for up to eight rows on NVIDIA's cards: words go through a ring in LDS of each wave's own. That leaves registers for a
// second workgroup of a multiprocessor, which fills its rings while the launch ahead of it still multiplies
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few_ring (ceil(N / STRIP), 1, slices)                           one workgroup per strip of columns and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                all along K
// LDS    : F_LDS bytes, dynamic: F_RING slabs of each wave, then TURN * KEPT * LINE floats in their place
// Needs  : what few.hip does, of one group; words of a row are aligned vectors of 4
// Numeric: as few.hip
//
// Macros : those of few_sums.h; F_RING; F_RESIDENT workgroups of a multiprocessor; F_LDS
static_assert(F_TILES == 1 && F_HIGH == 1 && F_SHARE == 1 && F_SIDE == 1, "checked by the launcher");
static_assert(F_LDS >= TURN * KEPT * LINE * 4 && RUN == 8, "as few.rs says");

// A row of a wave's words in its ring, and a slab of them; then come A's rows. Rows of lane groups lie side by side, in the order in which a
// lane reads them.
static const int ROW_BYTES = F_WIDE * Unit::LANES * 4, CHUNKS = ROW_BYTES / 16, WORDS_BYTES = SLAB * ROW_BYTES;
static const int SLAB_BYTES = WORDS_BYTES + KEPT * SLAB * 2;
static_assert(F_LDS >= F_WAVES * F_RING * SLAB_BYTES, "as few.rs says");
// Rows of words that a wave copies at a time.
static const int COPIED = ARCH_WAVE_SIZE / CHUNKS;
// Chunks of 16 bytes change places, so that the words that lanes read at once are in banks of their own.
RF_FN u32 chunk_at(u32 chunk, u32 group) { return chunk ^ group * F_WIDE / 4 * 2; }

// A wave's slabs, which are copied in turn.
struct WordRing {
    const char* from;
    const char* row_from;
    i64 rows_apart, slab_apart;
    LdsAddress to, row_to, first, last;
    u32 asked, end;
    bool has_row;

    RF_FN void start(const QMatmulArgs& g, LdsAddress lds, u32 first_col, u32 slab, u32 of_end, u32 lane_id) {
        const u32 row = lane_id / CHUNKS, chunk = lane_id % CHUNKS, group = row % 4;
        const i64 row_bytes = g.w_k * 4;
        u32 col = first_col + chunk * (4 * Q_PER);
        // Past the end the first columns are read and forgotten.
        col = col < g.n ? col : 0;
        from = (const char*)g.words + (slab * SLAB + group * RUN + row / 4) * row_bytes + col / Q_PER * 4;
        rows_apart = COPIED / 4 * row_bytes;
        slab_apart = SLAB * row_bytes;
        to = lds + row * ROW_BYTES + chunk_at(chunk, group) * 16;
        // So are rows that are not there.
        has_row = lane_id < 4 * KEPT;
        const u32 own = lane_id / 4 < g.m ? lane_id / 4 : g.m - 1;
        row_from = (const char*)(g.a + (i64)own * g.a_row + slab * SLAB + lane_id % 4 * 8);
        row_to = lds + WORDS_BYTES + lane_id * 16;
        first = to;
        last = to + (F_RING - 1) * SLAB_BYTES;
        asked = slab;
        end = of_end;
    }
    RF_FN void copy_words(LdsAddress at, const char* source, bool there) const {
        if (!there) return;
#pragma unroll
        for (int i = 0; i < SLAB / COPIED; ++i) {
            copy_once(at + i * (COPIED * ROW_BYTES), source, true);
            source += rows_apart;
        }
    }
    // Words of the first slabs, which may be read before the launch ahead has ended.
    RF_FN void fill_words() const {
        const char* source = from;
#pragma unroll
        for (int i = 0; i < F_RING; ++i) {
            copy_words(to + i * SLAB_BYTES, source, asked + i < end);
            async_commit();
            source += slab_apart;
        }
    }
    // Their rows of A, by way of registers: asynchronous copies would be waited for behind all those of words.
    RF_FN void fill_rows(char* lds, u32 lane_id) {
        Vec<u32, 4> held[F_RING];
#pragma unroll
        for (int i = 0; i < F_RING; ++i)
            if (has_row && asked + i < end) held[i] = load<4>((const u32*)(row_from + i * (SLAB * 2)));
#pragma unroll
        for (int i = 0; i < F_RING; ++i)
            if (has_row) store<4>((u32*)(lds + WORDS_BYTES + lane_id * 16 + i * SLAB_BYTES), held[i]);
        from += F_RING * slab_apart;
        row_from += F_RING * SLAB * 2;
        asked += F_RING;
        if (asked >= end) let_launches_begin();
    }
    RF_FN void copy() {
        if (asked < end) {
            copy_words(to, from, true);
            if (has_row) copy_async(row_to, row_from, true);
        }
        async_commit();
        from += slab_apart;
        row_from += SLAB * 2;
        // What comes behind asks memory for its own words once all of these are asked for.
        if (++asked == end) let_launches_begin();
        const int step = to == last ? (1 - F_RING) * SLAB_BYTES : SLAB_BYTES;
        to += step;
        row_to += step;
    }
};

// What a lane has of half a slab: words, and the same k of its row of A.
static const int HELD = RUN / 2;
struct HalfWords {
    Vec<u32, F_WIDE> at[HELD];
    Vec<u32, 2> row;
};
struct Part {
    WaveSums sums;
#if F_SPREAD
    // Bytes of two k of A's row and of zeros that are the operands.
    u32 first_k, second_k;
#endif
    u32 col, slab, end;
    // Where a lane's words and its row are in the slab that is read next.
    const char* words;
    const char* row;
    u32 read;

    RF_FN void start(const QMatmulArgs& g, const char* ring, u32 part, u32 first_col, u32 lane_id) {
        const u32 first = group_z() * (g.slice_k / SLAB), last = first + g.slice_k / SLAB, most = g.k / SLAB;
        const u32 slabs = (last < most ? last : most) - first, place = Unit::place(lane_id), group = Unit::group(lane_id);
        slab = first + slabs / F_FOLD * part / PARTS * F_FOLD;
        end = first + slabs / F_FOLD * (part + 1) / PARTS * F_FOLD;
        col = first_col + place * CODES;
        col = col < g.n ? col : 0;
#if F_SPREAD
        const bool is_low = place % 2 == 0;
        first_k = is_low ? 0x4410 : 0x1044;
        second_k = is_low ? 0x4432 : 0x3244;
#endif
        words = ring + group * ROW_BYTES + chunk_at(place * F_WIDE / 4, group) * 16 + place * F_WIDE % 4 * 4;
        row = ring + WORDS_BYTES + (KEPT == 1 ? 0 : Unit::given(lane_id)) * (SLAB * 2) + group * 16;
        read = 0;
        sums.clear();
    }
    RF_FN void fetch(HalfWords& held, int half) const {
#pragma unroll
        for (int i = 0; i < HELD; ++i) held.at[i] = load<F_WIDE>((const u32*)(words + read + (half * HELD + i) * (4 * ROW_BYTES)));
        held.row = load<2>((const u32*)(row + read + half * 8));
    }
    RF_FN void multiply(const HalfWords& held) {
#pragma unroll
        for (int step = 0; step < HELD / DEEP; ++step) {
#if F_SPREAD
            const u32 x[1][TAKEN] = {{bytes_of(held.row[step], first_k), bytes_of(held.row[step], second_k)}};
#else
            const u32 x[1][TAKEN] = {{held.row[step * 2], held.row[step * 2 + 1]}};
#endif
            sums.add(held.at + step * DEEP, x);
        }
    }
    // Reads half a slab ahead of the products.
    RF_FN void run(const QMatmulArgs& g, WordRing& ring) {
        HalfWords first, second;
        async_wait<F_RING - 1>();
        wave_barrier();
        fetch(first, 0);
#pragma unroll 1
        while (slab < end) {
#pragma unroll
            for (int i = 0; i < F_FOLD; ++i) {
                fetch(second, 1);
                multiply(first);
                async_wait<F_RING - 2>();
                wave_barrier();
                read = read == (F_RING - 1) * SLAB_BYTES ? 0 : read + SLAB_BYTES;
                fetch(first, 0);
                ring.copy();
                multiply(second);
                ++slab;
            }
            sums.fold(g, slab < end, slab * SLAB, col);
        }
    }
};

extern "C" __global__ RF_WAITS_ITSELF __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE, F_RESIDENT) void few_ring(QMatmulArgs g) {
    extern __shared__ __attribute__((aligned(128))) char lds[];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const u32 first_col = group_x() * STRIP;
    char* const own = lds + wave * (F_RING * SLAB_BYTES);
    Part part;
    part.start(g, own, wave, first_col, lane_id);
    WordRing ring;
    ring.start(g, lds_address(own), first_col, part.slab, part.end, lane_id);
    ring.fill_words();
    wait_for_launches();
    ring.fill_rows(own, lane_id);
    part.sums.begin(g, part.slab < part.end, part.slab * SLAB, part.col);
    part.run(g, ring);
    // The sums lie where the rings did.
    async_wait<0>();
    barrier();
    add_waves(g, part.sums, wave, (float(*)[KEPT * LINE])lds, 0, first_col, lane_id);
}
