// Kernels whose accesses to memory are known, to test the instrument that counts them. A word behind `//` names a line for the test.
#include "common/machine.cuh"

template <class T, int count>
struct alignas(count * sizeof(T)) AlignedVector {
    T values[count];
};

struct Parameters {
    float* input;
    float* output;
    unsigned* words;  // numbers for the kernel
    long long count;
};

/// Thread t accesses the value number (t / lanes % places) * stride + offset, of shared and of global memory.
template <class T>
__global__ void strided(Parameters parameters) {
    unsigned const lanes = parameters.words[0], places = parameters.words[1], stride = parameters.words[2], offset = parameters.words[3];
    unsigned const place = threadIdx.x / lanes % places * stride + offset;
    T* const values = machine::dynamic_shared<T>();
    T const value = reinterpret_cast<T const*>(parameters.input)[place];       // global load
    values[place] = value;                                                      // shared store
    __syncthreads();
    reinterpret_cast<T*>(parameters.output)[place] = values[place];            // both
}

/// A tile of 32 x 32 floats, whose rows are so many floats apart, read by columns.
__global__ void transpose(Parameters parameters) {
    __shared__ float tile[32 * 48];
    unsigned const row = parameters.words[0], column = threadIdx.x % 32;
    for (unsigned y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
        tile[y * row + column] = parameters.input[y * 32 + column];             // rows
    }
    __syncthreads();
    for (unsigned y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
        parameters.output[y * 32 + column] = tile[column * row + y];            // columns
    }
}

__device__ __attribute__((noinline)) float value_of_row(float const* input, int row) {
    return input[row * 32 + threadIdx.x];                                       // callee
}

__device__ __attribute__((noinline)) void set(float* own, float value) {
    own[0] = value;                                                             // own memory
}

/// Lanes part and meet.
__global__ void part(Parameters parameters) {
    float value = 0.0f;
    // Thread t takes t % 4 + 1 turns.
    for (int turn = 0; turn <= static_cast<int>(threadIdx.x % 4); ++turn) {
        value += parameters.input[turn * 32 + threadIdx.x];                     // different lengths
    }
    // Who pairs the threads' first accesses, and their second ones, mixes the rows.
    for (int turn = 0; turn < static_cast<int>(parameters.count); ++turn) {
        if ((threadIdx.x + turn) % 2 == 0) {
            value += parameters.input[turn * 32];                               // every other turn
        }
        value *= 0.5f;
    }
    // A function that is called at two lines.
    if (threadIdx.x < 16) {
        value += value_of_row(parameters.input, 0);
    } else {
        value += value_of_row(parameters.input, 1) + 1.0f;
    }
    while (true) {
        value += 1.0f;
        if (threadIdx.x % 3 == 0) {
            break;
        }
        value += parameters.input[threadIdx.x];                                 // some left
        if (value == value) {
            break;
        }
    }
    float own[1];
    set(own, value);
    parameters.output[threadIdx.x] = own[0];                                    // met again
}

struct Three {
    float values[3];
};

/// Values one by one: of an aligned struct, of a row that is not aligned, in a loop whose length the compiler does not know, and in a
/// struct that is aligned to its elements.
__global__ void one_by_one(Parameters parameters) {
    float* const values = machine::dynamic_shared<float>();
    float own[4];
    for (int e = 0; e < 4; ++e) {
        own[e] = parameters.input[32 * e + threadIdx.x];
    }
    for (int e = 0; e < 4; ++e) {
        reinterpret_cast<AlignedVector<float, 4>*>(values)[threadIdx.x].values[e] = own[e] + 1.0f;  // aligned struct
    }
    __syncthreads();
    for (int e = 0; e < 4; ++e) {
        values[5 * threadIdx.x + e] = own[e];                                   // row
    }
    __syncthreads();
    float sum = 0.0f;
    for (int e = 0; e < static_cast<int>(parameters.count); ++e) {
        sum += values[4 * threadIdx.x + e];                                     // loop
    }
    __syncthreads();
    Three const three = reinterpret_cast<Three const*>(values)[threadIdx.x];    // struct of floats
    parameters.output[threadIdx.x] = sum + three.values[0] + three.values[1] + three.values[2];
}

/// Copies `count` rows to shared memory, so many at a time on their way.
template <int ahead>
__global__ void rounds(Parameters parameters) {
    float* const values = machine::dynamic_shared<float>();
    for (int row = 0; row < static_cast<int>(parameters.count); row += ahead) {
        float own[ahead];
        for (int i = 0; i < ahead; ++i) {
            own[i] = parameters.input[(row + i) * 32 + threadIdx.x];            // load
        }
        for (int i = 0; i < ahead; ++i) {
            values[(row + i) * 32 + threadIdx.x] = own[(i + 1) % ahead];        // store
        }
    }
    float sum = 0.0f;
    for (int row = 0; row < static_cast<int>(parameters.count); ++row) {
        sum += parameters.input[row * 32 + threadIdx.x];                        // load before a barrier
        if (row % ahead == 0) {
            __syncthreads();
        }
    }
    parameters.output[threadIdx.x] = sum;
}

/// Each block raises its word and waits for the others'.
__global__ void wait_for_all(Parameters parameters) {
    if (threadIdx.x == 0) {
        machine::store_release(parameters.words + blockIdx.x, 1u);              // raise
    }
    for (unsigned block = threadIdx.x; block < gridDim.x; block += 32) {
        while (machine::load_acquire(parameters.words + block) == 0) {          // poll
            machine::pause(0);
        }
    }
    __syncwarp();
    parameters.output[blockIdx.x * 32 + threadIdx.x] = 1.0f;                    // then
}

/// Each block sends all others four words for each of its threads, which tell by themselves that they have come: they are not zero then.
__global__ void hand_over(Parameters parameters) {
    for (int word = 0; word < 4; ++word) {
        machine::store_relaxed(parameters.words + (blockIdx.x * 4 + word) * 32 + threadIdx.x, word + 1u);  // put
    }
    unsigned sum = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) {
        unsigned words[4];
        unsigned const* const address = parameters.words + (block * 32 + threadIdx.x) * 4;
        machine::load_relaxed(address, words);                                  // begin
        while (words[0] == 0 || words[1] == 0 || words[2] == 0 || words[3] == 0) {
            machine::pause(0);
            machine::load_relaxed(address, words);                              // again
        }
        sum += words[0] + words[1] + words[2] + words[3];
    }
    parameters.output[blockIdx.x * 32 + threadIdx.x] = static_cast<float>(sum);
}
