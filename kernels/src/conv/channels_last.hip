// channels_last: a copy of images with their channels innermost, in tiles through LDS: rows of both sides stay whole.
// channels_few: the same for 8 channels in the copy, a place a lane. channels_taps: the same for few places, the taps of weights.
//
//   out[n, place, channel] = x[n, channel, place], 0 for the channels that only the copy has
//
// Shapes : x [batch, channels, places], places contiguous, other strides in elements; out [batch, places, padded], contiguous
// Grid   : channels_last (ceil(places / 64) * ceil(padded / 64), 1, batch), channels_few (ceil(places / 256), 1, batch),
//          channels_taps (ceil(channels / tiles), 1, batch), whose `tiles` are channels of a workgroup, 2 to some power
// Block  : (256, 1, 1)
// LDS    : channels_last: 64 * 64 elements, channels_taps: 16 KiB, static
// Needs  : channels_taps: x_channel = places, an odd number; tiles * places elements fit into LDS; padded = channels, even for 2 bytes;
//          `vector`: x and its batches aligned to 16 bytes. Others: padded a multiple of 4 and no less than channels; `vector`: places and strides of x multiples of 4, x aligned to 4 elements; out aligned so
//                                                                          checked by the launcher
// Numeric: elements are moved as bits
//
// Macros : CHANNELS_LAST_WORD, an unsigned type of the elements' size
using namespace rf;

typedef CHANNELS_LAST_WORD T;
#define SIDE 64
#define PART 4
#define UNIT (8 / sizeof(T))

struct ChannelsLastArgs {
    const T* x;
    T* out;
    i64 x_batch, x_channel;
    u32 channels, padded, places, tiles, vector, tiles_log2;
};
static_assert(sizeof(ChannelsLastArgs) == 56, "as in channels_last.rs");

// What a lane moves at once.
struct alignas(sizeof(T) * PART > 16 ? 16 : sizeof(T) * PART) Run { T at[PART]; };

// In one access: of a struct NVRTC makes a store for each element.
RF_FN void put(T* to, const Run& run) {
    if (sizeof(Run) == 8) {
        u64 bits;
        __builtin_memcpy(&bits, &run, sizeof(bits));
        *(u64*)to = bits;
    } else {
        *(Run*)to = run;
    }
}

struct alignas(8) Unit { T at[UNIT]; };

// What a lane reads of LDS at once, where there are 32 banks of it.
#define EACH (sizeof(T) < 4 ? 4 / (u32)sizeof(T) : 1u)
struct alignas(sizeof(T) * EACH) Word { T at[EACH]; };

// Where the tile has a place of a channel. Eight bytes of a row change places with others of the row, in every fourth row
// with other ones: neither lanes that write rows nor lanes that read columns meet in a bank.
RF_FN u32 swizzled(u32 channel, u32 place) { return channel * SIDE + (place ^ (channel / PART % 16 * (u32)UNIT)); }

