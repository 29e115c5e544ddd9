// elementwise.h: lanes walk over the vectors of the whole space. Follows schedule.h.
namespace rf {
namespace fuse {

// Sets the offsets for vector `item`, and gives its number along the last axis. Axis 0 of the space counts the vectors of the last axis;
// if it is the only axis, `item` is that number.
template <class G> RF_FN index_t locate_vector(G& g, const typename G::Args& a, index_t item) {
    index_t outer = 0, inner = item;
    if (a.space.rank > 1) {
        outer = divide(item, a.space.axis[0]);
        inner -= outer * a.space.axis[0].extent;
    }
    g.locate(a, outer);
    return inner;
}

template <class G> RF_FN void elementwise(const typename G::Args& a, u32 group) {
    G g;
    g.uniform(a);
    for (index_t item = group * (index_t)G::THREADS + thread_x(); item < a.space.items; item += a.space.step) {
        const index_t column = locate_vector(g, a, item) * G::WIDTH;
        g.row(a, Pass<0>());
        const u32 count = window(column, a.space.extent, G::WIDTH);
        typename G::Kept kept;
        typename G::template Read<0> in;
        typename G::template Written<0> out;
        typename G::template About<0>::template Each<Chains<1>::template State> none;
        g.read(a, Pass<0>(), kept, in, column, count);
        g.step(a, Pass<0>(), kept, in, out, none, column, count);
        g.template write<AsAny>(a, Pass<0>(), out, column, count, true);
    }
}

// The same for BATCH vectors at a time. All are read before any is computed, so that more loads are under way.
template <class G> RF_FN void elementwise_batched(const typename G::Args& a, u32 group) {
    const int BATCH = 2;
    G g;
    g.uniform(a);
    for (index_t first = group * (index_t)G::THREADS + thread_x(); first < a.space.items; first += BATCH * a.space.step) {
        index_t offsets[BATCH][G::TENSORS], columns[BATCH];
        typename G::Kept kept[BATCH];
        u32 counts[BATCH];
#pragma unroll
        for (u32 q = 0; q < BATCH; ++q) {
            const index_t item = first + q * a.space.step;
            const index_t column = columns[q] = locate_vector(g, a, item) * G::WIDTH;
            const u32 count = counts[q] = item < a.space.items ? window(column, a.space.extent, G::WIDTH) : 0;
            G::move(g.offset, offsets[q]);
            g.ahead(a, Pass<0>(), kept[q], column, count);
        }
#pragma unroll
        for (u32 q = 0; q < BATCH; ++q) {
            const index_t column = columns[q];
            const u32 count = counts[q];
            G::move(offsets[q], g.offset);
            typename G::template Written<0> out;
            typename G::template About<0>::template Each<Chains<1>::template State> none;
            g.step(a, Pass<0>(), kept[q], None(), out, none, column, count);
            g.template write<AsAny>(a, Pass<0>(), out, column, count, true);
        }
    }
}

}  // namespace fuse
}  // namespace rf
