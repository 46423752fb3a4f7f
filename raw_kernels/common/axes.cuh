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

/// Where the entry of a number lies. Without axes there is one entry, at place zero.
template <int tensors>
__device__ inline Places<tensors> locate(Axes<tensors> const& axes, unsigned number) {
    Places<tensors> places = {};
    if (axes.count > 1) {
#pragma unroll
        for (int axis = 7; axis > 0; --axis) {
            if (axis < axes.count) {
                unsigned const rest = number / axes.sizes[axis];
                unsigned const entry = number - rest * axes.sizes[axis];
                number = rest;
#pragma unroll
                for (int tensor = 0; tensor < tensors; ++tensor) {
                    places.of[tensor] += entry * axes.strides[tensor][axis];
                }
            }
        }
    }
    // the first axis takes what is left: no division
#pragma unroll
    for (int tensor = 0; tensor < tensors; ++tensor) {
        places.of[tensor] += number * axes.strides[tensor][0];
    }
    return places;
}

/// Both places together: of an entry of some axes, and of an entry of the others.
template <int tensors>
__device__ inline Places<tensors> operator+(Places<tensors> a, Places<tensors> const& b) {
#pragma unroll
    for (int tensor = 0; tensor < tensors; ++tensor) {
        a.of[tensor] += b.of[tensor];
    }
    return a;
}
