// scaled_aiter: the exponents of both sides of a product in the order in which AITER's kernels take them
//
// Shapes : from [rows, columns], any strides; to, bytes of tiles of 32 rows and 8 columns, a row of tiles after the other:
//          [ceil(rows / 32), ceil(columns / 8), 4, 16, 2, 2], of which column c and row r of a tile is [c % 4, r % 16, c / 4, r / 16]
// Grid   : (tiles of both sides / 16, up, 1)         a workgroup per 16 tiles
// Block  : (256, 1, 1)                               a lane per two rows of a tile, 16 apart
// Needs  : WHOLE of a side only where its columns lie side by side, whole tiles of them, from addresses that are multiples of 8; tiles
//          below 2^27                                                                               checked by the launcher
// Numeric: none: bytes are moved. What fills up rows and columns is the exponent of 1
using namespace rf;

#define ROWS 32
#define COLUMNS 8
#define LANES 16
#define WORDS (ROWS * COLUMNS / 4)
// Four exponents of 1.
#define ONES 0x7f7f7f7fu

struct ExponentSide {
    const u8* from;
    u32* to;
    i64 row, column;
    u32 rows, whole;
};

struct ScaledAiterArgs {
    ExponentSide a, b;
    FastDiv across;
    u32 columns, a_tiles, tiles;
};
static_assert(sizeof(ScaledAiterArgs) == 2 * 40 + 24, "as in scaled/aiter.rs");

// The exponents of a row from a column on.
RF_FN Vec<u32, 2> exponents(const ExponentSide& side, u32 row, u32 column, u32 columns) {
    Vec<u32, 2> found = {{ONES, ONES}};
    if (row >= side.rows) return found;
    const u8* from = side.from + (i64)row * side.row + (i64)column * side.column;
    if (side.whole) return load<2>((const u32*)(const void*)from);
#pragma unroll
    for (u32 i = 0; i < COLUMNS; ++i) {
        const u32 shift = 8 * (i % 4);
        if (column + i < columns) found[i / 4] = (found[i / 4] & ~(0xffu << shift)) | (u32)from[(i64)i * side.column] << shift;
    }
    return found;
}

extern "C" __global__ __launch_bounds__(256) void scaled_aiter(ScaledAiterArgs g) {
    const u32 all = group_x() * (256 / LANES) + thread_x() / LANES, line = thread_x() % LANES;
    if (all >= g.tiles) return;
    const bool second = all >= g.a_tiles;
    const ExponentSide side = second ? g.b : g.a;
    const u32 tile = second ? all - g.a_tiles : all, down = g.across.divide(tile);
    const u32 row = down * ROWS + line, column = (tile - down * g.across.divisor) * COLUMNS;
    const Vec<u32, 2> upper = exponents(side, row, column, g.columns);
    const Vec<u32, 2> lower = exponents(side, row + LANES, column, g.columns);
    u32* to = side.to + (u64)tile * WORDS + line;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const u32 shift = 8 * i;
        const u32 left = (upper[0] >> shift & 0xff) | (lower[0] >> shift & 0xff) << 8;
        const u32 right = (upper[1] >> shift & 0xff) | (lower[1] >> shift & 0xff) << 8;
        to[i * LANES] = left | right << 16;
    }
}
