// top_k: the places of the k largest, or smallest, numbers of a part of each row; and these numbers
//
// Shapes : x [rows, columns], innermost contiguous, any row stride; places, values [rows, k], the same
// Grid   : (rows, 1, 1)     Block : (SELECT_THREADS, 1, 1)          one workgroup for a row
// LDS    : 8 * SELECT_LIST bytes and some words for each wave
// Needs  : 1 <= k <= SELECT_LIST, columns < 2^31                                        checked by the launcher
// Numeric: of equals the first columns are taken, NaN after all numbers; ascending columns, or the best first. A part of fewer than k
//          gives all its columns; behind them places are -1 and values the worst there is
//
// A part is gone through twice: for its peaks, and for what reaches the bound that they give. Where that is more than a list holds,
// the k-th is looked for by bins of keys, some bits at a time, and the columns from it on are listed in order.
//
// Macros : TOP_K_TYPE; TOP_K_LARGEST: 1 the largest, 0 the smallest
using namespace rf;

struct TopKArgs {
    const TOP_K_TYPE* x;
    const i32* starts;      // null: 0
    const i32* ends;        // null: columns, or as lengths say
    const i32* lengths;     // row r: lengths[r / each] - each + r % each + 1; null: not so
    i32* places;
    TOP_K_TYPE* values;     // null if not wanted
    i64 x_stride, starts_stride, ends_stride, lengths_stride, place_stride, value_stride;
    u32 columns, k, each, sorted;
};
static_assert(sizeof(TopKArgs) == 112, "as in top_k.rs");

// Of what is there; NaN goes behind all numbers.
RF_FN u32 key_here(float x) {
#if TOP_K_LARGEST
    return x == x ? key_of(x) : 1;
#else
    return x == x ? key_of(-x) : 1;
#endif
}

struct FindPeaks {
    u32 count;
    Peaks peaks;
    RF_FN void operator()(u32 at, float x) {
        if (at < count) peaks.take(at, key_here(x));
    }
};
struct Collect {
    u32 count, bound;
    List list;
    RF_FN void operator()(u32 at, float x) {
        u32 key = key_here(x);
        if (at < count && key >= bound) list.add(key, at);
    }
};
struct Bins {
    u32 count;
    Window window;
    u64* bins;
    RF_FN void operator()(u32 at, float x) {
        u32 key = key_here(x);
        if (at < count && window.has(key)) lds_add((u32*)(bins + window.bin(key)), 1u);
    }
};

// The k-th largest key, of those from low to most; how many are larger goes to `above`.
template <class T> RF_FN u32 kth(const Row<T>& row, u64* bins, u32* words, u32* counters, u32 low, u32 most, u32 k, u32* above) {
    Window window = Window::of(most, most - low);
    u32 before = 0;
    for (;;) {
        for (u32 slot = thread_x(); slot < SELECT_BINS; slot += SELECT_THREADS) bins[slot] = 0;
        barrier();
        Bins count = {row.count, window, bins};
        each(row, count);
        barrier();
        u32 first = 2 * thread_x(), own = (u32)bins[first], next = (u32)bins[first + 1], all;
        u32 larger = before + sum_before(own + next, words, &all);
        // One bin has the k-th.
        for (u32 i = 0; i < 2; ++i) {
            u32 from = i == 0 ? larger : larger + own, inside = i == 0 ? own : next;
            if (from >= k || from + inside < k) continue;
            counters[0] = first + i;
            counters[1] = from;
        }
        barrier();
        u32 bin = counters[0];
        before = counters[1];
        barrier();
        if (window.shift == 0) {
            *above = before;
            return window.high - bin;
        }
        window = window.within(bin);
    }
}

