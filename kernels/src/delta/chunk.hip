// chunk: the gated delta rule, CHUNK tokens at a time, on the matrix unit
//
//   G the sums of g from the chunk's first token on, D_ij = e^(G_i - G_j), S the state before the chunk; of rows i and j <= i
//   A_ij = beta_i D_ij k_i . k_j for j < i,  T = (1 + A)^-1 beta,  P_ij = D_ij q_i . k_j       delta_chunks, chunk by chunk
//   U = T (v - e^G k S),  out = scale (e^G q S + P U),  S <- e^G_last S + k^T (e^(G_last - G) U)       delta_walk, from the first on
//
// Shapes : as delta.hip; workspace: T and P [tokens, heads, CHUNK], factors [tokens, heads, 4]
// Grid   : delta_chunks (sequences * heads, chunks of the longest sequence, 1), delta_walk (sequences * heads * tiles, 1, 1)
//          Block : (4 waves, 1, 1); a tile is TILE columns of a state, which lie in registers across, [columns, rows]
// LDS    : two f32 matrices of a chunk; a state's tile, the keys of a chunk and three tiles of a chunk, in DELTA_TYPE
// Needs  : DELTA_K a multiple of 64, at most 128; columns a multiple of TILE; rows of q and k aligned to 16 bytes; one decay for all
//          rows of a state                                                                 checked by the launcher
// Numeric: sums, states, A and its inverse in f32, G in f64; T, P, U, v - e^G k S and, as it is read, S are rounded to DELTA_TYPE.
//          The scale comes last: some units take subnormal operands for zeros. A NaN spoils its chunk and what is behind it. A head's
//          bits depend on its own sequence alone
//
// Macros : as delta.h
#define CHUNK 64
#define WAVES 4
#define THREADS (WAVES * ARCH_WAVE_SIZE)
#define TILE 32
// Sides of the matrix unit's products, and of the blocks in which A is inverted.
#define SIDE 16
#define BLOCKS (CHUNK / SIDE)
// Rows of matrices in LDS, apart so that lanes of a column meet few banks.
#define CHUNK_ROW (CHUNK + 8)
#define KEY_ROW (DELTA_K + 8)
#define FLOAT_ROW (CHUNK + 1)

typedef Mma<T, SIDE> M;
typedef Fragment<T, SIDE> F;

struct ChunkArgs {
    DeltaArgs all;
    T *t, *p;
    float* factors;
};
static_assert(sizeof(ChunkArgs) == 328, "as in delta.rs");

// Adds the product of rows that begin at `a` and columns that begin at `b`, LENGTH of both: the lane's own.
template <int LENGTH> RF_FN void add_product(const T* a, const T* b, M::Accumulator& sum) {
#pragma unroll
    for (int k = 0; k < LENGTH; k += F::GROUP) {
        M::Operand left[F::STEPS], right[F::STEPS];
        F::read(a + k, left);
        F::read(b + k, right);
#pragma unroll
        for (int s = 0; s < F::STEPS; ++s) sum = M::run(left[s], right[s], sum);
    }
}
// The lane's row of a fragment, and its first element there.
RF_FN u32 line_of() { return lane() % SIDE; }
RF_FN u32 part_of() { return (u32)F::offset((int)(lane() / SIDE)); }

// A chunk's tokens.
struct Chunk64 {
    u32 first, count;

    RF_FN void read(const Sequence& sequence, u32 number) {
        const u32 left = sequence.count - number * CHUNK;
        first = sequence.first + number * CHUNK;
        count = left < CHUNK ? left : CHUNK;
    }
    // The token of a row; of rows behind the last, the last.
    RF_FN i64 token(u32 row) const { return (i64)(first + (row < count ? row : count - 1)); }
};

// LDS of delta_chunks.
struct Made {
    float a[CHUNK][FLOAT_ROW], t[CHUNK][FLOAT_ROW];
    double sums[CHUNK];  // G
    float g[CHUNK], beta[CHUNK], by_k[CHUNK], by_q[CHUNK];
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
        float bias = 0.0f;
#if DELTA_GATES != 0
        bias = g.dt_bias[head];
#endif
        const float log = decay_log(g, cast<float>(g.a[token * g.a_token + (i64)head * g.a_head]), rate_of(g, head), bias);
        // Less leaves nothing either, and two infinite sums have no difference.
        lds.g[row] = is_there ? (log < -1000.0f ? -1000.0f : log) : 0.0f;
        lds.beta[row] = is_there ? strength(cast<float>(g.b[token * g.b_token + (i64)head * g.b_head])) : 0.0f;
        lds.by_k[row] = is_there ? by_k : 0.0f;
        lds.by_q[row] = is_there ? by_q : 0.0f;
    }
    barrier();
    if (thread_x() < CHUNK) {
        double sum = 0.0;
        for (u32 i = 0; i <= thread_x(); ++i) sum += (double)lds.g[i];
        lds.sums[thread_x()] = sum;
    }
    barrier();
}

