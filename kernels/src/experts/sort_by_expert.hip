// sort_by_expert: the choices of tokens in the order of groups, each group's in the order of tokens
//
//   group of choice n = token * k + slot: its expert, or what the map says; choices of no group, and of tokens that do not count, are
//   left out: they come behind the last group, or with `in_blocks` nowhere
//   offsets[g] = where group g begins, each share rounded up to a multiple of `block`; order[at] = n, `choices` where there is none;
//   inverse[n] = at, or -1; sorted[at] = weights of n, 0 of what is left out; block_groups[b] = the group of places b * block.., -1
//   behind the last
//
// Shapes : ids, weights [tokens, k], innermost contiguous, any row stride; map [experts]; order, sorted [places]; inverse [tokens * k];
//          offsets [groups + 1]; block_groups [ceil(places / block)]; total [1]; counts [chunks, groups + 1]
// Grid   : (chunks, 1, 1)     Block : (256, 1, 1)
// LDS    : a word for each group and wave, and one for each group
// Needs  : groups <= SORT_GROUPS, tokens * k < 2^31, places >= all shares rounded up               checked by the launcher
// Numeric: whole numbers: the same whoever comes first. An expert that there is not is told of, but for -1, which is none
//
// sort_by_expert_place does all for one chunk. For more, sort_by_expert_count counts each chunk's choices by group first, and every
// workgroup adds up what it needs of these counts.
//
// Macros : SORT_GROUPS, a power of two; SORT_GROUPS_LOG2
using namespace rf;

RF_CHECKS_INDICES

#define THREADS 256
#define WAVES (THREADS / ARCH_WAVE_SIZE)
// Groups of a lane.
#define EACH ((SORT_GROUPS + THREADS - 1) / THREADS)

struct SortByExpertArgs {
    const i32* ids;
    const i32* map;       // null: an expert is a group
    const i32* count;     // tokens that count; null: all
    const float* weights;
    i32* order;
    i32* inverse;         // null if not wanted, as the next three
    float* sorted;
    i32* block_groups;
    i32* total;
    i32* offsets;
    u32* counts;          // null for one chunk
    i64 id_stride, weight_stride;
    u32 choices, experts, groups, places, chunk, chunks;
    u32 in_blocks;
    FastDiv k, block;
    u32 padding;
};
static_assert(sizeof(SortByExpertArgs) == 160, "as in sort_by_expert.rs");

#define LEFT_OUT SORT_GROUPS
#define NO_CHOICE (SORT_GROUPS + 1)
#define SLOTS (SORT_GROUPS + 1)

// The group of a choice.
RF_FN u32 group_of(const SortByExpertArgs& g, u32 n, u32 end) {
    if (n >= end) return NO_CHOICE;
    u32 token = g.k.divide(n), slot = n - token * g.k.divisor;
    if (g.count && (i64)token >= (i64)*g.count) return LEFT_OUT;
    i32 id = g.ids[token * g.id_stride + slot];
    if ((u32)id >= g.experts) {
        if (id != -1) RF_TELL_INDEX("sort_by_expert", (i64)id, (i64)g.experts);
        return LEFT_OUT;
    }
    if (g.map) id = g.map[id];
    return (u32)id < g.groups ? (u32)id : LEFT_OUT;
}
RF_FN u32 ones(u64 lanes) {
#if RF_DEVICE_AMD
    return (u32)__builtin_popcountll(lanes);
#else
    return (u32)__popcll(lanes);
#endif
}
// The lanes whose group is this one's.
RF_FN u64 peers(u32 group) {
    u64 same = ~0ull >> (64 - ARCH_WAVE_SIZE);
#pragma unroll
    for (u32 bit = 0; bit <= SORT_GROUPS_LOG2; ++bit) {
        bool own = ((group >> bit) & 1) != 0;
        u64 votes = rf::ballot(own);
        same &= own ? votes : ~votes;
    }
    return same;
}

