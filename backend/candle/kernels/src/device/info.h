// info.h: the vector of extents and strides that Candle sends with its kernels, and ids.
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

// The greatest id of its type means "none" to Candle.
template <class Id> RF_FN bool is_none(Id id) { return id == (Id)Limits<Id>::high; }
// An id as a place along an axis: none is outside every one.
template <class Id> RF_FN u64 place_of(Id id) { return is_none(id) ? ~0ull : (u64)(i64)id; }

#endif
