// pool2d: the mean, or the greatest, of each window.
//
// Shapes : image [b, c, first, second] through info, any strides; out [b, c, outputs of first, outputs of second], dense
// Grid   : (ceil(count / 256), 1, 1)     Block : (256, 1, 1)          one lane per element of out
// Numeric: mean: 16-bit floats in f32, one rounding at the store, a product with the reciprocal of the window's size;
//          greatest: NaN where the window begins with one
//
// Macros : CANDLE_NAME; type CANDLE_T; CANDLE_MEAN 0 or 1
#ifndef CANDLE_POOL2D_H
#define CANDLE_POOL2D_H
// What a mean is taken in.
template <class T> struct MeanOf { typedef float type; };
template <> struct MeanOf<double> { typedef double type; };
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 unused, u64 kernel_first, u64 kernel_second,
                                                                u64 stride_first, u64 stride_second, Info info,
                                                                const CANDLE_T* image, CANDLE_T* out) {
    Extents from = {info, 0, 4};
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    u64 firsts = (u32)(from.extent(2) - kernel_first) / (u32)stride_first + 1;
    u64 seconds = (u32)(from.extent(3) - kernel_second) / (u32)stride_second + 1;
    if (n >= from.extent(0) * from.extent(1) * firsts * seconds) return;
    LinearIndex at = {n};
    u64 second = at.take(seconds), first = at.take(firsts), c = at.take(from.extent(1)), b = at.rest;
    const CANDLE_T* corner = image + b * from.stride(0) + c * from.stride(1) + first * stride_first * from.stride(2) +
                      second * stride_second * from.stride(3);
    typedef Wide<CANDLE_T>::type W;
    W value = CANDLE_MEAN ? (W)0 : Wide<CANDLE_T>::of(corner[0]);
    for (u64 i = 0; i < kernel_first; ++i)
        for (u64 j = 0; j < kernel_second; ++j) {
            W x = Wide<CANDLE_T>::of(corner[i * from.stride(2) + j * from.stride(3)]);
            value = CANDLE_MEAN ? (W)(value + x) : value < x ? x : value;
        }
#if CANDLE_MEAN
    typedef MeanOf<W>::type R;
    value = cast<W>((R)value * (R)(1.0 / (double)(kernel_first * kernel_second)));
#endif
    out[n] = cast<CANDLE_T>(value);
}
