// select_update: out[o, indices[j], i] = update(out[..], value[o, j, i]) for j = 0, 1, …, n - 1 in turn
//                (the gradient of select and embedding is update = add)
//
// Shapes : out [outer, extent, inner]; indices [n]; value [outer, n, inner]; any strides, in elements
// Grid   : rows (ceil(extent / ROWS), ceil(inner / wave), outer)   one wave per row and stretch of the inner axis
//          lines (ceil(lines / 256), 1, 1)                         one lane per line (o, i)
// Block  : rows (ROWS * wave, 1, 1), lines (256, 1, 1)
// Needs  : out overlaps neither input                                       checked by the launcher
// Numeric: updates of one element happen in ascending j, in both kernels: the bits are the same. 16-bit floats: rows keeps
//          the running value of an element in f32 and rounds it once, so lines is not used for their sums and products.
//          An index outside 0..extent is passed over and told of, by UPDATE_NAME; with UPDATE_NONE the greatest of its type is
//          passed over and not told of.
//
// Macros : UPDATE_TYPE, UPDATE_INDEX; UPDATE_KIND: 0 assign, 1 add, 2 multiply, 3 minimum, 4 maximum; UPDATE_ROWS; UPDATE_NONE: 1
//          if the greatest of UPDATE_INDEX is no index; UPDATE_NAME: the operator's in reports
using namespace rf;

RF_CHECKS_INDICES

#define LITERAL_OF(name) #name
#define LITERAL(name) LITERAL_OF(name)

typedef Acc<UPDATE_TYPE>::type Running;

struct SelectUpdateArgs {
    UPDATE_TYPE* out;
    const UPDATE_INDEX* indices;
    const UPDATE_TYPE* value;
    Strides3 out_strides, value_strides;
    i64 index_stride, extent, n;
    FastDiv inner;
    u32 lines, first_outer, first_inner;
};
static_assert(sizeof(SelectUpdateArgs) == 120, "as in select_update.rs");

// Every wave looks through all indices, as many at once as it has lanes, and takes those that name its row.
extern "C" __global__ __launch_bounds__(UPDATE_ROWS * ARCH_WAVE_SIZE) void select_update_rows(SelectUpdateArgs g) {
    i64 row = (i64)group_x() * UPDATE_ROWS + uniform(thread_x() / ARCH_WAVE_SIZE);
    if (row >= g.extent) return;
    u32 lane_id = thread_x() % ARCH_WAVE_SIZE;
    u32 i = g.first_inner + group_y() * ARCH_WAVE_SIZE + lane_id, o = g.first_outer + group_z();
    bool inside = i < g.inner.divisor;
    UPDATE_TYPE* out = g.out + g.out_strides.at(o, row, i);
    const UPDATE_TYPE* value = g.value + g.value_strides.at(o, 0, i);
    Running running = {};
    bool touched = false;
    // One wave tells for all: each of them passes over what names no row of its own.
    bool tells = row == 0 && (group_y() | group_z() | g.first_outer | g.first_inner) == 0;
    i64 outside = 0;  // told of behind the loop, whose reads need not come after it
    for (i64 base = 0; base < g.n; base += ARCH_WAVE_SIZE) {
        i64 j = base + lane_id;
        UPDATE_INDEX given = g.indices[(j < g.n ? j : 0) * g.index_stride];
        i64 at = (i64)given;
        bool none = UPDATE_NONE && given == (UPDATE_INDEX)Limits<UPDATE_INDEX>::high;
        if (tells && !none && j < g.n && (u64)at >= (u64)g.extent && (u64)outside < (u64)g.extent) outside = at;
        bool mine = !none && j < g.n && at == row;
        u64 hits = rf::ballot(mine);
        if (hits == 0) continue;
        if (!touched && inside) running = cast<Running>(*out);
        touched = true;
        do {
            i64 hit = base + __builtin_ctzll(hits);
            hits &= hits - 1;
            if (inside) running = Update<UPDATE_KIND>::of(running, cast<Running>(value[hit * g.value_strides.middle]));
        } while (hits != 0);
    }
    if (touched && inside) *out = cast<UPDATE_TYPE>(running);
    if ((u64)outside >= (u64)g.extent) RF_TELL_INDEX(LITERAL(UPDATE_NAME), outside, g.extent);
}

extern "C" __global__ __launch_bounds__(256) void select_update_lines(SelectUpdateArgs g) {
    u32 line = group_x() * 256 + thread_x();
    if (line >= g.lines) return;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    UPDATE_TYPE* out = g.out + g.out_strides.at(o, 0, i);
    const UPDATE_TYPE* value = g.value + g.value_strides.at(o, 0, i);
    const UPDATE_INDEX* index = g.indices;
    i64 outside = 0;
    for (i64 j = 0; j < g.n; ++j) {
        i64 at = (i64)*index;
        if (UPDATE_NONE && *index == (UPDATE_INDEX)Limits<UPDATE_INDEX>::high) {
            // there is none
        } else if ((u64)at < (u64)g.extent) {
            UPDATE_TYPE* to = out + at * g.out_strides.middle;
            *to = Update<UPDATE_KIND>::of(*to, *value);
        } else if ((u64)outside < (u64)g.extent) {
            outside = at;
        }
        index += g.index_stride;
        value += g.value_strides.middle;
    }
    if ((u64)outside >= (u64)g.extent) RF_TELL_INDEX(LITERAL(UPDATE_NAME), outside, g.extent);
}
