// words.h: elements of a row beside a cache, and of a cache's plane, as they lie there. Stands behind cache.h and code.h.
//
// COUNT neighbouring elements, 4 or 8. `is_whole`: whether rows begin at multiples of 16 bytes, so that accesses of up to 16 may be made.
template <class E, int COUNT = LANE_CHANNELS> struct RowWords {
    static const int PER = 4 / (int)sizeof(E), BITS = 8 * (int)sizeof(E), WORDS = COUNT / PER, EACH = WORDS < 4 ? WORDS : 4;
    u32 words[WORDS];

    RF_FN void clear() { __builtin_memset(words, 0, sizeof(words)); }
    RF_FN void read(const E* from, bool is_whole) {
        if (is_whole) {
#pragma unroll
            for (int w = 0; w < WORDS; w += EACH) {
                const Vec<u32, EACH> part = load<EACH>((const u32*)(const void*)from + w);
#pragma unroll
                for (int i = 0; i < EACH; ++i) words[w + i] = part[i];
            }
            return;
        }
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < PER; ++i) words[w] |= Element<E>::read(from + w * PER + i) << (i * BITS % 32);
        }
    }
    RF_FN void write(E* to, bool is_whole) const {
        if (is_whole) {
#pragma unroll
            for (int w = 0; w < WORDS; w += EACH) {
                Vec<u32, EACH> part;
#pragma unroll
                for (int i = 0; i < EACH; ++i) part[i] = words[w + i];
                store<EACH>((u32*)(void*)to + w, part);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) Element<E>::write(to + i, words[i / PER] >> (i % PER * BITS % 32));
    }
    RF_FN float get(int i) const {
        const u32 bits = words[i / PER] >> (i % PER * BITS % 32);
        return Element<E>::of(BITS == 32 ? bits : bits & ((1u << (BITS % 32)) - 1));
    }
    // From all of its numbers.
    RF_FN void put(const float* x) {
        clear();
#pragma unroll
        for (int i = 0; i < COUNT; ++i) words[i / PER] |= Element<E>::bits(x[i]) << (i % PER * BITS % 32);
    }
};

// Eight channels of a plane's token at `at`, in accesses of pieces where they lie so.
RF_FN void read_channels(const CachePlane& plane, i64 at, u32 channel, Channels& to) {
    if (plane.whole & 1) {
        const i64 first = channel_at(plane, channel);
        to.read(plane.at + at + first, channel_at(plane, channel + PIECE) - first);
        return;
    }
    to.clear();
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) to.put_bits(i, Element<Code>::read(plane.at + at + channel_at(plane, channel + i)));
}
RF_FN void write_channels(const CachePlane& plane, i64 at, u32 channel, const Channels& from) {
    if (plane.whole & 1) {
        const i64 first = channel_at(plane, channel);
        from.write(plane.at + at + first, channel_at(plane, channel + PIECE) - first);
        return;
    }
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) Element<Code>::write(plane.at + at + channel_at(plane, channel + i), from.bits(i));
}
