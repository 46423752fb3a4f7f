// RNN, GRU and LSTM over a sequence, forward in time, backward or both; the cells' equations are in common/cells.cuh.
//
// The products of the steps with the input, X W^T, are computed beforehand: of all steps, or for `step` of some at a time. The rest is
// sequential, and has several strategies, of which this file has two; the third, persistent_grid, with R resident in many blocks, has its
// own of its own.
//
//   persistent_block   One launch for the whole sequence. A block owns a slice of the batch in one direction and runs all steps with
//                      R in shared memory; blocks do not depend on each other.
//   per_step           Two launches for each step: H[t-1] R^T by a matrix product, then the kernel `step` for all that follows. A Gru
//                      that resets before the product needs four: `reset` stores r . H[t-1] in place of H[t-1] for the product of
//                      its last gate. So does an Lstm with a projection: a second product computes H[t] from the result of `step`, and
//                      `project` does the rest.
//
// Letters: T steps, B samples, D directions (1 or 2), G gates, H hidden units, S entries of H[t]: those of the projection, or H. The
// element type of the caller's tensors is the template argument T; arithmetic, sums, gates, H[t] and C[t] are float throughout, but
// in `step` the left matrix of the product is of type T, and so is X W^T in inference.
//
// A sample of length n takes n steps, in the backward direction from t = n - 1 down to 0. Past its end its outputs are zero; its
// final state is that after its last step, or the initial state if it has none. A length beyond T counts as T.
//
// The template argument Pass is Inference or Training. In training a sample may skip steps, by a mask: its states stay as they are,
// and the output is that of the step before, or zero if there is none. A reserve may be written for the gradient: the values that the
// cell saves of each step, and in slots the states around it.
//
// Outputs overlap nothing else, except `input_product` and `reserve.saved`, which may be one: a thread reads a step's gates of its
// unit before it writes there. Of each tensor only the elements that its sizes and strides name are touched.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/activations.cuh"
#include "common/cells.cuh"
#include "common/layer.cuh"
#include "common/sequence.cuh"
#include "common/vectorized_copy.cuh"

// ---------------------------------------------------------------------------------------------------------------- persistent_block

template <class T>
struct PersistentBlockParameters {
    Sequence<T> sequence;
    Vector4<unsigned> const* recurrence;  // [D], each in whole words: T [ceil(H / 4)][G H][4], columns past H zero
};

/// Adds rows [first, first + count) of the product of R with `operand` for one unit, to all samples of the slice.
/// Sums run over k in ascending order.
template <int first, int count, class T, int slice, int gates>
__device__ void multiply(Vector4<T> const* recurrence,    // [ceil(H / 4)][gates][H], shared
                         Vector4<float> const* operand,   // [slice][ceil(H / 4)], shared
                         int hidden_size, int unit, float (&product)[slice][gates]) {
    int const quads = (hidden_size + 3) / 4;
    // Enough products to hide the loads. Compilers would use up to four times as many, and then place some values in local memory.
    constexpr int unrolled = slice * count >= 8 ? 1 : slice * count > 4 ? 2 : slice * count > 2 ? 4 : 8;
#pragma unroll unrolled
    for (int k = 0; k < quads; ++k) {
        Vector4<float> state[slice];
        for (int s = 0; s < slice; ++s) {
            state[s] = operand[s * quads + k];
        }
        for (int g = first; g < first + count; ++g) {
            Vector4<T> const weights = recurrence[(k * gates + g) * hidden_size + unit];
            for (int e = 0; e < 4; ++e) {
                float const weight = machine::to_float(weights.values[e]);
                for (int s = 0; s < slice; ++s) {
                    product[s][g] += weight * state[s].values[e];
                }
            }
        }
    }
}

/// A value of a thread's array whose number is not known when it is compiled, so that one piece of code serves all samples of a slice:
/// where speed does not matter, before the steps and after them. The array stays in registers.
template <class Value, int count>
__device__ Value pick(Value const (&values)[count], int number) {
    Value picked = values[0];
#pragma unroll
    for (int i = 1; i < count; ++i) {
        picked = number == i ? values[i] : picked;
    }
    return picked;
}

