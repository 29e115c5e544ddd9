// im2col: the elements under each place of a window, side by side, zeros where it reaches beyond the image.
//
//   2 axes  out[b, y, x, c, ky, kx] = image[b, c, y·stride + ky·dilation - padding, x·stride + kx·dilation - padding]
//   1 axis  out[b, l, c, k] = image[b, c, l·stride + k·dilation - padding]
//
// Shapes : image [b, c, h, w] or [b, c, l] through info, any strides; out dense
// Grid   : (ceil(count / 256), 1, 1)     Block : (256, 1, 1)     one lane per element of out; of 1 axis, per window row of k
//
// Macros : CANDLE_NAME; type CANDLE_T (only moved); CANDLE_AXES 1 or 2
#if CANDLE_AXES == 2
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 count, u64 height, u64 width, u64 kernel_height,
                                                                u64 kernel_width, u64 stride, u64 padding, u64 dilation,
                                                                Info info, const CANDLE_T* image, CANDLE_T* out) {
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    if (n >= count) return;
    Extents from = {info, 0, 4};
    Place place = {n};
    u64 kx = place.take(kernel_width), ky = place.take(kernel_height), c = place.take(from.extent(1));
    u64 x = place.take(width), y = place.take(height), b = place.rest;
    // Above and left of the image the difference wraps to something larger than any extent.
    y = y * stride + ky * dilation - padding;
    x = x * stride + kx * dilation - padding;
    bool inside = y < from.extent(2) && x < from.extent(3);
    u64 at = b * from.stride(0) + c * from.stride(1) + y * from.stride(2) + x * from.stride(3);
    out[n] = inside ? image[at] : (CANDLE_T)0;
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 length, u64 kernel, u64 stride, u64 padding, u64 dilation, Info info, const CANDLE_T* image, CANDLE_T* out) {
    u32 n = group_x() * CANDLE_BLOCK + thread_x();
    if (n >= count) return;
    Extents from = {info, 0, 3};
    Place place = {n};
    u64 c = place.take(from.extent(1)), l = place.take(length), b = place.rest;
    for (u64 k = 0; k < kernel; ++k) {
        u64 x = l * stride + k * dilation - padding;
        out[(u64)n * kernel + k] = x < from.extent(2) ? image[b * from.stride(0) + c * from.stride(1) + x * from.stride(2)] : (CANDLE_T)0;
    }
}
#endif
