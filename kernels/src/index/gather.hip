// gather: out[o, j, i] = x[o, indices[o, j, i], i]
//
// Shapes : x [outer, extent, inner]; indices, out [outer, n, inner]; any strides, in elements
// Grid   : (ceil(count / 256), 1, 1)            one lane per element of out
// Block  : (256, 1, 1)
// Needs  : count < 2^31; out overlaps neither input                        checked by the launcher
// Numeric: elements are moved as bits; an index outside 0..extent gives zero bits, reads nothing and is told of
//
// Macros : GATHER_WORD, an unsigned type of the elements' size; GATHER_INDEX, the type of the indices
using namespace rf;

RF_CHECKS_INDICES

struct GatherArgs {
    const GATHER_WORD* x;
    const GATHER_INDEX* indices;
    GATHER_WORD* out;
    Strides3 x_strides, index_strides, out_strides;
    i64 extent;
    FastDiv middle, inner;
    u32 count, padding;
};
static_assert(sizeof(GatherArgs) == 136, "as in gather.rs");

extern "C" __global__ __launch_bounds__(256) void gather(GatherArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Coordinates c = coordinates(n, g.middle, g.inner);
    i64 at = (i64)g.indices[g.index_strides.at(c.outer, c.middle, c.inner)];
    GATHER_WORD value = 0;
    if ((u64)at < (u64)g.extent) {
        value = g.x[g.x_strides.at(c.outer, at, c.inner)];
    } else {
        RF_TELL_INDEX("gather", at, g.extent);
    }
    g.out[g.out_strides.at(c.outer, c.middle, c.inner)] = value;
}
