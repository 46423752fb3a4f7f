// A scan over the threads of a thread group, with the total.
#pragma once

#include "common/thread_groups.cuh"

/// The results of a line: of the slots before a thread's own, and of all.
template <class Part>
struct GroupScan {
    Part before;
    Part all;
};

/// Computes them for each thread from every thread's `own`. All threads of a block have to call it; `turn` selects the free one of two
/// arrays in `shared`, of a part for each thread.
template <class Part>
__device__ __forceinline__ GroupScan<Part> scan_group(ThreadGroupSize const& size, unsigned slot, Part own, Part* shared, unsigned& turn) {
    if (size.slots_log2 == 0) {
        return {Part{}, own};
    }
    Part through = own;   // of the slots up to this one
    for (unsigned distance = 1; distance < 1u << size.slots_log2; distance *= 2) {
        Part* const place = shared + turn * blockDim.x + threadIdx.x;
        *place = through;
        __syncthreads();
        if (slot >= distance) {
            Part earlier = place[-static_cast<int>(distance << size.lanes_log2)];
            earlier.merge(through);
            through = earlier;
        }
        turn ^= 1;   // late threads read the other one
    }
    Part* const place = shared + turn * blockDim.x + threadIdx.x;
    *place = through;
    __syncthreads();
    turn ^= 1;
    unsigned const last = (1u << size.slots_log2) - 1;
    return {slot == 0 ? Part{} : place[-(1 << size.lanes_log2)], place[static_cast<int>((last - slot) << size.lanes_log2)]};
}
