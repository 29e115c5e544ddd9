// scale_f32: y[i] = x[i] * factor for i < count.   out_of_bounds_f32: the same, but writes `count` elements past the end.
// Grid: ceil(count / SCALE_BLOCK); block: SCALE_BLOCK. For the runtime's own tests.
#if !defined(SCALE_BLOCK)
#define SCALE_BLOCK 256
#endif

struct ScaleArgs {
    const float* x;
    float* y;
    rf::u32 count;
    float factor;
};
static_assert(sizeof(ScaleArgs) == 24, "as in the tests");

extern "C" __global__ __launch_bounds__(SCALE_BLOCK) void scale_f32(ScaleArgs a) {
    rf::u32 i = rf::group_x() * SCALE_BLOCK + rf::thread_x();
    if (i < a.count) a.y[i] = a.x[i] * a.factor;
}

extern "C" __global__ __launch_bounds__(SCALE_BLOCK) void out_of_bounds_f32(ScaleArgs a) {
    rf::u32 i = rf::group_x() * SCALE_BLOCK + rf::thread_x();
    if (i < a.count) a.y[i + a.count] = a.x[i] * a.factor;
}
