// The layer in the kernels of both passes.
//
// Letters: T steps, B samples, D directions (1 or 2), H hidden units.
#pragma once

/// The most threads of a block of `persistent_block`, so the most hidden units. It leaves a thread 168 registers, as long as the launch
/// bounds ask for one block a multiprocessor: without that the compiler spills some for an occupancy that is not needed.
inline constexpr int most_persistent_block_threads = 384;

/// Sizes, directions and attributes of a layer.
struct Layer {
    float activations[2][3][2];  // [direction][f, g, h][attribute]
    float clip_threshold;
    int seq_length;
    int batch_size;
    int hidden_size;
    int num_directions;
    int backward[2];             // whether a direction runs from the end

    /// The row of a step in an array [T][B][D].
    __device__ long long step_row(int time, int sample, int direction) const {
        return (static_cast<long long>(time) * batch_size + sample) * num_directions + direction;
    }

    /// The row of a state in an array [D][T + 1][B], of slots for the states before and after each step.
    __device__ long long slot_row(int slot, int direction, int sample) const {
        return (direction * (seq_length + 1LL) + slot) * batch_size + sample;
    }

    /// The row of a sample in an array [D][B].
    __device__ long long state_row(int direction, int sample) const {
        return static_cast<long long>(direction) * batch_size + sample;
    }
};

/// The entry of an array [D][B][size] that a thread owns by the grid: x is the sample, y the block of entries, z the direction.
struct StateEntry {
    int direction;
    int sample;
    int entry;  // may be past the size

    __device__ StateEntry()
        : direction(static_cast<int>(blockIdx.z)),
          sample(static_cast<int>(blockIdx.x)),
          entry(static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)) {}
};

/// The slot of the state after a step at `time`; that before it is the other one of `time` and `time + 1`.
__device__ inline int slot_after(bool backward, int time) {
    return backward ? time : time + 1;
}

/// The number of steps of a sample: a length beyond T counts as T.
__device__ inline int length_of(Strided<unsigned const> const& sequence_lengths,  // [1][1][1][B]; absent: all are T
                                int seq_length, int sample) {
    if (sequence_lengths.data == nullptr) {
        return seq_length;
    }
    unsigned const length = sequence_lengths.at(0, 0, 0, sample);
    return length < static_cast<unsigned>(seq_length) ? static_cast<int>(length) : seq_length;
}
