// Kernels whose right or wrong behaviour is known, to test the instrument that executes kernels on the CPU.
#include "common/machine.cuh"

struct Parameters {
    float* input;
    float* output;
    unsigned* words;
    long long count;
};

/// output[block] = sum of input[block][count]. Block: whole warps. Every thread takes part in every barrier.
__global__ void block_sum(Parameters parameters) {
    __shared__ float warp_sums[32];
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < parameters.count; i += blockDim.x) {
        sum += parameters.input[blockIdx.x * parameters.count + i];
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += machine::shuffle_xor(sum, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) {
            total += warp_sums[warp];
        }
        parameters.output[blockIdx.x] = total;
    }
}

/// Reverses each block's numbers, in rounds that pass through dynamic shared memory. The template argument leaves out one barrier.
template <bool between_rounds>
__global__ void reverse(Parameters parameters) {
    float* const numbers = machine::dynamic_shared<float>();
    int const thread = threadIdx.x;
    int const size = blockDim.x;
    float number = parameters.input[blockIdx.x * size + thread];
    for (long long round = 0; round < parameters.count; ++round) {
        numbers[thread] = number;
        __syncthreads();
        number = numbers[size - 1 - thread];
        if (between_rounds) {
            __syncthreads();
        }
    }
    parameters.output[blockIdx.x * size + thread] = number;
}

/// Every thread passes its number to its neighbour through shared memory, where copies then begin to write the same numbers. The template
/// argument leaves out the barrier between them; the one before the wait does not make up for it.
template <bool before_copies>
__global__ void refill(Parameters parameters) {
    float* const numbers = machine::dynamic_shared<float>();
    int const thread = threadIdx.x;
    int const size = blockDim.x;
    numbers[thread] = parameters.input[thread];
    __syncthreads();
    parameters.output[thread] = numbers[(thread + 1) % size];
    if (before_copies) {
        __syncthreads();
    }
    if (thread < size / 4) {
        machine::copy_async(numbers + 4 * thread, parameters.input + 4 * thread, true);
    }
    machine::commit_copies();
    __syncthreads();
    machine::wait_for_copies<0>();
}

/// Copies 16 bytes from input[count].
__global__ void copy_from(Parameters parameters) {
    machine::copy_async(machine::dynamic_shared<float>(), parameters.input + parameters.count, true);
    machine::commit_copies();
    machine::wait_for_copies<0>();
}

/// Every thread passes its number to its neighbour in the warp through shared memory.
template <bool synchronized>
__global__ void pass_in_warp(Parameters parameters) {
    __shared__ float numbers[32];
    numbers[threadIdx.x] = parameters.input[threadIdx.x];
    if (synchronized) {
        __syncwarp();
    }
    parameters.output[threadIdx.x] = numbers[(threadIdx.x + 1) % 32];
}

/// Each block waits for all, `count` times; output[block] = the sum of what the blocks wrote in the last round.
template <bool releases>
__global__ void meet(Parameters parameters) {
    for (long long round = 1; round <= parameters.count; ++round) {
        if (threadIdx.x == 0) {
            float* const slots = parameters.input + (round % 2) * gridDim.x;
            slots[blockIdx.x] = static_cast<float>(round * (blockIdx.x + 1));
            if (releases) {
                machine::store_release(&parameters.words[blockIdx.x], static_cast<unsigned>(round));
            } else {
                machine::store_relaxed(&parameters.words[blockIdx.x], static_cast<unsigned>(round));
            }
            float sum = 0.0f;
            for (unsigned block = 0; block < gridDim.x; ++block) {
                while (machine::load_acquire(&parameters.words[block]) < round) {
                    machine::pause(0);
                }
                sum += slots[block];
            }
            parameters.output[blockIdx.x] = sum;
        }
        __syncthreads();
    }
}

/// words[0] counts the threads of the grid.
__global__ void count_threads(Parameters parameters) {
    atomicAdd(parameters.words, 1u);
}

/// What a block finds in its dynamic and static shared memory, then overwrites. Grid of blocks that follow each other.
__global__ void look_at_shared(Parameters parameters) {
    __shared__ unsigned fixed[8];
    unsigned* const dynamic = machine::dynamic_shared<unsigned>();
    unsigned const at = blockIdx.x * blockDim.x + threadIdx.x;
    parameters.words[2 * at] = fixed[threadIdx.x];
    parameters.words[2 * at + 1] = dynamic[threadIdx.x];
    fixed[threadIdx.x] = 7;
    dynamic[threadIdx.x] = 7;
}

__global__ void widen(Parameters parameters) {
    machine::half const* const input = reinterpret_cast<machine::half const*>(parameters.input);
    for (long long i = threadIdx.x; i < parameters.count; i += blockDim.x) {
        parameters.output[i] = machine::to_float(input[i]);
    }
}

struct ClusterParameters : Parameters {
    static constexpr int cluster_blocks = 2;
};

/// Each of two blocks writes a word to the other, at a place `count` bytes into its shared memory, and sends on what comes: output[block].
__global__ void __cluster_dims__(2, 1, 1) hand_over(ClusterParameters parameters) {
    unsigned char* const shared = machine::dynamic_shared<unsigned char>();
    machine::Arrivals* const arrivals = reinterpret_cast<machine::Arrivals*>(shared);
    unsigned* const word = reinterpret_cast<unsigned*>(shared + parameters.count);
    if (threadIdx.x == 0) {
        machine::begin_arrivals(arrivals);
    }
    machine::synchronize_cluster();
    if (threadIdx.x == 0) {
        machine::expect_arrivals(arrivals, 4);
        machine::store_to_block(word, 10 + blockIdx.x, arrivals, 1 - blockIdx.x % 2);
        while (!machine::have_arrived(arrivals, 0)) {
        }
        parameters.words[blockIdx.x] = *word;
    }
}

__global__ void narrow(Parameters parameters) {
    machine::half* const output = reinterpret_cast<machine::half*>(parameters.output);
    for (long long i = threadIdx.x; i < parameters.count; i += blockDim.x) {
        output[i] = machine::from_float<machine::half>(parameters.input[i]);
    }
}

/// Writes output[count], wherever that is.
__global__ void stray_write(Parameters parameters) {
    if (threadIdx.x == 0) {
        parameters.output[parameters.count] = 1.0f;
    }
}

__global__ void stray_shared_write(Parameters parameters) {
    machine::dynamic_shared<float>()[parameters.count] = 1.0f;
}

__global__ void return_before_barrier(Parameters) {
    if (threadIdx.x == 5) {
        return;
    }
    __syncthreads();
}

__global__ void two_barriers(Parameters) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void shuffle_without_one(Parameters parameters) {
    if (threadIdx.x != 3) {
        parameters.output[threadIdx.x] = machine::shuffle_xor(1.0f, 1);
    }
}

__global__ void wait_forever(Parameters parameters) {
    while (machine::load_acquire(parameters.words) != 1) {
        machine::pause(0);
    }
}

__global__ void count_past_the_end(Parameters parameters) {
    if (parameters.count < 0) {
        __trap();
    }
    int shift = static_cast<int>(parameters.count);
    parameters.words[0] = static_cast<unsigned>(1 << shift);
}
