// sample: a token of each row, drawn from the distribution that is left of it; or that distribution itself
//
//   p[n]  = softmax(x / temperature)[n], or x itself where it holds probabilities, of the tokens that the mask leaves
//   kept  : fewer than top_k tokens have a strictly larger p, those that have add up to less than top_p of the sum of all p,
//           and p[n] is at least min_p of the largest
//   token = the first of the largest p[n] / e[n] of those kept, e[n] drawn from the exponential distribution: n is drawn with
//           p[n] over their sum. Where nothing is to be drawn, the first of the largest x.
//
// Shapes : x [rows of x, count], innermost contiguous, any row stride; mask [rows, ceil(count / 32)]; noise, out [rows, count]; what
//          there is one of for a row has a stride, 0 for one for all
// Grid   : (rows, 1, 1)     Block : (SELECT_THREADS, 1, 1)          one workgroup for a row
// LDS    : 8 * SELECT_LIST bytes and some words for each wave
// Needs  : 1 <= count < 2^20                                                             checked by the launcher
// Numeric: NaN, and what the mask leaves out, is never taken. Of an infinite largest only its equals have a p, all the same. A row
//          of which nothing is left gives token 0, and zeros for its distribution. Sums are in f32 in an order that the places
//          decide, or of integers: a row gives the same bits in every batch
//
// A row that keeps at most top_k <= SELECT_THREADS is gone through twice: for its peaks, and for what reaches the bound that they
// give, which goes to a list in LDS, where the rest happens. For top_p alone p is summed up by bins, 64 for each halving of p, and
// the elements of the bin that the threshold is in are put into the list. Where a list is too long, they are counted in bins by
// their keys, some bits at a time.
//
// Macros : SAMPLE_TYPE; SAMPLE_INDEX, the type of tokens; SAMPLE_FORM: 0 logits, 1 probabilities; SAMPLE_WRITES: 0 tokens,
//          1 distributions
using namespace rf;

// Bins for each halving of p. What an element of a bin lacks of the bin's upper end is less than 1 / BINS_OCTAVE of it.
#define BINS_OCTAVE 64
#define LACK_LOG2 6

struct SampleArgs {
    const SAMPLE_TYPE* x;
    const i32* rows;            // the row of x for each; null: its own
    const float* temperatures;  // null: 1
    const i32* top_ks;          // null, and what is not above 0: all
    const float* top_ps;        // null, and what is not below 1: all
    const float* min_ps;        // null, and what is not above 0: all
    const u32* mask;
    const u64* seeds;           // null with noise null: nothing is drawn
    const u64* offsets;
    const float* noise;
    SAMPLE_INDEX* tokens;
    float* out;
    i64 x_stride, rows_stride, temperature_stride, top_k_stride, top_p_stride, min_p_stride, mask_stride, seed_stride, offset_stride,
        noise_stride, token_stride, out_stride;
    u32 count, x_rows;
};
static_assert(sizeof(SampleArgs) == 200, "as in sample.rs");

// A number as it counts; NaN stays.
RF_FN float counted(float x) {
#if SAMPLE_FORM == 1
    return x < 0.0f ? 0.0f : x;
#else
    return x;
#endif
}

