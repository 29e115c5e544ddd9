// types.h: storage types and conversions.
//
// f16, bf16 and bool8 are stored as bits and have no arithmetic: kernels compute in float and round once, to nearest
// even, where they store. `cast<To>(from)` converts between any two storage types as Rust's `as` does: float to
// integer saturates and sends NaN to 0, integer to integer wraps, anything to bool8 is `!= 0`, and every narrowing of
// a float rounds once (never through an intermediate type).
#ifndef ROCFIRE_TYPES_H
#define ROCFIRE_TYPES_H
namespace rf {

struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct bool8 { u8 bits; };  // 0 or 1

template <class To, class From> RF_FN To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

template <class A, class B> struct same { static const bool value = false; };
template <class A> struct same<A, A> { static const bool value = true; };

RF_FN float infinity() { return __builtin_inff(); }
RF_FN float nan() { return __builtin_nanf(""); }

// --- 16-bit floats ---

RF_FN float to_f32(f16 x) {
#if RF_DEVICE_AMD || defined(RF_HOST)
    return (float)bit_cast<_Float16>(x.bits);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#endif
}
RF_FN f16 f32_to_f16(float x) {
    f16 y;
#if RF_DEVICE_AMD || defined(RF_HOST)
    y.bits = bit_cast<u16>((_Float16)x);
#else
    // Of two, in a word: CUDA 13.0's ptxas makes of a byte stored from a 16-bit conversion the number itself as a whole one.
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(x));
    y.bits = (u16)both;
#endif
    return y;
}
RF_FN float to_f32(bf16 x) { return bit_cast<float>((u32)x.bits << 16); }
// CDNA 4 has an instruction for it, which the compiler takes for its own type.
#define RF_CONVERTS_BF16 (RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA && ARCH_MFMA_GENERATION >= 4)
RF_FN bf16 f32_to_bf16(float x) {
    bf16 y;
#if RF_CONVERTS_BF16
    y.bits = bit_cast<u16>((__bf16)x);
#elif RF_DEVICE_AMD || defined(RF_HOST)
    u32 bits = bit_cast<u32>(x);
    u32 rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    y.bits = (u16)((x == x ? rounded : bits | 0x400000u) >> 16);
#else
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(x));
    y.bits = (u16)both;
#endif
    return y;
}

// x as a bf16, still as the float that it stands for.
RF_FN float round_to_bf16(float x) {
#if RF_DEVICE_AMD || defined(RF_HOST)
    return to_f32(f32_to_bf16(x));
#else
    // The conversion of two puts the first where a float has its upper half; the lower half is that of the zero.
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x), "f"(0.0f));
    return bit_cast<float>(bits);
#endif
}

// Rounds to the neighbour with an odd last bit unless exact: rounding that again to a type at least two bits shorter
// gives what one rounding would have given.
RF_FN float f64_to_f32_odd(double x) {
    float y = (float)x;
    u32 bits = bit_cast<u32>(y);
    bool inexact = (double)y != x && x == x;
    bool away = __builtin_fabs((double)y) > __builtin_fabs(x);
    if (inexact && (bits & 1u) == 0) bits = away ? bits - 1u : bits + 1u;
    return bit_cast<float>(bits);
}
// The double nearest below in magnitude with sticky last bit, for integers longer than a double's mantissa.
RF_FN double u64_to_f64_odd(u64 x) {
    if ((x >> 53) == 0) return (double)x;
    return (double)((x >> 11) | ((x & 2047ull) != 0 ? 1ull : 0ull)) * 2048.0;
}

// --- cast ---

template <class T> struct Wide { typedef T type; RF_FN static T of(T x) { return x; } };
template <> struct Wide<f16> { typedef float type; RF_FN static float of(f16 x) { return to_f32(x); } };
template <> struct Wide<bf16> { typedef float type; RF_FN static float of(bf16 x) { return to_f32(x); } };
template <> struct Wide<bool8> { typedef i32 type; RF_FN static i32 of(bool8 x) { return x.bits; } };

template <class T> struct Limits;
template <> struct Limits<i8> { static const i64 low = -128; static const u64 high = 127; };
template <> struct Limits<i16> { static const i64 low = -32768; static const u64 high = 32767; };
template <> struct Limits<i32> { static const i64 low = -2147483647ll - 1; static const u64 high = 2147483647; };
template <> struct Limits<i64> {
    static const i64 low = -9223372036854775807ll - 1;
    static const u64 high = 9223372036854775807ull;
};
template <> struct Limits<u8> { static const i64 low = 0; static const u64 high = 255; };
template <> struct Limits<u16> { static const i64 low = 0; static const u64 high = 65535; };
template <> struct Limits<u32> { static const i64 low = 0; static const u64 high = 4294967295u; };
template <> struct Limits<u64> { static const i64 low = 0; static const u64 high = 18446744073709551615ull; };

