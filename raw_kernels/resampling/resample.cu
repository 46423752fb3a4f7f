// Resampling by tables, and images with their values scaled.
//
//   pick           y[o] = x[i], i the element that o reads along each axis
//   interpolate    y[o] = sum of weights * x[i] over the elements i that o reads along one axis after the other
//   gradient       dx[i] = sum of weights * dy[o] over the elements o that read i
//   scale_values   y = x * scale + bias of the channel
//
// One thread owns an element of the output. It reads the tables of up to 4 resampled axes; other axes are read as they
// are. Sums are float, of integers rounded at each step and the result to the nearest, halves to even. Picked words are moved as
// they are. The grid is one-dimensional, of any size. No block shares anything with another. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"
#include "resampling/tables.cuh"

template <class T>
__device__ __forceinline__ float load(T value) {
    if constexpr (is_floating<T>) {
        return machine::to_float(value);
    } else {
        return static_cast<float>(value);
    }
}

template <class T>
__device__ __forceinline__ T rounded(float value) {
    if constexpr (is_floating<T>) {
        return machine::from_float<T>(value);
    } else {
        return static_cast<T>(rintf(value));
    }
}

/// The product; for integers not contracted with a sum.
template <class T>
__device__ __forceinline__ float product(float weight, float value) {
    if constexpr (is_floating<T>) {
        return weight * value;
    } else {
        return machine::rounded_product(weight, value);
    }
}

template <class T>
struct ResampleParameters {
    T const* input;
    T* output;
    Reading const* readings;
    Axes<2 + most_axes> axes;         // of the output, of the input along axes without a table, and of the output along each of the others
    ResampledAxis tables[most_axes];
    long long strides[most_axes];     // of the input, along each axis with a table
    unsigned long long count;         // elements of the output
};

template <class Word>
__global__ void pick(const __grid_constant__ ResampleParameters<Word> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<2 + most_axes> const places = locate_far(parameters.axes, number);
        long long place = places.of[1];
#pragma unroll
        for (int axis = 0; axis < most_axes; ++axis) {
            place += parameters.strides[axis] * parameters.readings[parameters.tables[axis].readings + places.of[2 + axis]].first;
        }
        parameters.output[places.of[0]] = parameters.input[place];
    }
}

/// The weighted sum along the axes up to one, the first axis innermost.
template <int axis, class T>
__device__ __forceinline__ float sum_along(ResampleParameters<T> const& parameters, Reading const* const (&readings)[most_axes],
                                           T const* input) {
    if constexpr (axis < 0) {
        return load(*input);
    } else {
        Reading const& reading = *readings[axis];
        unsigned const count = element_count(parameters.tables[axis], reading);
        LongSum sum;
#pragma unroll 1
        for (unsigned k = 0; k < count; ++k) {
            float const factor = weight<!is_floating<T>>(parameters.tables[axis], reading, k);
            if (factor != 0.0f) {   // elements of weight 0 may be infinite
                long long const place = element(parameters.tables[axis], reading, k) * parameters.strides[axis];
                sum.add(product<T>(factor, sum_along<axis - 1>(parameters, readings, input + place)));
            }
        }
        return sum.result();
    }
}

template <class T>
__global__ void interpolate(const __grid_constant__ ResampleParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<2 + most_axes> const places = locate_far(parameters.axes, number);
        Reading const* readings[most_axes];
#pragma unroll
        for (int axis = 0; axis < most_axes; ++axis) {
            readings[axis] = parameters.readings + parameters.tables[axis].readings + places.of[2 + axis];
        }
        float const value = sum_along<most_axes - 1>(parameters, readings, parameters.input + places.of[1]);
        parameters.output[places.of[0]] = rounded<T>(value);
    }
}

/// Elements of the output from begin up to, not including, end.
struct Range {
    unsigned begin;
    unsigned end;
};

template <class T>
struct GradientParameters {
    T const* incoming;                // dy
    T* outgoing;                      // dx
    Reading const* readings;
    Range const* ranges;
    Axes<2 + most_axes> axes;         // of dx, of dy along axes without a table, and of dx along each of the others
    ResampledAxis tables[most_axes];
    long long strides[most_axes];     // of dy, along each axis with a table
    unsigned long long count;         // elements of dx
};

/// The same of a gradient: over those that read the elements.
template <int axis, class T>
__device__ __forceinline__ float sum_of_readers(GradientParameters<T> const& parameters, Places<2 + most_axes> const& places,
                                                T const* incoming) {
    if constexpr (axis < 0) {
        return load(*incoming);
    } else {
        ResampledAxis const& table = parameters.tables[axis];
        unsigned const own = static_cast<unsigned>(places.of[2 + axis]);
        Range const range = parameters.ranges[table.ranges + own];
        LongSum sum;
#pragma unroll 1
        for (unsigned o = range.begin; o < range.end; ++o) {
            Reading const& reading = parameters.readings[table.readings + o];
            float factor = reading.first == own ? static_cast<float>(reading.weights[0]) : 0.0f;
            factor += reading.last == own ? static_cast<float>(reading.weights[1]) : 0.0f;
            if (factor != 0.0f) {
                sum.add(factor * sum_of_readers<axis - 1>(parameters, places, incoming + o * parameters.strides[axis]));
            }
        }
        return sum.result();
    }
}

template <class T>
__global__ void gradient(const __grid_constant__ GradientParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<2 + most_axes> const places = locate_far(parameters.axes, number);
        float const value = sum_of_readers<most_axes - 1>(parameters, places, parameters.incoming + places.of[1]);
        parameters.outgoing[places.of[0]] = machine::from_float<T>(value);
    }
}

template <class T>
struct ScaleValuesParameters {
    T const* input;
    T* output;
    Axes<3> axes;               // of the output and the input, and the number of the channel
    unsigned long long count;
    float scale;
    float bias[3];              // of each channel
};

template <class T>
__global__ void scale_values(const __grid_constant__ ScaleValuesParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<3> const places = locate_far(parameters.axes, number);
        float const value = machine::to_float(parameters.input[places.of[1]]) * parameters.scale + parameters.bias[places.of[2]];
        parameters.output[places.of[0]] = machine::from_float<T>(value);
    }
}
