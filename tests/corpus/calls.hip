// What needs a stack: calls that stay calls, recursion, function pointers, private arrays indexed by data, spills.

NOINLINE u32 mix(u32 a, u32 b) { return (a * 2654435761u) ^ (b >> 3); }
NOINLINE u32 fold(const u32* values, int n) {
    u32 sum = 1;
    for (int i = 0; i < n; ++i) sum = mix(sum, values[i]);
    return sum;
}

// A private array goes by address through two levels of calls.
KERNEL void call_by_address(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own[8];
    for (int k = 0; k < 8; ++k) own[k] = x[(i + k) % n];
    out[i] = fold(own, 8);
}

// Recursion in two branches, deeper in some lanes than in others.
NOINLINE u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL void recursion(u32* out) { out[global_x()] = fibonacci(threadIdx.x % 13); }

// Two functions that call each other.
NOINLINE bool is_odd(u32 n);
NOINLINE bool is_even(u32 n) { return n == 0 || is_odd(n - 1); }
NOINLINE bool is_odd(u32 n) { return n != 0 && is_even(n - 1); }
KERNEL void mutual_recursion(const u32* x, u32* out) { out[global_x()] = is_even(x[global_x()]); }

// Calls through a table of pointers, each lane its own.
NOINLINE u32 add(u32 a, u32 b) { return a + b; }
NOINLINE u32 subtract(u32 a, u32 b) { return a - b; }
NOINLINE u32 multiply(u32 a, u32 b) { return a * b; }
NOINLINE u32 exclude(u32 a, u32 b) { return a ^ b; }
typedef u32 (*Binary)(u32, u32);
__device__ Binary operations[4] = {add, subtract, multiply, exclude};
KERNEL void function_pointers(const u32* x, const u32* which, u32* out, int steps) {
    u32 own = x[global_x()], chosen = which[global_x()];
    for (int k = 0; k < steps; ++k, chosen >>= 2) own = operations[chosen & 3](own, x[k]);
    out[global_x()] = own;
}

// Virtual functions: the tables of pointers are the compiler's.
struct Shape {
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float side;
    __device__ Square(float side) : side(side) {}
    __device__ float area() const override { return side * side; }
};
struct Disc : Shape {
    float radius;
    __device__ Disc(float radius) : radius(radius) {}
    __device__ float area() const override { return 3.0f * radius * radius; }
};
NOINLINE float area_of(const Shape* shape) { return shape->area(); }
KERNEL void virtual_calls(const float* sizes, float* areas) {
    int i = global_x();
    Square square(sizes[i]);
    Disc disc(sizes[i]);
    areas[i] = area_of(i % 3 == 0 ? (const Shape*)&disc : &square);
}

// A struct of several registers goes in by value and comes back by value.
struct Body {
    double mass;
    float position[3];
    u16 kind;
    bool fixed;
};
NOINLINE Body moved(Body body, float by) {
    if (!body.fixed)
        for (int k = 0; k < 3; ++k) body.position[k] += by * (float)(k + 1);
    body.mass *= 2.0;
    body.kind += 3;
    return body;
}
KERNEL void struct_by_value(const float* x, float* out, double* masses) {
    int i = global_x();
    Body body = {x[i], {x[i], 1.0f, -x[i]}, (u16)i, i % 3 == 0};
    body = moved(moved(body, 0.5f), x[i]);
    out[i] = body.position[0] + body.position[1] * body.position[2] + (float)body.kind;
    masses[i] = body.mass;
}

// So many arguments that the last ones go over the stack.
NOINLINE u64 many(u32 a, u64 b, u32 c, u64 d, u32 e, u64 f, u32 g, u64 h, u32 i, u64 j, u32 k, u64 l, u32 m, u64 n, u32 o,
                  u64 p, u32 q, u64 r, u32 s, u64 t, u32 u, u64 v, u32 w, u64 x) {
    return ((((a + b) * 3 + c - d) * 5 + e + f) ^ (g * h + i - j)) + ((k + l) * 7 + (m ^ n)) * (o + p) - (q * r + s + t) + (u ^ v) * w + x;
}
KERNEL void many_arguments(const u64* x, u64* out) {
    const u64* p = x + global_x();
    out[global_x()] = many(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15],
                           p[16], p[17], p[18], p[19], p[20], p[21], p[22], p[23]);
}

