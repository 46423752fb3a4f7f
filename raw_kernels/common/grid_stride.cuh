// Kernels whose threads own elements: a grid-stride loop over a one-dimensional grid of any size.
#pragma once

/// The number of the first element of this thread.
__device__ inline long long first_element() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// The distance to its next.
__device__ inline long long element_stride() {
    return static_cast<long long>(gridDim.x) * blockDim.x;
}
