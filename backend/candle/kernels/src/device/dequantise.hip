// dequantise: weights of a GGUF type as floats.
//
//   CANDLE_KIND 0 : out[n] = weight n; `count` says how many blocks or weights there are
//   CANDLE_KIND 1 : the same for K types; the grid says how many blocks there are
//   CANDLE_KIND 2 : out[j, :] = row ids[j] of a matrix whose rows are `row_bytes` apart
//
// Shapes : weights in blocks; out dense
// Grid   : 0: (ceil(units / 256), 1, 1); 1: (blocks, 1, 1); 2: (rows, 1, 1)
// Block  : 0 and 2: (256, 1, 1), 1: (4, 1, 1); a lane decodes a unit
// Needs  : 2: `room` bytes of weights, the last CANDLE_PADDING weights of which belong to no row. An id whose row is not there gives
//          zeros, and is reported
// Numeric: scale · code + offset in f32, one rounding at the store
//
// Macros : CANDLE_NAME; CANDLE_TYPE, a number of gguf.h; CANDLE_OUT; CANDLE_KIND; CANDLE_COUNTED, by how much `count` grows for a unit;
//          CANDLE_PADDING
#ifndef CANDLE_DEQUANTISE_H
#define CANDLE_DEQUANTISE_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
#define CANDLE_DEQUANTISE_BLOCK 256
template <int TYPE, class Out> RF_FN void dequantise(const u8* weights, Out* out, u32 unit) {
    typedef Gguf<TYPE> Type;
    u32 block = unit / Type::UNITS;
    Run runs[Type::SUBS];
    Type::unpack(weights + (u64)block * Type::BYTES, unit % Type::UNITS, runs);
    for (int run = 0; run < Type::SUBS; ++run) {
        Out* to = out + (u64)block * Type::SIZE + runs[run].at;
        for (int i = 0; i < 16; ++i) to[i] = cast<Out>(weight_at(runs[run], i));
    }
}
#endif

#if CANDLE_KIND == 0
extern "C" __global__ __launch_bounds__(CANDLE_DEQUANTISE_BLOCK) void CANDLE_NAME(const u8* weights, CANDLE_OUT* out, i32 count) {
    // For some of the older types Candle's `count` counts blocks, for others weights.
    u32 unit = group_x() * CANDLE_DEQUANTISE_BLOCK + thread_x();
    if (unit < (u32)count / CANDLE_COUNTED) dequantise<CANDLE_TYPE>(weights, out, unit);
}
#elif CANDLE_KIND == 1
extern "C" __global__ __launch_bounds__(64) void CANDLE_NAME(const u8* weights, CANDLE_OUT* out) {
    dequantise<CANDLE_TYPE>(weights, out, group_x() * 4 + thread_x());
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_DEQUANTISE_BLOCK) void CANDLE_NAME(
    const u8* weights, const u32* ids, float* out, i64 columns, u64 row_bytes, u64 room) {
    typedef Gguf<CANDLE_TYPE> Type;
    u32 units = (u32)(columns / Type::SIZE) * Type::UNITS, id = ids[group_x()];
    room -= CANDLE_PADDING / Type::SIZE * Type::BYTES;
    if ((id + 1ull) * row_bytes > room) {
        for (u32 column = thread_x(); column < columns; column += CANDLE_DEQUANTISE_BLOCK) out[(u64)group_x() * columns + column] = 0.0f;
        if (thread_x() == 0) RF_TELL_INDEX("get_rows", (i64)id, (i64)(room / row_bytes));
        return;
    }
    const u8* row = weights + id * row_bytes;
    for (u32 unit = thread_x(); unit < units; unit += CANDLE_DEQUANTISE_BLOCK)
        dequantise<CANDLE_TYPE>(row, out + (u64)group_x() * columns, unit);
}
#endif
