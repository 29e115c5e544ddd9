// coded.h: what the kernels of C = A W share, W[k, n] = global * scale(k / block, n / block) * decode(code(k, n)): arguments, scales,
// codes as floats, and where a sum goes. Stands before q_matmul.hip and few.hip, and has q_matmul_sum in it.
//
// Shapes : A [M, K], C [M, N], any strides in elements; words [K, N] with one axis packed, strides in words
// Grid   : q_matmul_sum (ceil(N / 256), M, 1)                               adds up the slices            Block : (256, 1, 1)
//
// Where products are grouped (Q_GROUPED), M is rows of groups, each with words and scales of its own, and K is not cut: the grid's second
// axis is as many tiles of rows as they can fill at most, those past the last group's do nothing. A group's rows are those of a product of
// its own: `go_to_tile` makes it from the arguments.
//
// Where they are listed (Q_GROUPED 5) listed.h has `go_to_tile`.
//
// Macros : Q_IN type of A, Q_OUT of C; Q_FORMAT, Q_WORD, Q_PER codes of a word; Q_LATE: scales do not vary along K; Q_GROUPED: 0 for one
//          product, 5 for a list, else as groups.hip says; Q_EPILOGUE: 1 where the text of a `fusion` epilogue stands in front of this
//          one: it stores what it computes of C, and nothing else is stored

typedef Q_IN In;
typedef Q_OUT Out;
typedef Format<Q_FORMAT> Code;

struct QMatmulArgs {
    const In* a;
    const Q_WORD* words;
    const void* scales;
    const float* global;
    void* c;  // Out, or float where there are slices
    i64 a_row, a_k, w_k, w_n, s_k, s_n, c_row, c_col, c_slice;
    FastDiv block_k, block_n;
    u32 m, n, k, slice_k, scale_kind, a_vector;
#if Q_GROUPED
    const i32* bounds;
    const i32* choices;
    i64 w_group, s_group_bytes;
    u32 groups, group_rows, each, a_rows;
    u32 first_row, unused;  // of the group, once it is found
#endif
#if Q_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#define Q_ARGS_BYTES (Q_GROUPED ? 216 : 160)
#if Q_EPILOGUE
static_assert(sizeof(QMatmulArgs) == Q_ARGS_BYTES + sizeof(EpilogueArgs), "as in q_matmul.rs and grouped.rs");
#else
static_assert(sizeof(QMatmulArgs) == Q_ARGS_BYTES, "as in q_matmul.rs and grouped.rs");
#endif

#if Q_GROUPED == 3
typedef ListedRows RowsOfA;
#else
typedef AllRows RowsOfA;
#endif
#if Q_GROUPED != 5
// Where a workgroup's tile of TILE rows begins. Where products are grouped, `g` becomes that of the tile's group; whether there is one.
template <int TILE> RF_FN bool go_to_tile(QMatmulArgs& g, RowsOfA& rows, u32& first_row) {
    first_row = group_y() * TILE;
#if Q_GROUPED
    Group<Q_GROUPED, TILE> group;
    if (!group.find(g, group_y())) return false;
    first_row = group.tile * TILE;
    g.m = group.rows;
    g.first_row = group.first;
    g.words += (i64)group.number * g.w_group;
    g.scales = (const char*)g.scales + (i64)group.number * g.s_group_bytes;
#if Q_GROUPED == 3
    rows.choices = g.choices + group.first;
    rows.each = g.each;
    rows.last = g.a_rows - 1;
#else
    g.a += (i64)group.first * g.a_row;
#endif
#if !Q_EPILOGUE
    g.c = (Out*)g.c + (i64)group.first * g.c_row;
#endif
#endif
    return true;
}
#endif

RF_FN float global_of(const QMatmulArgs& g) { return g.global ? *g.global : 1.0f; }
// global * scale of an element, which may lie past the ends.
RF_FN float scale_of(const QMatmulArgs& g, float global, u32 k, u32 n) {
    k = k < g.k ? k : g.k - 1;
    n = n < g.n ? n : g.n - 1;
    i64 at = g.block_k.divide(k) * g.s_k + g.block_n.divide(n) * g.s_n;
    return global * read_scale(g.scales, at, g.scale_kind);
}
template <class S, int COUNT> RF_FN void neighbours(const void* scales, i64 at, float global, float* to) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = global * cast<float>(((const S*)scales)[at + i]);
}
// The scales of COUNT columns, where they lie side by side; whether they do.
template <int COUNT> RF_FN bool side_by_side(const QMatmulArgs& g, float global, u32 k, u32 col, float* to) {
    if (!g.scales || g.s_n != 1 || g.block_n.divisor != 1 || col + COUNT > g.n || g.scale_kind > RF_SCALE_BF16) return false;
    i64 at = g.block_k.divide(k < g.k ? k : g.k - 1) * g.s_k + col;
    if (g.scale_kind == RF_SCALE_F32) neighbours<float, COUNT>(g.scales, at, global, to);
    else if (g.scale_kind == RF_SCALE_F16) neighbours<f16, COUNT>(g.scales, at, global, to);
    else neighbours<bf16, COUNT>(g.scales, at, global, to);
    return true;
}
RF_FN float decode_at(u32 word, int i) { return Code::decode((word >> (i * Code::BITS)) & ((1u << Code::BITS) - 1u)); }