// A wave's part of a chunk.
struct Part {
    u32 first, end;
    RF_FN Part(const SortByExpertArgs& g) {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), each = g.chunk / WAVES, start = group_x() * g.chunk;
        u32 chunk_end = start + g.chunk < g.choices ? start + g.chunk : g.choices;
        first = start + wave * each;
        end = first + each < chunk_end ? first + each : chunk_end;
    }
};
// Choices of a lane that are asked for before the first is looked at.
#define AHEAD 4
RF_FN void groups_of(const SortByExpertArgs& g, u32 n, u32 end, u32 (&groups)[AHEAD]) {
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i) groups[i] = group_of(g, n + i * ARCH_WAVE_SIZE + lane(), end);
}
// Adds the wave's choices of each group to `counters`; its first choice of a group in 32 or 64 adds them all.
RF_FN void count(const SortByExpertArgs& g, const Part& part, u32* counters) {
    u64 below = ((u64)1 << lane()) - 1;
    for (u32 n = part.first; n < part.end; n += AHEAD * ARCH_WAVE_SIZE) {
        u32 groups[AHEAD];
        groups_of(g, n, part.end, groups);
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            u64 same = peers(groups[i]);
            if (groups[i] != NO_CHOICE && (same & below) == 0) counters[groups[i]] += ones(same);
            wave_barrier();
        }
    }
}
RF_FN u32 rounded_up(const SortByExpertArgs& g, u32 share) {
    return g.in_blocks != 0 ? g.block.divide(share + g.block.divisor - 1) * g.block.divisor : share;
}
RF_FN void clear(u32* counters) {
    for (u32 n = thread_x(); n < WAVES * SLOTS; n += THREADS) counters[n] = 0;
    barrier();
}

extern "C" __global__ __launch_bounds__(THREADS) void sort_by_expert_count(SortByExpertArgs g) {
    __shared__ u32 counters[WAVES][SLOTS];
    clear(&counters[0][0]);
    count(g, Part(g), counters[uniform(thread_x() / ARCH_WAVE_SIZE)]);
    barrier();
    for (u32 group = thread_x(); group <= g.groups; group += THREADS) {
        u32 sum = 0;
        for (u32 wave = 0; wave < WAVES; ++wave) sum += counters[wave][group < g.groups ? group : LEFT_OUT];
        g.counts[(u64)group_x() * (g.groups + 1) + group] = sum;
    }
}

// What the lanes before this one have in all, and what all have.
RF_FN u32 sum_before(u32 value, u32* scratch, u32* total) {
    u32 own = lane(), wave = thread_x() / ARCH_WAVE_SIZE, sum = value;
#pragma unroll
    for (u32 reach = 1; reach < ARCH_WAVE_SIZE; reach *= 2) {
        u32 other = shuffle(sum, own >= reach ? own - reach : own);
        sum += own >= reach ? other : 0;
    }
    if (own == ARCH_WAVE_SIZE - 1) scratch[wave] = sum;
    barrier();
    u32 before = 0, all = 0;
    for (u32 n = 0; n < WAVES; ++n) {
        before = n == wave ? all : before;
        all += scratch[n];
    }
    barrier();
    *total = all;
    return before + sum - value;
}

// Puts a wave's choices where `counters` say: the place of its next choice of each group.
RF_FN void put(const SortByExpertArgs& g, const Part& part, u32* counters) {
    u64 below = ((u64)1 << lane()) - 1;
    for (u32 n = part.first; n < part.end; n += AHEAD * ARCH_WAVE_SIZE) {
        u32 groups[AHEAD];
        groups_of(g, n, part.end, groups);
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            u32 choice = n + i * ARCH_WAVE_SIZE + lane(), group = groups[i];
            u64 same = peers(group);
            u32 at = group != NO_CHOICE ? counters[group] + ones(same & below) : 0;
            wave_barrier();
            if (group != NO_CHOICE && (same & below) == 0) counters[group] += ones(same);
            wave_barrier();
            if (group == NO_CHOICE) continue;
            bool has_place = group != LEFT_OUT || g.in_blocks == 0;
            if (has_place) g.order[at] = (i32)choice;
            if (g.inverse) g.inverse[choice] = has_place ? (i32)at : -1;
            if (g.sorted && has_place) {
                u32 token = g.k.divide(choice);
                i64 from = token * g.weight_stride + (choice - token * g.k.divisor);
                g.sorted[at] = group != LEFT_OUT ? g.weights[from] : 0.0f;
            }
        }
    }
}

