// plain: attention of f32 by multiply-add, for head sizes of 32 and 64 and scores that have a bias at most.
//
// Shapes : Q [batches, heads, q_rows, D], K, V [batches, heads / group, k_rows, D], bias [batches, heads, q_rows, k_rows] or
//          null, O like Q; strides in elements, last axes of Q, K, V and O 1
// Grid   : (ceil(q_rows / 32), heads, batches)     Block : (128, 1, 1)
// LDS    : 128 rows of K, then of V, 32 rows of Q and of weights; dynamic
// Needs  : k_rows >= 1, rows aligned to 16 bytes, O overlaps nothing             checked by the launcher
// Numeric: products, exponentials and sums in f32, keys in ascending order in KV tiles of 128, rescaled to the running maximum.
//          A row that sees nothing gives zeros; a NaN spoils its row only
//
// Macros : ATTENTION_D
//
// A lane has 4 queries, 8 apart, and of a KV tile's keys 8, 16 apart; of the result 4 rows and D / 16 columns. What it reads of LDS
// for each product is so half of what 2 queries by 2 keys would.
using namespace rf;

#define Q_TILE 32
#define KV_TILE 128
#define THREADS 128
#define PADDED (ATTENTION_D + 4)
// Two rows of weights meet no bank twice where a wave stores them.
#define WEIGHTS (KV_TILE + 16)
#define QUERIES 4
#define KEYS 8
#define COLUMNS (ATTENTION_D / 16)
#define PLAIN_LDS_BYTES (4 * ((KV_TILE + Q_TILE) * PADDED + Q_TILE * WEIGHTS))

struct PlainArgs {
    const float* q;
    const float* k;
    const float* v;
    const float* bias;
    float* out;
    i64 q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, out_batch, out_head, out_row;
    i64 bias_batch, bias_head, bias_row, bias_column;
    float scale;
    i32 group, q_rows, k_rows;
};
static_assert(sizeof(PlainArgs) == 184, "as in plain.rs");
static_assert(PLAIN_LDS_BYTES == ATTENTION_LDS_BYTES, "as in plain.rs");

// Moves rows from `first` on to LDS, where they are once `arrived` has returned and a barrier has followed; rows past the end
// become zeros. On NVIDIA's cards copies go past the registers, else a few at a time through them.
template <int ROWS> RF_FN void bring(float* lds, const float* base, i64 stride, int first, int rows) {
    const int PER_ROW = ATTENTION_D / 4, APART = THREADS / PER_ROW, LOADS = ROWS / APART;
    int row = (int)thread_x() / PER_ROW, at = (int)thread_x() % PER_ROW * 4;
    const float* from = base + (i64)(first + row) * stride + at;
    float* to = lds + row * PADDED + at;
    int left = rows - first - row;
#if !RF_DEVICE_AMD
    LdsAddress place = lds_address(to);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        copy_async(place + i * APART * PADDED * 4, from, i * APART < left);
        from += APART * stride;
    }
    async_commit();
#else
    const int HELD = LOADS < 8 ? LOADS : 8;
    for (int i = 0; i < LOADS; i += HELD) {
        Vec<float, 4> held[HELD];
#pragma unroll
        for (int h = 0; h < HELD; ++h) {
            if ((i + h) * APART < left) {
                held[h] = load<4>(from);
            } else {
                __builtin_memset(&held[h], 0, sizeof(held[h]));
            }
            from += APART * stride;
        }
#pragma unroll
        for (int h = 0; h < HELD; ++h) store<4>(to + (i + h) * APART * PADDED, held[h]);
    }
#endif
}
RF_FN void arrived() {
#if !RF_DEVICE_AMD
    async_wait<0>();
#endif
}

// Lanes of a row are those that differ in bits 0, 2, 3 and 4: NVIDIA reads 16 bytes for half a warp at once where lanes in pairs
// read the same.
template <class Op> RF_FN float across_row(float value, Op op) {
    value = op(value, shuffle_xor(value, 1));
    value = op(value, shuffle_xor(value, 4));
    value = op(value, shuffle_xor(value, 8));
    return op(value, shuffle_xor(value, 16));
}
// The larger; a NaN is passed over, and shows in the sum.
struct Larger { RF_FN float operator()(float a, float b) const { return __builtin_fmaxf(a, b); } };

// Where a lane is: its first row of a Q tile, its first key of a KV tile.
struct Lane {
    int row, column;
    RF_FN void start() {
        const int thread = (int)thread_x(), lane = thread >> 2 << 1 | (thread & 1);
        row = lane / 16 * 2 + (thread >> 1 & 1);
        column = lane % 16;
    }
};

// Products of a lane's queries with its keys.
RF_FN void multiply(const Lane& at, const float* lds_q, const float* lds_k, float (&score)[QUERIES][KEYS]) {
#pragma unroll
    for (int i = 0; i < QUERIES * KEYS; ++i) score[i / KEYS][i % KEYS] = 0.0f;
#pragma unroll 2
    for (int d = 0; d < ATTENTION_D; d += 4) {
        Vec<float, 4> mine[QUERIES], theirs[KEYS];
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) mine[i] = load<4>(lds_q + (at.row + 8 * i) * PADDED + d);
#pragma unroll
        for (int j = 0; j < KEYS; ++j) theirs[j] = load<4>(lds_k + (at.column + 16 * j) * PADDED + d);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int i = 0; i < QUERIES; ++i)
