// compact: the elements of x, or the coordinates of the elements, where a mask holds, in their own order
//
// Shapes : mask, x [n] contiguous; counts, ends [ceil(n / CHUNK)]; values [count]; places [count, rank] contiguous
// Grid   : (ceil(n / CHUNK), 1, 1)              one workgroup per chunk of the mask
// Block  : (256, 1, 1), COMPACT_ITEMS elements a lane; CHUNK = 256 * COMPACT_ITEMS
// LDS    : 256 u32
// Needs  : n < 2^31; values and places hold as many as the mask has                          checked by the launcher
// Numeric: elements are moved as bits
//
// compact_count counts each chunk; the launcher makes ends of the counts, their running sum; the others write.
//
// Macros : COMPACT_WORD, an unsigned type of the elements' size; COMPACT_INDEX, the type of the places; COMPACT_ITEMS
using namespace rf;

struct CompactArgs {
    const bool8* mask;
    u32* counts;
    const u32* ends;
    const COMPACT_WORD* x;
    COMPACT_WORD* values;
    COMPACT_INDEX* places;
    u32 n, rank;
    u32 shape[8];
};
static_assert(sizeof(CompactArgs) == 88, "as in compact.rs");

// Which of this lane's elements are chosen, a bit each.
RF_FN u32 chosen(const CompactArgs& g, u32 first) {
    u32 bits = 0;
    for (u32 item = 0; item < COMPACT_ITEMS; ++item) {
        u32 at = first + item;
        if (at < g.n && g.mask[at].bits != 0) bits |= 1u << item;
    }
    return bits;
}
RF_FN u32 ones(u32 bits) {
    u32 count = 0;
    for (u32 item = 0; item < COMPACT_ITEMS; ++item) count += (bits >> item) & 1u;
    return count;
}
RF_FN u32 first_of(u32 thread) { return (group_x() * 256 + thread) * COMPACT_ITEMS; }

// Where this lane's first chosen element goes.
RF_FN u32 rank_of(const CompactArgs& g, u32 count, u32* scratch) {
    u32 thread = thread_x(), before = count;
    for (u32 reach = 1; reach < 256; reach *= 2) {
        scratch[thread] = before;
        barrier();
        if (thread >= reach) before += scratch[thread - reach];
        barrier();
    }
    u32 start = group_x() == 0 ? 0 : g.ends[group_x() - 1];
    return start + before - count;
}

extern "C" __global__ __launch_bounds__(256) void compact_count(CompactArgs g) {
    __shared__ u32 scratch[256];
    u32 thread = thread_x();
    u32 count = group_reduce(ones(chosen(g, first_of(thread))), Sum(), scratch, thread, 256u);
    if (thread == 0) g.counts[group_x()] = count;
}

extern "C" __global__ __launch_bounds__(256) void compact_values(CompactArgs g) {
    __shared__ u32 scratch[256];
    u32 first = first_of(thread_x()), bits = chosen(g, first);
    u32 to = rank_of(g, ones(bits), scratch);
    for (u32 item = 0; item < COMPACT_ITEMS; ++item) {
        if ((bits >> item) & 1u) g.values[to++] = g.x[first + item];
    }
}

extern "C" __global__ __launch_bounds__(256) void compact_places(CompactArgs g) {
    __shared__ u32 scratch[256];
    u32 first = first_of(thread_x()), bits = chosen(g, first);
    u32 to = rank_of(g, ones(bits), scratch);
    for (u32 item = 0; item < COMPACT_ITEMS; ++item) {
        if (((bits >> item) & 1u) == 0) continue;
        u32 rest = first + item;
        COMPACT_INDEX* place = g.places + (i64)to++ * g.rank;
        for (u32 axis = g.rank; axis-- > 0;) {
            u32 next = rest / g.shape[axis];
            place[axis] = (COMPACT_INDEX)(rest - next * g.shape[axis]);
            rest = next;
        }
    }
}