// How many choices of a group there are in all chunks, and in those before this one.
struct Share {
    u32 all, earlier;
    RF_FN Share(const SortByExpertArgs& g, u32 group, const u32 (*counters)[SLOTS]) : all(0), earlier(0) {
        if (group >= g.groups) return;
        if (!g.counts) {
            for (u32 wave = 0; wave < WAVES; ++wave) all += counters[wave][group];
            return;
        }
#pragma unroll 8
        for (u32 chunk = 0; chunk < g.chunks; ++chunk) {
            u32 there = g.counts[(u64)chunk * (g.groups + 1) + group];
            all += there;
            earlier += chunk < group_x() ? there : 0;
        }
    }
};

extern "C" __global__ __launch_bounds__(THREADS) void sort_by_expert_place(SortByExpertArgs g) {
    __shared__ u32 counters[WAVES][SLOTS];
    __shared__ u32 scratch[WAVES];
    u32 thread = thread_x(), wave = uniform(thread / ARCH_WAVE_SIZE);
    Part part(g);
    clear(&counters[0][0]);
    count(g, part, counters[wave]);
    barrier();

    // Neighbouring groups are a lane's, so that sums of shares are their order.
    u32 shares[EACH], before[EACH], lane_share = 0;
    u32 first = thread * EACH;
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        Share share(g, first + i, counters);
        before[i] = share.earlier;
        shares[i] = share.all;
        lane_share += rounded_up(g, share.all);
    }
    u32 total, start = sum_before(lane_share, scratch, &total);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        u32 group = first + i;
        if (group >= g.groups) break;
        u32 end = start + rounded_up(g, shares[i]);
        // Where each wave's choices of this group go.
        u32 at = start + before[i];
        for (u32 w = 0; w < WAVES; ++w) {
            u32 own = counters[w][group];
            counters[w][group] = at;
            at += own;
        }
        // One workgroup writes what there is one of.
        if (g.chunks == 1 || group % g.chunks == group_x()) {
            g.offsets[group] = (i32)start;
            for (u32 place = start + shares[i]; place < end; ++place) {
                g.order[place] = (i32)g.choices;
                if (g.sorted) g.sorted[place] = 0.0f;
            }
            if (g.block_groups)
                for (u32 place = start; place < end; place += g.block.divisor) g.block_groups[g.block.divide(place)] = (i32)group;
        }
        start = end;
    }
    if (thread == 0 && group_x() == 0) {
        g.offsets[g.groups] = (i32)total;
        if (g.total) *g.total = (i32)total;
    }
    // There are fewer chunks than lanes.
    u32 left_out = 0;
    if (g.counts) {
        if (thread < group_x()) left_out = g.counts[(u64)thread * (g.groups + 1) + g.groups];
        left_out = group_reduce(left_out, Sum(), scratch, thread, (u32)THREADS);
    }
    if (thread == 0) {
        u32 at = total + left_out;
        for (u32 w = 0; w < WAVES; ++w) {
            u32 own = counters[w][LEFT_OUT];
            counters[w][LEFT_OUT] = at;
            at += own;
        }
    }
    // Without blocks there is a choice in every place.
    for (u32 place = total + group_x() * THREADS + thread; g.in_blocks != 0 && place < g.places; place += g.chunks * THREADS) {
        g.order[place] = (i32)g.choices;
        if (g.sorted) g.sorted[place] = 0.0f;
        u32 of_place = g.block.divide(place);
        if (g.block_groups && of_place * g.block.divisor == place) g.block_groups[of_place] = -1;
    }
    barrier();

    put(g, part, counters[wave]);
}
