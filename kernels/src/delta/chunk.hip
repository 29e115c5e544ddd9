// chunk: the gated delta rule, CHUNK tokens at a time, on the matrix unit
//
//   G the sums of g from the chunk's first token on, D_ij = e^(G_i - G_j), S the state before the chunk; of rows i and j <= i
//   A_ij = beta_i D_ij k_i . k_j for j < i,  T = (1 + A)^-1 beta,  P_ij = D_ij q_i . k_j       delta_chunks, chunk by chunk
//   U = T (v - e^G k S),  out = scale (e^G q S + P U),  S <- e^G_last S + k^T (e^(G_last - G) U)       delta_walk, from the first on
//
//   Where each row of a state, a channel of keys, has a decay of its own, D_ij stands inside of the sums over channels. Between blocks
//   of SIDE rows it is e^(G_i - R) e^(R - G_j) with R of the row before block i, neither of which grows; inside of a block it is made
//   by multiplication, one row after the other. e^G k, e^G q and e^(G_last - G) k are left in the workspace then
//
// Shapes : as delta.hip; workspace: T and P [tokens, heads, CHUNK], factors [tokens, heads, 4]; with decays by row three times
//          [tokens, heads, DELTA_K], and e^G_last [chunks, heads, DELTA_K]
// Grid   : delta_chunks (sequences * heads, chunks of the longest sequence, 1), delta_walk (sequences * heads * tiles, 1, 1)
//          Block : (4 waves, 1, 1); a tile is TILE columns of a state, which lie in registers across, [columns, rows]
// LDS    : an f32 matrix of a chunk, with decays by row there before, and blocks of two on the diagonal, else one in DELTA_TYPE;
//          a state's tile, the keys of a chunk and three tiles of a chunk, in DELTA_TYPE, 16 bytes of a row after the other but for
//          an exclusive or with some bits of the row: lanes meet no bank
// Needs  : DELTA_K a multiple of 64, at most 128; columns a multiple of TILE; rows of q and k aligned to 16 bytes; with
//          DELTA_VEC 8 rows of v and out aligned to 16 bytes, of states to four elements     checked by the launcher
// Numeric: sums, states, A and its inverse in f32, G in f64; T, P, U, v - e^G k S and, as it is read, S are rounded to DELTA_TYPE.
//          With decays by row G is of a block, in f32, and so are keys and queries times powers of it, rounded to DELTA_TYPE.
//          The scale comes last: some units take subnormal operands for zeros. A NaN spoils its chunk and what is behind it. A head's
//          bits depend on its own sequence alone
//
// Macros : as delta.h; DELTA_VEC: columns of one access of v and out, 8 or fewer: one at a time
#define CHUNK 64
#define WAVES 4
#define THREADS (WAVES * ARCH_WAVE_SIZE)
#define TILE 32
// Sides of the matrix unit's products, and of the blocks in which A is inverted.
#define SIDE 16
#define BLOCKS (CHUNK / SIDE)
// A row of 64 elements, or of DELTA_K, in pieces of 16 bytes.
#define PIECE 8
// Rows of matrices in LDS that a wave writes several of at once, apart so that these meet no bank.
#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
#define FLOAT_ROW (CHUNK + 16)
#define CHUNK_ROW (CHUNK + 16)
#else
#define FLOAT_ROW (CHUNK + 4)
#define CHUNK_ROW (CHUNK + 8)
#endif

// Two waves of a SIMD: the compiler would leave it one.
#if RF_DEVICE_AMD
#define RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define RESIDENT
#endif

typedef Mma<T, SIDE> M;
typedef Slab<T, SIDE> S;

struct ChunkArgs {
    DeltaArgs all;
    T *t, *p;
    float* factors;
    // Of decays by row: keys and queries times what is left of a chunk's first state, keys times what its last row leaves of them.
    T *old_k, *old_q, *new_k;
    float* lasts;  // what a chunk leaves of each row
};
static_assert(sizeof(ChunkArgs) == 392, "as in delta.rs");

// Slabs of 32 k whose operands are under way at once.
#define SLABS (ARCH_WAVE_SIZE == 64 ? 2 : 1)

// A row in memory, and one in LDS whose pieces are turned: where a piece is.
struct InMemory {
    const T* row;
    RF_FN Chunk piece(u32 n) const { return *(const Chunk*)(row + n * PIECE); }
};
struct InLds {
    const T* row;
    u32 turn;
    RF_FN Chunk piece(u32 n) const { return *(const Chunk*)(row + (n ^ turn) * PIECE); }
};

