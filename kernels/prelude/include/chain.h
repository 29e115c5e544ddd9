// chain.h: two products in a row on the matrix unit, the sum of the first becoming an operand of the second in registers.
//
// Of SIZE resident rows and SIZE streamed rows, S = resident · streamedᵀ over a depth, then D = S · M, where M has a row for
// every streamed row. `Chain<T, SIZE>` says where a lane has what: value i of S is at row(slot(i), lane), a resident row, and
// column(i, lane), a streamed row; of D at the same row and column. A lane has values of SLOTS resident rows; `across` reduces
// over the lanes that share one, of which one `leads`. AMD's unit computes S and D transposed, so that a lane has one resident
// row and the sums are where its operands are read; mma.sync computes them as they stand, for the same reason.
//
//   read_resident    GROUP k of this lane's resident rows from memory, zeros from `left` on (a multiple of 8)
//   read_streamed    GROUP k of SIZE streamed rows that lie row by row in LDS, `row` elements apart
//   score_operands   the values of S, rounded to T, as SCORE_OPERANDS operands
//   weight_operands  the same where what becomes of a NaN does not matter
//   read_transposed  SIZE rows and SIZE columns of M, which lies row by row in LDS, as SCORE_OPERANDS operands that match
//
// These operands are FOURS times four neighbouring rows of a column, of 16-bit types on AMD's unit: i is the tile's four number
// first_four(lane) + i * FOUR_STEP.
//
// Streamed rows of consecutive values lie side by side in runs of RUN at a multiple of RUN; WMMA of gfx11 deals every second
// one. The order of the second sum is that of `column` over the values of a lane, then over the lanes.
#ifndef ROCFIRE_CHAIN_H
#define ROCFIRE_CHAIN_H
#if !defined(RF_HOST)
namespace rf {

template <class T, int SIZE> struct Chain;

#if RF_DEVICE_AMD && RF_MMA_16
template <class T, int SIZE> struct ChainAmd {
    typedef Mma<T, SIZE> M;
    typedef Fragment<T, SIZE> F;
    typedef typename M::Operand Operand;
    typedef typename M::Accumulator Accumulator;
    static const int ACC = M::ACC, SLOTS = 1, GROUP = F::GROUP, STEPS = F::STEPS, SCORE_OPERANDS = SIZE / M::K;
    // What `Fragment` reads at once.
    static const int VECTOR = 16 / (int)sizeof(T), SPAN = STEPS * (int)sizeof(Operand) / (int)sizeof(T);
    static const int FOURS = sizeof(T) == 2 ? SCORE_OPERANDS * (int)sizeof(Operand) / 8 : 0;

    RF_FN static int slot(int) { return 0; }
    RF_FN static int row(int, int lane) { return lane % SIZE; }
    RF_FN static int column(int i, int lane) { return M::row(i, lane); }
    RF_FN static bool leads(int lane) { return lane < SIZE; }
    RF_FN static Accumulator run(const Operand& resident, const Operand& streamed, Accumulator c) { return M::run(streamed, resident, c); }
    RF_FN static void scale(Accumulator& c, int i, float by) { c[i] *= by; }
    RF_FN static void read_resident(const T* const* rows, int k, int left, int lane, Operand* to) {
        int at = F::offset(lane / SIZE);
        alignas(16) T held[SPAN];
#pragma unroll
        for (int v = 0; v < SPAN; v += VECTOR) {
            u32 words[4], mask = at + v < left ? ~0u : 0u;
            Vec<T, VECTOR> part = load<VECTOR>(rows[0] + (at + v < left ? k + at + v : 0));
            __builtin_memcpy(words, &part, 16);
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] &= mask;
            __builtin_memcpy(held + v, words, 16);
        }
        F::read(held, to);
    }
    RF_FN static void read_streamed(const T* lds, int row, int lane, Operand* to) {
        F::read(lds + lane % SIZE * row + F::offset(lane / SIZE), to);
    }
};
#endif

