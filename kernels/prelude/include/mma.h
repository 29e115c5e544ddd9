// mma.h: the tile product D = A B + C of one wave, over the matrix unit where there is one.
//
// `Mma<T, SIZE>` multiplies SIZE x K by K x SIZE and adds to an accumulator of ACC values per lane: value i is at
// row(i, lane), column(i, lane), which on AMD is lane % SIZE; those of a lane differ by the same in every lane.
//
// `Slab<T, SIZE>` is how a wave reads operands: 64 bytes of K of row (or column) lane % SIZE, which lie somewhere as four
// chunks of 16 bytes. In each of PHASES a lane takes READS chunks, number i being chunk(lane / SIZE) ^ apart(phase, i), by
// `read_chunk`; `operands` makes STEPS operands of them, one for each product. A and B are read alike, so the order in which the hardware has its k
// does not matter, but for the order of the sum. That is, of the elements of chunks a, b, c, d with the lowest first within a
// run and all of an instruction's k in the order of its layout:
//
//   f32, f64 MFMA                       a0 b0 c0 d0 a1 b1 c1 d1 ...
//   16 bit   MFMA of CDNA 2 and 3       a0..3 b0..3 c0..3 d0..3 a4..7 b4..7 c4..7 d4..7
//   16 bit   MFMA of CDNA 4, WMMA11     ascending
//   16 bit   WMMA12                     a0..3 b0..3 a4..7 b4..7 c0..3 d0..3 c4..7 d4..7
//   bf16     MFMA of CDNA 1             a0 a1 b0 b1 c0 c1 d0 d1 a2 a3 ... (f16: as CDNA 2)
//   i8       all                        of no account: sums of 32 bits that wrap around
//
// `Fragment<T, SIZE>` is for rows that lie plainly: of GROUP consecutive k of row (or column) lane % SIZE, a lane takes
// what `read` takes from the address of the row's first k plus offset(lane / SIZE): STEPS operands, one for each product.
// The sum over a group is in the order
//
//   f32     MFMA                        0 4 1 5 2 6 3 7
//   16 bit  MFMA of CDNA 2 and 3, WMMA  0..3 8..11 4..7 12..15
//   16 bit  MFMA of CDNA 4              ascending
//   bf16    MFMA of CDNA 1              0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15 (f16: as CDNA 2)
//   f64     MFMA                        0 2 4 6 1 3 5 7
//
// both sizes of a type the same. Shapes are AMD's: MFMA f32 2 or 4 deep, f16 and bf16 8 or 16 deep (16 or 32 on CDNA 4),
// f64 4 deep (from CDNA 2), WMMA f16 and bf16 16 deep under wave32; i8 8 to 64 deep. NVIDIA's mma.sync from sm_80 on, 32 bytes deep,
// does not say in which order it sums the two chunks of a product. RF_MMA_... is 0 where T has no such product; kernels then
// use plain FMA.
#ifndef ROCFIRE_MMA_H
#define ROCFIRE_MMA_H
namespace rf {

#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
#define RF_MMA_F32 1
#define RF_MMA_16 1
#define RF_MMA_I8 1
#define RF_MMA_F64 (ARCH_MFMA_GENERATION >= 2)
#elif RF_DEVICE_AMD && (ARCH_MATRIX == ARCH_MATRIX_WMMA11 || ARCH_MATRIX == ARCH_MATRIX_WMMA12) && ARCH_WAVE_SIZE == 32
#define RF_MMA_F32 0
#define RF_MMA_16 1
#define RF_MMA_I8 1
#define RF_MMA_F64 0
#elif !RF_DEVICE_AMD && !defined(RF_HOST) && ARCH_MATRIX == ARCH_MATRIX_MMA_SYNC
#define RF_MMA_F32 0
#define RF_MMA_16 1
#define RF_MMA_I8 1
#define RF_MMA_F64 0
#else
#define RF_MMA_F32 0
#define RF_MMA_16 0
#define RF_MMA_I8 0
#define RF_MMA_F64 0
#endif

template <class T, int SIZE> struct Mma;
template <class T, int SIZE> struct Slab;
template <class T, int SIZE> struct Fragment;

#if RF_MMA_16
#if RF_DEVICE_AMD
// 16 bytes of a row. A vector, as the compiler takes the load of an aggregate apart, and halves of 16 bytes meet banks twice.
typedef u32 Chunk __attribute__((ext_vector_type(4)));
// An address in LDS, in bytes.
typedef const char* LdsAddress;
RF_FN LdsAddress lds_address(const void* lds) { return (const char*)lds; }
RF_FN Chunk read_chunk(LdsAddress at) { return *(const Chunk*)at; }
#else
struct Chunk { u32 word[4]; };
typedef u32 LdsAddress;
RF_FN LdsAddress lds_address(const void* lds) {
    u32 place;
    asm("{ .reg .u64 in_shared; cvta.to.shared.u64 in_shared, %1; cvt.u32.u64 %0, in_shared; }" : "=r"(place) : "l"(lds));
    return place;
}
// ldmatrix wants from lane l the address of row l % 8 of block l / 8, and gives block n in word n: rows 0 to 7 and 8 to 15 of
// the first 8 k, then of the others. No clobber of memory: barriers keep the order, and more would keep loads apart.
RF_FN Chunk read_chunk(LdsAddress at) {
    Chunk to;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
                 : "r"(at));
    return to;
}
// The same of a tile that lies with k as its rows: lane l gives the address of row k = l / 16 * 8 + l % 8 and of the 8 rows
// or columns l / 8 % 2.
RF_FN Chunk read_chunk_across(LdsAddress at) {
    Chunk to;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
                 : "r"(at));
    return to;
}
#endif
#endif