// The lane's part of a row, 32 elements from `slab` on, in one of the turns that a product takes them in.
template <class Row> RF_FN void read_operands(const Row& row, u32 slab, int phase, M::Operand (&to)[S::STEPS]) {
    Chunk pieces[S::READS];
#pragma unroll
    for (int i = 0; i < S::READS; ++i)
        pieces[i] = row.piece(slab * 4 + (u32)(S::apart(phase, i) + S::chunk((int)(lane() / SIDE))));
    S::operands(pieces, to);
}
// Adds the products of LINES rows with COUNT rows of equal length, LENGTH: the lane's own of each.
template <int LENGTH, int LINES, int COUNT, class A, class B>
RF_FN void add_products(const A (&a)[LINES], const B (&b)[COUNT], M::Accumulator (&sums)[COUNT][LINES]) {
#pragma unroll SLABS
    for (u32 slab = 0; slab < LENGTH / 32; ++slab)
#pragma unroll
        for (int phase = 0; phase < S::PHASES; ++phase) {
            M::Operand left[LINES][S::STEPS], right[COUNT][S::STEPS];
#pragma unroll
            for (int l = 0; l < LINES; ++l) read_operands(a[l], slab, phase, left[l]);
#pragma unroll
            for (int n = 0; n < COUNT; ++n) read_operands(b[n], slab, phase, right[n]);
#pragma unroll
            for (int step = 0; step < S::STEPS; ++step)
#pragma unroll
                for (int n = 0; n < COUNT; ++n)
#pragma unroll
                    for (int l = 0; l < LINES; ++l) sums[n][l] = M::run(left[l][step], right[n][step], sums[n][l]);
        }
}
// The lane's row of a fragment.
RF_FN u32 line_of() { return lane() % SIDE; }

// A chunk's tokens.
struct Chunk64 {
    u32 first, count;
    u32 place;  // of all sequences' chunks, none of which have the same

    RF_FN void read(const Sequence& sequence, u32 of, u32 number) {
        place = sequence.first / CHUNK + of + number;
        const u32 left = sequence.count - number * CHUNK;
        first = sequence.first + number * CHUNK;
        count = left < CHUNK ? left : CHUNK;
    }
    // The token of a row; of rows behind the last, the last.
    RF_FN i64 token(u32 row) const { return (i64)(first + (row < count ? row : count - 1)); }
};

#if DELTA_ROWS
// Channels whose decays are in LDS at once.
#define WINDOW 64
// Rows of blocks on the diagonal: those that lanes take a fragment of at once meet no bank.
#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
#define DIAGONAL_ROW SIDE
#elif ARCH_MATRIX == ARCH_MATRIX_WMMA12
#define DIAGONAL_ROW (SIDE + 2)
#else
#define DIAGONAL_ROW (SIDE + 4)
#endif
#endif

// LDS of delta_chunks.
struct Made {
#if DELTA_ROWS
    union {
        float a[CHUNK][FLOAT_ROW];
        alignas(16) float decays[CHUNK][WINDOW + 4];  // of tokens, then logarithms from the first of their block on
    };
    float diagonal[2][CHUNK][DIAGONAL_ROW];  // blocks on the diagonal, of A and P: sums of a window's channels, and those before
#else
    float a[CHUNK][FLOAT_ROW];  // A, and then row after row of its blocks (1 + A)^-1
    T p[CHUNK][CHUNK_ROW];
    double sums[CHUNK];  // G
    float g[CHUNK];
#endif
    float beta[CHUNK], by_k[CHUNK], by_q[CHUNK];
};

// The sum of squares of a row, LANES of which have it together.
template <int LANES> RF_FN float squares(const T* row, u32 part) {
    float sum = 0.0f;
    for (int k = 0; k < DELTA_K; k += 8 * LANES) {
        Vec<T, 8> x = load<8>(row + k + part * 8);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum = rf::fma(cast<float>(x[e]), cast<float>(x[e]), sum);
    }
    sum += dpp<RF_DPP_XOR1>(sum);
    return LANES == 2 ? sum : sum + dpp<RF_DPP_XOR2>(sum);
}

// What a chunk's keys, queries and gates are multiplied by; rows behind the last have neither.
RF_FN void make_factors(const DeltaArgs& g, const Chunk64& chunk, u32 head, Made& lds) {
    const int LANES = THREADS / CHUNK;
    const u32 row = thread_x() / LANES, part = thread_x() % LANES, key_head = g.group.divide(head);
    const i64 token = chunk.token(row);
    float by_k = 1.0f, by_q = 1.0f;
    if (g.normalises != 0) {
        by_k = 1.0f / rf::sqrt(squares<LANES>(g.k + token * g.k_token + (i64)key_head * g.k_head, part) + 1e-6f);
        by_q = 1.0f / rf::sqrt(squares<LANES>(g.q + token * g.q_token + (i64)key_head * g.q_head, part) + 1e-6f);
    }
    if (part == 0) {
        const bool is_there = row < chunk.count;
        lds.beta[row] = is_there ? strength(cast<float>(g.b[token * g.b_token + (i64)head * g.b_head])) : 0.0f;
        lds.by_k[row] = is_there ? by_k : 0.0f;
        lds.by_q[row] = is_there ? by_q : 0.0f;
#if !DELTA_ROWS
        float bias = 0.0f;
#if DELTA_GATES != 0
        bias = g.dt_bias[head];
#endif
        const float log = decay_log(g, cast<float>(g.a[token * g.a_token + (i64)head * g.a_head]), rate_of(g, head), bias);
        // Less leaves nothing either, and two infinite sums have no difference.
        lds.g[row] = is_there ? (log < -1000.0f ? -1000.0f : log) : 0.0f;
#endif
    }
    barrier();
#if !DELTA_ROWS
    if (thread_x() < CHUNK) {
        double sum = 0.0;
        for (u32 i = 0; i <= thread_x(); ++i) sum += (double)lds.g[i];
        lds.sums[thread_x()] = sum;
    }
    barrier();
#endif
}

