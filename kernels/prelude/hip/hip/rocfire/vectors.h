// vectors.h: dim3, and small vectors with their arithmetic: char1 … double4, make_….
#ifndef ROCFIRE_HIP_VECTORS_H
#define ROCFIRE_HIP_VECTORS_H
#pragma clang system_header

// Extents of a grid or a workgroup.
struct dim3 {
    uint32_t x, y, z;
    constexpr __host__ __device__ dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};

// Each has its members, a constructor of as many elements, and one that gives all the same, which is never implied.
#define ROCFIRE_VECTORS(type, name)                                                                               \
    struct name##1 {                                                                                              \
        using value_type = type;                                                                                  \
        static constexpr int rocfire_rank = 1;                                                                    \
        type x;                                                                                                   \
        name##1() = default;                                                                                      \
        constexpr __host__ __device__ name##1(type x) : x(x) {}                                                   \
    };                                                                                                            \
    struct alignas(2 * sizeof(type)) name##2 {                                                                    \
        using value_type = type;                                                                                  \
        static constexpr int rocfire_rank = 2;                                                                    \
        type x, y;                                                                                                \
        name##2() = default;                                                                                      \
        explicit constexpr __host__ __device__ name##2(type x) : x(x), y(x) {}                                    \
        constexpr __host__ __device__ name##2(type x, type y) : x(x), y(y) {}                                     \
    };                                                                                                            \
    struct name##3 {                                                                                              \
        using value_type = type;                                                                                  \
        static constexpr int rocfire_rank = 3;                                                                    \
        type x, y, z;                                                                                             \
        name##3() = default;                                                                                      \
        explicit constexpr __host__ __device__ name##3(type x) : x(x), y(x), z(x) {}                              \
        constexpr __host__ __device__ name##3(type x, type y, type z) : x(x), y(y), z(z) {}                       \
    };                                                                                                            \
    struct alignas(sizeof(type) * 4 > 16 ? 16 : sizeof(type) * 4) name##4 {                                       \
        using value_type = type;                                                                                  \
        static constexpr int rocfire_rank = 4;                                                                    \
        type x, y, z, w;                                                                                          \
        name##4() = default;                                                                                      \
        explicit constexpr __host__ __device__ name##4(type x) : x(x), y(x), z(x), w(x) {}                        \
        constexpr __host__ __device__ name##4(type x, type y, type z, type w) : x(x), y(y), z(z), w(w) {}         \
    };                                                                                                            \
    ROCFIRE_BOTH constexpr name##1 make_##name##1(type x) { return name##1(x); }                                  \
    ROCFIRE_BOTH constexpr name##2 make_##name##2(type x, type y) { return name##2(x, y); }                       \
    ROCFIRE_BOTH constexpr name##3 make_##name##3(type x, type y, type z) { return name##3(x, y, z); }            \
    ROCFIRE_BOTH constexpr name##4 make_##name##4(type x, type y, type z, type w) { return name##4(x, y, z, w); }

ROCFIRE_VECTORS(signed char, char)
ROCFIRE_VECTORS(unsigned char, uchar)
ROCFIRE_VECTORS(short, short)
ROCFIRE_VECTORS(unsigned short, ushort)
ROCFIRE_VECTORS(int, int)
ROCFIRE_VECTORS(unsigned int, uint)
ROCFIRE_VECTORS(long, long)
ROCFIRE_VECTORS(unsigned long, ulong)
ROCFIRE_VECTORS(long long, longlong)
ROCFIRE_VECTORS(unsigned long long, ulonglong)
ROCFIRE_VECTORS(float, float)
ROCFIRE_VECTORS(double, double)
#undef ROCFIRE_VECTORS

// Operators by element, of two vectors or a vector and a number.
#define ROCFIRE_VECTOR template <typename V, int rank = V::rocfire_rank> ROCFIRE_BOTH constexpr
#define ROCFIRE_VECTOR_OPERATOR(op)                                                           \
    ROCFIRE_VECTOR V &operator op##=(V &a, const V &b) {                                      \
        a.x op##= b.x;                                                                        \
        if constexpr (rank > 1) a.y op##= b.y;                                                   \
        if constexpr (rank > 2) a.z op##= b.z;                                                   \
        if constexpr (rank > 3) a.w op##= b.w;                                                   \
        return a;                                                                             \
    }                                                                                         \
    ROCFIRE_VECTOR V &operator op##=(V &a, typename V::value_type b) { return a op##= V(b); } \
    ROCFIRE_VECTOR V operator op(V a, const V &b) { return a op##= b; }                       \
    ROCFIRE_VECTOR V operator op(V a, typename V::value_type b) { return a op##= V(b); }      \
    ROCFIRE_VECTOR V operator op(typename V::value_type a, const V &b) { return V(a) op b; }
ROCFIRE_VECTOR_OPERATOR(+)
ROCFIRE_VECTOR_OPERATOR(-)
ROCFIRE_VECTOR_OPERATOR(*)
ROCFIRE_VECTOR_OPERATOR(/)
ROCFIRE_VECTOR_OPERATOR(%)
ROCFIRE_VECTOR_OPERATOR(&)
ROCFIRE_VECTOR_OPERATOR(|)
ROCFIRE_VECTOR_OPERATOR(^)
ROCFIRE_VECTOR_OPERATOR(<<)
ROCFIRE_VECTOR_OPERATOR(>>)
#undef ROCFIRE_VECTOR_OPERATOR
ROCFIRE_VECTOR bool operator==(const V &a, const V &b) {
    bool same = a.x == b.x;
    if constexpr (rank > 1) same = same && a.y == b.y;
    if constexpr (rank > 2) same = same && a.z == b.z;
    if constexpr (rank > 3) same = same && a.w == b.w;
    return same;
}
ROCFIRE_VECTOR bool operator!=(const V &a, const V &b) { return !(a == b); }
ROCFIRE_VECTOR V operator-(const V &a) { return a * V((typename V::value_type)-1); }
ROCFIRE_VECTOR V operator~(const V &a) { return a ^ V((typename V::value_type)-1); }
ROCFIRE_VECTOR V &operator++(V &a) { return a += V((typename V::value_type)1); }
ROCFIRE_VECTOR V &operator--(V &a) { return a -= V((typename V::value_type)1); }
#undef ROCFIRE_VECTOR

#endif