// A into LDS, P into memory: a wave has a block's rows.
RF_FN void make_products(const ChunkArgs& g, const Chunk64& chunk, u32 head, Made& lds) {
    const DeltaArgs& all = g.all;
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), key_head = all.group.divide(head);
    const T* keys = all.k + (i64)key_head * all.k_head + part_of();
    const u32 own = wave * SIDE + line_of();
    const T* own_key = keys + chunk.token(own) * all.k_token;
    const T* own_query = all.q + (i64)key_head * all.q_head + part_of() + chunk.token(own) * all.q_token;
#pragma unroll
    for (u32 block = 0; block < BLOCKS; ++block) {
        M::Accumulator of_keys = {}, of_queries = {};
        if (block <= wave) {
            const T* other = keys + chunk.token(block * SIDE + line_of()) * all.k_token;
            add_product<DELTA_K>(own_key, other, of_keys);
            add_product<DELTA_K>(own_query, other, of_queries);
        }
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 i = wave * SIDE + (u32)M::row(v, (int)lane()), j = block * SIDE + (u32)M::column(v, (int)lane());
            const float decay = j <= i ? rf::exp((float)(lds.sums[i] - lds.sums[j])) * lds.by_k[j] : 0.0f;
            lds.a[i][j] = j < i ? of_keys[v] * lds.beta[i] * lds.by_k[i] * decay : 0.0f;
            if (i >= chunk.count) continue;
            const i64 line = (i64)(chunk.first + i) * all.heads.divisor + head;
            g.p[line * CHUNK + j] = cast<T>(j <= i ? of_queries[v] * lds.by_q[i] * decay : 0.0f);
        }
    }
    barrier();
}

// The inverse of each block of 1 + A on the diagonal: a lane has a column.
RF_FN void invert_diagonal(Made& lds) {
    if (thread_x() < CHUNK) {
        const u32 first = thread_x() / SIDE * SIDE, column = thread_x() % SIDE;
        float x[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            x[i] = column == (u32)i ? 1.0f : 0.0f;
#pragma unroll
            for (int l = 0; l < i; ++l) x[i] = rf::fma(-lds.a[first + i][first + l], x[l], x[i]);
            lds.t[first + i][first + column] = x[i];
        }
    }
    barrier();
}

