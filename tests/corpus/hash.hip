// Hashes, ciphers, checksums and hash tables: integer work with long chains of dependence.

// SHA-256 of one 64-byte block a lane (messages of 55 bytes at most, padded here).
__constant__ u32 sha_round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
FN u32 turn(u32 x, int by) { return x >> by | x << (32 - by); }
KERNEL void sha256(const u8* messages, u32* digests, int length) {
    const u8* message = messages + global_x() * length;
    u32 w[64];
    for (int k = 0; k < 16; ++k) w[k] = 0;
    for (int k = 0; k < length; ++k) w[k / 4] |= (u32)message[k] << (24 - k % 4 * 8);
    w[length / 4] |= 0x80u << (24 - length % 4 * 8);
    w[15] = length * 8;
    for (int k = 16; k < 64; ++k) {
        u32 s0 = turn(w[k - 15], 7) ^ turn(w[k - 15], 18) ^ w[k - 15] >> 3;
        u32 s1 = turn(w[k - 2], 17) ^ turn(w[k - 2], 19) ^ w[k - 2] >> 10;
        w[k] = w[k - 16] + s0 + w[k - 7] + s1;
    }
    u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, v[8];
    for (int k = 0; k < 8; ++k) v[k] = h[k];
    for (int k = 0; k < 64; ++k) {
        u32 s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25), choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        u32 first = v[7] + s1 + choice + sha_round[k] + w[k];
        u32 s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        for (int j = 7; j > 0; --j) v[j] = v[j - 1];
        v[4] += first;
        v[0] = first + s0 + majority;
    }
    for (int k = 0; k < 8; ++k) digests[global_x() * 8 + k] = h[k] + v[k];
}

// CRC-32, bit by bit and by a table that the workgroup makes in LDS.
KERNEL void crc32(const u8* x, u32* by_bits, u32* by_table, int length) {
    __shared__ u32 table[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) {
        u32 rest = k;
        for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ 0xedb88320u : rest >> 1;
        table[k] = rest;
    }
    __syncthreads();
    const u8* own = x + global_x() * length;
    u32 slow = ~0u, fast = ~0u;
    for (int k = 0; k < length; ++k) {
        slow ^= own[k];
        for (int bit = 0; bit < 8; ++bit) slow = slow >> 1 ^ (0xedb88320u & -(slow & 1));
        fast = table[(fast ^ own[k]) & 255] ^ fast >> 8;
    }
    by_bits[global_x()] = ~slow;
    by_table[global_x()] = ~fast;
}

// A round of AES on 16 bytes: the box by inversion in GF(2^8), rows shifted, columns mixed.
FN u8 times(u8 a, u8 b) {
    u8 product = 0;
    for (int bit = 0; bit < 8; ++bit) {
        if (b & 1) product ^= a;
        a = a << 1 ^ (a & 0x80 ? 0x1b : 0);
        b >>= 1;
    }
    return product;
}
FN u8 box(u8 x) {
    u8 square = times(x, x), inverse = square;
    for (int k = 0; k < 6; ++k) {
        square = times(square, square);
        inverse = times(inverse, square);
    }
    u32 wide = inverse * 0x101u;
    return inverse ^ wide >> 7 ^ wide >> 6 ^ wide >> 5 ^ wide >> 4 ^ 0x63;
}
KERNEL void aes_round(const u8* states, const u8* key, u8* out) {
    u8 before[16], after[16];
    for (int k = 0; k < 16; ++k) before[k] = box(states[global_x() * 16 + k]);
    for (int k = 0; k < 16; ++k) after[k] = before[(k + 4 * (k % 4)) % 16];
    for (int column = 0; column < 16; column += 4)
        for (int row = 0; row < 4; ++row) {
            u8 a = after[column + row], b = after[column + (row + 1) % 4];
            u8 mixed = times(a, 2) ^ times(b, 3) ^ after[column + (row + 2) % 4] ^ after[column + (row + 3) % 4];
            out[global_x() * 16 + column + row] = mixed ^ key[column + row];
        }
}

// FNV-1a, Murmur3's finish, Adler-32 and SipHash's rounds over the same bytes.
KERNEL void checksums(const u8* x, u64* out, int length) {
    const u8* own = x + global_x() * length;
    u32 fnv = 2166136261u, low = 1, high = 0;
    u64 a = 0x736f6d6570736575ull, b = 0x646f72616e646f6dull, c = 0x6c7967656e657261ull, d = 0x7465646279746573ull;
    for (int k = 0; k < length; ++k) {
        fnv = (fnv ^ own[k]) * 16777619u;
        low = (low + own[k]) % 65521, high = (high + low) % 65521;
        d ^= own[k];
        for (int round = 0; round < 2; ++round) {
            a += b, b = b << 13 | b >> 51, b ^= a, a = a << 32 | a >> 32;
            c += d, d = d << 16 | d >> 48, d ^= c;
            a += d, d = d << 21 | d >> 43, d ^= a;
            c += b, b = b << 17 | b >> 47, b ^= c, c = c << 32 | c >> 32;
        }
        a ^= own[k];
    }
    u32 murmur = fnv;
    murmur = (murmur ^ murmur >> 16) * 0x85ebca6bu;
    murmur = (murmur ^ murmur >> 13) * 0xc2b2ae35u;
    out[3 * global_x()] = (u64)fnv << 32 | (murmur ^ murmur >> 16);
    out[3 * global_x() + 1] = high << 16 | low;
    out[3 * global_x() + 2] = a ^ b ^ c ^ d;
}

// A hash table with open addresses: keys are put in by compare and swap, values added, then all keys are looked for.
FN u32 place_of(u32 key, u32 slots) { return (key * 2654435761u >> 7) % slots; }
KERNEL void insert(const u32* keys, const u32* values, u32* table_keys, u32* table_values, u32 slots) {
    u32 key = keys[global_x()];
    for (u32 at = place_of(key, slots);; at = at + 1 == slots ? 0 : at + 1) {
        u32 found = atomicCAS(&table_keys[at], 0u, key);
        if (found == 0 || found == key) {
            atomicAdd(&table_values[at], values[global_x()]);
            return;
        }
    }
}
KERNEL void look_up(const u32* keys, const u32* table_keys, const u32* table_values, u32* out, u32 slots) {
    u32 key = keys[global_x()], at = place_of(key, slots), result = ~0u;
    while (table_keys[at] != 0) {
        if (table_keys[at] == key) {
            result = table_values[at];
            break;
        }
        at = at + 1 == slots ? 0 : at + 1;
    }
    out[global_x()] = result;
}

// A Bloom filter in LDS: three bits a key.
KERNEL void bloom(const u32* members, const u32* asked, u8* answers) {
    __shared__ u32 bits[32];
    int t = threadIdx.x;
    if (t < 32) bits[t] = 0;
    __syncthreads();
    for (u32 k = 1; k < 4; ++k) {
        u32 at = members[t] * (k * 0x9e3779b1u) >> 22;
        atomicOr(&bits[at / 32], 1u << (at % 32));
    }
    __syncthreads();
    bool all = true;
    for (u32 k = 1; k < 4; ++k) {
        u32 at = asked[t] * (k * 0x9e3779b1u) >> 22;
        all = all && (bits[at / 32] >> (at % 32) & 1);
    }
    answers[t] = all;
}
