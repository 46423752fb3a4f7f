// Convolution of any element types: every element of the output is a sum over the channels of its group and the taps of the window.
//
//   forward     y[n, g, m, o] = sum over c, k of x[n, g, c, o * stride + k * dilation - start] * w[g, m, c, k]     0 outside of x
//   backward    y[n, g, m, o] = sum over c, k of x[n, g, c, (o + start - k * dilation) / stride] * w[g, c, m, k]   where that is an element
//
// with g for the groups and m for the output's channels in a group. Backward, the window slides over y, and x has an element for each of
// its positions: gathered like that, sums have a fixed order. Windows have 3 spatial dimensions; an image has a first one of size 1.
//
// An arithmetic defines the types of the tensors and their summation:
//
//   Input, Filter, Output         the element types
//   Number                        the type of factors: pixel(x) and weight(w, m) make one of an element
//   Sum                           takes terms one by one: add(Number), result()
//   Raw                           an unsigned integer of their size, as tiles copy them
//   sums<Sums>()                  the sums of a tile, as in common/tile_products.cuh
//   has_padding, padding()        whether an element outside of x may be something else than 0, and a word of such in a tile
//   zeros(m, end)                 the zero points of a tile whose first output channel is m, for Sums
//   result(result of a sum, m)    the output's element of a sum, m the number of the output channel
//
// `convolve_tiles`, in common/convolution_tiles.cuh, is an implicit matrix product for groups of many channels, `convolve_each` for groups
// of few. Sums do not depend on the grid. y overlaps nothing else.
#pragma once

/// The axes that sums run over: the channels of a group, then the three spatial dimensions of the window. The last one is the fastest.
struct Reduction {
    long long lengths[4];
    long long input_strides[4];    // of x, between channels and between elements
    long long filter_strides[4];   // of w, between channels and between taps: negative where it is flipped
    Window windows[3];
};

/// The element of x along one dimension that a tap reads, below 0 if there is none. Forward, the place is that of the first tap with
/// padding counted; backward it is an element of y.
template <bool backward>
__device__ __forceinline__ long long met_along(Window const& window, long long place, long long tap) {
    if constexpr (backward) {
        long long const distance = place + window.start - tap * window.dilation;
        if (distance < 0) {
            return -1;
        }
        long long const position = quotient(distance, window.stride);
        return position * window.stride == distance && position < window.positions ? position : -1;
    } else {
        long long const element = place - window.start + tap * window.dilation;
        return element < window.size ? element : -1;
    }
}

/// The places of a term's factors, relative to the first channel of the group in x and to the first tap in w.
struct Term {
    bool met;           // whether the tap reads an element of x
    long long input;
    long long filter;
};

template <bool backward>
__device__ __forceinline__ Term term_at(Reduction const& reduction, long long const (&indices)[4], long long const (&place)[3]) {
    Term term = {true, indices[0] * reduction.input_strides[0], indices[0] * reduction.filter_strides[0]};
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        long long const element = met_along<backward>(reduction.windows[axis], place[axis], indices[1 + axis]);
        term.met = term.met && element >= 0;
        term.input += element * reduction.input_strides[1 + axis];
        term.filter += indices[1 + axis] * reduction.filter_strides[1 + axis];
    }
    return term;
}

/// Advances by a term. Past the last one the first index is its length.
__device__ __forceinline__ void move_on(Reduction const& reduction, long long (&indices)[4]) {
    bool carry = true;
#pragma unroll
    for (int axis = 3; axis > 0; --axis) {
        indices[axis] += carry;
        carry = indices[axis] == reduction.lengths[axis];
        indices[axis] = carry ? 0 : indices[axis];
    }
    indices[0] += carry;
}

template <class Arithmetic>
struct EachParameters {
    typename Arithmetic::Input const* input;      // any strides
    typename Arithmetic::Filter const* filter;    // any strides
    typename Arithmetic::Output* output;          // any strides
    Arithmetic arithmetic;
    Reduction reduction;
    Axes<7> axes;                // all dimensions of y: places in y, x and w, the number of the channel, and where windows are
    unsigned long long count;    // elements of y
};

/// One thread owns an element of y. The grid is one-dimensional, of any size.
template <class Arithmetic, bool backward>
__global__ void convolve_each(const __grid_constant__ EachParameters<Arithmetic> parameters) {
    using Number = typename Arithmetic::Number;
    Reduction const& reduction = parameters.reduction;
    Arithmetic const& arithmetic = parameters.arithmetic;
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<7> const places = locate_far(parameters.axes, number);
        long long const at[3] = {places.of[4], places.of[5], places.of[6]};
        long long const channel = places.of[3];
        typename Arithmetic::Sum sum;
        long long indices[4] = {};
#pragma unroll 1
        for (; indices[0] < reduction.lengths[0]; move_on(reduction, indices)) {
            Term const term = term_at<backward>(reduction, indices, at);
            if (backward && !term.met) {
                continue;
            }
            Number const x = term.met ? arithmetic.pixel(parameters.input[places.of[1] + term.input]) : Number(0);
            sum.add(x * arithmetic.weight(parameters.filter[places.of[2] + term.filter], channel));
        }
        parameters.output[places.of[0]] = arithmetic.result(sum.result(), channel);
    }
}
