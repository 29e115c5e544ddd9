// reduce: one value per line of `extent` elements; a line is what the last axes of info span.
//
//   sum, min, max      out[line] = the sum, the least, the greatest of its elements
//   argmin, argmax     out[line] = where along info's last axis the first of the least or greatest is
//
// Shapes : x [lines, extent] through info (axes to reduce last, any strides); out [lines], dense
// Grid   : (lines, 1, 1)     Block : (64, 256 or 1024, 1, 1)         by `extent`: block_for, as in geometry.rs
// LDS    : 1024 states
// Numeric: sums of 16-bit floats in f32, rounded once; integers wrap. Each lane adds every block-th element, then lanes in a
//          tree: the order depends on `extent` alone. NaN, as on Candle's CPU device: the least and greatest of a line that
//          begins with NaN is NaN, and its place the first; elsewhere NaN is passed over. Of zeros of both signs any is an extreme
//
// Macros : CANDLE_NAME; types CANDLE_T and CANDLE_OUT; CANDLE_STATE, one of the states below over CANDLE_T and what CANDLE_T is
//          computed with, without which there is no kernel, for rows_of.hip
#ifndef CANDLE_REDUCE_H
#define CANDLE_REDUCE_H

#define CANDLE_SHORT_LINE 512
#define CANDLE_SHORT_BLOCK 64
#define CANDLE_MIDDLE_LINE 8192
#define CANDLE_MIDDLE_BLOCK 256
#define CANDLE_LONG_BLOCK 1024
// Elements that a lane asks for before it takes the first.
#define CANDLE_AT_ONCE 4

RF_FN u32 block_for(u64 extent) {
    return extent <= CANDLE_SHORT_LINE ? CANDLE_SHORT_BLOCK : extent <= CANDLE_MIDDLE_LINE ? CANDLE_MIDDLE_BLOCK : CANDLE_LONG_BLOCK;
}

struct Both { template <class State> RF_FN State operator()(State a, State b) const { return State::both(a, b); } };

// The states of all lanes as one, in the first lane at least: by registers where a state is one or two of them, otherwise by a
// tree in LDS. `slots` has one per lane.
template <class State, bool BY_REGISTERS> struct Lanes {
    RF_FN static State reduce(State mine, State* slots, u32 lane, u32 lanes) { return group_reduce(mine, Both(), slots, lane, lanes); }
};
template <class State> struct Lanes<State, false> {
    RF_FN static State reduce(State mine, State* slots, u32 lane, u32 lanes) {
        slots[lane] = mine;
        for (u32 half = lanes / 2; half > 0; half /= 2) {
            barrier();
            if (lane < half) slots[lane] = State::both(slots[lane], slots[lane + half]);
        }
        return slots[0];
    }
};

// The ends of a type's range, infinities where there are.
template <class T> struct Ends {
    RF_FN static T lowest() { return (T)Limits<T>::low; }
    RF_FN static T greatest() { return (T)Limits<T>::high; }
};
template <> struct Ends<float> {
    RF_FN static float lowest() { return -infinity(); }
    RF_FN static float greatest() { return infinity(); }
};
template <> struct Ends<double> {
    RF_FN static double lowest() { return -__builtin_inf(); }
    RF_FN static double greatest() { return __builtin_inf(); }
};