/// One direction of `persistent_block`: see there.
template <class T, int slice, class Pass, class Cell, class Activations>
__device__ void persistent_block_direction(PersistentBlockParameters<T> const& parameters, int direction) {
    constexpr int gates = Cell::gates;
    constexpr bool training = is_same<Pass, Training>;
    Sequence<T> const& sequence = parameters.sequence;
    int const hidden_size = sequence.hidden_size;
    int const quads = (hidden_size + 3) / 4;
    int const padded = 4 * quads;
    int const unit = threadIdx.x;
    int const first_sample = blockIdx.x * slice;
    bool const backward = sequence.backward[direction] != 0;
    bool const owns_unit = unit < hidden_size;

    // Shared memory. H[t-1] and H[t] take turns in two buffers, so one barrier a step is enough.
    float* const hidden_buffers = machine::dynamic_shared<float>();              // [2][slice][padded]
    float* const reset_hidden = hidden_buffers + 2 * slice * padded;             // [slice][padded], if the cell resets first
    float* const after_states = reset_hidden + (Cell::resets_before_product ? slice * padded : 0);
    Vector4<T>* const recurrence = reinterpret_cast<Vector4<T>*>(after_states);        // [quads][gates][H]: a quad for each thread

    int const words = vectors_of<T>(gates * hidden_size * padded);
    copy_vectors(parameters.recurrence + static_cast<long long>(direction) * words, reinterpret_cast<Vector4<unsigned>*>(recurrence), words);
    for (int index = threadIdx.x; index < (Cell::resets_before_product ? 3 : 2) * slice * padded; index += blockDim.x) {
        hidden_buffers[index] = 0.0f;
    }
    __syncthreads();

    int lengths[slice];  // 0 for a sample past the batch
    int steps = 0;       // of the longest sample, the same in all threads
    float hidden[slice];
    float memory[slice];
    unsigned shown = training ? 0u : ~0u;  // bit s: whether h is an output; in training not before the first taken step
#pragma unroll
    for (int s = 0; s < slice; ++s) {
        int const sample = first_sample + s;
        bool const exists = sample < sequence.batch_size;
        lengths[s] = exists ? sequence.length(sample) : 0;
        steps = lengths[s] > steps ? lengths[s] : steps;
        hidden[s] = 0.0f;
        memory[s] = 0.0f;
        if (exists && owns_unit) {
            hidden[s] = value_or_zero(sequence.hidden_init, 0, direction, sample, unit);
            hidden_buffers[s * padded + unit] = hidden[s];
            if constexpr (Cell::has_memory) {
                memory[s] = value_or_zero(sequence.cell_mem_init, 0, direction, sample, unit);
            }
        }
    }
    int const own_samples = owns_unit ? min(slice, sequence.batch_size - first_sample) : 0;
    if constexpr (training) {
#pragma unroll 1
        for (int s = 0; s < own_samples; ++s) {
            float const first_hidden = pick(hidden, s);
            float const first_memory = pick(memory, s);
#pragma unroll 1
            for (int slot = backward ? pick(lengths, s) : 0; slot <= (backward ? sequence.seq_length : 0); ++slot) {
                sequence.template put_states<Cell>(slot, direction, first_sample + s, unit, first_hidden, first_memory);
            }
        }
    }
    Activations const activations(sequence.activations[direction]);
    Unit<Cell> const constants(sequence.bias, sequence.peephole, sequence.clip_threshold, direction, owns_unit ? unit : 0,
                               hidden_size);
    __syncthreads();

    // Prefetches: a step's input gates are waited for after its product.
    for (int step = 0; step < steps; ++step) {
        auto const time_of = [&](int s) { return backward ? lengths[s] - 1 - step : step; };
        float* const previous = hidden_buffers + (step % 2) * slice * padded;
        float* const next = hidden_buffers + ((step + 1) % 2) * slice * padded;
        InputElement<T, Pass> loaded[slice][gates] = {};
        float product[slice][gates] = {};
        if (owns_unit) {
#pragma unroll
            for (int s = 0; s < slice; ++s) {
                if (step < lengths[s]) {
                    auto const* const row = sequence.template input_gates<Pass, gates>(time_of(s), first_sample + s, direction, unit);
                    for (int g = 0; g < gates; ++g) {
                        loaded[s][g] = row[g * hidden_size];
                    }
                }
            }
            multiply<0, Cell::resets_before_product ? gates - 1 : gates>(recurrence, reinterpret_cast<Vector4<float> const*>(previous),
                                                                         hidden_size, unit, product);
        }
        float input[slice][gates];
#pragma unroll
        for (int s = 0; s < slice; ++s) {
#pragma unroll
            for (int g = 0; g < gates; ++g) {
                input[s][g] = machine::to_float(loaded[s][g]);  // not earlier: it waits for the load
            }
        }
        if constexpr (Cell::resets_before_product) {
            if (owns_unit) {
#pragma unroll
                for (int s = 0; s < slice; ++s) {
                    if (!training || step < lengths[s]) {
                        Pass const pass = sequence.template pass<Pass, Cell>(time_of(s), first_sample + s, direction, unit);
                        reset_hidden[s * padded + unit] = Cell::reset(activations, constants, input[s], product[s], pass) * hidden[s];
                    }
                }
            }
            __syncthreads();
            if (owns_unit) {
                multiply<gates - 1, 1>(recurrence, reinterpret_cast<Vector4<float> const*>(reset_hidden), hidden_size, unit, product);
            }
        }
        if (owns_unit) {
#pragma unroll
            for (int s = 0; s < slice; ++s) {
                if (step < lengths[s]) {
                    int const sample = first_sample + s;
                    // The mask is not read earlier: that saves a register for each sample during the products.
                    if (!sequence.template skips<Pass>(time_of(s), sample)) {
                        Pass const pass = sequence.template pass<Pass, Cell>(time_of(s), sample, direction, unit);
                        hidden[s] = Cell::next(activations, constants, input[s], product[s], hidden[s], memory[s], pass);
                        shown |= 1u << s;
                    }
                    int const time = time_of(s);
                    store(sequence.output_sequence, time, direction, sample, unit, (shown >> s & 1) != 0 ? hidden[s] : 0.0f);
                    if constexpr (training) {
                        sequence.template put_states<Cell>(slot_after(backward, time), direction, sample, unit, hidden[s], memory[s]);
                    }
                }
                next[s * padded + unit] = hidden[s];
            }
        }
        __syncthreads();
    }

#pragma unroll 1
    for (int s = 0; s < own_samples; ++s) {
        int const sample = first_sample + s;
        float const last_hidden = pick(hidden, s);
        float const last_memory = pick(memory, s);
        store(sequence.output_single, 0, direction, sample, unit, last_hidden);
        if constexpr (Cell::has_memory) {
            store(sequence.output_cell_single, 0, direction, sample, unit, last_memory);
        }
#pragma unroll 1
        for (int time = pick(lengths, s); time < sequence.seq_length; ++time) {
            store(sequence.output_sequence, time, direction, sample, unit, 0.0f);
            if (training && !backward) {
                sequence.template put_states<Cell>(time + 1, direction, sample, unit, last_hidden, last_memory);
            }
        }
    }
}

