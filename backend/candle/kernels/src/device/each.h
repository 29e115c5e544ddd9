// each.h: workgroups of kernels with a lane per element or line, and runs of elements that a lane reads.
#ifndef CANDLE_EACH_H
#define CANDLE_EACH_H

#define CANDLE_BLOCK 256

// How many elements of T one access moves, at most V.
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

#endif
