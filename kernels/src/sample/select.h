// select.h: what the operators that look for the largest numbers of a row share. Stands before their kernels.
//
// A workgroup of SELECT_THREADS lanes has a row and goes through it several times, from memory once and then mostly from a cache.
// Numbers are compared by keys, integers that grow with them, so that a threshold is exact. Which elements a lane has depends on
// their places in the row alone, so sums are the same bits wherever the row lies and whatever else is in the batch.
//
// Few elements are looked at closely: those that reach a bound go to a list in LDS. The bound comes from the two largest of each
// lane, of which enough must reach it. Where too many do, they are counted in bins.
namespace rf {

#define SELECT_THREADS 1024
#define SELECT_WAVES (SELECT_THREADS / ARCH_WAVE_SIZE)
// Items of the list, and bins: LDS of 8 bytes each, used by turns.
#define SELECT_LIST 2048
#define SELECT_BINS SELECT_LIST
#define SELECT_BINS_LOG2 11

RF_FN u32 ones(u64 lanes) {
#if RF_DEVICE_AMD
    return (u32)__builtin_popcountll(lanes);
#else
    return (u32)__popcll(lanes);
#endif
}
RF_FN u32 width_of(u32 value) { return value == 0 ? 0 : 64 - (u32)__builtin_clzll((u64)value); }

// Counters in LDS: sums of integers do not depend on who comes first.
RF_FN u32 lds_add(u32* at, u32 value) {
#if RF_DEVICE_AMD
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#else
    return atomicAdd(at, value);
#endif
}

// An integer that grows with the number; both zeros have one. No number's is 0 or 1.
RF_FN u32 key_of(float x) {
    u32 bits = bit_cast<u32>(x + 0.0f);
    return bits ^ ((bits >> 31) != 0 ? ~0u : 0x80000000u);
}
RF_FN float number_of(u32 key) { return bit_cast<float>(key ^ ((key >> 31) != 0 ? 0x80000000u : ~0u)); }

// A row; element `at` is not there if bit at % 32 of word at / 32 of the mask is 0.
template <class T> struct Row {
    static const u32 PER = PerLane<T>::value;
    // Runs of PER elements that a lane asks for before it looks at the first.
    static const u32 AHEAD = 16 / PER;
    static const u32 STEP = SELECT_THREADS * PER;
    const T* x;
    const u32* mask;  // null: all are there
    u32 count;
    bool aligned;

    RF_FN Row(const T* x, const u32* mask, u32 count) : x(x), mask(mask), count(count), aligned(((u64)x & 15) == 0) {}
    RF_FN float at(u32 n) const {
        bool there = !mask || ((mask[n / 32] >> (n % 32)) & 1u) != 0;
        return there ? cast<float>(x[n]) : nan();
    }
    // Elements first to first + PER - 1; NaN for what is not there.
    RF_FN void get(u32 first, float* to) const {
        if (first + PER <= count && aligned) {
            Vec<T, (int)PER> some = load<(int)PER>(x + first);
#pragma unroll
            for (u32 i = 0; i < PER; ++i) to[i] = cast<float>(some[(int)i]);
        } else {
#pragma unroll
            for (u32 i = 0; i < PER; ++i) to[i] = first + i < count ? cast<float>(x[first + i]) : nan();
        }
        if (!mask) return;
        u32 word = first < count ? mask[first / 32] >> (first % 32) : 0;
#pragma unroll
        for (u32 i = 0; i < PER; ++i) to[i] = ((word >> i) & 1u) != 0 ? to[i] : nan();
    }
};

// f(place, number) for this lane's elements of the row, in ascending order; of some places behind the row too, with NaN.
template <class T, class F> RF_FN void each(const Row<T>& row, F& f) {
    typedef Row<T> R;
    for (u32 first = thread_x() * R::PER; first < row.count; first += R::AHEAD * R::STEP) {
        float x[R::AHEAD][R::PER];
#pragma unroll
        for (u32 run = 0; run < R::AHEAD; ++run) row.get(first + run * R::STEP, x[run]);
#pragma unroll
        for (u32 run = 0; run < R::AHEAD; ++run) {
            u32 at = first + run * R::STEP;
#pragma unroll
            for (u32 i = 0; i < R::PER; ++i) f(at + i, x[run][i]);
        }
    }
}

// The two largest keys of a lane, and the first place of the largest.
struct Peaks {
    u32 first, second, place;
    RF_FN Peaks() : first(0), second(0), place(0) {}
    RF_FN void take(u32 at, u32 key) {
        u32 lower = key < first ? key : first;
        second = lower > second ? lower : second;
        place = key > first ? at : place;
        first = key > first ? key : first;
    }
    // The key in the upper half, so that the largest of several is the first of the largest.
    RF_FN u64 item() const { return (u64)first << 32 | (u32)~place; }
};
RF_FN u32 key_in(u64 item) { return (u32)(item >> 32); }
RF_FN u32 place_in(u64 item) { return ~(u32)item; }

// A key that at least `wanted` of the lanes' peaks reach, and at most twice as many if there is such a key; the least that any has
// where fewer are there. `most` is the largest key of all; `counters` are 3 words of LDS.
RF_FN u32 bound_of(const Peaks& peaks, u32 wanted, u32 most, u32* counters) {
    if (thread_x() < 3) counters[thread_x()] = 0;
    barrier();
    u32 low = 1, high = most;
    for (u32 round = 0; low < high; ++round) {
        u32 middle = low + (high - low + 1) / 2;
        u32 own = ones(rf::ballot(peaks.first >= middle)) + ones(rf::ballot(peaks.second >= middle));
        if (lane() == 0) lds_add(&counters[round % 3], own);
        barrier();
        u32 found = counters[round % 3];
        // Read before this barrier, and counted in behind the next.
        if (thread_x() == 0) counters[(round + 2) % 3] = 0;
        if (found < wanted) {
            high = middle - 1;
        } else {
            low = middle;
            if (found <= 2 * wanted) break;
        }
    }
    barrier();
    return low;
}

// What the lanes before this one have in all, and what all have.
template <class T> RF_FN T sum_before(T value, T* scratch, T* total) {
    u32 own = lane(), wave = thread_x() / ARCH_WAVE_SIZE;
    T sum = value;
#pragma unroll
    for (u32 reach = 1; reach < ARCH_WAVE_SIZE; reach *= 2) {
        T other = shuffle(sum, own >= reach ? own - reach : own);
        sum = own >= reach ? other + sum : sum;
    }
    T left = shuffle(sum, own >= 1 ? own - 1 : own);
    if (own == ARCH_WAVE_SIZE - 1) scratch[wave] = sum;
    barrier();
    T before = (T)0, all = (T)0;
    for (u32 n = 0; n < SELECT_WAVES; ++n) {
        before = n == wave ? all : before;
        all += scratch[n];
    }
    barrier();
    *total = all;
    return own >= 1 ? before + left : before;
}

// Puts a list in descending order: by key, and by ascending place where keys are equal. Items are not 0.
RF_FN void sort_list(u64* list, u32 count) {
    u32 n = 2;
    while (n < count) n *= 2;
    for (u32 slot = count + thread_x(); slot < n; slot += SELECT_THREADS) list[slot] = 0;
    for (u32 run = 2; run <= n; run *= 2) {
        for (u32 reach = run / 2; reach > 0; reach /= 2) {
            barrier();
            for (u32 pair = thread_x(); pair < n / 2; pair += SELECT_THREADS) {
                u32 low = 2 * pair - (pair & (reach - 1)), high = low + reach;
                u64 a = list[low], b = list[high];
                bool descending = run == n || (low & run) == 0;
                if ((a < b) == descending) {
                    list[low] = b;
                    list[high] = a;
                }
            }
        }
    }
    barrier();
}

// A list that lanes add to in any order; `size` counts beyond SELECT_LIST where it is full.
struct List {
    u64* items;
    u32* size;
    bool full;
    RF_FN List(u64* items, u32* size) : items(items), size(size), full(false) {}
    RF_FN void add(u32 key, u32 place) {
        if (full) return;
        u32 slot = lds_add(size, 1u);
        full = slot >= SELECT_LIST;
        if (!full) items[slot] = (u64)key << 32 | (u32)~place;
    }
};

// Word n % 4 of a block, in registers.
RF_FN u32 word_of(const Philox& words, u32 n) {
    u32 low = (n & 1) != 0 ? words.word[1] : words.word[0], high = (n & 1) != 0 ? words.word[3] : words.word[2];
    return (n & 2) != 0 ? high : low;
}

// A contest that place n wins with a probability of its weight over the sum of all: the largest weight / e, e drawn from the
// exponential distribution, the first of equals.
struct Contest {
    float score;
    u32 place;  // of whoever leads; ~0 for nobody
    RF_FN Contest() : score(0.0f), place(~0u) {}
    RF_FN void enter(u32 own, float weight, float e) {
        float reached = weight / e;
        reached = reached > 0.0f ? reached : 0.0f;
        bool leads = reached > score || (reached == score && own < place);
        place = leads ? own : place;
        score = leads ? reached : score;
    }
    // By a random word: e = -log(1 - v) with v of (0, 1), of 32 bits where it is small, since the smallest e decide.
    RF_FN void enter_drawn(u32 own, float weight, u32 word) {
        float v = rf::fma((float)word, 0x1p-32f, 0x1p-33f);
        // e is at least v, so this one cannot win.
        if (weight < 0.999999f * v * score) return;
        enter(own, weight, -rf::log1p(-(v < 0x1.fffffep-1f ? v : 0x1.fffffep-1f)));
    }
    // The largest of several is the winner's: the score in the upper half, ~place in the lower; 0 for nobody.
    RF_FN u64 item() const { return (u64)bit_cast<u32>(score) << 32 | (u32)~place; }
};

// Keys from `high` down to `high - span`, in bins of 2^shift.
struct Window {
    u32 high, span, shift;
    RF_FN static Window of(u32 high, u32 span) {
        u32 width = width_of(span);
        Window w = {high, span, width > SELECT_BINS_LOG2 ? width - SELECT_BINS_LOG2 : 0};
        return w;
    }
    RF_FN bool has(u32 key) const { return key <= high && high - key <= span; }
    RF_FN u32 bin(u32 key) const { return (high - key) >> shift; }
    // One of the bins.
    RF_FN Window within(u32 bin) const { return of(high - (bin << shift), (1u << shift) - 1); }
};

}  // namespace rf
