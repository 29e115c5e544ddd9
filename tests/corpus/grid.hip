// Grids, workgroups and arguments: where a lane is, what the launch hands over, what lies in a module.

// A loop with the grid's stride, on fewer lanes than elements.
KERNEL void grid_stride(const float* x, float* y, float a, int n) {
    for (int i = global_x(); i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

// Where each lane is, in a three-dimensional grid of three-dimensional workgroups.
KERNEL void places(u32* out) {
    u32 group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 item = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32* place = out + 6 * (group * blockDim.x * blockDim.y * blockDim.z + item);
    place[0] = threadIdx.x, place[1] = threadIdx.y, place[2] = threadIdx.z;
    place[3] = blockIdx.x, place[4] = blockIdx.y, place[5] = blockIdx.z;
}

// The arguments that the runtime adds: sizes of the grid, all axes.
KERNEL void hidden_arguments(u32* out) {
    if (global_x() == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        out[0] = gridDim.x, out[1] = gridDim.y, out[2] = gridDim.z;
        out[3] = blockDim.x, out[4] = blockDim.y, out[5] = blockDim.z;
        out[6] = __builtin_amdgcn_grid_size_x(), out[7] = __builtin_amdgcn_grid_size_y();
        out[8] = __builtin_amdgcn_grid_size_z();
    }
}

// Arguments of every width, in an order that leaves holes.
KERNEL void argument_widths(i8 a, u64 b, i16 c, bool d, double e, u8 f, float g, u16 h, i32 i, f16 j, i64* out) {
    int t = threadIdx.x;
    i64 values[10] = {a, (i64)b, c, d, (i64)e, f, (i64)g, h, i, (i64)(float)j};
    out[t] = values[t];
}

// A struct by value, with an array indexed by the lane: read from the arguments' memory.
struct Table {
    u32 scale;
    u16 entries[10];
    struct { float low, high; } range;
    u64 mask;
};
KERNEL void struct_argument(Table table, u32 shift, u32* out) {
    int t = threadIdx.x;
    u32 value = table.entries[t % 10] * table.scale + shift;
    if ((float)value < table.range.low || (float)value > table.range.high) value = 0;
    out[t] = value ^ (u32)(table.mask >> (t & 31));
}

// A kernel changes its own copy of an argument; other lanes must not see it.
KERNEL void changed_argument(Table table, u32* out) {
    int t = threadIdx.x;
    table.entries[t % 10] += t;
    table.scale ^= t;
    out[t] = table.entries[(t + 1) % 10] + table.entries[t % 10] + table.scale;
}

// Pointers that are read from memory, and a list linked through it.
struct Node {
    const Node* next;
    u32 value;
};
KERNEL void linked_list(const Node* const* heads, u32* sums) {
    u32 sum = 0;
    for (const Node* node = heads[global_x()]; node; node = node->next) sum = sum * 3 + node->value;
    sums[global_x()] = sum;
}

__constant__ u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__device__ u32 tickets = 5;
__device__ float weights[4] = {0.5f, 0.25f, 0.125f, 2.0f};
__device__ const u32* last_seen;

// Variables of the module: constant, initialised, written, and a pointer.
KERNEL void variables(u32* out, float* scaled) {
    int t = threadIdx.x;
    out[t] = primes[t & 7];
    scaled[t] = weights[t & 3] * (float)t;
    __syncthreads();
    if (t == 0) {
        atomicAdd(&tickets, 37u);
        last_seen = out;
        weights[3] = 3.0f;
    }
}

// A table that the compiler makes, and text.
KERNEL void constant_tables(const u32* x, u32* out) {
    static const u8 digits[] = "the quick brown fox";
    static const i16 steps[4][3] = {{1, -2, 3}, {-4, 5, -6}, {7, -8, 9}, {-10, 11, -12}};
    u32 own = x[global_x()];
    out[global_x()] = digits[own % 19] * 1000 + (u32)(i32)steps[own >> 4 & 3][own % 3];
}

// Addresses that no load is aligned for.
struct __attribute__((packed)) Record {
    u8 kind;
    u32 count;
    u64 total;
    u16 tail;
};
KERNEL void unaligned_records(const Record* records, Record* out) {
    Record record = records[global_x()];
    record.count += record.kind;
    record.total *= 3;
    record.tail ^= 0x5a5a;
    out[global_x()] = record;
}

// Vectors of three, which are as wide as four in memory but not in a packed array.
KERNEL void triples(const vec<float, 3>* x, const float* packed, vec<float, 3>* crossed) {
    int i = global_x();
    vec<float, 3> a = x[i], b = {packed[3 * i], packed[3 * i + 1], packed[3 * i + 2]};
    crossed[i] = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// A wide copy whose tail is narrow, and whose direction is backwards.
KERNEL void reversed_copy(const u8* x, u8* out, int n) {
    int i = global_x() * 16;
    if (i + 16 <= n) {
        vec<u8, 16> own = *(const vec<u8, 16>*)(x + i);
        for (int k = 0; k < 16; ++k) out[n - 1 - i - k] = own[k];
    } else {
        for (int k = i; k < n; ++k) out[n - 1 - k] = x[k];
    }
}
