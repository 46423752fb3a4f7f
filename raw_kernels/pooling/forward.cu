// Poolings: reductions of windows that slide over the spatial dimensions of [batch, channels, *spatial].
//
//   average     y = sum(x) / divisor             the divisor counts the taps with padding or without
//   norm        y = sum(|x|^p)^(1/p)             relative to the largest, so that nothing overflows
//   largest     y = the largest x and its index  the lowest of equal ones; a NaN is the largest
//   quantized_average    y = clamp(round(sum(x - zero_point) / divisor * scale / output_scale) + output_zero_point)
//
// Windows have 3 spatial dimensions; an image has a first one of size 1. One thread owns an element of the output: it iterates over the
// taps that are elements of the input, in the order of their indices. The grid is one-dimensional, of any size. No block shares anything
// with another. Arithmetic on floats and halves is float, that of quantized_average exact sums and double. Outputs overlap nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"

constexpr float largest_float = 3.40282347e38f;

/// Where the windows of an output lie: places of the output, of the first tap in each of `inputs` tensors, of the first tap along each
/// spatial dimension, and of the output's element in each of `others` tensors.
template <int inputs, int others = 0>
struct Sliding {
    static constexpr int tensors = 1 + inputs + 3 + others;
    Axes<tensors> axes;            // in this order
    long long origin[inputs];      // to the place of the first tap of the first position: padding lies before the tensor
    Places<inputs> steps[3];       // from one tap to the next along each spatial dimension
    Window windows[3];
    unsigned long long count;      // elements of the output
};

/// A window at its place: where its first tap that is an element lies in each tensor, and how many there are along each dimension.
template <int inputs>
struct Taps {
    Places<inputs> first;
    long long counts[3];
    long long divisor;   // the taps in all, with padding or without
};

template <int inputs, int others>
__device__ __forceinline__ Taps<inputs> taps_at(Sliding<inputs, others> const& sliding,
                                                Places<Sliding<inputs, others>::tensors> const& places, bool with_padding) {
    Taps<inputs> taps;
    taps.divisor = 1;
#pragma unroll
    for (int input = 0; input < inputs; ++input) {
        taps.first.of[input] = places.of[1 + input] + sliding.origin[input];
    }
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        Window const& window = sliding.windows[axis];
        long long const first = places.of[1 + inputs + axis] - window.start;
        long long const skipped = taps_before(window, -first);
        taps.counts[axis] = max(0ll, taps_before(window, window.size - first) - skipped);
        taps.divisor *= with_padding ? tap_count(window, first, true) : taps.counts[axis];
        advance(taps.first, sliding.steps[axis], skipped);
    }
    return taps;
}

template <class T>
struct AverageParameters {
    T const* input;
    T* output;
    Sliding<1> sliding;
    int include_padding;   // not 0: padding counts as zeros
};

template <class T>
__global__ void average(const __grid_constant__ AverageParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.sliding.count; number += element_stride()) {
        auto const places = locate_far(parameters.sliding.axes, number);
        Taps<1> const taps = taps_at(parameters.sliding, places, parameters.include_padding);
        LongSum sum;
        auto const take = [&](Places<1> const& tap) { sum.add(machine::to_float(parameters.input[tap.of[0]])); };
        for_each_entry(taps.counts, parameters.sliding.steps, taps.first, take);
        parameters.output[places.of[0]] = machine::from_float<T>(sum.result() / static_cast<float>(taps.divisor));
    }
}

template <class T>
struct NormParameters {
    T const* input;
    T* output;
    Sliding<1> sliding;
    float power;
};

/// The larger of two numbers, NaN if one is NaN.
__device__ inline float larger(float a, float b) {
    return a > b || a != a ? a : b;
}

__device__ inline float raised(float base, float power) {
    return power == 1.0f ? base : power == 2.0f ? base * base : powf(base, power);
}

