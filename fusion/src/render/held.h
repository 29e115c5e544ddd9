// held.h: a workgroup takes a row, a thread one or two chains, and the row stays in registers from pass to pass, so that it is read
// once. Follows schedule.h.
//
// A thread has G::TURNS steps of G::WIDTH elements. Rows have one chunk (G::CHUNKS 1), or they have several, lie packed and end with a
// whole step; different threads then hold the chunks. All loads of a pass, or of the row (G::EARLY), come before its arithmetic, so
// that they are under way together. The order of reductions is that of `rows_by_group` in either case.
namespace rf {
namespace fuse {

// The tree over a workgroup of many waves. The lanes of each wave share the waves' totals: if each thread added all of them by itself,
// that would be as much work as its part of the row.
template <class R, int THREADS> RF_FN typename R::A tree_many(typename R::A x, typename R::A* scratch) {
    const u32 waves = THREADS / ARCH_WAVE_SIZE;
    x = wave_reduce(x, Combine<R>());
    if (thread_x() % ARCH_WAVE_SIZE == 0) scratch[thread_x() / ARCH_WAVE_SIZE] = x;
    barrier();
    const u32 levels = waves >= 32 ? 5 : waves >= 16 ? 4 : waves >= 8 ? 3 : 2;
    return tree<R>(scratch[thread_x() % waves], levels);
}

// The largest (MOST) or smallest element so far of a 16-bit type, NaN if there was one.
#if RF_DEVICE_AMD
template <class S, bool MOST> struct Extreme {
    float at = MOST ? -infinity() : infinity();
    template <int N> RF_FN void put(const Halves<S, N>& from) {
#pragma unroll
        for (int e = 0; e < N; ++e) at = MOST ? max_of_either_zero(at, from[e]) : min_of_either_zero(at, from[e]);
    }
    RF_FN float total() const { return at; }
};
#else
RF_FN u32 two_most(u32 a, u32 b, bf16) { asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b)); return a; }
RF_FN u32 two_least(u32 a, u32 b, bf16) { asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b)); return a; }
RF_FN u32 two_most(u32 a, u32 b, f16) { asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b)); return a; }
RF_FN u32 two_least(u32 a, u32 b, f16) { asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b)); return a; }
template <class S, bool MOST> struct Extreme {
    u32 at = Half<S>::put_low(infinite()) | Half<S>::put_high(infinite());
    RF_FN static float infinite() { return MOST ? -infinity() : infinity(); }
    template <int N> RF_FN void put(const Halves<S, N>& from) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) at = MOST ? two_most(at, from.word[i], S()) : two_least(at, from.word[i], S());
    }
    RF_FN float total() const {
        const float low = Half<S>::low(at), high = Half<S>::high(at);
        return MOST ? max_of_either_zero(low, high) : min_of_either_zero(low, high);
    }
};
#endif

// Stands for a reduction R that is the extreme of a 16-bit input. An extreme does not depend on the order, and some devices take two
// elements in one instruction, so the functor gives it the input's words.
template <class R, class S, bool MOST> struct OfWords {};

// The total of a workgroup's values. `scratch` is LDS for one value per wave; no thread reads its old contents any more.
template <class R, class G> RF_FN typename R::A held_total(typename R::A own, u64* scratch) {
    static_assert(G::CHUNKS == 1 || G::THREADS / ARCH_WAVE_SIZE >= 4, "two chunks of 128 threads are four of the widest waves");
    if (G::CHUNKS == 1) return tree_group_apart<R, G::THREADS>(own, (typename R::A*)scratch);
    return tree_many<R, G::THREADS>(own, (typename R::A*)scratch);
}
template <class G> struct HeldChains {
    template <class R> struct State : Chains<G::WIDTH / 4>::template State<R> {
        RF_FN void finish(u64* scratch) { this->total = held_total<R, G>(this->own(), scratch); }
    };
    template <class R, class S, bool MOST> struct State<OfWords<R, S, MOST>> {
        Extreme<S, MOST> extreme;
        typename R::A total;

        RF_FN void start() {}
        RF_FN void fold(u32) {}
        RF_FN void finish(u64* scratch) { total = held_total<R, G>(extreme.total(), scratch); }
    };
};

