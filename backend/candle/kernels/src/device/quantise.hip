// quantise: rows of activations as int8 codes with a scale per 32.
//
// Shapes : x [rows, columns], dense; out: rows of `padded` codes as gguf.h says, zeros behind `columns`
// Grid   : (ceil(padded / 256), rows, 1)      Block : (256, 1, 1)       one lane per code
// Numeric: scale = f16(greatest magnitude / 127), code = x / scale in f32, to the nearest, ties away from zero
//
// Macros : CANDLE_NAME; CANDLE_T, x's type
#ifndef CANDLE_QUANTISE_H
#define CANDLE_QUANTISE_H
#define CANDLE_QUANTISE_BLOCK 256
RF_FN float max_of_32(float value) {
    Max op;
    value = op(value, dpp<RF_DPP_XOR1>(value));
    value = op(value, dpp<RF_DPP_XOR2>(value));
    value = op(value, dpp<RF_DPP_HALF_MIRROR>(value));
    value = op(value, dpp<RF_DPP_MIRROR>(value));
    return op(value, Words<float, 1>::each(value, Xor16()));
}
#endif

extern "C" __global__ __launch_bounds__(CANDLE_QUANTISE_BLOCK) void CANDLE_NAME(const CANDLE_T* x, u8* out, i32 columns, i32 padded) {
    u32 column = group_x() * CANDLE_QUANTISE_BLOCK + thread_x();
    u64 row = group_y();
    float value = column < (u32)columns ? Wide<CANDLE_T>::of(x[row * (u32)columns + column]) : 0.0f;
    f16 scale = f32_to_f16(max_of_32(rf::abs(value)) * (1.0f / 127.0f));
    float divisor = to_f32(scale);
    // A scale too small for f16 is 0, as are its codes.
    i32 code = (i32)RoundAway::of(divisor > 0.0f ? value / divisor : 0.0f);
    code = code > 127 ? 127 : code < -127 ? -127 : code;
    i32 sum = (i32)sum_of_32((float)code);
    if (column >= (u32)padded) return;
    u8* codes = out + row * activation_bytes((u64)padded);
    codes[column] = (u8)code;
    if (column % 32 == 0) {
        Scale s = {scale, (short)sum};
        ((Scale*)(codes + padded))[column / 32] = s;
    }
}
