// moe_align: places of a list sorted by expert, each expert's share rounded up to whole blocks.
//
//   starts [all + 1]     where the share of each expert begins; the last is where all of them end, as is total[0]
//   sorted [most]        in an expert's share the places n with ids[n] = expert, ascending; `count` elsewhere
//   experts [blocks]     the expert of each block of `block` entries of sorted; -1 behind the last
//
// Shapes : ids [count]; ids outside 0..all belong to no expert, and but for -1, which is none, are told of
// Grid   : (1, 1, 1)     Block : (256, 1, 1)          an expert is a lane's, every 256th one the same lane's
// LDS    : CANDLE_EXPERTS + 1 words
// Needs  : all <= CANDLE_EXPERTS, and shares that end within `most`, which the launcher makes sure of by its size
//
// Macros : CANDLE_NAME; CANDLE_EXPERTS
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif

extern "C" __global__ __launch_bounds__(256) void CANDLE_NAME(const i32* ids, i32* sorted, i32* experts, i32* total, i32* starts,
                                                              i32 all, i32 block, i32 count, i32 most) {
    __shared__ i32 begins[CANDLE_EXPERTS + 1];
    for (i32 n = (i32)thread_x(); n < count; n += 256)
        if ((u32)ids[n] >= (u32)all && ids[n] != -1) RF_TELL_INDEX("moe_align", (i64)ids[n], (i64)all);
    for (i32 expert = (i32)thread_x(); expert < all; expert += 256) {
        i32 share = 0;
        for (i32 n = 0; n < count; ++n) share += ids[n] == expert ? 1 : 0;
        begins[expert + 1] = (share + block - 1) / block * block;
    }
    barrier();
    if (thread_x() == 0) {
        begins[0] = 0;
        for (i32 expert = 0; expert < all; ++expert) begins[expert + 1] += begins[expert];
        total[0] = begins[all];
    }
    barrier();
    i32 blocks = (most + block - 1) / block;
    for (i32 n = begins[all] / block + (i32)thread_x(); n < blocks; n += 256) experts[n] = -1;
    for (i32 n = begins[all] + (i32)thread_x(); n < most; n += 256) sorted[n] = count;
    for (i32 expert = (i32)thread_x(); expert <= all; expert += 256) {
        starts[expert] = begins[expert];
        if (expert == all) break;
        i32 at = begins[expert], end = begins[expert + 1];
        for (i32 n = at; n < end; n += block) experts[n / block] = expert;
        for (i32 n = 0; n < count; ++n)
            if (ids[n] == expert) sorted[at++] = n;
        while (at < end) sorted[at++] = count;
    }
}
