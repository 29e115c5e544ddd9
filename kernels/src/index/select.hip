// select: out[o, j, i] = x[o, indices[j], i]        (embedding: outer = 1)
//
// Shapes : x [outer, extent, inner]; indices [n]; out [outer, n, inner]; any strides, in elements
// Grid   : (ceil(count / 256), 1, 1)            one lane per word of out
// Block  : (256, 1, 1)
// Needs  : count < 2^31; out overlaps neither input; SELECT_WORD wider than an element only where the inner axis is
//          contiguous, whole and aligned in both                           checked by the launcher
// Numeric: elements are moved as bits; an index outside 0..extent gives zero bits, reads nothing and is told of
//
// Macros : SELECT_BYTES per word, 1 to 16; SELECT_INDEX, the type of the indices
using namespace rf;

RF_CHECKS_INDICES

#if SELECT_BYTES == 16
typedef Vec<u32, 4> Word;
#elif SELECT_BYTES == 8
typedef u64 Word;
#elif SELECT_BYTES == 4
typedef u32 Word;
#elif SELECT_BYTES == 2
typedef u16 Word;
#else
typedef u8 Word;
#endif

struct SelectArgs {
    const Word* x;
    const SELECT_INDEX* indices;
    Word* out;
    Strides3 x_strides, out_strides;  // in words
    i64 index_stride, extent;
    FastDiv middle, inner;
    u32 count, padding;
};
static_assert(sizeof(SelectArgs) == 120, "as in select.rs");

extern "C" __global__ __launch_bounds__(256) void select(SelectArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Coordinates c = coordinates(n, g.middle, g.inner);
    i64 at = (i64)g.indices[c.middle * g.index_stride];
    // Stored from either branch: a vector that both bring would go through LDS.
    Word* to = g.out + g.out_strides.at(c.outer, c.middle, c.inner);
    if ((u64)at < (u64)g.extent) {
        *to = g.x[g.x_strides.at(c.outer, at, c.inner)];
    } else {
        *to = Word();
        RF_TELL_INDEX("select", at, g.extent);
    }
}
