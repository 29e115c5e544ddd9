// mat_vec: out[row, m] = weights[m, :] · x[row, :], weights of a GGUF type.
//
//   CANDLE_KIND 0 : CANDLE_ROWS rows of int8 activations
//   CANDLE_KIND 1 : one row of f32 activations
//   CANDLE_KIND 2 : rows of int8 activations of a mixture of experts, each with the weights of its expert
//   CANDLE_KIND 3 : kind 0 for up to CANDLE_SEVERAL matrices of one type, whose workgroups follow each other along the grid
//
// Shapes : weights [outputs, columns] in blocks; x as coded_rows.h says, `padded` codes a row; out [rows, outputs], row stride
// Grid   : kind 1: (ceil(outputs / 4), 1, 1); kinds 0 and 3: (ceil(outputs / (4 · CANDLE_LINES)), 1, 1); kind 2: see there
// Block  : (128, 1, 1); 32 lanes compute an output, in kinds 0 and 3 CANDLE_LINES outputs
// Numeric: products of codes are exact and summed in i32 over 32 codes; these sums are added in f32, in an order that `columns` alone
//          decides
//
// Macros : CANDLE_NAME; CANDLE_TYPE, a number of gguf.h; CANDLE_OUT; CANDLE_KIND; CANDLE_ROWS;
//          CANDLE_LINES; CANDLE_SEVERAL
#ifndef CANDLE_MAT_VEC_H
#define CANDLE_MAT_VEC_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
#define CANDLE_MAT_VEC_OUTPUTS 4
#define CANDLE_MAT_VEC_BLOCK 128

// 32 lanes compute LINES outputs, one or two. What they read of the activations serves both, and the weights of both are on the way
// from memory at the same time.
template <int TYPE, int ROWS, int LINES> struct MatVec {
    typedef Gguf<TYPE> Type;
    typedef Round<TYPE> R;
    static const int ROOM = LINES * R::ROOM;
    float sums[LINES][ROWS];
    u32 units;

    // Adds the products of unit number n of each line. Its blocks lie at these addresses, in memory or in LDS.
    RF_FN void add(const u8* first_block, const u8* last_block, u32 n, const u8* x, u64 padded) {
        u32 block = n / Type::UNITS, own = n % Type::UNITS;
        // Both lines are asked for before either is multiplied.
        Unit<TYPE> first(first_block, own), last(last_block, own);
        for (int row = 0; row < ROWS; ++row) {
            Activations activations(x, row, padded);
            sums[0][row] += first.dot(activations, own, block * Type::SIZE);
            if (LINES == 2) sums[LINES - 1][row] += last.dot(activations, own, block * Type::SIZE);
        }
    }
    RF_FN void run_direct(const u8* const* lines, const u8* x, u64 padded) {
        for (u32 n = thread_x() % 32; n < units; n += 32) {
            u64 skipped = (u64)(n / Type::UNITS) * Type::BYTES;
            add(lines[0] + skipped, lines[LINES - 1] + skipped, n, x, padded);
        }
    }
    // The same by way of LDS, of which the 32 lanes have ROOM bytes for themselves.
    RF_FN void run_staged(const u8* const* lines, const u8* x, u64 padded, u8* lds) {
        const u32 lane = thread_x() % 32, rounds = (units + 31) / 32;
        StagedLine<TYPE> staged[LINES];
        for (int line = 0; line < LINES; ++line) {
            staged[line].start(lines[line], units / Type::UNITS * Type::BYTES);
            staged[line].fetch(0, lane);
        }
        for (u32 round = 0; round < rounds; ++round) {
            wave_barrier();
            for (int line = 0; line < LINES; ++line) staged[line].put(round, lane, lds + line * R::ROOM);
            wave_barrier();
            for (int line = 0; line < LINES; ++line) staged[line].fetch(round + 1, lane);
            const u32 n = round * 32 + lane, skipped = lane / Type::UNITS * Type::BYTES;
            if (n < units)
                add(lds + staged[0].before + skipped, lds + (LINES - 1) * R::ROOM + staged[LINES - 1].before + skipped, n, x, padded);
        }
    }
};
template <int TYPE, int ROWS, int LINES, class Out>
RF_FN void mat_vec(const u8* weights, const u8* x, Out* out, u32 columns, u32 outputs, u64 padded, u64 out_stride, u32 output, u8* lds) {
    typedef Gguf<TYPE> Type;
    typedef MatVec<TYPE, ROWS, LINES> F;
    u32 lane = thread_x() % 32;
    F f;
    f.units = columns / Type::SIZE * Type::UNITS;
    const u8* lines[LINES];
    for (u32 line = 0; line < LINES; ++line) {
        u32 own = output + line < outputs ? output + line : outputs - 1;
        lines[line] = weights + (u64)own * (columns / Type::SIZE) * Type::BYTES;
        for (int row = 0; row < ROWS; ++row) f.sums[line][row] = 0.0f;
    }
    if (F::R::STAGED) f.run_staged(lines, x, padded, lds + thread_x() / 32 * F::ROOM);
    else f.run_direct(lines, x, padded);
    for (u32 line = 0; line < LINES; ++line)
        for (int row = 0; row < ROWS; ++row) {
            float sum = sum_of_32(f.sums[line][row]);
            if (lane == 0 && output + line < outputs) out[row * out_stride + output + line] = cast<Out>(sum);
        }
}
template <int TYPE> RF_FN float f32_dot(const Run* runs, const float* x) {
    float sum = 0.0f;
    for (int run = 0; run < Gguf<TYPE>::SUBS; ++run)
        for (int i = 0; i < 16; ++i) sum += weight_at(runs[run], i) * x[runs[run].at + i];
    return sum;
}
#endif

