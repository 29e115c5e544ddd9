// rng.h: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter
// and a key give four random words, so that an element's value depends on its index alone and not on who computes it.
#ifndef ROCFIRE_RNG_H
#define ROCFIRE_RNG_H
namespace rf {

struct Philox { u32 word[4]; };

// The block of four words for `counter` under `key`; ten rounds, which is what the paper's tests were passed with.
RF_FN Philox philox(u64 counter_low, u64 counter_high, u64 key) {
    u32 c0 = (u32)counter_low, c1 = (u32)(counter_low >> 32), c2 = (u32)counter_high, c3 = (u32)(counter_high >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u64 p0 = (u64)0xd2511f53u * c0, p1 = (u64)0xcd9e8d57u * c2;
        u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1 = (u32)p1;
        c3 = (u32)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;  // the golden ratio
        k1 += 0xbb67ae85u;  // sqrt(3) - 1
    }
    Philox out = {{c0, c1, c2, c3}};
    return out;
}

// Uniform in [0, 1): the top bits, as many as the mantissa holds, so that every value is exact and 1 never occurs.
RF_FN float unit_f32(u32 word) { return (float)(word >> 8) * 0x1p-24f; }
RF_FN double unit_f64(u32 low, u32 high) { return (double)((((u64)high << 32) | low) >> 11) * 0x1p-53; }

// Two independent standard normal values from two words (Box and Muller). The radius takes its uniform from (0, 1].
RF_FN void normal_pair(u32 a, u32 b, float* x, float* y) {
    float radius = sqrt(-2.0f * log((float)(a >> 8) * 0x1p-24f + 0x1p-24f));
    float angle = (float)(b >> 8) * (0x1p-24f * 6.28318530717958647692f);
    float s, c;
    sincos(angle, &s, &c);
    *x = radius * c;
    *y = radius * s;
}
RF_FN void normal_pair(double a, double b, double* x, double* y) {
    double radius = sqrt(-2.0 * log(1.0 - a));
    double s, c;
    sincos(b * 6.28318530717958647692, &s, &c);
    *x = radius * c;
    *y = radius * s;
}

}  // namespace rf
#endif
