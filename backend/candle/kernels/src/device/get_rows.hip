// get_rows: out[j, :] = row ids[j] of a matrix of floats.
//
// Shapes : rows of `columns` elements, row_bytes apart; out [ids, columns] f32, dense
// Grid   : (ids, 1, 1)     Block : (256, 1, 1)
//
// Needs  : `room` bytes of matrix, the last CANDLE_PADDING elements of which belong to no row. An id whose row is not there gives
//          zeros, and is reported
//
// Macros : CANDLE_NAME; CANDLE_T, the matrix's type; CANDLE_PADDING
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif

extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(
    const u8* matrix, const u32* ids, float* out, i64 columns, u64 row_bytes, u64 room) {
    u32 id = ids[group_x()];
    room -= CANDLE_PADDING * sizeof(CANDLE_T);
    bool inside = (id + 1ull) * row_bytes <= room;
    const CANDLE_T* row = (const CANDLE_T*)(matrix + (inside ? id * row_bytes : 0));
    for (u32 column = thread_x(); column < columns; column += 256)
        out[(u64)group_x() * columns + column] = inside ? cast<float>(row[column]) : 0.0f;
    if (!inside && thread_x() == 0) RF_TELL_INDEX("get_rows", (i64)id, (i64)(room / row_bytes));
}
