// coded_rows.h: the activations that are multiplied with the blocks of gguf.h, which stands before it.
//
// Activations are rows of int8 codes with a scale per 32 codes, and the sum of those 32 before rounding. A row of `padded` codes (a
// multiple of 512) takes the 36 bytes per 32 codes that Candle allocates: first all codes, then a Scale per 32.
#ifndef CANDLE_CODED_ROWS_H
#define CANDLE_CODED_ROWS_H

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

#endif
