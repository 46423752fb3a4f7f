// The functions whose results are approximate on a GPU, and one product on tensor cores, each alone.
#include "common/machine.cuh"

struct Parameters {
    float* input;
    float* output;
    unsigned* words;
    long long count;
};

__device__ inline float value_of(int function, float x, float y) {
    switch (function) {
        case 0: return machine::exp2_approx(x);
        case 1: return machine::reciprocal_approx(x);
        case 2: return expf(x);
        case 3: return expm1f(x);
        case 4: return logf(x);
        case 5: return log1pf(x);
        case 6: return erfcf(x);
        case 7: return acosf(x);
        case 8: return acoshf(x);
        case 9: return asinf(x);
        case 10: return asinhf(x);
        case 11: return atanf(x);
        case 12: return atanhf(x);
        case 13: return cosf(x);
        case 14: return coshf(x);
        case 15: return erff(x);
        case 16: return sinf(x);
        case 17: return sinhf(x);
        case 18: return tanf(x);
        case 19: return tanhf(x);
        case 20: return atan2f(x, y);
        case 21: return powf(x, y);
        case 22: return machine::exp2_flushed(x);
        default: return machine::reciprocal_flushed(x);
    }
}

/// output[i] = function number words[0] of input[0][i], and of input[1][i] if it takes two. One thread.
__global__ void apply(Parameters parameters) {
    float const* const second = parameters.input + parameters.count;
    for (long long i = 0; i < parameters.count; ++i) {
        parameters.output[i] = value_of(static_cast<int>(parameters.words[0]), parameters.input[i], second[i]);
    }
}

/// output[i] = input[0][i] ^ input[1][i], all of them double. One thread.
__global__ void raise(Parameters parameters) {
    double const* const input = reinterpret_cast<double const*>(parameters.input);
    for (long long i = 0; i < parameters.count; ++i) {
        reinterpret_cast<double*>(parameters.output)[i] = pow(input[i], input[parameters.count + i]);
    }
}

/// output[16][8] = output + A B by one warp, A [16][depth] and B [8][depth] one after the other in `input`, of type T.
template <class T>
__global__ void multiply(Parameters parameters) {
    constexpr int in_word = 4 / static_cast<int>(sizeof(T)), depth = 8 * in_word;
    T const* const left = reinterpret_cast<T const*>(parameters.input);
    T const* const right = left + 16 * depth;
    int const row = threadIdx.x / 4, column = threadIdx.x % 4;
    unsigned a[4] = {}, b[2] = {};
    float sums[4];
    for (int word = 0; word < 4; ++word) {
        sums[word] = parameters.output[(row + word / 2 * 8) * 8 + 2 * column + word % 2];
        for (int i = 0; i < in_word; ++i) {
            int const k = (word / 2 * 4 + column) * in_word + i;
            a[word] |= machine::to_bits(left[(row + word % 2 * 8) * depth + k]) << 16 * i;
            if (word % 2 == 0) {
                b[word / 2] |= machine::to_bits(right[row * depth + k]) << 16 * i;
            }
        }
    }
    machine::multiply_add<T>(sums, a, b);
    for (int word = 0; word < 4; ++word) {
        parameters.output[(row + word / 2 * 8) * 8 + 2 * column + word % 2] = sums[word];
    }
}
