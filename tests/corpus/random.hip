// Random numbers and what is made of them.

// Philox 4x32-10: four words for each counter.
KERNEL void philox(vec<u32, 4>* out, u32 key_low, u32 key_high, u64 first) {
    u64 counter = first + global_x();
    u32 x = counter, y = counter >> 32, z = 0x1234, w = 0;
    for (int round = 0; round < 10; ++round) {
        u64 a = (u64)x * 0xd2511f53u, b = (u64)z * 0xcd9e8d57u;
        x = (u32)(b >> 32) ^ y ^ key_low;
        z = (u32)(a >> 32) ^ w ^ key_high;
        y = (u32)b, w = (u32)a;
        key_low += 0x9e3779b9u, key_high += 0xbb67ae85u;
    }
    out[global_x()] = {x, y, z, w};
}

// Marsaglia's xorshift, a permuted congruence (PCG), and splitmix, each many steps.
KERNEL void generators(const u64* seeds, u64* out, int steps) {
    u64 seed = seeds[global_x()];
    u32 a = (u32)seed | 1, b = (u32)(seed >> 32), c = 521288629, d = 88675123;
    u64 state = seed, mix = seed;
    u32 xor128 = 0, pcg = 0;
    u64 split = 0;
    for (int k = 0; k < steps; ++k) {
        u32 t = a ^ (a << 11);
        a = b, b = c, c = d;
        xor128 = d = d ^ (d >> 19) ^ t ^ (t >> 8);
        u64 old = state;
        state = old * 6364136223846793005ull + 1442695040888963407ull;
        u32 shifted = ((old >> 18) ^ old) >> 27, turn = old >> 59;
        pcg = shifted >> turn | shifted << (-turn & 31);
        mix += 0x9e3779b97f4a7c15ull;
        u64 z = (mix ^ (mix >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        split = z ^ (z >> 31);
    }
    out[3 * global_x()] = xor128, out[3 * global_x() + 1] = pcg, out[3 * global_x() + 2] = split;
}

// The share of points in a quarter of a disc, counted by waves.
KERNEL void monte_carlo(u32* inside, int points) {
    u32 state = global_x() * 747796405u + 2891336453u, count = 0;
    for (int k = 0; k < points; ++k) {
        state = state * 1664525u + 1013904223u;
        u32 x = state >> 16;
        state = state * 1664525u + 1013904223u;
        u32 y = state >> 16;
        count += x * x / 2 + y * y / 2 < 0x7fffffffu;
    }
    for (int mask = WAVE / 2; mask > 0; mask /= 2) count += __shfl_xor(count, mask);
    if (lane_id() == 0) atomicAdd(inside, count);
}

// A shuffle of a private deck (Fisher and Yates), by rejection so that every order is as likely.
KERNEL void shuffle(u8* decks, const u32* seeds) {
    u8 deck[52];
    u32 state = seeds[global_x()] | 1;
    for (int k = 0; k < 52; ++k) deck[k] = k;
    for (u32 left = 52; left > 1; --left) {
        u32 chosen;
        do {
            state ^= state << 13, state ^= state >> 17, state ^= state << 5;
            chosen = state & 63;
        } while (chosen >= left);
        u8 kept = deck[left - 1];
        deck[left - 1] = deck[chosen];
        deck[chosen] = kept;
    }
    for (int k = 0; k < 52; ++k) decks[global_x() * 52 + k] = deck[k];
}

// A walk with a boundary, and when it was hit.
KERNEL void walk(const u64* seeds, i32* places, u32* hits, int steps) {
    u64 bits = seeds[global_x()];
    i32 place = 0;
    u32 hit = 0;
    for (int k = 0; k < steps; ++k) {
        bits ^= bits << 7, bits ^= bits >> 9;
        place += bits & 1 ? 1 : -1;
        if (place > 6 || place < -6) place = 0, hit = hit * 3 + k;
    }
    places[global_x()] = place;
    hits[global_x()] = hit;
}
