// listed.h: a tile that is an entry of a list, in the place of `go_to_tile` of coded.h, behind which it stands. `choices` have the row of
// C of each entry, or are none: then it is the entry's number, from `group_rows` on. `bounds` have its matrix, `scales` a factor of each row of
// C, or are none.
RF_CHECKS_INDICES

template <int TILE> RF_FN bool go_to_tile(QMatmulArgs& g, RowsOfA&, u32& first_row) {
    static_assert(TILE == 1, "an entry is one row");
    const u32 choice = g.choices ? (u32)g.choices[group_y()] : g.group_rows + group_y(), number = (u32)g.bounds[group_y()], row = choice / g.each;
    first_row = 0;
    if (choice >= g.m) return false;
    if (number >= g.groups) {
        if (number != ~0u && group_x() == 0 && thread_x() == 0) RF_TELL_INDEX("gguf_matmul_listed", (i64)number, (i64)g.groups);
        return false;
    }
    g.m = 1;
    g.words += (i64)number * g.w_group;
    if (g.scales) g.scales = (const float*)g.scales + choice;
    g.a += (i64)(row < g.a_rows ? row : g.a_rows - 1) * g.a_row;
    g.c = (Out*)g.c + (i64)choice * g.c_row;
    return true;
}
