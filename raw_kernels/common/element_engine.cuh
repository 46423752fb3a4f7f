// The engine of all element-wise work:
//
//   y = f(x, ...)    over tensors of the same sizes in any layout, of as many inputs as the functor takes, or none
//
// A functor takes the inputs' elements, converted by `number_of`, and returns the value that `stored` converts to the output's element. Its
// members, the operator's attributes, are a part of the kernel's parameters.
//
// One thread owns vectors of `width` elements that are contiguous in the output, and in each input are contiguous too or a single
// element; the grid is one-dimensional, of any size. No block shares anything with another. A thread reads a whole vector before it writes
// it, so the output may be an input.
//
// An input whose fastest axis is not the output's is crossed: `crossed_elements` reads it by tiles, along its own axis, into
// shared memory, and writes them along the output's.
//
// Elements of 4 bits share bytes, two to each. An output of them is packed, and a thread owns whole bytes of it: vectors of an even width,
// or two neighbours that it computes one by one.
#pragma once

#include "common/functors.cuh"

/// In place of an element type: integers of 4 bits, two to a byte, the first in the low half. Offsets count elements.
struct Int4 {};
struct UInt4 {};

template <class T>
inline constexpr bool is_nibble = is_same<T, Int4> || is_same<T, UInt4>;

/// The number that the low 4 bits of a byte hold.
template <class T>
__device__ int from_nibble(unsigned bits) {
    bits &= 15u;
    return is_same<T, Int4> ? static_cast<int>(bits ^ 8u) - 8 : static_cast<int>(bits);
}

/// A result as 4 bits: floating point is rounded toward zero and clamped to their range, integers wrap around.
template <class T, class Result>
__device__ unsigned as_nibble(Result result) {
    if constexpr (is_floating<Result>) {
        constexpr int least = is_same<T, Int4> ? -8 : 0;
        int const value = held<int>(result);
        return static_cast<unsigned>(value < least ? least : value > least + 15 ? least + 15 : value) & 15u;
    } else {
        return static_cast<unsigned>(result) & 15u;
    }
}

/// In place of an input's element type: each element is its own offset, counted from the number in the address field. Strides make it the
/// number of an element in any order, or the index along a dimension.
struct Place {};

/// In place of an input's element type: all elements are 0, and there is no memory.
struct Absent {};

/// The elements of one vector of one input.
template <class T, int width>
struct Loaded {
    AlignedVector<T, width> vector;

    template <class Offset>
    __device__ void load(void const* tensor, Offset place, bool repeats) {
        T const* const first = static_cast<T const*>(tensor) + place;
        if constexpr (width > 1) {
            if (repeats) {
                T const value = *first;
#pragma unroll
                for (int i = 0; i < width; ++i) {
                    vector.values[i] = value;
                }
                return;
            }
        }
        vector = *reinterpret_cast<AlignedVector<T, width> const*>(first);
    }

    __device__ auto number(int i) const { return number_of(vector.values[i]); }
};

/// The elements of 4 bits of one vector: a vector of more than one begins with a byte.
template <class T, int width>
struct LoadedNibbles {
    AlignedVector<unsigned char, (width + 1) / 2> vector;

    template <class Offset>
    __device__ void load(void const* tensor, Offset place, bool repeats) {
        unsigned char const* const first = static_cast<unsigned char const*>(tensor) + (place >> 1);
        if (width == 1 || repeats) {
            unsigned const bits = place & 1 ? *first >> 4 : *first & 15u;
#pragma unroll
            for (int i = 0; i < (width + 1) / 2; ++i) {
                vector.values[i] = static_cast<unsigned char>(bits | bits << 4);
            }
            return;
        }
        vector = *reinterpret_cast<AlignedVector<unsigned char, (width + 1) / 2> const*>(first);
    }

    __device__ int number(int i) const { return from_nibble<T>(static_cast<unsigned>(vector.values[i / 2]) >> (i % 2 * 4)); }
};

template <int width>
struct Loaded<Int4, width> : LoadedNibbles<Int4, width> {};

template <int width>
struct Loaded<UInt4, width> : LoadedNibbles<UInt4, width> {};

template <int width>
struct Loaded<Place, width> {
    long long first;
    bool repeats;

    template <class Offset>
    __device__ void load(void const* start, Offset place, bool repeating) {
        first = reinterpret_cast<long long>(start) + place;
        repeats = repeating;
    }

    __device__ long long number(int i) const { return first + (repeats ? 0 : i); }
};

template <int width>
struct Loaded<Absent, width> {
    template <class Offset>
    __device__ void load(void const*, Offset, bool) {}

    __device__ int number(int) const { return 0; }
};

/// One vector of every input.
template <int width, class... In>
struct Operands {
    template <class Parameters, class Places>
    __device__ void load(Parameters const&, Places const&, int = 0) {}

    template <class Out, class Functor, class... Numbers>
    __device__ auto result(Functor const& functor, int, Numbers... numbers) const {
        if constexpr (is_nibble<Out>) {
            return as_nibble<Out>(functor(numbers...));
        } else {
            return stored<Out>(result_for<Out>(functor, numbers...));
        }
    }
};

