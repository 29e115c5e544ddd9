// blocks: whole pages copied within caches
//
// Shapes : entries [entries]: where pages of a plane, or of a part of one, lie; pairs [count, 2], i64: from, to
// Grid   : (ceil(bytes of the largest page / 16384), pairs, entries)
// Block  : (256, 1, 1)
// Needs  : no page is both written and read by the pairs of a launch                               the caller's
// Numeric: bytes are moved. A pair with a page that is not there is passed over, and told of.
using namespace rf;

RF_CHECKS_INDICES

struct BlockEntry {
    u64 at;
    i64 page, bytes;  // from page to page, and of one
};
struct BlockArgs {
    const BlockEntry* entries;
    const i64* pairs;
    i64 pages;
};
static_assert(sizeof(BlockArgs) == 24, "as in blocks.rs");

#define GROUP_BYTES 16384

// In words of W, `count` of them from the workgroup's first byte on.
template <class W> RF_FN void move_words(const char* from, char* to, i64 bytes) {
    const i64 first = (i64)group_x() * GROUP_BYTES;
    const i64 end = first + GROUP_BYTES < bytes ? first + GROUP_BYTES : bytes;
#pragma unroll 4
    for (i64 at = first + thread_x() * sizeof(W); at < end; at += 256 * sizeof(W)) *(W*)(to + at) = *(const W*)(from + at);
}

extern "C" __global__ __launch_bounds__(256) void cache_copy(BlockArgs g) {
    const BlockEntry entry = g.entries[group_z()];
    const i64 from = g.pairs[2 * (i64)group_y()], to = g.pairs[2 * (i64)group_y() + 1];
    if ((u64)from >= (u64)g.pages || (u64)to >= (u64)g.pages) {
        RF_TELL_INDEX("cache_copy", (u64)from >= (u64)g.pages ? from : to, g.pages);
        return;
    }
#if RF_DEVICE_AMD
    char* at = (char*)(__attribute__((address_space(1))) char*)entry.at;
#else
    char* at = (char*)entry.at;
#endif
    if (((entry.at | (u64)entry.page | (u64)entry.bytes) & 15) == 0)
        move_words<Vec<u32, 4>>(at + from * entry.page, at + to * entry.page, entry.bytes);
    else
        move_words<u8>(at + from * entry.page, at + to * entry.page, entry.bytes);
}
