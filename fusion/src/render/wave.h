// wave.h: lanes of one wave share a short row and keep it in registers, so that it is read once. Follows schedule.h.
//
// All loads of a row (G::EARLY), or if there are too few registers all loads of a pass (G::AHEAD), come before its arithmetic, so that
// they are under way together. A lane has at most G::TURNS steps of a row, because registers cannot be indexed. A step is G::WIDTH
// elements, of neighbouring chains; G::CHAINS steps have all chains of the order. A row with several steps a lane has G::CHAINS lanes,
// or the whole wave if that has fewer. Then a lane takes several chains in turn, which are its slots. With G::PACKED everything lies
// packed and the row ends with a whole step.
namespace rf {
namespace fuse {

template <int SLOTS, int QUADS> struct WaveChains {
    template <class R> struct State {
        typedef typename R::A A;
        A c[SLOTS][QUADS], s[QUADS][4], total;

        RF_FN void start() {
#pragma unroll
            for (int i = 0; i < SLOTS * QUADS; ++i) c[i / QUADS][i % QUADS] = R::neutral();
        }
        template <bool PACKED> RF_FN void fold(u32 slot, u32 count) {
            if (PACKED) fold_each_whole<R, QUADS>(c[slot], s, count);
            else fold_each<R, QUADS>(c[slot], s, count);
        }
        RF_FN void finish(u32 lanes_log2) {
            A t[SLOTS];
#pragma unroll
            for (int slot = 0; slot < SLOTS; ++slot) t[slot] = tree<R>(tree_of<R, QUADS>(c[slot]), lanes_log2);
            total = tree_of<R, SLOTS>(t);
        }
    };
};

// The lanes that share a row.
template <class G> struct WaveLanes {
    static const int MOST = ARCH_WAVE_SIZE < G::CHAINS ? ARCH_WAVE_SIZE : G::CHAINS, SLOTS = G::TURNS == 1 ? 1 : G::CHAINS / MOST;
    u32 log2, lane;

    RF_FN explicit WaveLanes(const typename G::Args& a) {
        log2 = G::TURNS == 1 ? (u32)a.space.lanes_log2 : MOST == 64 ? 6u : 5u;
        lane = thread_x() & ((1u << log2) - 1u);
    }
    // The first element of a lane's step q.
    RF_FN index_t column(u32 q) const { return ((q << log2) + lane) * G::WIDTH; }
};

// Reads one input for all steps, if inputs need not lie packed. The mode is tested for each input, so that one that does not lie packed
// does not slow down the others. `whole`: whether the row ends with a whole step.
template <class G, class P, class I>
RF_FN void read_input(const G& g, const typename G::Args& a, P pass, I input, typename G::Kept (&kept)[G::TURNS],
                      const WaveLanes<G>& lanes, bool whole) {
    if (whole && g.is_packed(a, pass, input)) {
#pragma unroll
        for (u32 q = 0; q < (u32)G::TURNS; ++q) {
            const index_t column = inside(lanes.column(q), a.space.extent);
            g.template ahead_packed<AsAny>(a, pass, input, kept[q], column);
        }
    } else {
#pragma unroll
        for (u32 q = 0; q < (u32)G::TURNS; ++q) {
            const index_t column = lanes.column(q);
            const u32 count = window(column, a.space.extent, G::WIDTH);
            g.ahead(a, pass, input, kept[q], column, count);
        }
    }
}

// Reads the inputs that passes P to END - 1 read ahead.
template <int P, int END, class G>
RF_FN void read_row(const G& g, const typename G::Args& a, typename G::Kept (&kept)[G::TURNS], const WaveLanes<G>& lanes) {
    const index_t extent = a.space.extent;
    if (G::PACKED) {
#pragma unroll
        for (u32 q = 0; q < (u32)G::TURNS; ++q) {
            const index_t column = inside(lanes.column(q), extent);
            Numbers<Pass, P, END>::each([&](auto pass) RF_INLINE { g.template ahead_packed<AsAny>(a, pass, kept[q], column); });
        }
    } else {
        const bool whole = extent > 0 && extent % 4 == 0;
        Numbers<Pass, P, END>::each([&](auto pass) RF_INLINE {
            const int COUNT = G::template About<decltype(pass)::NUMBER>::AHEAD;
            Numbers<Input, 0, COUNT>::each([&](auto input) RF_INLINE { read_input(g, a, pass, input, kept, lanes, whole); });
        });
    }
}

template <class G, class P>
RF_FN void wave_pass(G& g, const typename G::Args& a, P pass, typename G::Kept (&kept)[G::TURNS], const WaveLanes<G>& lanes, bool live) {
    const int SLOTS = WaveLanes<G>::SLOTS;
    typename G::template About<P::NUMBER>::template Each<WaveChains<SLOTS, G::WIDTH / 4>::template State> folds;
    visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
#pragma unroll
    for (u32 q = 0; q < (u32)G::TURNS; ++q) {
        if (G::TURNS > 2 && q > (u32)G::TURNS / 2 && q >= a.space.turns) continue;
        const index_t column = lanes.column(q);
        const u32 packed_count = column < a.space.extent ? (u32)G::WIDTH : 0u;
        const u32 count = G::PACKED ? packed_count : window(column, a.space.extent, G::WIDTH);
        typename G::template Read<P::NUMBER> in;
        typename G::template Written<P::NUMBER> out;
        g.read(a, pass, kept[q], in, column, count);
        g.step(a, pass, kept[q], in, out, folds, column, count);
        visit(folds, [&](auto& fold) RF_INLINE { fold.template fold<(G::PACKED != 0)>(q % SLOTS, count); });
        if (!G::PACKED) g.template write<AsAny>(a, pass, out, column, count, live);
        else if (live && count == (u32)G::WIDTH) g.write_packed(a, pass, out, column);
    }
    visit(folds, [&](auto& fold) RF_INLINE { fold.finish(lanes.log2); });
    g.reduced(a, pass, folds);
}

template <class G> RF_FN void rows_by_wave(const typename G::Args& a, u32 group) {
    G g;
    g.uniform(a);
    const WaveLanes<G> lanes(a);
    const index_t rows = (u32)G::THREADS >> lanes.log2;
    for (index_t base = group * rows; base < a.space.items; base += a.space.step) {
        // Lanes without a row compute the last row again, so that every lane has a value to exchange, but store nothing.
        const index_t own = base + (thread_x() >> lanes.log2);
        const bool live = own < a.space.items;
        g.locate(a, live ? own : a.space.items - 1);
        typename G::Kept kept[G::TURNS];
        if (G::EARLY) read_row<0, G::PASSES>(g, a, kept, lanes);
        Numbers<Pass, 0, G::PASSES>::each([&](auto pass) RF_INLINE {
            const int P = decltype(pass)::NUMBER;
            g.row(a, pass);
            if (G::AHEAD && !G::EARLY) read_row<P, P + 1>(g, a, kept, lanes);
            wave_pass(g, a, pass, kept, lanes, live);
        });
        g.row(a, Pass<G::PASSES>());
        if (G::ROW_OUTPUTS && live && lanes.lane == 0) g.store_row(a);
    }
}

}  // namespace fuse
}  // namespace rf
