// PADDING and PADDING1: a tensor with a margin around it.
//
//   y[o] = x[m(o - start)], in each dimension of n entries m(p) = p for 0 <= p < n, and outside
//   margin_value      y[o] = value
//   margin_nearest    m(p) = min(max(p, 0), n - 1)
//   margin_repeats    m(p) = min(q, mirror - q), q = p mod period: the mirror images of x or, with the mirror out of range, its copies
//
// Word is any type of the elements' size, or of up to 16 bytes if neighbours are contiguous in both tensors along a dimension without
// a margin. One thread owns words of the output; the grid is one-dimensional, of any size. No block shares anything with another. The
// output overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"

constexpr int margin_value = 0;
constexpr int margin_nearest = 1;
constexpr int margin_repeats = 2;

template <class Word>
struct PaddingParameters {
    Word const* input;     // any strides
    Word* output;          // any strides
    unsigned value[4];     // of the margin: the bits of a word, the lowest first
    Axes<2> axes;          // of the output: strides of the output and of the input
    long long starts[8];   // entries of the margin before the input's first, along each axis
    long long sizes[8];    // of the input
    long long periods[8];  // after which the entries of an axis repeat, with `margin_repeats`
    long long mirrors[8];  // the sum of an entry and its mirror image, in one period
    int mode;
    unsigned count;        // words of the output
};

template <class Word>
__device__ Word word_of_bits(unsigned const (&bits)[4]) {
    if constexpr (sizeof(Word) == 16) {
        return Word{{bits[0], bits[1], bits[2], bits[3]}};
    } else if constexpr (sizeof(Word) == 8) {
        return static_cast<Word>(bits[1]) << 32 | bits[0];
    } else {
        return static_cast<Word>(bits[0]);
    }
}

template <class Word>
__global__ void padding(const __grid_constant__ PaddingParameters<Word> parameters) {
    Word const value = word_of_bits<Word>(parameters.value);
    int const mode = parameters.mode;
#pragma unroll 1
    for (long long number = first_element(); number < parameters.count; number += element_stride()) {
        unsigned rest = static_cast<unsigned>(number);
        long long from = 0;
        long long to = 0;
        bool is_margin = false;
#pragma unroll 1
        for (int axis = parameters.axes.count - 1; axis >= 0; --axis) {
            unsigned const outer = parameters.axes.sizes[axis].quotient(rest);
            unsigned const entry = rest - outer * parameters.axes.sizes[axis].divisor;
            rest = outer;
            long long const size = parameters.sizes[axis];
            long long place = entry - parameters.starts[axis];
            if (place < 0 || place >= size) {
                is_margin = true;
                if (mode == margin_nearest) {
                    place = place < 0 ? 0 : size - 1;
                } else if (mode == margin_repeats) {
                    long long const period = parameters.periods[axis];
                    place %= period;
                    place += place < 0 ? period : 0;
                    long long const image = parameters.mirrors[axis] - place;
                    place = image < place ? image : place;
                }
            }
            from += place * parameters.axes.strides[1][axis];
            to += entry * parameters.axes.strides[0][axis];
        }
        bool const is_value = mode == margin_value && is_margin;
        parameters.output[to] = is_value ? value : parameters.input[from];
    }
}
