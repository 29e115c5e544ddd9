// selective_scan: s = exp(dt * A) * s + dt * B * x, y = C . s + D * x, by channel along each sequence
//
// Shapes : x, dt, z, out [tokens, dim]; A [dim, N]; B, C [tokens, groups, N]; D, dt_bias [dim]; state [slots, dim, N]; strides in
//          elements
// Grid   : (sequences * ceil(dim / (128 / SCAN_LANES)), 1, 1): SCAN_LANES lanes have a channel, each SCAN_EACH of its N numbers
// Block  : (128, 1, 1)
// Needs  : N <= SCAN_LANES * SCAN_EACH; groups divides dim; tokens, slots < 2^31; out and state apart from each other and from what
//          is read; with SCAN_IS_WHOLE B, C and state in aligned fours                     checked by the launcher
// Numeric: in f32, one rounding at each store; a channel's numbers are added up by a lane in ascending order, then by lanes in pairs,
//          in an order that N decides. A row's bits depend on its own sequence alone. A state that is kept after a token is rounded
//          there, as if it were read again
//
// Macros : SCAN_TYPE of x, dt, B, C, z, out; SCAN_STATE; SCAN_WEIGHT of D and dt_bias; SCAN_LANES, SCAN_EACH; SCAN_IS_WHOLE;
//          SCAN_IS_SOFTPLUS: dt goes through log(1 + e^dt); SCAN_IS_NEAR: powers to what 16 bits keep; SCAN_KEEPS: whether there
//          are slots to write, and places to go on from
//
// The state of a channel is read and written by the same lanes.

#define LANES SCAN_LANES
#define EACH SCAN_EACH
#define THREADS 128
#define PIECE 4                   // numbers on end that a lane has; its pieces are LANES of them apart
#define AHEAD (EACH > 8 ? 1 : 8 / EACH * 2)  // tokens that are loaded at once

typedef SCAN_TYPE T;
typedef SCAN_STATE State;

// Slots to write, and which of those to read a sequence goes on with.
struct Kept {
    const i32 *to, *accepted;  // [sequences, places]; [sequences], or no address: all go on at the first place
    i64 to_sequence, to_place, accepted_sequence, from_place;
    u32 to_places, from_places;
    u32 is_each, padding;  // whether the state after each token has a slot
};

struct SelectiveScanArgs {
    const T *x, *dt, *b, *c, *z;  // z: or no address
    T* out;
    const float* a;
    const SCAN_WEIGHT *d, *dt_bias;  // or no address
    State* state;
    i64 x_token, x_channel, dt_token, dt_channel, z_token, z_channel, out_token, out_channel;
    i64 b_token, b_group, b_number, c_token, c_group, c_number, a_channel, a_number, d_channel, dt_bias_channel;
    i64 state_slot, state_channel, state_number;
    Kept kept;
    Sequences sequences;
    FastDiv blocks;    // of channels
    FastDiv channels;  // of a group
    u32 dim, numbers;
};
static_assert(sizeof(SelectiveScanArgs) == 80 + 168 + 64 + 64 + 24 + 8, "as in selective_scan.rs");

// A lane's number j of a channel: which it is.
RF_FN u32 number_of(u32 lane, int j) { return (j / PIECE * LANES + lane) * PIECE + j % PIECE; }

