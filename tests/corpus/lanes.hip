// Exchange between lanes: votes, DPP, permutations, swizzles, scalar reads.

// Votes inside a branch count only the lanes that are there.
KERNEL void votes(const u32* x, u64* ballots, u32* flags) {
    u32 own = x[global_x()];
    u64 seen = 0;
    u32 flag = 0;
    if (own & 1) {
        seen = __ballot(own & 2);
        flag = __any(own & 4) | (__ballot(own & 8) == __ballot(true)) << 1;
    } else {
        seen = ~__ballot(own & 16);
        flag = 4 | __all(own & 0x80000000u);
    }
    ballots[global_x()] = seen;
    flags[global_x()] = flag;
}

// Which lanes hold the same value: the first one left asks, all that agree leave.
KERNEL void match_any(const u32* x, u64* peers) {
    u32 own = x[global_x()];
    u64 found = 0;
    while (found == 0) {
        u32 first = __builtin_amdgcn_readfirstlane(own);
        bool agrees = own == first;
        u64 set = __ballot(agrees);
        if (agrees) found = set;
    }
    peers[global_x()] = found;
}

// Shuffles of every direction, width and type.
KERNEL void shuffles(const u32* x, const double* y, u32* out, double* wide) {
    int i = global_x();
    u32 own = x[i];
    u32* to = out + 6 * i;
    to[0] = __shfl(own, own & 63);
    to[1] = __shfl(own, 3, 8);
    to[2] = __shfl_up(own, 5, 16);
    to[3] = __shfl_down(own, 2, 4);
    to[4] = __shfl_xor(own, 9, 16);
    to[5] = (u32)__shfl((i32)own >> 8, lane_id() * 7);
    wide[2 * i] = __shfl_xor(y[i], 1);
    wide[2 * i + 1] = __shfl_down(y[i], WAVE / 2);
}

// DPP within rows of 16. What reads past the row keeps `old`, or reads zero with the last flag.
template <int CTRL, int ROWS, int BANKS, bool ZERO> FN u32 dpp(u32 old, u32 own) {
    return __builtin_amdgcn_update_dpp(old, own, CTRL, ROWS, BANKS, ZERO);
}
KERNEL void dpp_rows(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own = x[i], old = 1000000 + i;
    out[i] = dpp<0x1b, 15, 15, false>(old, own);             // quad_perm:[3,2,1,0]
    out[n + i] = dpp<0x101, 15, 15, false>(old, own);        // row_shl:1
    out[2 * n + i] = dpp<0x10f, 15, 15, true>(old, own);     // row_shl:15
    out[3 * n + i] = dpp<0x114, 15, 15, true>(old, own);     // row_shr:4
    out[4 * n + i] = dpp<0x113, 0x5, 15, false>(old, own);   // row_shr:3, rows 0 and 2
    out[5 * n + i] = dpp<0x125, 15, 15, false>(old, own);    // row_ror:5
    out[6 * n + i] = dpp<0x140, 15, 0x9, false>(old, own);   // row_mirror, outer banks
    out[7 * n + i] = dpp<0x141, 15, 15, true>(old, own);     // row_half_mirror
    out[8 * n + i] = own + dpp<0x112, 15, 15, true>(0, own); // taken into an addition
    if (own & 1) out[9 * n + i] = dpp<0xb1, 15, 15, false>(old, own); // lanes that are off are not read
    else out[9 * n + i] = 5;
}

#if WAVE == 64 && !defined(__GFX10__) && !defined(__GFX11__) && !defined(__GFX12__)
// DPP over the whole wave, which only GCN and CDNA have.
KERNEL void dpp_wave(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own = x[i], old = 1000000 + i;
    out[i] = dpp<0x130, 15, 15, false>(old, own);         // wave_shl:1
    out[n + i] = dpp<0x134, 15, 15, false>(old, own);     // wave_rol:1
    out[2 * n + i] = dpp<0x138, 15, 15, true>(old, own);  // wave_shr:1
    out[3 * n + i] = dpp<0x13c, 15, 15, false>(old, own); // wave_ror:1
    out[4 * n + i] = dpp<0x142, 0xa, 15, false>(old, own);// row_bcast:15
    out[5 * n + i] = dpp<0x143, 0xc, 15, false>(old, own);// row_bcast:31
}

// A sum over the wave as AMD's compilers make it: shifts in rows, then broadcasts of the rows' last lanes.
KERNEL void dpp_sum(const i32* x, i32* sums) {
    i32 own = x[global_x()];
    own += (i32)dpp<0x111, 15, 15, true>(0, own);
    own += (i32)dpp<0x112, 15, 15, true>(0, own);
    own += (i32)dpp<0x114, 15, 15, true>(0, own);
    own += (i32)dpp<0x118, 15, 15, true>(0, own);
    own += (i32)dpp<0x142, 0xa, 15, false>(0, own);
    own += (i32)dpp<0x143, 0xc, 15, false>(0, own);
    sums[global_x()] = own;
}
#endif

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
// What RDNA added: a lane of the row for all, rows exchanged by a mask, eights, any lane of the row or of its neighbour.
KERNEL void rdna_moves(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own = x[i], old = 1000000 + i;
    out[i] = dpp<0x15b, 15, 15, false>(old, own);      // row_share:11
    out[n + i] = dpp<0x166, 15, 15, false>(old, own);  // row_xmask:6
    out[2 * n + i] = __builtin_amdgcn_mov_dpp8(own, 0x053977);
    out[3 * n + i] = __builtin_amdgcn_permlane16(old, own, 0x76543210u ^ 0x55555555u, 0x0123cdefu, false, false);
    out[4 * n + i] = __builtin_amdgcn_permlanex16(old, own, 0xfedcba98u, 0x89abcdefu, false, false);
}
#endif

