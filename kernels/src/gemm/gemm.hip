// gemm: C[b] = A[b] B[b], batched, with any strides.
//
// Shapes : A [.., M, K], B [.., K, N], C [.., M, N]; strides in elements, batch axes decoded from the grid
// Grid   : gemm (ceil(N / GEMM_BN), ceil(M / GEMM_BM), batches * slices)   one workgroup per tile of C and slice of K
//          GEMM_SEVERAL: products with as many tiles along M and batches, one behind the other along the first axis
//          GEMM_GROUPED 1 to 3: M is rows of groups, each with a B of its own; as many tiles along M as rows can fill at most,
//          those past the last group's do nothing
//          GEMM_GROUPED 4: K is rows of groups, each with a C of its own: a batch each
//          gemm_sum (ceil(N / 256), M, batches)                            adds up the slices
// Block  : gemm (GEMM_THREADS, 1, 1), gemm_sum (256, 1, 1)
// LDS    : GEMM_STAGES * (GEMM_BM + GEMM_BN) * GEMM_BK elements, by `stage`; of two buffers one is filled while the other is
//          read, so that one barrier per tile is enough. Static, or dynamic where GEMM_LDS_BYTES says how much: then also the
//          sum of earlier chunks, where registers have no room for it
// Needs  : M, N >= 1; vector modes: the extent along the vector a multiple of GEMM_VEC and every row aligned to the
//          vector; C overlaps neither A nor B                              checked by the launcher
// Numeric: products and sums in GEMM_SUM (f32 for 16-bit floats). K is cut into chunks of g.chunk; a chunk is summed
//          from zero, and the chunks are added in ascending order, whoever computes them: slices change no bit. Within a
//          chunk the matrix kernel takes K in the order that `Slab` states, the FMA kernel in ascending order; the
//          choice of tiles changes no bit. A NaN or infinity spoils its row or column only.
//
// Macros : types GEMM_IN, GEMM_OUT, GEMM_SUM; GEMM_MATRIX_SIZE (32, 16; 0: plain FMA); GEMM_WAVES_M, GEMM_WAVES_N
//          (lanes for FMA); GEMM_TILES_M, GEMM_TILES_N per wave (values per lane for FMA); GEMM_SLABS, K per round of loading
//          in units of 64 bytes (16 elements for FMA); GEMM_CHUNKED, whether a workgroup has more than one chunk; GEMM_STAGES,
//          GEMM_ASYNC, whether copies to LDS go past the registers (for FMA only of vectors along K); GEMM_LDS_BYTES; GEMM_A_MODE, GEMM_B_MODE: 0 vectors along
//          K, 1 vectors along the other axis, 2 single elements with lanes along K, 3 single elements with lanes along the
//          other axis; GEMM_SEVERAL: how many products a launch takes, 0 where it is one; GEMM_GROUPED: 1 where bounds
//          are the first rows of the groups and the end, 2 where they count the rows of groups of group_rows each, 3 as 1, of rows of
//          A by a list, 4 as 1, along K; GEMM_EPILOGUE: 1 where the text of a `fusion` epilogue stands in front of this one: it stores what
//          it computes of C, and nothing else is stored.
using namespace rf;

typedef GEMM_IN In;
typedef GEMM_OUT Out;
typedef GEMM_SUM Total;

#define MAX_BATCH_AXES 6
#define MATRIX_TURNS 1
#if GEMM_MATRIX_SIZE
#define GEMM_THREADS (GEMM_WAVES_M * GEMM_WAVES_N * ARCH_WAVE_SIZE)
#define GEMM_BM (GEMM_WAVES_M * GEMM_TILES_M * GEMM_MATRIX_SIZE)
#define GEMM_BN (GEMM_WAVES_N * GEMM_TILES_N * GEMM_MATRIX_SIZE)
#else
#define GEMM_THREADS (GEMM_WAVES_M * GEMM_WAVES_N)
#define GEMM_BM (GEMM_WAVES_M * GEMM_TILES_M)
#define GEMM_BN (GEMM_WAVES_N * GEMM_TILES_N)
#endif
// One access of a lane: 16 bytes, but no more than four elements for plain FMA.
#define GEMM_FULL (16 / (int)sizeof(In))
#if GEMM_MATRIX_SIZE
#define GEMM_VEC GEMM_FULL
#else
#define GEMM_VEC (GEMM_FULL < 4 ? GEMM_FULL : 4)
#endif
// Two waves to a SIMD hide each other's waits: where registers are many, a wave takes half of them at most.
#if GEMM_MATRIX_SIZE && RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
#define GEMM_RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define GEMM_RESIDENT
#endif
// Three workgroups of the plain tile with 48 values a lane run side by side on an NVIDIA multiprocessor, one of that with 96.
#if !GEMM_MATRIX_SIZE && GEMM_ASYNC
#define GEMM_BOUNDS __launch_bounds__(GEMM_THREADS, 384 / GEMM_THREADS)
#else
#define GEMM_BOUNDS __launch_bounds__(GEMM_THREADS)
#endif

