// The gradients of RNN, GRU and LSTM; the cells' equations are in common/cell_gradients.cuh.
//
// The gradient runs against the forward operator's direction. At each step it needs
//
//   d_H[t]   = upstream[t] + the gradient from the next step
//   d_sums   = pointwise in d_H[t], d_C[t] and what the step saved        -> `gate_gradients`, for all steps
//   d_H[t-1] = d_sums R + the cell's other terms
//
// and that loop has several strategies with the same results: these two, and `persistent_grid` of recurrent/persistent_grid_gradient.cu:
//
//   persistent_block   One launch for the whole sequence. A block owns a slice of the batch in one direction, with R in shared memory.
//   per_step           For each step one launch of `step` and a matrix product. A Gru that resets before the product has `reset` and a
//                      second product in between; a projection has `collect` and its own product first. Where T is half the left
//                      matrices are rounded to TF32.
//
// Everything else is one product over all steps, or a sum: recurrent/gradient_results.cu.
//
// Letters: T steps, B samples, D directions (1 or 2), G gates, K values saved for each unit and step, H hidden units, S entries of H[t]
// (H without a projection), Q rows of sums for each unit and step (G, but 4 for a Gru with linear_before_reset). The element type
// of the caller's tensors is the template argument T; all else is float.
//
// A step that a sample does not take (masked, or past its end) has no gradient of sums, exactly, regardless of the values there in the
// tensors and in the reserve, and passes d_H and d_C through. A length beyond T counts as T.
//
// Outputs overlap nothing else. Of each tensor only the elements that its sizes and strides name are touched.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/activations.cuh"
#include "common/cells.cuh"
#include "common/cell_gradients.cuh"
#include "common/layer.cuh"
#include "common/gradient_sequence.cuh"
#include "common/tf32.cuh"
#include "common/vectorized_copy.cuh"

/// steps.unmasked, for a mask; T and -1 for a sample that takes no step.
///
/// Grid and block: one-dimensional, of any size; a thread owns samples.
template <class = void>
__global__ void find_unmasked(Steps steps) {
    for (long long sample = first_element(); sample < steps.batch_size; sample += element_stride()) {
        int const length = steps.length(static_cast<int>(sample));
        int first = 0;
        while (first < length && steps.step_mask.at(0, 0, first, sample) == 0) {
            ++first;
        }
        int last = length - 1;
        while (last >= 0 && steps.step_mask.at(0, 0, last, sample) == 0) {
            --last;
        }
        steps.unmasked[sample] = first < length ? first : steps.seq_length;
        steps.unmasked[steps.batch_size + sample] = last;
    }
}

// ---------------------------------------------------------------------------------------------------------------- persistent_block

template <class T>
struct PersistentBlockParameters {
    Sequence<T> sequence;
    Vector4<unsigned> const* recurrence;       // [D], each in whole words: T [G][ceil(H / 4)][H][4], rows past H of a gate zero
    Strided<T> hidden_init_gradient;        // [1][D][B][H]
    Strided<T> cell_mem_init_gradient;      // [1][D][B][H]
};

// The loops over a slice are unrolled on demand: with large activations the compiler would otherwise place its arrays in local memory.

/// The product of the gradients of `count` gates from `first` on with R for one unit, for all samples of the slice. Each element of
/// the vectors has a separate sum, in ascending order.
template <int first, int count, class T, int slice>
__device__ void multiply(Vector4<T> const* recurrence,    // [gates][ceil(H / 4)][H], shared
                         Vector4<float> const* operand,   // [slice][gates][ceil(H / 4)], shared
                         int gates, int hidden_size, int unit, float (&product)[slice]) {
    int const quads = (hidden_size + 3) / 4;
    float sums[slice][4] = {};
    // Enough products to hide the loads; compilers would use up to eight times as many.
#pragma unroll 8 / slice
    for (int q = first * quads; q < (first + count) * quads; ++q) {
        Vector4<T> const weights = recurrence[q * hidden_size + unit];
        float weight[4];
        for (int e = 0; e < 4; ++e) {
            weight[e] = machine::to_float(weights.values[e]);
        }
#pragma unroll
        for (int s = 0; s < slice; ++s) {
            Vector4<float> const gradient = operand[s * gates * quads + q];
            for (int e = 0; e < 4; ++e) {
                sums[s][e] += gradient.values[e] * weight[e];
            }
        }
    }
#pragma unroll
    for (int s = 0; s < slice; ++s) {
        product[s] = (sums[s][0] + sums[s][1]) + (sums[s][2] + sums[s][3]);
    }
}

