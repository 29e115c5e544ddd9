// conv_transpose: out[b, o, y, x] = Σ of image[b, c, i, j] · kernel[c, o, ky, kx] over i·stride + ky·dilation - padding = y
// and j·stride + kx·dilation - padding = x; of one axis the same without y.
//
// Shapes : image [b, c, h, w], kernel [c, o, kh, kw] (or without h and kh) through info, any strides; out dense
// Grid   : (ceil(count / 256), 1, 1)     Block : (256, 1, 1)          one lane per element of out
// Numeric: 16-bit floats in f32, one rounding at the store; integers wrap
//
// Macros : CANDLE_NAME; type CANDLE_T; CANDLE_AXES 1 or 2
#ifndef CANDLE_CONV_TRANSPOSE_H
#define CANDLE_CONV_TRANSPOSE_H
// The coordinate of the image that element `to` of out meets at place k of the window; false if none.
RF_FN bool source_of(u64 to, u64 k, u64 stride, u64 padding, u64 dilation, u64 extent, u64* from) {
    i64 at = (i64)(to + padding) - (i64)(k * dilation);
    if (at < 0) return false;
    u32 whole = (u32)at / (u32)stride;
    *from = whole;
    return whole * stride == (u64)at && whole < extent;
}
#endif

#if CANDLE_AXES == 2
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 unused, u64 width, u64 height, u64 stride, u64 padding,
                                                                u64 out_padding, u64 dilation, Info info, const CANDLE_T* image,
                                                                const CANDLE_T* kernel, CANDLE_T* out) {
    Extents from = {info, 0, 4}, weights = {info, 8, 4};
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 unused, u64 width, u64 stride, u64 padding,
                                                                u64 out_padding, u64 dilation, Info info, const CANDLE_T* image,
                                                                const CANDLE_T* kernel, CANDLE_T* out) {
    Extents from = {info, 0, 3}, weights = {info, 6, 3};
    u64 height = 1;
#endif
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    u64 outputs = weights.extent(1);
    if (n >= from.extent(0) * outputs * height * width) return;
    LinearIndex at = {n};
    u64 x = at.take(width), y = at.take(height), o = at.take(outputs), b = at.rest;
    typedef Wide<CANDLE_T>::type W;
    W sum = (W)0;
    for (u64 kx = 0; kx < weights.extent(CANDLE_AXES + 1); ++kx) {
        u64 j, i = 0;
        if (!source_of(x, kx, stride, padding, dilation, from.extent(CANDLE_AXES + 1), &j)) continue;
#if CANDLE_AXES == 2
        for (u64 ky = 0; ky < weights.extent(2); ++ky) {
            if (!source_of(y, ky, stride, padding, dilation, from.extent(2), &i)) continue;
            const CANDLE_T* image_at = image + b * from.stride(0) + i * from.stride(2) + j * from.stride(3);
            const CANDLE_T* weight_at = kernel + o * weights.stride(1) + ky * weights.stride(2) + kx * weights.stride(3);
#else
        {
            const CANDLE_T* image_at = image + b * from.stride(0) + j * from.stride(2);
            const CANDLE_T* weight_at = kernel + o * weights.stride(1) + kx * weights.stride(2);
#endif
            for (u64 c = 0; c < from.extent(1); ++c) {
                W weight = Wide<CANDLE_T>::of(weight_at[c * weights.stride(0)]);
                sum = (W)(sum + (W)(Wide<CANDLE_T>::of(image_at[c * from.stride(1)]) * weight));
            }
        }
    }
    out[n] = cast<CANDLE_T>(sum);
}