#if DELTA_ROWS
// Less leaves nothing either, and longer sums would lose digits.
#define LOG_LEAST -100.0f
// Logarithms are of two: a near power will do for what 16 bits keep.
#define LOG_UNIT 1.44269504f

// Decays of a chunk into LDS, of a window of channels: each by itself, or sums of logarithms from the first token of a block on. Behind
// the last token is none.
template <bool IS_SUMMED>
RF_FN void read_decays(const DeltaArgs& g, const Chunk64& chunk, u32 head, u32 window, Made& lds) {
    const float rate = rate_of(g, head);
    for (u32 n = thread_x(); n < BLOCKS * WINDOW; n += THREADS) {
        const u32 channel = n % WINDOW, first = n / WINDOW * SIDE;
        const Gate* from = g.a + (i64)head * g.a_head + window + channel;
        float bias = 0.0f, sum = 0.0f;
#if DELTA_GATES != 0
        bias = g.dt_bias[(i64)head * DELTA_K + window + channel];
#endif
#pragma unroll
        for (u32 i = 0; i < SIDE; ++i) {
            const u32 row = first + i;
            const float log = decay_log(g, cast<float>(from[chunk.token(row) * g.a_token]), rate, bias);
            const float own = row < chunk.count ? (log < LOG_LEAST ? LOG_LEAST : log) * LOG_UNIT : 0.0f;
            sum += own;
            lds.decays[row][channel] = IS_SUMMED ? sum : exp2_fast(own);
        }
    }
    barrier();
}

RF_FN void read_floats(const float* from, float (&to)[PIECE]) {
#pragma unroll
    for (int n = 0; n < PIECE; n += 4) {
        const Vec<float, 4> part = load<4>(from + n);
#pragma unroll
        for (int e = 0; e < 4; ++e) to[n + e] = part[e];
    }
}
RF_FN void unpack(const Chunk& piece, float (&to)[PIECE]) {
    T elements[PIECE];
    __builtin_memcpy(elements, &piece, sizeof(elements));
#pragma unroll
    for (int e = 0; e < PIECE; ++e) to[e] = cast<float>(elements[e]);
}
// A piece times powers of two.
RF_FN Chunk decayed(const Chunk& piece, const float (&logs)[PIECE]) {
    float x[PIECE];
    T elements[PIECE];
    Chunk to;
    unpack(piece, x);
#pragma unroll
    for (int e = 0; e < PIECE; ++e) elements[e] = cast<T>(x[e] * exp2_fast(logs[e]));
    __builtin_memcpy(&to, elements, sizeof(elements));
    return to;
}

// The sum of whole blocks' logarithms, of those from one to before another, less what it begins with.
RF_FN void add_blocks(const Made& lds, u32 block, u32 end, u32 channel, float (&logs)[PIECE]) {
    for (; block < end; ++block) {
        float last[PIECE];
        read_floats(&lds.decays[block * SIDE + SIDE - 1][channel], last);
#pragma unroll
        for (int e = 0; e < PIECE; ++e) logs[e] += last[e];
    }
}
RF_FN void logs_of(const Made& lds, u32 row, u32 channel, float sign, float (&logs)[PIECE]) {
    read_floats(&lds.decays[row][channel], logs);
#pragma unroll
    for (int e = 0; e < PIECE; ++e) logs[e] *= sign;
}
// A row times what its block has left of what was before it; and times what is left of it before another block.
struct FromBlock {
    const T* row;
    const Made* lds;
    u32 at;
    RF_FN Chunk piece(u32 n) const {
        float logs[PIECE];
        logs_of(*lds, at, n * PIECE, 1.0f, logs);
        return decayed(*(const Chunk*)(row + n * PIECE), logs);
    }
};
struct ToBlock {
    const T* row;
    const Made* lds;
    u32 at, block;
    RF_FN Chunk piece(u32 n) const {
        float logs[PIECE];
        logs_of(*lds, at, n * PIECE, -1.0f, logs);
        add_blocks(*lds, at / SIDE, block, n * PIECE, logs);
        return decayed(*(const Chunk*)(row + n * PIECE), logs);
    }
};

// Lanes side by side that have a column of a block on the diagonal, and pieces of keys of each.
#define SHARERS (ARCH_WAVE_SIZE / SIDE)
#define SHARES (WINDOW / PIECE / SHARERS)

// Where an element of P is.
RF_FN T* p_at(const ChunkArgs& g, const Chunk64& chunk, u32 head, u32 i, u32 j) {
    return g.p + ((i64)(chunk.first + i) * g.all.heads.divisor + head) * CHUNK + j;
}

// The sum over the lanes that share a column.
RF_FN float over_sharers(float x) {
    x += dpp<RF_DPP_XOR1>(x);
    return SHARERS == 4 ? x + dpp<RF_DPP_XOR2>(x) : x;
}

