// sorted_update: out[o, keys[o, j, i], i] = update(out[..], value[o, order[o, j, i], i]) for j = 0, 1, …, n - 1 in turn
//
// Shapes : out [outer, extent, inner]; value [outer, n, inner]; keys, order [outer, n, inner] with any strides, 0 where all
//          lines share them; keys ascend along n
// Grid   : (ceil(count / 256), 1, 1)            one lane per element of value; those that begin a run of equal keys work
// Block  : (256, 1, 1)
// Needs  : count < 2^31; out overlaps no input; order below n               checked by the launcher
// Numeric: updates of one element happen in ascending j, kept in registers; each is rounded to SORTED_RUNNING, the last to
//          the element type. A key outside 0..extent is passed over and told of; with SORTED_NONE the greatest of its type is
//          passed over and not told of
//
// scatter and select_update come here when there are many indices: sorted stably, those of one element follow each other in
// their order, and elements are updated side by side.
//
// Macros : SORTED_TYPE, SORTED_INDEX; SORTED_UPDATE: 0 assign, 1 add, 2 multiply, 3 minimum, 4 maximum; SORTED_WIDE: 1 to
//          keep 16-bit floats in f32 between updates; SORTED_NONE: 1 if the greatest of SORTED_INDEX is no index; SORTED_NAME, if
//          any: the operator's in reports, in place of the launcher's
using namespace rf;

RF_CHECKS_INDICES

#define LITERAL_OF(name) #name
#define LITERAL(name) LITERAL_OF(name)

#if SORTED_WIDE
typedef Acc<SORTED_TYPE>::type Running;
#else
typedef SORTED_TYPE Running;
#endif

struct SortedUpdateArgs {
    SORTED_TYPE* out;
    const SORTED_INDEX* keys;
    const i32* order;
    const SORTED_TYPE* value;
    Strides3 out_strides, key_strides, value_strides;
    i64 extent;
    FastDiv middle, inner;
    u32 count, op;  // op, without SORTED_NAME: 0 scatter, 1 select_update
};
static_assert(sizeof(SortedUpdateArgs) == 144, "as in sorted_update.rs");

extern "C" __global__ __launch_bounds__(256) void sorted_update(SortedUpdateArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Coordinates c = coordinates(n, g.middle, g.inner);
    const SORTED_INDEX* keys = g.keys + g.key_strides.at(c.outer, 0, c.inner);
    const i32* order = g.order + g.key_strides.at(c.outer, 0, c.inner);
    i64 step = g.key_strides.middle;
    SORTED_INDEX key = keys[c.middle * step];
    i64 row = (i64)key;
    if (SORTED_NONE && key == (SORTED_INDEX)Limits<SORTED_INDEX>::high) return;
    if ((u64)row >= (u64)g.extent) {
#ifdef SORTED_NAME
        RF_TELL_INDEX(LITERAL(SORTED_NAME), row, g.extent);
#else
        if (g.op == 0) {
            RF_TELL_INDEX("scatter", row, g.extent);
        } else {
            RF_TELL_INDEX("select_update", row, g.extent);
        }
#endif
        return;
    }
    if (c.middle > 0 && keys[(c.middle - 1) * step] == key) return;
    SORTED_TYPE* out = g.out + g.out_strides.at(c.outer, row, c.inner);
    const SORTED_TYPE* value = g.value + g.value_strides.at(c.outer, 0, c.inner);
    Running running = cast<Running>(*out);
    for (u32 j = c.middle; j < g.middle.divisor && keys[j * step] == key; ++j) {
        running = Update<SORTED_UPDATE>::of(running, cast<Running>(value[(i64)order[j * step] * g.value_strides.middle]));
    }
    *out = cast<SORTED_TYPE>(running);
}
