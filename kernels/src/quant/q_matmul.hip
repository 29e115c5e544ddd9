// q_matmul: C = A W, with W[k, n] = global * scale(k / block, n / block) * decode(code(k, n)) read from packed words
//
// Shapes : as coded.h says
// Grid   : q_matmul (ceil(N / Q_BN), ceil(M / Q_BM), slices)                one workgroup per tile of C and slice of K
//          q_skinny, q_strip (ceil(N / Q_STRIP), 1, slices)                one workgroup per strip of columns and chunk
// Block  : q_matmul (Q_THREADS, 1, 1), the others (256, 1, 1)
// LDS    : q_matmul LinesA::ELEMENTS + LinesW::ELEMENTS of A's type; q_skinny Q_ROWS * Q_CHUNK + 4 * Q_STRIP floats; q_strip
//          Q_ROWS * Q_CHUNK + 16 * 16 * Q_PART and some padding
// Needs  : M, N, K >= 1; A_VECTOR: rows of A contiguous, aligned to 16 bytes, K whole vectors; q_skinny: M <= Q_ROWS, words
//          along N; q_strip: besides, words of 32 bits, neighbours along N, rows of them whole, aligned vectors of Q_WIDE words,
//          scales' blocks along K multiples of 32; C apart from all inputs                checked by the launcher
// Numeric: Q_LATE, where scales do not vary along K: codes are multiplied as they are (exact in every type of A) and the sum by
//          global * scale. Else scale * code is rounded once to A's type (q_skinny: stays f32). Sums in f32: K is cut into
//          chunks of Q_CHUNK, each is summed from zero, and the chunks are added in ascending order, whoever computes them.
//          Within a chunk q_matmul takes K as `Fragment` states or ascending; q_skinny, one chunk per workgroup, has 4 partial sums,
//          k % 4, added in order; q_strip sums the codes' products over 32 k, ascending, multiplies by the scale, and adds these
//          sums in ascending order.
//
// Macros : those of coded.h; Q_MATRIX whether on the matrix unit; Q_TILES_M, Q_TILES_N products per wave (values
//          per lane without one); Q_ALONG_K: words hold codes along K, else along N;
//          Q_ROWS of q_skinny and q_strip; Q_WIDE: words of a lane of q_strip, 0: another kernel; Q_BK: K of a round of
//          q_matmul; Q_CHUNK; Q_GGUF: where the weights are blocks of that type of GGUF, which gguf_tiles.h reads
#if Q_ROWS == 0
#define Q_VEC (16 / (int)sizeof(In))
#define Q_ROW (Q_BK + Q_VEC)
// Where element k of a line, a row of A or a column of W, is in LDS. Words along N are stored line by line, by lanes whose lines lie
// APART (0: they are not) apart: a vector more for each spreads them over the banks.
template <int COUNT, int APART, bool PLACED> struct Lines {
    static const int SKEW = APART > 0 ? Q_VEC : 0, RUN = APART > 0 ? APART : 1;
    static const int ELEMENTS = COUNT * Q_ROW + COUNT / RUN * SKEW;
    // Elements of a line that are side by side wherever a vector of them begins.
    static const int WIDE = Q_VEC;
    RF_FN static constexpr int at(int line, int k) { return line * Q_ROW + line / RUN * SKEW + k; }
};
// Where lanes read 8 bytes each, no padding of whole vectors keeps sixteen lines apart. 32 k are a slab, two lines of it 128 bytes,
// which is all banks once, in pieces of 8 bytes. Which piece is where is exchanged by bits of line and slab so that no bank is met
// twice by one piece of sixteen lines (loads of operands, in both published orders), by the pieces of a line or four (stores of A), or
// by words of lines eight apart (stores of W).
template <int COUNT, int APART> struct Lines<COUNT, APART, true> {
    static const int ELEMENTS = COUNT * Q_BK, WIDE = 4;
    RF_FN static int at(int line, int k) {
        int pair = line >> 1, slab = k >> 5;
        int piece = (k >> 2 & 7) | (line & 1) << 3;
        piece ^= (pair & 1) ^ (pair >> 1 & 1) << 2;
        piece ^= (pair >> 2 & 1) * 6 ^ (pair >> 3 & 3) << 2 ^ (slab & 1) ^ (slab >> 1 & 1) * 9;
        return slab * (COUNT * 32) + pair * 64 + piece * 4 + (k & 3);
    }
};

