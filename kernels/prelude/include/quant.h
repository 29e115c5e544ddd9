// quant.h: numbers of eight bits and fewer, and the scales that give them back their size.
//
// `Format<N>` encodes a float as a code and decodes it; the numbers N are those of `Format` in kernels::quant. Integer codes
// are two's complement in their lowest BITS bits. Small floats round to nearest, ties to even, and saturate at their largest
// finite magnitude; NaN is their NaN where they have one and 0 where they have none, integers included. Decoding is exact.
//
//   E4M3, E5M2, E2M1 as in OCP's "8-bit floating point" and "microscaling formats"; the fnuz forms have one zero, one NaN
//   (the sign bit alone), no infinity, and a bias larger by one.
//
// Scales are stored as f32, f16, bf16, E8M0 (a bare exponent) or E4M3, and read by a number at run time, the same in every lane.
#ifndef ROCFIRE_QUANT_H
#define ROCFIRE_QUANT_H
namespace rf {

// --- small floats ---

// Smallest normal 2^(1-BIAS); MOST is the code of the largest finite magnitude, NONE that of NaN, 0 where there is none.
template <int BITS_, int MANTISSA, int BIAS, u32 MOST, u32 NONE, bool FNUZ> struct SmallFloat {
    static const int BITS = BITS_;
    static const u32 SIGN = 1u << (BITS - 1);

    RF_FN static float magnitude(u32 code) {
        // As an f32 whose exponent is short by the difference of the biases: the product is exact, subnormals too.
        return bit_cast<float>(code << (23 - MANTISSA)) * bit_cast<float>((u32)(254 - BIAS) << 23);
    }
    RF_FN static float decode(u32 code) {
        u32 low = code & (SIGN - 1);
        float value = magnitude(low);
        if (FNUZ) {
            if (code == SIGN) return nan();
        } else if (NONE != 0 && low > MOST) {
            return low == MOST + 1 && MANTISSA == 2 ? ((code & SIGN) ? -infinity() : infinity()) : nan();
        }
        return (code & SIGN) ? -value : value;
    }
    RF_FN static u32 encode(float x) {
        if (x != x) return FNUZ ? SIGN : NONE;
        float most = magnitude(MOST), size = __builtin_fabsf(x);
        size = size < most ? size : most;
        u32 bits = bit_cast<u32>(size);
        u32 normal = (bits + (1u << (22 - MANTISSA)) - 1u + ((bits >> (23 - MANTISSA)) & 1u)) >> (23 - MANTISSA);
        normal -= (u32)(127 - BIAS) << MANTISSA;
        // A float whose last bit is worth as much as a subnormal's: the sum's mantissa counts them.
        u32 unit = (u32)(127 + 23 + 1 - BIAS - MANTISSA) << 23;
        u32 subnormal = bit_cast<u32>(size + bit_cast<float>(unit)) - unit;
        u32 code = bits < ((u32)(128 - BIAS) << 23) ? subnormal : normal;
        bool negative = (bit_cast<u32>(x) >> 31) != 0 && !(FNUZ && code == 0);
        return negative ? code | SIGN : code;
    }
};
typedef SmallFloat<8, 3, 7, 0x7e, 0x7f, false> E4M3;
typedef SmallFloat<8, 2, 15, 0x7b, 0x7f, false> E5M2;
typedef SmallFloat<4, 1, 1, 0x7, 0, false> E2M1;
typedef SmallFloat<8, 3, 8, 0x7f, 0, true> E4M3Fnuz;
typedef SmallFloat<8, 2, 16, 0x7f, 0, true> E5M2Fnuz;

// 2^(code - 127); 255 is NaN.
RF_FN float e8m0_decode(u32 code) {
    if (code == 255) return nan();
    return bit_cast<float>(code == 0 ? 0x00400000u : code << 23);
}

// --- rounding to whole numbers ---

// Ties away from zero, as Rust's `round`.
struct RoundAway {
    RF_FN static float of(float x) {
        float size = __builtin_fabsf(x), whole = __builtin_truncf(size);
        whole = size - whole >= 0.5f ? whole + 1.0f : whole;
        return __builtin_copysignf(whole, x);
    }
};
struct RoundEven { RF_FN static float of(float x) { return __builtin_rintf(x); } };

// --- formats ---

template <int BITS_> struct IntCode {
    static const int BITS = BITS_;
    RF_FN static float decode(u32 code) { return (float)((i32)(code << (32 - BITS)) >> (32 - BITS)); }
    template <class Round> RF_FN static u32 encode(float x, float least, float most) {
        float whole = Round::of(x);
        whole = whole < least ? least : whole;
        whole = whole > most ? most : whole;
        return (u32)(i32)(whole == whole ? whole : 0.0f) & ((1u << BITS) - 1u);
    }
};
template <class F> struct FloatCode {
    static const int BITS = F::BITS;
    RF_FN static float decode(u32 code) { return F::decode(code); }
    template <class Round> RF_FN static u32 encode(float x, float, float) { return F::encode(x); }
};

template <int NUMBER> struct Format;
template <> struct Format<0> : IntCode<8> {};
template <> struct Format<1> : IntCode<4> {};
template <> struct Format<2> : IntCode<2> {};
template <> struct Format<3> : FloatCode<E4M3> {};
template <> struct Format<4> : FloatCode<E5M2> {};
template <> struct Format<5> : FloatCode<E2M1> {};
template <> struct Format<6> : FloatCode<E4M3Fnuz> {};
template <> struct Format<7> : FloatCode<E5M2Fnuz> {};

// --- scales ---

#define RF_SCALE_F32 0
#define RF_SCALE_F16 1
#define RF_SCALE_BF16 2
#define RF_SCALE_E8M0 3
#define RF_SCALE_E4M3 4

// Number `n` of the scales at `from`; 1 where there are none.
RF_FN float read_scale(const void* from, i64 n, u32 kind) {
    if (from == 0) return 1.0f;
    if (kind == RF_SCALE_F32) return ((const float*)from)[n];
    if (kind == RF_SCALE_F16) return to_f32(((const f16*)from)[n]);
    if (kind == RF_SCALE_BF16) return to_f32(((const bf16*)from)[n]);
    u32 code = ((const u8*)from)[n];
    return kind == RF_SCALE_E8M0 ? e8m0_decode(code) : E4M3::decode(code);
}

// A scale rounded up to the next that the type holds: rounded down it would clip the value that it was made for.
RF_FN float round_scale_up(float scale, u32 kind) {
    if (kind == RF_SCALE_F32 || scale != scale) return scale;
    if (kind == RF_SCALE_E8M0) {
        const float least = bit_cast<float>(0x00400000u), most = bit_cast<float>(0x7f000000u);
        if (!(scale > least)) return least;
        if (scale >= most) return most;
        return bit_cast<float>((bit_cast<u32>(scale) + 0x7fffffu) & ~0x7fffffu);
    }
    float most = kind == RF_SCALE_F16 ? 65504.0f : kind == RF_SCALE_BF16 ? bit_cast<float>(0x7f7f0000u) : 448.0f;
    if (scale >= most) return most;
    if (kind != RF_SCALE_BF16) {
        float normal = kind == RF_SCALE_F16 ? bit_cast<float>(0x38800000u) : 0.015625f;
        float unit = kind == RF_SCALE_F16 ? bit_cast<float>(0x33800000u) : 0.001953125f;
        if (scale < normal) return __builtin_ceilf(scale / unit) * unit;
    }
    u32 low = kind == RF_SCALE_F16 ? 0x1fffu : kind == RF_SCALE_BF16 ? 0xffffu : 0xfffffu;
    return bit_cast<float>((bit_cast<u32>(scale) + low) & ~low);
}

// A scale that can be divided by: what is not positive and finite becomes the smallest normal f32, rounded up to the type.
RF_FN float valid_scale(float scale, u32 kind) {
    float rounded = round_scale_up(scale, kind);
    if (rounded > 0.0f && rounded < infinity()) return rounded;
    return round_scale_up(bit_cast<float>(0x00800000u), kind);
}

// Stores a scale that its type holds exactly, or NaN.
RF_FN void write_scale(void* to, i64 n, float scale, u32 kind) {
    if (kind == RF_SCALE_F32) ((float*)to)[n] = scale;
    else if (kind == RF_SCALE_F16) ((f16*)to)[n] = f32_to_f16(scale);
    else if (kind == RF_SCALE_BF16) ((bf16*)to)[n] = f32_to_bf16(scale);
    else if (kind == RF_SCALE_E8M0) ((u8*)to)[n] = scale == scale ? (u8)(bit_cast<u32>(scale) >> 23) : (u8)255;
    else ((u8*)to)[n] = (u8)E4M3::encode(scale);
}

// --- the walk over a tensor of codes ---

#define RF_CODE_AXES 8

// Elements, words of codes and scales along every axis, the axis that words are packed along last. Extents count elements but
// for the last, where they count words. A scale's stride is per block.
struct CodeWalk {
    i64 x[RF_CODE_AXES], words[RF_CODE_AXES], scales[RF_CODE_AXES];
    FastDiv extent[RF_CODE_AXES], block[RF_CODE_AXES];
    u32 axes, count, last_extent, scale_kind;
};
static_assert(sizeof(CodeWalk) == 400, "as in walk.rs");

// Where a word's first element, the word and its first scale are, and how far along the last axis.
struct CodeAt { i64 x, word, scale; u32 last; };

// AXES: how many there are where the source knows, else 0.
template <int PER, int AXES = 0> RF_FN CodeAt code_at(const CodeWalk& walk, u32 n) {
    CodeAt at = {0, 0, 0, 0};
    const u32 axes = AXES ? AXES : walk.axes;
    for (u32 axis = axes; axis-- > 0;) {
        u32 rest = walk.extent[axis].divide(n);
        u32 coordinate = n - rest * walk.extent[axis].divisor;
        n = rest;
        at.word += coordinate * walk.words[axis];
        if (axis + 1 == axes) {
            at.last = coordinate * PER;
            at.x += (i64)at.last * walk.x[axis];
        } else {
            at.x += coordinate * walk.x[axis];
            at.scale += walk.block[axis].divide(coordinate) * walk.scales[axis];
        }
    }
    return at;
}
// The scale of element `last` along the last axis.
RF_FN float scale_at(const CodeWalk& walk, const void* scales, const CodeAt& at, u32 last) {
    u32 axis = walk.axes - 1;
    return read_scale(scales, at.scale + walk.block[axis].divide(last) * walk.scales[axis], walk.scale_kind);
}

}  // namespace rf
#endif
