// vec.h: N elements moved by one memory instruction. The caller promises that the address is a multiple of
// N * sizeof(T), at most 16 bytes; one such move is then a single global_load/ds_read of up to four dwords.
#ifndef ROCFIRE_VEC_H
#define ROCFIRE_VEC_H
namespace rf {

template <class T, int N> struct alignas(sizeof(T) * N) Vec {
    static_assert(sizeof(T) * N <= 16, "a lane moves at most 16 bytes at once");
    T at[N];
    RF_FN T& operator[](int i) { return at[i]; }
    RF_FN const T& operator[](int i) const { return at[i]; }
};

template <int N, class T> RF_FN Vec<T, N> load(const T* from) { return *(const Vec<T, N>*)from; }
template <int N, class T> RF_FN void store(T* to, const Vec<T, N>& value) { *(Vec<T, N>*)to = value; }

// How many elements of T fill a 16-byte access.
template <class T> struct PerLane { static const int value = 16 / sizeof(T); };

}  // namespace rf
#endif