/// One direction of `persistent_block`: see there.
template <class T, int slice, class Cell, class Activations>
__device__ void persistent_block_direction(PersistentBlockParameters<T> const& parameters, int direction) {
    using Gradient = CellGradient<Cell>;
    constexpr int gates = Cell::gates;
    Sequence<T> const& sequence = parameters.sequence;
    int const hidden_size = sequence.hidden_size;
    int const padded = (hidden_size + 3) / 4 * 4;
    int const unit = threadIdx.x;
    int const first_sample = blockIdx.x * slice;
    int const seq_length = sequence.seq_length;
    bool const backward = sequence.backward[direction] != 0;
    bool const owns_unit = unit < hidden_size;

    // Shared memory. The gradients of a step and of the next one take turns in two buffers.
    float* const buffers = machine::dynamic_shared<float>();                           // [2][slice][gates][padded]
    Vector4<T>* const recurrence = reinterpret_cast<Vector4<T>*>(buffers + 2 * slice * gates * padded);  // [gates][padded / 4][H]

    int const words = vectors_of<T>(gates * padded * hidden_size);
    copy_vectors(parameters.recurrence + static_cast<long long>(direction) * words, reinterpret_cast<Vector4<unsigned>*>(recurrence), words);
    for (int index = threadIdx.x; index < 2 * slice * gates * padded; index += blockDim.x) {
        buffers[index] = 0.0f;
    }

    float d_hidden[slice];
    float d_memory[slice];
    Saved<Gradient::saved> of_step[slice];  // of the current step, loaded before the product of the previous one
    float upstream[slice];
    auto const load = [&](int time) {
#pragma unroll
        for (int s = 0; s < slice; ++s) {
            if (owns_unit && first_sample + s < sequence.batch_size) {
                of_step[s] = sequence.template saved_of<Gradient>(time, direction, first_sample + s, unit);
                upstream[s] = sequence.upstream(time, direction, first_sample + s, unit);
            }
        }
    };
#pragma unroll
    for (int s = 0; s < slice; ++s) {
        bool const exists = owns_unit && first_sample + s < sequence.batch_size;
        d_hidden[s] = exists ? value_or_zero(sequence.output_single_gradient, 0, direction, first_sample + s, unit) : 0.0f;
        d_memory[s] = exists ? value_or_zero(sequence.output_cell_single_gradient, 0, direction, first_sample + s, unit) : 0.0f;
    }
    Activations const activations(sequence.activations[direction]);
    UnitConstants const constants = sequence.constants(direction, owns_unit ? unit : 0);
    load(backward ? 0 : seq_length - 1);
    __syncthreads();

    int turn = 0;  // of the buffers
    for (int step = 0; step < seq_length; ++step) {
        int const time = backward ? step : seq_length - 1 - step;
        bool takes[slice];
        bool some_take = false;  // the same in all threads
#pragma unroll
        for (int s = 0; s < slice; ++s) {
            takes[s] = first_sample + s < sequence.batch_size && sequence.steps.takes(time, first_sample + s);
            some_take = some_take || takes[s];
        }
        float* const buffer = buffers + turn * slice * gates * padded;
        if (owns_unit) {
#pragma unroll
            for (int s = 0; s < slice; ++s) {
                if (first_sample + s < sequence.batch_size) {
                    float d_sums[Gradient::rows] = {};
                    d_hidden[s] += upstream[s];
                    if (takes[s]) {
                        Gradient::step(activations, constants, of_step[s], d_hidden[s], d_memory[s], d_sums);
                    }
                    float* const stored = sequence.template gradients_of<Gradient>(time, direction, first_sample + s, unit);
                    for (int q = 0; q < Gradient::rows; ++q) {
                        stored[q * static_cast<long long>(hidden_size)] = d_sums[q];
                    }
                    for (int g = 0; g < gates; ++g) {
                        buffer[(s * gates + g) * padded + unit] = d_sums[g];
                    }
                }
            }
        }
        Vector4<float> const* const operand = reinterpret_cast<Vector4<float> const*>(buffer);
        float product[slice] = {};
        if (some_take) {
            __syncthreads();
            if constexpr (Cell::resets_before_product) {
                if (owns_unit) {
                    multiply<gates - 1, 1, T, slice>(recurrence, operand, gates, hidden_size, unit, product);
#pragma unroll
                    for (int s = 0; s < slice; ++s) {
                        if (takes[s]) {
                            float const d_reset = Gradient::reset(activations, of_step[s], product[s], d_hidden[s]);
                            sequence.template gradients_of<Gradient>(time, direction, first_sample + s, unit)[hidden_size] = d_reset;
                            buffer[(s * gates + 1) * padded + unit] = d_reset;
                        }
                    }
                }
                __syncthreads();
            }
        }
        if (step + 1 < seq_length) {
            load(backward ? time + 1 : time - 1);
        }
        if (some_take) {
            if (owns_unit) {
                multiply<0, Cell::resets_before_product ? gates - 1 : gates, T, slice>(recurrence, operand, gates, hidden_size, unit, product);
#pragma unroll
                for (int s = 0; s < slice; ++s) {
                    d_hidden[s] += takes[s] ? product[s] : 0.0f;
                }
            }
            turn = 1 - turn;
        }
    }

#pragma unroll
    for (int s = 0; s < slice; ++s) {
        if (owns_unit && first_sample + s < sequence.batch_size) {
            store(parameters.hidden_init_gradient, 0, direction, first_sample + s, unit, d_hidden[s]);
            store(parameters.cell_mem_init_gradient, 0, direction, first_sample + s, unit, d_memory[s]);
        }
    }
}

