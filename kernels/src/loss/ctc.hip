// ctc_alpha: alpha[t, n, s] = log of the probability that the first t + 1 steps of sample n end in state s, and the loss
// ctc_beta : beta[t, n, s] = log of the probability of steps t and on, from state s at step t     (both with step t's own)
//
// Shapes : log_probs [T, N, C], any strides in elements; targets [N, S], input_lengths, target_lengths [N] contiguous i32;
//          alpha, beta [T, N, L] contiguous with L = 2 S + 1; loss [N] contiguous
// Grid   : (N, 1, 1)                            one workgroup per sample, which goes through time
// Block  : (256, 1, 1)                          lanes go through states
// Needs  : T >= 1; outputs overlap no input                                 checked by the launcher
// Numeric: f32 for 16-bit floats; states are the targets with a blank before, between and behind them. From a sample's own
//          length on alpha stays as it is and beta is -inf. A label outside 0..C has probability 0, and so has a target
//          longer than S or than what the steps can hold: the loss is infinite
//          (Graves et al., "Connectionist Temporal Classification", ICML 2006, sections 4.1 and 4.2)
//
// Macros : CTC_TYPE
using namespace rf;

typedef Acc<CTC_TYPE>::type Log;

struct CtcArgs {
    const CTC_TYPE* log_probs;
    const i32* targets;
    const i32* input_lengths;
    const i32* target_lengths;
    Log* states;                // alpha or beta
    CTC_TYPE* loss;             // of ctc_alpha
    Strides3 prob_strides;
    u32 time, batch, classes, symbols;
    i32 blank;
    u32 padding;
};
static_assert(sizeof(CtcArgs) == 96, "as in ctc.rs");

RF_FN Log never() { return (Log)-infinity(); }
RF_FN Log log_sum(Log a, Log b, Log c) {
    Log most = a > b ? a : b;
    most = most > c ? most : c;
    if (most == never()) return most;
    return most + rf::log(rf::exp(a - most) + rf::exp(b - most) + rf::exp(c - most));
}

// One sample.
struct Sample {
    u32 n, states;
    i32 steps, last;            // its own steps; its last state, a blank
    RF_FN Sample(const CtcArgs& g) {
        n = group_x();
        states = 2 * g.symbols + 1;
        steps = g.input_lengths[n];
        last = 2 * g.target_lengths[n];
    }
    RF_FN i32 label(const CtcArgs& g, i32 s) const { return (s & 1) ? g.targets[(i64)n * g.symbols + s / 2] : g.blank; }
    // Whether a path may pass over the blank between states s - 2 and s.
    RF_FN bool skips(const CtcArgs& g, i32 s) const {
        return s >= 2 && (s & 1) && label(g, s) != g.blank && label(g, s) != label(g, s - 2);
    }
    RF_FN Log emitted(const CtcArgs& g, u32 t, i32 s) const {
        i32 c = label(g, s);
        if (c < 0 || (u32)c >= g.classes) return never();
        return cast<Log>(g.log_probs[g.prob_strides.at(t, n, (u32)c)]);
    }
    RF_FN Log* row(const CtcArgs& g, u32 t) const { return g.states + ((i64)t * g.batch + n) * states; }
};

extern "C" __global__ __launch_bounds__(256) void ctc_alpha(CtcArgs g) {
    Sample sample(g);
    for (u32 t = 0; t < g.time; ++t) {
        Log* row = sample.row(g, t);
        const Log* before = t == 0 ? row : sample.row(g, t - 1);
        for (u32 at = thread_x(); at < sample.states; at += 256) {
            i32 s = (i32)at;
            Log value;
            if (t == 0) {
                value = s <= 1 && s <= sample.last ? sample.emitted(g, 0, s) : never();
            } else if ((i32)t < sample.steps && s <= sample.last) {
                Log stay = before[s], step = s >= 1 ? before[s - 1] : never();
                Log skip = sample.skips(g, s) ? before[s - 2] : never();
                value = log_sum(stay, step, skip) + sample.emitted(g, t, s);
            } else {
                value = before[s];
            }
            row[s] = value;
        }
        barrier_global();
    }
    if (thread_x() != 0) return;
    const Log* row = sample.row(g, g.time - 1);
    bool held = sample.last >= 0 && sample.last < (i32)sample.states;
    Log blank = held ? row[sample.last] : never();
    Log symbol = held && sample.last > 0 ? row[sample.last - 1] : never();
    g.loss[sample.n] = cast<CTC_TYPE>(-log_sum(blank, symbol, never()));
}

extern "C" __global__ __launch_bounds__(256) void ctc_beta(CtcArgs g) {
    Sample sample(g);
    for (u32 t = g.time; t-- > 0;) {
        Log* row = sample.row(g, t);
        const Log* after = t + 1 == g.time ? row : sample.row(g, t + 1);
        for (u32 at = thread_x(); at < sample.states; at += 256) {
            i32 s = (i32)at;
            Log value = never();
            if ((i32)t < sample.steps && s <= sample.last) {
                // The last step must end in the last blank or the last symbol.
                bool ends = (i32)t == sample.steps - 1 || t + 1 == g.time;
                if (ends) {
                    value = s >= sample.last - 1 ? (Log)0 : never();
                } else {
                    Log step = s + 1 <= sample.last ? after[s + 1] : never();
                    Log skip = s + 2 <= sample.last && sample.skips(g, s + 2) ? after[s + 2] : never();
                    value = log_sum(after[s], step, skip);
                }
                value = value + sample.emitted(g, t, s);
            }
            row[s] = value;
        }
        barrier_global();
    }
}