struct GemmArgs {
    const In* a;
    const In* b;
    Out* c;
    i64 a_row, a_k, b_k, b_col, c_row, c_col, c_slice;
    i64 a_batch[MAX_BATCH_AXES], b_batch[MAX_BATCH_AXES], c_batch[MAX_BATCH_AXES];
    u32 batch_extent[MAX_BATCH_AXES];
    u32 batch_axes, batches;
    u32 m, n, k, slice_k;
    u32 first_batch, chunk;
#if GEMM_GROUPED
    const i32* bounds;
    const i32* choices;
    u32 groups, group_rows, row_tiles, each, a_rows, unused;
#endif
#if GEMM_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#define GEMM_ARGS_BYTES (GEMM_GROUPED ? 320 : 280)
#if GEMM_EPILOGUE
static_assert(sizeof(GemmArgs) == GEMM_ARGS_BYTES + sizeof(EpilogueArgs), "as in gemm.rs and grouped.rs");
#else
static_assert(sizeof(GemmArgs) == GEMM_ARGS_BYTES, "as in gemm.rs and grouped.rs");
#endif

// Where the elements of C go: every store of a finished one passes through `put`. A sink starts at the first element of C,
// is moved to a batch, a tile, a lane's first element, and puts elements some rows down and some columns right of there, one or
// neighbours of a row.
#if GEMM_EPILOGUE
struct Sink {
    static const bool WALKS = false;
    Epilogue epilogue;
    const EpilogueArgs* args;
    template <class Args> RF_FN void start(const Args& g) {
        args = &g.epilogue;
        epilogue.start(*args);
    }
    template <class Args> RF_FN void batch(const Args&, u32 axis, i64 by) { epilogue.move(*args, 2 + (int)axis, by); }
    RF_FN void move(i64 down, i64 right) {
        epilogue.move(*args, 1, down);
        epilogue.move(*args, 0, right);
    }
    template <class Sum> RF_FN void put(i64 down, i64 right, Sum sum) const {
        epilogue.put(*args, down, right, cast<Out>(sum));
    }
    RF_FN bool is_dense() const { return false; }
    template <int N, class Sum> RF_FN void put_run(i64, i64, const Sum*) const {}
};
#else
struct Sink {
    // Whether it is the cheaper way to move it from one element of a lane to the next.
    static const bool WALKS = RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA;
    Out* c;
    i64 row_stride, col_stride;
    template <class Args> RF_FN void start(const Args& g) {
        c = g.c;
        row_stride = g.c_row;
        col_stride = g.c_col;
    }
    template <class Args> RF_FN void batch(const Args& g, u32 axis, i64 by) { c += by * g.c_batch[axis]; }
    RF_FN void move(i64 down, i64 right) { c += down * row_stride + right * col_stride; }
    // Whether rows can be stored 16 bytes at once, and by `put_run`.
    RF_FN bool is_dense() const { return col_stride == 1 && row_stride % (16 / (int)sizeof(Out)) == 0 && (u64)c % 16 == 0; }
    template <class Sum> RF_FN void put(i64 down, i64 right, Sum sum) const {
        c[down * row_stride + right * col_stride] = cast<Out>(sum);
    }
    // Neighbours of a dense row from a multiple of N on, at most 16 bytes of them.
    template <int N, class Sum> RF_FN void put_run(i64 down, i64 right, const Sum* sums) const {
        static_assert(N * sizeof(Out) <= 16, "dense rows begin at multiples of 16 bytes");
        Vec<Out, N> run;
#pragma unroll
        for (int i = 0; i < N; ++i) run[i] = cast<Out>(sums[i]);
        store<N>(c + down * row_stride + right, run);
    }
};
#endif

