// ADAM_OPTIMIZER: one step of Adam.
//
//   M' = beta1 M + (1 - beta1) G        V' = beta2 V + (1 - beta2) G^2
//   X' = X - learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) M' / (sqrt(V') + epsilon)
//
// The rate of the step t is one number, computed in double precision, as 1 - beta^t cancels in the first steps: once in each block.
//
// One thread owns vectors of `width` elements that are contiguous in all tensors; the grid is one-dimensional, of any size. No block shares
// anything with another. A thread reads all its vectors before it writes one, so each output may be an input, except the training step.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"

constexpr int adam_tensors = 7;

template <class T>
struct AdamParameters {
    T const* inputs[4];            // X, M, V, G; any strides
    T* outputs[3];                 // X', M', V'; any strides
    unsigned const* step;          // t
    Axes<adam_tensors> axes;       // of the outputs and the inputs: a vector is one entry of the last axis
    double learning_rate;
    double betas[2];
    float weights[4];              // beta1, 1 - beta1, beta2, 1 - beta2
    float epsilon;
    unsigned vectors;
};

template <class T, int width>
__global__ void adam(const __grid_constant__ AdamParameters<T> parameters) {
    __shared__ float rate_of_step;
    if (threadIdx.x == 0) {
        double const step = *parameters.step;
        double const corrected = sqrt(1.0 - pow(parameters.betas[1], step)) / (1.0 - pow(parameters.betas[0], step));
        rate_of_step = static_cast<float>(parameters.learning_rate * corrected);
    }
    __syncthreads();
    float const rate = rate_of_step;
#pragma unroll 1
    for (long long number = first_element(); number < parameters.vectors; number += element_stride()) {
        Places<adam_tensors> const places = locate(parameters.axes, static_cast<unsigned>(number));
        AlignedVector<T, width> vectors[4];
#pragma unroll
        for (int tensor = 0; tensor < 4; ++tensor) {
            vectors[tensor] = *reinterpret_cast<AlignedVector<T, width> const*>(parameters.inputs[tensor] + places.of[3 + tensor]);
        }
#pragma unroll
        for (int i = 0; i < width; ++i) {
            float const gradient = machine::to_float(vectors[3].values[i]);
            float const first = parameters.weights[0] * machine::to_float(vectors[1].values[i]) + parameters.weights[1] * gradient;
            float const second = parameters.weights[2] * machine::to_float(vectors[2].values[i]) + parameters.weights[3] * (gradient * gradient);
            float const change = rate * first / (sqrtf(second) + parameters.epsilon);
            vectors[0].values[i] = machine::from_float<T>(machine::to_float(vectors[0].values[i]) - change);
            vectors[1].values[i] = machine::from_float<T>(first);
            vectors[2].values[i] = machine::from_float<T>(second);
        }
#pragma unroll
        for (int tensor = 0; tensor < 3; ++tensor) {
            *reinterpret_cast<AlignedVector<T, width>*>(parameters.outputs[tensor] + places.of[tensor]) = vectors[tensor];
        }
    }
}