#if ARCH_MATRIX == ARCH_MATRIX_MFMA && RF_MMA_16
// A lane of group g has columns 8 j + 4 g to 8 j + 4 g + 3 of S in its values 4 j to 4 j + 3: with the rows of M in the same
// order, whatever the depth of the product.
template <class T> struct Chain<T, 32> : ChainAmd<T, 32> {
    typedef ChainAmd<T, 32> Base;
    static const int RUN = 4, FOUR_STEP = 2;
    RF_FN static int first_four(int lane) { return lane / 32; }
    RF_FN static void weight_operands(const float* values, typename Base::Operand* to) {
        T held[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) held[i] = OfNumber<T>::of(values[i]);
        __builtin_memcpy(to, held, sizeof(held));
    }
    RF_FN static void score_operands(const float* values, typename Base::Operand* to) {
        T held[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) held[i] = cast<T>(values[i]);
        __builtin_memcpy(to, held, sizeof(held));
    }
    RF_FN static void read_transposed(const T* lds, int row, int lane, typename Base::Operand* to) {
        const T* at = lds + lane / 32 * 4 * row + lane % 32;
        T held[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) held[i] = at[(i / 4 * 8 + i % 4) * row];
        __builtin_memcpy(to, held, sizeof(held));
    }
    template <class Op> RF_FN static float across(float value, Op op) { return op(value, shuffle_xor(value, 32u)); }
};
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA11 && RF_MMA_16
// Half h of the wave has columns 2 i + h; an operand wants all sixteen in both halves.
template <class T> struct Chain<T, 16> : ChainAmd<T, 16> {
    typedef ChainAmd<T, 16> Base;
    static const int RUN = 1, FOUR_STEP = 1;
    RF_FN static int first_four(int) { return 0; }
    RF_FN static void score_operands(const float* values, typename Base::Operand* to) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = two_of<T>(values[2 * i], values[2 * i + 1]);
        deal(words, to);
    }
    RF_FN static void weight_operands(const float* values, typename Base::Operand* to) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = (u32)OfNumber<T>::of(values[2 * i]).bits | (u32)OfNumber<T>::of(values[2 * i + 1]).bits << 16;
        deal(words, to);
    }
    // Pairs of a half's columns, given to both halves in the order of columns.
    RF_FN static void deal(const u32* pairs, typename Base::Operand* to) {
        u32 words[8];
        bool upper = lane() >= 16;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            u32 mine = pairs[i / 2], theirs = xor16_bits(mine);
            u32 even = upper ? theirs : mine, odd = upper ? mine : theirs;
            words[i] = (even & 0xffffu) | odd << 16;
            words[i + 1] = even >> 16 | (odd & 0xffff0000u);
        }
        __builtin_memcpy(to, words, sizeof(words));
    }
    RF_FN static void read_transposed(const T* lds, int row, int lane, typename Base::Operand* to) {
        const T* at = lds + lane % 16;
        T held[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) held[i] = at[i * row];
        __builtin_memcpy(to, held, sizeof(held));
    }
    template <class Op> RF_FN static float across(float value, Op op) {
        return op(value, Words<float, 1>::each(value, Xor16()));
    }
};
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA12 && RF_MMA_16
template <class T> struct Chain<T, 16> : ChainAmd<T, 16> {
    typedef ChainAmd<T, 16> Base;
    static const int RUN = 8, FOUR_STEP = 1;
    RF_FN static int first_four(int lane) { return lane / 16 * 2; }
    RF_FN static void weight_operands(const float* values, typename Base::Operand* to) {
        T held[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) held[i] = OfNumber<T>::of(values[i]);
        __builtin_memcpy(to, held, sizeof(held));
    }
    RF_FN static void score_operands(const float* values, typename Base::Operand* to) {
        T held[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) held[i] = cast<T>(values[i]);
        __builtin_memcpy(to, held, sizeof(held));
    }
    RF_FN static void read_transposed(const T* lds, int row, int lane, typename Base::Operand* to) {
        const T* at = lds + lane / 16 * 8 * row + lane % 16;
        T held[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) held[i] = at[i * row];
        __builtin_memcpy(to, held, sizeof(held));
    }
    template <class Op> RF_FN static float across(float value, Op op) {
        return op(value, Words<float, 1>::each(value, Xor16()));
    }
};
#endif