#if RF_MMA_16 && RF_DEVICE_AMD
typedef float F32x4 __attribute__((ext_vector_type(4)));
typedef float F32x8 __attribute__((ext_vector_type(8)));
typedef float F32x16 __attribute__((ext_vector_type(16)));
typedef double F64x4 __attribute__((ext_vector_type(4)));
typedef i32 I32x2 __attribute__((ext_vector_type(2)));
typedef i32 I32x4 __attribute__((ext_vector_type(4)));
typedef i32 I32x8 __attribute__((ext_vector_type(8)));
typedef i32 I32x16 __attribute__((ext_vector_type(16)));
typedef u32 U32x4 __attribute__((ext_vector_type(4)));
typedef u32 U32x8 __attribute__((ext_vector_type(8)));
typedef u32 U32x16 __attribute__((ext_vector_type(16)));
typedef _Float16 F16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 F16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 F16x16 __attribute__((ext_vector_type(16)));
typedef short I16x2 __attribute__((ext_vector_type(2)));
typedef short I16x4 __attribute__((ext_vector_type(4)));
typedef short I16x8 __attribute__((ext_vector_type(8)));
typedef short I16x16 __attribute__((ext_vector_type(16)));

// BYTES bytes of aligned memory into a vector register or several.
template <int BYTES> RF_FN void read_aligned(const void* at, void* to) {
    __builtin_memcpy(to, __builtin_assume_aligned(at, BYTES), BYTES);
}

// Declares a product: DEPTH k of SIDE rows, VALUES accumulator values per lane.
#define RF_MMA(T, SIDE, OPERAND, ACCUMULATOR, DEPTH, VALUES, PRODUCT, ROW)                \
    template <> struct Mma<T, SIDE> {                                                     \
        typedef OPERAND Operand;                                                          \
        typedef ACCUMULATOR Accumulator;                                                  \
        static const int K = DEPTH, ACC = VALUES;                                         \
        RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) { return PRODUCT; } \
        RF_FN static int row(int i, int lane) { return ROW; }                             \
        RF_FN static int column(int, int lane) { return lane % SIDE; }                    \
    };
#endif