// The first element of a thread's step q. Threads of one chunk are neighbours.
template <class G> RF_FN index_t held_column(u32 q) {
    if (G::CHUNKS == 1) return (q * G::THREADS + thread_x()) * G::WIDTH;
    const u32 own = G::THREADS / G::CHUNKS;
    return thread_x() / own * (G::CHUNK_QUADS * 4) + (q * own + thread_x() % own) * G::WIDTH;
}

// The extent, hidden from the optimiser. Otherwise NVRTC keeps the counts of one pass for the next, in registers that the row needs,
// and spills. On AMD's GPUs the extent lies in a scalar register, of which there are enough.
RF_FN index_t extent_anew(index_t extent) {
#if RF_DEVICE_AMD
    return extent;
#else
    u32 low = (u32)extent;  // A row that fits into registers is short.
    rf::make_anew(low);
    return low;
#endif
}

// Reads the inputs that passes P to END - 1 read ahead. A thread behind the end of the row reads its first elements, which are not used.
template <int P, int END, class G> RF_FN void read_held(const G& g, const typename G::Args& a, typename G::Kept (&kept)[G::TURNS], bool packed) {
    const index_t extent = a.space.extent;
    if (packed) {
#pragma unroll
        for (u32 q = 0; q < (u32)G::TURNS; ++q) {
            const index_t column = inside(held_column<G>(q), extent);
            Numbers<Pass, P, END>::each([&](auto pass) RF_INLINE { g.template ahead_packed<PastCaches>(a, pass, kept[q], column); });
        }
    } else {
#pragma unroll
        for (u32 q = 0; q < (u32)G::TURNS; ++q) {
            const index_t column = held_column<G>(q);
            const u32 count = window(column, extent, G::WIDTH);
            Numbers<Pass, P, END>::each([&](auto pass) RF_INLINE { g.ahead(a, pass, kept[q], column, count); });
        }
    }
}

template <class G> RF_FN void rows_held(const typename G::Args& a, u32 group) {
    // Each reduction of a row has a row of `scratch` of its own, so that one barrier per reduction is enough: another reduction's barrier
    // comes before its next use. A single reduction uses two rows in turn.
    __shared__ u64 scratch[G::REDUCTIONS < 2 ? 2 : G::REDUCTIONS][G::THREADS / ARCH_WAVE_SIZE];
    G g;
    g.uniform(a);
    if (G::CHUNKS > 1) g.assume_packed(a);
    const bool packed = G::CHUNKS > 1 || g.packed(a);
    u32 turn = 1;
    for (index_t row = group; row < a.space.items; row += a.space.step) {
        turn ^= 1u;
        g.locate(a, row);
        typename G::Kept kept[G::TURNS];
        if (G::EARLY) read_held<0, G::PASSES>(g, a, kept, packed);
        Numbers<Pass, 0, G::PASSES>::each([&](auto pass) RF_INLINE {
            const int P = decltype(pass)::NUMBER;
            typedef typename G::template About<P> About;
            g.row(a, pass);
            if (!G::EARLY) read_held<P, P + 1>(g, a, kept, packed);
            typename About::template Each<HeldChains<G>::template State> folds;
            visit(folds, [](auto& fold) RF_INLINE { fold.start(); });
#pragma unroll
            for (u32 q = 0; q < (u32)G::TURNS; ++q) {
                g.make_anew(a, pass, kept[q]);
                const index_t column = held_column<G>(q), extent = extent_anew(a.space.extent);
                if (G::CHUNKS > 1 && column >= extent) continue;
                const u32 count = G::CHUNKS > 1 ? (u32)G::WIDTH : window(column, extent, G::WIDTH);
                typename G::template Written<P> out;
                g.words(a, pass, kept[q], folds);
                g.step(a, pass, kept[q], None(), out, folds, column, count);
                visit(folds, [&](auto& fold) RF_INLINE { fold.fold(count); });
                g.template write<PastCaches>(a, pass, out, column, count, true);
            }
            u32 slot = About::FIRST;
            visit(folds, [&](auto& fold) RF_INLINE { fold.finish(scratch[G::REDUCTIONS == 1 ? turn : slot++]); });
            g.reduced(a, pass, folds);
        });
        g.row(a, Pass<G::PASSES>());
        if (G::ROW_OUTPUTS && thread_x() == 0) g.store_row(a);
    }
}

}  // namespace fuse
}  // namespace rf
