//! Ordinary HIP, a row for each expression: what users' kernels are made of, with what it must give. Burn's and Candle's tests
//! run all rows as one kernel, each through its own door.

/// Threads of the one workgroup: a wave of 64, or two of 32.
pub const THREADS: usize = 64;

/// A thread that evaluates a row.
#[derive(Clone, Copy)]
pub struct Thread {
    /// Its number.
    pub i: usize,
    /// Lanes of its wave.
    pub wave: usize,
}

impl Thread {
    /// Its value of `x`.
    fn x(self) -> f64 {
        x(self.i)
    }

    /// Its lane.
    fn lane(self) -> usize {
        self.i % self.wave
    }

    /// The `x` of another lane of its wave.
    fn of(self, lane: usize) -> f64 {
        x(self.i - self.lane() + lane)
    }
}

/// The `x` of thread `i`: exact in every type of floats that rows use.
pub fn x(i: usize) -> f64 {
    0.25 + i as f64 / 8.0
}

/// An expression over `x` (float), `i` (unsigned), `memory` (unsigned, a zero of the row's own) and `lds` (unsigned, a zero of
/// the row's own), and its value.
pub type Row = (&'static str, fn(Thread) -> f64);

/// All rows.
pub const ROWS: &[Row] = &[
    // Functions of float.
    ("sqrtf(x)", |t| t.x().sqrt()),
    ("rsqrtf(x)", |t| 1.0 / t.x().sqrt()),
    ("expf(-x)", |t| (-t.x()).exp()),
    ("exp2f(x)", |t| t.x().exp2()),
    ("exp10f(x / 8)", |t| 10f64.powf(t.x() / 8.0)),
    ("expm1f(x)", |t| t.x().exp_m1()),
    ("logf(x)", |t| t.x().ln()),
    ("log2f(x)", |t| t.x().log2()),
    ("log10f(x)", |t| t.x().log10()),
    ("log1pf(x)", |t| t.x().ln_1p()),
    ("powf(x, 1.5f)", |t| t.x().powf(1.5)),
    ("sinf(x)", |t| t.x().sin()),
    ("cosf(x)", |t| t.x().cos()),
    ("tanf(x / 8)", |t| (t.x() / 8.0).tan()),
    ("tanhf(x)", |t| t.x().tanh()),
    ("sinhf(x)", |t| t.x().sinh()),
    ("coshf(x)", |t| t.x().cosh()),
    ("asinf(x / 16)", |t| (t.x() / 16.0).asin()),
    ("acosf(x / 16)", |t| (t.x() / 16.0).acos()),
    ("atanf(x)", |t| t.x().atan()),
    ("atan2f(x, 3.0f)", |t| t.x().atan2(3.0)),
    ("cbrtf(x)", |t| t.x().cbrt()),
    ("hypotf(x, 2.0f)", |t| t.x().hypot(2.0)),
    ("fmodf(x, 0.75f)", |t| t.x() % 0.75),
    ("erff(0.0f * x + 0.5f)", |_| 0.5204998778130465),
    ("erfcf(0.0f * x + 0.5f)", |_| 0.4795001221869535),
    ("tgammaf(5.0f + 0.0f * x)", |_| 24.0),
    ("lgammaf(10.0f + 0.0f * x)", |_| 362880f64.ln()),
    ("normcdff(0.0f * x)", |_| 0.5),
    ("erfinvf(0.0f * x + 0.5f)", |_| 0.4769362762044699),
    ("fmaf(x, 2.0f, 1.0f)", |t| t.x() * 2.0 + 1.0),
    ("fmaxf(x, 3.0f)", |t| t.x().max(3.0)),
    ("fminf(x, 3.0f)", |t| t.x().min(3.0)),
    ("fabsf(-x)", |t| t.x()),
    ("floorf(x)", |t| t.x().floor()),
    ("ceilf(x)", |t| t.x().ceil()),
    ("truncf(-x)", |t| (-t.x()).trunc()),
    ("roundf(x)", |t| t.x().round()),
    ("rintf(x)", |t| t.x().round_ties_even()),
    ("copysignf(x, -1.0f)", |t| -t.x()),
    ("__expf(-x)", |t| (-t.x()).exp()),
    ("__logf(x)", |t| t.x().ln()),
    ("__powf(x, 2.0f)", |t| t.x() * t.x()),
    ("__fdividef(x, 4.0f)", |t| t.x() / 4.0),
    ("__saturatef(x)", |t| t.x().min(1.0)),
    ("sqrt(x) + exp(-x) + log(x + 1) + pow(x, 2.0f)", |t| {
        t.x().sqrt() + (-t.x()).exp() + t.x().ln_1p() + t.x() * t.x()
    }),
    // Of double.
    ("sqrt((double)x)", |t| t.x().sqrt()),
    ("exp(-(double)x)", |t| (-t.x()).exp()),
    ("sin((double)x)", |t| t.x().sin()),
    ("pow((double)x, 0.3)", |t| t.x().powf(0.3)),
    ("fma((double)x, 3.0, 1.0)", |t| t.x() * 3.0 + 1.0),
    // Of both and of integers.
    ("max(x, 2.0f) + min(x, 2.0f)", |t| t.x() + 2.0),
    ("max((int)i, 7) - min((int)i, 7)", |t| (t.i as f64 - 7.0).abs()),
    ("abs((int)i - 9)", |t| (t.i as f64 - 9.0).abs()),
    ("isnan(x) + isinf(x) + isfinite(x)", |_| 1.0),
    ("x < INFINITY && !(x < NAN) ? 1 : 0", |_| 1.0),
    // Bits and conversions.
    ("__popc(i)", |t| t.i.count_ones().into()),
    ("__popcll(i | 1ull << 40)", |t| f64::from(t.i.count_ones()) + 1.0),
    ("__clz(i + 1)", |t| (t.i as u32 + 1).leading_zeros().into()),
    ("__ffs((int)i)", |t| if t.i == 0 { 0.0 } else { f64::from(t.i.trailing_zeros()) + 1.0 }),
    ("__brev(i) >> 24", |t| f64::from((t.i as u8).reverse_bits())),
    ("__float_as_uint(x) >> 23", |t| f64::from((t.x() as f32).to_bits() >> 23)),
    ("__uint_as_float(0x3f800000u + 0 * i)", |_| 1.0),
    ("__float2int_rn(x)", |t| t.x().round_ties_even()),
    ("__float2int_rz(x)", |t| t.x().trunc()),
    ("__umulhi(i << 24, 256)", |t| t.i as f64),
    ("__bitextract_u32(i * 16, 4, 3)", |t| (t.i % 8) as f64),
    ("__byte_perm(0x03020100u, i, 0x0004)", |t| t.i as f64),
    // Vectors.
    ("make_float4(x, 1, 2, 3).x + make_float4(x, 1, 2, 3).w", |t| t.x() + 3.0),
    ("make_float2(x, 2).y * make_int3(1, 2, 3).z", |_| 6.0),
    ("make_uint2(i, 1).x + make_uchar4(1, 2, 3, 4).w", |t| t.i as f64 + 4.0),
    ("float4{x, 1, 2, 3}.z + dim3(4, 5).z", |_| 3.0),
    ("sizeof(float3) + sizeof(float4) + alignof(float4) + alignof(double2)", |_| 60.0),
    // Places.
    ("threadIdx.x + blockIdx.x * blockDim.x + gridDim.x", |t| t.i as f64 + 1.0),
    ("hipThreadIdx_x + hipBlockIdx_x * hipBlockDim_x + hipGridDim_x", |t| t.i as f64 + 1.0),
    ("warpSize", |t| t.wave as f64),
    ("__lane_id()", |t| t.lane() as f64),
    // Between lanes.
    ("__shfl(x, 3)", |t| t.of(3)),
    ("__shfl(x, 1, 8)", |t| t.of(t.lane() / 8 * 8 + 1)),
    ("__shfl_xor(x, 1)", |t| t.of(t.lane() ^ 1)),
    ("__shfl_up(x, 2)", |t| if t.lane() < 2 { t.x() } else { t.of(t.lane() - 2) }),
    ("__shfl_down(x, 2)", |t| if t.lane() + 2 >= t.wave { t.x() } else { t.of(t.lane() + 2) }),
    ("__shfl_xor_sync(0xffffffffu, x, 1)", |t| t.of(t.lane() ^ 1)),
    ("__shfl_sync(~0ull, i, 5)", |t| (t.i - t.lane() + 5) as f64),
    ("__shfl((double)x, 7)", |t| t.of(7)),
    ("__popcll(__ballot(i % 4 == 0))", |t| (t.wave / 4) as f64),
    ("__any(x > 1000) + 2 * __all(x > 0)", |_| 2.0),
    ("__popcll(__activemask())", |t| t.wave as f64),
    // Atomics, on memory and on LDS.
    ("(atomicAdd(memory, 1u), __syncthreads(), *memory)", |_| THREADS as f64),
    ("(atomicMax(memory, i), __syncthreads(), *memory)", |_| THREADS as f64 - 1.0),
    ("(atomicOr(memory, 1u << (i & 3)), __syncthreads(), *memory)", |_| 15.0),
    ("(atomicAdd((float*)memory, 0.5f), __syncthreads(), *(float*)memory)", |_| THREADS as f64 / 2.0),
    ("(atomicCAS(memory, 0u, 9u), __syncthreads(), *memory)", |_| 9.0),
    ("(atomicExch(memory, 5u), __syncthreads(), *memory)", |_| 5.0),
    ("(atomicInc(memory, 100u), __syncthreads(), *memory)", |_| THREADS as f64),
    ("(atomicAdd(lds, 2u), __syncthreads(), *lds)", |_| 2.0 * THREADS as f64),
    ("(__threadfence(), __threadfence_block(), __syncthreads_count(i < 5))", |_| 5.0),
    ("clock64() >= 0 && wall_clock64() >= 0 ? 1 : 0", |_| 1.0),
    ("__ldg(&input[i])", |t| t.x()),
    // Numbers of 16 and 8 bits.
    ("__half2float(__float2half(x) * __float2half(2.0f))", |t| t.x() * 2.0),
    ("(float)__hfma(__half(x), __half(2), __half(1)) + __half2float(hsqrt(__half(4.0f)))", |t| t.x() * 2.0 + 3.0),
    ("__low2float(__hadd2(__floats2half2_rn(x, 1), __half2half2(__half(1))))", |t| t.x() + 1.0),
    ("__bfloat162float(__float2bfloat16(x)) + (float)hip_bfloat16(1.0f)", |t| t.x() + 1.0),
    ("__hgt(__float2bfloat16(x), __float2bfloat16(1.0f)) ? 1 : 0", |t| f64::from(t.x() > 1.0)),
    ("(float)__hip_fp8_e4m3(448.0f + x) + (float)__hip_fp8_e5m2_fnuz(-1.75f)", |_| 446.25),
    // Of C's headers.
    ("(int8_t)200 + (uint16_t)70000 + (int)sizeof(size_t) + (int)sizeof(int64_t)", |_| 4424.0),
    ("FLT_MAX > 1e38f && INT_MAX == 2147483647 && UINT32_MAX == ~0u && M_PI > 3.14 ? 1 : 0", |_| 1.0),
    ("std::sqrt(x) + std::fabs(-x)", |t| t.x().sqrt() + t.x()),
    ("(assert(x > 0), x)", |t| t.x()),
    // Groups. A tile of eight neighbours, what lies beyond its ends, and its halves.
    ("eight.shfl(x, 2)", |t| x(t.i / 8 * 8 + 2)),
    ("eight.shfl_down(x, 3)", |t| x(if t.i % 8 < 5 { t.i + 3 } else { t.i })),
    ("eight.shfl_up(x, 3)", |t| x(if t.i % 8 < 3 { t.i } else { t.i - 3 })),
    ("eight.shfl_xor(x, 5)", |t| x(t.i ^ 5)),
    ("(int)eight.ballot(i & 1) + (int)eight.thread_rank() + (int)eight.meta_group_rank() * 1000", |t| {
        (0xaa + t.i % 8 + t.i / 8 * 1000) as f64
    }),
    ("(int)eight.match_any(i & 1)", |t| if t.i % 2 == 1 { 170.0 } else { 85.0 }),
    ("eight.any(i % 8 == 3) + 2 * eight.all(i < 16)", |t| if t.i < 16 { 3.0 } else { 1.0 }),
    (
        "[&] { auto part = groups::binary_partition(eight, i % 8 < 3); return part.size() * 10 + part.thread_rank(); }()",
        |t| (if t.i % 8 < 3 { 30 + t.i % 8 } else { 50 + t.i % 8 - 3 }) as f64,
    ),
    // Lanes that are on, of which the others are off; and tiles whose size is known when it runs.
    (
        "[&] { if (i % 4 != 1) return -1.0f; auto on = groups::coalesced_threads(); return on.shfl_down(x, 1) + on.size(); }()",
        |t| {
            let last = t.lane() + 4 >= t.wave;
            if t.i % 4 == 1 { x(if last { t.i } else { t.i + 4 }) + (t.wave / 4) as f64 } else { -1.0 }
        },
    ),
    ("[&] { auto four = groups::tiled_partition(groups::coalesced_threads(), 4); return four.shfl(x, 1); }()", |t| {
        x(t.i / 4 * 4 + 1)
    }),
    ("groups::tiled_partition(groups::this_thread_block(), 4).thread_rank()", |t| (t.i % 4) as f64),
    ("(groups::this_thread_block().sync(), groups::this_grid().sync(), groups::this_grid().thread_rank())", |t| {
        t.i as f64
    }),
];

/// The source of the kernel `rows(const float* input, unsigned* memory, float* output)`: thread `i` writes row `r` at
/// `output[64 r + i]`, and `memory` holds a zero for each row.
pub fn source() -> String {
    let rows = ROWS.iter().enumerate().map(|(row, (expression, _))| {
        format!("{{ unsigned* memory = all + {row}; unsigned* lds = zeros + {row}; __syncthreads(); output[{row} * {THREADS} + i] = (float)({expression}); }}\n")
    });
    format!(
        "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>\n\
         #include <hip/hip_bfloat16.h>\n#include <hip/hip_fp8.h>\n#include <hip/hip_cooperative_groups.h>\n\
         #include <stdint.h>\n#include <cstddef>\n#include <float.h>\n#include <limits.h>\n#include <cmath>\n#include <cassert>\n\
         extern \"C\" __global__ __launch_bounds__({THREADS}) void rows(const float* __restrict__ input, \
         unsigned* __restrict__ all, float* __restrict__ output) {{\n\
         __shared__ unsigned zeros[{count}];\n\
         unsigned i = threadIdx.x;\n\
         for (unsigned k = i; k < {count}; k += {THREADS}) zeros[k] = 0;\n\
         float x = input[i];\n\
         namespace groups = cooperative_groups;\n\
         auto eight = groups::tiled_partition<8>(groups::this_thread_block());\n{rows}}}\n",
        count = ROWS.len(),
        rows = rows.collect::<String>()
    )
}

/// Compares what the kernel wrote with the table.
pub fn check(output: &[f32], wave: usize) {
    assert_eq!(output.len(), ROWS.len() * THREADS);
    for ((expression, expected), got) in ROWS.iter().zip(output.chunks(THREADS)) {
        for (i, &got) in got.iter().enumerate() {
            let expected = expected(Thread { i, wave });
            let tolerance = expected.abs().max(1e-2) * 1e-6;
            assert!(
                (f64::from(got) - expected).abs() <= tolerance,
                "{expression} of thread {i}: {got}, not {expected}"
            );
        }
    }
}
