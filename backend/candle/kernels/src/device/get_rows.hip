// get_rows: out[j, :] = row ids[j] of a matrix of floats.
//
// Shapes : rows of `columns` elements, row_bytes apart; out [ids, columns] f32, dense
// Grid   : (ids, 1, 1)     Block : (256, 1, 1)
//
// Macros : CANDLE_NAME; CANDLE_T, the matrix's type
extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(
    const u8* matrix, const u32* ids, float* out, i64 columns, u64 row_bytes) {
    const CANDLE_T* row = (const CANDLE_T*)(matrix + ids[group_x()] * row_bytes);
    for (u32 column = thread_x(); column < columns; column += 256) out[(u64)group_x() * columns + column] = cast<float>(row[column]);
}