// Integer targets. A bound that the float type cannot hold rounds up to a power of two, for which `>=` is still right.
template <class To> struct Narrow {
    template <class F> RF_FN static To of_float(F x) {
        const F low = (F)Limits<To>::low;
        const F high = (F)Limits<To>::high;
        bool inside = x > low && x < high;
        To y = (To)(inside ? x : (F)0);
        y = x >= high ? (To)Limits<To>::high : y;
        return x <= low ? (To)Limits<To>::low : y;
    }
    RF_FN static To of(float x) { return of_float<float>(x); }
    RF_FN static To of(double x) { return of_float<double>(x); }
    template <class I> RF_FN static To of(I x) { return (To)x; }
};
template <> struct Narrow<float> { template <class T> RF_FN static float of(T x) { return (float)x; } };
template <> struct Narrow<double> { template <class T> RF_FN static double of(T x) { return (double)x; } };
template <> struct Narrow<bool8> {
    template <class T> RF_FN static bool8 of(T x) {
        bool8 y;
        y.bits = x != (T)0 ? 1 : 0;
        return y;
    }
};
// An integer above 2^24 is infinite as f16, so going through float rounds only values that are exact in it.
template <> struct Narrow<f16> {
    template <class T> RF_FN static f16 of(T x) { return f32_to_f16((float)x); }
    RF_FN static f16 of(double x) { return f32_to_f16(f64_to_f32_odd(x)); }
};
template <> struct Narrow<bf16> {
    RF_FN static bf16 of(float x) { return f32_to_bf16(x); }
    RF_FN static bf16 of(double x) { return f32_to_bf16(f64_to_f32_odd(x)); }
    RF_FN static bf16 of(u64 x) { return of(u64_to_f64_odd(x)); }
    RF_FN static bf16 of(i64 x) {
        double magnitude = u64_to_f64_odd(x < 0 ? 0ull - (u64)x : (u64)x);
        return of(x < 0 ? -magnitude : magnitude);
    }
    template <class T> RF_FN static bf16 of(T x) { return of((double)x); }
};

template <class To, class From> struct Cast {
    RF_FN static To of(From x) { return Narrow<To>::of(Wide<From>::of(x)); }
};
template <class T> struct Cast<T, T> { RF_FN static T of(T x) { return x; } };

template <class To, class From> RF_FN To cast(From x) { return Cast<To, From>::of(x); }

// Four bytes of two registers, the lowest first: 0 to 3 are the first's, 4 to 7 the second's.
template <u32 A, u32 B, u32 C, u32 D> RF_FN u32 pick_bytes(u32 a, u32 b) {
#if RF_DEVICE_AMD
    return __builtin_amdgcn_perm(b, a, A | B << 8 | C << 16 | D << 24);
#elif defined(RF_HOST)
    const u64 both = (u64)b << 32 | a;
    return (u32)(both >> 8 * A & 0xff) | (u32)(both >> 8 * B & 0xff) << 8 | (u32)(both >> 8 * C & 0xff) << 16 | (u32)(both >> 8 * D & 0xff) << 24;
#else
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(A | B << 4 | C << 8 | D << 12));
    return bytes;
#endif
}
// The lower or the upper halves of two registers in one, the first's in the lower half; and the bytes of these halves in turn.
RF_FN u32 low_halves(u32 a, u32 b) { return pick_bytes<0, 1, 4, 5>(a, b); }
RF_FN u32 high_halves(u32 a, u32 b) { return pick_bytes<2, 3, 6, 7>(a, b); }
RF_FN u32 zip_low_bytes(u32 a, u32 b) { return pick_bytes<0, 4, 1, 5>(a, b); }
RF_FN u32 zip_high_bytes(u32 a, u32 b) { return pick_bytes<2, 6, 3, 7>(a, b); }
// Two numbers rounded to a 16-bit float, in one register: the first in the lower half.
template <class H, class F> RF_FN u32 two_of(F low, F high) {
#if !RF_DEVICE_AMD && !defined(RF_HOST)
    u32 both;
    if (same<F, float>::value && same<H, bf16>::value) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"((float)high), "f"((float)low));
        return both;
    }
    if (same<F, float>::value && same<H, f16>::value) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"((float)high), "f"((float)low));
        return both;
    }
#endif
#if RF_CONVERTS_BF16
    if (same<F, float>::value && same<H, bf16>::value) {
        typedef float Floats __attribute__((ext_vector_type(2)));
        typedef __bf16 Halves __attribute__((ext_vector_type(2)));
        const Floats floats = {(float)low, (float)high};
        return bit_cast<u32>(__builtin_convertvector(floats, Halves));
    }
#endif
    return (u32)cast<H>(low).bits | (u32)cast<H>(high).bits << 16;
}

// Two floats that the type holds exactly, as `two_of` has them.
template <class H> RF_FN u32 exact_two(float low, float high) {
    if (same<H, bf16>::value) return high_halves(bit_cast<u32>(low), bit_cast<u32>(high));
#if RF_DEVICE_AMD
    // Truncates both in one instruction.
    return bit_cast<u32>(__builtin_amdgcn_cvt_pkrtz(low, high));
#else
    return two_of<H>(low, high);
#endif
}

// As `cast`, of a number: what becomes of a NaN is not said. Half of the instructions where there is none for bf16.
template <class T> struct OfNumber { RF_FN static T of(float x) { return cast<T>(x); } };
#if RF_DEVICE_AMD && !RF_CONVERTS_BF16
// The bf16 in the upper half.
RF_FN u32 number_rounded_to_bf16(float x) {
    const u32 bits = bit_cast<u32>(x);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}
template <> struct OfNumber<bf16> {
    RF_FN static bf16 of(float x) {
        bf16 y;
        y.bits = (u16)(number_rounded_to_bf16(x) >> 16);
        return y;
    }
};
#endif

// As `two_of`, of numbers.
template <class H> RF_FN u32 two_numbers(float low, float high) {
#if RF_DEVICE_AMD && !RF_CONVERTS_BF16
    if (same<H, bf16>::value) return high_halves(number_rounded_to_bf16(low), number_rounded_to_bf16(high));
#endif
    return two_of<H>(low, high);
}

// The type that sums of T are kept in: float for 16-bit floats, the type itself otherwise.
template <class T> struct Acc { typedef T type; };
template <> struct Acc<f16> { typedef float type; };
template <> struct Acc<bf16> { typedef float type; };

}  // namespace rf
#endif
