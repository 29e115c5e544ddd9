// Conversions by each way of rounding, products of parts of words, lanes' own instructions, and what programs have as macros
// of their own before they include anything.
#define N 7
#define M 8
#define K 9
#define PI 3
#define SIZE 10
#define pi 4
#include <hip/hip_bf16.h>
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp8.h>
#include <hip/hip_math_constants.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>

#define LENGTH(list) ((int)(sizeof(list) / sizeof(list[0])))

// A program's own where AMD's headers have none.
static __device__ __hip_bfloat162 __float2bfloat162_rn(float x) { return {__float2bfloat16(x), __float2bfloat16(x)}; }

struct Rounded {
    float of_double[3], of_int[3], of_uint[3], of_ll[3], of_ull[3];
    double exact_of_ll[3], exact_of_ull[3];
};
#define EACH(name, x) {name##_rd(x), name##_ru(x), name##_rz(x)}
__global__ void round_all(const double *reals, const long long *wholes, Rounded *out) {
    double real = reals[threadIdx.x];
    long long whole = wholes[threadIdx.x];
    unsigned long long size = (unsigned long long)whole;
    out[threadIdx.x] = {EACH(__double2float, real), EACH(__int2float, (int)whole),  EACH(__uint2float, (unsigned)size),
                        EACH(__ll2float, whole),    EACH(__ull2float, size),        EACH(__ll2double, whole),
                        EACH(__ull2double, size)};
}

// An 80-bit number holds every value that is rounded here.
template <typename F>
static bool right(const F *got, long double exact) {
    F nearest = (F)exact, below = nearest, above = nearest;
    if ((long double)nearest > exact) below = std::nextafter(nearest, -(F)INFINITY);
    if ((long double)nearest < exact) above = std::nextafter(nearest, (F)INFINITY);
    F cut = exact < 0 ? above : below;
    return got[0] == below && got[1] == above && got[2] == cut;
}

static bool rounding() {
    const double reals[] = {0.1, -0.1, 1.0, -2.5, 1e300, -1e300, 1e-310, -1e-310, 16777217.0, -16777219.0, 3.5e38, 0.0};
    const long long wholes[] = {0,           1,           -1,          16777217,     -16777219,          2147483647,
                                -2147483648, 33554435,    0x7fffffffffffffff, -0x7fffffffffffffff, 1ll << 62, -(1ll << 53) - 1};
    static_assert(LENGTH(reals) == LENGTH(wholes), "one thread for each pair");
    const int count = LENGTH(reals);
    double *device_reals;
    long long *device_wholes;
    Rounded *out;
    if (hipHostMalloc(&device_reals, sizeof(reals)) != hipSuccess) return false;
    if (hipHostMalloc(&device_wholes, sizeof(wholes)) != hipSuccess) return false;
    if (hipHostMalloc(&out, count * sizeof(Rounded)) != hipSuccess) return false;
    for (int i = 0; i < count; ++i) device_reals[i] = reals[i], device_wholes[i] = wholes[i];
    round_all<<<1, count>>>(device_reals, device_wholes, out);
    bool good = hipDeviceSynchronize() == hipSuccess;
    for (int i = 0; i < count; ++i) {
        const Rounded &r = out[i];
        bool all = right(r.of_double, reals[i]) && right(r.of_int, (int)wholes[i]) && right(r.of_uint, (unsigned)wholes[i]) &&
                   right(r.of_ll, wholes[i]) && right(r.of_ull, (unsigned long long)wholes[i]) &&
                   right(r.exact_of_ll, wholes[i]) && right(r.exact_of_ull, (unsigned long long)wholes[i]);
        if (!all) printf("row %d\n", i);
        good = good && all;
    }
    return good;
}

