// convert.h: codes and magnitudes by the device's own instructions, several at once. Stands before activations.hip.
namespace rf {

// Whether the device converts floats to a format of quant.h's numbers: to OCP's own or to the forms with one zero, as the
// architecture table says of its fp8.
#define QUANT_CONVERTS(format)                                                  \
    ((ARCH_FP8 == ARCH_FP8_OCP && ((format) == 3 || (format) == 4)) || \
     (ARCH_FP8 == ARCH_FP8_FNUZ && ((format) == 6 || (format) == 7)))

// Whether those conversions saturate and give NaN for NaN, as `encode` does. AMD's want finite values inside the range.
#if RF_DEVICE_AMD
#define QUANT_SATURATES 0
#else
#define QUANT_SATURATES 1
#endif

// What need not stay in a cache, where it would take the place of what is read again. Pays where a workgroup has whole rows to read
// (H200: 2 to 3%) and costs where its lanes have groups of their own (4 to 6%).
template <int N> RF_FN Vec<u32, N> load_once(const u32* from) {
#if !RF_DEVICE_AMD
    if (N == 4) {
        Vec<u32, N> words;
        asm("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(words.at[0]), "=r"(words.at[1 % N]), "=r"(words.at[2 % N]), "=r"(words.at[3 % N])
            : "l"(from));
        return words;
    }
#endif
    return load<N>(from);
}
template <int N> RF_FN void store_once(u32* to, const Vec<u32, N>& words) {
#if RF_DEVICE_AMD
    store<N>(to, words);
#else
    if (N == 1)
        asm volatile("st.global.cs.u32 [%0], %1;" : : "l"(to), "r"(words.at[0]) : "memory");
    else if (N == 2)
        asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(words.at[0]), "r"(words.at[1 % N]) : "memory");
    else
        asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(to), "r"(words.at[0]), "r"(words.at[1 % N]), "r"(words.at[2 % N]), "r"(words.at[3 % N])
                     : "memory");
#endif
}

// The lowest bytes of four words, the first lowest.
RF_FN u32 low_bytes(u32 a, u32 b, u32 c, u32 d) {
#if RF_DEVICE_AMD
    const u32 low = __builtin_amdgcn_perm(b, a, 0x0c0c0400u), high = __builtin_amdgcn_perm(d, c, 0x04000c0cu);
    return low | high;
#else
    u32 low, high, all;
    asm("prmt.b32 %0, %1, %2, 0x0040;" : "=r"(low) : "r"(a), "r"(b));
    asm("prmt.b32 %0, %1, %2, 0x0040;" : "=r"(high) : "r"(c), "r"(d));
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(all) : "r"(low), "r"(high));
    return all;
#endif
}

#if RF_DEVICE_AMD
// Three values in the middle of their order; none is NaN.
RF_FN float within(float x, float most) { return __builtin_amdgcn_fmed3f(x, -most, most); }
#endif

// The codes of four floats by the device. Templates, so that what another device lacks is never looked at.
template <int FORMAT> RF_FN u32 four_codes(float a, float b, float c, float d, float most) {
#if RF_DEVICE_AMD
    u32 codes = 0;
#if QUANT_CONVERTS(3) || QUANT_CONVERTS(6)
    if (FORMAT == 3 || FORMAT == 6) {
        codes = (u32)__builtin_amdgcn_cvt_pk_fp8_f32(within(a, most), within(b, most), (i32)codes, false);
        codes = (u32)__builtin_amdgcn_cvt_pk_fp8_f32(within(c, most), within(d, most), (i32)codes, true);
    } else {
        codes = (u32)__builtin_amdgcn_cvt_pk_bf8_f32(within(a, most), within(b, most), (i32)codes, false);
        codes = (u32)__builtin_amdgcn_cvt_pk_bf8_f32(within(c, most), within(d, most), (i32)codes, true);
    }
#endif
    return codes;
#else
    u32 codes;
    if (FORMAT == 3)
        asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
            "mov.b32 %0, {low, high}; }"
            : "=r"(codes)
            : "f"(a), "f"(b), "f"(c), "f"(d));
    else
        asm("{ .reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; "
            "mov.b32 %0, {low, high}; }"
            : "=r"(codes)
            : "f"(a), "f"(b), "f"(c), "f"(d));
    return codes;
#endif
}

// The larger of each half.
RF_FN u32 larger_halves(u32 a, u32 b) {
#if RF_DEVICE_AMD && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_max)
    typedef u16 Halves __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(__builtin_elementwise_max(bit_cast<Halves>(a), bit_cast<Halves>(b)));
#endif
#elif !RF_DEVICE_AMD && __CUDA_ARCH__ >= 900
    u32 most;
    asm("max.u16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
    return most;
#endif
    const u32 high = a > b ? a : b;
    const u32 low_a = a & 0xffffu, low_b = b & 0xffffu;
    return (high & 0xffff0000u) | (low_a > low_b ? low_a : low_b);
}

// The largest of a wave's, in every lane.
RF_FN u32 largest_of_wave(u32 x) {
#if !RF_DEVICE_AMD && __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, x);
#else
    struct Most { RF_FN u32 operator()(u32 a, u32 b) const { return a > b ? a : b; } };
    return wave_reduce(x, Most());
#endif
}

#if !RF_DEVICE_AMD && __CUDA_ARCH__ >= 900
// Whether eight bf16 become codes of E2M1 two at a time, where what they are multiplied by is a power of two: a product is then
// exact, or too small for any code but zero, or infinite, which is clipped.
#define QUANT_PAIRS_OF_E2M1 1
RF_FN u32 fma_bf16x2(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
RF_FN u32 smaller_halves(u32 a, u32 b) {
    u32 least;
    asm("min.u16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
    return least;
}
// The codes of two sizes, in the lowest byte of each half.
//
// Codes of y up to 2 are y in halves, from there to 4 two and y, beyond four and half of y: everywhere the least of the three, each
// rounded to nearest even. Added to 128 a bf16 has no fraction, and its lowest bits are the number.
RF_FN u32 two_e2m1(u32 x, u32 power_of_two) {
    const u32 y = fma_bf16x2(x & 0x7fff7fffu, power_of_two, 0x80008000u);
    const u32 halves = fma_bf16x2(y, 0x40004000u, 0x43004300u);
    const u32 ones = fma_bf16x2(y, 0x3f803f80u, 0x43024302u);
    const u32 twos = fma_bf16x2(y, 0x3f003f00u, 0x43044304u);
    // Sizes are 6 at most: code 7.
    return smaller_halves(smaller_halves(halves, ones), smaller_halves(twos, 0x43074307u));
}
// The word of eight.
RF_FN u32 eight_e2m1(const u32* x, float inverse) {
    const u32 bits = bit_cast<u32>(inverse) >> 16, twice = bits | bits << 16;
    u32 four[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const u32 sizes = pick_bytes<0, 4, 2, 6>(two_e2m1(x[2 * i], twice), two_e2m1(x[2 * i + 1], twice));
        four[i] = sizes | ((pick_bytes<1, 5, 3, 7>(x[2 * i], x[2 * i + 1]) >> 4) & 0x08080808u);
    }
    const u32 even = low_halves(four[0], four[1]), odd = high_halves(four[0], four[1]);
    return even + odd * 16;
}
#else
#define QUANT_PAIRS_OF_E2M1 0
#endif

}  // namespace rf