/// The whole sequence in one launch.
///
/// Grid: x is the slice of the batch, `slice` samples; y is the direction. Block: one thread for each hidden unit, rounded up to
/// whole warps; a thread owns its unit in all samples of the slice, with all gates, H[t] and C[t] in registers. Dynamic shared
/// memory, with P = H rounded up to a multiple of 4: float [2][slice][P] (3 in place of 2 if the cell resets before the product)
/// and T [G H][P] in whole words of 16 bytes.
template <class T, int slice, class Pass, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void __launch_bounds__(most_persistent_block_threads, 1) persistent_block(PersistentBlockParameters<T> parameters) {
    if constexpr (is_same<ForwardActivations, BackwardActivations>) {
        persistent_block_direction<T, slice, Pass, Cell, ForwardActivations>(parameters, blockIdx.y);
    } else if (blockIdx.y == 0) {
        persistent_block_direction<T, slice, Pass, Cell, ForwardActivations>(parameters, 0);
    } else {
        persistent_block_direction<T, slice, Pass, Cell, BackwardActivations>(parameters, 1);
    }
}

// ---------------------------------------------------------------------------------------------------------------- step

template <class T>
struct StepParameters {
    Sequence<T> sequence;
    Strided<T const> state_dropout;  // [D][G][B][S]: a multiplier of H[t-1] for each gate; absent: 1; Training only
    float const* product;            // [D][B][G H]: H[t-1] R^T; null in a first step without initial state: all zero
    float const* projected;          // [D][B][S]: H[t] of the samples that take the step; null without a projection
    float* hidden;                   // [D][B][S]: H[t-1], then H[t]; not read in the first step
    float* memory;                   // [D][B][H]: C[t-1], then C[t]; not read in the first step
    float* shown;                    // [D][B][S]: the previous output; null without a step mask
    T* operand;                      // [D][B][S]: H[t] for the next product; for float it is `hidden`.
                                     // With state_dropout [D][operands][B][S]: a multiple of H[t] for each gate
    T* late_operand;                 // [D][B][H]: r . H[t-1], or o . h(C[t]) for the projection
    long long step;
    int state_size;
    int operands;                    // gates whose product is of H[t-1]
};