#if Q_MATRIX
#define Q_THREADS (4 * ARCH_WAVE_SIZE)
#define Q_BM (2 * Q_TILES_M * 16)
#define Q_BN (2 * Q_TILES_N * 16)
typedef Mma<In, 16> M;
typedef Fragment<In, 16> F;
// Whether a lane's part of an operand is 8 bytes.
static const bool PLACED = RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA && sizeof(In) == 2 && sizeof(M::Operand) == 8;
typedef Lines<Q_BM, 0, PLACED> LinesA;
typedef Lines<Q_BN, Q_ALONG_K ? 0 : Q_PER, PLACED> LinesW;

// Two by two waves.
struct Tile {
    M::Accumulator sum[Q_TILES_M][Q_TILES_N];
    int lane_id, first_row, first_col;

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / 2) * Q_TILES_M * 16;
        first_col = (int)(wave % 2) * Q_TILES_N * 16;
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < Q_TILES_M * Q_TILES_N; ++i) sum[i / Q_TILES_N][i % Q_TILES_N] = 0;
    }
    // A lane's part of some lines at k; padded lines begin the same way everywhere.
    template <class Where, int COUNT>
    RF_FN void read(const In* lds, int first, int k, M::Operand (&to)[COUNT][F::STEPS]) const {
        int line = first + lane_id % 16, part = F::offset(lane_id / 16);
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            F::read(lds + (PLACED ? Where::at(line + i * 16, k + part) : Where::at(line, part) + Where::at(i * 16, k)), to[i]);
    }
    RF_FN void multiply(const In* lds_a, const In* lds_w) {
#pragma unroll
        for (int k = 0; k < Q_BK; k += F::GROUP) {
            M::Operand a[Q_TILES_M][F::STEPS], w[Q_TILES_N][F::STEPS];
            read<LinesA>(lds_a, first_row, k, a);
            read<LinesW>(lds_w, first_col, k, w);
#pragma unroll
            for (int s = 0; s < F::STEPS; ++s)
#pragma unroll
                for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] = M::run(a[i][s], w[j][s], sum[i][j]);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <class Store> RF_FN void each(Store store) const {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < M::ACC; ++v)
                    store(first_row + i * 16 + M::row(v, lane_id), first_col + j * 16 + M::column(v, lane_id),
                          (float)sum[i][j][v]);
    }
};
#else
#define Q_THREADS 256
#define Q_BM (16 * Q_TILES_M)
#define Q_BN (16 * Q_TILES_N)
static const bool PLACED = false;
typedef Lines<Q_BM, 0, PLACED> LinesA;
typedef Lines<Q_BN, Q_ALONG_K ? 0 : Q_PER, PLACED> LinesW;
// Q_TILES_M rows and Q_TILES_N columns per lane, 16 apart.
struct Tile {
    float sum[Q_TILES_M][Q_TILES_N];
    int first_row, first_col;

    RF_FN void start() {
        first_row = (int)(thread_x() / 16);
        first_col = (int)(thread_x() % 16);
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < Q_TILES_M * Q_TILES_N; ++i) sum[i / Q_TILES_N][i % Q_TILES_N] = 0.0f;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_w) {
        for (int k = 0; k < Q_BK; k += Q_VEC) {
            Vec<In, Q_VEC> a[Q_TILES_M], w[Q_TILES_N];
#pragma unroll
            for (int i = 0; i < Q_TILES_M; ++i) a[i] = load<Q_VEC>(lds_a + LinesA::at(first_row + i * 16, k));
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) w[j] = load<Q_VEC>(lds_w + LinesW::at(first_col + j * 16, k));
#pragma unroll
            for (int s = 0; s < Q_VEC; ++s)
#pragma unroll
                for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < Q_TILES_N; ++j)
                        sum[i][j] = rf::fma(cast<float>(a[i][s]), cast<float>(w[j][s]), sum[i][j]);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <class Store> RF_FN void each(Store store) const {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) store(first_row + i * 16, first_col + j * 16, sum[i][j]);
    }
};
#endif
static_assert(Q_CHUNK % Q_BK == 0 && Q_BK % Q_PER == 0 && 16 % Q_PER == 0, "whole words and tiles");
// Two neighbouring elements, rounded.
template <class H> RF_FN void put_pair(H* to, float first, float second) { *(u32*)to = two_of<H>(first, second); }
RF_FN void put_pair(float* to, float first, float second) {
    to[0] = first;
    to[1] = second;
}

