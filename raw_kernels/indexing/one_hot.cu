// ONE_HOT: y = on where the coordinate along an axis is the index of its sequence, else off. An index out of range matches no coordinate.
//
// Word is any type of the elements' size. One thread owns words of the output; the grid is one-dimensional, of any size. No block shares
// anything with another. The output overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/indices.cuh"

template <class Word>
struct OneHotParameters {
    Word const* off;
    Word const* on;
    Word* output;      // any strides
    Axes<3> axes;      // of the output: strides of the output, of the indices, and of the coordinate along the axis
    Indices indices;   // tuples of one
    unsigned count;    // words of the output
};

template <class Word>
__global__ void one_hot(const __grid_constant__ OneHotParameters<Word> parameters) {
    Word const off = *parameters.off;
    Word const on = *parameters.on;
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<3> const places = locate(parameters.axes, static_cast<unsigned>(number));
        parameters.output[places.of[0]] = parameters.indices.from_start(places.of[1], 0) == places.of[2] ? on : off;
    }
}
