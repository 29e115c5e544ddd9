// Integers: high products, 64 bits, division, bit tricks, bytes.

// High halves of products, 32 and 64 bits, signed and not.
KERNEL void high_products(const u64* a, const u64* b, u64* out) {
    int i = global_x();
    u64 x = a[i], y = b[i];
    out[6 * i] = __umulhi(x, y);
    out[6 * i + 1] = (u32)__mulhi(x, y);
    out[6 * i + 2] = __umul64hi(x, y);
    out[6 * i + 3] = __mul64hi(x, y);
    out[6 * i + 4] = x * y;
    out[6 * i + 5] = (u64)(u32)x * (u32)y + (x >> 7);
}

// Quotients and remainders, 32 and 64 bits, signed and not, and by constants.
KERNEL void divisions(const u64* a, const u64* b, u64* out) {
    int i = global_x();
    u64 x = a[i], y = b[i] | 1;
    u64* to = out + 10 * i;
    to[0] = x / y, to[1] = x % y;
    to[2] = (u64)((i64)x / (i64)y), to[3] = (u64)((i64)x % (i64)y);
    to[4] = (u32)x / (u32)y, to[5] = (u32)x % (u32)y;
    to[6] = (u64)(i64)((i32)x / (i32)y), to[7] = (u64)(i64)((i32)x % (i32)y);
    to[8] = x / 1000003, to[9] = (u64)((i64)x % 10);
}

// Counts and places of bits.
KERNEL void bit_counts(const u64* x, u32* out) {
    int i = global_x();
    u64 own = x[i];
    u32* to = out + 8 * i;
    to[0] = __popc(own), to[1] = __popcll(own);
    to[2] = __clz(own), to[3] = __clzll(own);
    to[4] = __ffs(own), to[5] = __ffsll(own);
    to[6] = __brev(own), to[7] = __brevll(own) >> 13;
}

// Fields: extracted, signed and not, inserted, aligned, rotated, bytes selected.
KERNEL void bit_fields(const u32* x, const u32* y, u32* out) {
    int i = global_x();
    u32 a = x[i], b = y[i], at = b & 31;
    u32* to = out + 8 * i;
    to[0] = __builtin_amdgcn_ubfe(a, at, 7);
    to[1] = __builtin_amdgcn_sbfe(a, at, 9);
    to[2] = (a & b) | (~a & 0x12345678u);
    to[3] = __builtin_amdgcn_alignbit(a, b, at);
    to[4] = __builtin_amdgcn_alignbyte(a, b, at & 3);
    to[5] = a << at | a >> (-at & 31);
    to[6] = __builtin_amdgcn_perm(a, b, 0x0c020705);
    to[7] = (a & 0xff00ff00u) >> 8 | (a & 0x00ff00ffu) << 8;
}

// Shifts of 64 bits by what the lane says.
KERNEL void wide_shifts(const u64* x, u64* out) {
    int i = global_x();
    u64 own = x[i];
    int by = own >> 58;
    out[4 * i] = own << by;
    out[4 * i + 1] = own >> by;
    out[4 * i + 2] = (u64)((i64)own >> by);
    out[4 * i + 3] = own << by | own >> (-by & 63);
}

// Sums of absolute differences of bytes, and their relatives.
KERNEL void byte_sad(const u32* x, const u32* y, u32* out) {
    int i = global_x();
    u32 a = x[i], b = y[i];
    u32* to = out + 4 * i;
    to[0] = __builtin_amdgcn_sad_u8(a, b, 1000);
    to[1] = __builtin_amdgcn_sad_hi_u8(a, b, 77);
    to[2] = __builtin_amdgcn_sad_u16(a, b, 5);
    to[3] = __builtin_amdgcn_msad_u8(a, b & 0xff00ffff, 9);
}

// Four products of bytes, eight of nibbles, two of halves, added to a sum.
KERNEL void dot_products(const u32* x, const u32* y, i32* out) {
    int i = global_x();
    u32 a = x[i], b = y[i];
    i32* to = out + 4 * i;
    i32 bytes = -5;
    for (int k = 0; k < 32; k += 8) bytes += (i32)(i8)(a >> k) * (i8)(b >> k);
    to[0] = bytes;
#if __has_builtin(__builtin_amdgcn_sdot4)
    to[1] = __builtin_amdgcn_sdot4(a, b, -5, false);
#elif __has_builtin(__builtin_amdgcn_sudot4)
    to[1] = __builtin_amdgcn_sudot4(true, a, true, b, -5, false);
#else
    to[1] = bytes;
#endif
    to[2] = __builtin_amdgcn_udot4(a, b, 11, false);
    to[3] = __builtin_amdgcn_udot8(a, b, 13, false);
}

