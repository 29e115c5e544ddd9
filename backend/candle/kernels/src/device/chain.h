// chain.h: how kernels around a graph read and write W elements from element n of their walk on. What they compute of them is written by
// src/each.rs.
#ifndef CANDLE_CHAIN_H
#define CANDLE_CHAIN_H

// An element as another type has it; of the same type as it is.
template <class From, class To> struct Moved { RF_FN static To of(From x) { return cast<To>(Wide<From>::of(x)); } };
template <class T> struct Moved<T, T> { RF_FN static T of(T x) { return x; } };

template <int W> struct Part {
    template <class T> RF_FN static void load(const T* from, u32 n, T* to) { load_run<W>(from + n, to); }
    template <class T> RF_FN static void load(const Info& info, u64 axes, u32 operand, const T* from, u32 n, T* to) {
        load_strided<W>(info, (u32)axes, operand, from, n, to);
    }
    template <class T> RF_FN static void store(T* to, u32 n, const T* from) { store_run<W>(to + n, from); }
};
template <> struct Part<1> {
    template <class T> RF_FN static void load(const T* from, u32 n, T* to) { *to = from[n]; }
    template <class T> RF_FN static void load(const Info& info, u64 axes, u32 operand, const T* from, u32 n, T* to) {
        *to = from[offset_of(info, (u32)axes, operand, n)];
    }
    template <class T> RF_FN static void store(T* to, u32 n, const T* from) { to[n] = *from; }
};

#endif
