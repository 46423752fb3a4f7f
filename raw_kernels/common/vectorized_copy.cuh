// Packed data that a block copies to its shared memory.
#pragma once

/// Loads that a thread has in flight at a time.
inline constexpr int vectors_in_flight = 8;

/// Copies words of 16 bytes from global to shared memory, by all threads of a block. A barrier has to follow.
__device__ inline void copy_vectors(Vector4<unsigned> const* source, Vector4<unsigned>* destination, int count) {
    int const stride = blockDim.x;
    for (int first = threadIdx.x; first < count; first += vectors_in_flight * stride) {
        Vector4<unsigned> words[vectors_in_flight];
#pragma unroll
        for (int i = 0; i < vectors_in_flight; ++i) {
            int const index = first + i * stride;
            words[i] = source[index < count ? index : count - 1];  // without a branch, which would wait for the previous load
        }
#pragma unroll
        for (int i = 0; i < vectors_in_flight; ++i) {
            int const index = first + i * stride;
            if (index < count) {
                destination[index] = words[i];
            }
        }
    }
}

/// The number of 16-byte words of `count` values.
template <class T>
__device__ int vectors_of(int count) {
    return (count * static_cast<int>(sizeof(T)) + 15) / 16;
}
