// Attention and the normalisations around it, in f32. Exponentials are the prelude's.

struct Heads {
    const float *q, *k, *v;
    float* out;
    i32 length, dim, causal;
    float scale;
};

// One workgroup a row: all scores in LDS, softmax, weighted sum.
KERNEL void naive(Heads p) {
    __shared__ float scores[128];
    int row = blockIdx.x, t = threadIdx.x, end = p.causal ? row + 1 : p.length;
    for (int j = t; j < end; j += blockDim.x) {
        float sum = 0.0f;
        for (int d = 0; d < p.dim; ++d) sum += p.q[row * p.dim + d] * p.k[j * p.dim + d];
        scores[j] = sum * p.scale;
    }
    __syncthreads();
    float most = -__builtin_inff(), total = 0.0f;
    for (int j = 0; j < end; ++j) most = __builtin_fmaxf(most, scores[j]);
    for (int j = 0; j < end; ++j) total += rf::exp(scores[j] - most);
    for (int d = t; d < p.dim; d += blockDim.x) {
        float sum = 0.0f;
        for (int j = 0; j < end; ++j) sum += rf::exp(scores[j] - most) * p.v[j * p.dim + d];
        p.out[row * p.dim + d] = sum / total;
    }
}

// One wave a row, keys one after the other, the maximum and the sum corrected on the way (online softmax).
KERNEL void online(Heads p) {
    int row = blockIdx.x, lane = lane_id(), end = p.causal ? row + 1 : p.length;
    float most = -__builtin_inff(), total = 0.0f, sum = 0.0f;
    float q = lane < p.dim ? p.q[row * p.dim + lane] : 0.0f;
    for (int j = 0; j < end; ++j) {
        float score = lane < p.dim ? q * p.k[j * p.dim + lane] : 0.0f;
        for (int mask = WAVE / 2; mask > 0; mask /= 2) score += __shfl_xor(score, mask);
        score *= p.scale;
        float next = __builtin_fmaxf(most, score);
        float before = rf::exp(most - next), weight = rf::exp(score - next);
        total = total * before + weight;
        sum = sum * before + weight * (lane < p.dim ? p.v[j * p.dim + lane] : 0.0f);
        most = next;
    }
    if (lane < p.dim) p.out[row * p.dim + lane] = sum / total;
}

// Keys and values by tiles of 16 in LDS for a workgroup of 16 rows; a lane has one row and all its dimensions.
KERNEL void tiled(Heads p) {
    __shared__ float k[16][32], v[16][32];
    float q[32], sums[32], most = -__builtin_inff(), total = 0.0f;
    int row = blockIdx.x * 16 + threadIdx.x;
    for (int d = 0; d < 32; ++d) q[d] = p.q[row * 32 + d] * p.scale, sums[d] = 0.0f;
    for (int base = 0; base < p.length; base += 16) {
        __syncthreads();
        for (int d = 0; d < 32; ++d) {
            k[threadIdx.x][d] = p.k[(base + threadIdx.x) * 32 + d];
            v[threadIdx.x][d] = p.v[(base + threadIdx.x) * 32 + d];
        }
        __syncthreads();
        for (int j = 0; j < 16; ++j) {
            if (p.causal && base + j > row) break;
            float score = 0.0f;
            for (int d = 0; d < 32; ++d) score += q[d] * k[j][d];
            if (score > most) {
                float fade = rf::exp(most - score);
                total *= fade;
                for (int d = 0; d < 32; ++d) sums[d] *= fade;
                most = score;
            }
            float weight = rf::exp(score - most);
            total += weight;
            for (int d = 0; d < 32; ++d) sums[d] += weight * v[j][d];
        }
    }
    for (int d = 0; d < 32; ++d) p.out[row * 32 + d] = sums[d] / total;
}

