// Control flow in which lanes part: loops left at different times, switches, early returns, nested conditions.

// Each lane leaves on its own (Collatz).
KERNEL void collatz(const u32* x, u32* steps, int n) {
    int i = global_x();
    if (i >= n) return;
    u64 value = x[i];
    u32 count = 0;
    for (; value != 1; ++count) value = value & 1 ? 3 * value + 1 : value / 2;
    steps[i] = count;
}

// Euclid.
KERNEL void gcd(const u32* a, const u32* b, u32* out) {
    u32 x = a[global_x()], y = b[global_x()];
    while (y != 0) {
        u32 rest = x % y;
        x = y;
        y = rest;
    }
    out[global_x()] = x;
}

// Escape time, with the loop's end decided by two conditions.
KERNEL void mandelbrot(u32* out, int width, float left, float top, float step, int limit) {
    int i = global_x();
    float cx = left + (float)(i % width) * step, cy = top + (float)(i / width) * step, x = 0.0f, y = 0.0f;
    int count = 0;
    while (count < limit) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f) break;
        y = 2.0f * x * y + cy;
        x = xx - yy + cx;
        ++count;
    }
    out[i] = count;
}

// Two loops, one in the other, with break and continue in both.
KERNEL void nested(const u32* x, u32* out) {
    u32 seed = x[global_x()], sum = 0;
    for (u32 i = 0; i < (seed & 15) + 1; ++i) {
        if ((seed >> i & 3) == 1) continue;
        for (u32 j = i; j < 20; ++j) {
            sum = sum * 3 + (i ^ j);
            if ((sum & 7) == 5) break;
            if (sum & 1) continue;
            sum += seed >> 16;
        }
        if (sum > 0xf0000000u) break;
    }
    out[global_x()] = sum;
}

// A small machine: a dense switch in a loop, programs of different length.
KERNEL void machine(const u8* programs, u32* out, int length) {
    const u8* program = programs + global_x() * length;
    u32 a = global_x() + 1, b = 7;
    int at = 0;
    for (int steps = 0; at < length && steps < 200; ++steps) {
        switch (program[at]) {
            case 0: a += b; break;
            case 1: b = a * 3; break;
            case 2: a ^= b << 5; break;
            case 3: if (a & 1) at += 2; break;
            case 4: b -= a; [[fallthrough]];
            case 5: a = a >> 3 | a << 29; break;
            case 6: if (b & 8 && at > 3) { at -= 3; b >>= 4; continue; } break;
            case 7: a = ~a; break;
            default: at = length; break;
        }
        ++at;
    }
    out[global_x()] = a ^ b;
}

// A switch over values far apart, and a default.
KERNEL void sparse_switch(const i32* x, i32* out) {
    i32 own = x[global_x()], result;
    switch (own) {
        case -1000000: result = 1; break;
        case -5: result = own * own; break;
        case 0: result = 3; break;
        case 17: case 18: case 19: result = own + 100; break;
        case 65537: result = 5; break;
        case 2000000000: result = 6; break;
        default: result = own < 0 ? -7 : 7;
    }
    out[global_x()] = result;
}

// A jump into a common end from several depths.
KERNEL void search(const u32* grid, u32 wanted, int* found) {
    const u32* own = grid + global_x() * 64;
    int place = -1;
    for (int z = 0; z < 4; ++z)
        for (int y = 0; y < 4; ++y)
            for (int x = 0; x < 4; ++x)
                if (own[(z * 4 + y) * 4 + x] == wanted) {
                    place = z * 100 + y * 10 + x;
                    goto done;
                }
done:
    found[global_x()] = place;
}

// Conditions that must not be evaluated: the right operand would read past the end.
KERNEL void short_circuit(const u32* x, const u32* places, u32* out, u32 n) {
    u32 place = places[global_x()], result = 0;
    if (place < n && x[place] > 10 && (x[place] & 1 || (place + 1 < n && x[place + 1] > x[place]))) result = x[place];
    out[global_x()] = place >= n || x[place] == 3 ? ~result : result;
}

// A loop whose count is the same for a whole wave, one that is not, and a barrier in the first.
KERNEL void uniform_loop(const u32* x, u32* out, int rounds) {
    __shared__ u32 shared[128];
    int t = threadIdx.x;
    u32 own = x[global_x()];
    for (int round = 0; round < rounds; ++round) {
        shared[t] = own;
        __syncthreads();
        u32 next = shared[(t + round + 1) & 127];
        for (u32 k = 0; k < (own & 3); ++k) next = next * 5 + k;
        own = next;
        __syncthreads();
    }
    out[global_x()] = own;
}

// All lanes of a group but the first few return before its barriers are over; the rest go on alone in the first wave.
KERNEL void early_return(const u32* x, u32* out) {
    __shared__ u32 shared[256];
    int t = threadIdx.x;
    shared[t] = x[global_x()];
    __syncthreads();
    if (t >= 5) return;
    u32 sum = 0;
    for (int k = t; k < 256; k += 5) sum += shared[k];
    if (sum & 1) {
        out[blockIdx.x * 5 + t] = sum;
        return;
    }
    out[blockIdx.x * 5 + t] = ~sum;
}

// Binary search, a do-while and a conditional expression of three.
KERNEL void lower_bound(const u32* sorted, const u32* keys, u32* places, u32 n) {
    u32 key = keys[global_x()], low = 0, size = n;
    do {
        u32 half = size / 2;
        low = sorted[low + half] < key ? low + half + (size & 1) : low;
        size = half;
    } while (size > 0);
    u32 at = low;
    while (at > 0 && sorted[at - 1] >= key) --at;
    while (at < n && sorted[at] < key) ++at;
    places[global_x()] = at;
}

// Queens that do not attack each other, by bits, with a stack of one's own; the first queen's column is the lane's.
KERNEL void queens(u32* counts, int n) {
    u32 columns[12], left[12], right[12], open[12];
    int first = threadIdx.x % n, depth = 1;
    u32 full = (1u << n) - 1, bit = 1u << first, count = 0;
    columns[1] = bit, left[1] = bit << 1, right[1] = bit >> 1;
    open[1] = full & ~(columns[1] | left[1] | right[1]);
    while (depth > 0) {
        if (open[depth] == 0) {
            --depth;
            continue;
        }
        bit = open[depth] & -open[depth];
        open[depth] ^= bit;
        if (depth == n - 1) {
            ++count;
            continue;
        }
        columns[depth + 1] = columns[depth] | bit;
        left[depth + 1] = (left[depth] | bit) << 1;
        right[depth + 1] = (right[depth] | bit) >> 1;
        ++depth;
        open[depth] = full & ~(columns[depth] | left[depth] | right[depth]);
    }
    counts[global_x()] = count;
}
