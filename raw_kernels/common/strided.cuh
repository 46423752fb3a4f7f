// A tensor as the caller laid it out.
#pragma once

/// A four-dimensional tensor: address of element (0, 0, 0, 0) and the distance of neighbours along each axis, in elements.
/// A stride of zero repeats one element along its axis. An absent tensor has no address.
template <class T>
struct Strided {
    T* data;
    long long strides[4];

    __device__ T& at(long long i, long long j, long long k, long long l) const {
        return data[i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3]];
    }
};

/// The element as a float, or zero if the tensor is absent.
template <class T>
__device__ float value_or_zero(Strided<T const> const& tensor, long long i, long long j, long long k, long long l) {
    return tensor.data == nullptr ? 0.0f : machine::to_float(tensor.at(i, j, k, l));
}

/// Stores an output's element, if the output is present.
template <class T>
__device__ void store(Strided<T> const& output, long long i, long long j, long long k, long long l, float value) {
    if (output.data != nullptr) {
        output.at(i, j, k, l) = machine::from_float<T>(value);
    }
}
