// rows: which row of an operand a line of a tile is.

// The rows of memory in their order.
struct AllRows {
    RF_FN u32 at(u32 line) const { return line; }
};

// Rows by a list of choices, of which `each` neighbours are one row. A choice beyond the rows takes the last one.
struct ListedRows {
    const i32* choices;
    u32 each, last;
    RF_FN u32 at(u32 line) const {
        u32 row = (u32)choices[line] / each;
        return row < last ? row : last;
    }
};