// Codes of a word as floats. Whole numbers become the mantissa of a power of two where they stand, from which it is taken away
// again, with what makes them positive: an operation and a subtraction, both exact.
struct Codes {
    u32 low, high;
    RF_FN void start(u32 word) {
        low = word;
        if (Q_FORMAT <= 2) low ^= Code::BITS == 8 ? 0x80808080u : Code::BITS == 4 ? 0x88888888u : 0xaaaaaaaau;
        high = low >> 16;
    }
    RF_FN float operator[](int i) const {
        if (Q_FORMAT > 2) return decode_at(low, i);
        const int at = i * Code::BITS, shift = at + Code::BITS > 23 ? at - 16 : at;
        u32 bits = (at + Code::BITS > 23 ? high : low) & (((1u << Code::BITS) - 1u) << shift);
        const u32 away = (1u << (23 - shift)) + (1u << (Code::BITS - 1));
        return bit_cast<float>(bits | (u32)(150 - shift) << 23) - (float)away;
    }
};

template <class T> RF_FN void put(const QMatmulArgs& g, T* c, u32 row, u32 col, float sum, float scale) {
    c[(i64)row * g.c_row + (i64)col * g.c_col] = cast<T>(sum * scale);
}
// One element of C: of a slice it is the bare sum, which q_matmul_sum finishes.
RF_FN void finish(const QMatmulArgs& g, u32 slice, u32 row, u32 col, float sum, float global) {
#if Q_EPILOGUE
    Epilogue epilogue;
    epilogue.start(g.epilogue);
    epilogue.put(g.epilogue, g.first_row + row, col, cast<Out>(sum * (Q_LATE ? scale_of(g, global, 0, col) : 1.0f)));
#else
    if (g.c_slice) {
        put(g, (float*)g.c + slice * g.c_slice, row, col, sum, 1.0f);
    } else {
        put(g, (Out*)g.c, row, col, sum, Q_LATE ? scale_of(g, global, 0, col) : 1.0f);
    }
#endif
}

#if !Q_GROUPED
extern "C" __global__ __launch_bounds__(256) void q_matmul_sum(QMatmulArgs g) {
    // `a` holds the slices as floats [slices][M][N], slice_k is their number.
    u32 col = group_x() * 256 + thread_x(), row = group_y();
    if (col >= g.n) return;
    const float* from = (const float*)(const void*)g.a + (i64)row * g.n + col;
    float sum = 0.0f;
    for (u32 slice = 0; slice < g.slice_k; ++slice) sum += from[(i64)slice * g.m * g.n];
    finish(g, 0, row, col, sum, global_of(g));
}
#endif
