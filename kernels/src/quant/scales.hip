// block_peaks: peak[block] = numerator * max |x| over a block / denominator, `zero` where that is 0
// store_scales: scale[i] = valid(peak[i] / denominator / divisor), in the type of the scales
//
// Shapes : x any, any strides, cut into blocks of one shape (those at the end may be cut off); peaks, scales [blocks]
// Grid   : block_peaks (ceil(blocks * LANES / 256), 1, 1)   PEAKS_LANES lanes per block
//          store_scales (ceil(count / 256), 1, 1)           one lane per scale
// Block  : (256, 1, 1)
// Needs  : blocks, and elements of a block, < 2^31; PEAKS_LANES a power of two, at most a wave       checked by the launcher
// Numeric: in f32; a NaN among the elements is passed over, or makes the peak NaN where `nan` is set
//
// Macros : PEAKS_X, the elements; PEAKS_LANES
using namespace rf;

struct PeaksArgs {
    const PEAKS_X* x;
    float* peaks;
    i64 strides[RF_CODE_AXES];
    u32 extents[RF_CODE_AXES];
    FastDiv grid[RF_CODE_AXES], block[RF_CODE_AXES];
    u32 axes, blocks, elements;
    float numerator, denominator, zero;
    u32 nan, padding;
};
static_assert(sizeof(PeaksArgs) == 336, "as in scales.rs");

extern "C" __global__ __launch_bounds__(256) void block_peaks(PeaksArgs g) {
    u32 n = group_x() * (256 / PEAKS_LANES) + thread_x() / PEAKS_LANES;
    bool mine = n < g.blocks;
    u32 start[RF_CODE_AXES];
    u32 rest = mine ? n : 0;
#pragma unroll
    for (int axis = RF_CODE_AXES - 1; axis >= 0; --axis) {
        start[axis] = 0;
        if (axis >= (int)g.axes) continue;
        u32 outer = g.grid[axis].divide(rest);
        start[axis] = (rest - outer * g.grid[axis].divisor) * g.block[axis].divisor;
        rest = outer;
    }
    float peak = 0.0f;
    for (u32 element = thread_x() % PEAKS_LANES; element < g.elements; element += PEAKS_LANES) {
        u32 left = element;
        i64 at = 0;
        bool inside = true;
#pragma unroll
        for (int axis = RF_CODE_AXES - 1; axis >= 0; --axis) {
            if (axis >= (int)g.axes) continue;
            u32 outer = g.block[axis].divide(left);
            u32 coordinate = start[axis] + left - outer * g.block[axis].divisor;
            left = outer;
            inside = inside && coordinate < g.extents[axis];
            at += coordinate * g.strides[axis];
        }
        float size = inside ? __builtin_fabsf(cast<float>(g.x[at])) : 0.0f;
        peak = size > peak || (g.nan && size != size) ? size : peak;
    }
    for (u32 distance = PEAKS_LANES / 2; distance > 0; distance /= 2) {
        float other = shuffle_xor(peak, distance);
        peak = other > peak || (g.nan && other != other) ? other : peak;
    }
    float scale = g.numerator * peak / g.denominator;
    if (mine && thread_x() % PEAKS_LANES == 0) g.peaks[n] = scale == 0.0f ? g.zero : scale;
}

struct StoreScalesArgs {
    const float* peaks;
    void* scales;
    const float* divisor;  // null: 1
    float denominator;
    u32 count, kind, padding;
};
static_assert(sizeof(StoreScalesArgs) == 40, "as in scales.rs");

extern "C" __global__ __launch_bounds__(256) void store_scales(StoreScalesArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    float scale = g.peaks[n] / g.denominator;
    if (g.divisor) scale = scale / *g.divisor;
    write_scale(g.scales, n, valid_scale(scale, g.kind), g.kind);
}
