// stages.h: two matrices that are streamed side by side through LDS, STREAMED_ROWS rows of each at a time, by copies that go
// past the registers: while the rows of one stage are worked on, those of the next ATTENTION_STAGES - 1 are on their way.
#if ATTENTION_STAGES
// Rows of a matrix [rows, depth]; what is outside becomes zero.
template <int DEPTH> struct Copies {
    static const int PER_ROW = DEPTH / VEC, TOTAL = STREAMED_ROWS * PER_ROW, LOADS = (TOTAL + THREADS - 1) / THREADS;
    static const int ROW_BYTES = Row<DEPTH>::LENGTH * (int)sizeof(In), BYTES = STREAMED_ROWS * ROW_BYTES;
    // A thread copies the same columns of every PASS rows.
    static const bool EVEN = THREADS % PER_ROW == 0 && TOTAL % THREADS == 0;
    static const int PASS = THREADS / PER_ROW;
    const In* from;
    i64 stride;
    int depth;

    // Rows are fetched in ascending order from `first` on.
    RF_FN void start(const In* matrix, i64 row_stride, int first, int columns) {
        stride = row_stride;
        depth = columns;
        from = matrix + (i64)(first + (EVEN ? (int)thread_x() / PER_ROW : 0)) * row_stride;
        if (EVEN) from += (int)thread_x() % PER_ROW * VEC;
    }
    // `left`: rows that there are from the first of this stage on. What is not there is not read.
    RF_FN void fetch(LdsAddress to, int left) {
        int c = (int)thread_x(), row = c / PER_ROW, k = c % PER_ROW * VEC;
        if (EVEN) to += row * ROW_BYTES + k * (int)sizeof(In);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (EVEN) {
                bool there = i * PASS + row < left && k < depth;
                copy_async(to + i * PASS * ROW_BYTES, from + (i64)(i * PASS) * stride, there);
            } else if (TOTAL % THREADS == 0 || c + i * THREADS < TOTAL) {
                int r = (c + i * THREADS) / PER_ROW, column = (c + i * THREADS) % PER_ROW * VEC;
                bool there = r < left && column < depth;
                copy_async(to + r * ROW_BYTES + column * (int)sizeof(In), from + (i64)r * stride + column, there);
            }
        }
        from += (i64)STREAMED_ROWS * stride;
    }
};

template <int DEPTH_A, int DEPTH_B> struct Stages {
    static const int STAGE_BYTES = Copies<DEPTH_A>::BYTES + Copies<DEPTH_B>::BYTES;
    Copies<DEPTH_A> a;
    Copies<DEPTH_B> b;
    LdsAddress lds;
    // Bytes from `lds` to the rows of this stage, and to where the next ones go.
    int read, write, left;

    // Starts the first of the stages, of rows from `first` to `end`. No thread of the workgroup still reads what was in LDS.
    RF_FN void start(char* place, const In* from_a, i64 stride_a, int depth_a, const In* from_b, i64 stride_b, int depth_b,
                     int first, int end) {
        a.start(from_a, stride_a, first, depth_a);
        b.start(from_b, stride_b, first, depth_b);
        lds = lds_address(place);
        read = -STAGE_BYTES;
        write = 0;
        left = end - first;
#pragma unroll
        for (int stage = 1; stage < ATTENTION_STAGES; ++stage) fetch();
    }
    RF_FN void fetch() {
        a.fetch(lds + write, left);
        b.fetch(lds + write + Copies<DEPTH_A>::BYTES, left);
        async_commit();
        left -= STREAMED_ROWS;
        write = write == (ATTENTION_STAGES - 1) * STAGE_BYTES ? 0 : write + STAGE_BYTES;
    }
    // The next stage: its rows are there for all threads, and those of the last one are no longer wanted.
    RF_FN void advance() {
        async_wait<ATTENTION_STAGES - 2>();
        barrier();
        read = read == (ATTENTION_STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
        fetch();
    }
    // Before another start: nothing is under way, and nobody reads.
    RF_FN void drain() {
        async_wait<0>();
        barrier();
    }
    RF_FN LdsAddress rows_a() const { return lds + read; }
    RF_FN LdsAddress rows_b() const { return lds + read + Copies<DEPTH_A>::BYTES; }
};
#endif
