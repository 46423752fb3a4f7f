// The gradients of RNN, GRU and LSTM against time in one launch, with R on chip: the strategy `persistent_grid` of
// recurrent/gradient.cu, with the results of `persistent_block` there. The cells' equations are in common/cell_gradients.cuh.
//
// A block owns some hidden units with all their gates, in one direction, for the samples of its batch group, in passes. The
// blocks that share samples and direction are a group. d_H[t-1] of a unit is a product of R's column with the gradients of all sums, so the
// blocks of a group exchange these gradients at each step (common/block_exchange.cuh), and each has its own columns of R on chip
// (common/products.cuh). A block that owns all units is alone, and holds the gradients in shared memory. At each step, for each pass:
//
//   1  d_H += d_sums R, of the previous step of the loop
//   2  d_sums, pointwise, stored for the group
//   3  d_sums to `gate_gradients`, which no block waits for
//
// A Gru that resets before the product exchanges d_h first, then computes d_h Rh, and exchanges the gradients of z and r.
//
// The depth of a product is (block, gate, unit of the block). Halves are scaled: a block multiplies the values that it stores, for each
// sample, by a power of two that scales the largest to between 2^14 and 2^15, and the product undoes that in float. So gradients of any
// size keep the accuracy of a half.
//
// Letters: T steps, B samples, D directions (1 or 2), G gates, H hidden units, P blocks of a group, N batch groups.
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
#include "common/block_exchange.cuh"
#include "common/step_pointers.cuh"
#include "common/staging.cuh"
#include "common/products.cuh"
#include "common/gradient_products.cuh"

// ------------------------------------------------------------------------------------------------------------- arrange

/// The columns of R that belong to one block's units, for `count` gates from `first_gate` on, as a matrix [unit][depth].
template <class T, int first_gate, int count, int units>
struct Columns {
    Strided<T const> const& recurrence;  // [1][D][G H][H]
    int direction;
    int hidden_size;
    int first_unit;                      // of the block

    /// Zero in the padding of the depth.
    __device__ float operator()(int row, int k) const {
        int const unit = k / (count * units) * units + k % units;
        long long const gate = first_gate + k / units % count;
        return unit < hidden_size ? machine::to_float(recurrence.at(0, direction, gate * hidden_size + unit, first_unit + row)) : 0.0f;
    }
};

template <class T>
struct ArrangeParameters {
    Strided<T const> recurrence;  // [1][D][G H][H]
    Vector4<unsigned>* arranged;     // [D][P][Product::arranged(depth)]
    int hidden_size;
    int num_directions;
    int blocks;                   // P
};

/// R in the order in which the products of `persistent_grid` load it: `count` gates from `first_gate` on.
///
/// Grid and block: one-dimensional, of any size; a thread owns independent vectors of 16 bytes.
template <class T, class Product, int first_gate, int count>
__global__ void arrange(ArrangeParameters<T> parameters) {
    constexpr int units = Product::rows;
    int const depth = parameters.blocks * count * units;
    int const of_block = Product::arranged(depth);
    int const steps = Product::steps_of(depth);
    long long const quads = static_cast<long long>(parameters.num_directions) * parameters.blocks * of_block;
    for (long long index = first_element(); index < quads; index += element_stride()) {
        int const place = static_cast<int>(index % of_block);
        int const block = static_cast<int>(index / of_block % parameters.blocks);
        int const direction = static_cast<int>(index / of_block / parameters.blocks);
        int const first_unit = block * units;
        int const rows = parameters.hidden_size - first_unit;
        Columns<T, first_gate, count, units> const columns{parameters.recurrence, direction, parameters.hidden_size, first_unit};
        int const tile = place / 32 % Product::tiles;
        int const step = place / 32 / Product::tiles % steps;
        int const warp = place / 32 / Product::tiles / steps;
        parameters.arranged[index] = Product::arrange(columns, rows, depth, warp, step, tile, place % 32);
    }
}

// ---------------------------------------------------------------------------------------------------------------- persistent_grid

template <class T>
struct PersistentGridParameters {
    Sequence<T> sequence;
    ExchangedOperand<T> sums;                     // all gates; of a Gru that resets first z and r
    ExchangedOperand<T> reset;                    // d_h of such a Gru
    Strided<T> hidden_init_gradient;    // [1][D][B][H]
    Strided<T> cell_mem_init_gradient;  // [1][D][B][H]
    unsigned* flags;                    // [D][N][P], zero at first; null without flags
    int samples;                        // of a block; the last group of the batch may have fewer
    int passes;                         // that these take
    Timeout timeout;                    // unused by a block alone
};