// (1 + A)^-1, block row after block row. A product that one is made of lies above the diagonal meanwhile.
RF_FN void invert(Made& lds) {
    invert_diagonal(lds);
    for (u32 row = 1; row < BLOCKS; ++row) {
        const u32 top = row * SIDE, elements = row * SIDE * SIDE;
        for (u32 n = thread_x(); n < elements; n += THREADS) {
            const u32 i = n / SIDE % SIDE, block = n / (SIDE * SIDE) * SIDE, column = block + n % SIDE;
            float sum = 0.0f;
            for (u32 l = block; l < top; ++l) sum = rf::fma(lds.a[top + i][l], lds.t[l][column], sum);
            lds.t[block + i][top + n % SIDE] = sum;
        }
        barrier();
        for (u32 n = thread_x(); n < elements; n += THREADS) {
            const u32 i = n / SIDE % SIDE, block = n / (SIDE * SIDE) * SIDE;
            float sum = 0.0f;
#pragma unroll
            for (u32 l = 0; l < SIDE; ++l) sum = rf::fma(lds.t[top + i][top + l], lds.t[block + l][top + n % SIDE], sum);
            lds.t[top + i][block + n % SIDE] = -sum;
        }
        barrier();
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void delta_chunks(ChunkArgs g) {
    alignas(16) __shared__ Made lds;
    const u32 number = g.all.heads.divide(group_x()), head = group_x() - number * g.all.heads.divisor;
    Sequence sequence;
    sequence.read(g.all, number);
    if (!sequence.is_there) return;
    for (u32 n = group_y(); n * CHUNK < sequence.count; n += g.all.chunks) {
        Chunk64 chunk;
        chunk.read(sequence, n);
        make_factors(g.all, chunk, head, lds);
        make_products(g, chunk, head, lds);
        invert(lds);
        for (u32 e = thread_x(); e < chunk.count * CHUNK; e += THREADS) {
            const u32 i = e / CHUNK, j = e % CHUNK;
            const float inverse = j / SIDE <= i / SIDE ? lds.t[i][j] * lds.beta[j] : 0.0f;
            g.t[((i64)(chunk.first + i) * g.all.heads.divisor + head) * CHUNK + j] = cast<T>(inverse);
        }
        if (thread_x() < chunk.count) {
            const u32 i = thread_x();
            const float decay = rf::exp((float)lds.sums[i]);
            Vec<float, 4> factors = {{lds.by_k[i] * decay, lds.by_q[i] * decay,
                                      lds.by_k[i] * rf::exp((float)(lds.sums[CHUNK - 1] - lds.sums[i])), decay}};
            store<4>(g.factors + ((i64)(chunk.first + i) * g.all.heads.divisor + head) * 4, factors);
        }
        barrier();
    }
}

// LDS of delta_walk: rows are columns of the state, of U and of v - e^G k S.
struct Walked {
    alignas(16) T state[TILE][KEY_ROW];
    alignas(16) T keys[DELTA_K][CHUNK_ROW];
    alignas(16) T rest[TILE][CHUNK_ROW], u[TILE][CHUNK_ROW], u_last[TILE][CHUNK_ROW];
    float factors[CHUNK][4];
};

// Products of a tile: a wave has a block's rows of a chunk and all columns; of the state 16 columns and half of the rows.
#define COLUMN_BLOCKS (TILE / SIDE)
#define STATE_BLOCKS (DELTA_K / SIDE / 2)
static_assert(WAVES == 2 * COLUMN_BLOCKS && WAVES == BLOCKS, "as waves share the work");

// Where a wave's part of the state's tile lies.
struct StateAt {
    u32 first_column, first_row;
    RF_FN void start() {
        const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        first_column = wave % COLUMN_BLOCKS * SIDE;
        first_row = wave / COLUMN_BLOCKS * (DELTA_K / 2);
    }
    RF_FN u32 column(int v) const { return first_column + (u32)M::row(v, (int)lane()); }
    RF_FN u32 row(int block, int v) const { return first_row + block * SIDE + (u32)M::column(v, (int)lane()); }
};

RF_FN void read_state(const DeltaArgs& g, const State* from, const StateAt& at, M::Accumulator (&sums)[STATE_BLOCKS]) {
#pragma unroll
    for (int block = 0; block < STATE_BLOCKS; ++block)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v)
            sums[block][v] = cast<float>(from[(i64)at.row(block, v) * g.state_row + (i64)at.column(v) * g.state_column]);
}
RF_FN void write_state(const DeltaArgs& g, State* to, const StateAt& at, const M::Accumulator (&sums)[STATE_BLOCKS]) {
#pragma unroll
    for (int block = 0; block < STATE_BLOCKS; ++block)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v)
            to[(i64)at.row(block, v) * g.state_row + (i64)at.column(v) * g.state_column] = cast<State>((float)sums[block][v]);
}
RF_FN void show_state(const StateAt& at, const M::Accumulator (&sums)[STATE_BLOCKS], Walked& lds) {
#pragma unroll
    for (int block = 0; block < STATE_BLOCKS; ++block)
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) lds.state[at.column(v)][at.row(block, v)] = cast<T>((float)sums[block][v]);
}

// The keys of a chunk, turned, and its factors: zeros behind the last row.
RF_FN void read_chunk(const ChunkArgs& g, const Chunk64& chunk, u32 head, Walked& lds) {
    const DeltaArgs& all = g.all;
    const T* keys = all.k + (i64)all.group.divide(head) * all.k_head;
    for (u32 n = thread_x(); n < CHUNK * DELTA_K / 8; n += THREADS) {
        const u32 i = n % CHUNK, row = n / CHUNK * 8;
        Vec<T, 8> part = load<8>(keys + chunk.token(i) * all.k_token + row);
#pragma unroll
        for (int e = 0; e < 8; ++e) lds.keys[row + e][i] = i < chunk.count ? part[e] : cast<T>(0.0f);
    }
    if (thread_x() < CHUNK) {
        const u32 i = thread_x();
        Vec<float, 4> factors = load<4>(g.factors + (chunk.token(i) * all.heads.divisor + head) * 4);
        // Behind the last row nothing is taken into the state.
        factors[2] = i < chunk.count ? factors[2] : 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) lds.factors[i][e] = factors[e];
    }
    barrier();
}

