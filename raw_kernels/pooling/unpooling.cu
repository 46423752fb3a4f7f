// Unpooling: each element of x at its index, else zeros. Of elements with the same index the last one counts; those whose index is
// past y are ignored.
//
//   forget     winners = 0
//   choose     winners[indices[i]] = max(winners[indices[i]], i + 1)
//   collect    y[o] = winners[o] ? x[winners[o] - 1] : 0
//
// Three launches one after the other. One thread owns an element: of the winners, of the indices, and of y. The maximum is that of
// integers, so it does not depend on the order of threads. The grid is one-dimensional, of any size. Words of x and y are moved as they
// are. y overlaps nothing else.
#include "common/machine.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"

template <class Number>
struct ForgetParameters {
    Number* winners;             // packed, as many as y has elements
    unsigned long long count;    // of them
};

template <class Number>
__global__ void forget(const ForgetParameters<Number> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        parameters.winners[number] = 0;
    }
}

template <class Index, class Number>
struct ChooseParameters {
    Index const* indices;           // any strides
    Number* winners;                // packed
    Axes<1> axes;                   // of the indices, in the order of their dimensions
    unsigned long long count;       // of the indices
    unsigned long long elements;    // of y
};

template <class Index, class Number>
__global__ void choose(const __grid_constant__ ChooseParameters<Index, Number> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Index const index = parameters.indices[locate_far(parameters.axes, number).of[0]];
        if (index < parameters.elements) {
            atomicMax(parameters.winners + index, static_cast<Number>(number + 1));
        }
    }
}

template <class Word, class Number>
struct CollectParameters {
    Word const* input;              // x, any strides
    Number const* winners;          // packed
    Word* output;                   // y, any strides
    Axes<1> input_axes;             // of x, in the order of its dimensions
    Axes<2> axes;                   // of y and of the winners
    unsigned long long count;       // of y
};

template <class Word, class Number>
__global__ void collect(const __grid_constant__ CollectParameters<Word, Number> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<2> const places = locate_far(parameters.axes, number);
        Number const winner = parameters.winners[places.of[1]];
        parameters.output[places.of[0]] = winner == 0 ? Word(0) : parameters.input[locate_far(parameters.input_axes, winner - 1).of[0]];
    }
}
