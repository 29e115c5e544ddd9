// col2im1d: out[b, c, l] = Σ of columns[b, i, c, k] over i · stride + k = l.
//
// Shapes : columns [b, input, channels, kernel], out [b, channels, length], dense
// Grid   : (ceil(count / 256), 1, 1)     Block : (256, 1, 1)          one lane per element of out
// Numeric: 16-bit floats in f32, one rounding at the store; integers wrap
//
// Macros : CANDLE_NAME; type CANDLE_T
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 length, u64 input, u64 channels, u64 kernel, u64 stride, const CANDLE_T* columns, CANDLE_T* out) {
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    if (n >= count) return;
    LinearIndex at = {n};
    u64 l = at.take(length), c = at.take(channels), b = at.rest;
    typedef Wide<CANDLE_T>::type W;
    W sum = (W)0;
    // Places from the last that begins at or before l backwards: k grows.
    i64 i = (i64)((u32)l / (u32)stride);
    for (u64 k = l - (u64)i * stride; k < kernel && i >= 0; k += stride, --i)
        if ((u64)i < input) sum = (W)(sum + Wide<CANDLE_T>::of(columns[((b * input + (u64)i) * channels + c) * kernel + k]));
    out[n] = cast<CANDLE_T>(sum);
}
