// scaled_end.h: what follows a sum of products of codes and its scales, element by element: a bias, an activation, a code. Stands before
// scaled_tile.h and scaled_end.hip.
//
// Macros : S_OUT, the elements of C, for codes OutCode; S_END: whether anything follows; S_BIAS: the bias' type, S_BIASED: whether there is
//          one; S_ACTIVATION: 0 none, 1 relu, 2 gelu by tanh, 3 silu; S_CODE: the format's number of quant.h, -1 where C is floats
// Numeric: in f32: x + bias, the activation, then cast or encode(x * (1 / scale)), ties to even, saturating; a NaN stays one where C has it
using namespace rf;

struct EndArgs {
    const void* bias;
    const float* scale;
    i64 bias_step;
};
static_assert(sizeof(EndArgs) == 24, "as in end.rs");

#if S_CODE >= 0
struct OutCode { u8 bits; };
namespace rf {
template <> struct Cast<OutCode, float> {
    RF_FN static OutCode of(float x) {
        const OutCode code = {(u8)Format<S_CODE>::encode<RoundEven>(x, -127.0f, 127.0f)};
        return code;
    }
};
}  // namespace rf
#endif
typedef S_OUT Out;

#if S_END
struct End {
    float inverse;

    RF_FN void start(const EndArgs& g) {
#if S_CODE >= 0
        inverse = 1.0f / *g.scale;
#endif
    }
    RF_FN float bias(const EndArgs& g, u32 col) const {
#if S_BIASED
        return cast<float>(((const S_BIAS*)g.bias)[(i64)col * g.bias_step]);
#else
        return 0.0f;
#endif
    }
    RF_FN float of(float x, float bias) const {
#if S_BIASED
        x += bias;
#endif
#if S_ACTIVATION == 1
        x = x < 0.0f ? 0.0f : x;
#elif S_ACTIVATION == 2
        // (1 + tanh(u)) / 2 is the logistic function of 2 u, where nothing cancels for negative u.
        x = x * (1.0f / (1.0f + rf::exp((x * x * 0.044715f + 1.0f) * x * -1.5957691216057308f)));
#elif S_ACTIVATION == 3
        x = x * (1.0f / (1.0f + rf::exp(-x)));
#endif
#if S_CODE >= 0
        x *= inverse;
#endif
        return x;
    }
};
#endif