// A private array indexed by data, wide enough that no register file could hold it.
KERNEL void private_histogram(const u32* x, u32* out, int n) {
    u32 count[96];
    for (int k = 0; k < 96; ++k) count[k] = 0;
    for (int k = 0; k < n; ++k) count[x[global_x() * n + k] % 96] += k + 1;
    u32 sum = 0;
    for (int k = 0; k < 96; ++k) sum = sum * 31 + count[k];
    out[global_x()] = sum;
}

// A small one, and one of bytes: indexed registers on some cards, scratch on others.
KERNEL void small_arrays(const u32* x, u32* out) {
    u32 own[6];
    u8 bytes[12];
    u32 seed = x[global_x()];
    for (int k = 0; k < 6; ++k) own[k] = seed * (k + 3);
    for (int k = 0; k < 12; ++k) bytes[k] = seed >> k;
    for (int k = 0; k < 10; ++k, seed >>= 3) {
        own[seed % 6] ^= own[(seed >> 1) % 6] + k;
        bytes[seed % 12] += bytes[(seed + 5) % 12];
    }
    u32 sum = 0;
    for (int k = 0; k < 6; ++k) sum = sum * 5 + own[k];
    for (int k = 0; k < 12; ++k) sum = sum * 3 + bytes[k];
    out[global_x()] = sum;
}

// More values alive at a time than the registers that it may have.
KERNEL __attribute__((amdgpu_num_vgpr(32))) void spills(const float* x, float* out) {
    float own[64];
    int i = global_x();
#pragma unroll
    for (int k = 0; k < 64; ++k) own[k] = x[i * 64 + k];
    __syncthreads();
#pragma unroll
    for (int round = 0; round < 3; ++round)
#pragma unroll
        for (int k = 0; k < 64; ++k) own[k] = own[k] * 0.5f + own[(k * 37 + 11) % 64];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 64; ++k) sum = sum * 0.75f + own[k];
    out[i] = sum;
}

// An array on the stack whose size the lane decides.
NOINLINE u32 reversed_sum(const u32* x, int n) {
    u32* room = (u32*)__builtin_alloca(n * sizeof(u32));
    for (int k = 0; k < n; ++k) room[n - 1 - k] = x[k];
    u32 sum = 0;
    for (int k = 0; k < n; ++k) sum = sum * 17 + room[k];
    return sum;
}
KERNEL void dynamic_stack(const u32* x, u32* out, int n) { out[global_x()] = reversed_sum(x + global_x(), n); }

// One function reads device memory, LDS and scratch through generic pointers, in one wave; another swaps through them.
NOINLINE u32 read_any(const u32* p, int i) { return p[i]; }
NOINLINE void swap_any(u32* a, u32* b) {
    u32 kept = *a;
    *a = *b;
    *b = kept;
}
KERNEL void generic_pointers(u32* x, u32* out) {
    __shared__ u32 shared[64];
    u32 own[4];
    int t = threadIdx.x;
    shared[t] = 1000 + t;
    for (int k = 0; k < 4; ++k) own[k] = 2000 + t * 4 + k;
    __syncthreads();
    const u32* p = t % 3 == 0 ? x : t % 3 == 1 ? shared : own;
    u32 seen = read_any(p, t % 4);
    __syncthreads();
    swap_any(t % 2 ? &shared[t] : &own[t % 4], &x[4 + t]);
    out[t] = seen * 10000 + own[t % 4] + shared[t];
}

// Quicksort with a stack of ranges, on a private array.
NOINLINE void quicksort(u32* x, int n) {
    int low[16], high[16], depth = 1;
    low[0] = 0, high[0] = n - 1;
    while (depth > 0) {
        --depth;
        int l = low[depth], h = high[depth];
        while (l < h) {
            u32 pivot = x[(l + h) / 2];
            int i = l, j = h;
            while (i <= j) {
                while (x[i] < pivot) ++i;
                while (x[j] > pivot) --j;
                if (i <= j) swap_any(&x[i++], &x[j--]);
            }
            if (j - l < h - i) {
                low[depth] = i, high[depth] = h, h = j;
            } else {
                low[depth] = l, high[depth] = j, l = i;
            }
            ++depth;
        }
    }
}
KERNEL void private_sort(u32* x) {
    u32 own[40];
    for (int k = 0; k < 40; ++k) own[k] = x[global_x() * 40 + k];
    quicksort(own, 40);
    for (int k = 0; k < 40; ++k) x[global_x() * 40 + k] = own[k];
}
