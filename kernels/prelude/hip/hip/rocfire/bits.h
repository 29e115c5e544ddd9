// bits.h: bits, whole numbers, conversions and plain memory.
#ifndef ROCFIRE_HIP_BITS_H
#define ROCFIRE_HIP_BITS_H
#pragma clang system_header

ROCFIRE_DEVICE int __popc(unsigned value) { return __builtin_popcount(value); }
ROCFIRE_DEVICE int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
ROCFIRE_DEVICE int __clz(int value) { return value == 0 ? 32 : __builtin_clz(value); }
ROCFIRE_DEVICE int __clzll(long long value) { return value == 0 ? 64 : __builtin_clzll(value); }
ROCFIRE_DEVICE int __ffs(int value) { return __builtin_ffs(value); }
ROCFIRE_DEVICE int __ffs(unsigned value) { return __builtin_ffs(value); }
ROCFIRE_DEVICE int __ffsll(long long value) { return __builtin_ffsll(value); }
ROCFIRE_DEVICE int __ffsll(unsigned long long value) { return __builtin_ffsll(value); }
ROCFIRE_DEVICE int __ffsll(unsigned long value) { return __builtin_ffsll(value); }
ROCFIRE_DEVICE unsigned __brev(unsigned value) { return __builtin_bitreverse32(value); }
ROCFIRE_DEVICE unsigned long long __brevll(unsigned long long value) { return __builtin_bitreverse64(value); }
ROCFIRE_DEVICE uint64_t __lastbit_u32_u64(uint64_t value) { return value == 0 ? -1 : __builtin_ctzll(value); }

// `width` bits from `offset` on; of both only the bits that can be meant count.
ROCFIRE_DEVICE uint32_t __bitextract_u32(uint32_t value, uint32_t offset, uint32_t width) {
    offset &= 31, width &= 31;
    return width == 0 ? 0 : (value << (32 - offset - width < 32 ? 32 - offset - width : 0)) >> (32 - width);
}
ROCFIRE_DEVICE uint64_t __bitextract_u64(uint64_t value, uint32_t offset, uint32_t width) {
    offset &= 63, width &= 63;
    return width == 0 ? 0 : (value << (64 - offset - width < 64 ? 64 - offset - width : 0)) >> (64 - width);
}
ROCFIRE_DEVICE uint32_t __bitinsert_u32(uint32_t into, uint32_t value, uint32_t offset, uint32_t width) {
    uint32_t mask = (1u << (width & 31)) - 1;
    return (into & ~(mask << (offset & 31))) | (value & mask) << (offset & 31);
}
ROCFIRE_DEVICE uint64_t __bitinsert_u64(uint64_t into, uint64_t value, uint32_t offset, uint32_t width) {
    uint64_t mask = (1ull << (width & 63)) - 1;
    return (into & ~(mask << (offset & 63))) | (value & mask) << (offset & 63);
}
ROCFIRE_DEVICE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}
ROCFIRE_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (by & 31)) >> 32);
}
ROCFIRE_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
ROCFIRE_DEVICE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
ROCFIRE_DEVICE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}
// The place of the `offset`-th set bit from `base` on, upwards for a positive number and downwards for a negative one.
ROCFIRE_DEVICE int rocfire_find_set(unsigned long long mask, unsigned base, int offset, int bits) {
    if (base >= (unsigned)bits) return -1;
    int left = offset < 0 ? -offset : offset == 0 ? 1 : offset, step = offset < 0 ? -1 : 1;
    for (int at = (int)base; at >= 0 && at < bits; at += step) {
        if ((mask >> at & 1) != 0 && --left == 0) return at;
        if (offset == 0) break;
    }
    return -1;
}
ROCFIRE_DEVICE int __fns32(unsigned long long mask, unsigned base, int offset) {
    return rocfire_find_set(mask, base, offset, 32);
}
ROCFIRE_DEVICE int __fns64(unsigned long long mask, unsigned base, int offset) {
    return rocfire_find_set(mask, base, offset, 64);
}
ROCFIRE_DEVICE int __fns(unsigned mask, unsigned base, int offset) { return __fns32(mask, base, offset); }

ROCFIRE_DEVICE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
ROCFIRE_DEVICE int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
ROCFIRE_DEVICE unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
ROCFIRE_DEVICE unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
ROCFIRE_DEVICE int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
ROCFIRE_DEVICE int __umul24(unsigned x, unsigned y) { return (int)((x & 0xffffff) * (y & 0xffffff)); }
ROCFIRE_DEVICE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
ROCFIRE_DEVICE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
ROCFIRE_DEVICE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
ROCFIRE_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
ROCFIRE_DEVICE unsigned __sad(int x, int y, unsigned sum) { return (unsigned)(x > y ? x - y : y - x) + sum; }
ROCFIRE_DEVICE unsigned __usad(unsigned x, unsigned y, unsigned sum) { return (x > y ? x - y : y - x) + sum; }

