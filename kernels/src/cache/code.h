// code.h: elements of a cache as floats and back, each read and written by one access of its width. Stands behind cache.h.
template <class T> struct Element;
template <> struct Element<float> {
    RF_FN static float of(u32 bits) { return bit_cast<float>(bits); }
    RF_FN static u32 bits(float x) { return bit_cast<u32>(x); }
    RF_FN static u32 read(const float* at) { return bit_cast<u32>(*at); }
    RF_FN static void write(float* at, u32 bits) { *at = bit_cast<float>(bits); }
};
template <> struct Element<f16> {
    RF_FN static float of(u32 bits) { f16 x = {(u16)bits}; return to_f32(x); }
    RF_FN static u32 bits(float x) { return f32_to_f16(x).bits; }
    RF_FN static u32 read(const f16* at) { return at->bits; }
    RF_FN static void write(f16* at, u32 bits) { at->bits = (u16)bits; }
};
template <> struct Element<bf16> {
    RF_FN static float of(u32 bits) { return bit_cast<float>(bits << 16); }
    RF_FN static u32 bits(float x) { return f32_to_bf16(x).bits; }
    RF_FN static u32 read(const bf16* at) { return at->bits; }
    RF_FN static void write(bf16* at, u32 bits) { at->bits = (u16)bits; }
};
#if CACHE_FORMAT >= 0
typedef Format<CACHE_FORMAT> CodeFormat;
template <> struct Element<u8> {
    RF_FN static float of(u32 bits) { return CodeFormat::decode(bits); }
    // Whole numbers to nearest, ties to even.
    RF_FN static u32 bits(float x) { return CodeFormat::encode<RoundEven>(x, -127.0f, 127.0f); }
    RF_FN static u32 read(const u8* at) { return *at; }
    RF_FN static void write(u8* at, u32 bits) { *at = (u8)bits; }
};
#endif

#if CACHE_FORMAT == 3 || CACHE_FORMAT == 4 || CACHE_FORMAT == 6 || CACHE_FORMAT == 7
// The format's number and the device's own: 1 if it converts, else 0.
#define CACHE_CONVERTS ((ARCH_FP8 == ARCH_FP8_OCP && CACHE_FORMAT <= 4) || (ARCH_FP8 == ARCH_FP8_FNUZ && CACHE_FORMAT >= 6))
#else
#define CACHE_CONVERTS 0
#endif

#if CACHE_CONVERTS && !RF_DEVICE_AMD
// Two codes of a word, its lower ones or its upper ones, as the halves that hold every code exactly.
RF_FN u32 two_f16(u32 word, bool upper) {
    u32 halves;
    const u16 both = (u16)(upper ? word >> 16 : word);
    if (CACHE_FORMAT == 3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(both));
    else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(both));
    return halves;
}
#endif
// Two codes of a word, its lower ones or its upper ones, as floats.
RF_FN void decode_two(u32 word, bool upper, float* to) {
#if CACHE_CONVERTS && RF_DEVICE_AMD
    typedef float Two __attribute__((ext_vector_type(2)));
    Two two;
    if (CACHE_FORMAT == 3 || CACHE_FORMAT == 6)
        two = upper ? __builtin_amdgcn_cvt_pk_f32_fp8((i32)word, true) : __builtin_amdgcn_cvt_pk_f32_fp8((i32)word, false);
    else
        two = upper ? __builtin_amdgcn_cvt_pk_f32_bf8((i32)word, true) : __builtin_amdgcn_cvt_pk_f32_bf8((i32)word, false);
    to[0] = two.x;
    to[1] = two.y;
#elif CACHE_CONVERTS && !RF_DEVICE_AMD
    const u32 halves = two_f16(word, upper);
    f16 low = {(u16)halves}, high = {(u16)(halves >> 16)};
    to[0] = to_f32(low);
    to[1] = to_f32(high);
#elif CACHE_FORMAT >= 0
    to[0] = Element<Code>::of(upper ? word >> 16 & 0xffu : word & 0xffu);
    to[1] = Element<Code>::of(upper ? word >> 24 : word >> 8 & 0xffu);
#endif
}

// Two codes of a word, its lower ones or its upper ones, as a word of two 16-bit floats, which hold every code exactly, and what they are to
// be multiplied by.
template <class H> RF_FN constexpr float decoded_by() { return !RF_DEVICE_AMD && CACHE_FORMAT == 0 && same<H, bf16>::value ? 64.0f : 1.0f; }
template <class H> RF_FN u32 decode_word(u32 word, bool upper) {
#if CACHE_CONVERTS && !RF_DEVICE_AMD
    if (same<H, f16>::value) return two_f16(word, upper);
#elif CACHE_FORMAT == 0 && !RF_DEVICE_AMD
    // The code and 128, as the last bits of 1024 and more in f16. In bf16, whose mantissa has seven bits, as that many of the least float,
    // brought among normal ones by the largest power of two. What was added is taken away again: exact.
    u32 halves;
    const u32 positive = word ^ 0x80808080u, numbers = upper ? 0x4342u : 0x4140u;
    if (same<H, f16>::value)
        asm("{ .reg .b32 bytes; prmt.b32 bytes, %1, 0x64646464, %2; add.rn.f16x2 %0, bytes, %3; }"
            : "=r"(halves)
            : "r"(positive), "r"(numbers), "r"(0xe480e480u));
    else
        asm("{ .reg .b32 bytes; prmt.b32 bytes, %1, 0, %2; fma.rn.bf16x2 %0, bytes, %3, %4; }"
            : "=r"(halves)
            : "r"(positive), "r"(numbers), "r"(0x7f007f00u), "r"(0xc000c000u));
    return halves;
#endif
#if CACHE_CONVERTS && RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA && ARCH_MFMA_GENERATION >= 4
    // CDNA 4 converts to either type at once, and multiplies by a power of two.
    if (CACHE_FORMAT == 3) {
        if (same<H, bf16>::value)
            return upper ? bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, true))
                         : bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, false));
        return upper ? bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, true))
                     : bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, false));
    }
    if (same<H, bf16>::value)
        return upper ? bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_bf16_bf8(word, 1.0f, true))
                     : bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_bf16_bf8(word, 1.0f, false));
    return upper ? bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_f16_bf8(word, 1.0f, true))
                 : bit_cast<u32>(__builtin_amdgcn_cvt_scalef32_pk_f16_bf8(word, 1.0f, false));
#else
    float two[2];
    decode_two(word, upper, two);
    return exact_two<H>(two[0], two[1]);
#endif
}

// Eight channels as floats.
RF_FN void decoded(const Channels& channels, float* to) {
    if (CACHE_IS_CODED) {
#pragma unroll
        for (int i = 0; i < 4; ++i) decode_two(channels.words[i / 2], i % 2 != 0, to + 2 * i);
        return;
    }
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) to[i] = Element<Code>::of(channels.bits(i));
}
