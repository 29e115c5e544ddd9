// index.h: division by a number that the host knows, the coordinates of an element in a box of three axes, and how the host is
// told of an index outside its axis.
#ifndef ROCFIRE_INDEX_H
#define ROCFIRE_INDEX_H
namespace rf {

// n / divisor for n < 2^31 by one high multiplication (Granlund and Montgomery, "Division by invariant integers using
// multiplication", PLDI 1994): multiplier and shift come from the launcher.
struct FastDiv {
    u32 divisor, multiplier, shift;
    RF_FN u32 divide(u32 n) const { return ((u32)(((u64)n * multiplier) >> 32) + n) >> shift; }
};

// Element number `n` of a box [?, middle, inner], row-major.
struct Coordinates { u32 outer, middle, inner; };
RF_FN Coordinates coordinates(u32 n, const FastDiv& middle, const FastDiv& inner) {
    u32 line = inner.divide(n);
    Coordinates c;
    c.inner = n - line * inner.divisor;
    c.outer = middle.divide(line);
    c.middle = line - c.outer * middle.divisor;
    return c;
}

// Strides of a box of three axes, in elements.
struct Strides3 {
    i64 outer, middle, inner;
    RF_FN i64 at(u32 o, i64 m, u32 i) const { return (i64)o * outer + m * middle + (i64)i * inner; }
};

#if !defined(RF_HOST)
// Where an index outside its axis is told of. The host fills this in when it loads a module that says RF_CHECKS_INDICES, and looks
// at the details when it has waited for the device.
struct IndexRecord {
    u64 claim;    // address of a word of the device: 0 while there is nothing to tell. No address: nobody wants to know
    u64 details;  // address of words that the host sees, too: whether they are there, three of the operator's name, index, extent
};

// Eight letters of a name, from number `from` on.
RF_FN constexpr u64 letters(const char* name, int from) {
    u64 word = 0;
    for (int i = 0; i < from + 8 && name[i] != 0; ++i)
        if (i >= from) word |= (u64)(u8)name[i] << (8 * (i - from));
    return word;
}
#define RF_LETTERS(name) rf::letters(name, 0), rf::letters(name, 8), rf::letters(name, 16)

// In halves: of a constant in two registers the compiler keeps a copy for the whole kernel, of one in one it does not.
RF_FN void put_halves(volatile u32* to, u64 value) {
    to[0] = (u32)value;
    to[1] = (u32)(value >> 32);
}

// Of all lanes that come here, one writes: the first to take the word.
template <u64 A, u64 B, u64 C> RF_FN void tell_index(const IndexRecord& record, i64 index, i64 extent) {
    if (record.claim == 0) return;
#if RF_DEVICE_AMD
    u64* claim = (u64*)(__attribute__((address_space(1))) u64*)record.claim;
    volatile u32* details = (volatile u32*)(volatile __attribute__((address_space(1))) u32*)record.details;
    u64 nobody = 0;
    if (!__atomic_compare_exchange_n(claim, &nobody, 1ull, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
#else
    u64* claim = (u64*)record.claim;
    volatile u32* details = (volatile u32*)record.details;
    if (atomicCAS(claim, 0ull, 1ull) != 0) return;
#endif
    put_halves(details + 2, A);
    put_halves(details + 4, B);
    put_halves(details + 6, C);
    put_halves(details + 8, (u64)index);
    put_halves(details + 10, (u64)extent);
#if RF_DEVICE_AMD
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
#else
    __threadfence_system();
#endif
    details[0] = 1;
}

// Stands once in a source whose kernels tell.
#define RF_CHECKS_INDICES \
    extern "C" { __device__ rf::IndexRecord rf_index_record; }
// Tells that operator `name`, a literal of at most 24 letters, met an index outside 0..extent. For the branch that follows no index:
// it costs nothing where every index is inside.
#define RF_TELL_INDEX(name, index, extent) rf::tell_index<RF_LETTERS(name)>(rf_index_record, index, extent)
#endif

}  // namespace rf
#endif