// A tile of A as [row][k]; rows and k past the ends are zeros. Vectors are held while the tile before is multiplied.
struct LoadA {
    static const int WIDE = 16 / (int)sizeof(In), PER_ROW = Q_BK / WIDE, TOTAL = Q_BM * PER_ROW;
    static const int ROUNDS = (TOTAL + Q_THREADS - 1) / Q_THREADS;
    Vec<In, WIDE> held[ROUNDS];
    RowsOfA rows;
#if Q_GROUPED == 3
    // What the list says of a lane's rows.
    u32 listed[ROUNDS];
#endif

    RF_FN static bool mine(int c) { return TOTAL % Q_THREADS == 0 || c < TOTAL; }
    RF_FN void start(const QMatmulArgs& g, const RowsOfA& of, u32 first_row) {
        rows = of;
#if Q_GROUPED == 3
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            u32 row = first_row + ((int)thread_x() + i * Q_THREADS) / PER_ROW;
            listed[i] = row < g.m ? rows.at(row) : 0;
        }
#endif
    }
    RF_FN u32 row_of(int round, u32 row) const {
#if Q_GROUPED == 3
        return listed[round];
#else
        return row;
#endif
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 first_row, u32 first_k, u32 end) {
        if (!g.a_vector) return;
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            int c = (int)thread_x() + i * Q_THREADS;
            u32 row = first_row + c / PER_ROW, k = first_k + c % PER_ROW * WIDE;
            if (mine(c) && row < g.m && k < end) held[i] = load<WIDE>(g.a + (i64)row_of(i, row) * g.a_row + k);
            else __builtin_memset(&held[i], 0, sizeof(held[i]));
        }
    }
    RF_FN void put(const QMatmulArgs& g, u32 first_row, u32 first_k, u32 end, In* lds) const {
        if (g.a_vector) {
#pragma unroll
            for (int i = 0; i < ROUNDS; ++i) {
                int c = (int)thread_x() + i * Q_THREADS;
                if (!mine(c)) continue;
                int line = c / PER_ROW, k = c % PER_ROW * WIDE;
                // Four elements are side by side in any case.
                if (!PLACED) {
                    store<WIDE>(lds + LinesA::at(line, k), held[i]);
                    continue;
                }
#pragma unroll
                for (int j = 0; j < WIDE; j += 4) {
                    Vec<In, 4> four;
#pragma unroll
                    for (int e = 0; e < 4; ++e) four[e] = held[i][j + e];
                    store<4>(lds + LinesA::at(line, k + j), four);
                }
            }
            return;
        }
        for (int c = (int)thread_x(); c < Q_BM * Q_BK; c += Q_THREADS) {
            u32 row = first_row + c / Q_BK, k = first_k + c % Q_BK;
            In one;
            if (row < g.m && k < end) one = g.a[(i64)rows.at(row) * g.a_row + (i64)k * g.a_k];
            else __builtin_memset(&one, 0, sizeof(one));
            lds[LinesA::at(c / Q_BK, c % Q_BK)] = one;
        }
    }
};
#ifdef Q_GGUF
typedef LoadBlocks<LinesW, Q_BN, Q_BK, Q_THREADS> LoadW;
#else
// A tile of W, decoded, as [column][k]. Words are held like the vectors of A; of words along N a lane has the same columns in
// every round, and two neighbouring k where it has two rounds.
struct LoadW {
    static const int PER_LINE = (Q_ALONG_K ? Q_BK : Q_BN) / Q_PER, WORDS = Q_BK * Q_BN / Q_PER;
    static const int ROUNDS = (WORDS + Q_THREADS - 1) / Q_THREADS;
    static const bool PAIRS = !Q_ALONG_K && WORDS % (2 * Q_THREADS) == 0 && Q_THREADS % PER_LINE == 0;
    // Scales that a lane needs as long as k stays in one block.
    static const bool KEEPS = !Q_LATE && Q_THREADS % PER_LINE == 0;
    static const int SCALES = Q_ALONG_K ? ROUNDS : Q_PER;
    u32 held[ROUNDS];
    float scale[SCALES];
    u32 block;

