// selective_scan: s = exp(dt * A) * s + dt * B * x, y = C . s + D * x, by channel along each sequence
//
// Shapes : x, dt, z, out [tokens, dim]; A [dim, N]; B, C [tokens, groups, N]; D, dt_bias [dim]; state [slots, dim, N]; strides in
//          elements
// Grid   : (sequences * ceil(dim / (128 / SCAN_LANES)), 1, 1): SCAN_LANES lanes have a channel, each SCAN_EACH of its N numbers
// Block  : (128, 1, 1)
// Needs  : N <= SCAN_LANES * SCAN_EACH; groups divides dim; tokens, slots < 2^31; out and state apart from each other and from what
//          is read; with SCAN_IS_WHOLE B, C and state in aligned fours                     checked by the launcher
// Numeric: in f32, one rounding at each store; a channel's numbers are added up by a lane in ascending order, then by lanes in pairs,
//          in an order that N decides. A row's bits depend on its own sequence alone
//
// Macros : SCAN_TYPE of x, dt, B, C, z, out; SCAN_STATE; SCAN_WEIGHT of D and dt_bias; SCAN_LANES, SCAN_EACH; SCAN_IS_WHOLE;
//          SCAN_IS_SOFTPLUS: dt goes through log(1 + e^dt); SCAN_IS_NEAR: powers to what 16 bits keep
//
// The state of a channel is read and written by the same lanes.

#define LANES SCAN_LANES
#define EACH SCAN_EACH
#define THREADS 128
#define PIECE 4                   // numbers on end that a lane has; its pieces are LANES of them apart
#define AHEAD (EACH > 8 ? 1 : 8 / EACH * 2)  // tokens that are loaded at once

typedef SCAN_TYPE T;
typedef SCAN_STATE State;

struct SelectiveScanArgs {
    const T *x, *dt, *b, *c, *z;  // z: or no address
    T* out;
    const float* a;
    const SCAN_WEIGHT *d, *dt_bias;  // or no address
    State* state;
    i64 x_token, x_channel, dt_token, dt_channel, z_token, z_channel, out_token, out_channel;
    i64 b_token, b_group, b_number, c_token, c_group, c_number, a_channel, a_number, d_channel, dt_bias_channel;
    i64 state_slot, state_channel, state_number;
    Sequences sequences;
    FastDiv blocks;    // of channels
    FastDiv channels;  // of a group
    u32 dim, numbers;
};
static_assert(sizeof(SelectiveScanArgs) == 80 + 168 + 64 + 24 + 8, "as in selective_scan.rs");

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

struct Token { float x, dt, z, b[EACH], c[EACH]; };

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

extern "C" __global__ __launch_bounds__(THREADS) void selective_scan(SelectiveScanArgs g) {
    const u32 number = g.blocks.divide(group_x()), block = group_x() - number * g.blocks.divisor;
    const u32 own = block * (THREADS / LANES) + thread_x() / LANES, lane = thread_x() % LANES;
    const Span span = span_of(g.sequences, number);
    if (span.begin >= span.end) return;
    // Lanes without a channel go along with the last, to where lanes meet, and write nothing.
    const bool is_there = own < g.dim;
    const u32 at = is_there ? own : g.dim - 1;
    T* out = g.out + (i64)at * g.out_channel;
    const i64 slot = SLOT_OF(g.sequences, number, "selective_scan");
    if (slot < 0) {
        for (u32 token = span.begin + lane; token < span.end; token += LANES)
            if (is_there) out[(i64)token * g.out_token] = cast<T>(0.0f);
        return;
    }
    const u32 group = g.channels.divide(at);
    const T *x = g.x + (i64)at * g.x_channel, *dt = g.dt + (i64)at * g.dt_channel;
    const T* z = g.z != 0 ? g.z + (i64)at * g.z_channel : 0;
    const T *b = g.b + (i64)group * g.b_group, *c = g.c + (i64)group * g.c_group;
    State* state = g.state + slot * g.state_slot + (i64)at * g.state_channel;
    Channel channel;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        const u32 n = number_of(lane, j);
        channel.a[j] = n < g.numbers ? g.a[(i64)at * g.a_channel + n * g.a_number] * POWER_UNIT : 0.0f;
        channel.s[j] = 0.0f;
    }
    channel.d = g.d != 0 ? cast<float>(g.d[at * g.d_channel]) : 0.0f;
    channel.dt_bias = g.dt_bias != 0 ? cast<float>(g.dt_bias[at * g.dt_bias_channel]) : 0.0f;
    if (!is_fresh(g.sequences, number)) read_numbers(state, g.state_number, lane, g.numbers, channel.s);
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
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (first + i >= span.end) break;
            float y = step(channel, tokens[i]);
            if (z != 0) y *= tokens[i].z / (1.0f + rf::exp(-tokens[i].z));
            if (lane == 0 && is_there) out[(i64)(first + i) * g.out_token] = cast<T>(y);
        }
    }
    if (is_there) write_numbers(state, g.state_number, lane, g.numbers, channel.s);
}