/// The address of one entry of a state, and its sample's part in this step.
///
/// A thread loads the data of a step whether its sample takes the step or not, so that loads depend on others only for their address.
template <class Pass>
struct StepEntry : StateEntry {
    long long state;  // index into [D][B][size]
    int length;
    int time;         // of the step, or past the end the step itself: over all steps every t that the output has to be zero at
    bool backward;
    bool runs;        // is before the end
    bool takes;       // and not masked

    template <class T>
    __device__ StepEntry(StepParameters<T> const& parameters, int size) {
        Sequence<T> const& sequence = parameters.sequence;
        int const step = static_cast<int>(parameters.step);
        state = sequence.state_row(direction, sample) * size + entry;
        length = sequence.length(sample);
        backward = sequence.backward[direction] != 0;
        runs = step < length;
        time = backward && runs ? length - 1 - step : step;
        bool const skips = sequence.template skips<Pass>(time, sample);
        takes = runs & !skips;
    }

    /// Whether the state after this step is the final one.
    template <class T>
    __device__ bool is_last(StepParameters<T> const& parameters) const {
        return parameters.step + 1 == length || (length == 0 && parameters.step == 0);
    }

    /// Fills the slots of a state that belong to this step: the one after it, and in the first step that before it. Past the
    /// end the slots of a forward direction hold its last state, those of a backward one its first.
    template <class T>
    __device__ void save(StepParameters<T> const& parameters, float* states, int size, Strided<T const> const& initial,
                         float value) const {
        if (states == nullptr) {
            return;
        }
        Sequence<T> const& sequence = parameters.sequence;
        float const first = parameters.step == 0 || (backward && !runs) ? value_or_zero(initial, 0, direction, sample, entry) : 0.0f;
        if (parameters.step == 0) {
            states[sequence.slot_row(backward ? length : 0, direction, sample) * size + entry] = first;
        }
        int const slot = runs ? slot_after(backward, time) : time + 1;
        states[sequence.slot_row(slot, direction, sample) * size + entry] = backward && !runs ? first : value;
    }
};

/// H[t-1] of an entry.
template <class T, class Pass>
__device__ float hidden_before(StepParameters<T> const& parameters, StepEntry<Pass> const& at) {
    return parameters.step == 0 ? value_or_zero(parameters.sequence.hidden_init, 0, at.direction, at.sample, at.entry)
                                : parameters.hidden[at.state];
}

