// REVERSE_SUBSEQUENCES: y[i] = x[L - 1 - i] for i < L, else x[i], along an axis of n entries, with L = min(length, n) of each sequence.
//
// Word is any type of the elements' size, or of up to 16 bytes if neighbours are contiguous in both tensors and have the same length.
// One thread owns words of the output; the grid is one-dimensional, of any size. No block shares anything with another. The output overlaps
// nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/indices.cuh"

template <class Word>
struct ReverseParameters {
    Word const* input;   // any strides
    Word* output;        // any strides
    Axes<4> axes;        // of the output: strides of the output, of the input but 0 along the axis, of the lengths, of the entry along the axis
    Indices lengths;     // tuples of one; the size is that of the axis
    long long stride;    // of the input along the axis
    unsigned count;      // words of the output
};

template <class Word>
__global__ void reverse(const __grid_constant__ ReverseParameters<Word> parameters) {
    long long const size = parameters.lengths.sizes[0];
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<4> const places = locate(parameters.axes, static_cast<unsigned>(number));
        long long const given = parameters.lengths.from_start(places.of[2], 0);
        long long const length = given < size ? given : size;
        long long const entry = places.of[3];
        long long const source = entry < length ? length - 1 - entry : entry;
        parameters.output[places.of[0]] = parameters.input[places.of[1] + source * parameters.stride];
    }
}
