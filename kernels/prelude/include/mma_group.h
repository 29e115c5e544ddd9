// mma_group.h: the tile product of four neighbouring waves, over the instructions that NVIDIA has on Hopper alone (`wgmma`, target sm_90a).
// RF_MMA_GROUP is 1 where there are any.
//
// `MmaGroup<T, N>` adds 64 rows x 16 k by 16 k x N columns to sums, of 16 rows to each wave. As in mma.h's narrow product a lane gives, of rows
// lane / 4 and 8 below it, k 2 p and 2 p + 1, p = lane % 4, and 8 further: `a` is row, row below, row 8 further, row below 8 further. It has
// columns 2 p, 2 p + 1 of the first row, then of the other, of each 8 columns in turn.
//
// The other operand lies in LDS: of each column 64 neighbouring k, 128 bytes, column after column, whose chunks of 16 bytes are exchanged:
// `group_place`. Tiles begin at multiples of 1024 bytes. What is stored there must be shown to the unit, `group_show`, before the barrier that
// tells of it.
//
// Products run beside the waves. `group_begin` stands before the first one after registers of theirs were written, `group_commit` behind the
// last; until `group_wait` has said so of them, their operands stay as they are and their sums are not read.
#ifndef ROCFIRE_MMA_GROUP_H
#define ROCFIRE_MMA_GROUP_H
namespace rf {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RF_MMA_GROUP 1

// Where chunk `chunk` of column `column` is in a tile, in bytes.
RF_FN u32 group_place(u32 column, u32 chunk) { return column * 128 + (chunk ^ column % 8) * 16; }
// A tile, as products name it: 1024 bytes from 8 columns to the next 8, chunks exchanged within 128 bytes; 16 k are 32 bytes.
RF_FN u64 group_tile(u32 place) { return (u64)1 << 62 | (u64)(1024 >> 4) << 32 | (u64)1 << 16 | (place >> 4 & 0x3fff); }
static const u32 GROUP_STEP = 32 >> 4;
RF_FN void group_show() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
RF_FN void group_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
RF_FN void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// Waits until no more than OPEN groups are under way.
template <int OPEN> RF_FN void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(OPEN) : "memory"); }

template <class T, int N> struct MmaGroup;
#define RF_SUMS_4(at, i) "+f"(at[i]), "+f"(at[i + 1]), "+f"(at[i + 2]), "+f"(at[i + 3])
#define RF_SUMS_8(at, i) RF_SUMS_4(at, i), RF_SUMS_4(at, i + 4)
#define RF_SUMS_16(at, i) RF_SUMS_8(at, i), RF_SUMS_8(at, i + 8)
#define RF_SUMS_32(at, i) RF_SUMS_16(at, i), RF_SUMS_16(at, i + 16)
#define RF_SUMS_128(at, i) RF_SUMS_32(at, i), RF_SUMS_32(at, i + 32), RF_SUMS_32(at, i + 64), RF_SUMS_32(at, i + 96)
#define RF_NAMES_4 "%0, %1, %2, %3"
#define RF_NAMES_8 RF_NAMES_4 ", %4, %5, %6, %7"
#define RF_NAMES_16 RF_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define RF_NAMES_32 RF_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RF_NAMES_TEN(n) ", %" #n "0, %" #n "1, %" #n "2, %" #n "3, %" #n "4, %" #n "5, %" #n "6, %" #n "7, %" #n "8, %" #n "9"
#define RF_NAMES_128                                                                                                      \
    RF_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39" RF_NAMES_TEN(4) RF_NAMES_TEN(5) RF_NAMES_TEN(6) RF_NAMES_TEN(7) \
        RF_NAMES_TEN(8) RF_NAMES_TEN(9) RF_NAMES_TEN(10) RF_NAMES_TEN(11) ", %120, %121, %122, %123, %124, %125, %126, %127"
#define RF_WGMMA(COLUMNS, TYPES, SUMS, A, B, ADD, REST, ...)                                                                    \
    asm volatile("{ .reg .pred add; setp.ne.u32 add, %" ADD ", 0; wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPES \
                 " {" RF_NAMES_##SUMS "}, " A ", %" B ", add, 1, 1, " REST "; }"                                               \
                 : RF_SUMS_##SUMS(sums, 0)                                                                                     \
                 : __VA_ARGS__, "l"(b), "r"((u32)add))
