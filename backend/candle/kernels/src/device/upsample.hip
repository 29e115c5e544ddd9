// upsample: images of another size.
//
//   nearest   out[b, c, i, j] = image[b, c, i · scale_first, j · scale_second], rounded down, within the image
//   bilinear  between the four neighbours of the place in the image that (i, j) stands for
//
// Shapes : image [b, c, first, second] through info, any strides; out dense
// Grid   : (ceil(count / 256), 1, 1)     Block : (256, 1, 1)          one lane per element of out
// Numeric: places and weights in f64; bilinear values in f64, one rounding at the store
//
// Macros : CANDLE_NAME; type CANDLE_T; CANDLE_BILINEAR 0 or 1
#ifndef CANDLE_UPSAMPLE_H
#define CANDLE_UPSAMPLE_H
// Two neighbours along an axis and how much the second one counts.
struct Neighbours { u64 low, high; double weight; };
RF_FN Neighbours neighbours(u64 to, u64 in, u64 out, bool align, bool given, double factor) {
    double scale = given ? 1.0 / factor : (double)in / (double)out, at;
    if (align) at = out > 1 ? (double)to * ((double)(in - 1) / (double)(out - 1)) : 0.0;
    else at = scale * ((double)to + 0.5) - 0.5;
    at = at > 0.0 ? at : 0.0;
    Neighbours n;
    // A factor smaller than the real one leads beyond the image, whose last row then stands for the rest.
    n.low = (u64)at < in - 1 ? (u64)at : in - 1;
    n.high = n.low + 1 < in - 1 ? n.low + 1 : in - 1;
    n.weight = at - (double)n.low;
    n.weight = n.weight < 1.0 ? n.weight : 1.0;
    return n;
}
#endif

#if CANDLE_BILINEAR
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 width, u64 height, u8 align, u8 given_first, double factor_first,
                                                                u8 given_second, double factor_second, Info info, const CANDLE_T* image, CANDLE_T* out) {
    u64 firsts = height, seconds = width;
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 firsts, u64 seconds, double scale_first, double scale_second,
                                                                Info info, const CANDLE_T* image, CANDLE_T* out) {
#endif
    Extents from = {info, 0, 4};
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    if (n >= from.extent(0) * from.extent(1) * firsts * seconds) return;
    Place place = {n};
    u64 second = place.take(seconds), first = place.take(firsts), c = place.take(from.extent(1)), b = place.rest;
    const CANDLE_T* plane = image + b * from.stride(0) + c * from.stride(1);
#if CANDLE_BILINEAR
    Neighbours i = neighbours(first, from.extent(2), firsts, align, given_first, factor_first);
    Neighbours j = neighbours(second, from.extent(3), seconds, align, given_second, factor_second);
    const CANDLE_T *top = plane + i.low * from.stride(2), *bottom = plane + i.high * from.stride(2);
    u64 left = j.low * from.stride(3), right = j.high * from.stride(3);
    double above = (double)Wide<CANDLE_T>::of(top[left]) * (1.0 - j.weight) + (double)Wide<CANDLE_T>::of(top[right]) * j.weight;
    double below = (double)Wide<CANDLE_T>::of(bottom[left]) * (1.0 - j.weight) + (double)Wide<CANDLE_T>::of(bottom[right]) * j.weight;
    out[n] = cast<CANDLE_T>(above * (1.0 - i.weight) + below * i.weight);
#else
    u64 i = (u64)((double)first * scale_first), j = (u64)((double)second * scale_second);
    i = i < from.extent(2) ? i : from.extent(2) - 1;
    j = j < from.extent(3) ? j : from.extent(3) - 1;
    out[n] = plane[i * from.stride(2) + j * from.stride(3)];
#endif
}