template <int width, class First, class... Rest>
struct Operands<width, First, Rest...> {
    Loaded<First, width> first;
    Operands<width, Rest...> rest;

    template <class Parameters, class Places>
    __device__ void load(Parameters const& parameters, Places const& places, int input = 0) {
        first.load(parameters.inputs[input], places.of[1 + input], parameters.repeats[input] != 0);
        rest.load(parameters, places, input + 1);
    }

    /// An element of the output; of 4 bits as an unsigned.
    template <class Out, class Functor, class... Numbers>
    __device__ auto result(Functor const& functor, int i, Numbers... numbers) const {
        return rest.template result<Out>(functor, i, numbers..., first.number(i));
    }
};

template <class Functor, class Offset, int most, class Out, class... In>
struct ElementsParameters {
    Out* output;                                               // any strides
    void const* inputs[sizeof...(In) ? sizeof...(In) : 1];     // any strides
    Axes<1 + sizeof...(In), Offset, most> axes;  // the output's and the inputs': a vector is one entry of the last axis, strides count elements
    unsigned vectors;
    unsigned rest;  // elements after the vectors; only with one contiguous axis
    int repeats[sizeof...(In) ? sizeof...(In) : 1];            // not 0: all elements of a vector are one element of this input
    Functor functor;
};

/// The places of an entry of axes that are one row of vectors, by its number; an input repeats or is contiguous.
template <class Functor, class Offset, int most, class Out, class... In>
__device__ Places<1 + sizeof...(In), Offset> in_row(ElementsParameters<Functor, Offset, most, Out, In...> const& parameters, Offset number) {
    Places<1 + sizeof...(In), Offset> places;
    places.of[0] = number;
#pragma unroll
    for (int input = 0; input < static_cast<int>(sizeof...(In)); ++input) {
        places.of[1 + input] = parameters.repeats[input] ? 0 : number;
    }
    return places;
}

/// Elements of 4 bits, two neighbours by each thread, which owns their byte. After an odd last one it writes zeros.
template <bool row, class Functor, class Offset, int most, class Out, class... In>
__device__ void elements_by_bytes(ElementsParameters<Functor, Offset, most, Out, In...> const& parameters, unsigned first, unsigned count) {
    unsigned char* const output = reinterpret_cast<unsigned char*>(parameters.output) + first / 2;
#pragma unroll 1
    for (long long number = first_element(); 2 * number < count; number += element_stride()) {
        unsigned byte = 0;
#pragma unroll 1
        for (unsigned half = 0; half < 2 && 2 * number + half < count; ++half) {
            unsigned const element = first + static_cast<unsigned>(2 * number) + half;
            Places<1 + sizeof...(In), Offset> places;
            if constexpr (row) {
                places = in_row(parameters, static_cast<Offset>(element));
            } else {
                places = locate(parameters.axes, element);
            }
            Operands<1, In...> operands;
            operands.load(parameters, places);
            byte |= operands.template result<Out>(parameters.functor, 0) << (4 * half);
        }
        output[number] = static_cast<unsigned char>(byte);
    }
}

/// One element of the output for each of its axes' entries.
template <class Functor, int width, class Offset, int most, class Out, class... In>
__global__ void elements(const __grid_constant__ ElementsParameters<Functor, Offset, most, Out, In...> parameters) {
    if constexpr (is_nibble<Out> && width == 1) {
        elements_by_bytes<false>(parameters, 0, parameters.vectors);
    } else {
#pragma unroll 1
        for (long long number = first_element(); number < parameters.vectors; number += element_stride()) {
            Places<1 + sizeof...(In), Offset> const places = locate(parameters.axes, static_cast<unsigned>(number));
            Operands<width, In...> operands;
            operands.load(parameters, places);
            if constexpr (is_nibble<Out>) {
                AlignedVector<unsigned char, width / 2> vector;
#pragma unroll
                for (int i = 0; i < width / 2; ++i) {
                    unsigned const low = operands.template result<Out>(parameters.functor, 2 * i);
                    vector.values[i] = static_cast<unsigned char>(low | operands.template result<Out>(parameters.functor, 2 * i + 1) << 4);
                }
                unsigned char* const output = reinterpret_cast<unsigned char*>(parameters.output) + (places.of[0] >> 1);
                *reinterpret_cast<AlignedVector<unsigned char, width / 2>*>(output) = vector;
            } else {
                AlignedVector<Out, width> vector;
#pragma unroll
                for (int i = 0; i < width; ++i) {
                    vector.values[i] = operands.template result<Out>(parameters.functor, i);
                }
                *reinterpret_cast<AlignedVector<Out, width>*>(parameters.output + places.of[0]) = vector;
            }
        }
        if constexpr (width > 1 && is_nibble<Out>) {
            elements_by_bytes<true>(parameters, parameters.vectors * width, parameters.rest);
        } else if constexpr (width > 1) {
            Offset const first = static_cast<Offset>(parameters.vectors) * width;
#pragma unroll 1
            for (long long number = first_element(); number < parameters.rest; number += element_stride()) {
                Places<1 + sizeof...(In), Offset> const places = in_row(parameters, static_cast<Offset>(first + number));
                Operands<1, In...> operands;
                operands.load(parameters, places);
                parameters.output[places.of[0]] = operands.template result<Out>(parameters.functor, 0);
            }
        }
    }
}

