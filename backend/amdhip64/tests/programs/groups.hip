// Cooperative groups: the workgroup, tiles, the lanes that are on, and a grid whose workgroups wait for each other.
#include <cstdio>

#include <hip/hip_cooperative_groups.h>
#include <hip/hip_runtime.h>

namespace cg = cooperative_groups;

template <typename Group>
__device__ unsigned sum(const Group &group, unsigned value) {
    for (unsigned by = group.size() / 2; by > 0; by /= 2) value += group.shfl_down(value, by);
    return value;
}

__global__ void tiles(unsigned *out) {
    cg::thread_block block = cg::this_thread_block();
    unsigned i = block.thread_rank();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    unsigned total = sum(tile, i);
    if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = total;
    cg::thread_group eights = cg::tiled_partition(block, 8);
    eights.sync();
    if (eights.thread_rank() == 7) out[64 + i / 8] = eights.size() * 100 + i;
    if (i % 3 == 0) {
        cg::coalesced_group on = cg::coalesced_threads();
        unsigned first = on.shfl(i, 0), last = on.shfl(i, on.size() - 1);
        out[128 + i] = first * 1000 + last;
        cg::coalesced_group parts = cg::binary_partition(on, i % 2 == 0);
        out[256 + i] = parts.size();
    }
    out[384 + i] = tile.any(i == 17) * 4 + tile.all(i >= 16) * 2 + (tile.ballot(i % 2) == 0xaaaa);
}

// Each round takes what a neighbouring workgroup has written in the one before.
__global__ void rounds(unsigned *values, unsigned count) {
    cg::grid_group grid = cg::this_grid();
    unsigned group = blockIdx.x, groups = gridDim.x;
    for (unsigned round = 0; round < count; ++round) {
        unsigned *from = values + round % 2 * groups, *to = values + (round + 1) % 2 * groups;
        if (threadIdx.x == 0) to[group] = from[(group + 1) % groups] + 1;
        grid.sync();
    }
}

static void report(const char *name, bool good) { printf("%s: %s\n", name, good ? "ok" : "WRONG"); }

int main() {
    unsigned *out;
    hipHostMalloc(&out, 512 * sizeof(unsigned));
    tiles<<<1, 128>>>(out);
    bool good = hipDeviceSynchronize() == hipSuccess;
    for (unsigned tile = 0; tile < 8; ++tile) good = good && out[tile] == tile * 256 + 120;
    report("tiles", good);
    for (unsigned i = 0; i < 16; ++i) good = good && out[64 + i] == 800 + i * 8 + 7;
    report("tiles of any size", good);
    hipDeviceProp_t device;
    if (hipGetDeviceProperties(&device, 0) != hipSuccess) return 1;
    unsigned wave = device.warpSize;
    for (unsigned i = 0; i < 128; i += 3) {
        unsigned start = i / wave * wave, first = (start + 2) / 3 * 3, last = (start + wave - 1) / 3 * 3, same = 0;
        for (unsigned j = first; j <= last; j += 3) same += j % 2 == i % 2;
        good = good && out[128 + i] == first * 1000 + last && out[256 + i] == same;
    }
    report("lanes that are on", good);
    for (unsigned i = 0; i < 128; ++i) good = good && out[384 + i] == (i / 16 == 1) * 4u + (i >= 16) * 2u + 1u;
    report("votes", good);

    unsigned *values, groups = 6, count = 5;
    hipHostMalloc(&values, 2 * groups * sizeof(unsigned));
    for (unsigned i = 0; i < groups; ++i) values[i] = 10 * i;
    void *arguments[] = {&values, &count};
    hipError_t status = hipLaunchCooperativeKernel(rounds, dim3(groups), dim3(64), arguments, 0, 0);
    good = status == hipSuccess && hipDeviceSynchronize() == hipSuccess;
    for (unsigned i = 0; i < groups; ++i) good = good && values[groups + i] == 10 * ((i + count) % groups) + count;
    report("a grid", good);
}