#pragma unroll
                for (int j = 0; j < KEYS; ++j) score[i][j] = rf::fma(mine[i][e], theirs[j][e], score[i][j]);
    }
}

// Their exponents of 2. `bias_row`: where a query's row of it begins.
RF_FN void finish_scores(const PlainArgs& g, const Lane& at, int first, const float* bias, const i64* bias_row,
                         float (&score)[QUERIES][KEYS]) {
    const float LOG2_E = 1.44269504088896340736f;
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
        int key = first + at.column + 16 * j;
        bool there = key < g.k_rows;
        i64 place = there ? key * g.bias_column : 0;
        // A mask of padding is the same for all queries.
        bool has_rows = g.bias_row != 0;
        float same = g.bias && !has_rows ? bias[place] : 0.0f;
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            float more = g.bias && has_rows ? bias[place + bias_row[i]] : same;
            score[i][j] = there ? (score[i][j] * g.scale + more) * LOG2_E : -__builtin_inff();
        }
    }
}

// Sums of a lane's queries: maxima, weights, and weighted values.
struct Sums {
    float base[QUERIES], weight[QUERIES], value[QUERIES][COLUMNS];

    RF_FN void start() {
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            base[i] = -__builtin_inff();
            weight[i] = 0.0f;
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) value[i][c] = 0.0f;
        }
    }
    // Scores become weights in LDS, sums are brought to the new maxima.
    RF_FN void weigh(const Lane& at, const float (&score)[QUERIES][KEYS], float* lds_p) {
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            float high = base[i];
#pragma unroll
            for (int j = 0; j < KEYS; ++j) high = __builtin_fmaxf(high, score[i][j]);
            high = across_row(high, Larger());
            // Where nothing was seen yet, there is nothing to shift by.
            float from = high == -__builtin_inff() ? 0.0f : high, by = exp2_fast(base[i] - from);
            base[i] = high;
            weight[i] *= by;
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) value[i][c] *= by;
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float one = exp2_fast(score[i][j] - from);
                weight[i] += one;
                lds_p[(at.row + 8 * i) * WEIGHTS + at.column + 16 * j] = one;
            }
        }
    }
    RF_FN void add(const Lane& at, const float* lds_p, const float* lds_v) {
#pragma unroll 2
        for (int key = 0; key < KV_TILE; key += 4) {
            Vec<float, 4> mine[QUERIES];
            float theirs[4][COLUMNS];
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) mine[i] = load<4>(lds_p + (at.row + 8 * i) * WEIGHTS + key);
#pragma unroll
            for (int e = 0; e < 4; ++e)
                *(Vec<float, COLUMNS>*)theirs[e] = load<COLUMNS>(lds_v + (key + e) * PADDED + at.column * COLUMNS);
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int i = 0; i < QUERIES; ++i)
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) value[i][c] = rf::fma(mine[i][e], theirs[e][c], value[i][c]);
        }
    }
};

// NVIDIA's multiprocessors have LDS for three workgroups with heads of 64.
extern "C" __global__ RF_BOUNDS(THREADS, 3) void attention_plain(PlainArgs g) {
    extern __shared__ __attribute__((aligned(16))) float lds[];
    float *lds_k = lds, *lds_q = lds_k + KV_TILE * PADDED, *lds_p = lds_q + Q_TILE * PADDED;
    Lane at;
    at.start();
    const int first_query = (int)group_x() * Q_TILE;
    const i64 head = group_y(), batch = group_z(), shared = head / g.group;
    const float* k = g.k + batch * g.k_batch + shared * g.k_head;
    const float* v = g.v + batch * g.v_batch + shared * g.v_head;

    bring<Q_TILE>(lds_q, g.q + batch * g.q_batch + head * g.q_head, g.q_row, first_query, g.q_rows);
    const float* bias = g.bias + batch * g.bias_batch + head * g.bias_head;
    i64 bias_row[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
        int query = first_query + at.row + 8 * i;
        bias_row[i] = (query < g.q_rows ? query : g.q_rows - 1) * g.bias_row;
    }
    Sums sums;
    sums.start();
    for (int first = 0; first < g.k_rows; first += KV_TILE) {
        barrier();
        bring<KV_TILE>(lds_k, k, g.k_row, first, g.k_rows);
        arrived();
        barrier();
        float score[QUERIES][KEYS];
        multiply(at, lds_q, lds_k, score);
        finish_scores(g, at, first, bias, bias_row, score);
        // Nobody reads the keys any more.
        barrier();
        bring<KV_TILE>(lds_k, v, g.v_row, first, g.k_rows);
        sums.weigh(at, score, lds_p);
        arrived();
        barrier();
        sums.add(at, lds_p, lds_k);
    }
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
        float total = across_row(sums.weight[i], Sum()), by = total == 0.0f ? 0.0f : 1.0f / total;
        int query = first_query + at.row + 8 * i;
        Vec<float, COLUMNS> result;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) result[c] = sums.value[i][c] * by;
        if (query < g.q_rows)
            store<COLUMNS>(g.out + batch * g.out_batch + head * g.out_head + query * g.out_row + at.column * COLUMNS, result);
    }
}