// One chunk: the output, and the state behind it.
RF_FN void walk(const ChunkArgs& g, const Chunk64& chunk, u32 head, u32 column, const StateAt& at, M::Accumulator (&sums)[STATE_BLOCKS],
                Walked& lds) {
    const DeltaArgs& all = g.all;
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), key_head = all.group.divide(head);
    const i64 own = chunk.token(wave * SIDE + line_of()), line = (own * all.heads.divisor + head) * CHUNK + part_of();
    M::Accumulator of_keys[COLUMN_BLOCKS] = {}, of_queries[COLUMN_BLOCKS] = {}, u[COLUMN_BLOCKS] = {};
#pragma unroll
    for (int c = 0; c < COLUMN_BLOCKS; ++c) {
        const T* state = &lds.state[c * SIDE + line_of()][part_of()];
        add_product<DELTA_K>(all.k + own * all.k_token + (i64)key_head * all.k_head + part_of(), state, of_keys[c]);
        add_product<DELTA_K>(all.q + own * all.q_token + (i64)key_head * all.q_head + part_of(), state, of_queries[c]);
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 i = wave * SIDE + (u32)M::row(v, (int)lane()), n = c * SIDE + (u32)M::column(v, (int)lane());
            const float value = cast<float>(all.v[chunk.token(i) * all.v_token + (i64)head * all.v_head + column + n]);
            lds.rest[n][i] = cast<T>(value - of_keys[c][v] * lds.factors[i][0]);
        }
    }
    barrier();
#pragma unroll
    for (int c = 0; c < COLUMN_BLOCKS; ++c) {
        add_product<CHUNK>(g.t + line, &lds.rest[c * SIDE + line_of()][part_of()], u[c]);
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 i = wave * SIDE + (u32)M::row(v, (int)lane()), n = c * SIDE + (u32)M::column(v, (int)lane());
            lds.u[n][i] = cast<T>((float)u[c][v]);
            lds.u_last[n][i] = cast<T>(i < chunk.count ? u[c][v] * lds.factors[i][2] : 0.0f);
            of_queries[c][v] *= lds.factors[i][1];
        }
    }
    barrier();
#pragma unroll
    for (int c = 0; c < COLUMN_BLOCKS; ++c) {
        add_product<CHUNK>(g.p + line, &lds.u[c * SIDE + line_of()][part_of()], of_queries[c]);
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) {
            const u32 i = wave * SIDE + (u32)M::row(v, (int)lane()), n = c * SIDE + (u32)M::column(v, (int)lane());
            T* to = all.out + (i64)(chunk.first + i) * all.out_token + (i64)head * all.out_head + column + n;
            if (i < chunk.count) *to = cast<T>(of_queries[c][v] * all.scale);
        }
    }
    const float decay = lds.factors[chunk.count - 1][3];
#pragma unroll
    for (int block = 0; block < STATE_BLOCKS; ++block) {
#pragma unroll
        for (int v = 0; v < M::ACC; ++v) sums[block][v] *= decay;
        add_product<CHUNK>(&lds.u_last[at.first_column + line_of()][part_of()],
                           &lds.keys[at.first_row + block * SIDE + line_of()][part_of()], sums[block]);
    }
    show_state(at, sums, lds);
    barrier();
}

extern "C" __global__ __launch_bounds__(THREADS) void delta_walk(ChunkArgs g) {
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
    M::Accumulator sums[STATE_BLOCKS] = {};
    if (sequence.continues) read_state(all, all.states + (i64)sequence.from * all.state_slot + place, at, sums);
    show_state(at, sums, lds);
    for (u32 n = 0; n * CHUNK < sequence.count; ++n) {
        Chunk64 chunk;
        chunk.read(sequence, n);
        read_chunk(g, chunk, head, lds);
        walk(g, chunk, head, column, at, sums, lds);
    }
    write_state(all, all.states + (i64)sequence.to * all.state_slot + place, at, sums);
}