/// The output before the step; 0 before any, and without a step mask.
template <class T, class Pass>
__device__ float shown_before(StepParameters<T> const& parameters, StepEntry<Pass> const& at) {
    if constexpr (is_same<Pass, Training>) {
        return parameters.shown != nullptr && parameters.step != 0 ? parameters.shown[at.state] : 0.0f;
    } else {
        return 0.0f;
    }
}

/// Stores H[t] everywhere; a sample that skips the step passes H[t-1].
template <class T, class Pass>
__device__ void put_hidden(StepParameters<T> const& parameters, StepEntry<Pass> const& at, float hidden, float shown) {
    constexpr bool training = is_same<Pass, Training>;
    Sequence<T> const& sequence = parameters.sequence;
    float output = at.runs ? hidden : 0.0f;
    if constexpr (training) {
        if (parameters.shown != nullptr && at.runs) {
            output = at.takes ? hidden : shown;
            parameters.shown[at.state] = output;
        }
        at.save(parameters, sequence.reserve.hidden, parameters.state_size, sequence.hidden_init, hidden);
    }
    store(sequence.output_sequence, at.time, at.direction, at.sample, at.entry, output);
    if (at.runs || parameters.step == 0) {
        parameters.hidden[at.state] = hidden;
        if (training && parameters.state_dropout.data != nullptr) {
            for (int g = 0; g < parameters.operands; ++g) {
                long long const row = (static_cast<long long>(at.direction) * parameters.operands + g) * sequence.batch_size + at.sample;
                float const factor = machine::to_float(parameters.state_dropout.at(at.direction, g, at.sample, at.entry));
                parameters.operand[row * parameters.state_size + at.entry] = machine::from_float<T>(hidden * factor);
            }
        } else if constexpr (!is_same<T, float>) {
            parameters.operand[at.state] = machine::from_float<T>(hidden);
        }
    }
    if (at.is_last(parameters)) {
        store(sequence.output_single, 0, at.direction, at.sample, at.entry, hidden);
    }
}

/// The data of one thread of `reset` and `step`: one unit of one sample in one direction.
template <class T, class Pass, class Cell>
struct StepElement : StepEntry<Pass> {
    float input[Cell::gates];
    float product[Cell::gates];
    Pass pass;  // saves nothing for a step that is not taken

    __device__ explicit StepElement(StepParameters<T> const& parameters)
        : StepEntry<Pass>(parameters, parameters.sequence.hidden_size),
          product{},
          pass(parameters.sequence.template pass<Pass, Cell>(this->time, this->sample, this->direction, this->entry)) {
        Sequence<T> const& sequence = parameters.sequence;
        int const hidden_size = sequence.hidden_size;
        auto const* const row = sequence.template input_gates<Pass, Cell::gates>(this->time, this->sample, this->direction, this->entry);
        for (int g = 0; g < Cell::gates; ++g) {
            input[g] = machine::to_float(row[g * hidden_size]);
        }
        if (parameters.product != nullptr) {
            float const* const products =
                parameters.product + sequence.state_row(this->direction, this->sample) * Cell::gates * hidden_size + this->entry;
            for (int g = 0; g < Cell::gates; ++g) {
                product[g] = products[g * hidden_size];
            }
        }
        if constexpr (is_same<Pass, Training>) {
            pass.saved = this->takes ? pass.saved : nullptr;
        }
    }
};

/// One element of `reset`: see there.
template <class T, class Pass, class Cell, class Activations>
__device__ void reset_element(StepParameters<T> const& parameters, StepElement<T, Pass, Cell> const& at) {
    Sequence<T> const& sequence = parameters.sequence;
    Activations const activations(sequence.activations[at.direction]);
    Unit<Cell> const constants(sequence.bias, sequence.peephole, sequence.clip_threshold, at.direction, at.entry,
                               sequence.hidden_size);
    float operand = Cell::reset(activations, constants, at.input, at.product, at.pass) * hidden_before(parameters, at);
    if constexpr (is_same<Pass, Training>) {
        if (parameters.state_dropout.data != nullptr) {
            operand *= machine::to_float(parameters.state_dropout.at(at.direction, Cell::gates - 1, at.sample, at.entry));
        }
    }
    parameters.late_operand[at.state] = machine::from_float<T>(at.takes ? operand : 0.0f);
}

