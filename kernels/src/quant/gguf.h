// gguf.h: the blocks of GGUF's quantised types.
//
// A weight is scale · code + offset, with one scale and offset per 16 weights. A unit is what a lane decodes at once: the
// 32 weights of a block of the older types, a quarter (64) of a block of the K types. It is decoded to SUBS runs of 16 weights;
// each `Run` has the codes, four to a word, and says where in the block it begins. A block's address is a multiple of ALIGNED. Layouts:
// ggml's `ggml-common.h`, as in candle-core's k_quants.rs.
//
// Callers: products of this crate, and templates of Candle's slot.
#ifndef RF_GGUF_H
#define RF_GGUF_H
using namespace rf;

// Four bytes as a word; their address is a multiple of ALIGN.
template <int ALIGN> RF_FN u32 word_at(const u8* p);
template <> RF_FN u32 word_at<2>(const u8* p) { return (u32)((const u16*)p)[0] | (u32)((const u16*)p)[1] << 16; }
template <> RF_FN u32 word_at<4>(const u8* p) { return *(const u32*)p; }
template <int ALIGN> struct FourWords {
    u32 at[4];
    RF_FN FourWords(const u8* p) {
        for (int i = 0; i < 4; ++i) at[i] = word_at<ALIGN>(p + 4 * i);
    }
};
// Five accesses instead of eight: four whole words and the last two bytes. Where the address is no multiple of four, the words begin
// two bytes before it. Those two bytes belong to the same tensor, whose first byte is at a multiple of four.
template <> struct FourWords<2> {
    u32 at[4];
    RF_FN FourWords(const u8* p) {
        const u32 before = (u32)(u64)p & 2u;
        const u32* whole = (const u32*)(p - before);
        u32 words[5] = {whole[0], whole[1], whole[2], whole[3], ((const u16*)p)[7]};
        for (int i = 0; i < 4; ++i) {
#if RF_DEVICE_AMD
            at[i] = __builtin_amdgcn_alignbyte(words[i + 1], words[i], before);
#else
            at[i] = __funnelshift_r(words[i], words[i + 1], before * 8);
#endif
        }
    }
};
template <> struct FourWords<16> {
    u32 at[4];
    RF_FN FourWords(const u8* p) {
        Vec<u32, 4> words = load<4>((const u32*)p);
        for (int i = 0; i < 4; ++i) at[i] = words[i];
    }
};
RF_FN float half_at(const u8* p) { return to_f32(*(const f16*)p); }