#if !RF_DEVICE_AMD && RF_MMA_16
template <class T> struct Chain<T, 16> {
    typedef Mma<T, 16> M;
    typedef MmaOperand Operand;
    typedef MmaSum Accumulator;
    static const int ACC = 8, SLOTS = 2, GROUP = 16, STEPS = 1, SCORE_OPERANDS = 1, RUN = 2, FOURS = 0;

    RF_FN static int slot(int i) { return i / 2 % 2; }
    RF_FN static int row(int slot, int lane) { return lane / 4 + 8 * slot; }
    RF_FN static int column(int i, int lane) { return M::column(i, lane); }
    RF_FN static bool leads(int lane) { return lane % 4 == 0; }
    RF_FN static Accumulator run(const Operand& resident, const Operand& streamed, Accumulator c) { return M::run(resident, streamed, c); }
    RF_FN static void scale(Accumulator& c, int i, float by) { c.at[i] *= by; }
    RF_FN static void read_resident(const T* const* rows, int k, int left, int lane, Operand* to) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            to->word[i] = i / 2 * 8 < left ? *(const u32*)(rows[i % 2] + k + i / 2 * 8 + lane % 4 * 2) : 0u;
    }
    RF_FN static void read_streamed(const T* lds, int row, int lane, Operand* to) {
        Fragment<T, 16>::read(lds + lane % 16 * row + lane / 16 * 8, to);
    }
    RF_FN static void score_operands(const float* values, Operand* to) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            to->word[i] = (u32)cast<T>(values[2 * i]).bits | (u32)cast<T>(values[2 * i + 1]).bits << 16;
    }
    RF_FN static void weight_operands(const float* values, Operand* to) { score_operands(values, to); }
    // Lane l gives row l % 8 of block l / 8; blocks 0 and 1 are columns 0 to 7 and 8 to 15 of the first 8 rows.
    RF_FN static void read_transposed(const T* lds, int row, int lane, Operand* to) {
        const T* at = lds + (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * 8;
        asm volatile("{ .reg .u64 in_shared; cvta.to.shared.u64 in_shared, %4; "
                     "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [in_shared]; }"
                     : "=r"(to->word[0]), "=r"(to->word[1]), "=r"(to->word[2]), "=r"(to->word[3])
                     : "l"(at)
                     : "memory");
    }
    template <class Op> RF_FN static float across(float value, Op op) {
        value = op(value, dpp<RF_DPP_XOR1>(value));
        return op(value, dpp<RF_DPP_XOR2>(value));
    }
};
#endif

#if RF_MMA_16
// Rows of LENGTH elements in LDS, as this lane reads them: operands of tile `tile` of SIZE rows, of which group `group` of k or panel
// `panel` of SIZE columns.
template <class T, int SIZE, int LENGTH> struct PlainRows {
    typedef Chain<T, SIZE> C;
    const T* rows;
    int lane;
    RF_FN PlainRows(const T* rows, int lane) : rows(rows), lane(lane) {}
    RF_FN void read_streamed(int tile, int group, typename C::Operand* to) const {
        C::read_streamed(rows + tile * SIZE * LENGTH + group * C::GROUP, LENGTH, lane, to);
    }
    RF_FN void read_transposed(int tile, int panel, typename C::Operand* to) const {
        C::read_transposed(rows + tile * SIZE * LENGTH + panel * SIZE, LENGTH, lane, to);
    }
};
#if !RF_DEVICE_AMD
// The same by addresses of LDS: operands are at fixed distances from two of them.
template <class T, int LENGTH> struct AddressedRows {
    typedef Chain<T, 16> C;
    static const int ROW_BYTES = LENGTH * (int)sizeof(T), TILE_BYTES = 16 * ROW_BYTES;
    LdsAddress rows, transposed;
    RF_FN AddressedRows(LdsAddress tile, int lane)
        : rows(tile + (lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16),
          transposed(tile + lane % 16 * ROW_BYTES + lane / 16 * 16) {}
    // The blocks of eight columns come one after the other: the two words of a product's operand must be neighbours, and
    // would be moved there else.
    RF_FN static void take(Chunk chunk, MmaOperand* to) {
        to->word[0] = chunk.word[0];
        to->word[1] = chunk.word[2];
        to->word[2] = chunk.word[1];
        to->word[3] = chunk.word[3];
    }
    RF_FN void read_streamed(int tile, int group, MmaOperand* to) const {
        take(read_chunk(rows + (u32)(tile * TILE_BYTES + group * C::GROUP * (int)sizeof(T))), to);
    }
    RF_FN void read_transposed(int tile, int panel, MmaOperand* to) const {
        take(read_chunk_across(transposed + (u32)(tile * TILE_BYTES + panel * 16 * (int)sizeof(T))), to);
    }
};
#endif
#endif

}  // namespace rf
#endif
#endif
