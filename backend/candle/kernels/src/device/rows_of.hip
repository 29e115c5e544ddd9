// rows_of: a softmax or a norm of rows that a chain of elementwise kernels computes.
//
// Shapes : the chain's last result [rows, columns], dense; y like it; weight, bias [columns], null for 1 and 0
// Grid   : (rows, 1, 1)     Block : (64 or 256, 1, 1)             by `columns`, as rows.h says
// Numeric: the bits of the kernels one by one. Elements beyond those that lanes keep are computed anew, and stored again
//
// Macros : CANDLE_ROWS 0 softmax, 1 rmsnorm, 2 layernorm; CANDLE_T. `CandleChain` and `CandleChainArgs` stand in front.
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
extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void candle_rows_of(CANDLE_ARGUMENT RowsArgs a) {
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
    OfChain rows = {{a.chain}};
#if CANDLE_ROWS == 0
    softmax_row<CANDLE_T>(rows, a.y, a.columns, scratch);
#else
    norm_row<CANDLE_T, CANDLE_ROWS == 2>(rows, a.y, a.weight, a.bias, a.columns, a.eps, scratch);
#endif
}
