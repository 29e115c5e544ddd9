// group.h: a workgroup takes a row, a thread a chain, and every pass reads its inputs again. Follows schedule.h. A short row has fewer
// chains than the workgroup has threads; the others' are empty.
//
// `split` does the same for some neighbouring chunks of one row and writes their total. `join` adds the totals of a row and finishes it.
namespace rf {
namespace fuse {

// The accumulators of a thread's chain, and the trees that combine a workgroup's chains and chunks.
template <class G> struct GroupChain {
    template <class R> struct State : Chains<1>::template State<R> {
        typedef typename R::A A;
        // The total of a chunk, the same in every lane. `scratch` is LDS for one value per wave; every tree waits for the one before it.
        RF_FN A tree_of_chunk(u64* scratch) { return tree_group<R, G::THREADS>(this->c[0], (A*)scratch); }
        // Adds a chunk's total to the tree over chunks, which is in LDS.
        RF_FN void put_chunk(u64* scratch, u64* totals, u32 number) {
            const A own = tree_of_chunk(scratch);
            if (thread_x() == 0) fuse::put_chunk<R>((A*)totals, own, number);
        }
        RF_FN void take_chunks(const u64* totals, u32 count) { this->total = all_chunks<R>((const A*)totals, count); }
    };
};

// Folds the quads of this thread's chain in the chunk that begins at quad `chunk`. If all of them are whole and packed, BATCH of them
// are read at once.
template <class G, class P, class Folds>
RF_FN void fold_chunk(G& g, const typename G::Args& a, P pass, Folds& folds, index_t chunk, bool packed) {
    const int BATCH = 4, THREADS = G::THREADS, CHUNK = G::CHUNK_QUADS;
    const index_t end = a.space.quads - chunk < CHUNK ? a.space.quads : chunk + CHUNK;
    visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
    if (G::template About<P::NUMBER>::AHEAD > 0 && packed && end - chunk == CHUNK) {
        for (index_t first = chunk; first < end; first += BATCH * THREADS) {
            typename G::Kept kept[BATCH];
#pragma unroll
            for (u32 q = 0; q < BATCH; ++q)
                g.template ahead_packed<AsAny>(a, pass, kept[q], (first + q * THREADS + thread_x()) * G::WIDTH);
#pragma unroll
            for (u32 q = 0; q < BATCH; ++q) {
                const index_t column = (first + q * THREADS + thread_x()) * G::WIDTH;
                const u32 count = G::WIDTH;
                typename G::template Written<P::NUMBER> out;
                g.step(a, pass, kept[q], None(), out, folds, column, count);
                visit(folds, [&](auto& fold) RF_INLINE { fold.fold(count); });
                g.template write<AsAny>(a, pass, out, column, count, true);
            }
        }
    } else {
        const u32 chains = a.space.chains;
        for (index_t first = chunk; first < end; first += chains) {
            const index_t column = thread_x() < chains ? (first + thread_x()) * G::WIDTH : a.space.extent;
            const u32 count = window(column, a.space.extent, G::WIDTH);
            typename G::Kept kept;
            typename G::template Read<P::NUMBER> in;
            typename G::template Written<P::NUMBER> out;
            g.read(a, pass, kept, in, column, count);
            g.step(a, pass, kept, in, out, folds, column, count);
            visit(folds, [&](auto& fold) RF_INLINE { fold.fold(count); });
            g.template write<AsAny>(a, pass, out, column, count, true);
        }
    }
}

template <class G> RF_FN void rows_by_group(const typename G::Args& a, u32 group) {
    const int REDUCTIONS = G::REDUCTIONS > 0 ? G::REDUCTIONS : 1;
    __shared__ u64 scratch[G::THREADS / ARCH_WAVE_SIZE];
    __shared__ u64 totals[REDUCTIONS][CHUNK_LEVELS];
    G g;
    g.uniform(a);
    const bool packed = g.packed(a);
    for (index_t row = group; row < a.space.items; row += a.space.step) {
        g.locate(a, row);
        Numbers<Pass, 0, G::PASSES>::each([&](auto pass) RF_INLINE {
            typedef typename G::template About<decltype(pass)::NUMBER> About;
            g.row(a, pass);
            typename About::template Each<GroupChain<G>::template State> folds;
            const u32 chunks = (a.space.quads + G::CHUNK_QUADS - 1) / G::CHUNK_QUADS;
            for (u32 number = 0; number < chunks; ++number) {
                fold_chunk(g, a, pass, folds, number * (index_t)G::CHUNK_QUADS, packed);
                int at = About::FIRST;
                visit(folds, [&](auto& fold) RF_INLINE { fold.put_chunk(scratch, totals[at++], number); });
            }
            // The barrier of the next tree comes before the next write of the totals.
            if (About::REDUCES) barrier();
            int at = About::FIRST;
            visit(folds, [&](auto& fold) RF_INLINE { fold.take_chunks(totals[at++], chunks); });
            g.reduced(a, pass, folds);
        });
        g.row(a, Pass<G::PASSES>());
        if (G::ROW_OUTPUTS && thread_x() == 0) g.store_row(a);
    }
}

// The tree over the chunks of a row that a workgroup sums one after another, with G::SPLIT_LEVELS levels.
template <class G> struct SplitChain {
    template <class R> struct State : GroupChain<G>::template State<R> {
        typename R::A levels[G::SPLIT_LEVELS + 1];

        RF_FN void put(u64* scratch, u32 number) {
            Climb<R, 0, G::SPLIT_LEVELS>::put(levels, this->tree_of_chunk(scratch), number);
        }
        RF_FN void store(char* to, u32 count) {
            const typename R::A total = climbed<R, G::SPLIT_LEVELS>(levels, count);
            if (thread_x() == 0) *(typename R::A*)to = total;
        }
    };
};

// A workgroup takes the `turns` chunks from `group * turns` on of row `group_y`. Their total is that of a subtree.
template <class G> RF_FN void split(const typename G::Args& a, u32 group) {
    __shared__ u64 scratch[G::THREADS / ARCH_WAVE_SIZE];
    G g;
    g.uniform(a);
    const bool packed = g.packed(a);
    const index_t row = group_y();
    g.locate(a, row);
    g.row(a, Pass<0>());
    typename G::template About<0>::template Each<SplitChain<G>::template State> folds;
    u32 number = 0;
    for (; number < (u32)a.space.turns; ++number) {
        const index_t chunk = (group * a.space.turns + number) * (index_t)G::CHUNK_QUADS;
        if (chunk >= a.space.quads) break;
        fold_chunk(g, a, Pass<0>(), folds, chunk, packed);
        visit(folds, [&](auto& fold) RF_INLINE { fold.put(scratch, number); });
    }
    u32 reduction = 0;
    visit(folds, [&](auto& fold) RF_INLINE { fold.store(partial(a, reduction++, row, group), number); });
}

// Adds the totals of a row's chunks.
template <class G> struct JoinChain {
    template <class R> struct State : GroupChain<G>::template State<R> {
        typedef typename R::A A;
        // Enough levels for 2^32 chunks among 2^8 threads, LEAVES of them at a time.
        static const int LEVELS = 21, LEAVES = 8;

        // A thread adds `per` neighbouring totals, so that its result is a subtree of the row's tree.
        RF_FN void finish(const typename G::Args& a, u32 reduction, index_t row, u32 per, u64* scratch) {
            A levels[LEVELS + 1];
            for (u32 turn = 0; turn < per / LEAVES; ++turn) {
                A x[LEAVES];
#pragma unroll
                for (u32 i = 0; i < LEAVES; ++i) {
                    const u32 chunk = thread_x() * per + turn * LEAVES + i;
                    x[i] = R::neutral();
                    if (chunk < a.chunks) x[i] = *(const A*)partial(a, reduction, row, chunk);
                }
                Climb<R, 0, LEVELS>::put(levels, tree_of<R, LEAVES>(x), turn);
            }
            this->c[0] = climbed<R, LEVELS>(levels, per / LEAVES);
            this->total = this->tree_of_chunk(scratch);
        }
    };
};

template <class G> RF_FN void join(const typename G::Args& a, u32 group) {
    __shared__ u64 scratch[G::THREADS / ARCH_WAVE_SIZE];
    G g;
    g.uniform(a);
    u32 per = 8;
    while (per * G::THREADS < (u32)a.chunks) per *= 2;
    for (index_t row = group; row < a.space.items; row += a.space.step) {
        g.locate(a, row);
        g.row(a, Pass<0>());
        typename G::template About<0>::template Each<JoinChain<G>::template State> folds;
        u32 reduction = 0;
        visit(folds, [&](auto& fold) RF_INLINE { fold.finish(a, reduction++, row, per, scratch); });
        g.reduced(a, Pass<0>(), folds);
        g.row(a, Pass<1>());
        if (G::ROW_OUTPUTS && thread_x() == 0) g.store_row(a);
    }
}

}  // namespace fuse
}  // namespace rf