// Softmax of rows by a workgroup, in place, and the logarithm of each row's sum.
KERNEL void softmax(float* x, float* log_sums, int cols) {
    __shared__ float part[4];
    float* row = x + blockIdx.x * cols;
    int t = threadIdx.x, waves = blockDim.x / WAVE;
    float most = -__builtin_inff(), total = 0.0f;
    for (int c = t; c < cols; c += blockDim.x) most = __builtin_fmaxf(most, row[c]);
    for (int mask = WAVE / 2; mask > 0; mask /= 2) most = __builtin_fmaxf(most, __shfl_xor(most, mask));
    if (lane_id() == 0) part[t / WAVE] = most;
    __syncthreads();
    for (int w = 0; w < waves; ++w) most = __builtin_fmaxf(most, part[w]);
    __syncthreads();
    for (int c = t; c < cols; c += blockDim.x) total += rf::exp(row[c] - most);
    for (int mask = WAVE / 2; mask > 0; mask /= 2) total += __shfl_xor(total, mask);
    if (lane_id() == 0) part[t / WAVE] = total;
    __syncthreads();
    total = 0.0f;
    for (int w = 0; w < waves; ++w) total += part[w];
    for (int c = t; c < cols; c += blockDim.x) row[c] = rf::exp(row[c] - most) / total;
    if (t == 0) log_sums[blockIdx.x] = most + rf::log(total);
}

// Layer and root-mean-square norms, a wave a row.
KERNEL void layer_norm(const float* x, const float* weight, const float* bias, float* out, int cols, float epsilon) {
    const float* row = x + blockIdx.x * cols;
    float sum = 0.0f, square = 0.0f;
    for (int c = lane_id(); c < cols; c += WAVE) sum += row[c];
    for (int mask = 1; mask < WAVE; mask *= 2) sum += __shfl_xor(sum, mask);
    float mean = sum / (float)cols;
    for (int c = lane_id(); c < cols; c += WAVE) square += (row[c] - mean) * (row[c] - mean);
    for (int mask = 1; mask < WAVE; mask *= 2) square += __shfl_xor(square, mask);
    float scale = rf::rsqrt(square / (float)cols + epsilon);
    for (int c = lane_id(); c < cols; c += WAVE) out[blockIdx.x * cols + c] = (row[c] - mean) * scale * weight[c] + bias[c];
}
KERNEL void rms_norm(const f16* x, const f16* weight, f16* out, int cols, float epsilon) {
    const f16* row = x + blockIdx.x * cols;
    float square = 0.0f;
    for (int c = lane_id(); c < cols; c += WAVE) square += (float)row[c] * (float)row[c];
    for (int mask = 1; mask < WAVE; mask *= 2) square += __shfl_xor(square, mask);
    float scale = 1.0f / __builtin_sqrtf(square / (float)cols + epsilon);
    for (int c = lane_id(); c < cols; c += WAVE) out[blockIdx.x * cols + c] = (f16)((float)row[c] * scale * (float)weight[c]);
}

// Rotary embedding: pairs turned by an angle that grows with the position.
KERNEL void rotary(float* x, int dim, float base) {
    int position = blockIdx.x, pair = threadIdx.x;
    float angle = (float)position * rf::pow(base, -2.0f * (float)pair / (float)dim), s, c;
    rf::sincos(angle, &s, &c);
    float *low = x + position * dim + pair, *high = low + dim / 2, a = *low, b = *high;
    *low = a * c - b * s;
    *high = a * s + b * c;
}

// Cross entropy of rows against labels, and its gradient.
KERNEL void cross_entropy(const float* logits, const i32* labels, float* losses, float* gradient, int cols) {
    int row = global_x();
    const float* own = logits + row * cols;
    float most = own[0], total = 0.0f;
    for (int c = 1; c < cols; ++c) most = __builtin_fmaxf(most, own[c]);
    for (int c = 0; c < cols; ++c) total += rf::exp(own[c] - most);
    losses[row] = rf::log(total) + most - own[labels[row]];
    for (int c = 0; c < cols; ++c) gradient[row * cols + c] = rf::exp(own[c] - most) / total - (c == labels[row] ? 1.0f : 0.0f);
}
