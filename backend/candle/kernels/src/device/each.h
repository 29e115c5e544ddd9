// each.h: the walk of kernels over elements. A workgroup of CANDLE_BLOCK lanes does CANDLE_BLOCK * V of them: where they are
// dense a lane does V that follow each other, by accesses of up to 16 bytes; otherwise every CANDLE_BLOCK-th.
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
template <int V, class T> RF_FN void store_run(T* to, const T* from) {
    const int N = PerAccess<T, V>::value;
    for (int i = 0; i < V; i += N) {
        Vec<T, N> part;
        for (int j = 0; j < N; ++j) part[j] = from[i + j];
        store<N>(to + i, part);
    }
}

#define CANDLE_DENSE 0
#define CANDLE_STRIDED 1

// Calls f.run(n) for V dense elements from n, f.dense(n) and f.strided(n) for one.
template <int V, class F> RF_FN void each(u64 count, u32 walk, bool aligned, const F& f) {
    u32 first = group_x() * (CANDLE_BLOCK * V);
    if (walk == CANDLE_DENSE) {
        u32 n = first + thread_x() * V;
        if (aligned && (u64)n + V <= count) {
            f.run(n);
        } else {
            for (int j = 0; j < V; ++j)
                if ((u64)n + j < count) f.dense(n + j);
        }
    } else {
        for (int j = 0; j < V; ++j) {
            u32 n = first + j * CANDLE_BLOCK + thread_x();
            if (n < count) f.strided(n);
        }
    }
}

#endif
