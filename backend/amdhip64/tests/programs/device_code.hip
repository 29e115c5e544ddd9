// What device code takes from C and C++: <cmath> before and after HIP's header, memory functions, malloc, assert, printf.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <hip/hip_runtime.h>

__noinline__ __device__ float twice(float x) { return 2.0f * x; }

__global__ void functions(float *out) {
    float x = 0.5f + 0.25f * threadIdx.x;
    out += threadIdx.x;
    float y[] = {std::sqrt(x), std::exp(-x), sinf(x),        powf(x, 1.5f),  erff(x),    std::fmod(x, 0.75f),
                 std::fabs(-x), twice(x),     tgammaf(x + 1), lgammaf(x + 1), cbrtf(x),   std::isnan(x) ? 1.0f : 0.0f,
                 expm1f(x),     erfcf(x),     sinpif(x),      nearbyintf(x),  fdimf(x, 1), remainderf(x, 0.7f)};
    for (float each : y) *out = each, out += 64;
}
static double on_host(int row, double x) {
    switch (row) {
        case 0: return std::sqrt(x);
        case 1: return std::exp(-x);
        case 2: return std::sin(x);
        case 3: return std::pow(x, 1.5);
        case 4: return std::erf(x);
        case 5: return std::fmod(x, 0.75);
        case 6: return x;
        case 7: return 2 * x;
        case 8: return std::tgamma(x + 1);
        case 9: return std::lgamma(x + 1);
        case 10: return std::cbrt(x);
        case 11: return 0;
        case 12: return std::expm1(x);
        case 13: return std::erfc(x);
        case 14: return std::sin(M_PI * x);
        case 15: return std::nearbyint(x);
        case 16: return std::fdim(x, 1);
        default: return std::remainder(x, (double)0.7f);
    }
}

__global__ void memory(unsigned char *bytes, int *lists) {
    unsigned char *mine = bytes + 32 * threadIdx.x;
    memset(mine, threadIdx.x, 32);
    memcpy(mine + 16, mine, 8);
    mine[0] = 0xff;
    // A list of its own for each thread, twice, so that the second is made of what the first gave back.
    for (int round = 0; round < 2; ++round) {
        int *list = (int *)malloc(16 * sizeof(int));
        for (int i = 0; i < 16; ++i) list[i] = threadIdx.x * i;
        lists[threadIdx.x] = list[15];
        free(list);
    }
}

__global__ void tell(int limit) {
    if (threadIdx.x < 2) printf("thread %u of %s: %5.2f|%-4d|%#x\n", threadIdx.x, "tell", threadIdx.x + 0.5, 7, 255u);
    assert(threadIdx.x < limit);
}

__global__ void extract(const unsigned *in, unsigned *out) {
    out[threadIdx.x] = __bitextract_u32(in[threadIdx.x], 8, 4) + 16 * __popc(in[threadIdx.x]);
}

static void report(const char *name, bool good) { printf("%s: %s\n", name, good ? "ok" : "WRONG"); }

int main() {
    float *out;
    const int rows = 18;
    if (hipHostMalloc(&out, rows * 64 * sizeof(float), hipHostMallocMapped) != hipSuccess) return 1;
    functions<<<1, 64>>>(out);
    bool good = hipDeviceSynchronize() == hipSuccess;
    for (int row = 0; row < rows; ++row) {
        for (int i = 0; i < 64; ++i) {
            double want = on_host(row, 0.5 + 0.25 * i), got = out[row * 64 + i];
            if (std::fabs(got - want) > 1e-6 * std::fmax(1.0, std::fabs(want))) {
                printf("row %d of %d: %g, not %g\n", row, i, got, want);
                good = false;
            }
        }
    }
    report("functions", good);

    unsigned char *bytes;
    int *lists;
    hipHostMalloc(&bytes, 64 * 32);
    hipHostMalloc(&lists, 64 * sizeof(int));
    memory<<<1, 64>>>(bytes, lists);
    good = hipDeviceSynchronize() == hipSuccess;
    for (int i = 0; i < 64; ++i) {
        good = good && bytes[32 * i] == 0xff && bytes[32 * i + 31] == i && bytes[32 * i + 16] == i && lists[i] == 15 * i;
    }
    report("memory", good);

    unsigned *in = (unsigned *)bytes, *bits = (unsigned *)lists;
    for (int i = 0; i < 64; ++i) in[i] = i * 0x01010101u;
    extract<<<1, 64>>>(in, bits);
    good = hipDeviceSynchronize() == hipSuccess;
    for (unsigned i = 0; i < 64; ++i) good = good && bits[i] == (i & 15) + 64 * (unsigned)__builtin_popcount(i);
    report("bits", good);
    fflush(stdout);

    tell<<<1, 64>>>(64);
    report("a true assertion", hipDeviceSynchronize() == hipSuccess);
    fflush(stdout);
    tell<<<1, 64>>>(63);
    report("a false one", hipDeviceSynchronize() == hipErrorAssert);
}
