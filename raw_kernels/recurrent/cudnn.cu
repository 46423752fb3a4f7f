// The work between the layers of a stacked network, and around them.
//
// move_gates:    target(i, g, u, c) = source(i, order[g], u, c)
// identity:      target[i][u][c] = 1 where u = c, else 0
// drop:          values[e] = values[e] * multiplier(e, layer, offset): see Dropout in common/philox.cuh
// clamp_lengths: lengths[b] = min(max(given[b], 0), T)
// write_header:  header = the offset's low word, its high word, zeros
//
// One thread owns elements; the grid is one-dimensional, of any size. No block shares anything with another. `drop` works in place;
// nowhere else do sources and targets overlap.
#include "common/machine.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/philox.cuh"

template <class T>
struct MoveGatesParameters {
    Strided<T const> source;  // [blocks][gates][units][columns]
    Strided<T> target;        // of the same sizes
    long long sizes[4];
    int order[4];  // for each gate of the target its number in the source
};

/// The parameters stay where the launch put them: a copy would be indexed in local memory.
template <class T>
__global__ void move_gates(__grid_constant__ MoveGatesParameters<T> const parameters) {
    long long const(&sizes)[4] = parameters.sizes;
    long long const count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / sizes[3];
        long long const plane = row / sizes[2];
        long long const block = plane / sizes[1], unit = row % sizes[2], column = index % sizes[3];
        int const gate = static_cast<int>(plane % sizes[1]);
        parameters.target.at(block, gate, unit, column) = parameters.source.at(block, parameters.order[gate], unit, column);
    }
}

template <class T>
struct IdentityParameters {
    T* target;  // [matrices][units][units]
    long long matrices;
    long long units;
};

template <class T>
__global__ void identity(IdentityParameters<T> parameters) {
    long long const units = parameters.units;
    long long const count = parameters.matrices * units * units;
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        bool const diagonal = index / units % units == index % units;
        parameters.target[index] = machine::from_float<T>(diagonal ? 1.0f : 0.0f);
    }
}

template <class T>
struct DropParameters {
    T* values;               // [count]
    unsigned const* offset;  // [2], low word first; absent, zero
    long long count;         // at most 2^32
    Dropout dropout;
    unsigned layer;
};

/// The dropout's offset, in two words because the reserve promises no more than a float's alignment.
__device__ inline unsigned long long read_offset(unsigned const* words) {
    return words == nullptr ? 0ull : static_cast<unsigned long long>(words[1]) << 32 | words[0];
}

template <class T>
__global__ void drop(DropParameters<T> parameters) {
    unsigned long long const offset = read_offset(parameters.offset);
#pragma unroll 1
    for (long long index = first_element(); index < parameters.count; index += element_stride()) {
        float const multiplier = parameters.dropout.multiplier(static_cast<unsigned>(index), parameters.layer, offset);
        T& value = parameters.values[index];
        value = machine::from_float<T>(machine::to_float(value) * multiplier);
    }
}

struct ClampLengthsParameters {
    int const* given;   // [B], `stride` elements apart
    unsigned* lengths;  // [B]
    long long stride;
    int batch_size;
    int seq_length;
};

template <class = void>
__global__ void clamp_lengths(ClampLengthsParameters parameters) {
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size; index += element_stride()) {
        int const given = parameters.given[index * parameters.stride];
        int const longest = parameters.seq_length;
        parameters.lengths[index] = static_cast<unsigned>(given < 0 ? 0 : given > longest ? longest : given);
    }
}

struct WriteHeaderParameters {
    unsigned* header;        // [count]
    unsigned const* offset;  // [2], low word first; absent, zero
    int count;
};

template <class = void>
__global__ void write_header(WriteHeaderParameters parameters) {
    unsigned long long const offset = read_offset(parameters.offset);
#pragma unroll 1
    for (long long index = first_element(); index < parameters.count; index += element_stride()) {
        parameters.header[index] = index < 2 ? static_cast<unsigned>(offset >> 32 * index) : 0u;
    }
}