// Carries: 128-bit sums and differences, and products of 64 by 64 bits in 128.
KERNEL void carries(const vec<u64, 2>* x, const vec<u64, 2>* y, vec<u64, 2>* out) {
    int i = global_x();
    unsigned __int128 a = (unsigned __int128)x[i].y << 64 | x[i].x, b = (unsigned __int128)y[i].y << 64 | y[i].x;
    unsigned __int128 results[3] = {a + b, a - b, a * b};
    for (int k = 0; k < 3; ++k) out[3 * i + k] = {(u64)results[k], (u64)(results[k] >> 64)};
}

// Narrow types: arithmetic that wraps at 8 and 16 bits, signed shifts, saturation by min and max.
KERNEL void narrow(const i16* x, const i8* y, i16* sums, u8* bytes, i16* saturated) {
    int i = global_x();
    i16 a = x[i];
    i8 b = y[i];
    sums[i] = (i16)(a * b + (a >> 3));
    bytes[i] = (u8)((u8)b * 3 + (u8)(a >> 8));
    i32 wide = a + 200 * b;
    wide = wide > 32767 ? 32767 : wide;
    saturated[i] = wide < -32768 ? -32768 : wide;
}

// Saturating sums and differences, as the compiler knows them.
KERNEL void saturating(const u32* x, const u32* y, u32* out) {
    int i = global_x();
    out[4 * i] = __builtin_elementwise_add_sat(x[i], y[i]);
    out[4 * i + 1] = __builtin_elementwise_sub_sat(x[i], y[i]);
    out[4 * i + 2] = (u32)__builtin_elementwise_add_sat((i32)x[i], (i32)y[i]);
    out[4 * i + 3] = (u32)__builtin_elementwise_sub_sat((i32)x[i], (i32)y[i]);
}

// Minimum, middle and maximum of three; absolute differences; 24-bit products.
KERNEL void three_way(const u32* x, const u32* y, u32* out) {
    int i = global_x();
    u32 a = x[i], b = y[i], c = a ^ (b << 3);
    i32 p = a, q = b, r = c;
    u32* to = out + 6 * i;
    u32 low = a < b ? a : b, high = a < b ? b : a;
    to[0] = high < c ? high : low > c ? low : c;
    i32 slow = p < q ? p : q, shigh = p < q ? q : p;
    to[1] = shigh < r ? shigh : slow > r ? slow : r;
    to[2] = (a > b ? a - b : b - a);
    to[3] = (a & 0xffffff) * (b & 0xffffff);
    to[4] = (u32)((i32)(a << 8) >> 8) * (u32)((i32)(b << 8) >> 8) + c;
    to[5] = (a << 4) + b + (c | 1);
}

// Every 64-bit comparison, and selection by it.
KERNEL void compares(const i64* x, const i64* y, u32* out) {
    int i = global_x();
    i64 a = x[i], b = y[i];
    u64 c = a, d = b;
    u32 bits = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 | (a >= b) << 5;
    bits |= (c < d) << 6 | (c <= d) << 7 | (c > d) << 8 | (c >= d) << 9;
    out[i] = bits << 16 | (u32)((a < b ? c : d) >> 48);
}

// A Montgomery product, and a power by it: chains of wide multiplications and carries.
FN u32 montgomery(u32 a, u32 b, u32 n, u32 inverse) {
    u64 product = (u64)a * b;
    u32 m = (u32)product * inverse;
    u64 sum = (product >> 32) + __umulhi(m, n) + ((u32)product != 0);
    return sum >= n ? sum - n : sum;
}
KERNEL void modular_power(const u32* base, u32* out, u32 n, u32 inverse, u32 one, u32 square, u32 exponent) {
    u32 power = montgomery(base[global_x()] % n, square, n, inverse), result = one;
    for (u32 e = exponent; e != 0; e >>= 1) {
        if (e & 1) result = montgomery(result, power, n, inverse);
        power = montgomery(power, power, n, inverse);
    }
    out[global_x()] = montgomery(result, 1, n, inverse);
}
