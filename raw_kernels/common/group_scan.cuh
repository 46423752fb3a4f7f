// What the threads of a thread group have before a thread, and all together.
#pragma once

#include "common/thread_groups.cuh"

/// What a thread's neighbours make: of a line the slots before its own, and all of them.
template <class Part>
struct GroupScan {
    Part before;
    Part all;
};

/// Tells each thread, of `own` of every thread. All threads of a block have to call it; `turn` says which of two arrays in `shared`, of a
/// part for each thread, is free.
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
        turn ^= 1;   // whoever is late reads the other one
    }
    Part* const place = shared + turn * blockDim.x + threadIdx.x;
    *place = through;
    __syncthreads();
    turn ^= 1;
    unsigned const last = (1u << size.slots_log2) - 1;
    return {slot == 0 ? Part{} : place[-(1 << size.lanes_log2)], place[static_cast<int>((last - slot) << size.lanes_log2)]};
}
