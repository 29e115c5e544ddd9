// sort: values[o, :, i] = the first `kept` of x[o, :, i] in order; indices[o, :, i] = where they were
//
// Shapes : x [outer, extent, inner]; values, indices [outer, kept, inner]; any strides, in elements
// Grid   : sort_tiles (lines / lines per tile, rounded up, or lines * tiles, 1, 1)
//          sort_merge (lines * tiles of the output, 1, 1)
// Block  : (256, 1, 1)
// LDS    : SORT_TILE keys of 4 or 8 bytes and as many places of 4
// Needs  : extent < 2^31, fewer than 2^31 workgroups; outputs overlap neither each other nor x     checked by the launcher
// Numeric: elements are ordered as their bits are (IEEE 754's totalOrder for floats: -NaN, -inf, …, -0, 0, …, inf, NaN);
//          equal ones keep their order, ascending and descending
//
// A line of up to SORT_TILE elements is sorted in LDS by a bitonic network, several short lines in one workgroup. A longer
// one is cut into tiles, and sorted tiles are merged in passes of twice the length, each workgroup making SORT_TILE elements
// of a merged run (Green, McColl, Bader, "GPU merge path", ICS 2012). Where few elements of a line are wanted, tiles keep
// as many each, and what is left is sorted in the same way.
//
// Items are compared by key and then by place, so no two are equal: any network gives the stable order. A key is the
// element's bits made to grow with its value, complemented for descending order.
//
// Macros : SORT_TYPE; SORT_INDEX, the type of the indices; SORT_TILE; SORT_KIND: 0 unsigned, 1 signed, 2 float
using namespace rf;

template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef u8 type; typedef u32 key; };
template <> struct Bits<2> { typedef u16 type; typedef u32 key; };
template <> struct Bits<4> { typedef u32 type; typedef u32 key; };
template <> struct Bits<8> { typedef u64 type; typedef u64 key; };
typedef Bits<sizeof(SORT_TYPE)>::type Raw;
typedef Bits<sizeof(SORT_TYPE)>::key Key;

struct Item {
    Key key;
    u32 place;
};

struct SortArgs {
    const SORT_TYPE* x;         // null: the items come from the next two
    const Key* keys;            // [lines, extent]
    const u32* places;
    SORT_TYPE* values;          // null if not wanted
    SORT_INDEX* indices;        // null if not wanted
    Key* keys_out;              // [lines, kept]; null in the last launch, which writes values and indices
    u32* places_out;
    Strides3 x_strides, value_strides, index_strides;
    u64 flip;                   // what keys are xor-ed with
    u32 extent;                 // items of a line that are read
    u32 kept;                   // items of a line that are written
    u32 segment_log2;           // slots of a line in a tile, a power of two
    u32 keep;                   // items that each tile writes
    u32 run;                    // length of the runs that are merged
    u32 lines;
    FastDiv tiles, inner;
};
static_assert(sizeof(SortArgs) == 184, "as in sort.rs");

RF_FN Key key_of(SORT_TYPE x, u64 flip) {
    Raw bits = bit_cast<Raw>(x);
    const Raw top = (Raw)((Raw)1 << (8 * sizeof(Raw) - 1));
#if SORT_KIND == 1
    bits = (Raw)(bits ^ top);
#elif SORT_KIND == 2
    bits = (bits & top) != 0 ? (Raw)~bits : (Raw)(bits ^ top);
#endif
    return (Key)(Raw)(bits ^ (Raw)flip);
}
RF_FN SORT_TYPE value_of(Key key, u64 flip) {
    Raw bits = (Raw)((Raw)key ^ (Raw)flip);
    const Raw top = (Raw)((Raw)1 << (8 * sizeof(Raw) - 1));
#if SORT_KIND == 1
    bits = (Raw)(bits ^ top);
#elif SORT_KIND == 2
    bits = (bits & top) != 0 ? (Raw)(bits ^ top) : (Raw)~bits;
#endif
    return bit_cast<SORT_TYPE>(bits);
}
RF_FN bool before(const Item& a, const Item& b) { return a.key < b.key || (a.key == b.key && a.place < b.place); }