    RF_FN static bool mine(int round) { return WORDS % Q_THREADS == 0 || (int)thread_x() + round * Q_THREADS < WORDS; }
    RF_FN static int line(int round) {
        int c = (int)thread_x();
        return PAIRS ? c / PER_LINE * 2 + round % 2 + round / 2 * (2 * Q_THREADS / PER_LINE)
                     : (c + round * Q_THREADS) / PER_LINE;
    }
    RF_FN static int inside(int round) { return ((int)thread_x() + round * Q_THREADS) % PER_LINE * Q_PER; }
    RF_FN static int column(int round) { return Q_ALONG_K ? line(round) : inside(round); }
    RF_FN static int row(int round) { return Q_ALONG_K ? inside(round) : line(round); }

    RF_FN void start() { block = ~0u; }
    RF_FN void fetch(const QMatmulArgs& g, u32 first_col, u32 first_k, u32 end) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            u32 col = first_col + column(round), k = first_k + row(round);
            held[round] = 0;
            if (mine(round) && col < g.n && k < end)
                held[round] = g.words[(i64)(Q_ALONG_K ? k / Q_PER : k) * g.w_k + (i64)(Q_ALONG_K ? col : col / Q_PER) * g.w_n];
        }
    }
    template <bool STEADY> RF_FN float value(const QMatmulArgs& g, float global, u32 col, u32 k, float code, int kept) const {
        return Q_LATE ? code : code * (STEADY ? scale[kept] : scale_of(g, global, k, col));
    }
    // WHOLE: all of the tile lies inside of K. What lies past it meets zeros of A and must not be NaN.
    template <bool STEADY, bool WHOLE>
    RF_FN void put_words(const QMatmulArgs& g, float global, u32 first_col, u32 first_k, u32 end, In* lds) {
#pragma unroll
        for (int round = 0; round < ROUNDS; round += PAIRS ? 2 : 1) {
            if (!mine(round)) continue;
            Codes codes[2];
            codes[0].start(held[round]);
            if (PAIRS) codes[1].start(held[PAIRS ? round + 1 : 0]);
#pragma unroll
            for (int i = 0; i < Q_PER; ++i) {
                int col = column(round) + (Q_ALONG_K ? 0 : i), k = row(round) + (Q_ALONG_K ? i : 0);
                float some[2];
#pragma unroll
                for (int p = 0; p < (PAIRS ? 2 : 1); ++p) {
                    u32 at = first_k + k + p;
                    float x = value<STEADY>(g, global, first_col + col, at, codes[p][i], Q_ALONG_K ? round : i);
                    some[p] = !WHOLE && at >= end ? 0.0f : x;
                }
                In* to = lds + (PLACED || Q_ALONG_K ? LinesW::at(col, k) : LinesW::at(column(round), k) + i * Q_ROW);
                if (PAIRS) put_pair(to, some[0], some[1]);
                else *to = cast<In>(some[0]);
            }
        }
    }
    RF_FN void put(const QMatmulArgs& g, float global, u32 first_col, u32 first_k, u32 end, In* lds) {
        if (!KEEPS || g.block_k.divisor % Q_BK != 0) {
            put_words<false, false>(g, global, first_col, first_k, end, lds);
            return;
        }
        u32 now = g.block_k.divide(first_k);
        if (now != block) {
            block = now;
            if (Q_ALONG_K || !side_by_side<SCALES>(g, global, first_k, first_col + inside(0), scale)) {
#pragma unroll
                for (int i = 0; i < SCALES; ++i)
                    scale[i] = scale_of(g, global, first_k, first_col + (Q_ALONG_K ? line(i) : inside(0) + i));
            }
        }
        if (first_k + Q_BK <= end) put_words<true, true>(g, global, first_col, first_k, end, lds);
        else put_words<true, false>(g, global, first_col, first_k, end, lds);
    }
};
#endif

