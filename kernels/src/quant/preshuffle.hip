// preshuffle: the codes of a weight, or of several, from rows into the tiles of the product kernel, or back
//
// Shapes : rows [matrices, rows, row_bytes], bytes side by side, `step` from row to row, `matrix_step` from matrix to matrix; tiles
//          [matrices, ceil(rows / 16), chunks, 16, 16] contiguous
// Grid   : (ceil(rows / 16), ceil(chunks / 16), matrices)   a workgroup per 16 chunks of a tile
// Block  : (256, 1, 1)                               a lane per row and chunk
// Needs  : chunks >= ceil(row_bytes / 16); WHOLE only where address and steps of rows are multiples of 16   checked by the launcher
// Numeric: none: bytes are moved. In tiles, what is behind the last row and the last byte is zero
//
// Eight lanes take 128 bytes of a row, the next eight those of the next row: a wave reads and writes whole lines of memory, of
// which a row's are 16-byte pieces of eight chunks, and a chunk's those of eight rows.
//
// Macros : PRESHUFFLE_BACK, 1 from tiles to rows
using namespace rf;

#define ROWS 16
#define CHUNK 16
#define CHUNKS 16

struct PreshuffleArgs {
    u8* in_rows;
    u8* tiles;
    i64 step, matrix_step;
    u32 rows, row_bytes, chunks, tile_rows, whole, unused;
};
static_assert(sizeof(PreshuffleArgs) == 56, "as in preshuffle.rs");

extern "C" __global__ __launch_bounds__(256) void preshuffle(PreshuffleArgs g) {
    const u32 line = thread_x() / 8 % ROWS, row = group_x() * ROWS + line;
    const u32 chunk = group_y() * CHUNKS + thread_x() / (8 * ROWS) * 8 + thread_x() % 8;
    if (chunk >= g.chunks) return;
    const u32 first = chunk * CHUNK;
    const u32 there = row >= g.rows || first >= g.row_bytes ? 0 : g.row_bytes - first < CHUNK ? g.row_bytes - first : CHUNK;
    u8* in_row = g.in_rows + (i64)group_z() * g.matrix_step + (i64)row * g.step + first;
    const i64 tile = (i64)group_z() * g.tile_rows + group_x();
    u32* in_tile = (u32*)(void*)(g.tiles + ((tile * g.chunks + chunk) * ROWS + line) * CHUNK);
    const bool at_once = g.whole && there == CHUNK;
#if PRESHUFFLE_BACK
    const Vec<u32, 4> codes = load<4>(in_tile);
    if (at_once) {
        store<4>((u32*)(void*)in_row, codes);
    } else {
#pragma unroll
        for (u32 i = 0; i < CHUNK; ++i)
            if (i < there) in_row[i] = (u8)(codes[i / 4] >> (8 * (i % 4)));
    }
#else
    Vec<u32, 4> codes = {{0, 0, 0, 0}};
    if (at_once) {
        codes = load<4>((const u32*)(const void*)in_row);
    } else {
#pragma unroll
        for (u32 i = 0; i < CHUNK; ++i)
            if (i < there) codes[i / 4] |= (u32)in_row[i] << (8 * (i % 4));
    }
    store<4>(in_tile, codes);
#endif
}
