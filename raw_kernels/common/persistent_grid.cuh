// RNN, GRU and LSTM over a sequence, with R spread over the registers and the shared memory of many blocks, or of one.
//
// The products of all steps with the input, X W^T, are computed beforehand. A block owns some hidden units, with all their gates, in some
// samples of one direction, and holds the rows of R that belong to them. The blocks of the same samples and direction are a group: in
// each step they need H[t-1] of each other, and exchange it by common/block_exchange.cuh, or by common/cluster_exchange.cuh where the group
// is a cluster; a block alone has it in shared memory. A Gru that resets before the product exchanges r . H[t-1] as well, and multiplies it
// by the rows of its last gate in a separate product.
//
// A step, for each pass over some of the block's samples: load the step's input gates, wait for the group, multiply, compute the new states
// and store them for the group; only then write the outputs and the reserve, while the other blocks continue. All threads of all blocks in
// a group take as many steps as their longest sample.
//
// Letters: T steps, B samples, D directions (1 or 2), G gates, H hidden units. A sample's length, the mask, the reserve
// and the template argument Pass are explained in recurrent/layer.cu. The element type of the caller's tensors, of R and of
// exchanged H[t] is the template argument T; arithmetic, sums, gates and the states of the owned units are float. Factors of a
// product on tensor cores have T's precision, or TF32's where T is float.
//
// Outputs overlap nothing else, except `input_product` and `reserve.saved`, which may be one: a thread reads a gate of a step before
// it writes there.
#pragma once

template <class T>
struct PersistentGridParameters {
    Sequence<T> sequence;
    Vector4<unsigned> const* recurrence;       // [D][unit groups][Product::arranged(H)]
    Vector4<unsigned> const* late_recurrence;  // of the gate whose product is of r . H[t-1]
    // Data that blocks exchange through global memory; unused by a block alone or of a cluster. With Protocol::flags all of it is zero
    // before the launch, with Protocol::data all words are `sentinel`, and there are no flags.
    T* hidden;                              // [D][batch groups][turns: 2, or T][passes][an operand of Product]
    T* reset_hidden;                        // [D][batch groups][turns: 1, or T][passes][an operand of LateProduct]
    unsigned* flags;                        // [D][batch groups][unit groups]
    int units;                              // of a block; the last group of units may have fewer
    int samples;                            // of a block; the last group of the batch may have fewer
    Timeout timeout;                        // unused there, too
};

/// The blocks of a group whose part of the depth a warp reads: [first, last], maybe none.
struct Producers {
    int first;
    int last;

    template <class Product>
    __device__ Producers(Product const& product, int units, int hidden_size)
        : first(product.first_depth() / units),
          last(product.first_depth() < hidden_size ? (min(product.end_depth(), hidden_size) - 1) / units : -1) {}
};

