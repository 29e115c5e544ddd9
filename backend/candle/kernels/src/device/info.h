// info.h: the vector of extents and strides that Candle sends with its kernels, and elements found through it.
//
// The words are Candle's: the extents, then one vector of strides (in elements) per operand. All zeros means that Candle
// sent none, because every operand is contiguous: a first extent of 0 says the same, for such a tensor has no elements.
// Candle counts elements in 32 bits; offsets are of 64.
#ifndef CANDLE_INFO_H
#define CANDLE_INFO_H
using namespace rf;

#define CANDLE_INFO_WORDS 32
// CUDA would copy arguments that are indexed to local memory.
#if RF_DEVICE_AMD
#define CANDLE_ARGUMENT
#else
#define CANDLE_ARGUMENT const __grid_constant__
#endif

struct Info { u64 words[CANDLE_INFO_WORDS]; };

// Whether the operand whose strides are vector number `operand` lies in row-major order without gaps.
RF_FN bool is_dense(const Info& info, u32 axes, u32 operand) {
    u64 run = 1;
    if (axes == 0 || info.words[0] == 0) return true;
    for (u32 axis = axes; axis-- > 0;) {
        u64 extent = info.words[axis];
        if (extent > 1 && info.words[operand * axes + axis] != run) return false;
        run *= extent;
    }
    return true;
}

// Where element `n` of the operand, one that there is, is found.
RF_FN u64 offset_of(const Info& info, u32 axes, u32 operand, u32 n) {
    u64 offset = 0;
    if (axes == 0) return offset;
    for (u32 axis = axes - 1; axis > 0; --axis) {
        u32 extent = (u32)info.words[axis];
        u32 rest = n / extent;
        offset += (n - rest * extent) * info.words[operand * axes + axis];
        n = rest;
    }
    return offset + n * info.words[operand * axes];
}

// The greatest id of its type means "none" to Candle.
template <class Id> RF_FN bool is_none(Id id) { return id == (Id)Limits<Id>::high; }
// An id as a place along an axis: none is outside every one.
template <class Id> RF_FN u64 place_of(Id id) { return is_none(id) ? ~0ull : (u64)(i64)id; }

#endif
