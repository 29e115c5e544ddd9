// thin: products of a few rows with rows of weights, several in one launch.
//
//   y[r, n] = the sum over k of x[r, k] * w[n, k]
//
// Shapes : each x [CANDLE_ROWS, columns], w [outputs, columns], y [CANDLE_ROWS, outputs], with strides between rows
// Grid   : (the sum of ceil(outputs / (CANDLE_LINES * waves of a workgroup)), 1, 1)     Block : (256, 1, 1)
// Numeric: each wave sums CANDLE_LINES rows of weights in f32, a lane V elements at a time, then over the lanes: an order
//          that columns, types and the architecture decide; x of another type is rounded to the weights' first
// Needs  : no member writes what another reads or writes                  checked by whoever merges them
//
// Macros : CANDLE_NAME; types CANDLE_T (weights and results) and CANDLE_X; CANDLE_ROWS; CANDLE_SEVERAL members at most
#ifndef CANDLE_THIN_H
#define CANDLE_THIN_H
// Rows of weights of a wave.
#define CANDLE_LINES 2

struct ThinMember { u64 x, w, y; u32 columns, outputs, x_stride, w_stride, y_stride, first; };

template <class T, class X, int V> struct Thin {
    const ThinMember& m;
    float sums[CANDLE_LINES][CANDLE_ROWS];

    RF_FN void part(const T* const* lines, const X* x, u32 k) {
        T w[CANDLE_LINES][V];
        for (int line = 0; line < CANDLE_LINES; ++line) load_run<V>(lines[line] + k, w[line]);
        for (int row = 0; row < CANDLE_ROWS; ++row) {
            X given[V];
            load_run<V>(x + (u64)row * m.x_stride + k, given);
            for (int j = 0; j < V; ++j) {
                float value = Wide<T>::of(Moved<X, T>::of(given[j]));
                for (int line = 0; line < CANDLE_LINES; ++line)
                    sums[line][row] = rf::fma(Wide<T>::of(w[line][j]), value, sums[line][row]);
            }
        }
    }
    RF_FN void run(u32 n) {
        const T* lines[CANDLE_LINES];
        for (int line = 0; line < CANDLE_LINES; ++line) {
            u32 at = n + line < m.outputs ? n + line : m.outputs - 1;
            lines[line] = (const T*)m.w + (u64)at * m.w_stride;
            for (int row = 0; row < CANDLE_ROWS; ++row) sums[line][row] = 0.0f;
        }
        const u32 STEP = ARCH_WAVE_SIZE * V;
        u32 k = lane() * V;
#pragma unroll 4
        for (; k + V <= m.columns; k += STEP) part(lines, (const X*)m.x, k);
        T* y = (T*)m.y;
        for (int line = 0; line < CANDLE_LINES; ++line)
            for (int row = 0; row < CANDLE_ROWS; ++row) {
                float sum = wave_reduce(sums[line][row], Sum());
                if (lane() == 0 && n + line < m.outputs) y[(u64)row * m.y_stride + n + line] = cast<T>(sum);
            }
    }
};
#endif

struct ThinProducts { u32 count, unused; ThinMember member[CANDLE_SEVERAL]; };
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT ThinProducts a) {
    u32 at = 0;
    while (at + 1 < a.count && a.member[at + 1].first <= group_x()) ++at;
    const ThinMember& m = a.member[at];
    const u32 WAVES = CANDLE_BLOCK / ARCH_WAVE_SIZE;
    u32 n = ((group_x() - m.first) * WAVES + thread_x() / ARCH_WAVE_SIZE) * CANDLE_LINES;
    if (n >= m.outputs) return;
    const int V = 16 / (int)sizeof(CANDLE_T);
    bool whole = m.columns % V == 0 && m.w_stride % V == 0 && (CANDLE_ROWS == 1 || m.x_stride % V == 0) &&
                 is_aligned<CANDLE_T, V>((const CANDLE_T*)m.w) && is_aligned<CANDLE_X, V>((const CANDLE_X*)m.x);
    if (whole) {
        Thin<CANDLE_T, CANDLE_X, V> f = {m, {}};
        f.run(n);
    } else {
        Thin<CANDLE_T, CANDLE_X, 1> f = {m, {}};
        f.run(n);
    }
}
