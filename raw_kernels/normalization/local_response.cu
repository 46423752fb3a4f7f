// LOCAL_RESPONSE_NORMALIZATION and its gradient.
//
//   d = bias + alpha / n * sum(x^2 over the window), clipped at the borders     n: local_size, also of a window over height and width
//   y = x / d^beta
//   dx = dy / d^beta - 2 alpha beta / n * x * sum(dy x / d^(beta + 1), over all entries whose window holds this one)
//
// The window extends along one or two dimensions. One thread owns elements, one at a time, in the order of x's memory; it reads its window
// in the order of the dimensions, so that sums have a fixed order. The grid is one-dimensional, of any size.
//
//   `normalize`                   the forward operator
//   `prepare`, `differentiate`    the gradient: each entry's quotient and summand, then their sums
//
// T is the type of data, arithmetic is float. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"

/// The tensors of the axes, and an entry's coordinates along the dimensions of the window.
enum Tensor { of_x, of_dy, of_y, of_scratch, first_coordinate, second_coordinate, tensors };

struct Window {
    int sizes[2];          // of the tensors along the window's dimensions; 1 where there is none
    int before[2];         // entries of the window before its own
    int after[2];
    long long x[2];        // strides along these dimensions
    long long scratch[2];
};

template <class T>
struct ResponseParameters {
    T const* x;
    T const* dy;            // the gradient's alone
    T* y;                   // or dx
    float* quotients;       // [elements]: dy / d^beta
    float* summands;        // [elements]: dy x / d^(beta + 1)
    Axes<tensors> axes;     // of x, dy, y, scratch; coordinates
    Window window;
    unsigned count;         // elements
    float scale;            // alpha / n
    float bias;
    float beta;
};

/// The sum of `load` of the distance along each dimension, over a window; mirrored: over the entries in whose windows this one is.
template <bool mirrored, class Load>
__device__ __forceinline__ float window_sum(Window const& window, Places<tensors> const& places, Load const& load) {
    int begin[2];
    int end[2];
#pragma unroll
    for (int dimension = 0; dimension < 2; ++dimension) {
        int const own = static_cast<int>(places.of[first_coordinate + dimension]);
        int const before = mirrored ? window.after[dimension] : window.before[dimension];
        int const after = mirrored ? window.before[dimension] : window.after[dimension];
        begin[dimension] = -min(before, own);
        end[dimension] = min(after, window.sizes[dimension] - 1 - own);
    }
    float sum = 0.0f;
#pragma unroll 1
    for (int i = begin[0]; i <= end[0]; ++i) {
        float row = 0.0f;
#pragma unroll 4
        for (int j = begin[1]; j <= end[1]; ++j) {
            row += load(i, j);
        }
        sum += row;
    }
    return sum;
}

/// d of an entry.
template <class T>
__device__ __forceinline__ float divisor(ResponseParameters<T> const& parameters, Places<tensors> const& places) {
    Window const& window = parameters.window;
    float const squares = window_sum<false>(window, places, [&](int i, int j) {
        float const x = machine::to_float(parameters.x[places.of[of_x] + i * window.x[0] + j * window.x[1]]);
        return x * x;
    });
    return parameters.bias + parameters.scale * squares;
}

template <class T>
__global__ void normalize(const __grid_constant__ ResponseParameters<T> parameters) {
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<tensors> const places = locate(parameters.axes, static_cast<unsigned>(number));
        float const x = machine::to_float(parameters.x[places.of[of_x]]);
        parameters.y[places.of[of_y]] = machine::from_float<T>(x / powf(divisor(parameters, places), parameters.beta));
    }
}

template <class T>
__global__ void prepare(const __grid_constant__ ResponseParameters<T> parameters) {
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<tensors> const places = locate(parameters.axes, static_cast<unsigned>(number));
        float const dy = machine::to_float(parameters.dy[places.of[of_dy]]);
        float const d = divisor(parameters, places);
        float const quotient = dy / powf(d, parameters.beta);
        parameters.quotients[places.of[of_scratch]] = quotient;
        parameters.summands[places.of[of_scratch]] = quotient * machine::to_float(parameters.x[places.of[of_x]]) / d;
    }
}

template <class T>
__global__ void differentiate(const __grid_constant__ ResponseParameters<T> parameters) {
    Window const& window = parameters.window;
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<tensors> const places = locate(parameters.axes, static_cast<unsigned>(number));
        float const sum = window_sum<true>(window, places, [&](int i, int j) {
            return parameters.summands[places.of[of_scratch] + i * window.scratch[0] + j * window.scratch[1]];
        });
        float const x = machine::to_float(parameters.x[places.of[of_x]]);
        float const others = 2.0f * parameters.scale * parameters.beta * x * sum;
        parameters.y[places.of[of_y]] = machine::from_float<T>(parameters.quotients[places.of[of_scratch]] - others);
    }
}
