// SCATTER and SCATTER_ND: a copy of a tensor in which updates replace the elements that tuples of indices point to: single elements, or
// blocks.
//
//   find      winners[place that tuple n points to] = max(n + 1), over all tuples n in row-major order
//   replace   output = update of tuple n where the winner is n + 1, else input
//
// So of several tuples for one place the last wins, in any order of threads, since an integer maximum does not depend on it. A
// tuple with an index out of range points nowhere. Before `find` all winners are 0.
//
// One thread owns tuples in `find`, and words of the output in `replace`; the grids are one-dimensional, of any size. The output overlaps
// nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/indices.cuh"

/// Number is unsigned: there are less than 2^32 tuples.
template <class Number>
struct FindParameters {
    Indices indices;
    Number* winners;       // packed, for each place that tuples may point to
    Axes<3> axes;          // of the tuples: strides of their first indices, of the winners, and of the tuples' numbers
    long long strides[8];  // of the winners, along the dimensions that a tuple indexes
    unsigned count;        // tuples
};

template <class Number>
__global__ void find(const __grid_constant__ FindParameters<Number> parameters) {
    Indices const& indices = parameters.indices;
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<3> const places = locate(parameters.axes, static_cast<unsigned>(number));
        long long place = places.of[1];
        int which = 0;
#pragma unroll 1
        for (; which < indices.count; ++which) {
            long long const index = indices.from_start(places.of[0], which);
            if (index < 0 || index >= indices.sizes[which]) {
                break;
            }
            place += index * parameters.strides[which];
        }
        if (which == indices.count) {
            atomicMax(parameters.winners + place, static_cast<Number>(places.of[2] + 1));
        }
    }
}

/// Word is any type of the elements' size, or of up to 16 bytes where neighbours belong to one block in all tensors.
template <class Word>
struct ReplaceParameters {
    Word const* input;        // any strides
    Word const* updates;      // any strides
    Word* output;             // any strides
    unsigned const* winners;  // from `find`
    Axes<4> axes;             // of the output: strides of the output, of the input, of the updates within a block, and of the winners
    Axes<1> tuples;           // of the updates: a block for each tuple, in row-major order
    unsigned count;           // words of the output
};

template <class Word>
__global__ void replace(const __grid_constant__ ReplaceParameters<Word> parameters) {
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<4> const places = locate(parameters.axes, static_cast<unsigned>(number));
        unsigned const winner = parameters.winners[places.of[3]];
        Word word;
        if (winner == 0) {
            word = parameters.input[places.of[1]];
        } else {
            word = parameters.updates[places.of[2] + locate(parameters.tuples, winner - 1).of[0]];
        }
        parameters.output[places.of[0]] = word;
    }
}
