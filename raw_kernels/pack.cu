// Constants and operands in the layouts that the recurrent kernels and the matrix products read.
//
// copy:      destination[i][j][k][l] = source(i, j, k, l)
// scale:     destination[i][j][k][l] = source(i, j, k, l) * factor(i, j, k, l)
// pack_bias: destination[d][g][u] = bias(d, g, u) + bias(d, gates + g, u), the bias of the input product plus that of the recurrence
// pack_vector4:     destination[i][j][q][k][e] = source(i, j, k, 4 q + e), groups of four neighbours of a row, interleaved by rows
//
// One thread owns elements; the grid is one-dimensional, of any size. No block shares anything with another.
// Source and destination do not overlap.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"

template <class Source, class Destination>
struct CopyParameters {
    Strided<Source const> source;  // any strides
    Destination* destination;      // [sizes[0]][sizes[1]][sizes[2]][sizes[3]], packed
    long long sizes[4];
};

template <class Source, class Destination>
__global__ void copy(CopyParameters<Source, Destination> parameters) {
    long long const(&sizes)[4] = parameters.sizes;
    long long const count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / sizes[3];
        long long const plane = row / sizes[2];
        Source const value =
            parameters.source.at(plane / sizes[1], plane % sizes[1], row % sizes[2], index % sizes[3]);
        parameters.destination[index] = machine::from_float<Destination>(machine::to_float(value));
    }
}

template <class T>
struct ScaleParameters {
    Strided<T const> source;
    Strided<T const> factor;
    T* destination;  // [sizes[0]][sizes[1]][sizes[2]][sizes[3]], packed
    long long sizes[4];
};

template <class T>
__global__ void scale(ScaleParameters<T> parameters) {
    long long const(&sizes)[4] = parameters.sizes;
    long long const count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / sizes[3];
        long long const plane = row / sizes[2];
        long long const i = plane / sizes[1], j = plane % sizes[1], k = row % sizes[2], l = index % sizes[3];
        float const value = machine::to_float(parameters.source.at(i, j, k, l));
        float const factor = machine::to_float(parameters.factor.at(i, j, k, l));
        parameters.destination[index] = machine::from_float<T>(value * factor);
    }
}

template <class T>
struct PackBiasParameters {
    Strided<T const> bias;  // [1][1][D][2 gates H]: Wb of all gates, then Rb of all gates
    float* destination;     // [D][gates][H], or [D][gates + 1][H] if keep_last_apart
    long long directions;
    long long gates;
    long long hidden_size;
    long long keep_last_apart;  // not zero: the last gate's Wb, then its Rb, are not summed
};

template <class T>
__global__ void pack_bias(PackBiasParameters<T> parameters) {
    long long const gates = parameters.gates;
    long long const hidden_size = parameters.hidden_size;
    long long const rows = parameters.keep_last_apart != 0 ? gates + 1 : gates;
    long long const count = parameters.directions * rows * hidden_size;
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const unit = index % hidden_size;
        long long const row = index / hidden_size % rows;
        long long const direction = index / hidden_size / rows;
        long long const recurrent_row = row < gates ? gates + row : gates + row - 1;
        bool const apart = parameters.keep_last_apart != 0;
        float sum = 0.0f;
        if (row < gates) {
            sum += machine::to_float(parameters.bias.at(0, 0, direction, row * hidden_size + unit));
        }
        if (!apart || row != gates - 1) {
            sum += machine::to_float(parameters.bias.at(0, 0, direction, recurrent_row * hidden_size + unit));
        }
        parameters.destination[index] = sum;
    }
}

template <class T>
struct PackVector4Parameters {
    Strided<T const> source;  // any strides
    Vector4<T>* destination;     // [sizes[0]][count], the first vectors of each i: [sizes[1]][ceil(sizes[3] / 4)][sizes[2]]
    long long sizes[4];
    long long count;
};

/// Zero beyond the source's last axis, and in the remaining vectors of each i.
template <class T>
__global__ void pack_vector4(PackVector4Parameters<T> parameters) {
    long long const(&sizes)[4] = parameters.sizes;
    long long const depth = (sizes[3] + 3) / 4;
    for (long long index = first_element(); index < sizes[0] * parameters.count; index += element_stride()) {
        long long const i = index / parameters.count;
        long long const place = index % parameters.count;
        long long const k = place % sizes[2];
        long long const q = place / sizes[2] % depth;
        long long const j = place / sizes[2] / depth;
        Vector4<T> quad;
        for (int e = 0; e < 4; ++e) {
            bool const exists = j < sizes[1] && 4 * q + e < sizes[3];
            quad.values[e] = exists ? parameters.source.at(i, j, k, 4 * q + e) : machine::from_float<T>(0.0f);
        }
        parameters.destination[index] = quad;
    }
}
