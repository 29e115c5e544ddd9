// paged_part.h: what a lane of the matrix unit's products reads of a key. Stands behind paged.h, ahead of paged_matrix.h and paged_pairs.h.

// COUNT neighbouring channels of a key as they lie in a plane, and as words of H.
template <int COUNT> struct Part {
    static const int WORDS = COUNT * (int)sizeof(Code) / 4;
    u32 raw[WORDS];

    RF_FN void read(const char* from) {
        const Vec<u32, WORDS> all = load_past_l1<WORDS>((const u32*)from);
#pragma unroll
        for (int i = 0; i < WORDS; ++i) raw[i] = all[i];
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) raw[i] = 0;
    }
    RF_FN u32 word(int i) const {
#if CACHE_IS_CODED
        return decode_word<In>(raw[i / 2], i % 2 != 0);
#else
        return raw[i];
#endif
    }
    // Channels 2 i and 2 i + 1 of two keys, of one channel each.
    RF_FN static void pairs(const Part& a, const Part& b, int i, u32& low, u32& high) {
#if CACHE_IS_CODED
        // Codes are put together: half as many words as of what they become.
        const u32 both = i % 2 != 0 ? zip_high_bytes(a.raw[i / 2], b.raw[i / 2]) : zip_low_bytes(a.raw[i / 2], b.raw[i / 2]);
        low = decode_word<In>(both, false);
        high = decode_word<In>(both, true);
#else
        low = low_halves(a.raw[i], b.raw[i]);
        high = high_halves(a.raw[i], b.raw[i]);
#endif
    }
};

