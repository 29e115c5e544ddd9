// sequences.h: rows of sequences one after the other, and the slots of a pool that hold their states. Stands before the kernels that
// use it.
using namespace rf;

RF_CHECKS_INDICES

struct Sequences {
    const i32* starts;   // [count + 1]
    const i32* slots;    // [count]
    const void* fresh;   // [count] bytes or i32; no address: none is fresh
    i64 slot_stride, fresh_stride;
    u32 count, tokens, pool, fresh_bytes;
    i32 pad;             // a slot that stands for none, as negative ones do
    u32 padding;
};
static_assert(sizeof(Sequences) == 64, "as in sequences.rs");

// A sequence's rows, from `begin` to `end`; both are rows that there are, whatever the starts say.
struct Span { u32 number, begin, end; };

RF_FN u32 start_of(const Sequences& g, u32 number) {
    const i32 start = g.starts[number];
    return start < 0 ? 0 : (u32)start > g.tokens ? g.tokens : (u32)start;
}
RF_FN Span span_of(const Sequences& g, u32 number) {
    const Span span = {number, start_of(g, number), start_of(g, number + 1)};
    return span;
}
// The last sequence that begins at a token or before it; the first where none does. Where each has one token, the first guess is right.
RF_FN Span sequence_at(const Sequences& g, u32 token) {
    if (token < g.count) {
        const Span guess = span_of(g, token);
        if (guess.begin == token && guess.end == token + 1) return guess;
    }
    u32 low = 0, high = g.count;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (start_of(g, middle) <= token) low = middle;
        else high = middle;
    }
    return span_of(g, low);
}
// The slot of a sequence; -1 where it has none.
#define SLOT_OF(g, number, name) slot_of(g, (g).slots[(i64)(number) * (g).slot_stride], SlotTold<RF_LETTERS(name)>())
template <u64 A, u64 B, u64 C> struct SlotTold {
    RF_FN void operator()(i64 slot, i64 pool) const { tell_index<A, B, C>(rf_index_record, slot, pool); }
};
template <class Tell> RF_FN i64 slot_of(const Sequences& g, i32 slot, Tell tell) {
    if (slot == g.pad) return -1;
    if (slot >= 0 && (u32)slot >= g.pool) {
        tell(slot, g.pool);
        return -1;
    }
    return slot < 0 ? -1 : slot;
}
// Whether a sequence begins with zeros, whatever its slot holds.
RF_FN bool is_fresh(const Sequences& g, u32 number) {
    if (g.fresh == 0) return false;
    const i64 at = (i64)number * g.fresh_stride;
    return g.fresh_bytes == 1 ? ((const u8*)g.fresh)[at] != 0 : ((const i32*)g.fresh)[at] != 0;
}