template <class T>
__global__ void norm(const __grid_constant__ NormParameters<T> parameters) {
    float const power = parameters.power;
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.sliding.count; number += element_stride()) {
        auto const places = locate_far(parameters.sliding.axes, number);
        Taps<1> const taps = taps_at(parameters.sliding, places, false);
        float largest = 0.0f;
        auto const compare = [&](Places<1> const& tap) { largest = larger(fabsf(machine::to_float(parameters.input[tap.of[0]])), largest); };
        for_each_entry(taps.counts, parameters.sliding.steps, taps.first, compare);

        // 1 where a division would make zeros or infinities NaN
        float const unit = largest > 0.0f && largest <= largest_float ? largest : 1.0f;
        LongSum sum;
        auto const take = [&](Places<1> const& tap) {
            sum.add(raised(fabsf(machine::to_float(parameters.input[tap.of[0]])) / unit, power));
        };
        for_each_entry(taps.counts, parameters.sliding.steps, taps.first, take);
        float const root = power == 1.0f ? sum.result() : power == 2.0f ? sqrtf(sum.result()) : powf(sum.result(), 1.0f / power);
        parameters.output[places.of[0]] = machine::from_float<T>(unit * root);
    }
}

template <class T>
struct LargestParameters {
    T const* input;
    T* output;                // absent if only indices are written
    void* indices;            // 32 or 64 bits each, absent if they are not written
    Sliding<2, 1> sliding;    // of the input and of the elements' indices; the other tensor is that of the indices
    T least;                  // the result of a window entirely in the padding
    int wide_indices;         // not 0: 64 bits
};

/// The key by which elements are compared.
template <class T>
__device__ __forceinline__ auto comparable(T value) {
    if constexpr (is_narrow<T>) {
        return machine::to_float(value);
    } else {
        return value;
    }
}

template <class T>
__global__ void largest(const __grid_constant__ LargestParameters<T> parameters) {
    using Value = decltype(comparable(T{}));
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.sliding.count; number += element_stride()) {
        auto const places = locate_far(parameters.sliding.axes, number);
        Taps<2> const taps = taps_at(parameters.sliding, places, false);
        bool found = false;
        Value best{};
        T winner = parameters.least;
        long long index = 0;
        auto const take = [&](Places<2> const& tap) {
            T const element = parameters.input[tap.of[0]];
            Value const value = comparable(element);
            if (!found || value > best || (value != value && best == best)) {
                found = true;
                best = value;
                winner = element;
                index = tap.of[1];
            }
        };
        for_each_entry(taps.counts, parameters.sliding.steps, taps.first, take);
        if (parameters.output != nullptr) {
            parameters.output[places.of[0]] = winner;
        }
        if (parameters.indices != nullptr) {
            long long const place = places.of[6];
            if (parameters.wide_indices) {
                static_cast<long long*>(parameters.indices)[place] = index;
            } else {
                static_cast<unsigned*>(parameters.indices)[place] = static_cast<unsigned>(index);
            }
        }
    }
}

template <class X, class Y>
struct QuantizedAverageParameters {
    X const* input;
    float const* input_scale;
    X const* input_zero_point;    // absent: 0
    float const* output_scale;
    Y const* output_zero_point;   // absent: 0
    Y* output;
    Sliding<1, 4> sliding;        // the other tensors are the scales and zero points, in this order
    int include_padding;
};

template <class X, class Y>
__global__ void quantized_average(const __grid_constant__ QuantizedAverageParameters<X, Y> parameters) {
    constexpr double least = Y(-1) < Y(0) ? -128.0 : 0.0;
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.sliding.count; number += element_stride()) {
        auto const places = locate_far(parameters.sliding.axes, number);
        Taps<1> const taps = taps_at(parameters.sliding, places, parameters.include_padding);
        int const zero_point = parameters.input_zero_point == nullptr ? 0 : parameters.input_zero_point[places.of[6]];
        long long sum = 0;
        auto const take = [&](Places<1> const& tap) { sum += parameters.input[tap.of[0]] - zero_point; };
        for_each_entry(taps.counts, parameters.sliding.steps, taps.first, take);
        double const mean = static_cast<double>(sum) / static_cast<double>(taps.divisor);
        double const scaled = mean * static_cast<double>(parameters.input_scale[places.of[5]]);
        double steps = rint(scaled / static_cast<double>(parameters.output_scale[places.of[7]]));
        steps = steps == steps ? steps : 0.0;
        steps += parameters.output_zero_point == nullptr ? 0 : parameters.output_zero_point[places.of[8]];
        parameters.output[places.of[0]] = static_cast<Y>(static_cast<int>(min(max(steps, least), least + 255.0)));
    }
}