// What an element weighs: its p over the largest.
struct Scale {
    u32 most;       // the largest key
    float number;   // whose number this is
    float octaves;  // of logits: halvings of p for each unit
    bool finite;
    RF_FN float depth(float x) const { return (number - x) * octaves; }
    RF_FN float weight(float x) const {
#if SAMPLE_FORM == 1
        float w = x / number;
#else
        float w = exp2_fast(-depth(x));
#endif
        // NaN weighs nothing.
        w = finite && w > 0.0f ? w : 0.0f;
        return x == number ? 1.0f : w;
    }
    // Bins from the largest down; the last has all the rest.
    RF_FN u32 bin(float x) const {
#if SAMPLE_FORM == 1
        u32 bin = (bit_cast<u32>(number) - bit_cast<u32>(x + 0.0f)) >> (23 - LACK_LOG2);
        return bin < SELECT_BINS ? bin : SELECT_BINS - 1;
#else
        float bin = clamp_number(depth(x) * (float)BINS_OCTAVE, 0.0f, (float)(SELECT_BINS - 1));
        return x == number ? 0 : (finite ? (u32)bin : SELECT_BINS - 1);
#endif
    }
    // The weight of a bin's upper end.
    RF_FN float edge(u32 bin) const {
#if SAMPLE_FORM == 1
        return bit_cast<float>(bit_cast<u32>(number) - (bin << (23 - LACK_LOG2))) / number;
#else
        return exp2_fast((float)bin * (-1.0f / BINS_OCTAVE));
#endif
    }
    // What an element lacks of its bin's upper end, as a share of it.
    RF_FN float lack(float x, u32 bin) const {
#if SAMPLE_FORM == 1
        float w = x / bit_cast<float>(bit_cast<u32>(number) - (bin << (23 - LACK_LOG2)));
#else
        float w = exp2_fast((float)bin * (1.0f / BINS_OCTAVE) - depth(x));
#endif
        w = finite && w > 0.0f ? w : 0.0f;
        return x == number || w > 1.0f ? 0.0f : 1.0f - w;
    }
};

// What a row keeps.
struct Rules {
    u32 top_k;    // count for all
    float top_p;  // infinite for all
};

// LDS of the workgroup.
struct Shared {
    u64* list;  // SELECT_LIST items, or bins
    u64* wide;
    float* floats;
    u32* words;
    u32* counters;  // 4, of which the last is the list's size
    // How many elements are in each bin, then what they lack of its upper end.
    RF_FN u32* bins() const { return (u32*)list; }
};

struct FindPeaks {
    Peaks peaks;
    RF_FN void operator()(u32 at, float x) {
        x = counted(x);
        peaks.take(at, x == x ? key_of(x) : 0);
    }
};
// What reaches a bound, and the weight of all.
struct Collect {
    List list;
    const Scale& scale;
    float bound;
    bool sums;
    float sum;
    RF_FN Collect(const Shared& s, const Scale& scale, float bound, bool sums)
        : list(s.list, s.counters + 3), scale(scale), bound(bound), sums(sums), sum(0.0f) {}
    RF_FN void operator()(u32 at, float x) {
        x = counted(x);
        if (sums) sum += scale.weight(x);
        if (x >= bound) list.add(key_of(x), at);
    }
};
// The elements of a bin of weights, and of those the ones in a window.
struct Part {
    bool all;
    u32 bin;
    Window window;
    RF_FN bool has(const Scale& scale, float x) const {
        return x == x && (all || (scale.bin(x) == bin && window.has(key_of(x))));
    }
};
// Fixed point of what elements of a bin lack, so that a row of them fits into a word: fewer bits in the last, where all may be lacking.
struct Units {
    float usual, last;
    RF_FN Units(u32 count) {
        u32 width = width_of(count);
        usual = (float)(1u << (width < 11 ? 26 : 31 + LACK_LOG2 - width));
        last = (float)(1u << (31 - width));
    }
    RF_FN float of(u32 bin) const { return bin == SELECT_BINS - 1 ? last : usual; }
};
struct Bins {
    u32* counts;
    u32* lacks;
    const Scale& scale;
    Part part;
    Units units;
    RF_FN void operator()(u32, float x) {
        x = counted(x);
        if (!part.has(scale, x)) return;
        u32 own = scale.bin(x), slot = part.all ? own : part.window.bin(key_of(x));
        lds_add(counts + slot, 1u);
        lds_add(lacks + slot, (u32)rf::fma(scale.lack(x, own), units.of(own), 0.5f));
    }
};
struct CollectPart {
    List list;
    const Scale& scale;
    Part part;
    RF_FN void operator()(u32 at, float x) {
        x = counted(x);
        if (part.has(scale, x)) list.add(key_of(x), at);
    }
};

