// quantise: rows of activations as int8 codes with a scale per 32.
//
// Shapes : x [rows, columns], dense; out: rows of `padded` codes as coded_rows.h says, zeros behind `columns`
// Grid   : (ceil(padded / 256), rows, 1)      Block : (256, 1, 1)       one lane per code
// Numeric: scale = greatest magnitude / 127 as f16, rounded up. A code is x / scale in f32, rounded to the nearest integer, ties away
//          from zero. Then some of the 32 codes are rounded the other way, those that are nearest to their other neighbour, as many
//          as it takes to make the sum of the codes that of the values
//
// Rounding then changes the sum of 32 codes by at most a half, so that a product with weights of one sign, where the 32 roundings
// would add up, is no less precise than others. The sum beside the scale is that of the values before rounding, in eighths of the scale.
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

// The number and column of another lane of 32. `move` goes on to those of the next lane, by an exchange of one instruction.
struct OtherLane {
    float value;
    u32 column;
    // 1 if that lane comes before this one: it has a greater number, or the same number in an earlier column.
    RF_FN u32 before(float mine, u32 own) const { return value > mine || (value == mine && column < own) ? 1 : 0; }
    template <class F> RF_FN void move(F f) {
        value = f(value);
        column = f(column);
    }
};
template <int CTRL> struct MoveByDpp { template <class T> RF_FN T operator()(T x) const { return dpp<CTRL>(x); } };
struct MoveBy16 { template <class T> RF_FN T operator()(T x) const { return Words<T, 1>::each(x, Xor16()); } };
RF_FN u32 rank_of_32(float value, u32 column) {
    OtherLane other = {value, column};
    u32 rank = 0;
    // Each exchange is with the lane whose number is this one's exclusive or with 1, 2, 7, 15 or 16. In the order of a Gray code these
    // reach every lane once.
    for (u32 step = 1; step < 32; ++step) {
        if (step % 2 == 1) other.move(MoveByDpp<RF_DPP_XOR1>());
        else if (step % 4 == 2) other.move(MoveByDpp<RF_DPP_XOR2>());
        else if (step % 8 == 4) other.move(MoveByDpp<RF_DPP_HALF_MIRROR>());
        else if (step % 16 == 8) other.move(MoveByDpp<RF_DPP_MIRROR>());
        else other.move(MoveBy16());
        rank += other.before(value, column);
    }
    return rank;
}

RF_FN f16 f16_not_below(float x) {
    f16 y = f32_to_f16(x);
    // The next greater number, unless that is infinity.
    if (to_f32(y) < x && y.bits < 0x7bff) ++y.bits;
    return y;
}
#endif

extern "C" __global__ __launch_bounds__(CANDLE_QUANTISE_BLOCK) void CANDLE_NAME(const CANDLE_T* x, u8* out, i32 columns, i32 padded) {
    u32 column = group_x() * CANDLE_QUANTISE_BLOCK + thread_x();
    u64 row = group_y();
    float value = column < (u32)columns ? Wide<CANDLE_T>::of(x[row * (u32)columns + column]) : 0.0f;
    f16 scale = f16_not_below(max_of_32(rf::abs(value)) * (1.0f / 127.0f));
    float divisor = to_f32(scale);
    float exact = divisor > 0.0f ? value / divisor : 0.0f, nearest = RoundAway::of(exact);
    float left = exact - nearest, all_left = sum_of_32(left);
    i32 sum = (i32)(8.0f * sum_of_32(nearest)) + (i32)RoundAway::of(8.0f * all_left);
    i32 moved = (i32)RoundAway::of(all_left), code = (i32)nearest;
    if (rank_of_32(moved > 0 ? left : -left, column) < (u32)(moved > 0 ? moved : -moved)) code += moved > 0 ? 1 : -1;
    code = code > 127 ? 127 : code < -127 ? -127 : code;
    if (column >= (u32)padded) return;
    u8* codes = out + row * activation_bytes((u64)padded);
    codes[column] = (u8)code;
    if (column % 32 == 0) {
        Scale s = {scale, (short)sum};
        ((Scale*)(codes + padded))[column / 32] = s;
    }
}