// Values as the bits of others.
#define ROCFIRE_AS(name, to, from) \
    ROCFIRE_DEVICE to name(from value) { return rocfire_bits<to>(value); }
ROCFIRE_AS(__float_as_uint, unsigned, float)
ROCFIRE_AS(__float_as_int, int, float)
ROCFIRE_AS(__uint_as_float, float, unsigned)
ROCFIRE_AS(__int_as_float, float, int)
ROCFIRE_AS(__double_as_longlong, long long, double)
ROCFIRE_AS(__longlong_as_double, double, long long)
#undef ROCFIRE_AS
ROCFIRE_DEVICE int __double2hiint(double value) { return (int)(rocfire_bits<unsigned long long>(value) >> 32); }
ROCFIRE_DEVICE int __double2loint(double value) { return (int)rocfire_bits<unsigned long long>(value); }
ROCFIRE_DEVICE double __hiloint2double(int high, int low) {
    return rocfire_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

// To whole numbers by each way of rounding; what does not fit becomes the nearest that does.
#define ROCFIRE_ROUNDED(name, to, from, floor_of, ceil_of, rint_of)                  \
    ROCFIRE_DEVICE to name##_rd(from x) { return rf::cast<to>(floor_of(x)); }        \
    ROCFIRE_DEVICE to name##_ru(from x) { return rf::cast<to>(ceil_of(x)); }         \
    ROCFIRE_DEVICE to name##_rn(from x) { return rf::cast<to>(rint_of(x)); }         \
    ROCFIRE_DEVICE to name##_rz(from x) { return rf::cast<to>(x); }
#define ROCFIRE_OF_FLOAT(name, to) \
    ROCFIRE_ROUNDED(name, to, float, __builtin_floorf, __builtin_ceilf, __builtin_rintf)
#define ROCFIRE_OF_DOUBLE(name, to) \
    ROCFIRE_ROUNDED(name, to, double, __builtin_floor, __builtin_ceil, __builtin_rint)
ROCFIRE_OF_FLOAT(__float2int, int)
ROCFIRE_OF_FLOAT(__float2uint, unsigned)
ROCFIRE_OF_FLOAT(__float2ll, long long)
ROCFIRE_OF_FLOAT(__float2ull, unsigned long long)
ROCFIRE_OF_DOUBLE(__double2int, int)
ROCFIRE_OF_DOUBLE(__double2uint, unsigned)
ROCFIRE_OF_DOUBLE(__double2ll, long long)
ROCFIRE_OF_DOUBLE(__double2ull, unsigned long long)
#undef ROCFIRE_OF_FLOAT
#undef ROCFIRE_OF_DOUBLE
#undef ROCFIRE_ROUNDED
ROCFIRE_DEVICE float __int2float_rn(int x) { return (float)x; }
ROCFIRE_DEVICE float __uint2float_rn(unsigned x) { return (float)x; }
ROCFIRE_DEVICE float __ll2float_rn(long long x) { return (float)x; }
ROCFIRE_DEVICE float __ull2float_rn(unsigned long long x) { return (float)x; }
ROCFIRE_DEVICE double __int2double_rn(int x) { return (double)x; }
ROCFIRE_DEVICE double __uint2double_rn(unsigned x) { return (double)x; }
ROCFIRE_DEVICE double __ll2double_rn(long long x) { return (double)x; }
ROCFIRE_DEVICE double __ull2double_rn(unsigned long long x) { return (double)x; }
ROCFIRE_DEVICE float __double2float_rn(double x) { return (float)x; }

// From double, and from whole numbers that the type does not hold: the neighbour of the nearest one, where rounding went
// the other way.
ROCFIRE_DEVICE float rocfire_float_towards(double x, bool up, bool down) {
    float nearest = (float)x;
    unsigned bits = rocfire_bits<unsigned>(nearest);
    bool negative = bits >> 31 != 0;
    if (up && (double)nearest < x) bits = negative ? bits - 1 : bits + 1;
    if (down && (double)nearest > x) bits = negative ? bits + 1 : bits - 1;
    return rocfire_bits<float>(bits);
}
// What is left of a size when the bits that have no room are cut off, one step further if any was set and that is asked.
template <typename F, typename Bits, int digits>
ROCFIRE_DEVICE F rocfire_of_whole(unsigned long long size, bool negative, bool away) {
    int drop = size == 0 ? 0 : 64 - __builtin_clzll(size) - digits;
    unsigned long long rest = drop > 0 ? size & ((1ull << drop) - 1) : 0;
    F x = (F)(size - rest);
    if (away && rest != 0) x = rocfire_bits<F>((Bits)(rocfire_bits<Bits>(x) + 1));
    return negative ? -x : x;
}
ROCFIRE_DEVICE float __double2float_rd(double x) { return rocfire_float_towards(x, false, true); }
ROCFIRE_DEVICE float __double2float_ru(double x) { return rocfire_float_towards(x, true, false); }
ROCFIRE_DEVICE float __double2float_rz(double x) { return rocfire_float_towards(x, x < 0.0, x > 0.0); }
#define ROCFIRE_WHOLE(name, to, bits, digits, from)                                                                     \
    ROCFIRE_DEVICE to name##_rz(from x) {                                                                               \
        return rocfire_of_whole<to, bits, digits>(x < 0 ? 0ull - (unsigned long long)x : x, x < 0, false);              \
    }                                                                                                                   \
    ROCFIRE_DEVICE to name##_rd(from x) {                                                                               \
        return x < 0 ? rocfire_of_whole<to, bits, digits>(0ull - x, true, true) : name##_rz(x);                         \
    }                                                                                                                   \
    ROCFIRE_DEVICE to name##_ru(from x) {                                                                               \
        return x < 0 ? name##_rz(x) : rocfire_of_whole<to, bits, digits>(x, false, true);                               \
    }