// The least key of a list, in order, of which fewer than top_k and less than top_p have larger ones; `above` and `mass` are outside
// the list, above it. At least the first counts.
RF_FN u32 cut(const Shared& s, u32 size, const Scale& scale, const Rules& rules, float limit, u32 above, float mass) {
    u32 first = 2 * thread_x();
    float weights[2];
    for (u32 i = 0; i < 2; ++i) weights[i] = first + i < size ? scale.weight(number_of(key_in(s.list[first + i]))) : 0.0f;
    float total, before = sum_before(weights[0] + weights[1], s.floats, &total);
    u32 last = 0;
    for (u32 i = 0; i < 2; ++i) {
        u32 at = first + i;
        // Of equals the first says it: where a later one has too many before it, the key is the same.
        float larger = mass + (i == 0 ? before : before + weights[0]);
        if (at < size && above + at < rules.top_k && larger < limit) last = at;
    }
    last = group_reduce(last, Max(), s.words, thread_x(), (u32)SELECT_THREADS);
    return key_in(s.list[last]);
}

// A bin: of how many elements, and what is above it.
struct Found {
    u32 bin, inside, above;
    float mass;
};
// The last bin that has an element and of which fewer than top_k and less than the limit are above. The limit is made of the whole
// where it is not known: not below 0.
RF_FN Found find(const Shared& s, const Scale& scale, const Part& part, const Rules& rules, const Units& units, float* limit,
                 Found before) {
    u32 first = 2 * thread_x(), counts[2];
    float masses[2];
    for (u32 i = 0; i < 2; ++i) {
        u32 bin = part.all ? first + i : part.bin;
        counts[i] = s.bins()[first + i];
        float lack = (float)s.bins()[SELECT_BINS + first + i] / units.of(bin);
        masses[i] = counts[i] == 0 ? 0.0f : ((float)counts[i] - lack) * scale.edge(bin);
    }
    u32 all;
    float whole;
    u32 above = before.above + sum_before(counts[0] + counts[1], s.words, &all);
    float mass = before.mass + sum_before(masses[0] + masses[1], s.floats, &whole);
    if (*limit < 0.0f) *limit = rules.top_p * whole;
    u32 last = 0;
    for (u32 i = 0; i < 2; ++i) {
        u32 own = i == 0 ? above : above + counts[0];
        float larger = i == 0 ? mass : mass + masses[0];
        bool valid = own == before.above || (own < rules.top_k && larger < *limit);
        if (counts[i] != 0 && valid) last = first + i + 1;
    }
    last = group_reduce(last, Max(), s.words, thread_x(), (u32)SELECT_THREADS);
    for (u32 i = 0; i < 2; ++i) {
        if (first + i + 1 != last) continue;
        s.counters[0] = counts[i];
        s.counters[1] = i == 0 ? above : above + counts[0];
        s.counters[2] = bit_cast<u32>(i == 0 ? mass : mass + masses[0]);
    }
    barrier();
    Found found = {last - 1, s.counters[0], s.counters[1], bit_cast<float>(s.counters[2])};
    barrier();
    return found;
}

// The least key that the rules keep, by bins.
template <class T> RF_FN u32 by_bins(const Row<T>& row, const Shared& s, const Scale& scale, const Rules& rules) {
    Units units(row.count);
    float limit = rules.top_p < 1.0f ? -1.0f : infinity();
    Part part = {true, 0, Window::of(scale.most, scale.most - 1)};
    Found found = {0, 0, 0, 0.0f};
    for (;;) {
        for (u32 slot = thread_x(); slot < SELECT_BINS; slot += SELECT_THREADS) s.list[slot] = 0;
        if (thread_x() == 0) s.counters[3] = 0;
        barrier();
        Bins bins = {s.bins(), s.bins() + SELECT_BINS, scale, part, units};
        each(row, bins);
        barrier();
        found = find(s, scale, part, rules, units, &limit, found);
        if (!part.all && part.window.shift == 0) return part.window.high - found.bin;
        if (part.all) {
            part.all = false;
            part.bin = found.bin;
        } else {
            part.window = part.window.within(found.bin);
        }
        if (found.inside > SELECT_LIST) continue;
        CollectPart collect = {List(s.list, s.counters + 3), scale, part};
        each(row, collect);
        barrier();
        sort_list(s.list, found.inside);
        return cut(s, found.inside, scale, rules, limit, found.above, found.mass);
    }
}

