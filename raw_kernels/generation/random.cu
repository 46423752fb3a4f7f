// RANDOM_GENERATOR: words 4 i to 4 i + 3 of the output, in row-major order, are those of Philox-4x32-10 for the counter of the state plus i.
//
// One thread owns counters; the grid is one-dimensional, of any size. No block shares anything with another. Thread 0 writes the state that
// follows. With `width` 4 the output is packed and at a multiple of 16 bytes, with 1 it has any strides. The outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/philox.cuh"

constexpr int state_words = 6;

struct RandomParameters {
    unsigned const* state;      // [6]: the counter's words, the lowest first, and the key's
    unsigned* output;
    unsigned* output_state;     // [6]; may be absent
    long long state_stride;
    long long output_state_stride;
    Axes<1> axes;               // of the output, in row-major order
    unsigned count;             // words of the output
};

/// The counter plus a number, modulo 2^128.
__device__ inline Philox advanced(Philox counter, unsigned number) {
    unsigned long long carried = number;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
        carried += counter.words[word];
        counter.words[word] = static_cast<unsigned>(carried);
        carried >>= 32;
    }
    return counter;
}

template <int width>
__global__ void generate(const __grid_constant__ RandomParameters parameters) {
    unsigned state[state_words];
#pragma unroll
    for (int word = 0; word < state_words; ++word) {
        state[word] = parameters.state[word * parameters.state_stride];
    }
    Philox const counter{{state[0], state[1], state[2], state[3]}};
    long long const blocks = (static_cast<long long>(parameters.count) + 3) / 4;
#pragma unroll 1
    for (long long block = first_element(); block < blocks; block += element_stride()) {
        Philox const words = advanced(counter, static_cast<unsigned>(block)).random(state[4], state[5]);
        long long const first = 4 * block;
        if (width == 4 && first + 4 <= parameters.count) {
            *reinterpret_cast<Vector4<unsigned>*>(parameters.output + first) =
                Vector4<unsigned>{{words.words[0], words.words[1], words.words[2], words.words[3]}};
        } else {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                if (first + word < parameters.count) {
                    parameters.output[locate(parameters.axes, static_cast<unsigned>(first + word)).of[0]] = words.words[word];
                }
            }
        }
    }
    if (first_element() == 0 && parameters.output_state != nullptr) {
        Philox const next = advanced(counter, static_cast<unsigned>(blocks));
#pragma unroll
        for (int word = 0; word < state_words; ++word) {
            parameters.output_state[word * parameters.output_state_stride] = word < 4 ? next.words[word] : state[word];
        }
    }
}