// A lane's numbers of a line; zeros where there are none.
template <class S> RF_FN void read_numbers(const S* from, i64 stride, u32 lane, u32 numbers, float* to) {
#pragma unroll
    for (int j = 0; j < EACH; j += PIECE) {
        const u32 first = number_of(lane, j);
#if SCAN_IS_WHOLE
        Vec<S, PIECE> piece;
        __builtin_memset(&piece, 0, sizeof(piece));
        if (first < numbers) piece = load<PIECE>(from + first);
#pragma unroll
        for (int i = 0; i < PIECE; ++i) to[j + i] = cast<float>(piece[i]);
#else
#pragma unroll
        for (int i = 0; i < PIECE; ++i) to[j + i] = first + i < numbers ? cast<float>(from[(first + i) * stride]) : 0.0f;
#endif
    }
}
RF_FN void write_numbers(State* to, i64 stride, u32 lane, u32 numbers, const float* from) {
#pragma unroll
    for (int j = 0; j < EACH; j += PIECE) {
        const u32 first = number_of(lane, j);
#if SCAN_IS_WHOLE
        Vec<State, PIECE> piece;
#pragma unroll
        for (int i = 0; i < PIECE; ++i) piece[i] = cast<State>(from[j + i]);
        if (first < numbers) store<PIECE>(to + first, piece);
#else
#pragma unroll
        for (int i = 0; i < PIECE; ++i)
            if (first + i < numbers) to[(first + i) * stride] = cast<State>(from[j + i]);
#endif
    }
}
// The sum over the lanes of a channel, in each of them.
RF_FN float sum_of_lanes(float x) {
    if (LANES > 1) x += dpp<RF_DPP_XOR1>(x);
    if (LANES > 2) x += dpp<RF_DPP_XOR2>(x);
    if (LANES > 4) x += dpp<RF_DPP_HALF_MIRROR>(x);
    if (LANES > 8) x += dpp<RF_DPP_MIRROR>(x);
    return x;
}
// e^x of a number at most 0 mostly; `a` is in units of log(2) where a near power will do.
#if SCAN_IS_NEAR
RF_FN float power(float x) { return exp2_fast(x); }
#define POWER_UNIT 1.44269504f
#else
RF_FN float power(float x) { return rf::exp(x); }
#define POWER_UNIT 1.0f
#endif

struct Token {
    float x, dt, z, b[EACH], c[EACH];
    i32 to;  // where the state behind it is kept
};

struct Channel {
    float a[EACH], s[EACH], d, dt_bias;
};
// One token; what comes out of the channel.
RF_FN float step(Channel& channel, const Token& token) {
    float dt = token.dt + channel.dt_bias;
#if SCAN_IS_SOFTPLUS
    dt = dt > 20.0f ? dt : rf::log1p(rf::exp(dt));
#endif
    const float by = dt * token.x;
    float y = 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        channel.s[j] = rf::fma(power(dt * channel.a[j]), channel.s[j], by * token.b[j]);
        y = rf::fma(token.c[j], channel.s[j], y);
    }
    return rf::fma(channel.d, token.x, sum_of_lanes(y));
}

// Where a sequence's state is read, -1 for one that begins; whether it is to be gone through at all.
struct Begin { i64 from; bool is_there; };
#if SCAN_KEEPS
RF_FN i64 kept_slot(const SelectiveScanArgs& g, i32 slot) {
    return slot_of(g.sequences, slot, SlotTold<RF_LETTERS("selective_scan")>());
}
RF_FN Begin begin_of(const SelectiveScanArgs& g, u32 number) {
    Begin begin = {-1, true};
    if (!is_fresh(g.sequences, number)) {
        const u32 place = g.kept.accepted != 0 ? (u32)g.kept.accepted[number * g.kept.accepted_sequence] - 1 : 0;
        if (place < g.kept.from_places)
            begin.from = kept_slot(g, g.sequences.slots[number * g.sequences.slot_stride + place * g.kept.from_place]);
        begin.is_there = begin.from >= 0;
    }
    if (g.kept.is_each == 0 && kept_slot(g, g.kept.to[number * g.kept.to_sequence]) < 0) begin.is_there = false;
    return begin;
}
// A state as it will be read again.
RF_FN void narrow(Channel& channel) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) channel.s[j] = cast<float>(cast<State>(channel.s[j]));
}
#else
RF_FN Begin begin_of(const SelectiveScanArgs& g, u32 number) {
    Begin begin = {SLOT_OF(g.sequences, number, "selective_scan"), true};
    begin.is_there = begin.from >= 0;
    return begin;
}
#endif

