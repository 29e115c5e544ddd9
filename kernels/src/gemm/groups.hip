// groups: which rows are a group, and which group a tile of rows is of. GROUPING: 1 where bounds are the first rows of the groups and
// the end, 2 where they count the rows of groups of `group_rows` each, 3 as 1, of rows of A by a list, 4 as 1, along K, 6 where all rows are
// the only group's. `Args` has `bounds`, `groups`, `group_rows`, and `m`, all rows.

// The rows of a group, of `all`. Wrong bounds are held inside of what there is.
template <int GROUPING, class Args> RF_FN u32 rows_of_group(const Args& g, u32 number, u32 all, u32& first) {
    if (GROUPING == 6) {
        first = 0;
        return all;
    }
    if (GROUPING == 2) {
        const i32 count = g.bounds[number];
        first = number * g.group_rows;
        return count <= 0 ? 0 : (u32)count < g.group_rows ? (u32)count : g.group_rows;
    }
    u32 end = (u32)g.bounds[number + 1];
    first = (u32)g.bounds[number];
    end = end < all ? end : all;
    return first < end ? end - first : 0;
}

// Which group a tile of TILE rows is of. Groups have no more tiles before them than their rows fill: each wave counts, a lane a group.
template <int GROUPING, int TILE> struct Group {
    u32 number, first, rows, tile;

    // Whether there is such a tile. All lanes of a wave call it together.
    template <class Args> RF_FN bool find(const Args& g, u32 wanted) {
        u32 passed = 0;
        for (u32 from = 0; from < g.groups; from += ARCH_WAVE_SIZE) {
            const u32 own = from + lane();
            u32 own_first, tiles = 0;
            if (own < g.groups) tiles = (rows_of_group<GROUPING>(g, own, g.m, own_first) + TILE - 1) / TILE;
            u32 upto = tiles;
#pragma unroll
            for (u32 reach = 1; reach < ARCH_WAVE_SIZE; reach *= 2) {
                const u32 before = shuffle(upto, lane() >= reach ? lane() - reach : lane());
                upto += lane() >= reach ? before : 0;
            }
            // The first of the lanes that the tile is not behind.
            u64 reached = rf::ballot(passed + upto > wanted);
            if (reached != 0) {
                u32 at = 0;
                while ((reached & 1) == 0) {
                    reached >>= 1;
                    ++at;
                }
                number = uniform(from + at);
                tile = wanted - passed - uniform(shuffle(upto - tiles, at));
                rows = rows_of_group<GROUPING>(g, number, g.m, first);
                return true;
            }
            passed += uniform(shuffle(upto, ARCH_WAVE_SIZE - 1));
        }
        return false;
    }
};
