// gguf_dequantise: x = the weights of blocks of GGUF
//
// Shapes : x [lines, K] dense; lines of blocks `w_line` bytes apart, those of matrices, of `lines_each` lines, `w_matrix`
// Grid   : (ceil(units / UNITS), 1, 1)            units as gguf.h has them
// Block  : (THREADS, 1, 1)                        where GGUF_SHARED, a wave for each run of the same units: a lane has a run; else a lane has a unit
// LDS    : where GGUF_STAGED, the units' blocks, then their weights in the place of them
// Needs  : x at a multiple of 16 bytes; `bytes` of blocks behind `words` where they are dense
// Numeric: scale · code + offset in f32, one rounding to the type of x
//
// Weights are written in whole lines, and blocks read so where they are staged: lanes exchange both through LDS.
//
// Macros : GGUF_X; GGUF_TYPE, a number of gguf.h; GGUF_SHARED; GGUF_STAGED: blocks lie one behind the other, and go through LDS
typedef Gguf<GGUF_TYPE> Type;

struct GgufDequantiseArgs {
    GGUF_X* x;
    const u8* words;
    i64 w_matrix, w_line, bytes;
    FastDiv line_units, lines_each;
    u32 units, padding;
};
static_assert(sizeof(GgufDequantiseArgs) == 72, "as in gguf_dequantise.rs");

// Waves of the same units, and how many units there are for such waves side by side.
static const int SHARES = GGUF_SHARED ? Type::SUBS : 1, RUNS = Type::SUBS / SHARES, SIDE = GGUF_SHARED ? 1 : 4;
static const int TOGETHER = SHARES * ARCH_WAVE_SIZE, THREADS = SIDE * TOGETHER, UNITS = SIDE * ARCH_WAVE_SIZE;
static const int WEIGHTS = Type::SIZE / Type::UNITS, IN_PIECE = 16 / sizeof(GGUF_X), PIECES = WEIGHTS / IN_PIECE;
static const int RAW = GGUF_STAGED ? (ARCH_WAVE_SIZE / Type::UNITS * Type::BYTES + 30) / 16 : 0, MADE = ARCH_WAVE_SIZE * PIECES;
static_assert(!GGUF_STAGED || GGUF_SHARED, "waves of a workgroup have the same blocks");

// Those of the same units meet.
RF_FN void meet() {
    if (SHARES == 1) wave_barrier();
    else barrier();
}
// Weights of a run from `at` on, a word of them.
template <class X> struct WordOf {
    RF_FN static u32 of(const Run& run, int at) { return two_of<X>(weight_at(run, at), weight_at(run, at + 1)); }
};
template <> struct WordOf<float> {
    RF_FN static u32 of(const Run& run, int at) { return bit_cast<u32>(weight_at(run, at)); }
};
// Where a piece of 16 bytes of weights lies: those that lanes side by side write at once, of every type, are in banks of their own.
RF_FN int place_of(int piece) {
    const int row = piece / 8;
    return piece ^ (((row & 1) << 1) ^ ((row >> 1) & 1) ^ (row & 4) ^ ((row >> 3 & 1) << 1));
}

#if GGUF_STAGED
// The pieces of 16 bytes from that on in which the workgroup's first block begins.
RF_FN void fetch_blocks(const GgufDequantiseArgs& g, i64 first, u32 before, u32 blocks, Vec<u32, 4>* to) {
    const u32 pieces = (before + blocks * Type::BYTES + 15) / 16;
#pragma unroll
    for (int i = 0; i < (RAW + THREADS - 1) / THREADS; ++i) {
        const u32 piece = thread_x() + i * THREADS;
        if (piece >= pieces) continue;
        const i64 at = first - before + piece * 16;
        const u8* from = g.words + at;
        Vec<u32, 4> words;
        if (at + 16 <= g.bytes) {
            words = load<4>((const u32*)from);
        } else {
            // The tensor ends in it.
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const i64 low = at + 4 * n;
                words[n] = low + 4 <= g.bytes ? *(const u32*)(from + 4 * n) : low + 2 <= g.bytes ? *(const u16*)(from + 4 * n) : 0;
            }
        }
        to[piece] = words;
    }
}
#endif

extern "C" __global__ __launch_bounds__(SIDE * TOGETHER) void gguf_dequantise(GgufDequantiseArgs g) {
    __shared__ Vec<u32, 4> all[SIDE][RAW > MADE ? RAW : MADE];
    const u32 lane_id = thread_x() % ARCH_WAVE_SIZE, wave = uniform(thread_x() / ARCH_WAVE_SIZE), own = wave % SHARES;
    const u32 first = group_x() * UNITS + wave / SHARES * ARCH_WAVE_SIZE;
    if (first >= g.units) return;
    const u32 there = g.units - first < ARCH_WAVE_SIZE ? g.units - first : ARCH_WAVE_SIZE, unit = first + (lane_id < there ? lane_id : 0);
    Vec<u32, 4>* lds = all[wave / SHARES];
#if GGUF_STAGED
    const i64 at = (i64)(first / Type::UNITS) * Type::BYTES;
    const u32 before = Type::ALIGNED == 16 ? 0 : (u32)(u64)(g.words + at) & 15u;
    fetch_blocks(g, at, before, there / Type::UNITS, lds);
    meet();
    const u8* block = (const u8*)lds + before + (unit - first) / Type::UNITS * Type::BYTES;
#else
    const u32 line = g.line_units.divide(unit), in_line = unit - line * g.line_units.divisor, matrix = g.lines_each.divide(line);
    const u8* block = g.words + matrix * g.w_matrix + (i64)(line - matrix * g.lines_each.divisor) * g.w_line;
    block += (i64)(in_line / Type::UNITS) * Type::BYTES;
#endif
    Run runs[RUNS];
#pragma unroll
    for (int share = 0; share < SHARES; ++share) {
        if (own != (u32)share) continue;
        Run of_unit[Type::SUBS];
        Type::unpack(block, unit % Type::UNITS, of_unit);
#pragma unroll
        for (int i = 0; i < RUNS; ++i) runs[i] = of_unit[share * RUNS + i];
    }
    if (GGUF_STAGED) meet();
#pragma unroll
    for (int run = 0; run < RUNS; ++run) {
        const int piece = (lane_id / Type::UNITS * Type::SIZE + (int)runs[run].at) / IN_PIECE;
#pragma unroll
        for (int i = 0; i < 16 / IN_PIECE; ++i) {
            Vec<u32, 4> some;
#pragma unroll
            for (int j = 0; j < 4; ++j) some[j] = WordOf<GGUF_X>::of(runs[run], i * IN_PIECE + j * IN_PIECE / 4);
            lds[place_of(piece + i)] = some;
        }
    }
    meet();
    const u32 thread = thread_x() % TOGETHER;
    u32* to = (u32*)g.x + ((i64)first * PIECES + thread) * 4;
#pragma unroll
    for (int i = 0; i < MADE / TOGETHER; ++i) {
        const u32 made = thread + i * TOGETHER;
        if (made < there * PIECES) store<4>(to + i * TOGETHER * 4, lds[place_of(made)]);
    }
}