// Subtracts `by` (below 128) from each of four bytes below 128.
RF_FN u32 less_each(u32 word, u32 by) { return ((word | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u; }

// 16 decoded weights.
struct Run {
    u32 codes[4];
    float scale, offset;
    // The index of its first weight in the block.
    u32 at;
};

#define Q4_0 0
#define Q4_1 1
#define Q5_0 2
#define Q5_1 3
#define Q8_0 4
#define Q2_K 5
#define Q3_K 6
#define Q4_K 7
#define Q5_K 8
#define Q6_K 9

template <int TYPE> struct Gguf;

// --- the older types: 32 weights, the first 16 in the low halves of bytes, the others in the high ones ---

// A block has HEADER bytes of scale and offset, then the fifth bits of codes if FIFTH, then the codes. MINUS is the code that stands
// for zero. It goes into the offset, so that a product multiplies it by the sum of the activations before rounding, which is more
// precise than the sum of their codes.
template <int HEADER, bool FIFTH, int MINUS, int ALIGN> struct Halves {
    static const int SIZE = 32, UNITS = 1, SUBS = 2, BYTES = HEADER + (FIFTH ? 4 : 0) + 16, ALIGNED = ALIGN;
    // PAIRED: runs 2·i and 2·i + 1 have the same scale and offset. OFFSET: offsets are not all zero.
    static const bool PAIRED = true, OFFSET = true;
    RF_FN static void unpack(const u8* block, u32, Run* runs) {
        FourWords<ALIGN> words(block + HEADER + (FIFTH ? 4 : 0));
        u32 fifth = FIFTH ? word_at<ALIGN>(block + HEADER) : 0;
        float scale = half_at(block), offset = HEADER == 4 ? half_at(block + 2) : -(float)MINUS * scale;
        for (int run = 0; run < 2; ++run) {
            for (int i = 0; i < 4; ++i) {
                u32 codes = (words.at[i] >> (4 * run)) & 0x0f0f0f0fu;
                if (FIFTH) {
                    u32 bits = (fifth >> (16 * run + 4 * i)) & 0xfu;
                    codes |= (bits & 1u) << 4 | (bits & 2u) << 11 | (bits & 4u) << 18 | (bits & 8u) << 25;
                }
                runs[run].codes[i] = codes;
            }
            runs[run].scale = scale;
            runs[run].offset = offset;
            runs[run].at = 16 * run;
        }
    }
};
template <> struct Gguf<Q4_0> : Halves<2, false, 8, 2> {};
template <> struct Gguf<Q4_1> : Halves<4, false, 0, 4> {};
template <> struct Gguf<Q5_0> : Halves<2, true, 16, 2> {};
template <> struct Gguf<Q5_1> : Halves<4, true, 0, 4> {};
template <> struct Gguf<Q8_0> {
    static const int SIZE = 32, UNITS = 1, SUBS = 2, BYTES = 34, ALIGNED = 2;
    static const bool PAIRED = true, OFFSET = false;
    RF_FN static void unpack(const u8* block, u32, Run* runs) {
        for (int run = 0; run < 2; ++run) {
            FourWords<2> words(block + 2 + 16 * run);
            for (int i = 0; i < 4; ++i) runs[run].codes[i] = words.at[i];
            runs[run].scale = half_at(block);
            runs[run].offset = 0.0f;
            runs[run].at = 16 * run;
        }
    }
};

// --- the K types: 256 weights ---

// The six-bit scale and least value of group `group` of 32 weights; a block has eight such groups, packed in 12 bytes.
RF_FN void scale_and_least(const u32* words, u32 group, u32* scale, u32* least) {
    u32 shift = 8 * (group & 3u);
    u32 a = words[0] >> shift & 0xffu, b = words[1] >> shift & 0xffu, c = words[2] >> shift & 0xffu;
    *scale = group < 4 ? a & 63u : (c & 15u) | (a >> 6) << 4;
    *least = group < 4 ? b & 63u : c >> 4 | (b >> 6) << 4;
}

// Q4_K and Q5_K: a unit is two groups of 32 weights. Their four-bit codes are the low and the high halves of 32 bytes. With FIFTH, 32
// more bytes of the block have the fifth bits, one bit of each byte for each group.
template <bool FIFTH> struct FourBits {
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 16 + (FIFTH ? 32 : 0) + 128, ALIGNED = 16;
    static const bool PAIRED = true, OFFSET = true;
    RF_FN static void unpack(const u8* block, u32 unit, Run* runs) {
        FourWords<16> header(block);
        float d = to_f32(bit_cast<f16>((u16)header.at[0])), least_d = to_f32(bit_cast<f16>((u16)(header.at[0] >> 16)));
        const u8* codes = block + 16 + (FIFTH ? 32 : 0) + 32 * unit;
        for (int half = 0; half < 2; ++half) {
            FourWords<16> words(codes + 16 * half);
            u32 fifths[4];
            if (FIFTH) {
                FourWords<16> bits(block + 16 + 16 * half);
                for (int i = 0; i < 4; ++i) fifths[i] = bits.at[i] >> (2 * unit);
            }
            for (int group = 0; group < 2; ++group) {
                Run& run = runs[2 * group + half];
                for (int i = 0; i < 4; ++i) {
                    run.codes[i] = (words.at[i] >> (4 * group)) & 0x0f0f0f0fu;
                    if (FIFTH) run.codes[i] |= ((fifths[i] >> group) & 0x01010101u) << 4;
                }
            }
        }
        for (int group = 0; group < 2; ++group) {
            u32 scale, least;
            scale_and_least(header.at + 1, 2 * unit + group, &scale, &least);
            for (int half = 0; half < 2; ++half) {
                Run& run = runs[2 * group + half];
                run.scale = d * (float)scale;
                run.offset = -(least_d * (float)least);
                run.at = 64 * unit + 32 * group + 16 * half;
            }
        }
    }
};
template <> struct Gguf<Q4_K> : FourBits<false> {};
template <> struct Gguf<Q5_K> : FourBits<true> {};

// The other K types: unit 2·c + h has bytes h·16 to h·16 + 15 of the c-th 128 weights. Its run s begins at weight 32·s + 16·h of these.
RF_FN u32 run_place(u32 unit, int run) { return 128 * (unit / 2) + 32 * run + 16 * (unit & 1u); }

template <> struct Gguf<Q2_K> {
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 84, ALIGNED = 4;
    static const bool PAIRED = false, OFFSET = true;
    RF_FN static void unpack(const u8* block, u32 unit, Run* runs) {
        FourWords<4> words(block + 16 + 16 * unit);
        float d = half_at(block + 80), least = half_at(block + 82);
        for (int run = 0; run < 4; ++run) {
            u32 scales = block[8 * (unit / 2) + 2 * run + (unit & 1u)];
            for (int i = 0; i < 4; ++i) runs[run].codes[i] = (words.at[i] >> (2 * run)) & 0x03030303u;
            runs[run].scale = d * (float)(scales & 15u);
            runs[run].offset = -(least * (float)(scales >> 4));
            runs[run].at = run_place(unit, run);
        }
    }
};
template <> struct Gguf<Q3_K> {
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 110, ALIGNED = 2;
    static const bool PAIRED = false, OFFSET = false;
    RF_FN static void unpack(const u8* block, u32 unit, Run* runs) {
        FourWords<2> words(block + 32 + 16 * unit), thirds(block + 16 * (unit & 1u));
        float d = half_at(block + 108);
        for (int run = 0; run < 4; ++run) {
            // Scale n of 16 has six bits: the low four in a half of byte n mod 8, the other two in byte 8 + n mod 4.
            u32 n = 8 * (unit / 2) + 2 * run + (unit & 1u);
            u32 scale = (block[96 + n % 8] >> (4 * (n / 8)) & 15u) | (block[104 + n % 4] >> (2 * (n / 4)) & 3u) << 4;
            for (int i = 0; i < 4; ++i) {
                u32 third = (thirds.at[i] >> (4 * (unit / 2) + run)) & 0x01010101u;
                runs[run].codes[i] = less_each((words.at[i] >> (2 * run) & 0x03030303u) | third << 2, 4);
            }
            runs[run].scale = d * (float)((i32)scale - 32);
            runs[run].offset = 0.0f;
            runs[run].at = run_place(unit, run);
        }
    }
};
template <> struct Gguf<Q6_K> {
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 210, ALIGNED = 2;
    static const bool PAIRED = false, OFFSET = false;
    RF_FN static void unpack(const u8* block, u32 unit, Run* runs) {
        const u8* low = block + 64 * (unit / 2) + 16 * (unit & 1u);
        FourWords<2> even(low), odd(low + 32), high(block + 128 + 16 * unit);
        float d = half_at(block + 208);
        for (int run = 0; run < 4; ++run) {
            for (int i = 0; i < 4; ++i) {
                u32 four = (run % 2 == 0 ? even.at[i] : odd.at[i]) >> (4 * (run / 2)) & 0x0f0f0f0fu;
                runs[run].codes[i] = less_each(four | (high.at[i] >> (2 * run) & 0x03030303u) << 4, 32);
            }
            runs[run].scale = d * (float)(i8)block[192 + 8 * (unit / 2) + 2 * run + (unit & 1u)];
            runs[run].offset = 0.0f;
            runs[run].at = run_place(unit, run);
        }
    }
};

// A code of four as a float.
RF_FN float code_of(u32 codes, int i) {
#if RF_DEVICE_AMD || defined(RF_HOST)
    return (float)(i8)(codes >> (8 * i));
#else
    // As the lowest byte of 2^23 it counts ones: a conversion takes four times as long.
    return bit_cast<float>(__byte_perm(codes ^ 0x80808080u, 0x4b000000u, 0x7540u + i)) - 8388736.0f;
#endif
}
// A weight of a run.
RF_FN float weight_at(const Run& run, int i) { return run.scale * code_of(run.codes[i / 4], i % 4) + run.offset; }

// The sum over 32 neighbouring lanes of a wave, in each of them.
RF_FN float sum_of_32(float value) {
    value += dpp<RF_DPP_XOR1>(value);
    value += dpp<RF_DPP_XOR2>(value);
    value += dpp<RF_DPP_HALF_MIRROR>(value);
    value += dpp<RF_DPP_MIRROR>(value);
    return value + Words<float, 1>::each(value, Xor16());
}

#endif
