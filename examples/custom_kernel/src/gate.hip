// gate: out = silu(x) * y, elementwise, in one launch; and its gradient by both.
// One thread for each element.
extern "C" __global__ void gate(const float* x, const float* y, float* out, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = x[i] / (1.0f + expf(-x[i])) * y[i];
}

extern "C" __global__ void gate_gradient(const float* x, const float* y, const float* out, const float* grad, float* dx,
                                         float* dy, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float s = 1.0f / (1.0f + expf(-x[i]));
    dx[i] = grad[i] * y[i] * s * (1.0f + x[i] * (1.0f - s));
    dy[i] = grad[i] * x[i] * s;
}
