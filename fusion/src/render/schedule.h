// schedule.h: what all schedules use. A generated kernel has a functor, which says what a graph computes of a few elements, and a
// schedule (elementwise.h, wave.h, …), which says which lane takes which elements and in what order reductions fold them. Follows
// reductions.h.
//
// A functor G of a graph has
//
//   Args                         the argument struct, with `space` and `tensor`, which functions take as `a`
//   offset, locate(item)         bytes from each tensor's base to column 0 of row `item`, which `locate` sets
//   uniform(), row(pass)         compute the values that are the same everywhere, and those of the row that are known before a pass
//   PASSES, WIDTH                passes over a row, elements of a step
//   Kept                         what a step has in registers: values kept for later passes, inputs that are read ahead of it
//   Read<P>, Written<P>          inputs that a step of pass P reads for itself, and what it stores
//   About<P>                     AHEAD: how many inputs are read ahead; FIRST: how many reductions are of passes before it;
//                                Each<State>: a State<R> for each of its reductions R
//   read(pass, kept, read, column, count)
//                                reads the inputs that the step from `column` on reads itself; `count` of its elements exist
//   ahead(pass, kept, column, count), ahead_packed<By>(pass, kept, column)
//                                reads the inputs of a pass that are read ahead of its steps; the second if all lie packed and the
//                                step is whole
//   ahead(pass, input, …), ahead_packed<By>(pass, input, …), is_packed(pass, input)
//                                the same for one of them, and whether it lies packed
//   step(pass, kept, read, written, folds, column, count)
//                                computes a step's elements; operands of reductions go to the `s` of each State
//   write<By>(pass, written, column, count, live), write_packed(pass, written, column)
//                                stores them
//   reduced(pass, folds)         takes the `total` of each State
//   ROW_OUTPUTS, store_row()     whether there are outputs per row, and stores them

// For lambdas what RF_FN is for functions. NVRTC inlines what is called once by itself.
#if RF_DEVICE_AMD
#define RF_INLINE __attribute__((always_inline))
#else
#define RF_INLINE
#endif

namespace rf {
namespace fuse {

template <int P> struct Pass { static const int NUMBER = P; };
template <int I> struct Input { static const int NUMBER = I; };

// Calls f with every pass, or input, from number N on, in order.
template <template <int> class Of, int N, int END> struct Numbers {
    template <class F> RF_FN static void each(const F& f) {
        f(Of<N>());
        Numbers<Of, N + 1, END>::each(f);
    }
};
template <template <int> class Of, int END> struct Numbers<Of, END, END> {
    template <class F> RF_FN static void each(const F&) {}
};

// A State<R> for each of several reductions R.
template <template <class> class State, class... R> struct Each {};
template <template <class> class State, class R, class... Rest> struct Each<State, R, Rest...> {
    State<R> first;
    Each<State, Rest...> rest;
};
template <template <class> class State, class F> RF_FN void visit(Each<State>&, const F&) {}
template <template <class> class State, class R, class... Rest, class F>
RF_FN void visit(Each<State, R, Rest...>& states, const F& f) {
    f(states.first);
    visit(states.rest, f);
}
template <int I> struct Nth {
    template <class E> RF_FN static auto& of(E& states) { return Nth<I - 1>::of(states.rest); }
};
template <> struct Nth<0> {
    template <class E> RF_FN static auto& of(E& states) { return states.first; }
};

// Stands in place of Read<P> if all inputs were read ahead.
struct None {};

// The base of a functor: where its row lies.
template <class ARGS, int TENSORS> struct Located {
    typedef ARGS Args;
    index_t offset[TENSORS];

    RF_FN void start(const Args& a) {
#pragma unroll
        for (int k = 0; k < TENSORS; ++k) offset[k] = a.tensor[k].start;
    }
    RF_FN void locate(const Args& a, index_t item) {
        start(a);
        fuse::locate(a.space, a.tensor, item, offset);
    }
    RF_FN static void move(const index_t (&from)[TENSORS], index_t (&to)[TENSORS]) {
#pragma unroll
        for (int k = 0; k < TENSORS; ++k) to[k] = from[k];
    }
};
// The same for a graph that asks for coordinates.
template <class ARGS, int TENSORS> struct LocatedAt : Located<ARGS, TENSORS> {
    index_t at[8];

    RF_FN void locate(const ARGS& a, index_t item) {
        this->start(a);
        fuse::locate(a.space, a.tensor, item, this->offset, at);
    }
};

// How packed inputs are read and results are written: in the usual way, or past the caches, if a launch reads or writes each only once.
struct AsAny {
    template <class S, class To> RF_FN static void get(To& to, const Tensor& tensor, index_t place) { load_packed<S>(to, tensor, place); }
    template <class S, class From> RF_FN static void put(const From& from, const Tensor& tensor, index_t place) {
        store_full<S>(from, tensor, place);
    }
};
struct PastCaches {
    template <class S, class To> RF_FN static void get(To& to, const Tensor& tensor, index_t place) { load_once<S>(to, tensor, place); }
    template <class S, class From> RF_FN static void put(const From& from, const Tensor& tensor, index_t place) {
        store_once<S>(from, tensor, place);
    }
};
// The column to read for a step: the row's first one for a step behind its end, which is not used. So no branch stands between loads.
RF_FN index_t inside(index_t column, index_t extent) { return column < extent ? column : 0; }

// The accumulators of a reduction in one lane: QUADS neighbouring chains.
template <int QUADS> struct Chains {
    template <class R> struct State {
        typename R::A c[QUADS], s[QUADS][4], total;

        RF_FN void start() {
#pragma unroll
            for (int i = 0; i < QUADS; ++i) c[i] = R::neutral();
        }
        RF_FN void fold(u32 count) { fold_each<R, QUADS>(c, s, count); }
        RF_FN typename R::A own() { return tree_of<R, QUADS>(c); }
    };
};

// The address of the total of a part of a row, for reduction `number`.
template <class Args> RF_FN char* partial(const Args& a, u32 number, index_t row, u64 part) {
    return memory(a.partials) + ((number * (u64)a.space.items + row) * a.chunks + part) * 8;
}

}  // namespace fuse
}  // namespace rf
