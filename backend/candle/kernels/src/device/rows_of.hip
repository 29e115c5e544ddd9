// rows_of: a softmax or a norm of rows that a chain of elementwise kernels computes.
//
// Shapes : the chain's last result [rows, columns], dense; y like it; weight, bias [columns], null for 1 and 0
// Grid   : (rows, 1, 1)     Block : (64 or 256, 1, 1)             by `columns`, as rows.h says
//          of parts: (ceil(rows / 8), 1, 1) up to 512 columns, else (rows, 1, 1); always 256 lanes; 2048 columns at most
// Numeric: the bits of the kernels one by one. Elements beyond those that lanes keep are computed anew, and stored again
//
// Macros : CANDLE_ROWS 0 softmax, 1 rmsnorm, 2 layernorm, 3 a softmax of its parts: greatest, difference, exponential, sum,
//          quotient, each rounded to CANDLE_T; CANDLE_T; CANDLE_PARTS_KEPT elements of such a row at most for each of the lanes
//          that `reduce` gives it. `CandleChain` and `CandleChainArgs` stand in front.
struct RowsArgs {
    CandleChainArgs chain;
    CANDLE_T* y;
    const CANDLE_T *weight, *bias;
    i32 columns;
    float eps;
};
struct OfChain {
    CandleChain chain;
    template <int W> RF_FN void load(u64 n, CANDLE_T* to) const { chain.go<W>((u32)n, to); }
    template <int W> RF_FN bool has_runs() const { return chain.is_all_aligned<W>() && chain.has_all_runs<W>(); }
};
#if CANDLE_ROWS == 3
#define CANDLE_ROWS_TOGETHER 8
// A short row is one wave's, which has several at once where waves have as many lanes as `reduce` gives a row, and of each lane
// of a row two where they have half as many: sums have its order, and nobody waits for another wave.
template <class T> RF_FN void softmax_of_short_parts(const OfChain& x, T* y, u32 rows, u32 columns) {
    typedef typename Wide<T>::type W;
    typedef ExtremeState<T, W, true> Greatest;
    typedef SumState<T, W> Total;
    const u32 PARTS = CANDLE_ROWS_TOGETHER * CANDLE_SHORT_BLOCK / CANDLE_ROW_BLOCK;
    const bool OF_ONE_ROW = ARCH_WAVE_SIZE < CANDLE_SHORT_BLOCK;
    u32 wave = thread_x() / ARCH_WAVE_SIZE, lane = thread_x() % ARCH_WAVE_SIZE;
    u32 row[PARTS], from[PARTS], own[PARTS];
    T kept[PARTS][CANDLE_PARTS_KEPT];
    for (u32 p = 0; p < PARTS; ++p) {
        row[p] = group_x() * CANDLE_ROWS_TOGETHER + (OF_ONE_ROW ? wave : wave * PARTS + p);
        from[p] = OF_ONE_ROW ? p * ARCH_WAVE_SIZE + lane : lane;
        own[p] = row[p] < rows ? columns : 0;
        for (u32 i = 0, n = from[p]; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_SHORT_BLOCK)
            if (n < own[p]) x.load<1>((u64)row[p] * columns + n, &kept[p][i]);
    }
    Greatest greatest[PARTS];
    for (u32 p = 0; p < PARTS; ++p) {
        greatest[p] = Greatest::none();
        for (u32 i = 0, n = from[p]; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_SHORT_BLOCK)
            if (n < own[p]) greatest[p].take(Wide<T>::of(kept[p][i]), n);
        greatest[p] = wave_reduce(greatest[p], Both());
    }
    if (OF_ONE_ROW) greatest[0] = greatest[PARTS - 1] = Greatest::both(greatest[0], greatest[PARTS - 1]);
    Total total[PARTS];
    for (u32 p = 0; p < PARTS; ++p) {
        W max = Wide<T>::of(greatest[p].template result<T>((W)0, 0, 1));
        total[p] = Total::none();
        for (u32 i = 0, n = from[p]; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_SHORT_BLOCK) {
            if (n >= own[p]) continue;
            T difference = cast<T>(Sub::of(Wide<T>::of(kept[p][i]), max));
            kept[p][i] = cast<T>(Exp().of(Wide<T>::of(difference)));
            total[p].take(Wide<T>::of(kept[p][i]), n);
        }
        total[p] = wave_reduce(total[p], Both());
    }
    if (OF_ONE_ROW) total[0] = total[PARTS - 1] = Total::both(total[0], total[PARTS - 1]);
    for (u32 p = 0; p < PARTS; ++p) {
        W sum = Wide<T>::of(total[p].template result<T>((W)0, 0, 1));
        for (u32 i = 0, n = from[p]; i < CANDLE_PARTS_KEPT; ++i, n += CANDLE_SHORT_BLOCK)
            if (n < own[p]) y[(u64)row[p] * columns + n] = cast<T>(Div::of(Wide<T>::of(kept[p][i]), sum));
    }
}
// A row of a workgroup.
template <class T> RF_FN void softmax_of_parts(const OfChain& x, T* y, u32 columns) {
    typedef typename Wide<T>::type W;
    typedef ExtremeState<T, W, true> Greatest;
    typedef SumState<T, W> Total;
    __shared__ Greatest greatest_slots[CANDLE_ROW_BLOCK];
    __shared__ Total total_slots[CANDLE_ROW_BLOCK];
    // Lanes have the elements that they have in `reduce`, so that sums have its order.
    const u32 lanes = CANDLE_ROW_BLOCK;
    u32 lane = thread_x(), row = group_x(), own = columns;
    u64 first = (u64)row * columns;
    T kept[CANDLE_PARTS_KEPT];
    Greatest greatest = Greatest::none();
    for (u32 i = 0, n = lane; i < CANDLE_PARTS_KEPT; ++i, n += lanes) {
        if (n >= own) continue;
        x.load<1>(first + n, kept + i);
        greatest.take(Wide<T>::of(kept[i]), n);
    }
    greatest = group_reduce(greatest, Both(), greatest_slots, lane, lanes);
    W max = Wide<T>::of(greatest.template result<T>((W)0, 0, 1));
    Total total = Total::none();
    for (u32 i = 0, n = lane; i < CANDLE_PARTS_KEPT; ++i, n += lanes) {
        if (n >= own) continue;
        T difference = cast<T>(Sub::of(Wide<T>::of(kept[i]), max));
        kept[i] = cast<T>(Exp().of(Wide<T>::of(difference)));
        total.take(Wide<T>::of(kept[i]), n);
    }
    total = group_reduce(total, Both(), total_slots, lane, lanes);
    W sum = Wide<T>::of(total.template result<T>((W)0, 0, 1));
    for (u32 i = 0, n = lane; i < CANDLE_PARTS_KEPT; ++i, n += lanes)
        if (n < own) y[first + n] = cast<T>(Div::of(Wide<T>::of(kept[i]), sum));
}
#endif

extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void candle_rows_of(CANDLE_ARGUMENT RowsArgs a) {
    OfChain rows = {{a.chain}};
#if CANDLE_ROWS == 3
    if (a.columns <= CANDLE_SHORT_LINE) {
        softmax_of_short_parts<CANDLE_T>(rows, a.y, (u32)(a.chain.count / (u32)a.columns), (u32)a.columns);
    } else {
        softmax_of_parts<CANDLE_T>(rows, a.y, (u32)a.columns);
    }
#else
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
#if CANDLE_ROWS == 0
    softmax_row<CANDLE_T>(rows, a.y, a.columns, scratch);
#else
    norm_row<CANDLE_T, CANDLE_ROWS == 2>(rows, a.y, a.weight, a.bias, a.columns, a.eps, scratch);
#endif
#endif
}