// What a window of channels adds to blocks on the diagonal: a wave has one. A column's key fades from row to row.
RF_FN void add_diagonal(const DeltaArgs& g, const Chunk64& chunk, u32 head, u32 window, Made& lds) {
    const u32 top = uniform(thread_x() / ARCH_WAVE_SIZE) * SIDE, column = lane() / SHARERS, share = lane() % SHARERS;
    const i64 key_head = g.group.divide(head);
    const T *keys = g.k + key_head * g.k_head + window, *queries = g.q + key_head * g.q_head + window;
    float faded[SHARES][PIECE] = {};
#pragma unroll 2
    for (u32 i = 0; i < SIDE; ++i) {
        const i64 token = chunk.token(top + i);
        float of_k = 0.0f, of_q = 0.0f;
#pragma unroll
        for (int n = 0; n < SHARES; ++n) {
            const u32 channel = ((u32)n * SHARERS + share) * PIECE;
            float k[PIECE], q[PIECE], decays[PIECE];
            unpack(*(const Chunk*)(keys + token * g.k_token + channel), k);
            unpack(*(const Chunk*)(queries + token * g.q_token + channel), q);
            read_floats(&lds.decays[top + i][channel], decays);
#pragma unroll
            for (int e = 0; e < PIECE; ++e) {
                faded[n][e] = i == column ? k[e] : faded[n][e] * decays[e];
                of_k = rf::fma(k[e], faded[n][e], of_k);
                of_q = rf::fma(q[e], faded[n][e], of_q);
            }
        }
        of_k = over_sharers(of_k);
        of_q = over_sharers(of_q);
        if (share != 0) continue;
        float *to_k = &lds.diagonal[0][top + i][column], *to_q = &lds.diagonal[1][top + i][column];
        *to_k = window == 0 ? of_k : *to_k + of_k;
        *to_q = window == 0 ? of_q : *to_q + of_q;
    }
}

// Keys and queries as the walk takes them, and what is left of each row of a state.
RF_FN void write_rows(const ChunkArgs& g, const Chunk64& chunk, u32 head, u32 window, const Made& lds) {
    const DeltaArgs& all = g.all;
    const i64 key_head = all.group.divide(head);
    for (u32 n = thread_x(); n < CHUNK * (WINDOW / PIECE); n += THREADS) {
        // Eight lanes side by side have half of two rows each, and meet no bank.
        const u32 row = n / (2 * WINDOW / PIECE) * 2 + n / 4 % 2, channel = (n % 4 + n / 8 % 2 * 4) * PIECE;
        if (row >= chunk.count) continue;
        const i64 token = chunk.first + row, to = (token * all.heads.divisor + head) * DELTA_K + window + channel;
        const Chunk k = *(const Chunk*)(all.k + token * all.k_token + key_head * all.k_head + window + channel);
        const Chunk q = *(const Chunk*)(all.q + token * all.q_token + key_head * all.q_head + window + channel);
        float logs[PIECE];
        logs_of(lds, row, channel, 1.0f, logs);
        add_blocks(lds, 0, row / SIDE, channel, logs);
        *(Chunk*)(g.old_k + to) = decayed(k, logs);
        *(Chunk*)(g.old_q + to) = decayed(q, logs);
        logs_of(lds, row, channel, -1.0f, logs);
        add_blocks(lds, row / SIDE, BLOCKS, channel, logs);
        *(Chunk*)(g.new_k + to) = decayed(k, logs);
    }
    for (u32 channel = thread_x(); channel < WINDOW; channel += THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (u32 block = 0; block < BLOCKS; ++block) sum += lds.decays[block * SIDE + SIDE - 1][channel];
        g.lasts[((i64)chunk.place * all.heads.divisor + head) * DELTA_K + window + channel] = exp2_fast(sum);
    }
}

// A into LDS, P into the workspace: a wave has a block's rows.
RF_FN void make_products(const ChunkArgs& g, const Chunk64& chunk, u32 head, Made& lds) {
    const DeltaArgs& all = g.all;
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), at = wave * SIDE + line_of();
    const i64 key_head = all.group.divide(head), own = chunk.token(at);
    const T *keys = all.k + key_head * all.k_head, *queries = all.q + key_head * all.q_head + own * all.q_token;
    M::Accumulator sums[BLOCKS][1][2] = {};
    for (u32 window = 0; window < DELTA_K; window += WINDOW) {
        read_decays<false>(all, chunk, head, window, lds);
        add_diagonal(all, chunk, head, window, lds);
        barrier();
        read_decays<true>(all, chunk, head, window, lds);
        const FromBlock rows[2] = {{keys + own * all.k_token + window, &lds, at}, {queries + window, &lds, at}};
#pragma unroll
        for (u32 block = 0; block < BLOCKS - 1; ++block) {
            if (block >= wave) continue;
            const u32 to = block * SIDE + line_of();
            const ToBlock other[1] = {{keys + chunk.token(to) * all.k_token + window, &lds, to, wave}};
            add_products<WINDOW>(rows, other, sums[block]);
        }
        write_rows(g, chunk, head, window, lds);
        barrier();
    }