struct StoreTile {
    const QMatmulArgs& g;
    u32 slice, first_row, first_col;
    float global;
    RF_FN void operator()(int row, int col, float sum) const {
        if (first_row + row < g.m && first_col + col < g.n)
            finish(g, slice, first_row + row, first_col + col, sum, global);
    }
};

extern "C" __global__ __launch_bounds__(Q_THREADS) void q_matmul(QMatmulArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[LinesA::ELEMENTS + LinesW::ELEMENTS];
#ifdef Q_GGUF
    static_assert(LoadW::LDS_BYTES <= sizeof(lds), "bytes of blocks lie where tiles do");
#endif
    u32 slice = group_z();
    u32 first_row, first_col = group_x() * Q_BN;
    RowsOfA rows;
    if (!go_to_tile<Q_BM>(g, rows, first_row)) return;
    u32 k = slice * g.slice_k, end = k + g.slice_k;
    end = end < g.k ? end : g.k;
    float global = g.global ? *g.global : 1.0f;
    Tile total, tile;
    LoadA load_a;
    LoadW load_w;
    total.start();
    tile.start();
    load_w.start();
    total.clear();
    load_a.start(g, rows, first_row);
    load_a.fetch(g, first_row, k, end);
    load_w.fetch(g, first_col, k, end);
    while (k < end) {
        u32 chunk_end = k + Q_CHUNK < end ? k + Q_CHUNK : end;
        tile.clear();
        while (k < chunk_end) {
            barrier();
#ifdef Q_GGUF
            load_w.stage(g, first_col, k, end, lds);
#endif
            load_a.put(g, first_row, k, end, lds);
            load_w.put(g, global, first_col, k, end, lds + LinesA::ELEMENTS);
            barrier();
            k += Q_BK;
            // Under way while this tile is multiplied; zeros past the end.
            load_a.fetch(g, first_row, k, end);
            load_w.fetch(g, first_col, k, end);
            tile.multiply(lds, lds + LinesA::ELEMENTS);
        }
        total.add(tile);
    }
    StoreTile store = {g, slice, first_row, first_col, global};
    total.each(store);
}

#elif Q_WIDE
// 16 lanes share a strip of columns, Q_WIDE words each; each of the 16 such groups takes a run of 32 k of the chunk.
#define Q_LANES 16
#define Q_GROUPS 16
#define Q_RUN (Q_CHUNK / Q_GROUPS)
#define Q_CODES (Q_WIDE * Q_PER)
#define Q_STRIP (Q_LANES * Q_CODES)
// Codes of a lane whose sums meet in LDS at once: of more, one workgroup would take more than half of a compute unit's.
#define Q_PART (Q_CODES > 16 ? Q_CODES / 2 : Q_CODES)
// Rows of words in flight per lane. Small floats take registers while they are decoded: beside four rows' sums AMD's compiler has
// none left for more.
#define Q_AHEAD (Q_ROWS == 1 ? 16 : Q_ROWS == 4 && (Q_FORMAT <= 2 || !RF_DEVICE_AMD) ? 8 : 4)
// A lane group's floats lie in banks of their own.
#define Q_APART 4
static_assert(Q_RUN == 32 && Q_RUN % Q_AHEAD == 0, "as in q_matmul.rs");

// Where number `i` of a lane's codes is among those of its group: wherever two groups of lanes write or a wave reads side by side,
// all banks are different.
RF_FN u32 part_at(u32 group, u32 lane, u32 i) { return lane * Q_PART + (i ^ (lane * Q_PART / 32 + group % 2 * (Q_PART / 2))); }

