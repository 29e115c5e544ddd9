// cache.h: where an element of a paged cache lies, and which page a sequence's key is on. Stands before the kernels that use it.
//
// A cache has two planes, keys and values. Element (page, head, offset, channel) of a plane is at
//
//   page * page + head * head + (offset >> run_shift) * run + (offset & run_mask) * token
//               + (channel >> chunk_shift) * chunk + (channel & chunk_mask) * channel
//
// in elements, which says every layout: with one run and one chunk (a shift of 31) it is rows of channels, [pages, tokens, heads,
// channels] or [pages, heads, tokens, channels]; keys packed by 16 bytes have chunks of 16 bytes, and values packed beside them
// either no runs and channels that are far apart, or runs of 16 bytes of tokens.
//
// Macros : CACHE_CODE, the type of a plane's elements; CACHE_FORMAT, the number of their format where they are codes, else -1
using namespace rf;

typedef CACHE_CODE Code;

#define CACHE_IS_CODED (CACHE_FORMAT >= 0)
// Channels of a lane, and those that one access moves: 16 bytes, or eight codes.
#define LANE_CHANNELS 8
#define PIECE (sizeof(Code) == 4 ? 4 : 8)
#define PIECES (LANE_CHANNELS / PIECE)

struct CachePlane {
    Code* at;
    i64 page, head, run, token, chunk, channel;
    u32 run_shift, chunk_shift, depth;
    u32 whole;  // what may be moved at once: 1: PIECE channels; 2: four tokens
};
static_assert(sizeof(CachePlane) == 72, "as in form.rs");

// One for all where all strides are 0.
struct CacheScales {
    float* at;
    i64 page, head, token;
};

RF_FN i64 token_at(const CachePlane& plane, i64 page, i64 head, u32 offset) {
    return page * plane.page + head * plane.head + (i64)(offset >> plane.run_shift) * plane.run +
           (i64)(offset & ((1u << plane.run_shift) - 1)) * plane.token;
}
RF_FN i64 channel_at(const CachePlane& plane, u32 channel) {
    return (i64)(channel >> plane.chunk_shift) * plane.chunk + (i64)(channel & ((1u << plane.chunk_shift) - 1)) * plane.channel;
}
RF_FN float* scale_at(const CacheScales& scales, i64 page, i64 head, u32 offset) {
    return scales.at + page * scales.page + head * scales.head + (i64)offset * scales.token;
}

// Pages of sequences: rows of a table, or runs of a list where there are `starts`. Or the slots of their keys: rows of a table.
struct CachePages {
    const i32* table;   // [sequences, width], or [width]
    const i32* lens;    // [sequences]: keys, or null: as many as there is room for; of a list, keys on the last page, or null: all of it
    const i32* starts;  // [sequences + 1], or null
    i64 row;
    FastDiv block;  // tokens of a page
    u32 sequences, width, pages, keys_most, padding;
};
static_assert(sizeof(CachePages) == 64, "as in pages.rs");

RF_FN i32 held_inside(i32 value, i32 low, i32 high) { return value < low ? low : value > high ? high : value; }
RF_FN i32 start_of(const CachePages& g, u32 sequence) { return held_inside(g.starts[sequence], 0, (i32)g.width); }

// Keys of a sequence: never more than its pages hold.
RF_FN i32 keys_of(const CachePages& g, u32 sequence) {
    i64 len;
    if (g.starts) {
        i32 count = start_of(g, sequence + 1) - start_of(g, sequence);
        if (count <= 0) return 0;
        i32 last = g.lens ? held_inside(g.lens[sequence], 0, (i32)g.block.divisor) : (i32)g.block.divisor;
        len = (i64)(count - 1) * g.block.divisor + last;
    } else {
        len = g.lens ? g.lens[sequence] : (i32)g.keys_most;
        i64 room = (i64)g.width * g.block.divisor;
        len = len < room ? len : room;
    }
    len = len < (i64)g.keys_most ? len : (i64)g.keys_most;
    return len < 0 ? 0 : (i32)len;
}
// Number `n` of a sequence's pages, n below those that its keys are on. It may be any number.
RF_FN i32 page_of(const CachePages& g, u32 sequence, u32 n) {
    return g.starts ? g.table[start_of(g, sequence) + (i32)n] : g.table[(i64)sequence * g.row + n];
}

// Eight channels as they lie in a plane.
struct Channels {
    u32 words[LANE_CHANNELS * (int)sizeof(Code) / 4];

    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(words) / 4); ++i) words[i] = 0;
    }
    // `apart`: elements from one piece to the next.
    RF_FN void read(const Code* from, i64 apart) {
        const int EACH = PIECE * (int)sizeof(Code) / 4;
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            const Vec<u32, EACH> part = load<EACH>((const u32*)(const void*)(from + p * apart));
#pragma unroll
            for (int i = 0; i < EACH; ++i) words[p * EACH + i] = part[i];
        }
    }
    RF_FN void write(Code* to, i64 apart) const {
        const int EACH = PIECE * (int)sizeof(Code) / 4;
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            Vec<u32, EACH> part;
#pragma unroll
            for (int i = 0; i < EACH; ++i) part[i] = words[p * EACH + i];
            store<EACH>((u32*)(void*)(to + p * apart), part);
        }
    }
    RF_FN u32 bits(int i) const {
        const int PER = 4 / (int)sizeof(Code), BITS = 8 * (int)sizeof(Code);
        u32 word = words[i / PER] >> (i % PER * BITS % 32);
        return BITS == 32 ? word : word & ((1u << (BITS % 32)) - 1);
    }
    RF_FN void put_bits(int i, u32 value) {
        const int PER = 4 / (int)sizeof(Code), BITS = 8 * (int)sizeof(Code);
        words[i / PER] |= value << (i % PER * BITS % 32);
    }
};