#pragma unroll
    for (u32 block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 row = (u32)M::row(v, (int)lane()), column = (u32)M::column(v, (int)lane());
            const u32 i = wave * SIDE + row, j = block * SIDE + column;
            const bool is_own = block == wave;
            const float of_k = is_own ? lds.diagonal[0][i][column] : (float)sums[block][0][0][v];
            const float of_q = is_own ? lds.diagonal[1][i][column] : (float)sums[block][0][1][v];
            lds.a[i][j] = j < i ? of_k * lds.beta[i] * lds.by_k[i] * lds.by_k[j] : 0.0f;
            if (i < chunk.count) *p_at(g, chunk, head, i, j) = cast<T>(of_q * lds.by_q[i] * lds.by_k[j]);
        }
    barrier();
}
#else

// A and P into LDS: a wave has a block's rows.
RF_FN void make_products(const ChunkArgs& g, const Chunk64& chunk, u32 head, Made& lds) {
    const DeltaArgs& all = g.all;
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), key_head = all.group.divide(head);
    const T* keys = all.k + (i64)key_head * all.k_head;
    const i64 own = chunk.token(wave * SIDE + line_of());
    const InMemory rows[2] = {{keys + own * all.k_token}, {all.q + (i64)key_head * all.q_head + own * all.q_token}};
    for (u32 block = 0; block < BLOCKS; ++block) {
        M::Accumulator sums[1][2] = {};
        if (block <= wave) {
            const InMemory other[1] = {{keys + chunk.token(block * SIDE + line_of()) * all.k_token}};
            add_products<DELTA_K>(rows, other, sums);
        }
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 i = wave * SIDE + (u32)M::row(v, (int)lane()), j = block * SIDE + (u32)M::column(v, (int)lane());
            const float decay = j <= i ? rf::exp((float)(lds.sums[i] - lds.sums[j])) * lds.by_k[j] : 0.0f;
            lds.a[i][j] = j < i ? sums[0][0][v] * lds.beta[i] * lds.by_k[i] * decay : 0.0f;
            lds.p[i][j] = cast<T>(j <= i ? sums[0][1][v] * lds.by_q[i] * decay : 0.0f);
        }
    }
    barrier();
}
#endif

// The inverse of each block of 1 + A on the diagonal, in its place: a lane has a column, and one wave whole blocks.
RF_FN void invert_diagonal(Made& lds) {
    if (thread_x() < CHUNK) {
        const u32 first = thread_x() / SIDE * SIDE, column = thread_x() % SIDE;
        float x[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            x[i] = column == (u32)i ? 1.0f : 0.0f;
#pragma unroll
            for (int l = 0; l < i; ++l) x[i] = rf::fma(-lds.a[first + i][first + l], x[l], x[i]);
        }
#pragma unroll
        for (int i = 0; i < SIDE; ++i) lds.a[first + i][first + column] = x[i];
    }
    barrier();
}

// The row of a block that a thread has of 16 on end; a wave's are those whose rows in LDS meet no bank.
RF_FN u32 row_of(u32 n) {
#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
    return n % SIDE;
#else
    return n % 4 * 4 + n / 4 % 4;
#endif
}

// (1 + A)^-1, block row after block row in the place of A's. A product that one is made of lies above the diagonal meanwhile.
RF_FN void invert(Made& lds) {
    invert_diagonal(lds);
    for (u32 row = 1; row < BLOCKS; ++row) {
        const u32 top = row * SIDE, elements = row * SIDE * SIDE;
        for (u32 n = thread_x(); n < elements; n += THREADS) {
            const u32 i = row_of(n / SIDE), block = n / (SIDE * SIDE) * SIDE, column = block + n % SIDE;
            float sum = 0.0f;
            for (u32 l = block; l < top; ++l) sum = rf::fma(lds.a[top + i][l], lds.a[l][column], sum);
            lds.a[block + i][top + n % SIDE] = sum;
        }
        barrier();
        for (u32 n = thread_x(); n < elements; n += THREADS) {
            const u32 i = row_of(n / SIDE), block = n / (SIDE * SIDE) * SIDE;
            float sum = 0.0f;
#pragma unroll
            for (u32 l = 0; l < SIDE; ++l) sum = rf::fma(lds.a[top + i][top + l], lds.a[block + l][top + n % SIDE], sum);
            lds.a[top + i][block + n % SIDE] = -sum;
        }
        barrier();
    }
}

