// Sliding blocks of an image as columns, and back.
//
//   unfold    column[n, (c, k), p] = image[n, c, p * stride + k * dilation - start], 0 in the padding
//   fold      image[n, c, i] = sum of the columns' elements that unfold would have read at i
//
// Windows have 6 spatial dimensions; those that an image does not have come first, of size 1. One thread owns an element of the output.
// The sums of fold are float, taken in the order of the positions; unfold moves words as they are. The grid is one-dimensional, of any
// size. No block shares anything with another. The output overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"

constexpr int spatial = 6;

template <class Word>
struct UnfoldParameters {
    Word const* image;
    Word* columns;
    Axes<2 + spatial> inner;       // of the columns, of the image's first tap, and of the tap along each spatial dimension; either of the
    Axes<2 + spatial> outer;       // columns' elements or of their positions, whichever neighbours are contiguous
    unsigned long long inner_count;
    unsigned long long count;      // elements of the columns
    long long origin;              // to the place of the image's first tap: padding lies before it
    long long start[spatial];      // padding before the image
    long long size[spatial];       // of the image
};

template <class Word>
__global__ void unfold(const __grid_constant__ UnfoldParameters<Word> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        unsigned long long const outer = quotient(number, parameters.inner_count);
        Places<2 + spatial> places = locate_far(parameters.inner, number - outer * parameters.inner_count);
        advance(places, locate_far(parameters.outer, outer));
        bool inside = true;
#pragma unroll
        for (int axis = 0; axis < spatial; ++axis) {
            long long const place = places.of[2 + axis] - parameters.start[axis];
            inside = inside && place >= 0 && place < parameters.size[axis];
        }
        parameters.columns[places.of[0]] = inside ? parameters.image[places.of[1] + parameters.origin] : Word(0);
    }
}

template <class T>
struct FoldParameters {
    T const* columns;
    T* image;
    Axes<2 + spatial> axes;          // of the image, of the columns along batch and channels only, and of the element along each dimension
    long long positions[spatial];    // strides of the columns: from one position to the next along each dimension
    long long taps[spatial];         // from one tap to the next
    Window windows[spatial];
    unsigned long long count;        // elements of the image
};

template <class T>
__global__ void fold(const __grid_constant__ FoldParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<2 + spatial> const places = locate_far(parameters.axes, number);
        Places<1> first = {{places.of[1]}};
        Places<1> steps[spatial];
        long long counts[spatial];
#pragma unroll
        for (int axis = 0; axis < spatial; ++axis) {
            Window const& window = parameters.windows[axis];
            long long const element = places.of[2 + axis];
            Positions const found = positions_with(window, element);
            counts[axis] = found.count;
            // a later position has the element at an earlier tap
            long long const taps = quotient(window.apart * window.stride, window.dilation);
            steps[axis].of[0] = window.apart * parameters.positions[axis] - taps * parameters.taps[axis];
            if (found.count > 0) {
                first.of[0] += found.first * parameters.positions[axis] + tap_of(window, element, found.first) * parameters.taps[axis];
            }
        }
        LongSum sum;
        auto const take = [&](Places<1> const& place) { sum.add(machine::to_float(parameters.columns[place.of[0]])); };
        for_each_entry(counts, steps, first, take);
        parameters.image[places.of[0]] = machine::from_float<T>(sum.result());
    }
}
