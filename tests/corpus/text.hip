// Text and graphs: search, counting, distances, frontiers, components, paths.

// Every place of a pattern, by the obvious loop; matches as bits.
KERNEL void search(const u8* text, const u8* pattern, u64* found, int n, int m) {
    int i = global_x();
    bool match = i + m <= n;
    for (int k = 0; match && k < m; ++k) match = text[i + k] == pattern[k];
    u64 bits = __ballot(match);
    if (WAVE == 64 && lane_id() == 0) found[i / 64] = bits;
    if (WAVE == 32 && lane_id() == 0) ((u32*)found)[i / 32] = (u32)bits;
}

// The same by a rolling hash, each lane a stretch; matches are verified and counted.
KERNEL void rolling(const u8* text, const u8* pattern, u32* count, int n, int m, int stretch) {
    int first = global_x() * stretch;
    u32 wanted = 0, hash = 0, top = 1, own = 0;
    for (int k = 0; k < m; ++k) {
        wanted = wanted * 257 + pattern[k];
        if (first + k < n) hash = hash * 257 + text[first + k];
        if (k > 0) top *= 257;
    }
    for (int i = first; i < first + stretch && i + m <= n; ++i) {
        if (hash == wanted) {
            bool match = true;
            for (int k = 0; k < m; ++k) match = match && text[i + k] == pattern[k];
            own += match;
        }
        if (i + m < n) hash = (hash - text[i] * top) * 257 + text[i + m];
    }
    if (own) atomicAdd(count, own);
}

// Words, lines and code points of UTF-8.
KERNEL void word_count(const u8* text, u32* counts, int n) {
    int i = global_x();
    bool in = i < n, word = false, line = false, point = false;
    if (in) {
        bool space = text[i] <= ' ', before = i == 0 || text[i - 1] <= ' ';
        word = !space && before, line = text[i] == '\n', point = (text[i] & 0xc0) != 0x80;
    }
    u32 words = __popcll(__ballot(word)), lines = __popcll(__ballot(line)), points = __popcll(__ballot(point));
    if (lane_id() == 0) {
        atomicAdd(&counts[0], words);
        atomicAdd(&counts[1], lines);
        atomicAdd(&counts[2], points);
    }
}

// Edit distance, along the diagonals of the table in LDS.
KERNEL void edit_distance(const u8* a, const u8* b, u32* distance, int n, int m) {
    __shared__ u16 row[3][65];
    int t = threadIdx.x;
    for (int d = 0; d <= n + m; ++d) {
        u16 *now = row[d % 3], *last = row[(d + 2) % 3], *before = row[(d + 1) % 3];
        int i = t, j = d - t;
        if (i <= n && j >= 0 && j <= m) {
            u32 best;
            if (i == 0) best = j;
            else if (j == 0) best = i;
            else {
                u32 change = before[i - 1] + (a[i - 1] != b[j - 1]);
                u32 drop = last[i - 1] + 1, insert = last[i] + 1;
                best = change < drop ? change : drop;
                best = insert < best ? insert : best;
            }
            now[i] = best;
            if (d == n + m) *distance = best;
        }
        __syncthreads();
    }
}

// Base64: three bytes to four letters, one word stored.
KERNEL void base64(const u8* x, u32* out) {
    const u8* own = x + global_x() * 3;
    u32 bits = own[0] << 16 | own[1] << 8 | own[2], word = 0;
    for (int k = 0; k < 4; ++k) {
        u32 six = bits >> (18 - 6 * k) & 63;
        u32 letter = six < 26 ? 'A' + six : six < 52 ? 'a' + six - 26 : six < 62 ? '0' + six - 52 : six == 62 ? '+' : '/';
        word |= letter << (8 * k);
    }
    out[global_x()] = word;
}

// Numbers in decimal, right-aligned in twelve letters, and read again.
KERNEL void decimal(const i32* x, u8* text, i32* back) {
    u8* own = text + global_x() * 12;
    i32 value = x[global_x()];
    u32 rest = value < 0 ? -(u32)value : value;
    int at = 12;
    do {
        own[--at] = '0' + rest % 10;
        rest /= 10;
    } while (rest);
    if (value < 0) own[--at] = '-';
    while (at > 0) own[--at] = ' ';
    u32 read = 0;
    bool negative = false;
    for (int k = 0; k < 12; ++k) {
        if (own[k] == '-') negative = true;
        else if (own[k] != ' ') read = read * 10 + (own[k] - '0');
    }
    back[global_x()] = negative ? -read : read;
}

// One step of a breadth-first search: the frontier's neighbours that nobody has seen become the next frontier.
KERNEL void frontier(const u32* starts, const u32* edges, u32* depths, const u32* now, u32 count, u32* next, u32* next_count, u32 depth) {
    u32 i = global_x();
    if (i >= count) return;
    for (u32 e = starts[now[i]]; e < starts[now[i] + 1]; ++e)
        if (atomicCAS(&depths[edges[e]], ~0u, depth) == ~0u) next[atomicAdd(next_count, 1u)] = edges[e];
}

// Connected components: union by the smaller root with compare and swap, then every path made short.
FN u32 root_of(u32* parents, u32 node) {
    u32 parent = __hip_atomic_load(&parents[node], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (parent != node) {
        node = parent;
        parent = __hip_atomic_load(&parents[node], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
    return node;
}
KERNEL void unite(const u32* from, const u32* to, u32* parents, u32 edges) {
    u32 i = global_x();
    if (i >= edges) return;
    u32 a = from[i], b = to[i];
    while (true) {
        a = root_of(parents, a), b = root_of(parents, b);
        if (a == b) break;
        if (a < b) {
            u32 kept = a;
            a = b, b = kept;
        }
        if (atomicCAS(&parents[a], a, b) == a) break;
    }
}
KERNEL void flatten(u32* parents, u32 nodes) {
    u32 i = global_x();
    if (i < nodes) {
        u32 root = root_of(parents, i);
        __hip_atomic_store(&parents[i], root, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

// All shortest paths (Floyd and Warshall), 32 nodes in LDS.
KERNEL void all_paths(const u32* weights, u32* out) {
    __shared__ u32 d[32][32];
    int x = threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += 8) d[y][x] = weights[y * 32 + x];
    for (int k = 0; k < 32; ++k) {
        __syncthreads();
        for (int y = threadIdx.y; y < 32; y += 8) {
            u32 through = d[y][k] + d[k][x];
            if (through < d[y][x]) d[y][x] = through;
        }
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) out[y * 32 + x] = d[y][x];
}

// A knapsack's best value, a row of the table at a time, two rows in turn.
KERNEL void knapsack(const u32* weights, const u32* values, u32* best, int items) {
    __shared__ u32 row[2][128];
    int t = threadIdx.x;
    row[0][t] = 0;
    for (int k = 0; k < items; ++k) {
        __syncthreads();
        u32 skip = row[k & 1][t], weight = weights[k];
        u32 take = t >= (int)weight ? row[k & 1][t - weight] + values[k] : 0;
        row[1 - (k & 1)][t] = take > skip ? take : skip;
    }
    best[t] = row[items & 1][t];
}
