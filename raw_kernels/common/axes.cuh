// Axes that several tensors share, and where an entry of them lies in each.
#pragma once

/// Up to 8 axes, outermost first: sizes, and for each of `tensors` tensors the distance of neighbours, in elements. A stride of zero
/// repeats an entry. Their entries, numbered with the last axis fastest, are less than 2^32.
template <int tensors>
struct Axes {
    long long strides[tensors][8];
    unsigned sizes[8];
    int count;
};

/// An entry's place in each of several tensors, in elements from the tensor's first.
template <int tensors>
struct Places {
    long long of[tensors];
};

/// Adds to the places of some entries where those of these numbers lie; the numbers are used up. All entries go along an axis together: the
/// code is there once, not for each axis, which the axes of a parameter allow if it is a `__grid_constant__`.
template <int tensors, int count>
__device__ __forceinline__ void add_places(Axes<tensors> const& axes, unsigned (&numbers)[count], Places<tensors> (&places)[count]) {
#pragma unroll 1
    for (int axis = axes.count - 1; axis > 0; --axis) {
        unsigned const size = axes.sizes[axis];
#pragma unroll
        for (int i = 0; i < count; ++i) {
            unsigned const rest = numbers[i] / size;
            unsigned const entry = numbers[i] - rest * size;
            numbers[i] = rest;
#pragma unroll
            for (int tensor = 0; tensor < tensors; ++tensor) {
                places[i].of[tensor] += entry * axes.strides[tensor][axis];
            }
        }
    }
    // the first axis takes what is left: no division
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int tensor = 0; tensor < tensors; ++tensor) {
            places[i].of[tensor] += numbers[i] * axes.strides[tensor][0];
        }
    }
}

/// Where the entry of a number lies. Without axes there is one entry, at place zero.
template <int tensors>
__device__ __forceinline__ Places<tensors> locate(Axes<tensors> const& axes, unsigned number) {
    unsigned numbers[1] = {number};
    Places<tensors> places[1] = {};
    add_places(axes, numbers, places);
    return places[0];
}
