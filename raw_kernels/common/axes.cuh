// Axes that several tensors share, and the offset of an entry in each tensor.
#pragma once

/// A divisor known on the host, for division by a multiplication and shifts: Granlund and Montgomery, "Division by invariant integers
/// using multiplication". With l = ceil(log2 divisor), multiplier = floor(2^32 (2^l - divisor) / divisor) + 1, first_shift = min(l, 1) and
/// second_shift = l - first_shift the quotient of any 32-bit number is exact.
struct Divisor {
    unsigned divisor;
    unsigned multiplier;
    unsigned first_shift;
    unsigned second_shift;

    __device__ unsigned quotient(unsigned number) const {
        unsigned const high = machine::multiply_high(number, multiplier);
        return (high + ((number - high) >> first_shift)) >> second_shift;
    }
};

/// Up to `most` axes, outermost first: sizes, and for each of `tensors` tensors the distance of neighbours, in elements. A stride of zero
/// repeats an entry. Their entries, numbered with the last axis fastest, are less than 2^32. `Offset` is int if every offset fits.
template <int tensors, class Offset = long long, int most = 8>
struct Axes {
    Offset strides[tensors][most];
    Divisor sizes[most];
    int count;
};

/// An entry's place in each of several tensors, in elements from the tensor's first.
template <int tensors, class Offset = long long>
struct Places {
    Offset of[tensors];
};

/// Adds the offsets of the entries with these numbers to their places; overwrites the numbers. All entries are processed axis by axis: the
/// loop is not unrolled, which requires the axes of a parameter to be a `__grid_constant__`.
template <int tensors, class Offset, int most, int count>
__device__ __forceinline__ void add_places(Axes<tensors, Offset, most> const& axes, unsigned (&numbers)[count],
                                           Places<tensors, Offset> (&places)[count]) {
#pragma unroll 1
    for (int axis = axes.count - 1; axis > 0; --axis) {
        Divisor const size = axes.sizes[axis];
#pragma unroll
        for (int i = 0; i < count; ++i) {
            unsigned const rest = size.quotient(numbers[i]);
            unsigned const entry = numbers[i] - rest * size.divisor;
            numbers[i] = rest;
#pragma unroll
            for (int tensor = 0; tensor < tensors; ++tensor) {
                places[i].of[tensor] += static_cast<Offset>(entry) * axes.strides[tensor][axis];
            }
        }
    }
    // the first axis has the remaining quotient: no division
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int tensor = 0; tensor < tensors; ++tensor) {
            places[i].of[tensor] += static_cast<Offset>(numbers[i]) * axes.strides[tensor][0];
        }
    }
}

/// The place of the entry with a number. Without axes there is one entry, at place zero.
template <int tensors, class Offset, int most>
__device__ __forceinline__ Places<tensors, Offset> locate(Axes<tensors, Offset, most> const& axes, unsigned number) {
    unsigned numbers[1] = {number};
    Places<tensors, Offset> places[1] = {};
    add_places(axes, numbers, places);
    return places[0];
}

/// The same where all of the `most` axes are there, the outermost of size 1 if need be: nothing is looked up by an axis's number.
template <int tensors, class Offset, int most>
__device__ __forceinline__ Places<tensors, Offset> locate_along_all(Axes<tensors, Offset, most> const& axes, unsigned number) {
    Places<tensors, Offset> places = {};
#pragma unroll
    for (int axis = most - 1; axis >= 0; --axis) {
        unsigned const rest = axis == 0 ? 0 : axes.sizes[axis].quotient(number);
        unsigned const entry = number - rest * axes.sizes[axis].divisor;
        number = rest;
#pragma unroll
        for (int tensor = 0; tensor < tensors; ++tensor) {
            places.of[tensor] += static_cast<Offset>(entry) * axes.strides[tensor][axis];
        }
    }
    return places;
}

/// The same for axes with 2^32 entries and more. The division is 32-bit if the dividend is.
template <int tensors>
__device__ __forceinline__ Places<tensors> locate_far(Axes<tensors> const& axes, unsigned long long number) {
    Places<tensors> places = {};
#pragma unroll 1
    for (int axis = axes.count - 1; axis >= 0; --axis) {
        Divisor const size = axes.sizes[axis];
        unsigned long long const rest = axis == 0     ? 0
                                        : number >> 32 ? number / size.divisor
                                                       : size.quotient(static_cast<unsigned>(number));
        long long const entry = static_cast<long long>(number - rest * size.divisor);
        number = rest;
#pragma unroll
        for (int tensor = 0; tensor < tensors; ++tensor) {
            places.of[tensor] += entry * axes.strides[tensor][axis];
        }
    }
    return places;
}