#if ARCH_MATRIX == ARCH_MATRIX_MFMA && RF_MMA_16
// f32 accumulators: blocks of 4 rows, dealt to the lane groups in turn. The f64 one deals single rows.
#define RF_ROW_32 (8 * (i / 4) + 4 * (lane / 32) + i % 4)
#define RF_ROW_16 (4 * (lane / 16) + i)
RF_MMA(float, 32, float, F32x16, 2, 16, __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(float, 16, float, F32x4, 4, 4, __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0), RF_ROW_16)
#if ARCH_MFMA_GENERATION >= 4
typedef __bf16 B16x8 __attribute__((ext_vector_type(8)));
RF_MMA(f16, 32, F16x8, F32x16, 16, 16, __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(f16, 16, F16x8, F32x4, 32, 4, __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, c, 0, 0, 0), RF_ROW_16)
RF_MMA(bf16, 32, B16x8, F32x16, 16, 16, __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(bf16, 16, B16x8, F32x4, 32, 4, __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, c, 0, 0, 0), RF_ROW_16)
#else
RF_MMA(f16, 32, F16x4, F32x16, 8, 16, __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(f16, 16, F16x4, F32x4, 16, 4, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0), RF_ROW_16)
#if ARCH_MFMA_GENERATION >= 2
RF_MMA(bf16, 32, I16x4, F32x16, 8, 16, __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(bf16, 16, I16x4, F32x4, 16, 4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0), RF_ROW_16)
#else
RF_MMA(bf16, 32, I16x2, F32x16, 4, 16, __builtin_amdgcn_mfma_f32_32x32x4bf16(a, b, c, 0, 0, 0), RF_ROW_32)
RF_MMA(bf16, 16, I16x2, F32x4, 8, 4, __builtin_amdgcn_mfma_f32_16x16x8bf16(a, b, c, 0, 0, 0), RF_ROW_16)
#endif
#endif
// Bytes, signed; the sums wrap around.
#if ARCH_MFMA_GENERATION >= 4
#define RF_MMA_I8_(SIDE, DEPTH, SUM, WORDS, NAME, ROW) \
    RF_MMA(i8, SIDE, I32x4, SUM, DEPTH, WORDS, (SUM)NAME(a, b, (I32x##WORDS)c, 0, 0, 0), ROW)
RF_MMA_I8_(32, 32, U32x16, 16, __builtin_amdgcn_mfma_i32_32x32x32_i8, RF_ROW_32)
RF_MMA_I8_(16, 64, U32x4, 4, __builtin_amdgcn_mfma_i32_16x16x64_i8, RF_ROW_16)
#elif ARCH_MFMA_GENERATION == 3
#define RF_MMA_I8_(SIDE, DEPTH, SUM, WORDS, NAME, ROW) \
    RF_MMA(i8, SIDE, i64, SUM, DEPTH, WORDS, (SUM)NAME((long)a, (long)b, (I32x##WORDS)c, 0, 0, 0), ROW)
RF_MMA_I8_(32, 16, U32x16, 16, __builtin_amdgcn_mfma_i32_32x32x16_i8, RF_ROW_32)
RF_MMA_I8_(16, 32, U32x4, 4, __builtin_amdgcn_mfma_i32_16x16x32_i8, RF_ROW_16)
#else
#define RF_MMA_I8_(SIDE, DEPTH, SUM, WORDS, NAME, ROW) \
    RF_MMA(i8, SIDE, i32, SUM, DEPTH, WORDS, (SUM)NAME(a, b, (I32x##WORDS)c, 0, 0, 0), ROW)
RF_MMA_I8_(32, 8, U32x16, 16, __builtin_amdgcn_mfma_i32_32x32x8i8, RF_ROW_32)
RF_MMA_I8_(16, 16, U32x4, 4, __builtin_amdgcn_mfma_i32_16x16x16i8, RF_ROW_16)
#endif
#undef RF_MMA_I8_
#if RF_MMA_F64
RF_MMA(double, 16, double, F64x4, 4, 4, __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0), (4 * i + lane / 16))
#endif

// A product sums over its lane groups in ascending order, which is why the two sizes read differently.
template <> struct Fragment<float, 32> {
    static const int GROUP = 8, STEPS = 4;
    RF_FN static int offset(int part) { return 4 * part; }
    RF_FN static void read(const float* at, float* to) { read_aligned<16>(at, to); }
};
template <> struct Fragment<float, 16> {
    static const int GROUP = 8, STEPS = 2;
    RF_FN static int offset(int part) { return 4 * (part & 1) + (part >> 1); }
    RF_FN static void read(const float* at, float* to) { to[0] = at[0]; to[1] = at[2]; }
};
template <> struct Fragment<double, 16> {
    static const int GROUP = 8, STEPS = 2;
    RF_FN static int offset(int part) { return 2 * part; }
    RF_FN static void read(const double* at, double* to) { read_aligned<16>(at, to); }
};
#if ARCH_MFMA_GENERATION >= 4
// Eight k to a lane: one access.
template <class T, int SIZE> struct Fragment {
    static const int GROUP = Mma<T, SIZE>::K, STEPS = 1;
    RF_FN static int offset(int part) { return 8 * part; }
    RF_FN static void read(const T* at, typename Mma<T, SIZE>::Operand* to) { read_aligned<16>(at, to); }
};
#else
template <class T> struct Fragment<T, 32> {
    static const int GROUP = 16, STEPS = GROUP / Mma<T, 32>::K;
    RF_FN static int offset(int part) { return 8 * part; }
    RF_FN static void read(const T* at, typename Mma<T, 32>::Operand* to) { read_aligned<16>(at, to); }
};
template <class T> struct Fragment<T, 16> {
    typedef typename Mma<T, 16>::Operand Operand;
    static const int GROUP = 16, STEPS = GROUP / Mma<T, 16>::K, PER_LANE = Mma<T, 16>::K / 4;
    RF_FN static int offset(int part) { return 8 * (part & 1) + PER_LANE * (part >> 1); }
    RF_FN static void read(const T* at, Operand* to) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) read_aligned<2 * PER_LANE>(at + 2 * PER_LANE * step, to + step);
    }
};
#endif
// Lane group p takes chunk p of the four; where there are but two groups, p and p + 2. The first units of all chunks, a unit
// being what a product takes of a lane, are summed before the second ones, whatever the size.
template <class T, int SIZE> struct Slab {
    typedef typename Mma<T, SIZE>::Operand Operand;
    static const int UNITS = 16 / (int)sizeof(Operand), PHASES = 1, READS = SIZE / 16, STEPS = READS * UNITS;
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int, int i) { return 2 * i; }
    RF_FN static void operands(const Chunk* read, Operand* to) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            __builtin_memcpy(to + step, (const char*)(read + step % READS) + step / READS * sizeof(Operand), sizeof(Operand));
    }
};
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA11 && RF_MMA_16
// Each lane holds all 16 k of its row, and lanes 16 to 31 what lanes 0 to 15 hold.
RF_MMA(f16, 16, F16x16, F32x8, 16, 8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c), (2 * i + lane / 16))
RF_MMA(bf16, 16, I16x16, F32x8, 16, 8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c), (2 * i + lane / 16))
template <class T> struct Fragment<T, 16> {
    static const int GROUP = 16, STEPS = 1;
    RF_FN static int offset(int) { return 0; }
    RF_FN static void read(const T* at, typename Mma<T, 16>::Operand* to) {
        // The registers' order is the sum's.
        T in[16], out[16];
        read_aligned<16>(at, in);
        read_aligned<16>(at + 8, in + 8);
#pragma unroll
        for (int k = 0; k < 16; ++k) out[k] = in[k / 4 % 2 * 8 + k / 8 * 4 + k % 4];
        __builtin_memcpy(to, out, sizeof(out));
    }
};
template <class T> struct Slab<T, 16> {
    static const int PHASES = 2, READS = 2, STEPS = 1;
    RF_FN static int chunk(int) { return 0; }
    RF_FN static int apart(int phase, int i) { return 2 * phase + i; }
    RF_FN static void operands(const Chunk* read, typename Mma<T, 16>::Operand* to) { __builtin_memcpy(to, read, 32); }
};
RF_MMA(i8, 16, I32x4, U32x8, 16, 8, (U32x8)__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, (I32x8)c, false),
       (2 * i + lane / 16))
template <> struct Slab<i8, 16> {
    static const int PHASES = 4, READS = 1, STEPS = 1;
    RF_FN static int chunk(int) { return 0; }
    RF_FN static int apart(int phase, int) { return phase; }
    RF_FN static void operands(const Chunk* read, I32x4* to) { __builtin_memcpy(to, read, 16); }
};
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA12 && RF_MMA_16
// The two halves of the wave hold runs of 4 k in turn, so that a lane's eight may be taken for consecutive ones.
RF_MMA(f16, 16, F16x8, F32x8, 16, 8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c), (i + 8 * (lane / 16)))
RF_MMA(bf16, 16, I16x8, F32x8, 16, 8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c), (i + 8 * (lane / 16)))
template <class T> struct Fragment<T, 16> {
    static const int GROUP = 16, STEPS = 1;
    RF_FN static int offset(int part) { return 8 * part; }
    RF_FN static void read(const T* at, typename Mma<T, 16>::Operand* to) { read_aligned<16>(at, to); }
};
template <class T> struct Slab<T, 16> {
    static const int PHASES = 2, READS = 1, STEPS = 1;
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int phase, int) { return 2 * phase; }
    RF_FN static void operands(const Chunk* read, typename Mma<T, 16>::Operand* to) { __builtin_memcpy(to, read, 16); }
};
RF_MMA(i8, 16, I32x2, U32x8, 16, 8, (U32x8)__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, (I32x8)c, false),
       (i + 8 * (lane / 16)))
