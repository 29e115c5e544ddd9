// index_add and scatter: into out's line along one axis go the elements of x's, in their order.
//
//   CANDLE_INDEX_ADD : out[left, ids[j], right] += x[left, j, right]
//   otherwise : out[left, ids[left, j, right], right] = x[left, j, right], or += with CANDLE_ADD
//
// Shapes : x [left, x_extent, right]; ids [x_extent], or as x; out [left, extent, right]; all dense
// Grid   : (ceil(left · right / 256), 1, 1)    one lane per line, so that no two lanes write one element
// Block  : (256, 1, 1)
// Numeric: each sum is rounded to the type, as on a CPU; an id outside 0..extent is passed over, and told of but for the greatest of its type
//
// Macros : CANDLE_NAME; types CANDLE_ID and CANDLE_T; CANDLE_INDEX_ADD and CANDLE_ADD, 0 or 1
#ifndef CANDLE_SCATTER_H
#define CANDLE_SCATTER_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
template <class Id, class T, bool SHARED_IDS, bool SUM>
RF_FN void scatter(const Id* ids, const T* x, T* out, u64 left, u64 x_extent, u64 extent, u64 right) {
    u64 line = (u64)group_x() * CANDLE_BLOCK + thread_x();
    if (line >= left * right) return;
    u64 before = line / right, after = line - before * right;
    for (u64 j = 0; j < x_extent; ++j) {
        u64 from = (before * x_extent + j) * right + after;
        Id given = ids[SHARED_IDS ? j : from];
        u64 id = place_of(given);
        if (id >= extent) {
            if (is_none(given)) continue;
            if (SHARED_IDS) {
                RF_TELL_INDEX("index_add", (i64)given, (i64)extent);
            } else if (SUM) {
                RF_TELL_INDEX("scatter_add", (i64)given, (i64)extent);
            } else {
                RF_TELL_INDEX("scatter", (i64)given, (i64)extent);
            }
            continue;
        }
        T* to = out + (before * extent + id) * right + after;
        *to = SUM ? cast<T>(Wide<T>::of(*to) + Wide<T>::of(x[from])) : x[from];
    }
}
#endif

#if CANDLE_INDEX_ADD
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_ID* ids, u64 x_extent, const CANDLE_T* x, CANDLE_T* out, u64 left, u64 x_axis, u64 extent, u64 right) {
    scatter<CANDLE_ID, CANDLE_T, true, true>(ids, x, out, left, x_extent, extent, right);
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_ID* ids, const CANDLE_T* x, CANDLE_T* out, u64 left, u64 x_extent, u64 extent, u64 right) {
    scatter<CANDLE_ID, CANDLE_T, false, CANDLE_ADD>(ids, x, out, left, x_extent, extent, right);
}
#endif