#if __has_builtin(__builtin_amdgcn_permlane32_swap)
// CDNA 4's exchanges of halves and of rows between two registers.
KERNEL void swap_rows(const u32* x, const u32* y, u32* out, int n) {
    int i = global_x();
    vec<u32, 2> halves = __builtin_amdgcn_permlane32_swap(x[i], y[i], false, false);
    vec<u32, 2> rows = __builtin_amdgcn_permlane16_swap(x[i], y[i], false, false);
    out[i] = halves.x, out[n + i] = halves.y, out[2 * n + i] = rows.x, out[3 * n + i] = rows.y;
}
#endif

// A push to the lane that each names, and a pull from it; names are a permutation.
KERNEL void permutes(const u32* x, const u32* to, u32* pushed, u32* pulled) {
    int i = global_x();
    pushed[i] = __builtin_amdgcn_ds_permute(to[i] << 2, x[i]);
    pulled[i] = __builtin_amdgcn_ds_bpermute(to[i] << 2, x[i]);
}

// Swizzles over 32 lanes: exchange, broadcast, reversal, quads.
KERNEL void swizzles(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own = x[i];
    out[i] = __builtin_amdgcn_ds_swizzle(own, 0x041f);         // exchange with the next
    out[n + i] = __builtin_amdgcn_ds_swizzle(own, 0x7c1f);     // reverse 32
    out[2 * n + i] = __builtin_amdgcn_ds_swizzle(own, 0x00f8); // lane 7 of each eight
    out[3 * n + i] = __builtin_amdgcn_ds_swizzle(own, 0x0000); // lane 0
    out[4 * n + i] = __builtin_amdgcn_ds_swizzle(own, 0x8039); // quad, 1 2 3 0
}

// Clang has no builtin for it; HIP's headers name the intrinsic in this way too.
__device__ int write_lane(int value, int lane, int old) __asm("llvm.amdgcn.writelane.i32");

// Lanes read one after the other into scalar registers, and written back turned round.
KERNEL void lane_by_lane(const u32* x, u32* sums, u32* turned) {
    u32 own = x[global_x()], sum = 0, result = 7;
    for (int lane = 0; lane < WAVE; ++lane) {
        u32 value = __builtin_amdgcn_readlane(own, lane);
        sum = sum * 3 + value;
        result = write_lane(value ^ lane, WAVE - 1 - lane, result);
    }
    sums[global_x()] = sum;
    turned[global_x()] = result;
}

// A place among the lanes that took the branch, before this one.
KERNEL void places(const u32* x, u32* out) {
    u32 place = ~0u;
    if (x[global_x()] % 3 != 0) {
        u64 here = __ballot(true);
        place = __builtin_amdgcn_mbcnt_lo((u32)here, 100);
#if WAVE == 64
        place = __builtin_amdgcn_mbcnt_hi((u32)(here >> 32), place);
#endif
    }
    out[global_x()] = place;
}

// A table in scalar memory read at indices that differ: a loop over the indices that occur.
KERNEL void waterfall(const u32* table, const u32* index, u32* out, u32* rounds) {
    u32 own = index[global_x()], value = 0, count = 0;
    bool waiting = true;
    while (waiting) {
        u32 chosen = __builtin_amdgcn_readfirstlane(own);
        ++count;
        if (own == chosen) {
            value = table[chosen];
            waiting = false;
        }
    }
    out[global_x()] = value;
    rounds[global_x()] = count;
}

// Reductions by every operation, over halves of a wave.
KERNEL void half_wave(const u32* x, u32* out) {
    u32 own = x[global_x()], sum = own, low = own, high = own, all = own, some = own, odd = own;
    for (int mask = WAVE / 4; mask > 0; mask /= 2) {
        u32 other = __shfl_xor(low, mask);
        low = other < low ? other : low;
        other = __shfl_xor(high, mask);
        high = other > high ? other : high;
        sum += __shfl_xor(sum, mask);
        all &= __shfl_xor(all, mask);
        some |= __shfl_xor(some, mask);
        odd ^= __shfl_xor(odd, mask);
    }
    u32* to = out + 6 * global_x();
    to[0] = sum, to[1] = low, to[2] = high, to[3] = all, to[4] = some, to[5] = odd;
}

// A loop that goes on while any lane of the wave wants to.
KERNEL void while_any(const u32* x, u32* out) {
    u32 own = x[global_x()], rounds = 0;
    while (__any(own > 100)) {
        own = own > 100 ? own / 3 : own + 1;
        ++rounds;
    }
    out[global_x()] = own * 1000 + rounds;
}
