// few_unit.h: the matrix unit as the kernels of few rows use it. Stands behind few_codes.h.
//
// Macros : F_SPREAD: a row of A is two of the unit's

#if RF_DEVICE_AMD
// A's rows are those of the product, columns of W its columns: one of a lane at a time.
struct Unit {
    typedef Mma<In, 16> M;
    typedef M::Accumulator Sums;
    static const bool TWICE = ARCH_MATRIX == ARCH_MATRIX_WMMA11;
    static const int LANES = 16, GROUPS = TWICE ? 1 : ARCH_WAVE_SIZE / 16, DEEP = M::K / GROUPS, COLUMNS = 1, ROWS = 16, VALUES = M::ACC;
    RF_FN static int place(int lane) { return lane % 16; }
    RF_FN static int group(int lane) { return TWICE ? 0 : lane / 16; }
    RF_FN static int given(int lane) { return lane % 16; }
    RF_FN static int row(int i, int lane) { return M::row(i, lane); }
    RF_FN static constexpr int column(int) { return 0; }
    RF_FN static constexpr int code(int product, int) { return product; }
    RF_FN static void clear(Sums& sums) { sums = 0; }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) {
        M::Operand of_x, of_w;
        __builtin_memcpy(&of_x, x, sizeof(of_x));
        __builtin_memcpy(&of_w, w, sizeof(of_w));
        sums = M::run(of_x, of_w, sums);
    }
    // Moves rows of C apart in LDS where lanes of a wave store several at once.
    RF_FN static int skew(int row) {
        if (ARCH_MATRIX == ARCH_MATRIX_MFMA) return ((row >> 2 ^ row >> 3) & 1) * 16;
        return (TWICE ? row & 1 : row >> 3 & 1) * 16;
    }
};
#else
struct UnitOfNvidia {
    typedef MmaNarrow<In> M;
    typedef M::Accumulator Sums;
    static const int LANES = 8, GROUPS = 4, VALUES = 4;
    RF_FN static int place(int lane) { return lane / 4; }
    RF_FN static int group(int lane) { return lane % 4; }
    RF_FN static void clear(Sums& sums) {
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sums[i] = 0.0f;
    }
};
#if F_SPREAD
// Columns of W are the product's rows, in pairs: the two halves of a word have a code each at one place in them, and so are an operand as
// they lie. What the product takes for two neighbouring k is then one k of two columns. A's rows are two of its columns each: one has
// zeros for the second of two k, the other for the first, so that one gets the sums of the low half's column, the other the high half's.
struct Unit : UnitOfNvidia {
    static const int DEEP = 2, COLUMNS = 4, ROWS = 4;
    RF_FN static int given(int lane) { return lane / 8; }
    RF_FN static int row(int, int lane) { return lane % 4; }
    RF_FN static constexpr int column(int i) { return i; }
    RF_FN static constexpr int code(int product, int column) {
        return product / (Q_PER / 4) * Q_PER + product % (Q_PER / 4) * 2 + column / 2 + column % 2 * (Q_PER / 2);
    }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) { M::run(w[0], w[1], w[2], w[3], x[0], x[1], sums); }
    RF_FN static int skew(int row) { return (row & 3) * 8; }
};
#else
// Columns of W are the product's rows, two of a lane at a time; A's rows its columns.
struct Unit : UnitOfNvidia {
    static const int DEEP = 4, COLUMNS = 2, ROWS = 8;
    RF_FN static int given(int lane) { return lane / 4; }
    RF_FN static int row(int i, int lane) { return lane % 4 * 2 + i % 2; }
    RF_FN static constexpr int column(int i) { return i / 2; }
    RF_FN static constexpr int code(int product, int column) { return product * COLUMNS + column; }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) { M::run(w[0], w[2], w[1], w[3], x[0], x[1], sums); }
    // The same behind sums that stay as they are.
    RF_FN static Sums sum_from(const u32* w, const u32* x, const Sums& from) { return M::run_from(w[0], w[2], w[1], w[3], x[0], x[1], from); }
    RF_FN static int skew(int row) { return (row >> 1 & 3) * 8; }
};
#endif
#endif
