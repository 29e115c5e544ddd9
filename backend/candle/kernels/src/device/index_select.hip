// index_select: out[left, j, right] = x[left, ids[j], right].
//
// Shapes : x [left, extent, right], dense; ids [ids_extent], strides in info; out [left, ids_extent, right], dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: elements are moved as they are; an id outside 0..extent gives 0 and is told of, but for the greatest of its type
//
// Macros : CANDLE_NAME; types CANDLE_ID and CANDLE_T (only moved); CANDLE_V elements per lane
#ifndef CANDLE_INDEX_SELECT_H
#define CANDLE_INDEX_SELECT_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
template <class Id, class T, int V> struct IndexSelect {
    const Info& info;
    u32 axes;
    const Id* ids;
    const T* x;
    T* out;
    u32 extent, ids_extent, right;

    // The first element of x's row for row `row` of out; false if there is none.
    RF_FN bool find(u32 row, u64* first) const {
        u32 left = row / ids_extent, j = row - left * ids_extent;
        Id given = ids[offset_of(info, axes, 1, j)];
        u64 id = place_of(given);
        *first = ((u64)left * extent + id) * right;
        if (id < extent) return true;
        if (!is_none(given)) RF_TELL_INDEX("index_select", (i64)given, (i64)extent);
        return false;
    }
    RF_FN void run(u32 n) const {
        u32 row = n / right;
        u64 first;
        T a[V];
        for (int j = 0; j < V; ++j) a[j] = (T)0;
        if (find(row, &first)) load_run<V>(x + first + (n - row * right), a);
        store_run<V>(out + n, a);
    }
    RF_FN void dense(u32 n) const { strided(n); }
    RF_FN void strided(u32 n) const {
        u32 row = n / right;
        u64 first;
        out[n] = find(row, &first) ? x[first + (n - row * right)] : (T)0;
    }
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 count, u64 axes, Info info, const CANDLE_ID* ids, const CANDLE_T* x,
                                                                CANDLE_T* out, u64 left, u64 extent, u64 ids_extent, u64 right) {
    IndexSelect<CANDLE_ID, CANDLE_T, CANDLE_V> f = {info, (u32)axes, ids, x, out, (u32)extent, (u32)ids_extent, (u32)right};
    each<CANDLE_V>(count, (u32)right % CANDLE_V == 0 ? CANDLE_DENSE : CANDLE_STRIDED, is_aligned<CANDLE_T, CANDLE_V>(x) && is_aligned<CANDLE_T, CANDLE_V>(out), f);
}