// Item m of a line, or one that goes behind all others.
RF_FN Item fetch(const SortArgs& g, u32 line, u32 m) {
    Item item;
    item.key = (Key)~(Key)0;
    item.place = ~0u;
    if (line >= g.lines || m >= g.extent) return item;
    if (g.x) {
        u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
        item.key = key_of(g.x[g.x_strides.at(o, m, i)], g.flip);
        item.place = m;
    } else {
        i64 at = (i64)line * g.extent + m;
        item.key = g.keys[at];
        item.place = g.places[at];
    }
    return item;
}
// Item m of a line of the output.
RF_FN void put(const SortArgs& g, u32 line, u32 m, Item item) {
    if (line >= g.lines || m >= g.kept) return;
    if (g.keys_out) {
        i64 at = (i64)line * g.kept + m;
        g.keys_out[at] = item.key;
        g.places_out[at] = item.place;
        return;
    }
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    if (g.values) g.values[g.value_strides.at(o, m, i)] = value_of(item.key, g.flip);
    if (g.indices) g.indices[g.index_strides.at(o, m, i)] = (SORT_INDEX)item.place;
}

extern "C" __global__ __launch_bounds__(256) void sort_tiles(SortArgs g) {
    __shared__ Key keys[SORT_TILE];
    __shared__ u32 places[SORT_TILE];
    u32 thread = thread_x(), segment = 1u << g.segment_log2;
    u32 line = g.tiles.divide(group_x()), tile = group_x() - line * g.tiles.divisor;
    line *= SORT_TILE / segment;
    for (u32 slot = thread; slot < SORT_TILE; slot += 256) {
        Item item = fetch(g, line + (slot >> g.segment_log2), tile * SORT_TILE + (slot & (segment - 1)));
        keys[slot] = item.key;
        places[slot] = item.place;
    }
    for (u32 run = 2; run <= segment; run *= 2) {
        for (u32 reach = run / 2; reach > 0; reach /= 2) {
            barrier();
            for (u32 pair = thread; pair < SORT_TILE / 2; pair += 256) {
                u32 low = 2 * pair - (pair & (reach - 1)), high = low + reach;
                Item a = {keys[low], places[low]}, b = {keys[high], places[high]};
                bool ascending = run == segment || (low & run) == 0;
                if (before(b, a) == ascending) {
                    keys[low] = b.key;
                    places[low] = b.place;
                    keys[high] = a.key;
                    places[high] = a.place;
                }
            }
        }
    }
    barrier();
    for (u32 slot = thread; slot < SORT_TILE; slot += 256) {
        u32 m = slot & (segment - 1);
        Item item = {keys[slot], places[slot]};
        if (m < g.keep) put(g, line + (slot >> g.segment_log2), tile * g.keep + m, item);
    }
}

// A sorted run in memory.
struct Run {
    const Key* keys;
    const u32* places;
    u32 len;
    RF_FN Item at(u32 n) const {
        Item item = {keys[n], places[n]};
        return item;
    }
};
// How many of the first `count` items of the merged runs come from a.
RF_FN u32 share(const Run& a, const Run& b, u32 count) {
    u32 low = count > b.len ? count - b.len : 0, high = count < a.len ? count : a.len;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (before(b.at(count - 1 - middle), a.at(middle))) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
// How many items of sorted LDS go before `item`.
RF_FN u32 rank(const Key* keys, const u32* places, u32 len, const Item& item) {
    u32 low = 0, high = len;
    while (low < high) {
        u32 middle = (low + high) / 2;
        Item other = {keys[middle], places[middle]};
        if (before(other, item)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

extern "C" __global__ __launch_bounds__(256) void sort_merge(SortArgs g) {
    __shared__ Key keys[SORT_TILE];
    __shared__ u32 places[SORT_TILE];
    u32 thread = thread_x();
    u32 line = g.tiles.divide(group_x()), tile = group_x() - line * g.tiles.divisor;
    // Runs begin at multiples of their length, and their length is a multiple of the tile's.
    u32 first = tile * SORT_TILE, base = first - first % (2 * g.run);
    i64 start = (i64)line * g.extent + base;
    u32 left = g.extent - base;
    Run a = {g.keys + start, g.places + start, left < g.run ? left : g.run};
    Run b = {a.keys + a.len, a.places + a.len, left - a.len < g.run ? left - a.len : g.run};
    u32 from = first - base, to = from + SORT_TILE;
    to = to < a.len + b.len ? to : a.len + b.len;
    u32 a_from = share(a, b, from), a_to = share(a, b, to);
    u32 of_a = a_to - a_from, count = to - from;
    for (u32 slot = thread; slot < count; slot += 256) {
        Item item = slot < of_a ? a.at(a_from + slot) : b.at(from - a_from + slot - of_a);
        keys[slot] = item.key;
        places[slot] = item.place;
    }
    barrier();
    for (u32 slot = thread; slot < count; slot += 256) {
        Item item = {keys[slot], places[slot]};
        u32 m = slot < of_a ? slot + rank(keys + of_a, places + of_a, count - of_a, item)
                            : slot - of_a + rank(keys, places, of_a, item);
        put(g, line, first + m, item);
    }
}