extern "C" __global__ __launch_bounds__(256) void channels_last(ChannelsLastArgs g) {
    __shared__ alignas(8) T tile[SIDE * SIDE];
    u32 tile_c = group_x() / g.tiles, tile_p = group_x() - tile_c * g.tiles;
    u32 first_c = tile_c * SIDE, first_p = tile_p * SIDE;
    const T* x = g.x + (i64)group_z() * g.x_batch + (i64)first_c * g.x_channel + first_p;
    u32 padded = g.padded - first_c, places = g.places - first_p;
    u32 channels = g.channels > first_c ? g.channels - first_c : 0;
    u32 column = thread_x() % (SIDE / PART) * PART;
#pragma unroll
    for (u32 pass = 0; pass < SIDE; pass += 256 / (SIDE / PART)) {
        u32 row = pass + thread_x() / (SIDE / PART);
        if (row >= padded) continue;
        const T* from = x + (i64)row * g.x_channel + column;
        Run run;
        if (g.vector && row < channels && column < places) {
            run = *(const Run*)from;
        } else {
#pragma unroll
            for (int i = 0; i < PART; ++i) run.at[i] = row < channels && column + i < places ? from[i] : (T)0;
        }
#pragma unroll
        for (u32 i = 0; i < PART; i += UNIT) *(Unit*)(tile + swizzled(row, column + i)) = *(const Unit*)(run.at + i);
    }
    barrier();
    T* out = g.out + ((i64)group_z() * g.places + first_p) * g.padded + first_c;
    // A lane takes a word of places of each channel.
#pragma unroll
    for (u32 pass = 0; pass < SIDE; pass += EACH * (256 / (SIDE / PART))) {
        u32 place = pass + thread_x() / (SIDE / PART) * EACH;
        if (place >= places || column >= padded) continue;
        Word words[PART];
#pragma unroll
        for (int i = 0; i < PART; ++i) words[i] = *(const Word*)(tile + swizzled(column + i, place));
#pragma unroll
        for (u32 n = 0; n < EACH; ++n) {
            Run run;
#pragma unroll
            for (int i = 0; i < PART; ++i) run.at[i] = words[i].at[n];
            if (place + n < places) put(out + (i64)(place + n) * g.padded + column, run);
        }
    }
}

#define FEW 8
extern "C" __global__ __launch_bounds__(256) void channels_few(ChannelsLastArgs g) {
    u32 place = group_x() * 256 + thread_x();
    if (place >= g.places) return;
    const T* x = g.x + (i64)group_z() * g.x_batch + place;
    T* out = g.out + ((i64)group_z() * g.places + place) * FEW;
#pragma unroll
    for (u32 part = 0; part < FEW; part += PART) {
        Run run;
#pragma unroll
        for (u32 i = 0; i < PART; ++i) run.at[i] = part + i < g.channels ? x[(i64)(part + i) * g.x_channel] : (T)0;
        put(out + part, run);
    }
}

#define TAPS_BYTES 16384
// Elements of a vector, and of a word, which a lane stores.
#define TAPS_PART (16 / (u32)sizeof(T))
#define TAPS_EACH (sizeof(T) < 4 ? 2u : 1u)
extern "C" __global__ __launch_bounds__(256) void channels_taps(ChannelsLastArgs g) {
    __shared__ alignas(16) T tile[TAPS_BYTES / sizeof(T)];
    u32 first = group_x() * g.tiles, left = g.channels - first, channels = left < g.tiles ? left : g.tiles;
    // What lies one after the other in memory, channels by places, is read so.
    const T* x = g.x + (i64)group_z() * g.x_batch + (i64)first * g.places;
    u32 count = channels * g.places;
    // Whole waves store: LDS has room for what they have too much.
    const u32 WAVE = ARCH_WAVE_SIZE * TAPS_PART;
    for (u32 n = thread_x() * TAPS_PART; n < (count + WAVE - 1) / WAVE * WAVE; n += 256 * TAPS_PART) {
        Vec<T, (int)TAPS_PART> run;
        if (g.vector && n + TAPS_PART <= count) {
            run = load<(int)TAPS_PART>(x + n);
        } else {
#pragma unroll
            for (u32 i = 0; i < TAPS_PART; ++i) run[i] = n + i < count ? x[n + i] : (T)0;
        }
        store<(int)TAPS_PART>(tile + n, run);
    }
    barrier();
    // Lanes stand an odd number of words apart: they meet no bank twice.
    T* out = g.out + (i64)group_z() * g.places * g.channels + first;
    u32 across = g.tiles / TAPS_EACH, shift = g.tiles_log2 - (TAPS_EACH - 1);
    for (u32 n = thread_x(); n < across * g.places; n += 256) {
        u32 tap = n >> shift, channel = (n & (across - 1)) * TAPS_EACH;
        if (channel >= channels) continue;
        Vec<T, (int)TAPS_EACH> word;
#pragma unroll
        for (u32 i = 0; i < TAPS_EACH; ++i) word[i] = tile[(channel + i) * g.places + tap];
        store<(int)TAPS_EACH>(out + (i64)tap * g.channels + channel, word);
    }
}
