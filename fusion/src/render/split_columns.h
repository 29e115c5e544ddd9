// split_columns.h: a lane takes rows as in columns.h. The rows are so few that different workgroups take their chunks, and parts of the
// chains of a chunk. Each workgroup writes the total of its part, and `join` adds the totals. Follows schedule.h.
//
// There are 2 to the power of `lanes_log2` parts of a chunk. Workgroup `group` has part `group % parts` of chunk `group / parts`, for the
// rows from `group_y` times its lanes' rows on. A wave runs through its share of the part's chains one after another.
namespace rf {
namespace fuse {

// The accumulators of a lane: a chain for each of its rows, and the subtree of its wave's chains.
template <class G> struct SplitColumnsChain {
    template <class R> struct State {
        typedef typename R::A A;
        A c[G::ROWS][1], s[1][4], levels[G::ROWS][G::CHAIN_LEVELS + 1], total;

        RF_FN void start() {
#pragma unroll
            for (int q = 0; q < G::ROWS; ++q) c[q][0] = R::neutral();
        }
        RF_FN void fold(u32 q, u32 count) { fold_each<R, 1>(c[q], s, count); }
        RF_FN void put_chain(u32 i) {
#pragma unroll
            for (int q = 0; q < G::ROWS; ++q) Climb<R, 0, G::CHAIN_LEVELS>::put(levels[q], c[q][0], i);
        }
        RF_FN A tree(u32 q, u64* scratch, u32 own_chains) {
            const A own = climbed<R, G::CHAIN_LEVELS>(levels[q], own_chains);
            return tree_waves<R, G::WAVES>(own, (A*)scratch, uniform(thread_y()), G::WAVES);
        }
        RF_FN void store(char* to) const { *(A*)to = total; }
    };
};

// Folds a quad of each row of a lane, from `column` on.
template <class G, class Folds>
RF_FN void fold_quad(G (&g)[1], const typename G::Args& a, Folds& folds, index_t column, u32 count) {
    typename G::Kept kept;
    typename G::template Read<0> in;
    typename G::template Written<0> out;
    g[0].read(a, Pass<0>(), kept, in, column, count);
    g[0].step(a, Pass<0>(), kept, in, out, folds, column, count);
    visit(folds, [&](auto& fold) RF_INLINE { fold.fold(0, count); });
}
template <class G, class Folds>
RF_FN void fold_read(G (&g)[2], const typename G::Args& a, Folds& folds, typename G::Kept (&kept)[2], index_t column, u32 count) {
#pragma unroll
    for (u32 q = 0; q < 2; ++q) {
        typename G::template Written<0> out;
        g[q].step(a, Pass<0>(), kept[q], None(), out, folds, column, count);
        visit(folds, [&](auto& fold) RF_INLINE { fold.fold(q, count); });
    }
}
template <class G, class Folds>
RF_FN void fold_quad(G (&g)[2], const typename G::Args& a, Folds& folds, index_t column, u32 count) {
    typename G::Kept kept[2];
    g[0].read_rows(a, kept, column, count);
    fold_read(g, a, folds, kept, column, count);
}
// Folds two whole quads that are `step` columns apart. A lane reads both before it converts any element.
template <class G, class Folds>
RF_FN void fold_quads(G (&g)[1], const typename G::Args& a, Folds& folds, index_t column, index_t step) {
    fold_quad(g, a, folds, column, G::WIDTH);
    fold_quad(g, a, folds, column + step, G::WIDTH);
}
template <class G, class Folds>
RF_FN void fold_quads(G (&g)[2], const typename G::Args& a, Folds& folds, index_t column, index_t step) {
    typename G::Kept kept[2][2];
    g[0].read_rows(a, kept[0], column, G::WIDTH);
    g[0].read_rows(a, kept[1], column + step, G::WIDTH);
    fold_read(g, a, folds, kept[0], column, G::WIDTH);
    fold_read(g, a, folds, kept[1], column + step, G::WIDTH);
}

template <class G> RF_FN void split_columns(const typename G::Args& a, u32 group) {
    const u32 ROWS = G::ROWS;
    __shared__ u64 scratch[G::WAVES * ARCH_WAVE_SIZE];
    const u32 parts = a.space.lanes_log2, own_chains = ((u32)a.space.chains >> parts) / G::WAVES;
    const index_t chunk = (index_t)(group >> parts) * G::CHUNK_QUADS;
    const u32 part = group & ((1u << parts) - 1u);
    const index_t own = (group_y() * (index_t)ARCH_WAVE_SIZE + thread_x()) * ROWS;
    const bool live = own < a.space.items;
    G g[ROWS];
    g[0].uniform(a);
    g[0].locate(a, live ? own : a.space.items - ROWS);
#pragma unroll
    for (u32 q = 1; q < ROWS; ++q) {
        g[q] = g[0];
#pragma unroll
        for (int k = 0; k < G::TENSORS; ++k) g[q].offset[k] += q * a.tensor[k].stride[1];
    }
#pragma unroll
    for (u32 q = 0; q < ROWS; ++q) g[q].row(a, Pass<0>());
    typename G::template About<0>::template Each<SplitColumnsChain<G>::template State> folds;
    const index_t end = a.space.quads - chunk < G::CHUNK_QUADS ? a.space.quads : chunk + G::CHUNK_QUADS;
    // In a whole chunk every chain has the same number of quads, and all of them are whole.
    const bool whole = (chunk + G::CHUNK_QUADS) * G::WIDTH <= a.space.extent;
    for (u32 i = 0; i < own_chains; ++i) {
        const index_t first = chunk + (part * G::WAVES + uniform(thread_y())) * own_chains + i;
        visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
        if (whole) {
            for (index_t quad = first; quad < end; quad += 2 * a.space.chains)
                fold_quads(g, a, folds, quad * G::WIDTH, a.space.chains * G::WIDTH);
        } else {
            for (index_t quad = first; quad < end; quad += a.space.chains) {
                const index_t column = quad * G::WIDTH;
                fold_quad(g, a, folds, column, window(column, a.space.extent, G::WIDTH));
            }
        }
        visit(folds, [&](auto& fold) RF_INLINE { fold.put_chain(i); });
    }
    u32 number = 0;
    visit(folds, [&](auto& fold) RF_INLINE {
#pragma unroll
        for (u32 q = 0; q < ROWS; ++q) {
            fold.total = fold.tree(q, scratch, own_chains);
            if (live && thread_y() == 0) fold.store(partial(a, number, own + q, group));
        }
        ++number;
    });
}

}  // namespace fuse
}  // namespace rf
