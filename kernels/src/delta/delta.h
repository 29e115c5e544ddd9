// delta.h: what the kernels of the gated delta rule share: arguments, where a sequence lies, gates. Stands before delta.hip and chunk.hip.
//
// Macros : DELTA_TYPE of q, k, v and out, DELTA_STATE of states, DELTA_GATE of gates; DELTA_K: channels of a key;
//          DELTA_GATES: 0 given, 1 made, 2 made with a bound; DELTA_ROWS: whether each row of a state has a decay of its own;
//          DELTA_KEEPS: whether there are slots for the state after each token
using namespace rf;

typedef DELTA_TYPE T;
typedef DELTA_STATE State;
typedef DELTA_GATE Gate;

struct DeltaArgs {
    const T *q, *k, *v;
    T* out;
    const Gate *a, *b;              // decays and strengths, or what they are made from
    const float *a_log, *dt_bias;   // [heads]; dt_bias [heads, DELTA_K] where rows have their own decays
    State* states;
    const i32 *starts;              // [sequences + 1]
    const i32 *from, *to;               // [sequences], or rows of slots
    const i32 *continues, *accepted;    // [sequences]; may be null: all do, at the first of a row
    i64 q_token, q_head, k_token, k_head, v_token, v_head, out_token, out_head;
    i64 a_token, a_head, b_token, b_head;
    i64 state_slot, state_head, state_row, state_column;
    i64 from_row, to_row;
    FastDiv tiles, heads, group;    // of value heads; group: value heads of a key head
    u32 tokens, slots, columns, normalises;
    float scale, bound;
    u32 chunks;     // of the longest sequence
    u32 sequences;  // whose workgroups write zeros to the tokens of no sequence; 0: those are left as they are
    u32 from_places, to_places;
    i32 pad;        // a slot that stands for none, as negative ones do
};
static_assert(sizeof(DeltaArgs) == 336, "as in delta.rs");

RF_FN float sigmoid(float x) { return 1.0f / (1.0f + rf::exp(-x)); }
RF_FN float softplus(float x) { return x > 20.0f ? x : rf::log1p(rf::exp(x)); }

// A decay's logarithm. `rate` and `bias` are what gates are made with.
RF_FN float decay_log(const DeltaArgs& g, float a, float rate, float bias) {
#if DELTA_GATES == 0
    return a;
#elif DELTA_GATES == 1
    return -rate * softplus(a + bias);
#else
    return g.bound * sigmoid(rate * (a + bias));
#endif
}
RF_FN float strength(float b) {
#if DELTA_GATES == 0
    return b;
#else
    return sigmoid(b);
#endif
}
RF_FN float rate_of(const DeltaArgs& g, u32 head) {
#if DELTA_GATES == 0
    return 1.0f;
#else
    return rf::exp(g.a_log[head]);
#endif
}

// A bound of sequences: a token that there is, or the one behind the last, whatever the starts say.
RF_FN u32 start_of(const DeltaArgs& g, u32 number) {
    const i32 start = g.starts[number];
    return start < 0 ? 0 : (u32)start > g.tokens ? g.tokens : (u32)start;
}

// Tokens of no sequence that are to be written: before the first one's and behind the last one's.
struct Spare {
    u32 count, first, behind;

    RF_FN void read(const DeltaArgs& g) {
        count = first = behind = 0;
        if (g.sequences == 0) return;
        first = start_of(g, 0);
        behind = start_of(g, g.sequences);
        behind = behind < first ? first : behind;
        count = first + g.tokens - behind;
    }
    RF_FN u32 token(u32 n) const { return n < first ? n : behind + n - first; }
};

RF_FN bool is_slot(const DeltaArgs& g, u32 slot) { return slot < g.slots && slot != (u32)g.pad; }

// One sequence's tokens and slots.
struct Sequence {
    u32 first, count;
    u32 from, to;
    bool is_there, continues;

    RF_FN void read(const DeltaArgs& g, u32 number) {
        const u32 end = start_of(g, number + 1);
        first = start_of(g, number);
        count = end > first ? end - first : 0;
        to = (u32)g.to[(i64)number * g.to_row];
        continues = !g.continues || g.continues[number] != 0;
        const u32 place = g.accepted ? (u32)g.accepted[number] - 1 : 0;
        from = ~0u;
        if (place < g.from_places) from = (u32)g.from[(i64)number * g.from_row + place];
        is_there = (!continues || is_slot(g, from)) && (DELTA_KEEPS || is_slot(g, to));
    }
};
