// few_codes.h: codes as operands of the matrix unit, two at a time of one place in both halves of a word, for the kernels of few rows.
// Stands behind coded.h.
//
// Macros : those of coded.h
static_assert(sizeof(In) == 2 && sizeof(Q_WORD) == 4, "checked by the launcher");

#if RF_DEVICE_AMD
static constexpr float GROWN = 1.0f;
template <int N> RF_FN Vec<u32, N> load_once(const u32* from) { return load<N>(from); }
// What makes the codes of a word positive.
static const u32 POSITIVE = Q_FORMAT > 2 ? 0 : 0xffffffffu / ((1u << Code::BITS) - 1) << (Code::BITS - 1);
// Code `i` of both halves, made positive, as an f16. It becomes the last bits of a mantissa, and what made it positive and the float
// besides are taken away again: exact.
RF_FN u32 decode_two(u32 halves, int i) {
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    const u32 half = 0x10001u << (Code::BITS - 1), mask = half * 2u - 0x10001u, power = 0x64006400u;
    const u32 sum = (halves >> i * Code::BITS & mask) | power;
    return bit_cast<u32>(bit_cast<Two>(sum) + bit_cast<Two>(power | half | 0x80008000u));
}
#else
// a · b + c of two floats.
RF_FN u32 fma_two(u32 a, u32 b, u32 c) {
    u32 sum;
    if (same<In, bf16>::value) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    else asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
// Words that no other workgroup reads: L1 is left to A's rows, and never asked, as the launch ahead may not have ended; L2 gets both halves
// of a line, of which a neighbour reads the other.
#define F_LOAD "ld.relaxed.gpu.global.L1::no_allocate.L2::128B."
template <int N> RF_FN Vec<u32, N> load_once(const u32* from);
template <> RF_FN Vec<u32, 1> load_once<1>(const u32* from) {
    Vec<u32, 1> to;
    asm volatile(F_LOAD "u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
    return to;
}
template <> RF_FN Vec<u32, 2> load_once<2>(const u32* from) {
    Vec<u32, 2> to;
    asm volatile(F_LOAD "v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
    return to;
}
template <> RF_FN Vec<u32, 4> load_once<4>(const u32* from) {
    Vec<u32, 4> to;
    asm volatile(F_LOAD "v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(from));
    return to;
}
// The same 16 bytes past the registers: `copy_async`.
RF_FN void copy_once(u32 to, const void* from, bool there) {
    asm volatile("{ .reg .u64 global; cvta.to.global.u64 global, %1; cp.async.cg.shared.global.L2::128B [%0], [global], 16, %2; }"
                 :
                 : "r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
// The bytes that four numbers name, of a word (0 to 3) and of zeros (4 to 7).
RF_FN u32 bytes_of(u32 word, u32 numbers) {
    u32 bytes;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(bytes) : "r"(word), "r"(numbers));
    return bytes;
}
// NVRTC makes two instructions each of what follows.
RF_FN u32 mask_and_flip(u32 word, u32 mask, u32 flip) {
    u32 bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(bits) : "r"(word), "r"(mask), "r"(flip));
    return bits;
}
// Code `i` of both halves, divided by GROWN. The lowest bits of a half, those of the mantissa and the last one of the exponent, are a
// whole number of the type's least float, whether it is below the normal ones or not: so what a code is with what makes it positive, in
// either half of a byte. The largest power of two that there is brings it among the normal floats, and what made it positive is taken
// away with it: exact.
static constexpr float GROWN = Q_FORMAT == 3 ? (same<In, bf16>::value ? 1.0f : 256.0f)
                           : Q_FORMAT == 5 ? (same<In, bf16>::value ? 1.0f : 16384.0f)
                           : same<In, bf16>::value ? 64.0f : 512.0f;
// They are taken as they are.
static const u32 POSITIVE = 0;
RF_FN u32 decode_two(u32 halves, int i) {
    const bool wide = same<In, bf16>::value;
    const int at = i * Code::BITS % 8;
    const u32 half = 0x10001u << (Code::BITS - 1 + at), mask = (0x10001u << (Code::BITS + at)) - (0x10001u << at);
    const u32 largest = 0x10001u * (u32)(wide ? (254 - at) << 7 : (30 - at) << 10);
    const u32 positive = 0x10001u * (u32)(wide ? 0x8000 | (120 + Code::BITS) << 7 : 0x8000 | (5 + Code::BITS) << 10);
    return fma_two(mask_and_flip(halves >> i * Code::BITS / 8 * 8, mask, half), largest, positive);
}
#endif

#if Q_FORMAT == 3
// E4M3 `i` of both halves, divided by GROWN. Moved to where the type has sign and size, it is 2^-8 of the number in f16 and 2^-120 in
// bf16, subnormals too. What is no number has all of the size's bits: one more reaches the sign's place, from where it becomes the
// exponent of none.
RF_FN u32 e4m3_two(u32 halves, int i) {
    const u32 codes = i == 0 ? halves << 8 : halves;
    const u32 size = codes & 0x7f007f00u, none = (size + 0x01000100u) & 0x80008000u, sign = codes & 0x80008000u;
    if (same<In, bf16>::value) {
        const u32 part = sign | size >> 4 | (none - (none >> 8));
#if RF_DEVICE_AMD
        return part;  // not asked for
#else
        return fma_two(part, 0x7b807b80u, 0x80008000u);
#endif
    }
    const u32 part = sign | (size | none) >> 1;
#if RF_DEVICE_AMD
    // Units of some architectures take subnormals for zeros.
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(bit_cast<Two>(part) * (Two){256, 256});
#else
    return part;
#endif
}
#endif

#if Q_FORMAT == 5
// E2M1 `i` of both halves, divided by GROWN. Moved to where the type has sign and size, it is 2^-14 of the number in f16 and 2^-126 in
// bf16, the subnormal too.
RF_FN u32 e2m1_two(u32 halves, int i) {
    const int size_at = (same<In, bf16>::value ? 6 : 9) - 4 * i, sign_at = 12 - 4 * i;
    const u32 size = (size_at < 0 ? halves >> -size_at : halves << size_at) & (same<In, bf16>::value ? 0x01c001c0u : 0x0e000e00u);
    const u32 part = (halves << sign_at & 0x80008000u) | size;
#if RF_DEVICE_AMD
    // Units of some architectures take subnormals for zeros. A bf16 is not asked for.
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(bit_cast<Two>(part) * (Two){16384, 16384});
#else
    return same<In, bf16>::value ? fma_two(part, 0x7e807e80u, 0x80008000u) : part;
#endif
}
#endif

// A scale of one of quant.h's kinds: how it lies in memory, and its value by those bits.
template <int KIND> struct ScaleOf {
    typedef u8 Bits;
    RF_FN static float value(u32 bits) { return KIND == RF_SCALE_E8M0 ? e8m0_decode(bits) : E4M3::decode(bits); }
};
template <> struct ScaleOf<RF_SCALE_F32> {
    typedef u32 Bits;
    RF_FN static float value(u32 bits) { return bit_cast<float>(bits); }
};
template <> struct ScaleOf<RF_SCALE_F16> {
    typedef u16 Bits;
    RF_FN static float value(u32 bits) { return cast<float>(bit_cast<f16>((u16)bits)); }
};
template <> struct ScaleOf<RF_SCALE_BF16> {
    typedef u16 Bits;
    RF_FN static float value(u32 bits) { return cast<float>(bit_cast<bf16>((u16)bits)); }
};

// How codes become operands: whole numbers, E4M3 and E2M1 two at a time where the type is computed with so, else whole numbers as floats of
// 32 bits, whose upper halves a bf16 is; any others one by one.
enum { BY_TWO, BY_FLOATS, BY_ONE };
static const int WAY = Q_FORMAT > 3 && Q_FORMAT != 5 ? BY_ONE : !RF_DEVICE_AMD || same<In, f16>::value ? BY_TWO : Q_FORMAT > 2 ? BY_ONE : BY_FLOATS;
RF_FN u32 two_of_codes(u32 halves, int i) {
#if Q_FORMAT == 3
    return e4m3_two(halves, i);
#elif Q_FORMAT == 5
    return e2m1_two(halves, i);
#else
    return decode_two(halves, i);
#endif
}
static const int PER_HALF = Q_PER / 2;

// Code `i` of both halves as floats, as a pair of an operand.
RF_FN u32 halves_of(u32 word, int i) {
    if (WAY == BY_TWO) return two_of_codes(word, i);
    return exact_two<In>(decode_at(word, i), decode_at(word, i + PER_HALF));
}
