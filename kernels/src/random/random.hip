// random: out[e] = a draw that is a function of (seed, offset, e) alone
//
// Shapes : out [count], contiguous
// Grid   : (ceil(blocks / 256), 1, 1)           one lane per Philox block of PER elements
// Block  : (256, 1, 1)
// Numeric: element e takes word e % PER of the block with counter (e / PER, offset) under key seed; types of 64 bits take
//          two words (PER = 2), others one (PER = 4).
//   uniform   : low + u * (high - low), u in [0, 1) of 24 bits (53 for f64); a value that rounds up to high becomes low.
//               Integers: low + floor(range * word / 2^32), 64 bits alike.
//   normal    : mean + deviation * z, z by Box and Muller from the words pair by pair; integers are truncated
//   bernoulli : word < threshold, PER = 4 for every type
//
// Macros : RANDOM_TYPE; RANDOM_KIND: 0 uniform, 1 normal, 2 bernoulli; RANDOM_CLASS: 0 float, 1 double, 2 integer of at
//          most 32 bits, 3 integer of 64 bits
using namespace rf;

#define PER ((RANDOM_CLASS & 1) && RANDOM_KIND != 2 ? 2 : 4)

struct RandomArgs {
    RANDOM_TYPE* out;
    u64 seed, offset, count, first_block;
    double a, b;  // low and high, or mean and deviation
    i64 low;
    u64 range;      // of integers
    u64 threshold;  // probability * 2^32
    const u64* replay;  // of a recorded launch: what its graph adds to the offset; else null
};
static_assert(sizeof(RandomArgs) == 88, "as in random.rs");

#if RANDOM_KIND == 0 && RANDOM_CLASS == 0
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    float low = (float)g.a, high = (float)g.b;
    for (int i = 0; i < PER; ++i) {
        RANDOM_TYPE value = cast<RANDOM_TYPE>(rf::fma(unit_f32(p.word[i]), high - low, low));
        to[i] = cast<float>(value) < high ? value : cast<RANDOM_TYPE>(low);
    }
}
#elif RANDOM_KIND == 0 && RANDOM_CLASS == 1
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    for (int i = 0; i < PER; ++i) {
        double value = rf::fma(unit_f64(p.word[2 * i], p.word[2 * i + 1]), g.b - g.a, g.a);
        to[i] = value < g.b ? value : g.a;
    }
}
#elif RANDOM_KIND == 0 && RANDOM_CLASS == 2
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    for (int i = 0; i < PER; ++i) to[i] = (RANDOM_TYPE)(g.low + (i64)((g.range * p.word[i]) >> 32));
}
#elif RANDOM_KIND == 0
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    for (int i = 0; i < PER; ++i) {
        // The upper half of range * word, both of 64 bits, from half-products.
        u64 range_low = g.range & 0xffffffffull, range_high = g.range >> 32;
        u64 low = range_low * p.word[2 * i], cross = range_high * p.word[2 * i] + (low >> 32);
        u64 other = range_low * p.word[2 * i + 1] + (cross & 0xffffffffull);
        u64 high = range_high * p.word[2 * i + 1] + (cross >> 32) + (other >> 32);
        to[i] = (RANDOM_TYPE)((u64)g.low + high);
    }
}
#elif RANDOM_KIND == 1 && (RANDOM_CLASS & 1)
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    double x, y;
    normal_pair(unit_f64(p.word[0], p.word[1]), unit_f64(p.word[2], p.word[3]), &x, &y);
    to[0] = cast<RANDOM_TYPE>(rf::fma(x, g.b, g.a));
    to[1] = cast<RANDOM_TYPE>(rf::fma(y, g.b, g.a));
}
#elif RANDOM_KIND == 1
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    for (int i = 0; i < PER; i += 2) {
        float x, y;
        normal_pair(p.word[i], p.word[i + 1], &x, &y);
        to[i] = cast<RANDOM_TYPE>(rf::fma(x, (float)g.b, (float)g.a));
        to[i + 1] = cast<RANDOM_TYPE>(rf::fma(y, (float)g.b, (float)g.a));
    }
}
#else
RF_FN void draw(const RandomArgs& g, Philox p, RANDOM_TYPE* to) {
    for (int i = 0; i < PER; ++i) to[i] = cast<RANDOM_TYPE>((i32)(p.word[i] < g.threshold ? 1 : 0));
}
#endif

extern "C" __global__ __launch_bounds__(256) void random_fill(RandomArgs g) {
    u64 block = g.first_block + (u64)group_x() * 256 + thread_x(), first = block * PER;
    if (first >= g.count) return;
    RANDOM_TYPE drawn[PER];
    u64 offset = g.replay ? g.offset + *g.replay : g.offset;
    draw(g, philox(block, offset, g.seed), drawn);
    RANDOM_TYPE* to = g.out + first;
#pragma unroll
    for (int i = 0; i < PER; ++i)
        if (first + i < g.count) to[i] = drawn[i];
}
