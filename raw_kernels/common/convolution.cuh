// Convolution of any element types: every element of the output is a sum over the channels of its group and the taps of the window.
//
//   forward     y[n, g, m, o] = sum over c, k of x[n, g, c, o * stride + k * dilation - start] * w[g, m, c, k]     0 outside of x
//   backward    y[n, g, m, o] = sum over c, k of x[n, g, c, (o + start - k * dilation) / stride] * w[g, c, m, k]   where that is an element
//
// with g for the groups and m for the output's channels in a group. Backward, the window slides over y, and x has an element for each of its
// positions: gathered like that, sums have a fixed order. Windows have 3 spatial dimensions; an image has a first one of size 1.
//
// An arithmetic says what the tensors hold and how they are summed:
//
//   Input, Filter, Output         the element types
//   Number                        the type of factors: pixel(x) and weight(w, m) make one of an element
//   Sum, Total                    take terms one by one, or sums of a few terms: add(Number), result()
//   result(Sum's or Total's result, m)    the output's element of a sum, m the number of the output channel
//
// `convolve_tiles` is an implicit matrix product for groups of many channels, `convolve_each` for those of few. Sums are the same whatever
// the grid is. y overlaps nothing else.
#pragma once

/// The axes that sums run over: the channels of a group, then the three spatial dimensions of the window. The last one is the fastest.
struct Reduction {
    long long lengths[4];
    long long input_strides[4];    // of x, between channels and between elements
    long long filter_strides[4];   // of w, between channels and between taps: negative where it is flipped
    Window windows[3];
};

/// The element of x along one dimension that a tap meets, below 0 if there is none. Forward, the place is that of the first tap with padding
/// counted; backward it is an element of y.
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

