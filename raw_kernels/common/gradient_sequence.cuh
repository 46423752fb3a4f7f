// The sequence in the gradients' kernels: the steps of each sample, and the layout of the reserve and of the gradients of sums.
//
// Letters: T steps, B samples, D directions, K values saved for each unit and step, H hidden units, S entries of H[t], Q rows of sums.
#pragma once

/// Which steps each sample takes.
struct Steps {
    Strided<unsigned const> sequence_lengths;   // [1][1][1][B]; absent: all are T
    Strided<unsigned char const> step_mask;     // [1][1][T][B]; absent: nothing is masked
    int* unmasked;                              // [2][B]: the first and the last step that each sample takes; null without a mask
    int seq_length;
    int batch_size;

    __device__ int length(int sample) const {
        return length_of(sequence_lengths, seq_length, sample);
    }

    // No load depends on another one: every time of the sequence has an address, whether the step is taken or not.

    __device__ bool is_masked(int time, int sample) const {
        return step_mask.data != nullptr && step_mask.at(0, 0, time, sample) == 0;
    }

    __device__ bool takes(int time, int sample) const {
        bool const masked = is_masked(time, sample);
        return (time < length(sample)) & !masked;
    }

    /// Whether the recurrence has reached its first unmasked step.
    __device__ bool has_begun(int time, int sample, bool backward) const {
        if (unmasked == nullptr) {
            return true;
        }
        int const first = unmasked[backward ? batch_size + sample : sample];
        return backward ? time <= first : time >= first;
    }

    /// Whether the output of a step is a state of the recurrence: not past the end, nor before its first unmasked step.
    __device__ bool shows(int time, int sample, bool backward) const {
        bool const begun = has_begun(time, sample, backward);
        return begun & (time < length(sample));
    }
};

/// The operator's tensors that the kernels read, and the gradients of sums that a recurrence writes. Absent tensors have no address.
template <class T>
struct Sequence : Layer {
    Steps steps;
    float const* saved;                               // [T][B][D][K][H]
    float const* hidden;                             // [D][T + 1][B][S]: the states before and after each step
    float const* memory;                             // [D][T + 1][B][H]
    Strided<T const> peephole;                       // [1][1][D][3 H]: i, o, f
    Strided<T const> output_sequence_gradient;       // [T][D][B][S]
    Strided<T const> output_single_gradient;         // [1][D][B][S]
    Strided<T const> output_cell_single_gradient;    // [1][D][B][H]
    float* gate_gradients;                           // [T][B][D][Q][H]
    int state_size;

    /// The upstream gradient of a step's output.
    __device__ float upstream(int time, int direction, int sample, int entry) const {
        if (output_sequence_gradient.data == nullptr) {
            return 0.0f;
        }
        float const value = machine::to_float(output_sequence_gradient.at(time, direction, sample, entry));
        return steps.shows(time, sample, backward[direction] != 0) ? value : 0.0f;
    }

    __device__ UnitConstants constants(int direction, int unit) const {
        UnitConstants found;
        for (int g = 0; g < 3; ++g) {
            found.peephole[g] = value_or_zero(peephole, 0, 0, direction, static_cast<long long>(g) * hidden_size + unit);
        }
        found.clip_threshold = clip_threshold;
        return found;
    }

    /// The state of one unit in a slot of [D][T + 1][B][H].
    __device__ float state(float const* slots, int direction, int slot, int sample, int unit) const {
        return slots[slot_row(slot, direction, sample) * hidden_size + unit];
    }

    template <class Gradient>
    __device__ Saved<Gradient::saved> saved_of(int time, int direction, int sample, int unit) const {
        Saved<Gradient::saved> found = {};
        long long const row = step_row(time, sample, direction);
        for (int k = 0; k < Gradient::saved; ++k) {
            found.saved_gates[k] = saved[(row * Gradient::saved + k) * hidden_size + unit];
        }
        bool const from_end = backward[direction] != 0;
        if constexpr (Gradient::before != 0) {
            found.before = state(Gradient::before == 1 ? hidden : memory, direction, slot_after(!from_end, time), sample, unit);
        }
        if constexpr (Gradient::after != 0) {
            found.after = state(memory, direction, slot_after(from_end, time), sample, unit);
        }
        return found;
    }

    /// The address of the gradients of one unit's sums; row q is at [q * hidden_size].
    template <class Gradient>
    __device__ float* gradients_of(int time, int direction, int sample, int unit) const {
        return gate_gradients + step_row(time, sample, direction) * Gradient::rows * hidden_size + unit;
    }
};