// The LDS of a workgroup, for types whose blocks are read by way of it.
#define CANDLE_MAT_VEC_ROOM(ROWS, LINES)                                                                       \
    __shared__ __attribute__((aligned(16))) u8 lds[CANDLE_MAT_VEC_BLOCK / 32 * MatVec<CANDLE_TYPE, ROWS, LINES>::ROOM + 16]

#if CANDLE_KIND == 0
extern "C" __global__ __launch_bounds__(CANDLE_MAT_VEC_BLOCK) void CANDLE_NAME(
    const u8* weights, const u8* x, CANDLE_OUT* out, i32 columns, i32 outputs, i32 padded, i32 out_stride) {
    CANDLE_MAT_VEC_ROOM(CANDLE_ROWS, CANDLE_LINES);
    u32 output = (group_x() * (CANDLE_MAT_VEC_BLOCK / 32) + thread_x() / 32) * CANDLE_LINES;
    mat_vec<CANDLE_TYPE, CANDLE_ROWS, CANDLE_LINES>(
        weights, x, out, (u32)columns, (u32)outputs, (u64)padded, (u64)out_stride, output, lds);
}
#elif CANDLE_KIND == 3
struct MatVecMember { u64 weights, x, out; u32 columns, outputs, padded, out_stride, first, unused; };
struct MatVecs { u32 count, unused; MatVecMember member[CANDLE_SEVERAL]; };
extern "C" __global__ __launch_bounds__(CANDLE_MAT_VEC_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT MatVecs a) {
    u32 at = 0;
    while (at + 1 < a.count && a.member[at + 1].first <= group_x()) ++at;
    const MatVecMember& m = a.member[at];
    CANDLE_MAT_VEC_ROOM(CANDLE_ROWS, CANDLE_LINES);
    u32 output = ((group_x() - m.first) * (CANDLE_MAT_VEC_BLOCK / 32) + thread_x() / 32) * CANDLE_LINES;
    mat_vec<CANDLE_TYPE, CANDLE_ROWS, CANDLE_LINES>(
        (const u8*)m.weights, (const u8*)m.x, (CANDLE_OUT*)m.out, m.columns, m.outputs, m.padded, m.out_stride, output, lds);
}
#elif CANDLE_KIND == 1
extern "C" __global__ __launch_bounds__(128) void CANDLE_NAME(const u8* weights, const float* x, float* out, i32 columns, i32 outputs) {
    typedef Gguf<CANDLE_TYPE> Type;
    u32 output = group_x() * CANDLE_MAT_VEC_OUTPUTS + thread_x() / 32, lane = thread_x() % 32;
    u32 blocks = (u32)columns / Type::SIZE;
    const u8* line = weights + (u64)(output < (u32)outputs ? output : (u32)outputs - 1) * blocks * Type::BYTES;
    float sum = 0.0f;
    for (u32 n = lane; n < blocks * Type::UNITS; n += 32) {
        u32 block = n / Type::UNITS;
        Run runs[Type::SUBS];
        Type::unpack(line + (u64)block * Type::BYTES, n % Type::UNITS, runs);
        sum += f32_dot<CANDLE_TYPE>(runs, x + (u64)block * Type::SIZE);
    }
    sum = sum_of_32(sum);
    if (lane == 0 && output < (u32)outputs) out[output] = sum;
}
#else
// Row b of the batch is multiplied by the weights of its experts ids[b, k], `top` of them. x has a row for each b, or one for each b
// and k (x_rows > 1). Grid: (ceil(outputs / 4), batch, top). There are `room` bytes of weights, the last CANDLE_PADDING weights of
// which belong to no expert. An expert that is not there is reported, and its results stay the zeros that they are.
extern "C" __global__ __launch_bounds__(128) void CANDLE_NAME(const u8* weights, const u8* x, const u32* ids, float* out, i32 outputs,
                                                              i32 columns, i32 batch, i32 top, i32 padded, i32 x_rows, u64 room) {
    typedef Gguf<CANDLE_TYPE> Type;
    u32 output = group_x() * CANDLE_MAT_VEC_OUTPUTS + thread_x() / 32, place = group_y() * (u32)top + group_z(), id = ids[place];
    u64 expert_bytes = (u64)(u32)outputs * ((u32)columns / Type::SIZE) * Type::BYTES, expert = id * expert_bytes;
    room -= CANDLE_PADDING / Type::SIZE * Type::BYTES;
    if (expert + expert_bytes > room) {
        if (output == 0 && thread_x() == 0) RF_TELL_INDEX("indexed_moe_forward", (i64)id, (i64)(room / expert_bytes));
        return;
    }
    CANDLE_MAT_VEC_ROOM(1, 1);
    u64 row = x_rows == 1 ? group_y() : (u64)group_y() * (u32)x_rows + group_z();
    mat_vec<CANDLE_TYPE, 1, 1>(weights + expert, x + row * activation_bytes((u64)padded), out + (u64)place * (u32)outputs, (u32)columns,
                            (u32)outputs, (u64)padded, 0, output, lds);
}
#endif
