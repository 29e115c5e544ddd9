// thin: products of a few rows of activations with rows of weights, several in one launch.
//
//   y[r, n] = the sum over k of x[r, k] * w[n, k]
//
// Shapes : each x [CANDLE_ROWS, columns], w [outputs, columns], y [CANDLE_ROWS, outputs], with strides between rows
// Grid   : (the sum of ceil(outputs / CANDLE_LINES) over the products, 1, 1); without CANDLE_SPLIT each of these is divided by the
//          waves of a workgroup, rounded up
// Block  : (256, 1, 1)
// LDS    : with CANDLE_SPLIT a float for each wave, row of weights and row of x; else none
// Numeric: a wave sums CANDLE_LINES rows of weights at once in f32, or with CANDLE_SPLIT all waves of a workgroup do: each lane 16
//          bytes of weights at a time, then over the lanes, then over the waves. Shapes, types and the architecture decide this
//          order. x of another type is first rounded to the weights' type
// Needs  : no member writes what another reads or writes                  checked by the plan that joins them
//
// Macros : CANDLE_NAME; types CANDLE_T (weights and results) and CANDLE_X; CANDLE_ROWS; CANDLE_SPLIT 0 or 1; CANDLE_SEVERAL
//          members at most
#ifndef CANDLE_THIN_H
#define CANDLE_THIN_H
// How many lanes a workgroup has.
#define CANDLE_BLOCK 256

// How many elements of T one access of at most 16 bytes moves, if V are wanted.
template <class T, int V> struct PerAccess {
    static const int value = V * (int)sizeof(T) <= 16 ? V : 16 / (int)sizeof(T);
};
template <class T, int V> RF_FN bool is_aligned(const T* p) {
    return ((u64)p & (PerAccess<T, V>::value * sizeof(T) - 1)) == 0;
}
template <int V, class T> RF_FN void load_run(const T* from, T* to) {
    const int N = PerAccess<T, V>::value;
    for (int i = 0; i < V; i += N) {
        Vec<T, N> part = load<N>(from + i);
        for (int j = 0; j < N; ++j) to[i + j] = part[j];
    }
}

// Rows of weights that a wave sums at once, or with CANDLE_SPLIT a workgroup.
#define CANDLE_LINES 2

// An element converted to another type; unchanged where that is its own.
template <class From, class To> struct Moved { RF_FN static To of(From x) { return cast<To>(Wide<From>::of(x)); } };
template <class T> struct Moved<T, T> { RF_FN static T of(T x) { return x; } };

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
    // Sums the rows of weights from row n on over the lanes of a wave. The lane is number `own` of the `lanes` that share each row.
    RF_FN void sum(u32 n, u32 own, u32 lanes) {
        const T* lines[CANDLE_LINES];
        for (int line = 0; line < CANDLE_LINES; ++line) {
            u32 at = n + line < m.outputs ? n + line : m.outputs - 1;
            lines[line] = (const T*)m.w + (u64)at * m.w_stride;
            for (int row = 0; row < CANDLE_ROWS; ++row) sums[line][row] = 0.0f;
        }
#pragma unroll 4
        for (u32 k = own * V; k + V <= m.columns; k += lanes * V) part(lines, (const X*)m.x, k);
        for (int line = 0; line < CANDLE_LINES; ++line)
            for (int row = 0; row < CANDLE_ROWS; ++row) sums[line][row] = wave_reduce(sums[line][row], Sum());
    }
    RF_FN void store(u32 n, int line, int row, float sum) const {
        if (n + line < m.outputs) ((T*)m.y)[(u64)row * m.y_stride + n + line] = cast<T>(sum);
    }
    RF_FN void by_wave(u32 n) {
        if (n >= m.outputs) return;
        sum(n, lane(), ARCH_WAVE_SIZE);
        for (int line = 0; line < CANDLE_LINES; ++line)
            for (int row = 0; row < CANDLE_ROWS; ++row)
                if (lane() == 0) store(n, line, row, sums[line][row]);
    }
    RF_FN void by_group(u32 n, float* scratch) {
        sum(n, thread_x(), CANDLE_BLOCK);
        const u32 SUMS = CANDLE_LINES * CANDLE_ROWS;
        for (int line = 0; line < CANDLE_LINES; ++line)
            for (int row = 0; row < CANDLE_ROWS; ++row)
                if (lane() == 0) scratch[thread_x() / ARCH_WAVE_SIZE * SUMS + line * CANDLE_ROWS + row] = sums[line][row];
        barrier();
        if (thread_x() < SUMS) {
            float total = scratch[thread_x()];
            for (u32 wave = 1; wave < CANDLE_BLOCK / ARCH_WAVE_SIZE; ++wave) total += scratch[wave * SUMS + thread_x()];
            store(n, thread_x() / CANDLE_ROWS, thread_x() % CANDLE_ROWS, total);
        }
    }
};

template <int V> RF_FN void thin_rows(const ThinMember& m, float* scratch) {
    Thin<CANDLE_T, CANDLE_X, V> f = {m, {}};
    u32 group = group_x() - m.first;
#if CANDLE_SPLIT
    f.by_group(group * CANDLE_LINES, scratch);
#else
    f.by_wave((group * (CANDLE_BLOCK / ARCH_WAVE_SIZE) + thread_x() / ARCH_WAVE_SIZE) * CANDLE_LINES);
#endif
}
#endif

struct ThinProducts { u32 count, unused; ThinMember member[CANDLE_SEVERAL]; };
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT ThinProducts a) {
    u32 at = 0;
    while (at + 1 < a.count && a.member[at + 1].first <= group_x()) ++at;
    const ThinMember& m = a.member[at];
#if CANDLE_SPLIT
    __shared__ float scratch[CANDLE_BLOCK / ARCH_WAVE_SIZE * CANDLE_LINES * CANDLE_ROWS];
#else
    float* scratch = 0;
#endif
    const int V = 16 / (int)sizeof(CANDLE_T);
    bool whole = m.columns % V == 0 && m.w_stride % V == 0 && (CANDLE_ROWS == 1 || m.x_stride % V == 0) &&
                 is_aligned<CANDLE_T, V>((const CANDLE_T*)m.w) && is_aligned<CANDLE_X, V>((const CANDLE_X*)m.x);
    if (whole) {
        thin_rows<V>(m, scratch);
    } else {
        thin_rows<1>(m, scratch);
    }
}