/// One direction of `persistent_grid`: see there.
template <class T, class Product, class LateProduct, Protocol protocol, int pairs, bool one_pass, class Pass, class Cell, class Activations>
__device__ void persistent_grid_direction(PersistentGridParameters<T> const& parameters, int direction) {
    constexpr bool own = is_in_own_memory(protocol);
    constexpr int gates = Cell::gates;
    constexpr bool training = is_same<Pass, Training>;
    constexpr bool resets_first = Cell::resets_before_product;
    constexpr int pass_samples = Product::samples;
    static_assert(!resets_first || LateProduct::samples == pass_samples);
    Sequence<T> const& sequence = parameters.sequence;
    int const hidden_size = sequence.hidden_size;
    int const units = parameters.units;
    int const first_unit = blockIdx.x * units;
    int const first_sample = blockIdx.y * parameters.samples;
    int const samples = min(parameters.samples, sequence.batch_size - first_sample);
    int const passes = one_pass ? 1 : (samples + pass_samples - 1) / pass_samples;
    int const most_passes = one_pass ? 1 : (parameters.samples + pass_samples - 1) / pass_samples;  // of any block
    int const group = direction * gridDim.y + blockIdx.y;
    int const block = direction * gridDim.x + blockIdx.x;
    bool const backward = sequence.backward[direction] != 0;

    // Shared memory. Slots count samples over all passes.
    SharedPieces pieces;
    auto* const staging = pieces.take<Vector4<unsigned>>(own ? 0 : max(Product::staged(hidden_size), LateProduct::staged(hidden_size)));
    Product product(pieces, hidden_size, staging);
    LateProduct late(pieces, hidden_size, staging);
    int const slots = most_passes * pass_samples;
    float* const hidden = pieces.take<float>(slots * units);                              // [slots][units]
    float* const memory = pieces.take<float>(Cell::has_memory ? slots * units : 0);
    float* const update = pieces.take<float>(resets_first ? slots * units : 0);           // sums of gate z, needed after the late product
    float* const bias = pieces.take<float>(Cell::biases * units);                         // [units][biases]
    float* const peephole = pieces.take<float>(Cell::has_memory ? 3 * units : 0);         // [units][3]
    int* const lengths = pieces.take<int>(slots);
    int const row = product.template row<protocol>();
    int const late_row = late.template row<protocol>();
    int const pass_size = row * pass_samples;
    int const late_pass_size = late_row * pass_samples;
    // Within a block barriers separate H[t-1] and H[t]; with flags and in a cluster two buffers take turns.
    int const own_size = Turns<protocol, T>::in_own_memory(2) * most_passes * pass_size;
    int const own_late_size = Turns<protocol, T>::in_own_memory(1) * most_passes * late_pass_size;
    T* const own_hidden = pieces.take<T>(own_size);
    T* const own_reset_hidden = pieces.take<T>(own_late_size);
    auto* const arrivals = pieces.take<machine::Arrivals>(is_cluster(protocol) ? 2 : 0);
    int const seq_length = sequence.seq_length;
    long long const of_passes = most_passes;
    Turns<protocol, T> turns(own ? own_hidden : parameters.hidden, group, 2, seq_length, of_passes * pass_size);
    Turns<protocol, T> reset_turns(own ? own_reset_hidden : parameters.reset_hidden, group, 1, seq_length, of_passes * late_pass_size);

    product.load(parameters.recurrence + static_cast<long long>(block) * Product::arranged(hidden_size));
    if constexpr (resets_first) {
        late.load(parameters.late_recurrence + static_cast<long long>(block) * LateProduct::arranged(hidden_size));
    }
#pragma unroll 1
    for (int slot = threadIdx.x; slot < slots; slot += product_threads) {
        lengths[slot] = slot < samples ? sequence.length(first_sample + slot) : 0;
    }
    for (int unit = threadIdx.x; unit < units && first_unit + unit < hidden_size; unit += product_threads) {
        Unit<Cell> const constants(sequence.bias, sequence.peephole, sequence.clip_threshold, direction, first_unit + unit, hidden_size);
        for (int g = 0; g < Cell::biases; ++g) {
            bias[unit * Cell::biases + g] = constants.bias[g];
        }
        for (int g = 0; Cell::has_memory && g < 3; ++g) {
            peephole[unit * 3 + g] = constants.peephole[g];
        }
    }
    if constexpr (own) {
#pragma unroll 1
        for (int index = threadIdx.x; index < own_size; index += product_threads) {
            own_hidden[index] = machine::from_float<T>(0.0f);
        }
#pragma unroll 1
        for (int index = threadIdx.x; index < own_late_size; index += product_threads) {
            own_reset_hidden[index] = machine::from_float<T>(0.0f);
        }
    }
    __syncthreads();

    // In each pass this thread has these units and samples, the sample counted from the pass's first; neighbouring threads have
    // neighbouring units.
    int unit[pairs];
    int sample[pairs];
    bool in_pass[pairs];  // whether there is such a sample,
    bool exists[pairs];   // and such a unit
#pragma unroll
    for (int p = 0; p < pairs; ++p) {
        int const index = threadIdx.x + p * product_threads;
        unit[p] = index % units;
        sample[p] = index / units;
        in_pass[p] = sample[p] < pass_samples;
        exists[p] = in_pass[p] && first_unit + unit[p] < hidden_size;
    }
    int steps = 0;            // of the longest sample, the same in the whole group
    int change = seq_length;  // the next step whose set of samples differs from the previous one, if there is one pass
#pragma unroll 1
    for (int slot = 0; slot < samples; ++slot) {
        int const length = lengths[slot];
        steps = max(steps, length);
        change = length > 0 ? min(change, length) : change;
    }
    // The steps that a pair's sample takes, masked or not.
    auto const length_in = [&](int pass, int p) { return in_pass[p] ? lengths[pass * pass_samples + sample[p]] : 0; };
    int only_length[pairs];
#pragma unroll
    for (int p = 0; p < pairs; ++p) {
        only_length[p] = one_pass ? length_in(0, p) : 0;
    }
    auto const length_of = [&](int pass, int p) { return one_pass ? only_length[p] : length_in(pass, p); };
    unsigned shown = 0;  // bit pass * pairs + p, in training: whether h is an output, not before the first taken step

    BlockExchange<protocol> exchange = [&] {
        if constexpr (is_cluster(protocol)) {
            int const words = (hidden_size * static_cast<int>(sizeof(T)) + 3) / 4;
            return BlockExchange<protocol>(arrivals, samples * words * 4);
        } else {
            return BlockExchange<protocol>(parameters.flags + group * gridDim.x, blockIdx.x, parameters.timeout);
        }
    }();
    // Stores a pair's value for others into a buffer of operands with these rows. With Protocol::data, which waits for every word, units
    // past the last one store zeros too. In a cluster, which counts them, all samples have one as long as one of them runs.
    auto const send = [&](T* buffer, int row, int pass, int p, T value, bool runs) {
        bool const has_place = protocol == Protocol::data ? in_pass[p] & (first_unit + unit[p] < row) : exists[p];
        bool const counts = is_cluster(protocol) ? (0 < steps) & (pass * pass_samples + sample[p] < samples) : runs;
        exchange.store(buffer + (pass * pass_samples * row + (sample[p] * row + first_unit + unit[p])), value, has_place & counts);
    };
    // This thread's loads of the operands of a step's passes.
    auto const loads_of = [&](auto const& product, int step, int pass) {
        return product.template loaded<protocol>([&](int sample) { return step < lengths[pass * pass_samples + sample]; });
    };
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            int const slot = pass * pass_samples + sample[p];
            float value = 0.0f;
            if (exists[p] && slot < samples) {
                value = value_or_zero(sequence.hidden_init, 0, direction, first_sample + slot, first_unit + unit[p]);
                hidden[slot * units + unit[p]] = value;
                if constexpr (Cell::has_memory) {
                    memory[slot * units + unit[p]] =
                        value_or_zero(sequence.cell_mem_init, 0, direction, first_sample + slot, first_unit + unit[p]);
                }
            }
            send(turns.now(), row, pass, p, Product::element(value), 0 < length_of(pass, p));
        }
    }
    exchange.release();

    // Fills slots of the states with those of a pair, from one time to another.
    auto const put_states = [&](int from, int to, int slot, int u) {
        float const memory_value = Cell::has_memory ? memory[slot * units + u] : 0.0f;
#pragma unroll 1
        for (int time = from; time <= to; ++time) {
            sequence.template put_states<Cell>(time, direction, first_sample + slot, first_unit + u, hidden[slot * units + u],
                                               memory_value);
        }
    };
    if constexpr (training) {
#pragma unroll 1
        for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                int const slot = pass * pass_samples + sample[p];
                if (exists[p] && slot < samples) {
                    put_states(backward ? lengths[slot] : 0, backward ? seq_length : 0, slot, unit[p]);
                }
            }
        }
    }

    // The operator's tensors that the steps read and write.
    using Input = InputElement<T, Pass> const;
    long long const time_rows = static_cast<long long>(sequence.batch_size) * sequence.num_directions;
    StepPointers<Input, pairs, pass_samples, one_pass> inputs(
        sequence.template input_gates<Pass, gates>(0, first_sample, direction, first_unit), time_rows * gates * hidden_size,
        static_cast<long long>(sequence.num_directions) * gates * hidden_size, 1, backward);
    StepPointers<T, pairs, pass_samples, one_pass> outputs(
        sequence.output_sequence.data == nullptr ? nullptr : &sequence.output_sequence.at(0, direction, first_sample, first_unit),
        sequence.output_sequence.strides[0], sequence.output_sequence.strides[2], sequence.output_sequence.strides[3], backward);
    StepPointers<float, pairs, pass_samples, one_pass> saved(
        sequence.template pass<Pass, Cell>(0, first_sample, direction, first_unit).address(), time_rows * Cell::saved * hidden_size,
        static_cast<long long>(sequence.num_directions) * Cell::saved * hidden_size, 1, backward);
    StepPointers<float, pairs, pass_samples, one_pass> hidden_states(
        sequence.template state_slot<Pass>(sequence.reserve.hidden, slot_after(backward, 0), direction, first_sample, first_unit),
        static_cast<long long>(sequence.batch_size) * hidden_size, hidden_size, 1, backward);
    StepPointers<float, pairs, pass_samples, one_pass> memory_states(
        sequence.template state_slot<Pass>(sequence.reserve.memory, slot_after(backward, 0), direction, first_sample, first_unit),
        static_cast<long long>(sequence.batch_size) * hidden_size, hidden_size, 1, backward);
