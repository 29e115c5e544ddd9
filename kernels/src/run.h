// run.h: eight neighbouring elements of a row as memory has them: those of a 16-bit type take half of the registers that they would
// take as floats. Stands before the kernels that use it.
namespace rf {

#define RUN_ELEMENTS 8

template <class T> struct Run {
    static const int PER = 4 / (int)sizeof(T), WORDS = RUN_ELEMENTS / PER;
    u32 words[WORDS];

    RF_FN static void of_bits(u32 bits, float& x) { x = bit_cast<float>(bits); }
    RF_FN static void of_bits(u32 bits, f16& x) { x.bits = (u16)bits; }
    RF_FN static void of_bits(u32 bits, bf16& x) { x.bits = (u16)bits; }
    RF_FN static u32 bits_of(float x) { return bit_cast<u32>(x); }
    RF_FN static u32 bits_of(f16 x) { return x.bits; }
    RF_FN static u32 bits_of(bf16 x) { return x.bits; }
    RF_FN static void put_two(u32* to, float low, float high, float*) {
        to[0] = bit_cast<u32>(low);
        to[1] = bit_cast<u32>(high);
    }
    template <class H> RF_FN static void put_two(u32* to, float low, float high, H*) { to[0] = two_of<H>(low, high); }

    RF_FN float operator[](int i) const {
        T x;
        of_bits(words[i / PER] >> (i % PER * 16), x);
        return cast<float>(x);
    }
    // Elements i, which is even, and i + 1, rounded to T.
    RF_FN void put(int i, float low, float high) { put_two(words + i / PER, low, high, (T*)0); }
    RF_FN void make_anew() {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) rf::make_anew(words[i]);
    }
    // From and to memory, 16 bytes at a time.
    RF_FN void get(const T* from) {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const Vec<u32, 4> some = load<4>((const u32*)(const void*)from + i);
#pragma unroll
            for (int j = 0; j < 4; ++j) words[i + j] = some[j];
        }
    }
    RF_FN void store_to(T* to) const {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            Vec<u32, 4> some;
#pragma unroll
            for (int j = 0; j < 4; ++j) some[j] = words[i + j];
            store<4>((u32*)(void*)to + i, some);
        }
    }
    // Floats rounded to T.
    RF_FN static void store_floats(T* to, const float (&from)[RUN_ELEMENTS]) {
        Run run;
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; i += 2) run.put(i, from[i], from[i + 1]);
        run.store_to(to);
    }
};

}  // namespace rf