/// Where a term of a sum has its factors, relative to the first channel of the group in x and to the first tap in w.
struct Term {
    bool met;           // whether the tap meets an element of x
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

/// Moves on by a number of terms that is given as indices. Beyond the last term the first index is at least its length.
__device__ __forceinline__ void move_on(Reduction const& reduction, long long (&indices)[4], long long const (&by)[4]) {
    bool carry = false;
#pragma unroll
    for (int axis = 3; axis > 0; --axis) {
        indices[axis] += by[axis] + carry;
        carry = indices[axis] >= reduction.lengths[axis];
        indices[axis] -= carry ? reduction.lengths[axis] : 0;
    }
    indices[0] += by[0] + carry;
}

constexpr int tile_size = 64;      // output channels, and pixels, of a tile
constexpr int tile_depth = 16;     // terms of a sum that a block has in shared memory at a time
constexpr int tile_part = 4;       // channels and pixels of a thread
constexpr int tile_threads = 256;
constexpr int tile_loads = tile_size * tile_depth / tile_threads;   // of each operand, by each thread

template <class Arithmetic>
struct TilesParameters {
    typename Arithmetic::Input const* input;      // any strides
    typename Arithmetic::Filter const* filter;    // any strides
    typename Arithmetic::Output* output;          // any strides
    Arithmetic arithmetic;
    Reduction reduction;
    Axes<5> axes;                    // batch and spatial dimensions of y: places in y and x, and where windows are along each dimension
    unsigned long long pixels;       // entries of the axes
    unsigned long long pixel_tiles;
    unsigned long long channel_tiles;    // of one group
    unsigned long long tiles;            // in all
    long long group_channels;            // of y
    long long group_strides[3];          // of y, x and w
    long long channel_strides[2];        // of y and w, between output channels of a group
    long long terms;                     // of a sum
    long long pixel_step[4];             // as indices: tile_threads / tile_size terms
    long long filter_step[4];            // tile_depth terms
};

/// A tile of output channels and pixels to a block, which goes on to others; 4 x 4 of its elements to a thread. Its operands, 16 terms at a
/// time, are gathered into shared memory, the next ones into registers meanwhile: for loads a thread keeps to one pixel and to one of 16 terms.
template <class Arithmetic, bool backward>
__global__ void convolve_tiles(const __grid_constant__ TilesParameters<Arithmetic> parameters) {
    using Number = typename Arithmetic::Number;
    constexpr int parts_across = tile_size / tile_part;
    __shared__ Pack<Number, tile_part> pixels[tile_depth][parts_across];
    __shared__ Pack<Number, tile_part> weights[tile_depth][parts_across + 1];   // more, for fewer conflicts of banks
    // Backward, which of the terms of each fourth row of `pixels` are some: 0 times an infinite weight is not 0.
    __shared__ Pack<unsigned char, tile_part> met[tile_loads][parts_across];
    __shared__ long long places[tile_size];

    Reduction const& reduction = parameters.reduction;
    Arithmetic const& arithmetic = parameters.arithmetic;
    int const thread = static_cast<int>(threadIdx.x);
    int const own_pixel = thread % tile_size, first_term = thread / tile_size;      // terms first_term + 4 i
    int const own_term = thread % tile_depth, first_channel = thread / tile_depth;  // channels first_channel + 16 i
    int const row = thread / parts_across, column = thread % parts_across;          // of parts

#pragma unroll 1
    for (unsigned long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        unsigned long long const of_group = tile / parameters.pixel_tiles;
        unsigned long long const pixel = (tile - of_group * parameters.pixel_tiles) * tile_size + own_pixel;
        long long const group = static_cast<long long>(of_group / parameters.channel_tiles);
        long long const channel = static_cast<long long>(of_group % parameters.channel_tiles) * tile_size;

        bool const has_pixel = pixel < parameters.pixels;
        Places<5> const found = has_pixel ? locate_far(parameters.axes, pixel) : Places<5>{};
        long long const at[3] = {found.of[2], found.of[3], found.of[4]};
        auto const* const input = parameters.input + found.of[1] + group * parameters.group_strides[1];
        auto const* const filter = parameters.filter + group * parameters.group_strides[2];
        if (thread < tile_size) {
            places[thread] = has_pixel ? found.of[0] + group * parameters.group_strides[0] : -1;
        }

        long long pixel_term[4] = {}, weight_term[4] = {};
        long long const one[4] = {0, 0, 0, 1};
#pragma unroll 1
        for (int i = 0; i < first_term; ++i) {
            move_on(reduction, pixel_term, one);
        }
#pragma unroll 1
        for (int i = 0; i < own_term; ++i) {
            move_on(reduction, weight_term, one);
        }

        Number next_pixels[tile_loads], next_weights[tile_loads];
        unsigned next_met;
        auto const load = [&] {
            next_met = 0;
#pragma unroll
            for (int i = 0; i < tile_loads; ++i) {
                Term const term = term_at<backward>(reduction, pixel_term, at);
                bool const meets = has_pixel && term.met && pixel_term[0] < reduction.lengths[0];
                next_pixels[i] = meets ? arithmetic.pixel(input[term.input]) : Number(0);
                next_met |= static_cast<unsigned>(meets) << i;
                move_on(reduction, pixel_term, parameters.pixel_step);
            }
            long long place = 0;
#pragma unroll
            for (int axis = 0; axis < 4; ++axis) {
                place += weight_term[axis] * reduction.filter_strides[axis];
            }
#pragma unroll
            for (int i = 0; i < tile_loads; ++i) {
                long long const m = channel + first_channel + i * (tile_threads / tile_depth);
                bool const is = m < parameters.group_channels && weight_term[0] < reduction.lengths[0];
                next_weights[i] = is ? arithmetic.weight(filter[place + m * parameters.channel_strides[1]], group * parameters.group_channels + m)
                                     : Number(0);
            }
            move_on(reduction, weight_term, parameters.filter_step);
        };
        load();

        typename Arithmetic::Total totals[tile_part][tile_part];
#pragma unroll 1
        for (long long first = 0; first < parameters.terms; first += tile_depth) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < tile_loads; ++i) {
                int const m = first_channel + i * (tile_threads / tile_depth);
                pixels[first_term + i * (tile_threads / tile_size)][own_pixel / tile_part].values[own_pixel % tile_part] = next_pixels[i];
                weights[own_term][m / tile_part].values[m % tile_part] = next_weights[i];
            }
            if constexpr (backward) {
                met[first_term][own_pixel / tile_part].values[own_pixel % tile_part] = static_cast<unsigned char>(next_met);
            }
            __syncthreads();
            load();

            Number parts[tile_part][tile_part] = {};
#pragma unroll
            for (int term = 0; term < tile_depth; ++term) {
                Pack<Number, tile_part> const x = pixels[term][column], w = weights[term][row];
                Pack<unsigned char, tile_part> is = {};
                if constexpr (backward) {
                    is = met[term % tile_loads][column];
                }
#pragma unroll
                for (int j = 0; j < tile_part; ++j) {
                    if (backward && !(is.values[j] >> term / tile_loads & 1)) {
                        continue;
                    }
#pragma unroll
                    for (int i = 0; i < tile_part; ++i) {
                        parts[i][j] += w.values[i] * x.values[j];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < tile_part; ++i) {
#pragma unroll
                for (int j = 0; j < tile_part; ++j) {
                    totals[i][j].add(parts[i][j]);
                }
            }
        }

#pragma unroll
        for (int i = 0; i < tile_part; ++i) {
            long long const m = channel + row * tile_part + i;
#pragma unroll
            for (int j = 0; j < tile_part; ++j) {
                long long const place = places[column * tile_part + j];
                if (m < parameters.group_channels && place >= 0) {
                    parameters.output[place + m * parameters.channel_strides[0]] =
                        arithmetic.result(totals[i][j].result(), group * parameters.group_channels + m);
                }
            }
        }
        __syncthreads();   // before the places of the next tile
    }
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
        long long const one[4] = {0, 0, 0, 1};
#pragma unroll 1
        for (; indices[0] < reduction.lengths[0]; move_on(reduction, indices, one)) {
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
