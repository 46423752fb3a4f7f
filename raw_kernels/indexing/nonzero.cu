// NONZERO_COORDINATES: how many elements are not zero, and the coordinates of each in row-major order, with zeros in the rows after them.
//
//   count_nonzero      counts[block] = elements of the block's part of the input that are not zero
//   write_coordinates  row number r of the coordinates = those of the r-th element that is not zero; r starts from the counts of the blocks
//   before it
//
// Both launches have the same grid. Block b owns the elements part * b to part * (b + 1) - 1 in row-major order; in `write_coordinates`
// also the rows of these numbers, if they are past the last coordinates. Word is any type of the elements' size. Blocks have whole warps,
// at most 32 of them. The outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"

constexpr int warp_size = 32;
constexpr int most_warps = 32;

template <class Word>
struct NonzeroParameters {
    Word const* input;                 // any strides
    unsigned* counts;                  // [blocks], scratch
    unsigned* output_count;
    unsigned* coordinates;             // [count][axes.count], any strides
    Axes<1> axes;                      // of the input: every dimension that has a coordinate, in order
    long long coordinate_strides[2];   // of rows and of the coordinates in a row
    unsigned magnitude;                // the bits that make an element nonzero: of floats all but the sign
    unsigned count;                    // elements of the input
    unsigned part;                     // elements of a block: a multiple of its threads
};

/// Whether the element of a number is not zero; beyond the last number there are zeros.
template <class Word>
__device__ __forceinline__ bool is_nonzero(NonzeroParameters<Word> const& parameters, long long number) {
    if (number >= parameters.count) {
        return false;
    }
    long long const place = locate(parameters.axes, static_cast<unsigned>(number)).of[0];
    return (static_cast<unsigned>(parameters.input[place]) & parameters.magnitude) != 0;
}

/// The sum over all threads of a block, in each of them. Every thread calls it.
__device__ __forceinline__ unsigned sum_of_block(unsigned value) {
    __shared__ unsigned sums[most_warps];
    for (int mask = warp_size / 2; mask > 0; mask /= 2) {
        value += machine::shuffle_xor(value, mask);
    }
    __syncthreads();  // all threads have read the sums of the previous call
    if (threadIdx.x % warp_size == 0) {
        sums[threadIdx.x / warp_size] = value;
    }
    __syncthreads();
    unsigned sum = 0;
    for (int warp = 0; warp < static_cast<int>(blockDim.x / warp_size); ++warp) {
        sum += sums[warp];
    }
    return sum;
}

template <class Word>
__global__ void count_nonzero(const __grid_constant__ NonzeroParameters<Word> parameters) {
    long long const first = static_cast<long long>(blockIdx.x) * parameters.part;
    unsigned found = 0;
#pragma unroll 1
    for (unsigned own = threadIdx.x; own < parameters.part; own += blockDim.x) {
        found += is_nonzero(parameters, first + own);
    }
    found = sum_of_block(found);
    if (threadIdx.x == 0) {
        parameters.counts[blockIdx.x] = found;
    }
}

template <class Word>
__global__ void write_coordinates(const __grid_constant__ NonzeroParameters<Word> parameters) {
    __shared__ unsigned of_warps[most_warps];
    int const lane = threadIdx.x % warp_size;
    int const own_warp = threadIdx.x / warp_size;
    int const warps = blockDim.x / warp_size;

    unsigned before = 0;
    unsigned all = 0;
#pragma unroll 1
    for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        unsigned const found = parameters.counts[block];
        all += found;
        before += block < blockIdx.x ? found : 0;
    }
    before = sum_of_block(before);
    all = sum_of_block(all);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *parameters.output_count = all;
    }

    long long const first = static_cast<long long>(blockIdx.x) * parameters.part;
#pragma unroll 1
    for (unsigned start = 0; start < parameters.part; start += blockDim.x) {
        long long const number = first + start + threadIdx.x;
        bool const found = is_nonzero(parameters, number);
        unsigned const lanes = machine::ballot(found);
        if (lane == 0) {
            of_warps[own_warp] = machine::count_bits(lanes);
        }
        __syncthreads();
        unsigned row = before + machine::count_bits(lanes & ((1u << lane) - 1u));
        for (int warp = 0; warp < warps; ++warp) {
            unsigned const own = of_warps[warp];
            before += own;
            row += warp < own_warp ? own : 0;
        }
        __syncthreads();  // all have read what the next round writes

        if (found) {
            unsigned rest = static_cast<unsigned>(number);
            unsigned* const coordinates = parameters.coordinates + row * parameters.coordinate_strides[0];
#pragma unroll 1
            for (int axis = parameters.axes.count - 1; axis >= 0; --axis) {
                Divisor const size = parameters.axes.sizes[axis];
                unsigned const outer = size.quotient(rest);
                coordinates[axis * parameters.coordinate_strides[1]] = rest - outer * size.divisor;
                rest = outer;
            }
        }
        if (number >= all && number < parameters.count) {
            unsigned* const coordinates = parameters.coordinates + number * parameters.coordinate_strides[0];
#pragma unroll 1
            for (int axis = 0; axis < parameters.axes.count; ++axis) {
                coordinates[axis * parameters.coordinate_strides[1]] = 0;
            }
        }
    }
}
