// gguf_dequantise: x = the weights of blocks of GGUF
//
// Shapes : x [lines, K] dense; lines of blocks `w_line` bytes apart, those of matrices, of `lines_each` lines, `w_matrix`
// Grid   : (ceil(units / ARCH_WAVE_SIZE), 1, 1)        a workgroup has so many units, as gguf.h has them
// Block  : (Type::SUBS * ARCH_WAVE_SIZE, 1, 1)         a wave for each run of the units: a lane has a run
// LDS    : the units' blocks, where these lie one behind the other, then their weights in the place of them
// Needs  : x at a multiple of 16 bytes; `bytes` of blocks behind `words` where they are dense
// Numeric: scale · code + offset in f32, one rounding to the type of x
//
// Blocks are read in whole lines, and weights written so: lanes exchange both through LDS.
//
// Macros : GGUF_X; GGUF_TYPE, a number of gguf.h; GGUF_DENSE: blocks lie one behind the other
typedef Gguf<GGUF_TYPE> Type;

struct GgufDequantiseArgs {
    GGUF_X* x;
    const u8* words;
    i64 w_matrix, w_line, bytes;
    FastDiv line_units, lines_each;
    u32 units, padding;
};
static_assert(sizeof(GgufDequantiseArgs) == 72, "as in gguf_dequantise.rs");

static const int THREADS = Type::SUBS * ARCH_WAVE_SIZE, BLOCKS = ARCH_WAVE_SIZE / Type::UNITS;
static const int WEIGHTS = Type::SIZE / Type::UNITS, IN_PIECE = 16 / sizeof(GGUF_X), PIECES = WEIGHTS / IN_PIECE;
static const int RAW = (BLOCKS * Type::BYTES + 30) / 16, MADE = ARCH_WAVE_SIZE * PIECES;

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

#if GGUF_DENSE
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

extern "C" __global__ __launch_bounds__(Type::SUBS * ARCH_WAVE_SIZE) void gguf_dequantise(GgufDequantiseArgs g) {
    __shared__ Vec<u32, 4> lds[RAW > MADE ? RAW : MADE];
    const u32 lane_id = thread_x() % ARCH_WAVE_SIZE, own = uniform(thread_x() / ARCH_WAVE_SIZE), first = group_x() * ARCH_WAVE_SIZE;
    const u32 there = g.units - first < ARCH_WAVE_SIZE ? g.units - first : ARCH_WAVE_SIZE, unit = first + (lane_id < there ? lane_id : 0);
#if GGUF_DENSE
    const i64 at = (i64)(first / Type::UNITS) * Type::BYTES;
    const u32 before = Type::ALIGNED == 16 ? 0 : (u32)(u64)(g.words + at) & 15u;
    fetch_blocks(g, at, before, there / Type::UNITS, lds);
    barrier();
    const u8* block = (const u8*)lds + before + (unit - first) / Type::UNITS * Type::BYTES;
#else
    const u32 line = g.line_units.divide(unit), in_line = unit - line * g.line_units.divisor, matrix = g.lines_each.divide(line);
    const u8* block = g.words + matrix * g.w_matrix + (i64)(line - matrix * g.lines_each.divisor) * g.w_line;
    block += (i64)(in_line / Type::UNITS) * Type::BYTES;
#endif
    Run run;
#pragma unroll
    for (int share = 0; share < Type::SUBS; ++share) {
        if (own != (u32)share) continue;
        Run runs[Type::SUBS];
        Type::unpack(block, unit % Type::UNITS, runs);
        run = runs[share];
    }
    barrier();
    const int piece = (lane_id / Type::UNITS * Type::SIZE + (int)run.at) / IN_PIECE;
#pragma unroll
    for (int i = 0; i < 16 / IN_PIECE; ++i) {
        Vec<u32, 4> some;
#pragma unroll
        for (int j = 0; j < 4; ++j) some[j] = WordOf<GGUF_X>::of(run, i * IN_PIECE + j * IN_PIECE / 4);
        lds[place_of(piece + i)] = some;
    }
    barrier();
    u32* to = (u32*)g.x + ((i64)first * PIECES + thread_x()) * 4;
#pragma unroll
    for (int i = 0; i < MADE / THREADS; ++i) {
        const u32 made = thread_x() + i * THREADS;
        if (made < there * PIECES) store<4>(to + i * THREADS * 4, lds[place_of(made)]);
    }
}