#pragma unroll
    for (int p = 0; p < pairs; ++p) {
        inputs.begin(p, sample[p], unit[p], only_length[p]);
        outputs.begin(p, sample[p], unit[p], only_length[p]);
        saved.begin(p, sample[p], unit[p], only_length[p]);
        hidden_states.begin(p, sample[p], unit[p], only_length[p]);
        memory_states.begin(p, sample[p], unit[p], only_length[p]);
    }

    // The input's gates of a step are converted only when they are needed, since that waits for the loads. If a thread has few, they are
    // loaded as soon as those of the previous step have been used, so that their latency overlaps the exchange.
    constexpr bool loads_ahead = one_pass && pairs <= 2;
    constexpr unsigned all_gates = (1u << gates) - 1;
    constexpr unsigned reset_gate = resets_first ? 0b10 : 0;
    InputElement<T, Pass> loaded_gates[pairs][gates];
    auto const load_gates = [&](unsigned which, int step, int pass, int const(&length)[pairs]) {
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            if (exists[p] & (step < length[p])) {
                auto const* of_gate = inputs.at(p, pass, sample[p], unit[p], length[p]);
#pragma unroll
                for (int g = 0; g < gates; ++g) {
                    if ((which >> g & 1) != 0) {
                        loaded_gates[p][g] = *of_gate;
                    }
                    of_gate += hidden_size;
                }
            }
        }
    };
    if constexpr (loads_ahead) {
        load_gates(all_gates, 0, 0, only_length);
        inputs.advance();
    }

    Activations const activations(sequence.activations[direction]);
    Producers const producers(product, units, hidden_size);
    unsigned loaded = one_pass ? loads_of(product, 0, 0) : 0;
    unsigned late_loaded = one_pass ? loads_of(late, 0, 0) : 0;
    // Prefetches, where it loads ahead: the input's gates of a step are waited for after the exchange before it.
    for (int step = 0; step < steps; ++step) {
        if constexpr (one_pass) {
            if (step == change) {
                loaded = loads_of(product, step, 0);
                late_loaded = loads_of(late, step, 0);
                change = steps;
#pragma unroll 1
                for (int slot = 0; slot < samples; ++slot) {
                    change = lengths[slot] > step ? min(change, lengths[slot]) : change;
                }
            }
        }
        auto const constants_of = [&](int p) {
            return Unit<Cell>(bias + unit[p] * Cell::biases, Cell::has_memory ? peephole + unit[p] * 3 : nullptr, sequence.clip_threshold);
        };
        auto const write_saved = [&](int pass, int p, unsigned places, Held<Pass, Cell> const& held) {
            if constexpr (training) {
                float* const address = saved.at(p, pass, sample[p], unit[p], length_of(pass, p));
                if (address != nullptr) {
#pragma unroll
                    for (int place = 0; place < Cell::saved; ++place) {
                        if ((places >> place & 1) != 0) {
                            address[place * static_cast<long long>(hidden_size)] = held.values[place];
                        }
                    }
                }
            }
        };
        auto const hidden_operand = [&](int pass) {
            return Operand<T>{turns.now() + pass * pass_size, one_pass ? loaded : loads_of(product, step, pass)};
        };
        auto const reset_operand = [&](int pass) {
            return Operand<T>{reset_turns.now() + pass * late_pass_size, one_pass ? late_loaded : loads_of(late, step, pass)};
        };

        Operand<T> operand = hidden_operand(0);
        if constexpr (resets_first) {
            for (int pass = 0; pass < passes; ++pass) {
                int length[pairs];
                bool takes[pairs];
#pragma unroll
                for (int p = 0; p < pairs; ++p) {
                    length[p] = length_of(pass, p);
                    takes[p] = exists[p] & (step < length[p]);
                }
                if constexpr (!loads_ahead) {
                    load_gates(reset_gate, step, pass, length);
                }
                if (pass == 0) {
                    exchange.wait(producers.first, producers.last);
                    product.begin(exchange, operand);
                }
                Operand<T> const next = pass + 1 < passes ? hidden_operand(pass + 1) : Operand<T>{};
                product.multiply(exchange, operand, next);
                operand = next;
                __syncthreads();
                Held<Pass, Cell> held[pairs];
#pragma unroll
                for (int p = 0; p < pairs; ++p) {
                    float value = 0.0f;
                    if (takes[p]) {
                        int const place = (pass * pass_samples + sample[p]) * units + unit[p];
                        update[place] = product.sum(unit[p], sample[p]);
                        float const inputs[gates] = {0.0f, machine::to_float(loaded_gates[p][1]), 0.0f};
                        float const sums[gates] = {0.0f, product.sum(units + unit[p], sample[p]), 0.0f};
                        value = Cell::reset(activations, constants_of(p), inputs, sums, held[p].pass()) * hidden[place];
                    }
                    send(reset_turns.now(), late_row, pass, p, LateProduct::element(value), step < length[p]);
                }
                if (pass + 1 < passes) {
                    __syncthreads();
                } else {
                    exchange.release();
                }
#pragma unroll
                for (int p = 0; p < pairs; ++p) {
                    if (takes[p]) {
                        write_saved(pass, p, Cell::saved_by_reset, held[p]);
                    }
                }
            }
        }

        if constexpr (resets_first) {
            operand = reset_operand(0);
        }
        for (int pass = 0; pass < passes; ++pass) {
            int length[pairs];
            bool taken[pairs];  // maybe masked
            bool takes[pairs];
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                length[p] = length_of(pass, p);
                taken[p] = exists[p] & (step < length[p]);
                takes[p] = taken[p];
            }
            if constexpr (!loads_ahead) {
                load_gates(all_gates & ~reset_gate, step, pass, length);
            }
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                if (taken[p]) {
                    int const time = backward ? length[p] - 1 - step : step;
                    takes[p] = !sequence.template skips<Pass>(time, first_sample + pass * pass_samples + sample[p]);
                }
            }
            if constexpr (resets_first) {
                if (pass == 0) {
                    Producers const of_late(late, units, hidden_size);
                    exchange.wait(of_late.first, of_late.last);
                    late.begin(exchange, operand);
                }
                Operand<T> const next = pass + 1 < passes ? reset_operand(pass + 1) : Operand<T>{};
                late.multiply(exchange, operand, next);
                operand = next;
            } else {
                if (pass == 0) {
                    exchange.wait(producers.first, producers.last);
                    product.begin(exchange, operand);
                }
                Operand<T> const next = pass + 1 < passes ? hidden_operand(pass + 1) : Operand<T>{};
                product.multiply(exchange, operand, next);
                operand = next;
            }
            float input[pairs][gates];
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
#pragma unroll
                for (int g = 0; g < gates; ++g) {
                    float const gate = machine::to_float(loaded_gates[p][g]);
                    input[p][g] = loads_ahead && is_same<InputElement<T, Pass>, float> ? machine::moved(gate) : gate;
                }
            }
            __syncthreads();
            if constexpr (loads_ahead) {
                load_gates(all_gates, step + 1, 0, only_length);
                inputs.advance();
            }
            Held<Pass, Cell> held[pairs];
            float value[pairs];  // of H[t]
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                int const place = (pass * pass_samples + sample[p]) * units + unit[p];
                value[p] = 0.0f;
                if (takes[p]) {
                    float sums[gates];
                    if constexpr (resets_first) {
                        sums[0] = update[place];
                        sums[1] = 0.0f;
                        sums[2] = late.sum(unit[p], sample[p]);
                    } else {
#pragma unroll
                        for (int g = 0; g < gates; ++g) {
                            sums[g] = product.sum(g * units + unit[p], sample[p]);
                        }
                    }
                    float memory_value = Cell::has_memory ? memory[place] : 0.0f;
                    value[p] = Cell::next(activations, constants_of(p), input[p], sums, hidden[place], memory_value, held[p].pass());
                    hidden[place] = value[p];
                    if constexpr (Cell::has_memory) {
                        memory[place] = memory_value;
                    }
                    if constexpr (training) {
                        shown |= 1u << (pass * pairs + p);
                    }
                } else if (training && taken[p]) {
                    value[p] = hidden[place];
                }
                if (step + 1 < steps) {
                    send(turns.next(), row, pass, p, Product::element(value[p]), step + 1 < length[p]);
                }
            }
            if (pass + 1 < passes) {
                __syncthreads();
            } else if (step + 1 < steps) {
                exchange.release();
            }
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                if (takes[p]) {
                    write_saved(pass, p, Cell::saved_by_next, held[p]);
                }
                if (taken[p]) {
                    bool const is_output = !training || (shown >> (pass * pairs + p) & 1) != 0;
                    if (sequence.output_sequence.data != nullptr) {
                        *outputs.at(p, pass, sample[p], unit[p], length[p]) = machine::from_float<T>(is_output ? value[p] : 0.0f);
                    }
                    if (training && sequence.reserve.hidden != nullptr) {
                        *hidden_states.at(p, pass, sample[p], unit[p], length[p]) = value[p];
                        if constexpr (Cell::has_memory) {
                            *memory_states.at(p, pass, sample[p], unit[p], length[p]) =
                                memory[(pass * pass_samples + sample[p]) * units + unit[p]];
                        }
                    }
                }
            }
        }
        turns.advance();
        reset_turns.advance();
        if constexpr (!loads_ahead) {
            inputs.advance();
        }
        outputs.advance();
        saved.advance();
        hidden_states.advance();
        memory_states.advance();
    }

    // After a timeout the results are NaN.
    bool const has_expired = exchange.has_expired();
    float const nothing = has_expired ? machine::float_of_bits(sentinel) : 0.0f;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            int const slot = pass * pass_samples + sample[p];
            if (exists[p] && slot < samples) {
                int const of_batch = first_sample + slot;
                int const place = slot * units + unit[p];
                if (has_expired) {
                    hidden[place] = nothing;
                    if constexpr (Cell::has_memory) {
                        memory[place] = nothing;
                    }
                }
                store(sequence.output_single, 0, direction, of_batch, first_unit + unit[p], hidden[place]);
                store(sequence.output_cell_single, 0, direction, of_batch, first_unit + unit[p], Cell::has_memory ? memory[place] : 0.0f);
#pragma unroll 1
                for (int time = has_expired ? 0 : lengths[slot]; time < seq_length; ++time) {
                    store(sequence.output_sequence, time, direction, of_batch, first_unit + unit[p], nothing);
                }
                if (training && (has_expired || !backward)) {
                    put_states(has_expired ? 0 : lengths[slot] + 1, seq_length, slot, unit[p]);
                }
            }
        }
    }
}

/// All directions of `persistent_grid`: see there.
template <class T, class Product, class LateProduct, Protocol protocol, int pairs, bool one_pass, class Pass, class Cell,
          class ForwardActivations, class BackwardActivations>
__device__ __forceinline__ void grid_directions(PersistentGridParameters<T> const& parameters) {
    if constexpr (is_same<ForwardActivations, BackwardActivations>) {
        persistent_grid_direction<T, Product, LateProduct, protocol, pairs, one_pass, Pass, Cell, ForwardActivations>(parameters, blockIdx.z);
    } else if (blockIdx.z == 0) {
        persistent_grid_direction<T, Product, LateProduct, protocol, pairs, one_pass, Pass, Cell, ForwardActivations>(parameters, 0);
    } else {
        persistent_grid_direction<T, Product, LateProduct, protocol, pairs, one_pass, Pass, Cell, BackwardActivations>(parameters, 1);
    }
}