// Where a lane's scales are 64 bytes, and lanes of few groups make a wave, accesses of 16 bytes by each touch four times as much: two
// neighbouring lanes read both their rows of scales together, half a segment at a time, and exchange what is the other's.
#define Q_PAIRED (RF_DEVICE_AMD && ARCH_WAVE_SIZE == 32 && Q_CODES == 32)
#if Q_PAIRED
template <class S> RF_FN void of_pair(const S* own, u32 odd, float global, float* to) {
    const u32* first = (const u32*)own - odd * 16;
    Vec<u32, 4> part[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i / 2][i % 2] = load<4>(first + i / 2 * 16 + (i % 2 * 2 + odd) * 4);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int half = i / 4, word = i % 4;
        const u32 even_row = part[0][half][word], odd_row = part[1][half][word];
        u32 kept = odd ? odd_row : even_row, given = dpp<RF_DPP_XOR1>(odd ? even_row : odd_row);
        u32 words[2] = {odd ? given : kept, odd ? kept : given};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            S scale;
            scale.bits = (u16)(words[e / 2] >> e % 2 * 16);
            to[half * 16 + e / 2 * 8 + word * 2 + e % 2] = global * cast<float>(scale);
        }
    }
}
#endif
// The scales of a run of k, of the columns of a lane, which may lie past the end.
RF_FN void scales_of(const QMatmulArgs& g, float global, u32 k, u32 col, float* to) {
#if Q_PAIRED
    bool is_half = g.scale_kind == RF_SCALE_F16 || g.scale_kind == RF_SCALE_BF16;
    u32 odd = col / Q_CODES % 2;
    if (g.scales && is_half && g.s_n == 1 && g.block_n.divisor == 1 && col + (2 - odd) * Q_CODES <= g.n) {
        const u16* own = (const u16*)g.scales + g.block_k.divide(k < g.k ? k : g.k - 1) * g.s_k + col;
        if ((u64)own % 16 == 0) {
            if (g.scale_kind == RF_SCALE_F16) of_pair((const f16*)own, odd, global, to);
            else of_pair((const bf16*)own, odd, global, to);
            return;
        }
    }
#endif
    if (side_by_side<Q_CODES>(g, global, k, col, to)) return;
    float one = scale_of(g, global, k, col);
#pragma unroll
    for (int i = 0; i < Q_CODES; ++i) to[i] = g.s_n == 0 ? one : scale_of(g, global, k, col + i);
}

// Products of Q_AHEAD rows of codes with A, whose floats at these k lie at `row`.
RF_FN void add_products(const Vec<u32, Q_WIDE>* some, const float* row, float (&sum)[Q_ROWS][Q_CODES]) {
    const int VECTORS = Q_ROWS > 1 ? Q_ROWS / 4 : 1;
    Vec<float, 4> a[VECTORS];
#pragma unroll
    for (int i = 0; i < Q_AHEAD; ++i) {
        // Four floats at once: of one k, or of one row's next k.
        if (Q_ROWS > 1 || i % 4 == 0) {
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) a[v] = load<4>(row + (i * Q_ROWS + v * 4));
        }
#pragma unroll
        for (int w = 0; w < Q_WIDE; ++w) {
            Codes codes;
            codes.start(some[i][w]);
#pragma unroll
            for (int j = 0; j < Q_PER; ++j) {
                float value = codes[j];
#pragma unroll
                for (int m = 0; m < Q_ROWS; ++m)
                    sum[m][w * Q_PER + j] = rf::fma(Q_ROWS > 1 ? a[m / 4][m % 4] : a[0][i % 4], value, sum[m][w * Q_PER + j]);
            }
        }
    }
}

// Without being told so, AMD's compiler has more loads under way than two waves of a SIMD have registers for.
#if RF_DEVICE_AMD
#define Q_TWO_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define Q_TWO_WAVES
#endif
struct StripLds {
    __attribute__((aligned(16))) float rows[Q_GROUPS][Q_RUN * Q_ROWS + Q_APART];
    float parts[Q_GROUPS][Q_LANES * Q_PART];
};
// Rounds in which a workgroup's sums meet in LDS: a thread has one of each.
static const int TURNS = Q_ROWS * (Q_CODES / Q_PART);
static_assert(Q_LANES * Q_PART <= 256, "a sum of each thread");