/// All steps in one launch, without dropped states and projection.
///
/// Grid: x is the slice of the batch, `slice` samples; y is the direction. Block: one thread for each hidden unit, rounded up to
/// whole warps; a thread owns its unit in all samples of the slice. Dynamic shared memory, with P = H rounded up to a multiple of 4:
/// float [2][slice][G][P] and T [G][P][H] in whole words of 16 bytes.
template <class T, int slice, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void __launch_bounds__(most_persistent_block_threads, 1) persistent_block(PersistentBlockParameters<T> parameters) {
    if constexpr (is_same<ForwardActivations, BackwardActivations>) {
        persistent_block_direction<T, slice, Cell, ForwardActivations>(parameters, blockIdx.y);
    } else if (blockIdx.y == 0) {
        persistent_block_direction<T, slice, Cell, ForwardActivations>(parameters, 0);
    } else {
        persistent_block_direction<T, slice, Cell, BackwardActivations>(parameters, 1);
    }
}

// ---------------------------------------------------------------------------------------------------------------- step

template <class T>
struct StepParameters {
    Sequence<T> sequence;
    Strided<T const> state_dropout;        // [D][G][B][S]
    float* hidden_gradient;                // [D][B][S]: the gradient of the state before a step, without its products
    float* memory_gradient;                // [D][B][H]
    float const* products;                 // [D][num_products][B][S]: d_sums R of the step before this one, by gate if states are dropped
    float const* reset_product;            // [D][B][H]: d_h Rh; of a Gru that resets first
    float* state_gradients;                // [T][B][D][S]: d_H[t]; with a projection
    float const* projected_gradient;       // [D][B][H]: d_H[t] times the projection; null without one
    Strided<T> hidden_init_gradient;       // [1][D][B][S]
    Strided<T> cell_mem_init_gradient;     // [1][D][B][H]
    long long num_products;
    long long step;                        // T after the last one

