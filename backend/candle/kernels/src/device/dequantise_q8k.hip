// dequantise_q8k: blocks of 256 int8 codes with one f32 scale as floats. Candle uses this type for activations on the CPU.
//
// Shapes : blocks of 292 bytes (scale, codes, sums that are not needed here); out dense
// Grid   : (blocks, 1, 1)     Block : (256, 1, 1)     one lane per weight
//
// Macros : CANDLE_NAME; CANDLE_OUT
extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(const u8* blocks, CANDLE_OUT* out) {
    const u8* block = blocks + (u64)group_x() * 292;
    out[(u64)group_x() * 256 + thread_x()] = cast<CANDLE_OUT>(*(const float*)block * (float)(i8)block[4 + thread_x()]);
}