// Sums of a strip over the chunk of K that begins at `first_k`, each given to `put` by the thread that has it.
template <class Put> RF_FN void sum_chunk(const QMatmulArgs& g, const RowsOfA& rows_of_a, u32 first_row, u32 first_k, float global, StripLds& lds, Put& put) {
    u32 lane_id = thread_x() % Q_LANES, group = thread_x() / Q_LANES;
    u32 first_col = group_x() * Q_STRIP, col = first_col + lane_id * Q_CODES;
#pragma unroll 8
    for (int turn = 0; turn < Q_ROWS * Q_CHUNK / 256; ++turn) {
        u32 c = turn * 256 + thread_x(), m = c / Q_CHUNK, at = c % Q_CHUNK, k = first_k + at;
        bool there = first_row + m < g.m && k < g.k;
        const In* from = g.a + (i64)k * g.a_k;
        lds.rows[at / Q_RUN][at % Q_RUN * Q_ROWS + m] = there ? cast<float>(from[(i64)rows_of_a.at(first_row + m) * g.a_row]) : 0.0f;
    }
    barrier();
    float sum[Q_ROWS][Q_CODES];
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m)
#pragma unroll
        for (int i = 0; i < Q_CODES; ++i) sum[m][i] = 0.0f;
    // Past the end of K the last row is read and forgotten, as is the first strip past the end of N.
    u32 k = first_k + group * Q_RUN;
    bool whole = first_k + Q_CHUNK <= g.k;
    const u32* from = (const u32*)g.words + (col < g.n ? col / Q_PER : 0);
    const float* row = lds.rows[group];
#pragma unroll 1
    for (int turn = 0; turn < Q_RUN / Q_AHEAD; ++turn, k += Q_AHEAD, row += Q_AHEAD * Q_ROWS) {
        Vec<u32, Q_WIDE> some[Q_AHEAD];
#pragma unroll
        for (int i = 0; i < Q_AHEAD; ++i) some[i] = load<Q_WIDE>(from + (i64)(k + i < g.k ? k + i : g.k - 1) * g.w_k);
        // Codes of nothing are zeros, in every format.
        if (!whole) {
#pragma unroll
            for (int i = 0; i < Q_AHEAD * Q_WIDE; ++i)
                if (k + i / Q_WIDE >= g.k) some[i / Q_WIDE][i % Q_WIDE] = 0;
        }
        add_products(some, row, sum);
    }
#if !Q_LATE
    float scales[Q_CODES];
    scales_of(g, global, first_k + group * Q_RUN, col, scales);
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m)
#pragma unroll
        for (int i = 0; i < Q_CODES; ++i) sum[m][i] *= scales[i];
#endif
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int m = turn / (Q_CODES / Q_PART), first = turn % (Q_CODES / Q_PART) * Q_PART;
        if (turn > 0) barrier();
#pragma unroll
        for (int i = 0; i < Q_PART; ++i) lds.parts[group][part_at(group, lane_id, i)] = sum[m][first + i];
        barrier();
        for (u32 at = thread_x(); at < Q_LANES * Q_PART; at += 256) {
            u32 n = first_col + at / Q_PART * Q_CODES + first + at % Q_PART;
            if (first_row + m >= g.m || n >= g.n) break;
            float total = 0.0f;
#pragma unroll
            for (int other = 0; other < Q_GROUPS; ++other) total += lds.parts[other][part_at(other, at / Q_PART, at % Q_PART)];
            put(turn, first_row + m, n, total);
        }
    }
}

struct StoreStrip {
    const QMatmulArgs& g;
    u32 slice;
    float global;
    RF_FN void operator()(int, u32 row, u32 col, float sum) const { finish(g, slice, row, col, sum, global); }
};
// Sums of the chunks before and of this one, stored behind the last.
struct AddStrip {
    const QMatmulArgs& g;
    float global;
    bool is_last;
    float sums[TURNS];
    RF_FN void operator()(int turn, u32 row, u32 col, float sum) {
        sums[turn] += sum;
        if (is_last) finish(g, 0, row, col, sums[turn], global);
    }
};

