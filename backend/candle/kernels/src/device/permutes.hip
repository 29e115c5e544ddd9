// permutes: several copies of strided elements in one launch.
//
//   out[n] = x[where n is]
//
// Shapes : each x of any strides; out dense
// Grid   : (the sum of ceil(count / (256 * CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Needs  : no member writes what another reads or writes                  checked by whoever merges them
//
// Macros : CANDLE_NAME; CANDLE_T, an unsigned type of the element's size; CANDLE_V elements per lane; CANDLE_SEVERAL members at most
struct PermuteMember {
    u64 count, axes;
    const CANDLE_T* x;
    CANDLE_T* out;
    u64 first;  // its first workgroup
    Info info;
};
struct Permutes { u64 count; PermuteMember member[CANDLE_SEVERAL]; };

struct Permute {
    const PermuteMember& m;
    RF_FN void run(u32 n) const { strided_run(n); }
    RF_FN void strided_run(u32 n) const {
        CANDLE_T values[CANDLE_V];
        load_strided<CANDLE_V>(m.info, (u32)m.axes, 1, m.x, n, values);
        store_run<CANDLE_V>(m.out + n, values);
    }
    RF_FN void dense(u32 n) const { strided(n); }
    RF_FN void strided(u32 n) const { m.out[n] = m.x[offset_of(m.info, (u32)m.axes, 1, n)]; }
};
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT Permutes a) {
    u32 at = 0;
    while (at + 1 < a.count && (u32)a.member[at + 1].first <= group_x()) ++at;
    Permute f = {a.member[at]};
    bool aligned = is_aligned<CANDLE_T, CANDLE_V>(f.m.x) && is_aligned<CANDLE_T, CANDLE_V>(f.m.out);
    u32 walk = has_runs<CANDLE_V>(f.m.info, (u32)f.m.axes, 1) ? CANDLE_RUNS : CANDLE_STRIDED;
    each_of_group<CANDLE_V>(group_x() - (u32)f.m.first, f.m.count, walk, aligned, f);
}