/// One direction of `persistent_grid`: see there.
template <class T, class Product, class ResetProduct, Protocol protocol, bool one_pass, bool whole_parts, class Cell, class Activations>
__device__ void persistent_grid_direction(PersistentGridParameters<T> const& parameters, int direction) {
    using Gradient = CellGradient<Cell>;
    using Own = Pairs<Product::rows, Product::samples>;
    constexpr int pairs = Own::count;
    constexpr bool resets = Cell::resets_before_product;
    Sequence<T> const& sequence = parameters.sequence;
    int const seq_length = sequence.seq_length;
    int const hidden_size = sequence.hidden_size;
    int const passes = one_pass ? 1 : parameters.passes;
    int const first_unit = blockIdx.x * Own::units;
    int const first_sample = blockIdx.y * parameters.samples;
    int const end_sample = min(first_sample + parameters.samples, sequence.batch_size);
    bool const backward = sequence.backward[direction] != 0;

    SharedPieces pieces;
    float* const hidden_gradients = pieces.take<float>(passes * Own::in_pass);  // [passes][samples][units]: d_H
    float* const memory_gradients = pieces.take<float>(Cell::has_memory ? passes * Own::in_pass : 0);
    UnitConstants* const constants = pieces.take<UnitConstants>(Cell::has_memory ? Own::units : 0);
    using SumsProduct = GradientProduct<T, Product, protocol, 0, resets ? Cell::gates - 1 : Cell::gates, whole_parts>;
    using ResetGradientProduct = typename GradientProductIf<resets, GradientProduct<T, ResetProduct, protocol, Cell::gates - 1, 1, whole_parts>>::Type;
    auto* const staging = pieces.take<Vector4<unsigned>>(max(SumsProduct::staged(), ResetGradientProduct::staged()));
    // With flags two buffers take turns, unless another exchange separates reading one from writing it again; alone a barrier does.
    int const taking_turns = resets ? 1 : 2;
    SumsProduct sums(pieces, parameters.sums, passes, taking_turns, seq_length, staging);
    ResetGradientProduct reset(pieces, parameters.reset, passes, taking_turns, seq_length, staging);
    unsigned* const flags = protocol == Protocol::flags ? parameters.flags + (direction * gridDim.y + blockIdx.y) * gridDim.x : nullptr;
    BlockExchange<protocol> exchange(flags, blockIdx.x, parameters.timeout);

    struct Place {
        bool exists;
        int sample;
        int unit;
        int state;  // in shared memory
    };
    auto const place_of = [&](Own const& own, int pass, int pair) {
        int const sample = first_sample + pass * Product::samples + own.sample(pair);
        int const unit = first_unit + own.unit(pair);
        bool const exists = (own.index(pair) < Own::in_pass) & (unit < hidden_size) & (sample < end_sample);
        return Place{exists, sample, unit, pass * Own::in_pass + own.index(pair)};
    };
    int steps = 0;  // of the longest sample, the same in the whole group
#pragma unroll 1
    for (int sample = first_sample; sample < end_sample; ++sample) {
        steps = max(steps, sequence.steps.length(sample));
    }
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        Own const own{};
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            Place const at = place_of(own, pass, p);
            if (at.exists) {
                hidden_gradients[at.state] = value_or_zero(sequence.output_single_gradient, 0, direction, at.sample, at.unit);
                if constexpr (Cell::has_memory) {
                    memory_gradients[at.state] = value_or_zero(sequence.output_cell_single_gradient, 0, direction, at.sample, at.unit);
                }
            }
        }
    }
    if constexpr (Cell::has_memory) {
        for (int unit = threadIdx.x; unit < Own::units && first_unit + unit < hidden_size; unit += product_threads) {
            constants[unit] = sequence.constants(direction, first_unit + unit);
        }
    }
    Activations const activations(sequence.activations[direction]);

    // The operator's tensors that the steps read and write. The recurrence begins at the last time of the longest sample, or at time 0.
    using Upstream = StepPointers<T const, pairs, Product::samples, one_pass>;
    using Values = StepPointers<float const, pairs, Product::samples, one_pass>;
    long long const row = sequence.step_row(0, first_sample, direction);
    long long const time_rows = static_cast<long long>(sequence.batch_size) * sequence.num_directions;
    int const rows = Gradient::rows * hidden_size;
    int const saved_values = Gradient::saved * hidden_size;
    Strided<T const> const& outputs = sequence.output_sequence_gradient;
    Upstream upstreams(outputs.data == nullptr ? nullptr : &outputs.at(0, direction, first_sample, first_unit), outputs.strides[0],
                       outputs.strides[2], outputs.strides[3], !backward);
    Values saved(sequence.saved + (row * saved_values + first_unit), time_rows * saved_values,
                static_cast<long long>(sequence.num_directions) * saved_values, 1, !backward);
    // The state before a step; that after it is before the next one in the array, or after it where the direction runs backward.
    float const* const states = Gradient::before == 1 ? sequence.hidden : sequence.memory;
    long long const state_distance = static_cast<long long>(sequence.batch_size) * hidden_size;
    Values states_before(
        Gradient::before == 0
            ? nullptr
            : states + (sequence.slot_row(slot_after(!backward, 0), direction, first_sample) * hidden_size + first_unit),
        state_distance, hidden_size, 1, !backward);
    StepPointers<float, pairs, Product::samples, one_pass> gradients(sequence.gate_gradients + (row * rows + first_unit), time_rows * rows,
                                                              static_cast<long long>(sequence.num_directions) * rows, 1, !backward);
    int lengths[pairs];  // if there is one pass
    {
        Own const own{};
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            Place const at = place_of(own, 0, p);
            lengths[p] = one_pass && at.exists ? sequence.steps.length(at.sample) : 0;
            upstreams.begin(p, own.sample(p), own.unit(p), steps);
            saved.begin(p, own.sample(p), own.unit(p), steps);
            states_before.begin(p, own.sample(p), own.unit(p), steps);
            gradients.begin(p, own.sample(p), own.unit(p), steps);
        }
    }
    __syncthreads();

    unsigned const loaded = sums.loaded(end_sample - first_sample);  // if there is one pass
    unsigned const reset_loaded = reset.loaded(end_sample - first_sample);
    // One turn more than there are steps: it does only the last product.
    for (int step = 0; step <= steps; ++step) {
        int const time = backward ? step : steps - 1 - step;
        int const time_before = backward ? step - 1 : steps - step;
        bool const multiplies = step > 0 && (step < steps || parameters.hidden_init_gradient.data != nullptr);
        for (int pass = 0; pass < passes; ++pass) {
            int const there = end_sample - first_sample - pass * Product::samples;
            Own const own{};
            bool exists[pairs];
            bool takes[pairs];
            bool took[pairs];  // the step before
            Saved<Gradient::saved> of_step[pairs];
            float upstream[pairs];
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                Place const at = place_of(own, pass, p);
                int const length = one_pass ? lengths[p] : at.exists ? sequence.steps.length(at.sample) : 0;
                exists[p] = at.exists;
                takes[p] = (step < steps) & (time < length);
                took[p] = (step > 0) & (time_before < length);
                upstream[p] = 0.0f;
                if (at.exists & (step < steps)) {
                    float const* of_gate = saved.at(p, pass, own.sample(p), own.unit(p), steps);
#pragma unroll
                    for (int k = 0; k < Gradient::saved; ++k) {
                        of_step[p].saved_gates[k] = *of_gate;
                        of_gate += hidden_size;
                    }
                    if constexpr (Gradient::before != 0) {
                        float const* const before = states_before.at(p, pass, own.sample(p), own.unit(p), steps);
                        of_step[p].before = *before;
                        if constexpr (Gradient::after != 0) {
                            of_step[p].after = before[backward ? -state_distance : state_distance];
                        }
                    }
                    if (outputs.data != nullptr) {
                        float const value = machine::to_float(*upstreams.at(p, pass, own.sample(p), own.unit(p), steps));
                        bool const begun = sequence.steps.has_begun(time, at.sample, backward);
                        upstream[p] = begun & takes[p] ? value : 0.0f;
                    }
                    if (sequence.steps.step_mask.data != nullptr) {
                        takes[p] &= !sequence.steps.is_masked(time, at.sample);
                        took[p] &= step > 0 && !sequence.steps.is_masked(time_before, at.sample);
                    }
                } else if (at.exists & (step > 0)) {
                    took[p] &= !sequence.steps.is_masked(time_before, at.sample);
                }
            }
            if (multiplies) {
                // The other passes have released since; in the last iteration none does.
                int const since = step < steps ? passes - 1 : passes - 1 - pass;
                sums.template multiply<true>(exchange, pass, one_pass ? loaded : sums.loaded(there), (resets ? 2 : 1) * since);
                __syncthreads();
            }
            float d_hidden[pairs];
            float d_memory[pairs];
            float d_sums[pairs][Gradient::rows] = {};
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                int const state = pass * Own::in_pass + own.index(p);
                d_hidden[p] = exists[p] ? hidden_gradients[state] + upstream[p] : 0.0f;
                d_memory[p] = exists[p] && Cell::has_memory ? memory_gradients[state] : 0.0f;
                if (multiplies && took[p]) {
                    d_hidden[p] += sums.sum(own, p);
                }
                if (takes[p]) {
                    UnitConstants const of_unit = Cell::has_memory ? constants[own.unit(p)] : UnitConstants{};
                    Gradient::step(activations, of_unit, of_step[p], d_hidden[p], d_memory[p], d_sums[p]);
                }
            }
            if (step < steps) {
                if constexpr (resets) {
                    reset.store(exchange, pass, there, own, exists, d_sums);
                    exchange.release();
                    reset.template multiply<false>(exchange, pass, one_pass ? reset_loaded : reset.loaded(there), 0);
                    __syncthreads();
#pragma unroll
                    for (int p = 0; p < pairs; ++p) {
                        if (takes[p]) {
                            d_sums[p][1] = Gradient::reset(activations, of_step[p], reset.sum(own, p), d_hidden[p]);
                        }
                    }
                }
                sums.store(exchange, pass, there, own, exists, d_sums);
                exchange.release();
            } else {
                __syncthreads();  // all have read the sums
            }
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                Place const at = place_of(own, pass, p);
                if (at.exists & (step < steps)) {
                    hidden_gradients[at.state] = d_hidden[p];
                    if constexpr (Cell::has_memory) {
                        memory_gradients[at.state] = d_memory[p];
                    }
                    float* stored = gradients.at(p, pass, own.sample(p), own.unit(p), steps);
#pragma unroll
                    for (int q = 0; q < Gradient::rows; ++q) {
                        *stored = d_sums[p][q];
                        stored += hidden_size;
                    }
                } else if (at.exists) {
                    store(parameters.hidden_init_gradient, 0, direction, at.sample, at.unit, d_hidden[p]);
                    store(parameters.cell_mem_init_gradient, 0, direction, at.sample, at.unit, d_memory[p]);
                }
            }
        }
        sums.advance();
        reset.advance();
        upstreams.advance();
        saved.advance();
        states_before.advance();
        gradients.advance();
    }

    // Steps that no sample of the group takes; and all of them after a timeout: then the results are NaN.
    bool const has_expired = exchange.has_expired();
    float const nothing = has_expired ? machine::float_of_bits(sentinel) : 0.0f;
    for (int time = has_expired ? 0 : steps; time < sequence.seq_length; ++time) {
#pragma unroll 1
        for (int pass = 0; pass < passes; ++pass) {
            Own const own{};
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                Place const at = place_of(own, pass, p);
                if (at.exists) {
                    float* const stored = sequence.template gradients_of<Gradient>(time, direction, at.sample, at.unit);
                    for (int q = 0; q < Gradient::rows; ++q) {
                        stored[q * static_cast<long long>(hidden_size)] = nothing;
                    }
                    if (has_expired) {
                        store(parameters.hidden_init_gradient, 0, direction, at.sample, at.unit, nothing);
                        store(parameters.cell_mem_init_gradient, 0, direction, at.sample, at.unit, nothing);
                    }
                }
            }
        }
    }
}

