// GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1: elements of a tensor at indices.
//
//   output[c] = input[p(c) + sum over k of clamp(index_k(c), 0, size_k - 1) * stride_k]
//
// The coordinates c of the output give the offset p in the input along dimensions without an index, and the tuple of indices that is read.
// An index out of range reads the nearest element of its dimension, so no access lies outside the input.
//
// Word is any type of the elements' size, or of up to 16 bytes where neighbours of the output are neighbours of the input and share their
// indices. One thread owns words of the output; the grid is one-dimensional, of any size. No block shares anything with another. The output
// overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/indices.cuh"

template <class Word>
struct GatherParameters {
    Word const* input;     // any strides
    Word* output;          // any strides
    Axes<3> axes;          // of the output: strides of the output, of the input, and of the tuples' first indices
    Indices indices;
    long long strides[8];  // of the input, along the dimensions that a tuple indexes
    unsigned count;        // words of the output
};

template <class Word>
__global__ void gather(const __grid_constant__ GatherParameters<Word> parameters) {
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<3> const places = locate(parameters.axes, static_cast<unsigned>(number));
        long long place = places.of[1];
#pragma unroll 1
        for (int which = 0; which < parameters.indices.count; ++which) {
            long long const index = parameters.indices.from_start(places.of[2], which);
            long long const last = parameters.indices.sizes[which] - 1;
            place += (index < 0 ? 0 : index > last ? last : index) * parameters.strides[which];
        }
        parameters.output[places.of[0]] = parameters.input[place];
    }
}
