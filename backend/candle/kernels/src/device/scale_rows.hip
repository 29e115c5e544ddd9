// scale_rows: out[row, n] *= factors[row], in place.
//
// Shapes : out [rows, columns], row stride; factors [rows]
// Grid   : (rows, 1, 1)     Block : (256, 1, 1)
//
// Macros : CANDLE_NAME
extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(float* out, const float* factors, i32 columns, u64 stride) {
    float factor = factors[group_x()];
    for (u32 n = thread_x(); n < (u32)columns; n += 256) out[group_x() * stride + n] *= factor;
}
