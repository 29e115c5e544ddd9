// products.h: what multiplies two tiles of codes on a matrix unit, and how a lane takes its operands. Stands before scaled.hip and is
// parted by its macros; `Mma` and `Slab` of mma.h for bytes and bf16, the same for 8-bit floats, and CDNA 4's products of 8- and
// 4-bit floats, 128 deep.
using namespace rf;

#define S_INT (S_A_FORMAT == 0)
// A lane of these units has neighbours of a column of the result. With A as the second operand it has neighbours of a row of C, which
// it stores at once; products and their sums are the same.
#define S_TURNED (S_MATRIX && RF_DEVICE_AMD && (ARCH_MATRIX == ARCH_MATRIX_MFMA || ARCH_MATRIX == ARCH_MATRIX_WMMA12))
#if S_TURNED
#define S_FIRST_FORMAT S_B_FORMAT
#define S_SECOND_FORMAT S_A_FORMAT
#else
#define S_FIRST_FORMAT S_A_FORMAT
#define S_SECOND_FORMAT S_B_FORMAT
#endif
// Bits of a code in LDS, where it lies there as it is.
#define S_BITS(format) ((format) == 1 || (format) == 5 ? 4 : 8)
#define S_A_BITS S_BITS(S_A_FORMAT)
#define S_B_BITS S_BITS(S_B_FORMAT)

#if S_DEEP
// What the instruction calls a format: E4M3, E5M2, E2M1.
#define S_KIND(format) ((format) == 3 ? 0 : (format) == 4 ? 1 : 4)
// Operands are 32 bytes, of which codes of 4 bits fill the first half. A lane of group g = lane / 16 has, of row lane % 16,
// bits 4: k = 32 g to 32 g + 31, chunk g of four; bits 8: k = 16 g to 16 g + 15 and 64 more, chunks g and g + 4 of eight. The exponent for
// k = 32 g to 32 g + 31 is in the lowest byte of the same lane's register, whatever k the lane holds. The sum is that of exact products, in
// ascending order of k.
struct Product {
    typedef I32x8 Operand;
    typedef F32x4 Accumulator;
    static const int K = 128, ACC = 4;
    // Exponents as E8M0 of both operands' rows; without S_MX they are not read.
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c, u32 a_scale, u32 b_scale) {
#if S_MX
        return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, c, S_KIND(S_FIRST_FORMAT), S_KIND(S_SECOND_FORMAT), 0, (int)a_scale, 0, (int)b_scale);
#else
        // The compiler takes exponents of constant zero for the instruction that has none.
        return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, c, S_KIND(S_FIRST_FORMAT), S_KIND(S_SECOND_FORMAT), 0, 0, 0, 0);
#endif
    }
    RF_FN static int row(int i, int lane) { return 4 * (lane / 16) + i; }
    RF_FN static int column(int, int lane) { return lane % 16; }
};
#elif S_MATRIX && S_NATIVE && !S_INT
// 8-bit floats as operands. Of the two kinds, 3 and 6 are E4M3 (here the architecture's own), 4 and 7 E5M2.
#define S_FIRST_WIDE (S_FIRST_FORMAT == 4 || S_FIRST_FORMAT == 7)
#define S_SECOND_WIDE (S_SECOND_FORMAT == 4 || S_SECOND_FORMAT == 7)
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
struct Product {
    typedef i64 Operand;
    typedef F32x4 Accumulator;
    static const int K = 32, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
#if S_FIRST_WIDE && S_SECOND_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8((long)a, (long)b, c, 0, 0, 0);
#elif S_FIRST_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8((long)a, (long)b, c, 0, 0, 0);
#elif S_SECOND_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8((long)a, (long)b, c, 0, 0, 0);
#else
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8((long)a, (long)b, c, 0, 0, 0);
#endif
    }
    RF_FN static int row(int i, int lane) { return 4 * (lane / 16) + i; }
    RF_FN static int column(int, int lane) { return lane % 16; }
};
#elif RF_DEVICE_AMD
struct Product {
    typedef I32x2 Operand;
    typedef F32x8 Accumulator;
    static const int K = 16, ACC = 8;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
#if S_FIRST_WIDE && S_SECOND_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(a, b, c);
#elif S_FIRST_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(a, b, c);
#elif S_SECOND_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(a, b, c);
#else
        return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c);
#endif
    }
    RF_FN static int row(int i, int lane) { return i + 8 * (lane / 16); }
    RF_FN static int column(int, int lane) { return lane % 16; }
};
#else
#if S_FIRST_WIDE
#define S_FIRST_TYPE "e5m2"
#else
#define S_FIRST_TYPE "e4m3"
#endif
#if S_SECOND_WIDE
#define S_SECOND_TYPE "e5m2"
#else
#define S_SECOND_TYPE "e4m3"
#endif
struct Product {
    typedef Chunk Operand;
    typedef MmaSums<float> Accumulator;
    static const int K = 32, ACC = 8;
    RF_FN static Accumulator run(const Operand& a, const Operand& b, Accumulator c) {
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." S_FIRST_TYPE "." S_SECOND_TYPE ".f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c.at[4 * half]), "+f"(c.at[4 * half + 1]), "+f"(c.at[4 * half + 2]), "+f"(c.at[4 * half + 3])
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[half]), "r"(b.word[half + 2]));
        return c;
    }
    RF_FN static int row(int i, int lane) { return Mma<i8, 16>::row(i, lane); }
    RF_FN static int column(int i, int lane) { return Mma<i8, 16>::column(i, lane); }
};
#endif
#elif S_MATRIX && S_NATIVE
typedef Mma<i8, 16> Product;
#elif S_MATRIX
typedef Mma<bf16, 16> Product;
#endif

#if S_MATRIX
// The row and the column of C that value number i of a lane is of.
RF_FN int product_row(int i, int lane) { return S_TURNED ? Product::column(i, lane) : Product::row(i, lane); }
RF_FN int product_column(int i, int lane) { return S_TURNED ? Product::row(i, lane) : Product::column(i, lane); }
#endif

#if S_MATRIX && !S_DEEP
// How the 16-byte chunks of 64 bytes of a row are dealt to lanes: `Slab` of mma.h, for 8-bit floats too. What meets in a product is of
// one k in both operands.
#if S_NATIVE && !S_INT
struct Deal {
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
    static const int PHASES = 1;
#else
    static const int PHASES = 2;
#endif
    static const int READS = 1, STEPS = 16 / (int)sizeof(Product::Operand);
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int phase, int) { return 2 * phase; }
    RF_FN static void operands(const Chunk* read, Product::Operand* to) { __builtin_memcpy(to, read, 16); }
};
#elif S_NATIVE
typedef Slab<i8, 16> Deal;
#else
typedef Slab<bf16, 16> Deal;
#endif
#endif