__global__ void dot_all(int *out) {
    out[0] = amd_mixed_dot(short2{300, -2}, short2{-4, 5}, 1000, false);
    out[1] = amd_mixed_dot(char4{127, -128, 3, 4}, char4{127, 127, -5, 6}, 2, false);
    out[2] = amd_mixed_dot(uchar4{255, 255, 1, 0}, uchar4{255, 255, 2, 9}, 7u, false);
    // Nibbles 1, -1, 7, -8 of either.
    out[3] = amd_mixed_dot((int)0x87f1, (int)0x87f1, 0, false);
    out[4] = amd_mixed_dot(short2{-32768, -32768}, short2{-32768, -32768}, 1, true);
    out[5] = (int)amd_mixed_dot(0xffffffffu, 0xffffffffu, 0xffffffffu, true);
    out[6] = __fns(0xf0f0u, 0, 6);
    __half2 sum = __hfma2_sat(__half2(__half(0.5f), __half(-1.0f)), __half2(__half(4.0f)), __half2(__half(0.25f)));
    out[7] = __low2float(sum) == 1.0f && __high2float(sum) == 0.0f;
    // Infinity, of whose saturation an instruction decides where there is one.
#if defined(__gfx942__)
    const __hip_fp8_interpretation_t kind = __HIP_E4M3_FNUZ;
    int infinity = __builtin_amdgcn_cvt_pk_fp8_f32(-INFINITY, 0.0f, 0, false) & 255;
#elif defined(__gfx950__) || defined(__gfx1201__)
    const __hip_fp8_interpretation_t kind = __HIP_E4M3;
    int infinity = __builtin_amdgcn_cvt_pk_fp8_f32(-INFINITY, 0.0f, 0, false) & 255;
#else
    const __hip_fp8_interpretation_t kind = __HIP_E4M3;
    int infinity = 0xfe;
#endif
    out[9] = __hip_cvt_float_to_fp8(-INFINITY, __HIP_SATFINITE, kind) == infinity;
    out[8] = __half2int_rn(__int2half_rz(70000)) == 65504 && __half2int_rn(__int2half_rd(2049)) == 2048 &&
             __half2int_rn(__int2half_ru(2049)) == 2050;
}
static bool dots() {
    const int expected[] = {-210, 16129 - 16256 - 15 + 24 + 2, 130059, 115, 2147483647, -1, 13, 1, 1, 1};
    int *out;
    if (hipHostMalloc(&out, sizeof(expected)) != hipSuccess) return false;
    dot_all<<<1, 1>>>(out);
    bool good = hipDeviceSynchronize() == hipSuccess;
    for (int i = 0; i < LENGTH(expected); ++i) {
        if (out[i] != expected[i]) printf("product %d is %d, not %d\n", i, out[i], expected[i]);
        good = good && out[i] == expected[i];
    }
    return good;
}

__global__ void lanes_all(int *out) {
    int lane = threadIdx.x, mirrored = 31 - lane;
    out[lane] = __hip_ds_bpermute(mirrored * 4, lane);
    out[32 + lane] = __hip_ds_permute(((lane + 1) & 31) * 4, lane);
    // Each of two neighbours gets the other's: bits that are kept, set and turned around.
    out[64 + lane] = __hip_ds_swizzle(lane, 0x041f);
    // The same by control 0xb1: lanes 1, 0, 3, 2 of every four.
    out[96 + lane] = __hip_move_dpp(lane, 0xb1, 0xf, 0xf, true);
    out[128 + lane] = (int)__mbcnt_lo(0x0f0f0f0fu, 5u);
    out[160 + lane] = (int)(__hip_ds_bpermutef(mirrored * 4, lane + 0.5f) * 2.0f);
}
static bool lanes() {
    int *out;
    if (hipHostMalloc(&out, 192 * sizeof(int)) != hipSuccess) return false;
    lanes_all<<<1, 32>>>(out);
    bool good = hipDeviceSynchronize() == hipSuccess;
    for (int i = 0; i < 32; ++i) {
        int below = __builtin_popcount(0x0f0f0f0fu & ((1u << i) - 1));
        good = good && out[i] == 31 - i && out[32 + i] == ((i + 31) & 31) && out[64 + i] == (i ^ 1) &&
               out[96 + i] == (i ^ 1) && out[128 + i] == 5 + below && out[160 + i] == 2 * (31 - i) + 1;
    }
    return good;
}