extern "C" __global__ __launch_bounds__(256) Q_TWO_WAVES void q_strip(QMatmulArgs g) {
    __shared__ StripLds lds;
    const float global = global_of(g);
    RowsOfA rows_of_a;
#if Q_GROUPED
    u32 first_row;
    if (!go_to_tile<Q_ROWS>(g, rows_of_a, first_row)) return;
    AddStrip add = {g, global, false, {}};
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) add.sums[turn] = 0.0f;
#pragma unroll 1
    for (u32 first_k = 0; first_k < g.k; first_k += Q_CHUNK) {
        if (first_k > 0) barrier();
        add.is_last = first_k + Q_CHUNK >= g.k;
        sum_chunk(g, rows_of_a, first_row, first_k, global, lds, add);
    }
#else
    StoreStrip store = {g, group_z(), global};
    sum_chunk(g, rows_of_a, 0, group_z() * Q_CHUNK, global, lds, store);
#endif
}

#else
// 64 lanes share a strip of columns, a word each; the four such groups take every fourth k.
#define Q_LANES 64
#define Q_GROUPS 4
#define Q_STRIP (Q_LANES * Q_PER)
// Words in flight per lane: 16 of them hide the latency of memory where sums leave the registers for it.
#define Q_AHEAD (Q_ROWS * Q_PER <= 16 ? 16 : Q_ROWS * Q_PER <= 32 ? 8 : 4)

extern "C" __global__ __launch_bounds__(256) void q_skinny(QMatmulArgs g) {
    __shared__ float rows[Q_CHUNK][Q_ROWS];
    __shared__ float parts[Q_GROUPS][Q_STRIP];
    u32 lane_id = thread_x() % Q_LANES, group = thread_x() / Q_LANES, slice = group_z();
    u32 word_col = group_x() * Q_LANES + lane_id, col = word_col * Q_PER;
    u32 first_k = slice * Q_CHUNK, count = g.k - first_k < Q_CHUNK ? g.k - first_k : Q_CHUNK;
    float global = g.global ? *g.global : 1.0f;
    for (u32 c = thread_x(); c < Q_ROWS * count; c += 256) {
        u32 m = c / count, at = c - m * count;
        rows[at][m] = m < g.m ? cast<float>(g.a[(i64)m * g.a_row + (i64)(first_k + at) * g.a_k]) : 0.0f;
    }
    barrier();
    float sum[Q_ROWS][Q_PER];
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m)
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) sum[m][i] = 0.0f;
    // One scale for the word, unless its columns lie in several blocks.
    bool apart = g.s_n != 0 && g.block_n.divisor % Q_PER != 0;
    const Q_WORD* from = g.words + (i64)(first_k + group) * g.w_k + (i64)word_col * g.w_n;
    if (col < g.n) {
        const int AHEAD = Q_AHEAD;
#pragma unroll AHEAD
        for (u32 at = group; at < count; at += Q_GROUPS) {
            u32 word = *from;
            from += Q_GROUPS * g.w_k;
            float scale = Q_LATE ? 1.0f : scale_of(g, global, first_k + at, col);
#pragma unroll
            for (int i = 0; i < Q_PER; ++i) {
                float value = decode_at(word, i);
                if (!Q_LATE) value *= apart ? scale_of(g, global, first_k + at, col + i) : scale;
#pragma unroll
                for (int m = 0; m < Q_ROWS; ++m) sum[m][i] = rf::fma(rows[at][m], value, sum[m][i]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m) {
        barrier();
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) parts[group][i * Q_LANES + lane_id] = sum[m][i];
        barrier();
        if (group != 0 || (u32)m >= g.m) continue;
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) {
            u32 at = i * Q_LANES + lane_id;
            float total = ((parts[0][at] + parts[1][at]) + parts[2][at]) + parts[3][at];
            if (col + i < g.n) finish(g, slice, m, col + i, total, global);
        }
    }
}
#endif
