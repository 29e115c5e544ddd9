// hip_bfloat16.h: HIP's older type for the upper halves of floats.
#ifndef ROCFIRE_HIP_BFLOAT16_H
#define ROCFIRE_HIP_BFLOAT16_H
#include <hip/hip_bf16.h>
#if defined(__CUDACC_RTC__)
#define ROCFIRE_MEMBER __device__
#else
#define ROCFIRE_MEMBER __host__ __device__
#endif

struct hip_bfloat16 {
    unsigned short data;
    enum truncate_t { truncate };

    hip_bfloat16() = default;
    explicit ROCFIRE_MEMBER hip_bfloat16(float x) : data(__hip_bfloat16(x).bits()) {}
    explicit ROCFIRE_MEMBER hip_bfloat16(float x, truncate_t)
        : data((unsigned short)(rocfire_bits<unsigned>(x) >> 16 | (x == x ? 0u : 0x40u))) {}
    ROCFIRE_MEMBER operator float() const { return rocfire_bits<float>((unsigned)data << 16); }
    ROCFIRE_MEMBER hip_bfloat16 &operator=(float x) { return *this = hip_bfloat16(x); }
    static ROCFIRE_MEMBER hip_bfloat16 round_to_bfloat16(float x) { return hip_bfloat16(x); }
    static ROCFIRE_MEMBER hip_bfloat16 round_to_bfloat16(float x, truncate_t) { return hip_bfloat16(x, truncate); }
};

#define ROCFIRE_OPERATOR(op)                                                                              \
    static ROCFIRE_MEMBER inline hip_bfloat16 operator op(hip_bfloat16 a, hip_bfloat16 b) {                \
        return hip_bfloat16((float)a op (float)b);                                                         \
    }                                                                                                      \
    static ROCFIRE_MEMBER inline hip_bfloat16 &operator op##=(hip_bfloat16 &a, hip_bfloat16 b) {           \
        return a = a op b;                                                                                 \
    }
ROCFIRE_OPERATOR(+)
ROCFIRE_OPERATOR(-)
ROCFIRE_OPERATOR(*)
ROCFIRE_OPERATOR(/)
#undef ROCFIRE_OPERATOR
#define ROCFIRE_COMPARE(op)                                                          \
    static ROCFIRE_MEMBER inline bool operator op(hip_bfloat16 a, hip_bfloat16 b) {  \
        return (float)a op (float)b;                                                 \
    }
ROCFIRE_COMPARE(==)
ROCFIRE_COMPARE(!=)
ROCFIRE_COMPARE(<)
ROCFIRE_COMPARE(<=)
ROCFIRE_COMPARE(>)
ROCFIRE_COMPARE(>=)
#undef ROCFIRE_COMPARE
static ROCFIRE_MEMBER inline hip_bfloat16 operator+(hip_bfloat16 a) { return a; }
static ROCFIRE_MEMBER inline hip_bfloat16 operator-(hip_bfloat16 a) {
    a.data ^= 0x8000;
    return a;
}
static ROCFIRE_MEMBER inline hip_bfloat16 &operator++(hip_bfloat16 &a) { return a += hip_bfloat16(1.0f); }
static ROCFIRE_MEMBER inline hip_bfloat16 &operator--(hip_bfloat16 &a) { return a -= hip_bfloat16(1.0f); }

#undef ROCFIRE_MEMBER
#endif
