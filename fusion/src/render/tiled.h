// tiled.h: squares of SIDE elements of the last axis and of axis 1, for inputs whose neighbours lie along axis 1. A workgroup takes one
// square after another. It reads such an input along the axis on which its elements are side by side, and stores it in LDS, where the
// step reads it; other inputs are read from memory. The launch knows which inputs these are, and their mode says so. Follows schedule.h.
namespace rf {
namespace fuse {

// Loads an input of a square into LDS, if its mode says so. `wide` by `deep` elements of the square lie inside the tensor.
template <int SIDE, int THREADS, class Tiles> struct LoadTile {
    Tiles& tiles;
    u32 wide, deep;
    template <class S, class To> RF_FN void of(To&, const Tensor& tensor, index_t offset) const {
        if (tensor.mode >= TILED) load_tile<S, SIDE, THREADS>((S*)tiles[tensor.mode - TILED], tensor, offset, wide, deep);
    }
};
template <class G> RF_FN void tiled(const typename G::Args& a, u32 group) {
    const int SIDE = G::SIDE, THREADS = G::THREADS, WIDTH = G::WIDTH, ACROSS = SIDE / WIDTH;
    typedef u64 Tiles[G::TILES][G::TILE_WORDS];
    __shared__ Tiles tiles;
    G g;
    g.uniform(a);
    const u32 column = thread_x() % ACROSS * WIDTH;
    for (index_t item = group; item < a.space.items; item += a.space.step) {
        const index_t rest = divide(item, a.space.axis[0]), outer = divide(rest, a.space.axis[1]);
        const index_t along = (item - rest * a.space.axis[0].extent) * SIDE;
        const index_t down = (rest - outer * a.space.axis[1].extent) * SIDE;
        const u32 wide = window(along, a.space.extent, SIDE), deep = window(down, a.space.quads, SIDE);
        typename G::Kept kept;
        typename G::template Read<0> in;
        index_t corner[G::TENSORS];
#pragma unroll
        for (int k = 0; k < G::TENSORS; ++k)
            corner[k] = a.tensor[k].start + along * a.tensor[k].stride[0] + down * a.tensor[k].stride[1];
        locate_from<2>(a.space, a.tensor, outer, corner);
        G::move(corner, g.offset);
        g.each_input(a, Pass<0>(), in, LoadTile<SIDE, THREADS, Tiles>{tiles, wide, deep});
        barrier();
#pragma unroll
        for (u32 s = 0; s < SIDE * ACROSS / THREADS; ++s) {
            const u32 line = thread_x() / ACROSS + s * (THREADS / ACROSS);
            const u32 count = line < deep ? window(column, wide, WIDTH) : 0;
#pragma unroll
            for (int k = 0; k < G::TENSORS; ++k) g.offset[k] = corner[k] + line * a.tensor[k].stride[1];
            typename G::template Written<0> out;
            typename G::template About<0>::template Each<Chains<1>::template State> none;
            g.read_tiled(a, Pass<0>(), in, tiles, column, line, count);
            g.step(a, Pass<0>(), kept, in, out, none, column, count);
            g.template write<AsAny>(a, Pass<0>(), out, column, count, true);
        }
        barrier();
    }
}

}  // namespace fuse
}  // namespace rf
