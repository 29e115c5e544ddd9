// rows_of: a softmax or a norm of rows that a chain of elementwise kernels computes.
//
// Shapes : the chain's last result [rows, columns], dense; y like it; weight, bias [columns], null for 1 and 0
// Grid   : (rows, 1, 1)     Block : (64 or 256, 1, 1)             by `columns`, as rows.h says
//          of parts: (ceil(rows / 8), 1, 1) up to 512 columns, else (rows, 1, 1); always 256 lanes; 2048 columns at most
// Numeric: the bits of the kernels one by one. Elements beyond those that lanes keep are computed anew, and stored again
//
// Macros : CANDLE_ROWS 0 softmax, 1 rmsnorm, 2 layernorm, 3 a softmax of its parts: greatest, difference, exponential, sum,
//          quotient, each rounded to CANDLE_T; CANDLE_T; CANDLE_PARTS_LANES that `reduce` gives such a row, CANDLE_PARTS_KEPT
//          elements of each at most. `Functor`, `Args` and `Elements` stand in front: src/each.rs
struct RowsArgs {
    Args chain;
    CANDLE_T* y;
    const CANDLE_T *weight, *bias;
    i32 columns;
    float eps;
};
struct OfChain {
    Elements chain;
    template <int W> RF_FN void load(u64 n, CANDLE_T* to) const { chain.template go<W, false>((u32)n, to); }
    template <int W> RF_FN bool has_runs() const { return chain.is_all_aligned<W>() && chain.has_all_runs<W>(); }
};
#if CANDLE_ROWS == 3
#if CANDLE_PARTS_LANES == CANDLE_ROW_BLOCK
// A row is the workgroup's.
#define CANDLE_PARTS 1
#else
// A row is one wave's, which has several at once where waves have as many lanes as `reduce` gives a row, and of each lane of a
// row two where they have half as many: sums have its order, and nobody waits for another wave.
#define CANDLE_ROWS_TOGETHER 8
#define CANDLE_PARTS (CANDLE_ROWS_TOGETHER * CANDLE_PARTS_LANES / CANDLE_ROW_BLOCK)
static const bool OF_ONE_ROW = ARCH_WAVE_SIZE < CANDLE_PARTS_LANES;
#endif
// What a lane has of a row: elements `from`, `from` + CANDLE_PARTS_LANES and so on below `end`.
struct RowPart {
    u64 first;
    u32 from, end;
    RF_FN void set(u32 p, u32 rows, u32 columns) {
#if CANDLE_PARTS == 1
        u32 row = group_x();
        from = thread_x();
#else
        u32 wave = thread_x() / ARCH_WAVE_SIZE, lane = thread_x() % ARCH_WAVE_SIZE;
        u32 row = group_x() * CANDLE_ROWS_TOGETHER + (OF_ONE_ROW ? wave : wave * CANDLE_PARTS + p);
        from = OF_ONE_ROW ? p * ARCH_WAVE_SIZE + lane : lane;
#endif
        first = (u64)row * columns;
        end = row < rows ? columns : 0;
    }
};
// Each part's state as its row's.
template <class State> RF_FN void reduce_parts(State* states) {
#if CANDLE_PARTS == 1
    __shared__ State slots[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
    *states = group_reduce(*states, Both(), slots, thread_x(), CANDLE_ROW_BLOCK);
#else
    for (u32 p = 0; p < CANDLE_PARTS; ++p) states[p] = wave_reduce(states[p], Both());
    if (OF_ONE_ROW) states[0] = states[CANDLE_PARTS - 1] = State::both(states[0], states[CANDLE_PARTS - 1]);
#endif
}
template <class T> RF_FN void softmax_of_parts(const OfChain& x, T* y, u32 rows, u32 columns) {
    typedef typename Wide<T>::type W;
    RowPart part[CANDLE_PARTS];
    T kept[CANDLE_PARTS][CANDLE_PARTS_KEPT];
    for (u32 p = 0; p < CANDLE_PARTS; ++p) {
        part[p].set(p, rows, columns);
        for (u32 i = 0, n = part[p].from; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_PARTS_LANES)
            if (n < part[p].end) x.load<1>(part[p].first + n, &kept[p][i]);
    }
    ExtremeState<T, W, true> greatest[CANDLE_PARTS];
    for (u32 p = 0; p < CANDLE_PARTS; ++p) {
        greatest[p] = greatest[p].none();
        for (u32 i = 0, n = part[p].from; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_PARTS_LANES)
            if (n < part[p].end) greatest[p].take(Wide<T>::of(kept[p][i]), n);
    }
    reduce_parts(greatest);
    SumState<T, W> total[CANDLE_PARTS];
    for (u32 p = 0; p < CANDLE_PARTS; ++p) {
        W max = Wide<T>::of(greatest[p].template result<T>((W)0, 0, 1));
        total[p] = total[p].none();
        for (u32 i = 0, n = part[p].from; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_PARTS_LANES) {
            if (n >= part[p].end) continue;
            T difference = cast<T>(Wide<T>::of(kept[p][i]) - max);
            kept[p][i] = cast<T>(rf::exp(Wide<T>::of(difference)));
            total[p].take(Wide<T>::of(kept[p][i]), n);
        }
    }
    reduce_parts(total);
    for (u32 p = 0; p < CANDLE_PARTS; ++p) {
        W sum = Wide<T>::of(total[p].template result<T>((W)0, 0, 1));
        for (u32 i = 0, n = part[p].from; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_PARTS_LANES)
            if (n < part[p].end) y[part[p].first + n] = cast<T>(Wide<T>::of(kept[p][i]) / sum);
    }
}
#endif

extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void candle_rows_of(CANDLE_ARGUMENT RowsArgs a) {
    OfChain rows = {{a.chain}};
#if CANDLE_ROWS == 3
    softmax_of_parts<CANDLE_T>(rows, a.y, (u32)(a.chain.count / (u32)a.columns), (u32)a.columns);
#else
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
#if CANDLE_ROWS == 0
    softmax_row<CANDLE_T>(rows, a.y, a.columns, scratch);
#else
    norm_row<CANDLE_T, CANDLE_ROWS == 2>(rows, a.y, a.weight, a.bias, a.columns, a.eps, scratch);
#endif
#endif
}