    /// The time of the current step. One step before the first, or beyond the last, for step T.
    __device__ int time(int direction) const {
        int const number = static_cast<int>(step);
        return sequence.backward[direction] != 0 ? number : sequence.seq_length - 1 - number;
    }

    /// The gradient of the state after the current step, without the upstream gradient of its output.
    __device__ float carried_hidden(int direction, int sample, int entry) const {
        if (step == 0) {
            return value_or_zero(sequence.output_single_gradient, 0, direction, sample, entry);
        }
        float const beside = hidden_gradient[sequence.state_row(direction, sample) * sequence.state_size + entry];
        float sum = beside;
        for (int p = 0; p < num_products; ++p) {
            long long const row = (direction * num_products + p) * sequence.batch_size + sample;
            float const product = products[row * sequence.state_size + entry];
            sum += state_dropout.data == nullptr ? product : product * value_or_zero(state_dropout, direction, p, sample, entry);
        }
        int const time_before = time(direction) + (sequence.backward[direction] != 0 ? -1 : 1);
        return sequence.steps.takes(time_before, sample) ? sum : beside;
    }

    __device__ float carried_memory(int direction, int sample, int unit) const {
        if (step == 0) {
            return value_or_zero(sequence.output_cell_single_gradient, 0, direction, sample, unit);
        }
        return memory_gradient[sequence.state_row(direction, sample) * sequence.hidden_size + unit];
    }
};

/// With a projection: d_H[t] of all directions, zero for samples that do not take the step.
///
/// Grid: x is the sample, y the block of entries, z the direction. Block: of any size; a thread owns one of S entries.
template <class T>
__global__ void collect(StepParameters<T> parameters) {
    Sequence<T> const& sequence = parameters.sequence;
    StateEntry const at;
    if (at.entry >= sequence.state_size) {
        return;
    }
    int const time = parameters.time(at.direction);
    float const d_hidden = parameters.carried_hidden(at.direction, at.sample, at.entry) +
                           sequence.upstream(time, at.direction, at.sample, at.entry);
    bool const takes = sequence.steps.takes(time, at.sample);
    long long const row = sequence.step_row(time, at.sample, at.direction);
    parameters.state_gradients[row * sequence.state_size + at.entry] = takes ? to_tf32_factor<T>(d_hidden) : 0.0f;
    parameters.hidden_gradient[sequence.state_row(at.direction, at.sample) * sequence.state_size + at.entry] = takes ? 0.0f : d_hidden;
}

/// One element of `step`: see there. All loads and computations happen whether the sample takes the step or not.
template <class T, class Cell, class Activations>
__device__ void step_element(StepParameters<T> const& parameters, StateEntry const& at) {
    using Gradient = CellGradient<Cell>;
    Sequence<T> const& sequence = parameters.sequence;
    int const time = parameters.time(at.direction);
    long long const state = sequence.state_row(at.direction, at.sample) * sequence.hidden_size + at.entry;
    bool const projects = parameters.projected_gradient != nullptr;
    float d_hidden = projects ? parameters.projected_gradient[state]
                              : parameters.carried_hidden(at.direction, at.sample, at.entry) +
                                    sequence.upstream(time, at.direction, at.sample, at.entry);
    float d_memory = Cell::has_memory ? parameters.carried_memory(at.direction, at.sample, at.entry) : 0.0f;
    float const d_hidden_after = d_hidden;
    float const d_memory_after = d_memory;
    float d_sums[Gradient::rows] = {};
    Gradient::step(Activations(sequence.activations[at.direction]), sequence.constants(at.direction, at.entry),
                   sequence.template saved_of<Gradient>(time, at.direction, at.sample, at.entry), d_hidden, d_memory, d_sums);
    bool const takes = sequence.steps.takes(time, at.sample);
    float* const stored = sequence.template gradients_of<Gradient>(time, at.direction, at.sample, at.entry);
    for (int q = 0; q < Gradient::rows; ++q) {
        stored[q * static_cast<long long>(sequence.hidden_size)] = takes ? to_tf32_factor<T>(d_sums[q]) : 0.0f;
    }
    if (!projects) {
        parameters.hidden_gradient[state] = takes ? d_hidden : d_hidden_after;
    }
    if constexpr (Cell::has_memory) {
        parameters.memory_gradient[state] = takes ? d_memory : d_memory_after;
    }
}

