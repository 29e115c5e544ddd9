// gguf.h: the blocks of GGUF's quantised types, and the activations that are multiplied with them.
//
// A weight is scale · code + offset, with one scale and offset per 16 weights. A unit is what a lane decodes at once: the
// 32 weights of a block of the older types, a quarter (64) of a block of the K types. It is decoded to SUBS runs of 16 weights;
// each `Run` has the codes, four to a word, and says where in the block it begins. Layouts: ggml's `ggml-common.h`, as in
// candle-core's k_quants.rs.
//
// Activations are rows of int8 codes with a scale per 32 codes, and the sum of those 32 before rounding. A row of `padded` codes (a
// multiple of 512) takes the 36 bytes per 32 codes that Candle allocates: first all codes, then a Scale per 32.
#ifndef CANDLE_GGUF_H
#define CANDLE_GGUF_H
using namespace rf;

// The dot product of two words of four int8, added to `sum`.
#if RF_DEVICE_AMD
#if __has_builtin(__builtin_amdgcn_sdot4)
RF_FN i32 dot4(u32 a, u32 b, i32 sum) { return __builtin_amdgcn_sdot4((i32)a, (i32)b, sum, false); }
#elif __has_builtin(__builtin_amdgcn_sudot4)
RF_FN i32 dot4(u32 a, u32 b, i32 sum) { return __builtin_amdgcn_sudot4(true, (i32)a, true, (i32)b, sum, false); }
#else
RF_FN i32 dot4(u32 a, u32 b, i32 sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += (i32)(i8)(a >> shift) * (i32)(i8)(b >> shift);
    return sum;
}
#endif
#else
RF_FN i32 dot4(u32 a, u32 b, i32 sum) {
    i32 result;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
#endif

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
    static const int SIZE = 32, UNITS = 1, SUBS = 2, BYTES = HEADER + (FIFTH ? 4 : 0) + 16;
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
    static const int SIZE = 32, UNITS = 1, SUBS = 2, BYTES = 34;
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
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 16 + (FIFTH ? 32 : 0) + 128;
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
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 84;
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
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 110;
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
    static const int SIZE = 256, UNITS = 4, SUBS = 4, BYTES = 210;
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

// --- activations ---

// The scale of 32 codes, and the sum of the 32 values before rounding, in eighths of the scale.
struct Scale { f16 scale; short sum; };
// The bytes that Candle allocates for a row of activations.
RF_FN u64 activation_bytes(u64 padded) { return padded / 32 * 36; }

// A row of activations.
struct Activations {
    const u8* codes;
    const Scale* scales;
    RF_FN Activations(const u8* rows, u64 row, u64 padded) {
        codes = rows + row * activation_bytes(padded);
        scales = (const Scale*)(codes + padded);
    }
};

// The dot product of a unit of weights with the activations. `first` is the column at which the unit's block begins.
template <int TYPE> RF_FN float unit_dot(const Run* runs, const Activations& x, u32 first) {
    typedef Gguf<TYPE> Type;
    float sum = 0.0f;
    const int STEP = Type::PAIRED ? 2 : 1;
    for (int run = 0; run < Type::SUBS; run += STEP) {
        i32 dot = 0, ones = 0;
        for (int i = 0; i < STEP; ++i) {
            FourWords<16> words(x.codes + first + runs[run + i].at);
            for (int j = 0; j < 4; ++j) {
                dot = dot4(runs[run + i].codes[j], words.at[j], dot);
                if (!Type::PAIRED && Type::OFFSET) ones = dot4(0x01010101u, words.at[j], ones);
            }
        }
        Scale scale = x.scales[(first + runs[run].at) / 32];
        float of_ones = Type::PAIRED ? 0.125f * (float)scale.sum : (float)ones;
        float scaled = runs[run].scale * (float)dot;
        sum += to_f32(scale.scale) * (Type::OFFSET ? scaled + runs[run].offset * of_ones : scaled);
    }
    return sum;
}

// A unit of weights as a mat-vec keeps it in registers until its dot products.
template <int TYPE> struct Unit {
    Run runs[Gguf<TYPE>::SUBS];
    RF_FN Unit(const u8* block, u32 unit) { Gguf<TYPE>::unpack(block, unit, runs); }
    RF_FN float dot(const Activations& x, u32, u32 first) const { return unit_dot<TYPE>(runs, x, first); }
};
// Four-bit codes stay packed until they are multiplied, and six-bit scales are multiplied as integers. That takes fewer
// instructions, which are what limits this kernel: memory gives weights faster than compute units can decode them.
template <> struct Unit<Q4_K> {
    FourWords<16> header, low, high;
    RF_FN Unit(const u8* block, u32 unit) : header(block), low(block + 16 + 32 * unit), high(block + 32 + 32 * unit) {}
    RF_FN float dot(const Activations& x, u32 unit, u32 first) const {
        float d = to_f32(bit_cast<f16>((u16)header.at[0])), least_d = to_f32(bit_cast<f16>((u16)(header.at[0] >> 16))) * 0.125f;
        float sum = 0.0f;
        for (u32 group = 0; group < 2; ++group) {
            u32 scale, least, at = first + 64 * unit + 32 * group;
            scale_and_least(header.at + 1, 2 * unit + group, &scale, &least);
            FourWords<16> x_low(x.codes + at), x_high(x.codes + at + 16);
            i32 dot = 0;
            for (int j = 0; j < 4; ++j) {
                dot = dot4((low.at[j] >> (4 * group)) & 0x0f0f0f0fu, x_low.at[j], dot);
                dot = dot4((high.at[j] >> (4 * group)) & 0x0f0f0f0fu, x_high.at[j], dot);
            }
            Scale of_x = x.scales[at / 32];
            sum += to_f32(of_x.scale) * (d * (float)((i32)scale * dot) - least_d * (float)((i32)least * of_x.sum));
        }
        return sum;
    }
};

// Six-bit codes keep their excess of 32: 32 times the sum of the activations' codes is subtracted instead. That takes four
// instructions instead of twelve.
template <> struct Unit<Q6_K> {
    FourWords<2> even, odd, high;
    float scales[4];
    RF_FN Unit(const u8* block, u32 unit)
        : even(block + 64 * (unit / 2) + 16 * (unit & 1u)),
          odd(block + 64 * (unit / 2) + 16 * (unit & 1u) + 32),
          high(block + 128 + 16 * unit) {
        float d = half_at(block + 208);
        for (int run = 0; run < 4; ++run) scales[run] = d * (float)(i8)block[192 + 8 * (unit / 2) + 2 * run + (unit & 1u)];
    }
    RF_FN float dot(const Activations& x, u32 unit, u32 first) const {
        float sum = 0.0f;
        for (int run = 0; run < 4; ++run) {
            const u32 at = first + run_place(unit, run);
            const int left = 4 - 2 * run;
            FourWords<16> words(x.codes + at);
            i32 dot = 0, ones = 0;
            for (int i = 0; i < 4; ++i) {
                const u32 four = (run % 2 == 0 ? even.at[i] : odd.at[i]) >> (4 * (run / 2)) & 0x0f0f0f0fu;
                const u32 two = (left < 0 ? high.at[i] >> -left : high.at[i] << left) & 0x30303030u;
                dot = dot4(four | two, words.at[i], dot);
                ones = dot4(0x01010101u, words.at[i], ones);
            }
            sum += to_f32(x.scales[at / 32].scale) * (scales[run] * (float)(dot - 32 * ones));
        }
        return sum;
    }
};

// If a block's length is no multiple of 16 bytes, each lane would read its unit in small pieces, and the lanes of one access would
// read from all over a line. So 32 lanes first copy a round of 32 units to LDS, in pieces of 16 bytes side by side.
template <int TYPE> struct Round {
    static const bool STAGED = Gguf<TYPE>::BYTES % 16 != 0;
    static const u32 BLOCKS = 32 / Gguf<TYPE>::UNITS, BYTES = BLOCKS * Gguf<TYPE>::BYTES;
    // PIECES: how many pieces a round lies in, wherever in a piece its first byte is. OWN: pieces of a lane. ROOM: bytes of LDS.
    static const u32 PIECES = BYTES / 16 + 1;
    static const int OWN = (PIECES + 31) / 32, ROOM = STAGED ? PIECES * 16 : 0;
    static_assert(!STAGED || BYTES % 16 == 0, "rounds begin alike");
};
// A line of weights that 32 lanes copy to LDS, round after round. It is read from the multiple of 16 bytes at or before its address.
// What lies between the two belongs to the line before it; a tensor's first line begins at a multiple of 16 bytes.
template <int TYPE> struct StagedLine {
    typedef Round<TYPE> R;
    const u8* from;
    u32 before, bytes;
    Vec<u32, 4> held[R::OWN];

    RF_FN void start(const u8* line, u32 line_bytes) {
        before = (u32)(u64)line & 15u;
        from = line - before;
        bytes = before + line_bytes;
    }
    RF_FN bool is_there(u32 round, u32 piece) const {
        return piece * 16 < before + R::BYTES && round * R::BYTES + (piece + 1) * 16 <= bytes;
    }
    RF_FN void fetch(u32 round, u32 lane) {
        for (int i = 0; i < R::OWN; ++i) {
            const u32 piece = lane + 32 * i;
            if (is_there(round, piece)) held[i] = load<4>((const u32*)(from + round * R::BYTES + piece * 16));
        }
    }
    RF_FN void put(u32 round, u32 lane, u8* lds) const {
        for (int i = 0; i < R::OWN; ++i) {
            const u32 piece = lane + 32 * i;
            if (is_there(round, piece)) store<4>((u32*)(lds + piece * 16), held[i]);
        }
        // The end of the line that is less than a piece.
        const u32 last = bytes & ~15u, at = last - round * R::BYTES + 2 * lane;
        if (last >= round * R::BYTES && last + 2 * lane < bytes && at < before + R::BYTES) *(u16*)(lds + at) = *(const u16*)(from + last + 2 * lane);
    }
};

// The sum over 32 neighbouring lanes of a wave, in each of them.
RF_FN float sum_of_32(float value) {
    value += dpp<RF_DPP_XOR1>(value);
    value += dpp<RF_DPP_XOR2>(value);
    value += dpp<RF_DPP_HALF_MIRROR>(value);
    value += dpp<RF_DPP_MIRROR>(value);
    return value + Words<float, 1>::each(value, Xor16());
}

#endif
