// scaled_end: C of sums in memory, of slices of K or of a vendor's library: added up, scaled, and what follows.
//
// Shapes : sums [slices, M, N], contiguous; scales by row and by column, or one for all by steps of 0; C [M, N]; strides in elements
// Grid   : (ceil(N / (256 * E_RUN)), up to M, 1); a workgroup takes every g.row_step-th row
// Block  : (256, 1, 1); a lane has E_RUN neighbours of a row
// Needs  : E_RUN 4: N a multiple of 4, rows of C contiguous and, as the sums, aligned to E_RUN elements         checked by the launcher
// Numeric: sums as f32, slices in ascending order; with E_SCALED times the product of both scales; then as scaled_end.h says, one rounding
//
// Macros : E_SUM, the sums' type; E_SCALED; E_RUN, 1 or 4; those of scaled_end.h
struct ScaledSumArgs {
    const E_SUM* sums;
    Out* c;
    const void* a_scales;
    const void* b_scales;
    i64 c_row, c_col, a_step, b_step;
    u32 m, n, slices, row_step, a_kind, b_kind;
#if S_END
    EndArgs end;
#endif
};
static_assert(sizeof(ScaledSumArgs) == 88 + (S_END ? sizeof(EndArgs) : 0), "as in end.rs");

extern "C" __global__ __launch_bounds__(256) void q_scaled_end(ScaledSumArgs g) {
    const u32 col = (group_x() * 256 + thread_x()) * E_RUN;
    if (col >= g.n) return;
#if S_END
    End end;
    end.start(g.end);
    float bias[E_RUN];
#pragma unroll
    for (int i = 0; i < E_RUN; ++i) bias[i] = end.bias(g.end, col + i);
#endif
    for (u32 row = group_y(); row < g.m; row += g.row_step) {
        const E_SUM* from = g.sums + (i64)row * g.n + col;
        float x[E_RUN];
#pragma unroll
        for (int i = 0; i < E_RUN; ++i) x[i] = 0.0f;
        for (u32 slice = 0; slice < g.slices; ++slice) {
            const Vec<E_SUM, E_RUN> some = load<E_RUN>(from + (i64)slice * g.m * g.n);
#pragma unroll
            for (int i = 0; i < E_RUN; ++i) x[i] += (float)some[i];
        }
        Vec<Out, E_RUN> to;
#pragma unroll
        for (int i = 0; i < E_RUN; ++i) {
#if E_SCALED
            x[i] *= read_scale(g.a_scales, row * g.a_step, g.a_kind) * read_scale(g.b_scales, (col + i) * g.b_step, g.b_kind);
#endif
#if S_END
            x[i] = end.of(x[i], bias[i]);
#endif
            to[i] = cast<Out>(x[i]);
        }
        store<E_RUN>(g.c + (i64)row * g.c_row + (i64)col * g.c_col, to);
    }
}
