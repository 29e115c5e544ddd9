// sum_small: out[line] = the sum of the line's elements, of which there are few.
//
// Shapes : x [lines, extent] through info (axes to reduce last, any strides); out [lines], dense
// Grid   : (ceil(lines / 256), 1, 1)     Block : (256, 1, 1)          one lane per line
// Numeric: in order; 16-bit floats in f32, rounded once; integers wrap
//
// Macros : CANDLE_NAME; type CANDLE_T
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 lines, u64 extent, u64 axes, Info info, const CANDLE_T* x, CANDLE_T* out) {
    u32 line = group_x() * CANDLE_BLOCK + thread_x();
    if (line >= lines) return;
    bool dense = is_dense(info, (u32)axes, 1);
    typedef Wide<CANDLE_T>::type W;
    W sum = (W)0;
    for (u32 n = 0; n < extent; ++n) {
        u64 at = (u64)line * extent + n;
        sum = (W)(sum + Wide<CANDLE_T>::of(x[dense ? at : offset_of(info, (u32)axes, 1, (u32)at)]));
    }
    out[line] = cast<CANDLE_T>(sum);
}