/// Elements along either side of a tile.
inline constexpr int crossing_side = 32;

/// Threads of a block of `crossed_elements`.
inline constexpr int crossing_threads = 256;

template <class Functor, class Offset, int most, class Out, class... In>
struct CrossedParameters {
    Out* output;
    void const* inputs[sizeof...(In)];
    Axes<1 + sizeof...(In), Offset, most> outer;   // the output's and the inputs', but for two
    Offset strides[1 + sizeof...(In)][2];          // along the output's fastest axis, and along that of the crossed input
    unsigned sizes[2];
    Divisor tiles[2];                              // along each of the two
    unsigned count;                                // tiles of all
    Functor functor;
};

/// What `Operands` reads instead of the parameters: the tile in place of the crossed input.
template <int count>
struct NearInputs {
    void const* inputs[count];
    int repeats[count];
};

template <int index, class First, class... Rest>
struct TypeAt : TypeAt<index - 1, Rest...> {};
template <class First, class... Rest>
struct TypeAt<0, First, Rest...> {
    using type = First;
};

/// The same for an input that is transposed against the output. A block processes one tile after the other; its warps have rows of the
/// input and then of the output. A row of the tile is padded by an element, and smaller elements have a word of 4 bytes each, to avoid bank
/// conflicts.
template <class Functor, int crossed, class Offset, int most, class Out, class... In>
__global__ void __launch_bounds__(crossing_threads) crossed_elements(const __grid_constant__ CrossedParameters<Functor, Offset, most, Out, In...> parameters) {
    using Crossed = typename TypeAt<crossed, In...>::type;
    constexpr int tensors = 1 + sizeof...(In), rows = crossing_threads / crossing_side, pitch = crossing_side + 1;
    constexpr int turns = crossing_side / rows;
    constexpr int spread = sizeof(Crossed) < 4 ? 4 / sizeof(Crossed) : 1;
    __shared__ Crossed tile[crossing_side * pitch * spread];
    unsigned const lane = threadIdx.x % crossing_side;
    unsigned const row = threadIdx.x / crossing_side;
#pragma unroll 1
    for (long long number = blockIdx.x; number < parameters.count; number += gridDim.x) {
        unsigned const line = parameters.tiles[1].quotient(static_cast<unsigned>(number));
        unsigned const outer = parameters.tiles[0].quotient(line);
        unsigned const first = (line - outer * parameters.tiles[0].divisor) * crossing_side;   // along the output's fastest axis
        unsigned const second = (static_cast<unsigned>(number) - line * parameters.tiles[1].divisor) * crossing_side;
        Places<tensors, Offset> const origin = locate(parameters.outer, outer);
        auto const place = [&](int tensor, unsigned along, unsigned across) {
            Offset const(&strides)[2] = parameters.strides[tensor];
            return origin.of[tensor] + static_cast<Offset>(first + along) * strides[0] + static_cast<Offset>(second + across) * strides[1];
        };
        // the loads of all iterations are in flight at once
        Crossed read[turns];
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            unsigned const along = row + turn * rows;
            if (first + along < parameters.sizes[0] && second + lane < parameters.sizes[1]) {
                read[turn] = static_cast<Crossed const*>(parameters.inputs[crossed])[place(1 + crossed, along, lane)];
            }
        }
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            unsigned const along = row + turn * rows;
            if (first + along < parameters.sizes[0] && second + lane < parameters.sizes[1]) {
                tile[(lane * pitch + along) * spread] = read[turn];
            }
        }
        __syncthreads();
        NearInputs<tensors - 1> near = {};
#pragma unroll
        for (int input = 0; input < tensors - 1; ++input) {
            near.inputs[input] = parameters.inputs[input];
        }
        near.inputs[crossed] = tile;
        Operands<1, In...> operands[turns];
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            unsigned const across = row + turn * rows;
            if (first + lane < parameters.sizes[0] && second + across < parameters.sizes[1]) {
                Places<tensors, Offset> places;
#pragma unroll
                for (int tensor = 1; tensor < tensors; ++tensor) {
                    places.of[tensor] = place(tensor, lane, across);
                }
                places.of[1 + crossed] = static_cast<Offset>((across * pitch + lane) * spread);
                operands[turn].load(near, places);
            }
        }
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            unsigned const across = row + turn * rows;
            if (first + lane < parameters.sizes[0] && second + across < parameters.sizes[1]) {
                parameters.output[place(0, lane, across)] = operands[turn].template result<Out>(parameters.functor, 0);
            }
        }
        __syncthreads();
    }
}