template <> struct Slab<i8, 16> {
    static const int PHASES = 2, READS = 1, STEPS = 2;
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int phase, int) { return 2 * phase; }
    RF_FN static void operands(const Chunk* read, I32x2* to) { __builtin_memcpy(to, read, 16); }
};
#endif

#if !RF_DEVICE_AMD && RF_MMA_16
typedef Chunk MmaOperand;
template <class N> struct MmaSums {
    N at[8];
    RF_FN N operator[](int i) const { return at[i]; }
    RF_FN void operator=(int value) {
#pragma unroll
        for (int i = 0; i < 8; ++i) at[i] = (N)value;
    }
    RF_FN void operator+=(const MmaSums& other) {
#pragma unroll
        for (int i = 0; i < 8; ++i) at[i] += other.at[i];
    }
};
typedef MmaSums<float> MmaSum;
// Two products of 8 columns each; a lane has two neighbours of rows lane / 4 and 8 below it.
#define RF_MMA_SYNC(T, SUM, DEPTH, BITS, TYPES)                                                             \
    template <> struct Mma<T, 16> {                                                                         \
        typedef MmaOperand Operand;                                                                         \
        typedef MmaSums<SUM> Accumulator;                                                                   \
        static const int K = DEPTH, ACC = 8;                                                                \
        RF_FN static Accumulator run(const Operand& a, const Operand& b, Accumulator c) {                   \
            for (int half = 0; half < 2; ++half)                                                            \
                asm volatile("mma.sync.aligned.m16n8k" TYPES " {%0, %1, %2, %3}, "                          \
                    "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                         \
                    : "+" BITS(c.at[4 * half]), "+" BITS(c.at[4 * half + 1]), "+" BITS(c.at[4 * half + 2]), \
                      "+" BITS(c.at[4 * half + 3])                                                          \
                    : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[half]),    \
                      "r"(b.word[half + 2]));                                                               \
            return c;                                                                                       \
        }                                                                                                   \
        RF_FN static int row(int i, int lane) { return lane / 4 + i / 2 % 2 * 8; }                          \
        RF_FN static int column(int i, int lane) { return lane % 4 * 2 + i % 2 + i / 4 * 8; }               \
    };
RF_MMA_SYNC(f16, float, 16, "f", "16.row.col.f32.f16.f16.f32")
RF_MMA_SYNC(bf16, float, 16, "f", "16.row.col.f32.bf16.bf16.f32")
RF_MMA_SYNC(i8, u32, 32, "r", "32.row.col.s32.s8.s8.s32")
#undef RF_MMA_SYNC
// One of the two: 16 rows by 8 columns, 16 k. Of rows lane / 4 and 8 below it a lane gives k 2 p and 2 p + 1, p = lane % 4, then 8
// more, and of column lane / 4 the same; it has columns 2 p and 2 p + 1 of its first row, then of the other.
template <class T> struct MmaNarrow {
    struct Accumulator {
        float at[4];
        RF_FN float& operator[](int i) { return at[i]; }
        RF_FN float operator[](int i) const { return at[i]; }
    };
#define RF_MMA_NARROW(TYPES)                                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "       \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                    \
                 : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])                                     \
                 : "r"(row_k), "r"(below_k), "r"(row_far), "r"(below_far), "r"(column_k), "r"(column_far))
    RF_FN static void run(u32 row_k, u32 below_k, u32 row_far, u32 below_far, u32 column_k, u32 column_far, Accumulator& c) {
        if (same<T, bf16>::value) RF_MMA_NARROW("bf16.bf16");
        else RF_MMA_NARROW("f16.f16");
    }
#undef RF_MMA_NARROW
    // The same into registers of its own.
#define RF_MMA_NARROW(TYPES)                                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "       \
                 "{%8, %9}, {%10, %11, %12, %13};"                                                                \
                 : "=f"(to.at[0]), "=f"(to.at[1]), "=f"(to.at[2]), "=f"(to.at[3])                                 \
                 : "r"(row_k), "r"(below_k), "r"(row_far), "r"(below_far), "r"(column_k), "r"(column_far),        \
                   "f"(c.at[0]), "f"(c.at[1]), "f"(c.at[2]), "f"(c.at[3]))
    RF_FN static Accumulator run_from(u32 row_k, u32 below_k, u32 row_far, u32 below_far, u32 column_k, u32 column_far, const Accumulator& c) {
        Accumulator to;
        if (same<T, bf16>::value) RF_MMA_NARROW("bf16.bf16");
        else RF_MMA_NARROW("f16.f16");
        return to;
    }
#undef RF_MMA_NARROW
};
template <class T> struct Fragment<T, 16> {
    static const int GROUP = 16, STEPS = 1;
    RF_FN static int offset(int part) { return 8 * part; }
    RF_FN static void read(const T* at, MmaOperand* to) { *to = read_chunk(lds_address(at)); }
};
template <class T> struct Slab<T, 16> {
    static const int PHASES = 2, READS = 1, STEPS = 1;
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int phase, int) { return 2 * phase; }
    RF_FN static void operands(const Chunk* read, typename Mma<T, 16>::Operand* to) { __builtin_memcpy(to, read, 16); }
};
#endif

#undef RF_MMA
#undef RF_ROW_32
#undef RF_ROW_16

}  // namespace rf
#endif
