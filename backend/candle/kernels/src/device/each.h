// each.h: the walk of elementwise kernels. A workgroup of CANDLE_BLOCK lanes does CANDLE_BLOCK * V elements: where the
// operands are dense, or come in runs along the last axis, a lane does V that follow each other, by accesses of up to 16
// bytes and with one computation of where they are; otherwise every CANDLE_BLOCK-th.
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

// Whether runs of V elements lie in the last axis of an operand: side by side, or one element that stands for all.
template <int V> RF_FN bool has_runs(const Info& info, u32 axes, u32 operand) {
    if (axes == 0 || info.words[axes - 1] % V != 0) return false;
    u64 step = info.words[operand * axes + axes - 1];
    if (step > 1) return false;
    for (u32 axis = 0; axis + 1 < axes; ++axis)
        if (step == 1 && info.words[axis] > 1 && info.words[operand * axes + axis] % V != 0) return false;
    return true;
}

// V elements of an operand from element n of the walk on.
template <int V, class T> RF_FN void load_strided(const Info& info, u32 axes, u32 operand, const T* from, u32 n, T* to) {
    const T* at = from + offset_of(info, axes, operand, n);
    if (info.words[operand * axes + axes - 1] == 1) {
        load_run<V>(at, to);
    } else {
        T value = *at;
        for (int j = 0; j < V; ++j) to[j] = value;
    }
}

#define CANDLE_DENSE 0
#define CANDLE_RUNS 1
#define CANDLE_STRIDED 2

// Calls f.run(n) for V dense elements from n, f.strided_run(n) for V of a run, f.dense(n) and f.strided(n) for one.
// `group` is the workgroup's number among those that do this.
template <int V, class F> RF_FN void each_of_group(u32 group, u64 count, u32 walk, bool aligned, const F& f) {
    u32 first = group * (CANDLE_BLOCK * V);
    if (walk == CANDLE_DENSE) {
        u32 n = first + thread_x() * V;
        if (aligned && (u64)n + V <= count) {
            f.run(n);
        } else {
            for (int j = 0; j < V; ++j)
                if ((u64)n + j < count) f.dense(n + j);
        }
    } else if (walk == CANDLE_RUNS && aligned) {
        // Whole runs fill the last axis: there is no rest.
        u32 n = first + thread_x() * V;
        if (n < count) f.strided_run(n);
    } else {
        for (int j = 0; j < V; ++j) {
            u32 n = first + j * CANDLE_BLOCK + thread_x();
            if (n < count) f.strided(n);
        }
    }
}
template <int V, class F> RF_FN void each(u64 count, u32 walk, bool aligned, const F& f) {
    each_of_group<V>(group_x(), count, walk, aligned, f);
}

#endif
