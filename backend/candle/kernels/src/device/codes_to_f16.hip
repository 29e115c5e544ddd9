// codes_to_f16: rows of int8 activations as f16, each divided by a number so that it fits, and these numbers.
//
// Shapes : x: rows of `padded` codes as coded_rows.h says; out [rows, columns], dense; divisors [rows]
// Grid   : (rows, 1, 1)     Block : (256, 1, 1)
// Numeric: a row is divided by its greatest scale, so that magnitudes are at most 127; a scale that is the greatest one times a power
//          of two adds no rounding
//
// Macros : CANDLE_NAME
extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(const u8* x, f16* out, float* divisors, i32 columns, i32 padded) {
    __shared__ float scratch[256 / ARCH_WAVE_SIZE];
    Activations row(x, group_x(), (u64)padded);
    float most = 0.0f;
    for (u32 n = thread_x(); n < (u32)padded / 32; n += 256) most = rf::max(most, to_f32(row.scales[n].scale));
    most = group_reduce(most, Max(), scratch, thread_x(), 256);
    float inverse = most > 0.0f ? 1.0f / most : 0.0f;
    for (u32 n = thread_x(); n < (u32)columns; n += 256) {
        float value = (float)(i8)row.codes[n] * (to_f32(row.scales[n / 32].scale) * inverse);
        out[(u64)group_x() * (u32)columns + n] = f32_to_f16(value);
    }
    if (thread_x() == 0) divisors[group_x()] = most;
}
