// columns.h: a lane takes a row, for rows that lie side by side, so that the elements of one row are far apart. Follows schedule.h.
//
// A workgroup takes as many rows as a wave has lanes. Chunk by chunk, each of its waves runs through some chains of every row, one
// after another, so that the loops are the scalar unit's work. The waves' subtrees are combined in LDS. In `columns_wide` a lane has two
// neighbouring rows, so that a wave reads twice as much at once.
namespace rf {
namespace fuse {

// The share of a wave in a workgroup of at most G::WAVES waves.
template <class G, int CHAINS_LEAST> struct ColumnWaves {
    u32 wave, waves, own_chains;

    RF_FN explicit ColumnWaves(const typename G::Args& a) {
        wave = uniform(thread_y());
        waves = 1u << a.space.lanes_log2;
        // A short row has fewer quads than chains; the other chains have nothing to fold.
        const index_t used = a.space.quads < a.space.chains ? a.space.quads : a.space.chains;
        own_chains = CHAINS_LEAST;
        while (own_chains * waves < (u32)used) own_chains *= 2;
    }
};

// The accumulators of a lane: a chain, the subtree of its wave's chains, and the tree over chunks.
template <class G> struct ColumnChain {
    template <class R> struct State : Chains<1>::template State<R> {
        typename R::A levels[G::CHAIN_LEVELS + 1], chunks[G::CHUNK_LEVELS + 1];

        RF_FN void put_chain(u32 i) { Climb<R, 0, G::CHAIN_LEVELS>::put(levels, this->c[0], i); }
        template <class Waves> RF_FN void put_chunk(u64* scratch, const Waves& at, u32 number) {
            const typename R::A own = climbed<R, G::CHAIN_LEVELS>(levels, at.own_chains);
            const typename R::A all = tree_waves<R, G::WAVES>(own, (typename R::A*)scratch, at.wave, at.waves);
            Climb<R, 0, G::CHUNK_LEVELS>::put(chunks, all, number);
        }
        RF_FN void finish(u32 count) { this->total = climbed<R, G::CHUNK_LEVELS>(chunks, count); }
    };
};

template <class G> RF_FN void columns(const typename G::Args& a, u32 group) {
    const int CHUNK = G::CHUNK_QUADS;
    __shared__ u64 scratch[G::WAVES * ARCH_WAVE_SIZE];
    G g;
    g.uniform(a);
    const ColumnWaves<G, 1> at(a);
    for (index_t base = group * (index_t)ARCH_WAVE_SIZE; base < a.space.items; base += a.space.step) {
        const index_t own = base + thread_x();
        const bool live = own < a.space.items;
        g.locate(a, live ? own : a.space.items - 1);
        Numbers<Pass, 0, G::PASSES>::each([&](auto pass) RF_INLINE {
            const int P = decltype(pass)::NUMBER;
            g.row(a, pass);
            typename G::template About<P>::template Each<ColumnChain<G>::template State> folds;
            u32 chunks = 0;
            for (index_t chunk = 0; chunk < a.space.quads; chunk += CHUNK, ++chunks) {
                const index_t end = a.space.quads - chunk < CHUNK ? a.space.quads : chunk + CHUNK;
                for (u32 i = 0; i < at.own_chains; ++i) {
                    const index_t chain = at.wave * at.own_chains + i;
                    visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
                    for (index_t quad = chunk + chain; quad < end; quad += a.space.chains) {
                        const index_t column = quad * G::WIDTH;
                        const u32 count = window(column, a.space.extent, G::WIDTH);
                        typename G::Kept kept;
                        typename G::template Read<P> in;
                        typename G::template Written<P> out;
                        g.read(a, pass, kept, in, column, count);
                        g.step(a, pass, kept, in, out, folds, column, count);
                        visit(folds, [&](auto& fold) RF_INLINE { fold.fold(count); });
                        g.template write<AsAny>(a, pass, out, column, count, live);
                    }
                    visit(folds, [&](auto& fold) RF_INLINE { fold.put_chain(i); });
                }
                visit(folds, [&](auto& fold) RF_INLINE { fold.put_chunk(scratch, at, chunks); });
            }
            visit(folds, [&](auto& fold) RF_INLINE { fold.finish(chunks); });
            g.reduced(a, pass, folds);
        });
        g.row(a, Pass<G::PASSES>());
        if (G::ROW_OUTPUTS && live && at.wave == 0) g.store_row(a);
    }
}

// The accumulators of a lane with two rows: the chains of each that it runs through at once, and the subtree of its wave's chains.
template <class G> struct WideChain {
    template <class R> struct State {
        typedef typename R::A A;
        A c[2][1], s[1][4], at_once[2][G::CHAINS], levels[2][G::CHAIN_LEVELS + 1], totals[2], total;

        RF_FN void start() { c[0][0] = c[1][0] = R::neutral(); }
        RF_FN void fold(u32 q, u32 count) { fold_each<R, 1>(c[q], s, count); }
        RF_FN void put_chain(u32 j) {
            at_once[0][j] = c[0][0];
            at_once[1][j] = c[1][0];
        }
        RF_FN void put_chains(u32 i) {
#pragma unroll
            for (u32 q = 0; q < 2; ++q) Climb<R, 0, G::CHAIN_LEVELS>::put(levels[q], tree_of<R, G::CHAINS>(at_once[q]), i);
        }
        template <class Waves> RF_FN void finish(u64* scratch, const Waves& at) {
#pragma unroll
            for (u32 q = 0; q < 2; ++q) {
                const A own = climbed<R, G::CHAIN_LEVELS>(levels[q], at.own_chains / G::CHAINS);
                totals[q] = tree_waves<R, G::WAVES>(own, (A*)scratch, at.wave, at.waves);
            }
        }
    };
};

// The same with two rows a lane, for rows of one chunk and graphs with one pass and outputs per row only.
template <class G> RF_FN void columns_wide(const typename G::Args& a, u32 group) {
    const int ROWS = 2;
    __shared__ u64 scratch[G::WAVES * ARCH_WAVE_SIZE];
    G g;
    g.uniform(a);
    const ColumnWaves<G, G::CHAINS> at(a);
    for (index_t base = group * (index_t)(ARCH_WAVE_SIZE * ROWS); base < a.space.items; base += a.space.step) {
        const index_t own = base + thread_x() * ROWS;
        const bool live = own < a.space.items;
        g.locate(a, live ? own : a.space.items - ROWS);
        typename G::template About<0>::template Each<WideChain<G>::template State> folds;
        for (u32 i = 0; i < at.own_chains; i += G::CHAINS) {
#pragma unroll
            for (u32 j = 0; j < (u32)G::CHAINS; ++j) {
                const index_t chain = at.wave * at.own_chains + i + j;
                visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
                for (index_t quad = chain; quad < a.space.quads; quad += a.space.chains) {
                    const index_t column = quad * G::WIDTH;
                    const u32 count = window(column, a.space.extent, G::WIDTH);
                    typename G::Kept kept[ROWS];
                    g.read_rows(a, kept, column, count);
#pragma unroll
                    for (u32 q = 0; q < ROWS; ++q) {
                        typename G::template Written<0> out;
                        g.step(a, Pass<0>(), kept[q], None(), out, folds, column, count);
                        visit(folds, [&](auto& fold) RF_INLINE { fold.fold(q, count); });
                    }
                }
                visit(folds, [&](auto& fold) RF_INLINE { fold.put_chain(j); });
            }
            visit(folds, [&](auto& fold) RF_INLINE { fold.put_chains(i / G::CHAINS); });
        }
        visit(folds, [&](auto& fold) RF_INLINE { fold.finish(scratch, at); });
#pragma unroll
        for (u32 q = 0; q < ROWS; ++q) {
            G row = g;
#pragma unroll
            for (int k = 0; k < G::TENSORS; ++k) row.offset[k] += q * a.tensor[k].stride[1];
            visit(folds, [&](auto& fold) RF_INLINE { fold.total = fold.totals[q]; });
            row.reduced(a, Pass<0>(), folds);
            row.row(a, Pass<1>());
            if (live && at.wave == 0) row.store_row(a);
        }
    }
}

}  // namespace fuse
}  // namespace rf
