// rope: pairs of elements turned by the angle of their position.
//
//   (a, b) -> (a · cos - b · sin, a · sin + b · cos)
//
//   rope      pairs are element i and i + d/2 of a head;          x [bh, t, d], td = t · d
//   rope_i    pairs are neighbours;                               x [bh, t, d], td = t · d
//   rope_thd  as rope, heads inside positions;                    x [b, t, h, d]
//
// Shapes : x, y dense; cos, sin [t, d/2], or one such table per batch entry of stride_b elements where that is not 0
// Grid   : (ceil(pairs / 256), 1, 1)     Block : (256, 1, 1)          one lane per pair
// Numeric: 16-bit floats in f32, one rounding at the store
//
// Macros : CANDLE_NAME; type CANDLE_T; CANDLE_KIND 0 rope, 1 rope_i, 2 rope_thd; CANDLE_SEVERAL: for so many in one launch
#ifndef CANDLE_ROPE_H
#define CANDLE_ROPE_H
template <class T> RF_FN void turn(const T* x, T* y, const T* cos, const T* sin, u64 first, u64 second, u64 angle) {
    typedef typename Wide<T>::type W;
    W a = Wide<T>::of(x[first]), b = Wide<T>::of(x[second]), c = Wide<T>::of(cos[angle]), s = Wide<T>::of(sin[angle]);
    y[first] = cast<T>(a * c - b * s);
    y[second] = cast<T>(a * s + b * c);
}
// Where the table of a batch entry begins; `table` is the pairs of one.
RF_FN u64 table_of(u32 pair, u32 stride_b, u64 table) { return stride_b > 0 ? (u32)(2 * (u64)pair / stride_b) * table : 0; }
// The pair of a lane of workgroup `group`; the numbers are bh, td, d of kind 0; bh, td of kind 1; b, t, h, d of kind 2.
template <int KIND, class T>
RF_FN void rope_pair(u32 group, const T* x, const T* cos, const T* sin, T* y, u32 first, u32 second, u32 third, u32 fourth, u32 stride_b) {
    u32 pair = group * CANDLE_BLOCK + thread_x();
    if (KIND == 0) {
        u32 bh = first, td = second, d = third;
        if (2 * (u64)pair >= (u64)bh * td) return;
        u32 half = d / 2, inside = (u32)(pair % (td / 2));
        u64 at = (u64)(pair / half) * d + pair % half;
        turn(x, y, cos, sin, at, at + half, inside + table_of(pair, stride_b, td / 2));
    } else if (KIND == 1) {
        u32 bh = first, td = second;
        if (2 * (u64)pair >= (u64)bh * td) return;
        turn(x, y, cos, sin, 2 * (u64)pair, 2 * (u64)pair + 1, pair % (td / 2) + table_of(pair, stride_b, td / 2));
    } else {
        u32 b = first, t = second, h = third, d = fourth;
        if (2 * (u64)pair >= (u64)b * t * h * d) return;
        u32 half = d / 2;
        u32 head = pair / half, column = pair - head * half, position = head / h % t;
        u64 at = (u64)head * d + column;
        turn(x, y, cos, sin, at, at + half, (u64)position * half + column + table_of(pair, stride_b, (u64)t * d / 2));
    }
}
#endif

#ifdef CANDLE_SEVERAL
// One launch for several: `first` is the first workgroup of a member.
struct RopeMember { const CANDLE_T *x, *cos, *sin; CANDLE_T* y; u32 numbers[5], first; u64 unused; };
struct Ropes { u32 count, unused; RopeMember member[CANDLE_SEVERAL]; };
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT Ropes a) {
    u32 at = 0;
    while (at + 1 < a.count && a.member[at + 1].first <= group_x()) ++at;
    const RopeMember& m = a.member[at];
    const u32* n = m.numbers;
    rope_pair<CANDLE_KIND>(group_x() - m.first, m.x, m.cos, m.sin, m.y, n[0], n[1], n[2], n[3], n[4]);
}
#elif CANDLE_KIND == 0
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, const CANDLE_T* cos, const CANDLE_T* sin, CANDLE_T* y, u32 bh, u32 td, u32 d, u32 stride_b) {
    rope_pair<0>(group_x(), x, cos, sin, y, bh, td, d, 0, stride_b);
}
#elif CANDLE_KIND == 1
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, const CANDLE_T* cos, const CANDLE_T* sin, CANDLE_T* y, u32 bh, u32 td, u32 stride_b) {
    rope_pair<1>(group_x(), x, cos, sin, y, bh, td, 0, 0, stride_b);
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, const CANDLE_T* cos, const CANDLE_T* sin, CANDLE_T* y, u32 b, u32 t, u32 h, u32 d, u32 stride_b) {
    rope_pair<2>(group_x(), x, cos, sin, y, b, t, h, d, stride_b);
}
#endif