extern "C" __global__ __launch_bounds__(THREADS) RESIDENT void delta_chunks(ChunkArgs g) {
    alignas(16) __shared__ Made lds;
    const u32 number = g.all.heads.divide(group_x()), head = group_x() - number * g.all.heads.divisor;
    Sequence sequence;
    sequence.read(g.all, number);
    if (!sequence.is_there) return;
    for (u32 n = group_y(); n * CHUNK < sequence.count; n += g.all.chunks) {
        Chunk64 chunk;
        chunk.read(sequence, number, n);
        make_factors(g.all, chunk, head, lds);
        make_products(g, chunk, head, lds);
        invert(lds);
        for (u32 e = thread_x(); e < chunk.count * CHUNK; e += THREADS) {
            const u32 i = e / CHUNK, j = e % CHUNK;
            const float inverse = j / SIDE <= i / SIDE ? lds.a[i][j] * lds.beta[j] : 0.0f;
            g.t[((i64)(chunk.first + i) * g.all.heads.divisor + head) * CHUNK + j] = cast<T>(inverse);
        }
#if DELTA_ROWS
        if (thread_x() < chunk.count) {
            const u32 i = thread_x();
            Vec<float, 4> factors = {{lds.by_k[i], lds.by_q[i], lds.by_k[i], 1.0f}};
            store<4>(g.factors + ((i64)(chunk.first + i) * g.all.heads.divisor + head) * 4, factors);
        }
#else
        for (u32 e = thread_x(); e < chunk.count * (CHUNK / PIECE); e += THREADS) {
            const u32 i = e / (CHUNK / PIECE), j = e % (CHUNK / PIECE) * PIECE;
            store<PIECE>(g.p + ((i64)(chunk.first + i) * g.all.heads.divisor + head) * CHUNK + j, load<PIECE>(&lds.p[i][j]));
        }
        if (thread_x() < chunk.count) {
            const u32 i = thread_x();
            const float decay = rf::exp((float)lds.sums[i]);
            Vec<float, 4> factors = {{lds.by_k[i] * decay, lds.by_q[i] * decay,
                                      lds.by_k[i] * rf::exp((float)(lds.sums[CHUNK - 1] - lds.sums[i])), decay}};
            store<4>(g.factors + ((i64)(chunk.first + i) * g.all.heads.divisor + head) * 4, factors);
        }
#endif
        barrier();
    }
}

// LDS of delta_walk: rows are columns of the state, of U and of v - e^G k S; of keys, channels.
struct Walked {
    union {
        // What the chunk before has left, until U is known.
        alignas(16) T state[TILE][DELTA_K];
        struct { T u[TILE][CHUNK], u_last[TILE][CHUNK]; };
    };
    alignas(16) T keys[DELTA_K][CHUNK];
    alignas(16) T rest[TILE][CHUNK];
};
// By what pieces of a row are turned: others for any rows that lanes take a piece of at once.
RF_FN u32 turn_of(u32 n) { return n % 4 + ((n / 4 ^ n / 8) & 1) * 4; }
RF_FN u32 key_turn(u32 row) { return (row ^ row / 8) % 8; }
template <int LENGTH> RF_FN InLds in_lds(const T (&rows)[TILE][LENGTH], u32 n) {
    const InLds row = {rows[n], turn_of(n)};
    return row;
}
template <int LENGTH> RF_FN T& element(T (&rows)[TILE][LENGTH], u32 n, u32 at) {
    return rows[n][(at / PIECE ^ turn_of(n)) * PIECE + at % PIECE];
}

// Products of a tile: a wave has 16 tokens and all columns of the state; of the state 16 columns and half of the rows.
#define COLUMN_BLOCKS (TILE / SIDE)
#define STATE_BLOCKS (DELTA_K / SIDE / 2)
static_assert(WAVES == 2 * COLUMN_BLOCKS && WAVES == BLOCKS, "as waves share the work");

// Which column of a tile the row of a fragment is: so that a lane's sums are of eight columns on end, or of four of a state.
#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
RF_FN u32 column_of(u32 block, u32 row) { return block * SIDE + row % 2 * 8 + row / 2; }
RF_FN u32 state_column_of(u32 block, u32 row) { return column_of(block, row); }
#elif ARCH_MATRIX == ARCH_MATRIX_WMMA12
RF_FN u32 column_of(u32 block, u32 row) { return block * SIDE + row; }
RF_FN u32 state_column_of(u32 block, u32 row) { return block * SIDE + row; }
#else
RF_FN u32 column_of(u32 block, u32 row) { return row / 4 * 8 + block * 4 + row % 4; }
RF_FN u32 state_column_of(u32 block, u32 row) { return block * SIDE + row; }
#endif
// The lane's sum of a column.
RF_FN u32 own_column(int block, int v) { return column_of((u32)block, (u32)M::row(v, (int)lane())); }

// Where a wave's part of the state's tile lies.
struct StateAt {
    u32 block, first_row;
    RF_FN void start() {
        const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        block = wave % COLUMN_BLOCKS;
        first_row = wave / COLUMN_BLOCKS * (DELTA_K / 2);
    }
    RF_FN u32 column(int v) const { return state_column_of(block, (u32)M::row(v, (int)lane())); }
    RF_FN u32 row(int n) const { return first_row + n * SIDE + line_of(); }
};

