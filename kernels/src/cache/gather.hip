// gather: keys and values of sequences from their pages into rows
//
//   out[starts[s] + i] = element(page of key i, its offset), codes times their scales
//
// Shapes : out [rows, heads, channels] of keys and of values, strides in elements, last axis 1; starts [sequences + 1]; cache as in
//          cache.h, of the same heads, or of one, with a stride of 0, which all have
// Grid   : (ceil(most keys / 16), sequences, 2): z 0 keys, 1 values. A workgroup has 16 keys of a sequence, all heads
// Block  : (256, 1, 1)
// Needs  : heads * GATHER_LANES < 2^27; out overlaps no cache                                      checked by the launcher
// Numeric: elements of the cache's own type are moved as bits, codes are multiplied in f32 and rounded once. A sequence has the keys
//          that `pages` say, and no more than there is room for up to the next start. Of a page that is not there come zeros, and it
//          is told of.
//
// Macros : those of cache.h; GATHER_OUT: type of out; GATHER_LANES: lanes of a head
RF_CHECKS_INDICES

typedef GATHER_OUT Out;
#define GATHER_KEYS 16

struct GatherTarget {
    Out* out;
    i64 token, head;
    u32 is_whole, padding;
};
struct GatherArgs {
    GatherTarget target[2];
    CachePlane plane[2];
    CacheScales scales[2];
    CachePages pages;
    const i32* starts;
    FastDiv heads[2];
    u32 rows, padding;
};
static_assert(sizeof(GatherArgs) == 64 + 144 + 64 + 64 + 8 + 24 + 8, "as in gather.rs");

// Eight elements of a row.
RF_FN void write_row(const GatherTarget& target, Out* to, const Channels& from, float scale) {
    RowWords<Out> row;
#if CACHE_IS_CODED
    float x[LANE_CHANNELS];
    decoded(from, x);
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) x[i] *= scale;
    row.put(x);
#else
#pragma unroll
    for (int w = 0; w < RowWords<Out>::WORDS; ++w) row.words[w] = from.words[w];
#endif
    row.write(to, target.is_whole);
}

extern "C" __global__ __launch_bounds__(256) void cache_gather(GatherArgs g) {
    // Chosen, not indexed: of an index a compiler makes memory.
    const bool is_value = group_z() != 0;
    const CachePlane plane = is_value ? g.plane[1] : g.plane[0];
    const GatherTarget target = is_value ? g.target[1] : g.target[0];
    const CacheScales scales = is_value ? g.scales[1] : g.scales[0];
    const FastDiv heads = is_value ? g.heads[1] : g.heads[0];
    const u32 sequence = group_y(), first = group_x() * GATHER_KEYS;
    const i32 row = held_inside(g.starts[sequence], 0, (i32)g.rows);
    const i32 room = held_inside(g.starts[sequence + 1], row, (i32)g.rows) - row;
    const i32 keys = keys_of(g.pages, sequence), count = keys < room ? keys : room;
    if ((i32)first >= count) return;
    const u32 left = (u32)count - first, here = left < GATHER_KEYS ? left : GATHER_KEYS;
    const u32 lines = here * heads.divisor, lane = thread_x() % GATHER_LANES;
#pragma unroll 4
    for (u32 line = thread_x() / GATHER_LANES; line < lines; line += 256 / GATHER_LANES) {
        const u32 n = heads.divide(line), head = line - n * heads.divisor, key = first + n;
        const u32 number = g.pages.block.divide(key), offset = key - number * g.pages.block.divisor;
        const i32 page = page_of(g.pages, sequence, number);
        const bool is_there = page >= 0 && page < (i32)g.pages.pages;
        if (!is_there) RF_TELL_INDEX("cache_gather", page, (i64)g.pages.pages);
        const i64 at = is_there ? token_at(plane, page, head, offset) : 0;
        const float scale = CACHE_IS_CODED && is_there ? *scale_at(scales, page, head, offset) : 0.0f;
        Out* to = target.out + (i64)(row + (i32)key) * target.token + head * target.head;
        for (u32 channel = lane * LANE_CHANNELS; channel < plane.depth; channel += GATHER_LANES * LANE_CHANNELS) {
            Channels from;
            from.clear();
            if (is_there) read_channels(plane, at, channel, from);
            write_row(target, to + channel, from, scale);
        }
    }
}
