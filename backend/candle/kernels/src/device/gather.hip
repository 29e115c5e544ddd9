// gather: out[left, j, right] = x[left, ids[left, j, right], right].
//
// Shapes : x [left, extent, right]; ids, out [left, ids_extent, right]; all dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: elements are moved as they are; an id outside 0..extent gives 0 and is told of, but for the greatest of its type
//
// Macros : CANDLE_NAME; types CANDLE_ID and CANDLE_T (only moved); CANDLE_V elements per lane
#ifndef CANDLE_GATHER_H
#define CANDLE_GATHER_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
template <class Id, class T> struct Gather {
    const Id* ids;
    const T* x;
    T* out;
    u32 extent, ids_extent, right;
    RF_FN void strided(u32 n) const {
        u32 row = n / right, left = row / ids_extent;
        Id given = ids[n];
        u64 id = place_of(given);
        T value = (T)0;
        if (id < extent) {
            value = x[((u64)left * extent + id) * right + (n - row * right)];
        } else if (!is_none(given)) {
            RF_TELL_INDEX("gather", (i64)given, (i64)extent);
        }
        out[n] = value;
    }
    RF_FN void run(u32) const {}
    RF_FN void dense(u32) const {}
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, const CANDLE_ID* ids, const CANDLE_T* x, CANDLE_T* out, u64 left, u64 extent, u64 ids_extent, u64 right) {
    Gather<CANDLE_ID, CANDLE_T> f = {ids, x, out, (u32)extent, (u32)ids_extent, (u32)right};
    each<CANDLE_V>(count, CANDLE_STRIDED, false, f);
}