// The contest for a row's token.
struct Race {
    const Scale& scale;
    float least;
    u64 seed, offset;
    const float* noise;  // null: drawn
    Contest contest;
    RF_FN Race(const SampleArgs& g, const Scale& scale, float least, u32 own) : scale(scale), least(least) {
        noise = g.noise ? g.noise + own * g.noise_stride : (const float*)0;
        seed = g.seeds ? g.seeds[own * g.seed_stride] : 0;
        offset = g.seeds ? g.offsets[own * g.offset_stride] : 0;
    }
    RF_FN void enter(u32 place, float x, u32 word) {
        if (noise) {
            contest.enter(place, scale.weight(x), noise[place]);
        } else {
            contest.enter_drawn(place, scale.weight(x), word);
        }
    }
    RF_FN void enter(u32 place, float x) { enter(place, x, noise ? 0 : word_of(philox(place / 4, offset, seed), place)); }
    // Four neighbours, which have a block of random words in common.
    RF_FN void enter_four(u32 first, const float* x) {
        float numbers[4];
        bool any = false;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            numbers[i] = counted(x[i]);
            any = any || numbers[i] >= least;
        }
        if (!any) return;
        Philox words = {{0, 0, 0, 0}};
        if (!noise) words = philox(first / 4, offset, seed);
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (numbers[i] >= least) enter(first + i, numbers[i], words.word[i]);
    }
};

struct SumKept {
    const Scale& scale;
    float least;
    float sum;
    RF_FN void operator()(u32, float x) {
        x = counted(x);
        if (x >= least) sum += scale.weight(x);
    }
};

// Each kept element's p over their sum.
template <class T> RF_FN void write(const Row<T>& row, const Shared& s, const Scale& scale, float least, float* out) {
    SumKept kept = {scale, least, 0.0f};
    each(row, kept);
    float sum = group_reduce(kept.sum, Sum(), s.floats, thread_x(), (u32)SELECT_THREADS);
    bool aligned = ((u64)out & 15) == 0;
    for (u32 first = thread_x() * Row<T>::PER; first < row.count; first += Row<T>::STEP) {
        float x[Row<T>::PER];
        row.get(first, x);
#pragma unroll
        for (u32 i = 0; i < Row<T>::PER; i += 4) {
            Vec<float, 4> four;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                float own = counted(x[i + j]);
                four[(int)j] = own >= least ? scale.weight(own) / sum : 0.0f;
            }
            if (aligned && first + i + 4 <= row.count) {
                store<4>(out + first + i, four);
            } else {
#pragma unroll
                for (u32 j = 0; j < 4; ++j)
                    if (first + i + j < row.count) out[first + i + j] = four[(int)j];
            }
        }
    }
}

// The least key of what a row keeps; how many items of the list hold all that is kept, 0 where the list does not.
template <class T>
RF_FN u32 least_kept(const SampleArgs& g, u32 own, const Row<T>& row, const Shared& s, const Scale& scale, const Peaks& peaks,
                     u32* all_listed) {
    i32 top_k = g.top_ks ? g.top_ks[own * g.top_k_stride] : 0;
    float top_p = g.top_ps ? g.top_ps[own * g.top_p_stride] : 1.0f, min_p = g.min_ps ? g.min_ps[own * g.min_p_stride] : 0.0f;
    bool by_k = top_k > 0 && (u32)top_k < g.count, by_p = top_p < 1.0f;
    Rules rules = {by_k ? (u32)top_k : g.count, by_p ? top_p : infinity()};
    u32 least = key_of(-infinity()), listed = 0, thread = thread_x();
    if (by_k && rules.top_k <= SELECT_THREADS) {
        // Below the lowest number there are only NaNs, which have no key here.
        u32 lowest = key_of(-infinity()), bound = bound_of(peaks, rules.top_k, scale.most, s.counters);
        bound = bound > lowest ? bound : lowest;
        if (thread == 0) s.counters[3] = 0;
        barrier();
        Collect collect(s, scale, number_of(bound), by_p);
        each(row, collect);
        float all = group_reduce(collect.sum, Sum(), s.floats, thread, (u32)SELECT_THREADS);
        barrier();
        listed = s.counters[3];
        if (listed <= SELECT_LIST) {
            sort_list(s.list, listed);
            least = cut(s, listed, scale, rules, by_p ? top_p * all : infinity(), 0, 0.0f);
        }
    }
    if ((by_k || by_p) && (listed == 0 || listed > SELECT_LIST)) {
        barrier();
        least = by_bins(row, s, scale, rules);
        listed = 0;
    }
    if (min_p > 0.0f) {
#if SAMPLE_FORM == 1
        u32 limit = key_of(min_p * scale.number);
#else
        u32 limit = key_of(rf::fma(rf::log(min_p < 1.0f ? min_p : 1.0f), 0x1.715476p+0f / scale.octaves, scale.number));
#endif
        limit = limit < scale.most && scale.finite ? limit : scale.most;
        least = least > limit ? least : limit;
    }
    *all_listed = listed;
    return least;
}

