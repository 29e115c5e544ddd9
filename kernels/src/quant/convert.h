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
// The codes of two, in the lowest bits of each half.
RF_FN u32 two_e2m1(u32 x, u32 power_of_two) {
    const u32 y = fma_bf16x2(x, power_of_two, 0x80008000u);
    const u32 size = smaller_halves(y & 0x7fff7fffu, 0x40c040c0u);  // at most 6
    // Sixty-four times its power of two, at least 1, has a last bit that is worth half of that: as much as the code's.
    const u32 power = larger_halves(size & 0x7f807f80u, 0x3f803f80u);
    const u32 sum = fma_bf16x2(power, 0x42804280u, size);
    // The sum's mantissa counts halves of the power; each power above 1 adds two codes. 0x3fe is six exponents and twice the bias.
    const u32 code = sum - power + (power >> 6) - 0x03fe03feu;
    return code | ((y >> 12) & 0x00080008u);
}
// The word of eight.
RF_FN u32 eight_e2m1(const u32* x, float inverse) {
    const u32 bits = bit_cast<u32>(inverse) >> 16, twice = bits | bits << 16;
    const u32 first = two_e2m1(x[0], twice) | two_e2m1(x[1], twice) << 8;
    const u32 last = two_e2m1(x[2], twice) | two_e2m1(x[3], twice) << 8;
    u32 even, odd;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(even) : "r"(first), "r"(last));
    asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(odd) : "r"(first), "r"(last));
    return even | odd << 4;
}
#else
#define QUANT_PAIRS_OF_E2M1 0
#endif

}  // namespace rf
