// The operator's tensors that the forward kernels of a recurrent layer read and write, for all strategies.
//
// Letters: T steps, B samples, D directions, G gates, H hidden units, S entries of H[t].
#pragma once

/// The values saved for a gradient. Null addresses if absent.
struct Reserve {
    float* saved;    // [T][B][D][Cell::saved][H]
    float* hidden;  // [D][T + 1][B][S]: slots of H
    float* memory;  // [D][T + 1][B][H]: slots of C; null except for Lstm
};

/// The values that a cell saves of a step, until they are written. Empty in inference.
template <class Pass, class Cell>
struct Held {
    __device__ Inference pass() {
        return {};
    }
};

template <class Cell>
struct Held<Training, Cell> {
    float values[Cell::saved];

    struct Pass {
        Held& held;

        __device__ void save(int place, float value) const {
            held.values[place] = value;
        }
    };

    __device__ Pass pass() {
        return {*this};
    }
};

/// The element type of the input product: in training it may lie where a cell saves its gates.
template <class T, class Pass>
struct InputElementOf {
    using Type = T;
};

template <class T>
struct InputElementOf<T, Training> {
    using Type = float;
};

template <class T, class Pass>
using InputElement = typename InputElementOf<T, Pass>::Type;

/// The operator's tensors for all strategies. Absent tensors have no address.
template <class T>
struct Sequence : Layer {
    void const* input_product;                   // [T][B][D][G H] of InputElement<T, Pass>, or as many times as a chunk has
    int first_times[2];                          // the time that comes first there, by direction
    float const* bias;                           // [D][biases][H]
    float const* peephole;                       // [D][3][H]: i, o, f
    Strided<T const> hidden_init;                // [1][D][B][H]
    Strided<T const> cell_mem_init;              // [1][D][B][H]
    Strided<unsigned const> sequence_lengths;    // [1][1][1][B]; absent: all are T
    Strided<T> output_sequence;                  // [T][D][B][H]
    Strided<T> output_single;                    // [1][D][B][H]
    Strided<T> output_cell_single;               // [1][D][B][H]
    Strided<unsigned char const> step_mask;      // [1][1][T][B]: 0 for a step to skip; absent: none is; Training only
    Reserve reserve;                             // Training only

    /// The number of steps of a sample.
    __device__ int length(int sample) const {
        return length_of(sequence_lengths, seq_length, sample);
    }

    /// Where the values of one unit begin in an array [T][B][D][values][H]; value v is at [v * hidden_size].
    __device__ long long step_offset(int values, int time, int sample, int direction, int unit) const {
        return step_row(time, sample, direction) * values * hidden_size + unit;
    }

    /// Where the gates of one unit lie in `input_product`; gate g is at [g * hidden_size].
    template <class Pass, int gates>
    __device__ InputElement<T, Pass> const* input_gates(int time, int sample, int direction, int unit) const {
        return static_cast<InputElement<T, Pass> const*>(input_product) +
               step_offset(gates, time - first_times[direction], sample, direction, unit);
    }

    /// Where the cell saves values.
    template <class Pass, class Cell>
    __device__ Pass pass(int time, int sample, int direction, int unit) const {
        if constexpr (is_same<Pass, Training>) {
            bool const wanted = reserve.saved != nullptr;
            return {wanted ? reserve.saved + step_offset(Cell::saved, time, sample, direction, unit) : nullptr, hidden_size};
        } else {
            return {};
        }
    }

    /// Whether the mask makes a sample skip a step.
    template <class Pass>
    __device__ bool skips(int time, int sample) const {
        if constexpr (is_same<Pass, Training>) {
            return step_mask.data != nullptr && step_mask.at(0, 0, time, sample) == 0;
        } else {
            return false;
        }
    }

    /// Where a slot of one of the reserve's states begins, from a unit of a sample on; null where that is absent, and in inference.
    template <class Pass>
    __device__ float* state_slot(float* states, int slot, int direction, int sample, int unit) const {
        bool const wanted = is_same<Pass, Training> && states != nullptr;
        return wanted ? states + (slot_row(slot, direction, sample) * hidden_size + unit) : nullptr;
    }

    /// Fills a slot of both states, H of H[t] being that of C[t]; nothing without a reserve.
    template <class Cell>
    __device__ void put_states(int slot, int direction, int sample, int unit, float hidden, float memory) const {
        if (reserve.hidden != nullptr) {
            long long const place = slot_row(slot, direction, sample) * hidden_size + unit;
            reserve.hidden[place] = hidden;
            if constexpr (Cell::has_memory) {
                reserve.memory[place] = memory;
            }
        }
    }
};
