// write: keys and values of tokens into the slots of a cache, as they are or as codes
//
//   cache[slot] = x, or code(x / scale); slot = page * tokens of a page + offset
//
// Shapes : x [tokens, heads, channels] of keys and of values, strides in elements, last axis 1; slots [tokens]; cache as in cache.h
// Grid   : (ceil(tokens * heads / (256 / WRITE_LANES)), 1, 2): z 0 keys, 1 values. WRITE_LANES lanes have a token's head
// Block  : (256, 1, 1)
// Needs  : channels at most WRITE_LANES * 8 * WRITE_TURNS; tokens * heads < 2^31; x overlaps no cache       checked by the launcher
// Numeric: elements of the cache's own type are moved as bits. A code is that of x * (1 / scale), to nearest even, saturating. With
//          WRITE_SCALES 2 a token's
//          head has the scale max |x| / largest, which is stored; codes are those of x / max(scale, 1e-12)
//          A slot below 0 is passed over; one behind the last is too, and is told of.
//
// Macros : those of cache.h; WRITE_IN, WRITE_SLOT: types of x and slots; WRITE_LANES, WRITE_TURNS; WRITE_SCALES: 0 no codes, 1 scales
//          are given, 2 they are made; WRITE_LARGEST: the format's largest number
RF_CHECKS_INDICES

typedef WRITE_IN In;

struct WriteSource {
    const In* x;
    i64 token, head;
    u32 is_whole, padding;  // whether rows begin at multiples of 16 bytes
};
struct WriteArgs {
    WriteSource source[2];
    CachePlane plane[2];
    CacheScales scales[2];
    const WRITE_SLOT* slots;
    i64 slot_stride;
    FastDiv heads, block;
    u32 lines, slots_end;
};
static_assert(sizeof(WriteArgs) == 64 + 144 + 64 + 16 + 24 + 8, "as in write.rs");

typedef RowWords<In> Row;
// The largest of the lanes of a line, in each of them.
RF_FN float largest_of_line(float x) {
    struct Larger { RF_FN float operator()(float a, float b) const { return a != a || a > b ? a : b; } } larger;
    if (WRITE_LANES > 1) x = larger(x, dpp<RF_DPP_XOR1>(x));
    if (WRITE_LANES > 2) x = larger(x, dpp<RF_DPP_XOR2>(x));
    if (WRITE_LANES > 4) x = larger(x, dpp<RF_DPP_HALF_MIRROR>(x));
    if (WRITE_LANES > 8) x = larger(x, dpp<RF_DPP_MIRROR>(x));
    if (WRITE_LANES > 16) x = larger(x, Words<float, 1>::each(x, Xor16()));
    return x;
}
RF_FN void write_row(const CachePlane& plane, i64 at, u32 channel, const Row& row, float by) {
    Channels out;
    out.clear();
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) {
#if CACHE_IS_CODED
        out.put_bits(i, Element<Code>::bits(row.get(i) * by));
#else
        if (i % Row::PER == 0) out.words[i / Row::PER] = row.words[i / Row::PER];
#endif
    }
    write_channels(plane, at, channel, out);
}

extern "C" __global__ __launch_bounds__(256) void cache_write(WriteArgs g) {
    // Chosen, not indexed: of an index a compiler makes memory.
    const bool is_value = group_z() != 0;
    const WriteSource source = is_value ? g.source[1] : g.source[0];
    const CachePlane plane = is_value ? g.plane[1] : g.plane[0];
    const CacheScales scales = is_value ? g.scales[1] : g.scales[0];
    const u32 line = group_x() * (256 / WRITE_LANES) + thread_x() / WRITE_LANES, lane = thread_x() % WRITE_LANES;
    const u32 token = g.heads.divide(line), head = line - token * g.heads.divisor;
    i64 slot = line < g.lines ? (i64)g.slots[token * g.slot_stride] : -1;
    if (slot >= (i64)g.slots_end) {
        RF_TELL_INDEX("cache_write", slot, (i64)g.slots_end);
        slot = -1;
    }
    // Lanes that have nothing to do go on to where a line's lanes meet.
    Row x[WRITE_TURNS];
#pragma unroll
    for (int turn = 0; turn < WRITE_TURNS; ++turn) {
        const u32 channel = (turn * WRITE_LANES + lane) * LANE_CHANNELS;
        x[turn].clear();
        if (slot >= 0 && channel < plane.depth)
            x[turn].read(source.x + token * source.token + head * source.head + channel, source.is_whole);
    }
    float by = 1.0f;
    const u32 page = slot >= 0 ? g.block.divide((u32)slot) : 0, offset = slot >= 0 ? (u32)slot - page * g.block.divisor : 0;
#if WRITE_SCALES == 1
    if (slot >= 0) by = 1.0f / *scale_at(scales, page, head, offset);
#elif WRITE_SCALES == 2
    float most = 0.0f;
#pragma unroll
    for (int n = 0; n < WRITE_TURNS * LANE_CHANNELS; ++n) {
        const float size = __builtin_fabsf(x[n / LANE_CHANNELS].get(n % LANE_CHANNELS));
        most = size != size || size > most ? size : most;
    }
    const float scale = largest_of_line(most) / WRITE_LARGEST;
    by = 1.0f / (scale < 1e-12f ? 1e-12f : scale);
    if (slot >= 0 && lane == 0) *scale_at(scales, page, head, offset) = scale;
#endif
    if (slot < 0) return;
    const i64 at = token_at(plane, page, head, offset);
#pragma unroll
    for (int turn = 0; turn < WRITE_TURNS; ++turn) {
        const u32 channel = (turn * WRITE_LANES + lane) * LANE_CHANNELS;
        if (channel < plane.depth) write_row(plane, at, channel, x[turn], by);
    }
}
