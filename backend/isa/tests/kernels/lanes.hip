// Crossing lanes: LDS, barriers, swizzles, atomics, ballots.

#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define LANE __builtin_amdgcn_workitem_id_x()

GLOBAL void row_sum(float *out, const float *a, int n) {
    SHARED static float partial[4];
    float sum = 0;
    for (int i = LANE; i < n; i += 256) sum += a[i + (long)n * __builtin_amdgcn_workgroup_id_x()];
#define STEP(ctrl)                                                                                                     \
    sum += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, sum), ctrl, 0xf, 0xf, false))
    STEP(0x111); STEP(0x112); STEP(0x114); STEP(0x118);
#ifdef __GFX9__
    STEP(0x142); STEP(0x143);
#else
    STEP(0x153); STEP(0x161);
#endif
    sum = __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, sum), 63));
    if ((LANE & 63) == 0) partial[LANE / 64] = sum;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    if (LANE == 0) out[__builtin_amdgcn_workgroup_id_x()] = partial[0] + partial[1] + partial[2] + partial[3];
}

GLOBAL void histogram(unsigned *bins, const unsigned char *a, int n) {
    SHARED static unsigned local[256];
    local[LANE] = 0;
    __builtin_amdgcn_s_barrier();
    for (int i = LANE; i < n; i += 256) __atomic_fetch_add(&local[a[i]], 1, __ATOMIC_RELAXED);
    __builtin_amdgcn_s_barrier();
    __atomic_fetch_add(&bins[LANE], local[LANE], __ATOMIC_SEQ_CST);
    if (__builtin_amdgcn_read_exec() & 0xff00) __atomic_fetch_max((int *)bins, 3, __ATOMIC_RELAXED);
}

GLOBAL void shuffle(int *out, const int *a) {
    int v = a[LANE];
    out[LANE] = __builtin_amdgcn_ds_bpermute(LANE * 4 ^ 16, v) + __builtin_amdgcn_ds_swizzle(v, 0x401f)
        + __builtin_amdgcn_mov_dpp(v, 0x1b, 0xf, 0xf, true) + __builtin_amdgcn_readfirstlane(v)
        + __builtin_amdgcn_mbcnt_lo(~0u, 0) + __builtin_amdgcn_ds_swizzle(v, 0x80b1);
}

GLOBAL void transpose(double *out, const double *a) {
    SHARED static double tile[32 * 33];
    for (int r = LANE / 32; r < 32; r += 8) tile[r * 33 + LANE % 32] = a[r * 32 + LANE % 32];
    __builtin_amdgcn_s_barrier();
    for (int r = LANE / 32; r < 32; r += 8) out[r * 32 + LANE % 32] = tile[LANE % 32 * 33 + r];
}
