// DYNAMIC_QUANTIZE_LINEAR: quantizes with the scale and the zero point of the input's own range, which holds 0.
//
//   smallest = min(x, 0), largest = max(x, 0), scale = (largest - smallest) / (most - least)     least, most: of the output's type
//   zero_point = clamp(round(-smallest / scale) + least, least, most)
//   y = clamp(round(x / scale) + zero_point, least, most)     halves rounded to even; NaN, of 0 / 0 too, counts as 0
//
//   `find`        the range of each block's elements
//   `quantize`    each block finds the range of all from these, and the first one writes scale and zero point
//
// T is the type of x, Q that of y, arithmetic is float. A thread owns vectors of `width` elements side by side; the grid is
// one-dimensional, of any size. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/reduction.cuh"
#include "common/thread_groups.cuh"
#include "common/types.cuh"

inline constexpr int threads_log2 = 8;

/// The smallest and the largest of some numbers and 0; NaN if one is.
struct Range {
    float smallest = 0.0f;
    float largest = 0.0f;

    __device__ void add(float x) {
        smallest = x < smallest || x != x ? x : smallest;
        largest = x > largest || x != x ? x : largest;
    }
    __device__ void merge(Range const& other) {
        add(other.smallest);
        add(other.largest);
    }
};

template <class T, class Q>
struct DynamicParameters {
    T const* x;
    Q* y;
    float* scale;
    Q* zero_point;
    Axes<2> axes;       // of x and y: a vector is one entry of the last axis
    unsigned vectors;
    int repeats;        // not 0: all elements of a vector are one element of x
    Range* ranges;      // [range_count]
    unsigned range_count;
    float least;
    float most;
};

template <int width, class T, class Q>
__device__ __forceinline__ AlignedVector<T, width> load(DynamicParameters<T, Q> const& parameters, Places<2> const& places) {
    return load_vector<width>(parameters.x + places.of[0], parameters.repeats != 0);
}

template <class T, class Q, int width>
__global__ void __launch_bounds__(1 << threads_log2) find(const __grid_constant__ DynamicParameters<T, Q> parameters) {
    Range ranges[1];
#pragma unroll 1
    for (long long number = first_element(); number < parameters.vectors; number += element_stride()) {
        AlignedVector<T, width> const vector = load<width>(parameters, locate(parameters.axes, static_cast<unsigned>(number)));
#pragma unroll
        for (int entry = 0; entry < width; ++entry) {
            ranges[0].add(machine::to_float(vector.values[entry]));
        }
    }
    merge_thread_group({0, threads_log2}, ranges, machine::dynamic_shared<Range>());
    if (threadIdx.x == 0) {
        parameters.ranges[blockIdx.x] = ranges[0];
    }
}

/// clamp(round(value / scale) + zero_point, least, most). NaN becomes `least`: the scale is then 0, infinite or NaN, and so the zero point
/// is `least` too.
template <class T, class Q>
__device__ __forceinline__ float quantized(DynamicParameters<T, Q> const& parameters, float value, float scale, float zero_point) {
    return fminf(fmaxf(rintf(value / scale) + zero_point, parameters.least), parameters.most);
}

template <class T, class Q, int width>
__global__ void __launch_bounds__(1 << threads_log2) quantize(const __grid_constant__ DynamicParameters<T, Q> parameters) {
    Range ranges[1];
#pragma unroll 4
    for (unsigned number = threadIdx.x; number < parameters.range_count; number += 1 << threads_log2) {
        ranges[0].merge(parameters.ranges[number]);
    }
    merge_thread_group({0, threads_log2}, ranges, machine::dynamic_shared<Range>());
    float const scale = (ranges[0].largest - ranges[0].smallest) / (parameters.most - parameters.least);
    float const zero_point = quantized(parameters, -ranges[0].smallest, scale, parameters.least);
    if (first_element() == 0) {
        *parameters.scale = scale;
        *parameters.zero_point = static_cast<Q>(zero_point);
    }
#pragma unroll 1
    for (long long number = first_element(); number < parameters.vectors; number += element_stride()) {
        Places<2> const places = locate(parameters.axes, static_cast<unsigned>(number));
        AlignedVector<T, width> const x = load<width>(parameters, places);
        AlignedVector<Q, width> y;
#pragma unroll
        for (int entry = 0; entry < width; ++entry) {
            y.values[entry] = static_cast<Q>(quantized(parameters, machine::to_float(x.values[entry]), scale, zero_point));
        }
        *reinterpret_cast<AlignedVector<Q, width>*>(parameters.y + places.of[1]) = y;
    }
}