__global__ void collect(float *most, double *least, unsigned long long *cell, float *of_pair) {
    unsafeAtomicMax(most, (float)threadIdx.x);
    safeAtomicMin(least, -(double)threadIdx.x);
    // What is compared and stored converts to the type of the place.
    atomicCAS(cell, 0, (long long)threadIdx.x + 1);
    *of_pair = __bfloat162float(__float2bfloat162_rn(1.5f).y);
}
static bool atomics() {
    struct Cells {
        double least;
        unsigned long long cell;
        float most, of_pair;
    } *cells;
    if (hipHostMalloc(&cells, sizeof(Cells)) != hipSuccess) return false;
    *cells = {0, 0, 0, 0};
    collect<<<1, 64>>>(&cells->most, &cells->least, &cells->cell, &cells->of_pair);
    bool good = hipDeviceSynchronize() == hipSuccess;
    return good && cells->most == 63.0f && cells->least == -63.0 && cells->cell >= 1 && cells->cell <= 64 &&
           cells->of_pair == 1.5f;
}

static bool numbers_of_eight_bits() {
    __hip_fp8x4_e4m3_fnuz four(__half2(__half(1.0f), __half(-2.0f)), __half2(__half(0.5f), __half(448.0f)));
    float4 values = four;
    __hip_fp8x2_storage_t two = __hip_cvt_double2_to_fp8x2(make_double2(3.0, -0.75), __HIP_SATFINITE, __HIP_E4M3);
    __half2_raw pair = __hip_cvt_fp8x2_to_halfraw2(two, __HIP_E4M3);
    __hip_fp8_e5m2 whole = 12;
    return values.x == 1.0f && values.y == -2.0f && values.z == 0.5f && values.w == 240.0f && pair.x == 0x4200 &&
           pair.y == 0xba00 && (float)whole == 12.0f;
}

// A kernel whose LDS grows with its workgroup, and copies that a struct describes.
__global__ void with_lds(int *out) {
    extern __shared__ int words[];
    words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}
static bool described() {
    int grid = 0, block = 0;
    // 128 bytes for each thread: most devices' LDS holds fewer than the largest workgroup.
    auto bytes_of = [](int threads) { return (size_t)threads * 128; };
    bool good = hipOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, with_lds, bytes_of) == hipSuccess;
    int lds_bytes = 0;
    good = good && hipDeviceGetAttribute(&lds_bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, 0) == hipSuccess;
    good = good && block > 0 && block <= lds_bytes / 128 && grid > 0;
    int from[4][8], to[4][8] = {};
    for (int i = 0; i < 32; ++i) from[i / 8][i % 8] = i;
    hipPitchedPtr device;
    if (hipMalloc3D(&device, make_hipExtent(8 * sizeof(int), 2, 2)) != hipSuccess) return false;
    hipMemcpy3DParms in = {};
    in.srcPtr = make_hipPitchedPtr(from, 8 * sizeof(int), 8 * sizeof(int), 2);
    in.dstPtr = device;
    in.extent = make_hipExtent(8 * sizeof(int), 2, 2);
    in.kind = hipMemcpyHostToDevice;
    good = good && hipMemcpy3D(&in) == hipSuccess;
    hip_Memcpy2D out = {};
    out.srcMemoryType = hipMemoryTypeDevice;
    out.srcDevice = (char *)device.ptr + 2 * device.pitch;
    out.srcPitch = device.pitch;
    out.dstMemoryType = hipMemoryTypeHost;
    out.dstHost = to;
    out.dstPitch = sizeof(to[0]);
    out.WidthInBytes = sizeof(to[0]);
    out.Height = 2;
    good = good && hipMemcpyParam2D(&out) == hipSuccess;
    return good && to[0][0] == 16 && to[1][7] == 31 && to[2][0] == 0;
}

static void report(const char *name, bool good) { printf("%s: %s\n", name, good ? "ok" : "WRONG"); }

int main() {
    report("rounding", rounding());
    report("products of parts", dots());
    report("lanes", lanes());
    report("atomics", atomics());
    report("numbers of eight bits", numbers_of_eight_bits());
    report("copies and LDS that structs and functions describe", described());
    report("constants", HIP_PI > 3.14159 && HIP_PI < 3.1416 && HIP_SQRT_TWO_F == 1.41421356f);
}
