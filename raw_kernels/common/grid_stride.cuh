// Kernels whose threads own elements: each takes its first one, and then every so many, whatever the size of a one-dimensional grid.
#pragma once

/// The number of the first element of this thread.
__device__ inline long long first_element() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// The distance to its next.
__device__ inline long long element_stride() {
    return static_cast<long long>(gridDim.x) * blockDim.x;
}