// Lists columns of larger keys and the first `equals` of the k-th, in ascending order.
template <class T> RF_FN void list_in_order(const Row<T>& row, u64* list, u32* words, u32 least, u32 equals) {
    u32 larger_before = 0, equal_before = 0;
    for (u32 start = 0; start < row.count; start += Row<T>::STEP) {
        u32 first = start + thread_x() * Row<T>::PER;
        float x[Row<T>::PER];
        row.get(first, x);
        // Larger ones in the upper half, equal ones in the lower.
        u32 counts = 0;
#pragma unroll
        for (u32 i = 0; i < Row<T>::PER; ++i) {
            u32 key = first + i < row.count ? key_here(x[i]) : 0;
            counts += key > least ? 1u << 16 : (key == least ? 1u : 0u);
        }
        u32 all, before = sum_before(counts, words, &all);
        u32 larger = larger_before + (before >> 16), equal = equal_before + (before & 0xffffu);
#pragma unroll
        for (u32 i = 0; i < Row<T>::PER; ++i) {
            u32 key = first + i < row.count ? key_here(x[i]) : 0;
            bool takes = key > least || (key == least && equal < equals);
            u32 slot = larger + (equal < equals ? equal : equals);
            if (takes && slot < SELECT_LIST) list[slot] = (u64)key << 32 | (u32)~(first + i);
            larger += key > least ? 1 : 0;
            equal += key == least ? 1 : 0;
        }
        larger_before += all >> 16;
        equal_before += all & 0xffffu;
    }
    barrier();
}

extern "C" __global__ __launch_bounds__(SELECT_THREADS) void top_k_rows(TopKArgs g) {
    __shared__ u64 list[SELECT_LIST];
    __shared__ u64 wide[SELECT_WAVES];
    __shared__ u32 words[SELECT_WAVES];
    __shared__ u32 counters[4];
    u32 own = group_x(), thread = thread_x();
    i64 columns = (i64)g.columns, start = g.starts ? g.starts[own * g.starts_stride] : 0, end = columns;
    if (g.ends) end = g.ends[own * g.ends_stride];
    if (g.lengths) end = (i64)g.lengths[(own / g.each) * g.lengths_stride] - g.each + own % g.each + 1;
    start = start < 0 ? 0 : (start < columns ? start : columns);
    end = end < start ? start : (end < columns ? end : columns);
    const TOP_K_TYPE* x = g.x + own * g.x_stride + start;
    Row<TOP_K_TYPE> row(x, (const u32*)0, (u32)(end - start));
    u32 n = row.count < g.k ? row.count : g.k;

    if (n != 0) {
        FindPeaks find = {row.count, Peaks()};
        each(row, find);
        u32 most = key_in(group_reduce(find.peaks.item(), Max(), wide, thread, (u32)SELECT_THREADS));
        u32 bound = bound_of(find.peaks, n, most, counters);
        if (thread == 0) counters[3] = 0;
        barrier();
        Collect collect = {row.count, bound, List(list, counters + 3)};
        each(row, collect);
        barrier();
        u32 listed = counters[3];
        barrier();
        bool in_columns = false;
        if (listed <= SELECT_LIST) {
            sort_list(list, listed);
        } else {
            u32 above = 0, least = kth(row, list, words, counters, bound, most, n, &above);
            list_in_order(row, list, words, least, n - above);
            in_columns = true;
        }
        if (g.sorted && in_columns) sort_list(list, n);
        if (!g.sorted && !in_columns) {
            // Places instead of keys in the upper half.
            for (u32 slot = thread; slot < n; slot += SELECT_THREADS) list[slot] = list[slot] << 32 | key_in(list[slot]);
            barrier();
            sort_list(list, n);
            for (u32 slot = thread; slot < n; slot += SELECT_THREADS) list[slot] = list[slot] << 32 | key_in(list[slot]);
            barrier();
        }
    }
    i32* places = g.places + own * g.place_stride;
    TOP_K_TYPE* values = g.values ? g.values + own * g.value_stride : (TOP_K_TYPE*)0;
    for (u32 slot = thread; slot < g.k; slot += SELECT_THREADS) {
        u32 place = slot < n ? place_in(list[slot]) : 0;
        places[slot] = slot < n ? (i32)(start + place) : -1;
        if (values) values[slot] = slot < n ? x[place] : cast<TOP_K_TYPE>(TOP_K_LARGEST ? -infinity() : infinity());
    }
}