ROCFIRE_WHOLE(__int2float, float, unsigned, 24, int)
ROCFIRE_WHOLE(__uint2float, float, unsigned, 24, unsigned)
ROCFIRE_WHOLE(__ll2float, float, unsigned, 24, long long)
ROCFIRE_WHOLE(__ull2float, float, unsigned, 24, unsigned long long)
ROCFIRE_WHOLE(__ll2double, double, unsigned long long, 53, long long)
ROCFIRE_WHOLE(__ull2double, double, unsigned long long, 53, unsigned long long)
#undef ROCFIRE_WHOLE

// Loads and stores that say how they use caches: plain ones.
template <typename T>
ROCFIRE_DEVICE T __ldg(const T *at) { return *at; }
template <typename T>
ROCFIRE_DEVICE T __ldca(const T *at) { return *at; }
template <typename T>
ROCFIRE_DEVICE T __ldcs(const T *at) { return *at; }
template <typename T>
ROCFIRE_DEVICE T __ldcg(const T *at) { return *at; }
template <typename T>
ROCFIRE_DEVICE void __stcs(T *at, T value) { *at = value; }
template <typename T>
ROCFIRE_DEVICE void __stcg(T *at, T value) { *at = value; }

// Products of parts of words, added up; saturated if that is asked.
#define ROCFIRE_DOT(operand, result, widest, low, high, sum)                                        \
    ROCFIRE_DEVICE result amd_mixed_dot(operand a, operand b, result c, bool saturate) {            \
        widest total = c;                                                                           \
        sum;                                                                                        \
        if (saturate) total = total < low ? low : total > high ? high : total;                      \
        return (result)total;                                                                       \
    }
#define ROCFIRE_SIGNED(operand, sum) ROCFIRE_DOT(operand, int, long long, -2147483648ll, 2147483647ll, sum)
#define ROCFIRE_UNSIGNED(operand, sum) ROCFIRE_DOT(operand, unsigned, long long, 0ll, 4294967295ll, sum)
ROCFIRE_SIGNED(short2, total += (long long)a.x * b.x + (long long)a.y * b.y)
ROCFIRE_UNSIGNED(ushort2, total += (long long)a.x * b.x + (long long)a.y * b.y)
ROCFIRE_SIGNED(char4, total += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w)
ROCFIRE_UNSIGNED(uchar4, total += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w)
ROCFIRE_SIGNED(int, for (int i = 28; i >= 0; i -= 4) total += ((int)((unsigned)a << i) >> 28) * ((int)((unsigned)b << i) >> 28))
ROCFIRE_UNSIGNED(unsigned, for (int i = 0; i < 32; i += 4) total += (a >> i & 15) * (b >> i & 15))
#undef ROCFIRE_SIGNED
#undef ROCFIRE_UNSIGNED
#undef ROCFIRE_DOT

// Memory, in the kernel itself.
ROCFIRE_DEVICE void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
ROCFIRE_DEVICE void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
ROCFIRE_DEVICE void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }

#endif
