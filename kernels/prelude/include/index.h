// index.h: division by a number that the host knows, and the coordinates of an element in a box of three axes.
#ifndef ROCFIRE_INDEX_H
#define ROCFIRE_INDEX_H
namespace rf {

// n / divisor for n < 2^31 by one high multiplication (Granlund and Montgomery, "Division by invariant integers using
// multiplication", PLDI 1994): multiplier and shift come from the launcher.
struct FastDiv {
    u32 divisor, multiplier, shift;
    RF_FN u32 divide(u32 n) const { return ((u32)(((u64)n * multiplier) >> 32) + n) >> shift; }
};

// Element number `n` of a box [?, middle, inner], row-major.
struct Coordinates { u32 outer, middle, inner; };
RF_FN Coordinates coordinates(u32 n, const FastDiv& middle, const FastDiv& inner) {
    u32 line = inner.divide(n);
    Coordinates c;
    c.inner = n - line * inner.divisor;
    c.outer = middle.divide(line);
    c.middle = line - c.outer * middle.divisor;
    return c;
}

// Strides of a box of three axes, in elements.
struct Strides3 {
    i64 outer, middle, inner;
    RF_FN i64 at(u32 o, i64 m, u32 i) const { return (i64)o * outer + m * middle + (i64)i * inner; }
};

}  // namespace rf
#endif