extern "C" __global__ __launch_bounds__(SELECT_THREADS) void sample_rows(SampleArgs g) {
    __shared__ u64 items[SELECT_LIST];
    __shared__ u64 wide[SELECT_WAVES];
    __shared__ float floats[SELECT_WAVES];
    __shared__ u32 words[SELECT_WAVES];
    __shared__ u32 counters[4];
    Shared s = {items, wide, floats, words, counters};
    u32 own = group_x(), thread = thread_x();
    i64 from = g.rows ? g.rows[own * g.rows_stride] : (i64)own;
    bool there = from >= 0 && from < (i64)g.x_rows;
    Row<SAMPLE_TYPE> row(g.x + (there ? from * g.x_stride : 0), g.mask ? g.mask + own * g.mask_stride : (const u32*)0,
                         there ? g.count : 0);

    FindPeaks find_peaks;
    each(row, find_peaks);
    Peaks peaks = find_peaks.peaks;
    u64 most = group_reduce(peaks.item(), Max(), s.wide, thread, (u32)SELECT_THREADS);
    float temperature = g.temperatures ? g.temperatures[own * g.temperature_stride] : 1.0f;
    bool draws = temperature > 0.0f && key_in(most) != 0;
#if SAMPLE_WRITES == 0
    draws = draws && (g.seeds || g.noise);
    if (!draws) {
        if (thread == 0) g.tokens[own * g.token_stride] = (SAMPLE_INDEX)(key_in(most) != 0 ? place_in(most) : 0);
        return;
    }
#else
    float* out = g.out + own * g.out_stride;
    if (!draws) {
        u32 one = key_in(most) != 0 ? place_in(most) : g.count;
        for (u32 n = thread; n < g.count; n += SELECT_THREADS) out[n] = n == one ? 1.0f : 0.0f;
        return;
    }
#endif

    float number = number_of(key_in(most)), units = temperature > 1e-5f ? temperature : 1e-5f;
    Scale scale = {key_in(most), number, 0x1.715476p+0f / units, !is_inf(number)};
    u32 listed, least = least_kept(g, own, row, s, scale, peaks, &listed);
    float kept = number_of(least);
#if SAMPLE_WRITES == 0
    Race race(g, scale, kept, own);
    if (listed != 0) {
        for (u32 slot = thread; slot < listed; slot += SELECT_THREADS) {
            float x = number_of(key_in(s.list[slot]));
            if (x >= kept) race.enter(place_in(s.list[slot]), x);
        }
    } else {
        for (u32 first = thread * row.PER; first < row.count; first += row.STEP) {
            float x[Row<SAMPLE_TYPE>::PER];
            row.get(first, x);
#pragma unroll
            for (u32 i = 0; i < Row<SAMPLE_TYPE>::PER; i += 4) race.enter_four(first + i, x + i);
        }
    }
    u64 winner = group_reduce(race.contest.item(), Max(), s.wide, thread, (u32)SELECT_THREADS);
    // The largest is among those that enter, so somebody leads.
    if (thread == 0) g.tokens[own * g.token_stride] = (SAMPLE_INDEX)place_in(winner);
#else
    write(row, s, scale, kept, out);
#endif
}