extern "C" __global__ __launch_bounds__(THREADS) void selective_scan(SelectiveScanArgs g) {
    const u32 number = g.blocks.divide(group_x()), block = group_x() - number * g.blocks.divisor;
    const u32 own = block * (THREADS / LANES) + thread_x() / LANES, lane = thread_x() % LANES;
    const Span span = span_of(g.sequences, number);
    if (span.begin >= span.end) return;
    // Lanes without a channel go along with the last, to where lanes meet, and write nothing.
    const bool is_there = own < g.dim;
    const u32 at = is_there ? own : g.dim - 1;
    T* out = g.out + (i64)at * g.out_channel;
    const Begin begin = begin_of(g, number);
    if (!begin.is_there) {
        for (u32 token = span.begin + lane; token < span.end; token += LANES)
            if (is_there) out[(i64)token * g.out_token] = cast<T>(0.0f);
        return;
    }
    const u32 group = g.channels.divide(at);
    const T *x = g.x + (i64)at * g.x_channel, *dt = g.dt + (i64)at * g.dt_channel;
    const T* z = g.z != 0 ? g.z + (i64)at * g.z_channel : 0;
    const T *b = g.b + (i64)group * g.b_group, *c = g.c + (i64)group * g.c_group;
    State* states = g.state + (i64)at * g.state_channel;
    Channel channel;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        const u32 n = number_of(lane, j);
        channel.a[j] = n < g.numbers ? g.a[(i64)at * g.a_channel + n * g.a_number] * POWER_UNIT : 0.0f;
        channel.s[j] = 0.0f;
    }
    channel.d = g.d != 0 ? cast<float>(g.d[at * g.d_channel]) : 0.0f;
    channel.dt_bias = g.dt_bias != 0 ? cast<float>(g.dt_bias[at * g.dt_bias_channel]) : 0.0f;
#if SCAN_KEEPS
    const bool is_old = begin.from >= 0;
    const bool is_each = g.kept.is_each != 0 && span.end - span.begin <= g.kept.to_places;
    const i32* to = g.kept.to + number * g.kept.to_sequence;
#else
    const bool is_old = !is_fresh(g.sequences, number);
#endif
    if (is_old) read_numbers(states + begin.from * g.state_slot, g.state_number, lane, g.numbers, channel.s);
    for (u32 first = span.begin; first < span.end; first += AHEAD) {
        Token tokens[AHEAD];
        // Behind the end the last is loaded again, and is not used.
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const i64 token = first + i < span.end ? first + i : span.end - 1;
            tokens[i].x = cast<float>(x[token * g.x_token]);
            tokens[i].dt = cast<float>(dt[token * g.dt_token]);
            tokens[i].z = z != 0 ? cast<float>(z[token * g.z_token]) : 0.0f;
            read_numbers(b + token * g.b_token, g.b_number, lane, g.numbers, tokens[i].b);
            read_numbers(c + token * g.c_token, g.c_number, lane, g.numbers, tokens[i].c);
#if SCAN_KEEPS
            tokens[i].to = is_each ? to[(token - span.begin) * g.kept.to_place] : -1;
#endif
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (first + i >= span.end) break;
            float y = step(channel, tokens[i]);
            if (z != 0) y *= tokens[i].z / (1.0f + rf::exp(-tokens[i].z));
            if (lane == 0 && is_there) out[(i64)(first + i) * g.out_token] = cast<T>(y);
#if SCAN_KEEPS
            if (!is_each) continue;
            narrow(channel);
            const i64 slot = kept_slot(g, tokens[i].to);
            if (slot >= 0 && is_there) write_numbers(states + slot * g.state_slot, g.state_number, lane, g.numbers, channel.s);
#endif
        }
    }
#if SCAN_KEEPS
    const i64 slot = is_each ? -1 : kept_slot(g, to[0]);
#else
    const i64 slot = begin.from;
#endif
    if (slot >= 0 && is_there) write_numbers(states + slot * g.state_slot, g.state_number, lane, g.numbers, channel.s);
}