// A reduction's state after some elements. W is what T is computed with.
template <class T, class W> struct SumState {
    W value;
    RF_FN static SumState none() { SumState s = {(W)0}; return s; }
    RF_FN void take(W x, u32) { value = (W)(value + x); }
    RF_FN static SumState both(SumState a, SumState b) { SumState s = {(W)(a.value + b.value)}; return s; }
    template <class Out> RF_FN Out result(W, u64, u32) const { return cast<Out>(value); }
};
template <class T, class W, bool GREATEST> struct ExtremeState {
    W value;
    RF_FN static ExtremeState none() {
        ExtremeState s = {GREATEST ? Ends<W>::lowest() : Ends<W>::greatest()};
        return s;
    }
    // A state is never NaN.
    RF_FN static W pick(W a, W b) { return (GREATEST ? a < b : a > b) ? b : a; }
    RF_FN void take(W x, u32) { value = pick(value, x); }
    RF_FN static ExtremeState both(ExtremeState a, ExtremeState b) { ExtremeState s = {pick(a.value, b.value)}; return s; }
    template <class Out> RF_FN Out result(W first, u64, u32) const { return cast<Out>(first == first ? value : first); }
};
// `at` counts elements of the line; CANDLE_NOWHERE until one that is a number came.
#define CANDLE_NOWHERE 0xffffffffu
template <class T, class W, bool GREATEST> struct PlaceState {
    W value;
    u32 at;
    RF_FN static PlaceState none() { PlaceState s = {(W)0, CANDLE_NOWHERE}; return s; }
    RF_FN static bool before(PlaceState a, PlaceState b) {
        if (a.at == CANDLE_NOWHERE || b.at == CANDLE_NOWHERE) return b.at == CANDLE_NOWHERE;
        if (a.value == b.value) return a.at < b.at;
        return GREATEST ? a.value > b.value : a.value < b.value;
    }
    RF_FN void take(W x, u32 n) {
        PlaceState next = {x, n};
        if (x == x && !before(*this, next)) *this = next;
    }
    RF_FN static PlaceState both(PlaceState a, PlaceState b) { return before(a, b) ? a : b; }
    // A line that begins with NaN, or has nothing else, has its place there.
    template <class Out> RF_FN Out result(W first, u64 start, u32 last_extent) const {
        return first == first ? (Out)((start + at) % last_extent) : (Out)0;
    }
};

template <class T, class Out, class State>
RF_FN void reduce(u64 extent, u64 axes, const Info& info, const T* x, Out* out, State* slots) {
    typedef typename Wide<T>::type W;
    u32 lane = thread_x(), lanes = block_for(extent), line = group_x();
    bool dense = is_dense(info, (u32)axes, 1);
    u64 start = (u64)line * extent;
    u32 last_extent = axes == 0 ? 1 : (u32)info.words[axes - 1];
    State state = State::none();
    if (dense) {
        const T* from = x + start;
        u32 n = lane;
        for (; n + (CANDLE_AT_ONCE - 1) * lanes < extent; n += CANDLE_AT_ONCE * lanes) {
            W values[CANDLE_AT_ONCE];
            for (u32 i = 0; i < CANDLE_AT_ONCE; ++i) values[i] = Wide<T>::of(from[n + i * lanes]);
            for (u32 i = 0; i < CANDLE_AT_ONCE; ++i) state.take(values[i], n + i * lanes);
        }
        for (; n < extent; n += lanes) state.take(Wide<T>::of(from[n]), n);
    } else {
        for (u32 n = lane; n < extent; n += lanes) state.take(Wide<T>::of(x[offset_of(info, (u32)axes, 1, (u32)(start + n))]), n);
    }
    state = Lanes<State, sizeof(State) == 4 || sizeof(State) == 8>::reduce(state, slots, lane, lanes);
    if (lane == 0) {
        W first = Wide<T>::of(x[dense ? start : offset_of(info, (u32)axes, 1, (u32)start)]);
        out[line] = state.template result<Out>(first, start, last_extent);
    }
}
#endif

#ifdef CANDLE_STATE
extern "C" __global__ __launch_bounds__(CANDLE_LONG_BLOCK) void CANDLE_NAME(
    u64 count, u64 extent, u64 axes, Info info, const CANDLE_T* x, CANDLE_OUT* out) {
    typedef CANDLE_STATE State;
    __shared__ State slots[CANDLE_LONG_BLOCK];
    reduce(extent, axes, info, x, out, slots);
}
#endif
