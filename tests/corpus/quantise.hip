// Quantisers and their inverses: int8, int4, fp8, block scales, bf16.

// Rows to int8 by their largest magnitude.
KERNEL void int8_rows(const float* x, i8* out, float* scales, int cols) {
    const float* row = x + blockIdx.x * cols;
    float most = 0.0f;
    for (int c = lane_id(); c < cols; c += WAVE) most = __builtin_fmaxf(most, __builtin_fabsf(row[c]));
    for (int mask = 1; mask < WAVE; mask *= 2) most = __builtin_fmaxf(most, __shfl_xor(most, mask));
    float scale = most / 127.0f, inverse = most > 0.0f ? 127.0f / most : 0.0f;
    for (int c = lane_id(); c < cols; c += WAVE) {
        float level = __builtin_rintf(row[c] * inverse);
        out[blockIdx.x * cols + c] = (i8)__builtin_fminf(__builtin_fmaxf(level, -127.0f), 127.0f);
    }
    if (lane_id() == 0) scales[blockIdx.x] = scale;
}

// To u8 with a scale and a zero point, four to a word, and back.
KERNEL void u8_affine(const vec<float, 4>* x, u32* out, vec<float, 4>* back, float scale, float zero) {
    vec<float, 4> own = x[global_x()];
    u32 word = 0;
    for (int k = 0; k < 4; ++k) {
        float level = __builtin_rintf(own[k] / scale) + zero;
        level = level < 0.0f ? 0.0f : level > 255.0f ? 255.0f : level;
        word |= (u32)level << (8 * k);
    }
    out[global_x()] = word;
    for (int k = 0; k < 4; ++k) own[k] = ((float)(word >> (8 * k) & 255) - zero) * scale;
    back[global_x()] = own;
}

// Blocks of 32 to four bits with an f16 scale, packed as llama.cpp's Q4_0 is: low nibbles first half, high ones second.
struct Block4 {
    f16 scale;
    u8 nibbles[16];
};
KERNEL void int4_blocks(const float* x, Block4* out) {
    const float* own = x + global_x() * 32;
    float most = 0.0f, magnitude = 0.0f;
    for (int k = 0; k < 32; ++k)
        if (magnitude < __builtin_fabsf(own[k])) magnitude = __builtin_fabsf(own[k]), most = own[k];
    float scale = most / -8.0f, inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    Block4 block;
    block.scale = (f16)scale;
    for (int k = 0; k < 16; ++k) {
        int low = (int)(own[k] * inverse + 8.5f), high = (int)(own[k + 16] * inverse + 8.5f);
        block.nibbles[k] = (low > 15 ? 15 : low) | (high > 15 ? 15 : high) << 4;
    }
    out[global_x()] = block;
}

// A vector of such blocks times one of int8 blocks, sums in integers.
KERNEL void int4_dot(const Block4* a, const i8* b, const float* b_scales, float* out, int blocks) {
    float sum = 0.0f;
    for (int n = lane_id(); n < blocks; n += WAVE) {
        const Block4& block = a[blockIdx.x * blocks + n];
        i32 dot = 0;
        for (int k = 0; k < 16; ++k) {
            dot += ((block.nibbles[k] & 15) - 8) * b[n * 32 + k];
            dot += ((block.nibbles[k] >> 4) - 8) * b[n * 32 + k + 16];
        }
        sum += (float)dot * (float)block.scale * b_scales[n];
    }
    for (int mask = WAVE / 2; mask > 0; mask /= 2) sum += __shfl_xor(sum, mask);
    if (lane_id() == 0) out[blockIdx.x] = sum;
}

#if __has_builtin(__builtin_amdgcn_cvt_pk_fp8_f32)
// fp8 and bf8 by the hardware's conversions, there and back, by bytes and by pairs.
KERNEL void fp8(const vec<float, 4>* x, u32* fp, u32* bf, vec<float, 4>* fp_back, vec<float, 4>* bf_back) {
    int i = global_x();
    vec<float, 4> own = x[i];
    u32 word = __builtin_amdgcn_cvt_pk_fp8_f32(own.x, own.y, 0, false);
    word = __builtin_amdgcn_cvt_pk_fp8_f32(own.z, own.w, word, true);
    fp[i] = word;
    fp_back[i] = {__builtin_amdgcn_cvt_f32_fp8(word, 0), __builtin_amdgcn_cvt_f32_fp8(word, 1),
                  __builtin_amdgcn_cvt_f32_fp8(word, 2), __builtin_amdgcn_cvt_f32_fp8(word, 3)};
    word = __builtin_amdgcn_cvt_pk_bf8_f32(own.x, own.y, 0, false);
    word = __builtin_amdgcn_cvt_pk_bf8_f32(own.z, own.w, word, true);
    bf[i] = word;
    vec<float, 2> low = __builtin_amdgcn_cvt_pk_f32_bf8(word, false), high = __builtin_amdgcn_cvt_pk_f32_bf8(word, true);
    bf_back[i] = {low.x, low.y, high.x, high.y};
}
#endif

// fp8 (OCP's E4M3) without hardware: by integer arithmetic on the bits, saturating.
FN u8 to_e4m3(float x) {
    u32 bits = bits_as<u32>(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7f;
    if (magnitude >= 0x43e80000) return sign | 0x7e; // 464 and more
    if (magnitude < 0x3c800000) {                    // below 2^-6: subnormal steps of 2^-9
        float steps = __builtin_rintf(bits_as<float>(magnitude) * 512.0f);
        return sign | (u8)steps;
    }
    u32 rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
    return sign | (u8)((rounded >> 20) - (120 << 3));
}
KERNEL void e4m3_by_bits(const float* x, u8* out) { out[global_x()] = to_e4m3(x[global_x()]); }

// Blocks of 32 that share a power of two, four bits each (OCP's E2M1): nearest of eight magnitudes.
KERNEL void mxfp4(const float* x, u8* exponents, u32* words) {
    const float* own = x + global_x() * 32;
    float most = 0.0f;
    for (int k = 0; k < 32; ++k) most = __builtin_fmaxf(most, __builtin_fabsf(own[k]));
    int exponent = (int)(bits_as<u32>(most) >> 23) - 2;
    exponent = exponent < 0 ? 0 : exponent;
    float inverse = bits_as<float>((u32)(254 - exponent) << 23);
    exponents[global_x()] = exponent;
    for (int w = 0; w < 4; ++w) {
        u32 word = 0;
        for (int k = 0; k < 8; ++k) {
            float v = own[8 * w + k] * inverse, m = __builtin_fabsf(v);
            u32 code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
            word |= (code | (bits_as<u32>(v) >> 31) << 3) << (4 * k);
        }
        words[global_x() * 4 + w] = word;
    }
}

// To ternary with a threshold, five to a byte.
KERNEL void ternary(const float* x, u8* out, float threshold) {
    u32 byte = 0;
    for (int k = 4; k >= 0; --k) {
        float own = x[global_x() * 5 + k];
        byte = byte * 3 + (own > threshold ? 2 : own < -threshold ? 0 : 1);
    }
    out[global_x()] = byte;
}

// bf16 with the lost bits rounded by chance: the chance is a word for each element.
KERNEL void stochastic(const float* x, const u32* chance, u16* out) {
    u32 bits = bits_as<u32>(x[global_x()]) + (chance[global_x()] & 0xffff);
    out[global_x()] = bits >> 16;
}
