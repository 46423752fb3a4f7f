// The element-wise activations, each standing alone.
//
//   y = f(x)         one input: every functor of one argument
//   y = f(x, v)      two inputs: ParameterizedRelu of x and its slope, ReluGrad of x and the gradient of relu(x)
//
// The element type of all tensors is the template argument T: float, half, or an integer where the functor takes it. Arithmetic on float
// and half is float. Integers are computed as they are, but for Shrink, which computes them as double.
//
// One thread owns packs of `width` elements that lie side by side in the output, and in each input do so too or are one and the same
// element; the grid is one-dimensional, of any size. No block shares anything with another. A thread reads a pack whole before it writes it,
// so the output may be an input.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/elements.cuh"
#include "common/activations.cuh"

template <class T, int count>
struct ElementsParameters {
    T const* inputs[count];   // any strides
    T* output;                // any strides
    Axes<1 + count> axes;     // the output's and the inputs': a pack is one entry of the last axis, strides count elements
    unsigned packs;
    unsigned rest;            // elements after the packs; without axes but one only, and its neighbours are side by side
    int repeats[count];       // not 0: all elements of a pack are one element of this input
    float attributes[2];
};

template <class T>
inline constexpr bool is_floating = is_same<T, float> || is_same<T, machine::half>;

/// The number rounded toward zero and held within the integer type's range; of a NaN the smallest.
template <class T>
__device__ T saturated(double number) {
    constexpr bool is_signed = T(-1) < T(0);
    constexpr double largest = (1ull << (8 * sizeof(T) - is_signed)) - 1;
    constexpr double smallest = is_signed ? -largest - 1.0 : 0.0;
    return static_cast<T>(!(number > smallest) ? smallest : number < largest ? number : largest);
}

/// The functor of stored values.
template <class T, class Functor, class... Values>
__device__ T compute(Functor const& functor, Values... values) {
    if constexpr (is_floating<T>) {
        return machine::from_float<T>(functor(machine::to_float(values)...));
    } else if constexpr (is_same<Functor, Shrink>) {
        return saturated<T>(functor(static_cast<double>(values)...));
    } else {
        return functor(values...);
    }
}

template <int width, class T>
__device__ Pack<T, width> load(T const* first, bool repeats) {
    if constexpr (width > 1) {
        if (repeats) {
            Pack<T, width> pack;
            T const value = *first;
#pragma unroll
            for (int i = 0; i < width; ++i) {
                pack.values[i] = value;
            }
            return pack;
        }
    }
    return *reinterpret_cast<Pack<T, width> const*>(first);
}

/// One element of the output for each of its axes' entries.
template <class T, int width, int count, class Functor>
__global__ void elements(const __grid_constant__ ElementsParameters<T, count> parameters) {
    Functor const functor = with_attributes<Functor>(parameters.attributes);
#pragma unroll 1
    for (long long number = first_element(); number < parameters.packs; number += element_stride()) {
        Places<1 + count> const places = locate(parameters.axes, static_cast<unsigned>(number));
        Pack<T, width> pack = load<width>(parameters.inputs[0] + places.of[1], parameters.repeats[0]);
        if constexpr (count == 1) {
#pragma unroll
            for (int i = 0; i < width; ++i) {
                pack.values[i] = compute<T>(functor, pack.values[i]);
            }
        } else {
            Pack<T, width> const second = load<width>(parameters.inputs[1] + places.of[2], parameters.repeats[1]);
#pragma unroll
            for (int i = 0; i < width; ++i) {
                pack.values[i] = compute<T>(functor, pack.values[i], second.values[i]);
            }
        }
        *reinterpret_cast<Pack<T, width>*>(parameters.output + places.of[0]) = pack;
    }
    if constexpr (width > 1) {
        long long const first = static_cast<long long>(parameters.packs) * width;
#pragma unroll 1
        for (long long number = first_element(); number < parameters.rest; number += element_stride()) {
            long long const index = first + number;
            T const x = parameters.inputs[0][parameters.repeats[0] ? 0 : index];
            if constexpr (count == 1) {
                parameters.output[index] = compute<T>(functor, x);
            } else {
                parameters.output[index] = compute<T>(functor, x, parameters.inputs[1][parameters.repeats[1] ? 0 : index]);
            }
        }
    }
}