RF_FN void read_state(const DeltaArgs& g, const State* from, const StateAt& at, M::Accumulator (&sums)[STATE_BLOCKS][1]) {
#pragma unroll
    for (int n = 0; n < STATE_BLOCKS; ++n) {
        const State* line = from + (i64)at.row(n) * g.state_row;
#pragma unroll
        for (int v = 0; v < M::ACC; v += 4) {
#if DELTA_VEC == 8
            const Vec<State, 4> part = load<4>(line + at.column(v));
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[n][0][v + e] = cast<float>(part[e]);
#else
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[n][0][v + e] = cast<float>(line[(i64)at.column(v + e) * g.state_column]);
#endif
        }
    }
}
RF_FN void write_state(const DeltaArgs& g, State* to, const StateAt& at, const M::Accumulator (&sums)[STATE_BLOCKS][1]) {
#pragma unroll
    for (int n = 0; n < STATE_BLOCKS; ++n) {
        State* line = to + (i64)at.row(n) * g.state_row;
#pragma unroll
        for (int v = 0; v < M::ACC; v += 4) {
#if DELTA_VEC == 8
            Vec<State, 4> part;
#pragma unroll
            for (int e = 0; e < 4; ++e) part[e] = cast<State>((float)sums[n][0][v + e]);
            store<4>(line + at.column(v), part);
#else
#pragma unroll
            for (int e = 0; e < 4; ++e) line[(i64)at.column(v + e) * g.state_column] = cast<State>((float)sums[n][0][v + e]);
#endif
        }
    }
}
RF_FN void show_state(const StateAt& at, const M::Accumulator (&sums)[STATE_BLOCKS][1], Walked& lds) {
#pragma unroll
    for (int n = 0; n < STATE_BLOCKS; ++n)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) element(lds.state, at.column(v), at.row(n)) = cast<T>((float)sums[n][0][v]);
}

// The keys of a chunk, rows as columns: zeros behind the last token. A thread has a piece of four tokens' rows; sixteen lanes side
// by side have eight pieces of two times four tokens, and meet no bank.
RF_FN void read_keys(const ChunkArgs& g, const Chunk64& chunk, u32 head, Walked& lds) {
    const DeltaArgs& all = g.all;
#if DELTA_ROWS
    const T* keys = g.new_k + (i64)head * DELTA_K;
    const i64 stride = (i64)all.heads.divisor * DELTA_K;
#else
    const T* keys = all.k + (i64)all.group.divide(head) * all.k_head;
    const i64 stride = all.k_token;
#endif
    for (u32 n = thread_x(); n < CHUNK * DELTA_K / PIECE / 4; n += THREADS) {
        const u32 first = (n / 8 % 2 + n / (2 * DELTA_K / PIECE) * 2) * 4, row = (n % 8 + n / 16 % (DELTA_K / 64) * 8) * PIECE;
        // As words: the compiler would take loads of elements apart.
        Chunk parts[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            parts[i] = *(const Chunk*)(keys + chunk.token(first + i) * stride + row);
            if (first + i >= chunk.count) parts[i] = 0;
        }
#pragma unroll
        for (u32 e = 0; e < PIECE; ++e) {
            const u32 word = e / 2, shift = e % 2 * 16;
            Vec<u32, 2> across;
#pragma unroll
            for (u32 i = 0; i < 2; ++i)
                across[i] = (parts[2 * i][word] >> shift & 0xffff) | (parts[2 * i + 1][word] >> shift << 16);
            store<2>((u32*)&lds.keys[row + e][(first / PIECE ^ key_turn(row + e)) * PIECE + first % PIECE], across);
        }
    }
    barrier();
}

// A lane's columns of one token's values or outputs, eight on end at a time: sum number e of them is of block e / SUMS.
#define SUMS (ARCH_WAVE_SIZE == 64 ? 4 : 8)
static_assert(M::ACC == SUMS, "as columns are shared out");
RF_FN void read_values(const T* from, float (&to)[COLUMN_BLOCKS * SUMS]) {
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCKS * SUMS; n += 8) {
        const T* at = from + own_column(n / SUMS, 0);
        Vec<T, 8> part;
#if DELTA_VEC == 8
        part = load<8>(at);
#else
#pragma unroll
        for (int e = 0; e < 8; ++e) part[e] = at[e];
#endif
#pragma unroll
        for (int e = 0; e < 8; ++e) to[n + e] = cast<float>(part[e]);
    }
}
RF_FN void write_values(T* to, const float (&from)[COLUMN_BLOCKS * SUMS]) {
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCKS * SUMS; n += 8) {
        T* at = to + own_column(n / SUMS, 0);
        Vec<T, 8> part;
#pragma unroll
        for (int e = 0; e < 8; ++e) part[e] = cast<T>(from[n + e]);
#if DELTA_VEC == 8
        store<8>(at, part);
#else
#pragma unroll
        for (int e = 0; e < 8; ++e) at[e] = part[e];
#endif
    }
}