#define RF_WGMMA_OF(COLUMNS, SUMS, A, B, ADD, REST, ...)                                             \
    if (same<T, bf16>::value) RF_WGMMA(COLUMNS, "bf16.bf16", SUMS, A, B, ADD, REST, __VA_ARGS__);    \
    else RF_WGMMA(COLUMNS, "f16.f16", SUMS, A, B, ADD, REST, __VA_ARGS__);
#define RF_WORDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define RF_NAMED(A0, A1, A2, A3) "{%" A0 ", %" A1 ", %" A2 ", %" A3 "}"
// `b` is the tile's name, GROUP_STEP more for each 16 k. Sums begin at zero unless `add`.
#define RF_MMA_GROUP_OF(COLUMNS, SUMS, A, B, ADD)                                                        \
    template <class T> struct MmaGroup<T, COLUMNS> {                                                     \
        static const int ACC = SUMS;                                                                     \
        RF_FN static void run(float* sums, const u32* a, u64 b, bool add) {                              \
            RF_WGMMA_OF(COLUMNS, SUMS, A, B, ADD, "0", RF_WORDS)                                         \
        }                                                                                                \
    };
RF_MMA_GROUP_OF(8, 4, RF_NAMED("4", "5", "6", "7"), "8", "9")
RF_MMA_GROUP_OF(16, 8, RF_NAMED("8", "9", "10", "11"), "12", "13")
RF_MMA_GROUP_OF(32, 16, RF_NAMED("16", "17", "18", "19"), "20", "21")
template <class T> struct MmaGroup<T, 64> {
    static const int ACC = 32;
    RF_FN static void run(float* sums, const u32* a, u64 b, bool add) {
        RF_WGMMA_OF(64, 32, RF_NAMED("32", "33", "34", "35"), "36", "37", "0", RF_WORDS)
    }
    // The rows, too, lie in LDS, as columns do.
    RF_FN static void run(float* sums, u64 a, u64 b, bool add) { RF_WGMMA_OF(64, 32, "%32", "33", "34", "0, 0", "l"(a)) }
};
// Columns lie side by side: of each k 64 neighbouring columns, row after row of 64 k, and 64 columns behind 64 others; 16 k further the name is
// ACROSS_STEP more.
static const u32 ACROSS_STEP = 16 * 128 >> 4;
RF_FN u64 group_tile_across(u32 place) {
    return (u64)1 << 62 | (u64)(1024 >> 4) << 32 | (u64)(64 * 128 >> 4) << 16 | (place >> 4 & 0x3fff);
}
template <class T> struct MmaGroup<T, 256> {
    static const int ACC = 128;
    RF_FN static void run_across(float* sums, const u32* a, u64 b, bool add) {
        RF_WGMMA_OF(256, 128, RF_NAMED("128", "129", "130", "131"), "132", "133", "1", RF_WORDS)
    }
};
#undef RF_MMA_GROUP_OF
#undef RF_NAMED
#undef RF_WORDS
#undef RF_WGMMA_OF
#undef RF_WGMMA
#undef RF_NAMES_4
#undef RF_NAMES_8
#undef RF_NAMES_16
#undef RF_NAMES_32
#undef RF_NAMES_TEN
#undef RF_NAMES_128
#undef RF_SUMS_4
#undef RF_SUMS_8
#undef RF_SUMS_16
#undef RF_SUMS_32
#undef RF_SUMS_128

// Named barriers, 1 to 15, of `threads` threads: those that wait, and those that only say that they came.
RF_FN void meet(u32 number, u32 threads) { asm volatile("bar.sync %0, %1;" : : "r"(number), "r"(threads) : "memory"); }
RF_FN void tell(u32 number, u32 threads) { asm volatile("bar.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory"); }

// --- workgroups beside each other, on multiprocessors of their own, as many as a kernel's definition says ---

// All threads of them come, and wait for each other. Stores to LDS before the first are seen behind the second; `cluster_begin` only says that
// a workgroup has begun, before which nobody stores to its LDS.
RF_FN void cluster_begin() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory"); }
RF_FN void cluster_come() { asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory"); }
RF_FN void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory"); }
// Four floats to LDS of workgroup `rank` among them, to what is at `place` in one's own.
RF_FN void cluster_store(u32 place, u32 rank, const float* four) {
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5}; }"
                 :
                 : "r"(place), "r"(rank), "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3])
                 : "memory");
}
#else
#define RF_MMA_GROUP 0
#endif

}  // namespace rf
#endif