/// One step of all directions: the gradients of its sums, and those of the states before it without the products.
///
/// Grid: x is the sample, y the block of hidden units, z the direction. Block: of any size; a thread owns a unit.
template <class T, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void step(StepParameters<T> parameters) {
    StateEntry const at;
    if (at.entry >= parameters.sequence.hidden_size) {
        return;
    }
    if (is_same<ForwardActivations, BackwardActivations> || at.direction == 0) {
        step_element<T, Cell, ForwardActivations>(parameters, at);
    } else {
        step_element<T, Cell, BackwardActivations>(parameters, at);
    }
}

/// One element of `reset`: see there.
template <class T, class Cell, class Activations>
__device__ void reset_element(StepParameters<T> const& parameters, StateEntry const& at) {
    using Gradient = CellGradient<Cell>;
    Sequence<T> const& sequence = parameters.sequence;
    int const time = parameters.time(at.direction);
    long long const state = sequence.state_row(at.direction, at.sample) * sequence.hidden_size + at.entry;
    float d_product = parameters.reset_product[state];
    if (parameters.state_dropout.data != nullptr) {
        d_product *= value_or_zero(parameters.state_dropout, at.direction, 2, at.sample, at.entry);
    }
    float d_hidden = parameters.hidden_gradient[state];
    float const d_sum = Gradient::reset(Activations(sequence.activations[at.direction]),
                                        sequence.template saved_of<Gradient>(time, at.direction, at.sample, at.entry), d_product, d_hidden);
    if (sequence.steps.takes(time, at.sample)) {
        sequence.template gradients_of<Gradient>(time, at.direction, at.sample, at.entry)[sequence.hidden_size] = to_tf32_factor<T>(d_sum);
        parameters.hidden_gradient[state] = d_hidden;
    }
}

/// Between the two products of a Gru that resets first: the gradient of the reset gate's sum, and r . (d_h Rh).
///
/// Grid and block as in `step`.
template <class T, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void reset(StepParameters<T> parameters) {
    StateEntry const at;
    if (at.entry >= parameters.sequence.hidden_size) {
        return;
    }
    if (is_same<ForwardActivations, BackwardActivations> || at.direction == 0) {
        reset_element<T, Cell, ForwardActivations>(parameters, at);
    } else {
        reset_element<T, Cell, BackwardActivations>(parameters, at);
    }
}

/// After the last step: the gradients of the states before the first.
///
/// Grid and block as in `step`, but a thread owns one of S entries and one of H units, if they exist.
template <class T>
__global__ void finish(StepParameters<T> parameters) {
    Sequence<T> const& sequence = parameters.sequence;
    StateEntry const at;
    if (parameters.hidden_init_gradient.data != nullptr && at.entry < sequence.state_size) {
        store(parameters.hidden_init_gradient, 0, at.direction, at.sample, at.entry,
              parameters.carried_hidden(at.direction, at.sample, at.entry));
    }
    if (parameters.cell_mem_init_gradient.data != nullptr && at.entry < sequence.hidden_size) {
        store(parameters.cell_mem_init_gradient, 0, at.direction, at.sample, at.entry,
              parameters.carried_memory(at.direction, at.sample, at.entry));
    }
}