// One chunk: the output, and the state behind it. A lane has one token, and sums of its columns.
RF_FN void walk(const ChunkArgs& g, const Chunk64& chunk, u32 head, u32 column, const StateAt& at,
                M::Accumulator (&sums)[STATE_BLOCKS][1], Walked& lds) {
    const DeltaArgs& all = g.all;
    const u32 i = uniform(thread_x() / ARCH_WAVE_SIZE) * SIDE + line_of();
    const i64 own = chunk.token(i), line = own * all.heads.divisor + head;
    const Vec<float, 4> factors = load<4>(g.factors + line * 4);
    InLds columns[COLUMN_BLOCKS];
    float values[COLUMN_BLOCKS * SUMS];
    read_values(all.v + own * all.v_token + (i64)head * all.v_head + column, values);
    // Of keys, then of queries.
    M::Accumulator of_rows[2][COLUMN_BLOCKS] = {};
#if DELTA_ROWS
    const InMemory rows[2] = {{g.old_k + line * DELTA_K}, {g.old_q + line * DELTA_K}};
#else
    const u32 key_head = all.group.divide(head);
    const InMemory rows[2] = {{all.k + own * all.k_token + (i64)key_head * all.k_head},
                              {all.q + own * all.q_token + (i64)key_head * all.q_head}};
#endif
#pragma unroll
    for (u32 c = 0; c < COLUMN_BLOCKS; ++c) columns[c] = in_lds(lds.state, column_of(c, line_of()));
    add_products<DELTA_K>(columns, rows, of_rows);
#pragma unroll
    for (int c = 0; c < COLUMN_BLOCKS; ++c)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            element(lds.rest, own_column(c, v), i) = cast<T>(values[c * SUMS + v] - of_rows[0][c][v] * factors[0]);
            of_rows[1][c][v] *= factors[1];
        }
    barrier();
    M::Accumulator u[1][COLUMN_BLOCKS] = {};
    const InMemory t[1] = {{g.t + line * CHUNK}}, p[1] = {{g.p + line * CHUNK}};
#pragma unroll
    for (u32 c = 0; c < COLUMN_BLOCKS; ++c) columns[c] = in_lds(lds.rest, column_of(c, line_of()));
    add_products<CHUNK>(columns, t, u);
#pragma unroll
    for (int c = 0; c < COLUMN_BLOCKS; ++c)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            element(lds.u, own_column(c, v), i) = cast<T>((float)u[0][c][v]);
            // Behind the last row nothing is taken into the state.
            element(lds.u_last, own_column(c, v), i) = cast<T>(i < chunk.count ? u[0][c][v] * factors[2] : 0.0f);
            u[0][c][v] = of_rows[1][c][v];
        }
    barrier();
#pragma unroll
    for (u32 c = 0; c < COLUMN_BLOCKS; ++c) columns[c] = in_lds(lds.u, column_of(c, line_of()));
    add_products<CHUNK>(columns, p, u);
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCKS * SUMS; ++n) values[n] = u[0][n / SUMS][n % SUMS] * all.scale;
    if (i < chunk.count) write_values(all.out + own * all.out_token + (i64)head * all.out_head + column, values);
#if DELTA_ROWS
    const float* lasts = g.lasts + ((i64)chunk.place * all.heads.divisor + head) * DELTA_K;
#else
    const float decay = g.factors[((i64)(chunk.first + chunk.count - 1) * all.heads.divisor + head) * 4 + 3];
#endif
    const InLds last[1] = {in_lds(lds.u_last, state_column_of(at.block, line_of()))};
    InLds keys[STATE_BLOCKS];
#pragma unroll
    for (int n = 0; n < STATE_BLOCKS; ++n) {
        const u32 row = at.row(n);
        keys[n].row = lds.keys[row];
        keys[n].turn = key_turn(row);
#if DELTA_ROWS
        const float decay = lasts[row];
#endif
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) sums[n][0][v] *= decay;
    }
    add_products<CHUNK>(last, keys, sums);
    barrier();
    show_state(at, sums, lds);
    barrier();
}

extern "C" __global__ __launch_bounds__(THREADS) RESIDENT void delta_walk(ChunkArgs g) {
    __shared__ Walked lds;
    const DeltaArgs& all = g.all;
    const u32 line = all.tiles.divide(group_x()), column = (group_x() - line * all.tiles.divisor) * TILE;
    const u32 number = all.heads.divide(line), head = line - number * all.heads.divisor;
    Sequence sequence;
    sequence.read(all, number);
    const u32 ROWS = THREADS / TILE, row = thread_x() / TILE;
    T* own = all.out + (i64)head * all.out_head + column + thread_x() % TILE;
    Spare spare;
    spare.read(all);
    for (u32 n = number * ROWS + row; n < spare.count; n += all.sequences * ROWS)
        own[(i64)spare.token(n) * all.out_token] = cast<T>(0.0f);
    if (sequence.count == 0) return;
    if (!sequence.is_there) {
        for (u32 n = row; n < sequence.count; n += ROWS) own[(i64)(sequence.first + n) * all.out_token] = cast<T>(0.0f);
        return;
    }
    const i64 place = (i64)head * all.state_head + (i64)column * all.state_column;
    StateAt at;
    at.start();
    M::Accumulator sums[STATE_BLOCKS][1] = {};
    if (sequence.continues) read_state(all, all.states + (i64)sequence.from * all.state_slot + place, at, sums);
    show_state(at, sums, lds);
    for (u32 n = 0; n * CHUNK < sequence.count; ++n) {
        Chunk64 chunk;
        chunk.read(sequence, number, n);
        read_keys(g, chunk, head, lds);
        walk(g, chunk, head, column, at, sums, lds);
    }
    write_state(all, all.states + (i64)sequence.to * all.state_slot + place, at, sums);
}