/// One element of `step`: see there.
template <class T, class Pass, class Cell, class Activations>
__device__ void step_element(StepParameters<T> const& parameters, StepElement<T, Pass, Cell> const& at) {
    constexpr bool training = is_same<Pass, Training>;
    Sequence<T> const& sequence = parameters.sequence;
    bool const projects = training && Cell::has_memory && parameters.projected != nullptr;
    float hidden = projects ? 0.0f : hidden_before(parameters, at);
    float const shown = projects ? 0.0f : shown_before(parameters, at);
    float memory = 0.0f;
    if constexpr (Cell::has_memory) {
        memory = parameters.step == 0 ? value_or_zero(sequence.cell_mem_init, 0, at.direction, at.sample, at.entry)
                                      : parameters.memory[at.state];
    }
    Activations const activations(sequence.activations[at.direction]);
    Unit<Cell> const constants(sequence.bias, sequence.peephole, sequence.clip_threshold, at.direction, at.entry,
                               sequence.hidden_size);
    float next_memory = memory;
    float const next_hidden = Cell::next(activations, constants, at.input, at.product, hidden, next_memory, at.pass);
    hidden = at.takes ? next_hidden : hidden;
    memory = at.takes ? next_memory : memory;
    if constexpr (Cell::has_memory) {
        if (at.runs || parameters.step == 0) {
            parameters.memory[at.state] = memory;
        }
        if (at.is_last(parameters)) {
            store(sequence.output_cell_single, 0, at.direction, at.sample, at.entry, memory);
        }
        if constexpr (training) {
            at.save(parameters, sequence.reserve.memory, sequence.hidden_size, sequence.cell_mem_init, memory);
        }
    }
    if (projects) {
        parameters.late_operand[at.state] = machine::from_float<T>(hidden);
    } else {
        put_hidden(parameters, at, hidden, shown);
    }
}

/// late_operand = r . H[t-1], for all directions; 0 for samples that do not take the step.
///
/// Grid: x is the sample, y the block of hidden units, z the direction. Block: of any size; a thread owns a unit.
template <class T, class Pass, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void reset(StepParameters<T> parameters) {
    if (StateEntry().entry >= parameters.sequence.hidden_size) {
        return;
    }
    StepElement<T, Pass, Cell> const element(parameters);
    if (is_same<ForwardActivations, BackwardActivations> || element.direction == 0) {
        reset_element<T, Pass, Cell, ForwardActivations>(parameters, element);
    } else {
        reset_element<T, Pass, Cell, BackwardActivations>(parameters, element);
    }
}

/// One step of all directions, given its product: the cell, the outputs, and the state for the next step. With a projection `project` does
/// all work on H[t].
///
/// Grid and block as in `reset`. A sample past its end keeps its state.
template <class T, class Pass, class Cell, class ForwardActivations, class BackwardActivations>
__global__ void step(StepParameters<T> parameters) {
    if (StateEntry().entry >= parameters.sequence.hidden_size) {
        return;
    }
    StepElement<T, Pass, Cell> const element(parameters);
    if (is_same<ForwardActivations, BackwardActivations> || element.direction == 0) {
        step_element<T, Pass, Cell, ForwardActivations>(parameters, element);
    } else {
        step_element<T, Pass, Cell, BackwardActivations>(parameters, element);
    }
}

/// The rest of a step with a projection: H[t] into the outputs, and for the next step.
///
/// Grid and block as in `reset`, but a thread owns one of S entries.
template <class T>
__global__ void project(StepParameters<T> parameters) {
    if (StateEntry().entry >= parameters.state_size) {
        return;
    }
    StepEntry<Training> const at(parameters, parameters.state_size);
    float const projected = parameters.projected[at.state];
    float const before = hidden_before(parameters, at);
    float const shown = shown_before(parameters, at);
    put_hidden(parameters, at, at.takes ? projected : before, shown);
}