/// All steps in one launch, without dropped states and projection.
///
/// Grid: x is the block's number in its group, so which `Product::rows` units it owns; y is the batch group, of `samples`; z is the
/// direction. Where x is 1 a block is alone, with that `protocol`; else all blocks have to run at the same time. Block:
/// `product_threads`; in each pass, of which there is one with `one_pass`, a thread owns up to `Pairs::count` units, each in one sample.
/// Product is of all gates, but of z and r where the cell resets before the product: then that of h is ResetProduct, with the same rows and
/// samples, else NoProduct. `whole_parts`: see GradientProduct. Dynamic shared memory: the sum of the pieces.
template <class T, class Product, class ResetProduct, Protocol protocol, bool one_pass, bool whole_parts, class Cell,
          class ForwardActivations, class BackwardActivations>
__global__ void __launch_bounds__(product_threads, 1) persistent_grid(const __grid_constant__ PersistentGridParameters<T> parameters) {
    if constexpr (is_same<ForwardActivations, BackwardActivations>) {
        persistent_grid_direction<T, Product, ResetProduct, protocol, one_pass, whole_parts, Cell, ForwardActivations>(parameters, blockIdx.z);
    } else if (blockIdx.z == 0) {
        persistent_grid_direction<T, Product, ResetProduct, protocol, one_pass, whole_parts, Cell, ForwardActivations>(parameters, 0);
    } else {
        persistent_grid_direction<T, Product, ResetProduct, protocol, one_pass, whole_parts, Cell, BackwardActivations>(parameters, 1);
    }
}
