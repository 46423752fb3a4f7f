// The results of the gradients of RNN, GRU and LSTM, computed from the gradients of sums of all steps, from recurrent/gradient.cu.
//
//   d_X = d_sums W,   d_W = d_sums^T X,   d_R = d_sums^T H[t-1],   d_P = d_H^T (o . h(C)) for a projection P
//
// are one matrix product each over all steps and samples, with these kernels around it: `operand` and `rebuild` create right operands,
// `sum_products`, `clear_skipped` and `unpack` results. The gradients of biases and peepholes are sums, of `sum_rows` and `sum_chunks`.
// A step that a sample skips contributes nothing to them, even where its zero gradients would meet an infinite weight or state.
//
// The factors of the products have the element type of the caller's tensors. For halves the gradients of sums, which may be of any size,
// are multiplied by a power of two that scales the largest near the end of a half's range: `find_largest` and `narrow`. They keep a half's
// accuracy down to 2^-28 of the largest, and vanish below 2^-39. `unpack` divides the results by it. Bfloat16s have the range of floats:
// `narrow` only rounds to them.
//
// Letters as there: T steps, B samples, D directions, G gates, H hidden units, I inputs, Q rows of sums for each unit and step. The
// element type of the caller's tensors is the template argument T; all else is float.
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

// ---------------------------------------------------------------------------------------------------- narrowed factors

/// Threads of a block of `find_largest` and `narrow`, and of `unpack` where it undoes a scale; blocks of `find_largest` at most.
inline constexpr int scale_threads = 256;

struct LargestParameters {
    float const* values;  // [count]
    float* parts;         // [blocks]
    long long count;
};

/// The largest of all values of a block of `scale_threads`, for each thread.
__device__ inline float largest_of_block(float value) {
    __shared__ float of_warps[scale_threads / 32];
    for (int mask = 16; mask > 0; mask /= 2) {
        value = fmaxf(value, machine::shuffle_xor(value, mask));
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < scale_threads / 32; ++warp) {
        value = fmaxf(value, of_warps[warp]);
    }
    return value;
}

/// parts = the largest magnitude in each block's share of the values, without infinities and NaN.
///
/// Grid: one-dimensional, of at most `scale_threads` blocks. Block: `scale_threads`; a thread owns vectors of `width` values, which lie at
/// multiples of their size.
template <int width>
__global__ void __launch_bounds__(scale_threads) find_largest(LargestParameters parameters) {
    float const infinity = machine::float_of_bits(0x7F800000u);
    float largest = 0.0f;
#pragma unroll 8
    for (long long index = first_element(); index < parameters.count / width; index += element_stride()) {
        AlignedVector<float, width> const values = reinterpret_cast<AlignedVector<float, width> const*>(parameters.values)[index];
        for (int e = 0; e < width; ++e) {
            float const magnitude = fabsf(values.values[e]);
            largest = magnitude > largest && magnitude < infinity ? magnitude : largest;
        }
    }
    largest = largest_of_block(largest);
    if (threadIdx.x == 0) {
        parameters.parts[blockIdx.x] = largest;
    }
}

/// A power of two that scales values near the end of a half's range, and its inverse.
struct Scale {
    float factor = 1.0f;
    float inverse = 1.0f;

    /// From the results of `find_largest`, by all threads of a block; 1 without them.
    __device__ Scale(float const* parts,  // [num_parts] or null
                     int num_parts) {
        if (parts != nullptr) {
            int const thread = threadIdx.x;
            float const largest = largest_of_block(thread < num_parts ? parts[thread] : 0.0f);
            // The largest becomes at least 2^14 and less than 2^15. Exponents are biased by 127.
            int const exponent = 127 + 14 + 127 - static_cast<int>(machine::to_bits(largest) >> 23);
            int const bounded = min(exponent, 253);  // zeros, and values below the range of results in halves
            factor = machine::float_of_bits(static_cast<unsigned>(bounded) << 23);
            inverse = machine::float_of_bits(static_cast<unsigned>(254 - bounded) << 23);
        }
    }
};

template <class T>
struct NarrowParameters {
    float const* source;  // [count]
    T* destination;       // [count]
    float const* parts;   // of `find_largest`; null: the values stay as they are
    long long count;
    int num_parts;
};

/// destination = source times its scale, rounded once.
///
/// Grid: one-dimensional, of any size. Block: `scale_threads`; a thread owns vectors of `width` values, which lie at multiples of their
/// size.
template <class T, int width>
__global__ void __launch_bounds__(scale_threads) narrow(NarrowParameters<T> parameters) {
    Scale const scale(parameters.parts, parameters.num_parts);
#pragma unroll 4
    for (long long index = first_element(); index < parameters.count / width; index += element_stride()) {
        AlignedVector<float, width> const values = reinterpret_cast<AlignedVector<float, width> const*>(parameters.source)[index];
        AlignedVector<T, width> narrowed;
        for (int e = 0; e < width; ++e) {
            narrowed.values[e] = machine::from_float<T>(values.values[e] * scale.factor);
        }
        reinterpret_cast<AlignedVector<T, width>*>(parameters.destination)[index] = narrowed;
    }
}

// ------------------------------------------------------------------------------------------------ operands and results

template <class Source, class T>
struct OperandParameters {
    Strided<Source const> source;    // (0, t, b, column)
    Strided<T const> multiplier;     // (0, 0, b, column); absent: 1
    Steps steps;
    T* destination;                  // [T][B][columns]
    long long columns;
};

/// The right operand of a product over all steps: the source times the multiplier, and zero at steps that are not taken.
///
/// Grid and block: one-dimensional, of any size; a thread owns elements.
template <class Source, class T>
__global__ void operand(OperandParameters<Source, T> parameters) {
    Steps const& steps = parameters.steps;
    long long const count = static_cast<long long>(steps.seq_length) * steps.batch_size * parameters.columns;
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / parameters.columns;
        long long const column = index % parameters.columns;
        int const sample = static_cast<int>(row % steps.batch_size);
        int const time = static_cast<int>(row / steps.batch_size);
        float value = 0.0f;
        if (steps.takes(time, sample)) {
            value = machine::to_float(parameters.source.at(0, time, sample, column));
            if (parameters.multiplier.data != nullptr) {
                value *= machine::to_float(parameters.multiplier.at(0, 0, sample, column));
            }
        }
        parameters.destination[index] = machine::from_float<T>(value);
    }
}

template <class T>
struct RebuildParameters {
    Sequence<T> sequence;
    Strided<T const> multiplier;    // (0, 0, b, unit); absent: 1
    T* destination;                 // [T][B][H]
    long long direction;
};

/// The right operand of a product over all steps that the reserve does not hold: r . H[t-1] of a Gru that resets first, or what a
/// projection multiplies; times the multiplier, and zero at steps that are not taken. For one direction.
///
/// Grid and block: one-dimensional, of any size; a thread owns elements.
template <class T, class Cell, class Activations>
__global__ void rebuild(RebuildParameters<T> parameters) {
    using Gradient = CellGradient<Cell>;
    Sequence<T> const& sequence = parameters.sequence;
    int const direction = static_cast<int>(parameters.direction);
    Activations const activations(sequence.activations[direction]);
    long long const count = static_cast<long long>(sequence.seq_length) * sequence.batch_size * sequence.hidden_size;
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / sequence.hidden_size;
        int const unit = static_cast<int>(index % sequence.hidden_size);
        int const sample = static_cast<int>(row % sequence.batch_size);
        int const time = static_cast<int>(row / sequence.batch_size);
        float value = 0.0f;
        if (sequence.steps.takes(time, sample)) {
            value = Gradient::operand(activations, sequence.constants(direction, unit),
                                      sequence.template saved_of<Gradient>(time, direction, sample, unit));
            if (parameters.multiplier.data != nullptr) {
                value *= machine::to_float(parameters.multiplier.at(0, 0, sample, unit));
            }
        }
        parameters.destination[index] = machine::from_float<T>(value);
    }
}

template <class T>
struct SumProductsParameters {
    float const* product;           // [T][B][I]
    Strided<T const> multiplier;    // (0, 0, b, i)
    float* sum;                     // [T][B][I]
    long long count;                // T B I
    long long batch_size;
    long long input_size;
    long long is_first;             // not zero: the sum begins here
};

/// sum += product . multiplier: the input's gradient from one gate whose input was dropped.
///
/// Grid and block: one-dimensional, of any size; a thread owns elements.
template <class T>
__global__ void sum_products(SumProductsParameters<T> parameters) {
#pragma unroll 1
    for (long long index = first_element(); index < parameters.count; index += element_stride()) {
        long long const sample = index / parameters.input_size % parameters.batch_size;
        float const multiplier = machine::to_float(parameters.multiplier.at(0, 0, sample, index % parameters.input_size));
        float const before = parameters.is_first != 0 ? 0.0f : parameters.sum[index];
        parameters.sum[index] = before + parameters.product[index] * multiplier;
    }
}

struct ClearSkippedParameters {
    Steps steps;
    float* values;        // [T][B] rows
    long long columns;
    long long stride;     // between the rows
};

/// values = 0 at steps that are not taken, where a product has multiplied zeros by weights that may be infinite.
///
/// Grid and block: one-dimensional, of any size; a thread owns elements.
template <class = void>
__global__ void clear_skipped(ClearSkippedParameters parameters) {
    Steps const& steps = parameters.steps;
    long long const count = static_cast<long long>(steps.seq_length) * steps.batch_size * parameters.columns;
#pragma unroll 1
    for (long long index = first_element(); index < count; index += element_stride()) {
        long long const row = index / parameters.columns;
        if (!steps.takes(static_cast<int>(row / steps.batch_size), static_cast<int>(row % steps.batch_size))) {
            parameters.values[row * parameters.stride + index % parameters.columns] = 0.0f;
        }
    }
}

template <class T>
struct UnpackParameters {
    float const* source;       // [sizes[0]][sizes[1]][sizes[2]][sizes[3]], packed
    Strided<T> destination;    // any strides
    float const* parts;        // of `find_largest`, of gradients that were scaled; null: they were not
    long long sizes[4];
    int num_parts;
};

/// destination(i, j, k, l) = source[i][j][k][l] without its scale, rounded once.
///
/// Grid: one-dimensional, of any size. Block: `scale_threads`; a thread owns elements.
template <class T>
__global__ void __launch_bounds__(scale_threads) unpack(UnpackParameters<T> parameters) {
    Scale const scale(parameters.parts, parameters.num_parts);
    long long const(&sizes)[4] = parameters.sizes;
#pragma unroll 1
    for (long long index = first_element(); index < sizes[0] * sizes[1] * sizes[2] * sizes[3]; index += element_stride()) {
        long long const row = index / sizes[3];
        long long const plane = row / sizes[2];
        parameters.destination.at(plane / sizes[1], plane % sizes[1], row % sizes[2], index % sizes[3]) =
            machine::from_float<T>(parameters.source[index] * scale.inverse);
    }
}

// ------------------------------------------------------------------------------------------------ biases and peepholes

template <class T>
struct SumParameters {
    float const* gate_gradients;    // [T][B][D][Q][H]
    float const* memory;            // [D][T + 1][B][H]; read for peepholes
    float* partial;                 // [chunks][columns]
    Strided<T> output;              // [1][1][D][2 G H], for peepholes [1][1][D][3 H]
    Steps steps;                    // for peepholes
    long long chunk_rows;           // the number of the T B rows that are summed at a time
    long long num_chunks;
    int seq_length;
    int batch_size;
    int num_directions;
    int hidden_size;
    int rows;                       // Q
    int gates;                      // G
    int backward[2];
};

/// The sums over all samples that a gradient of biases is made of: one column for each direction, row and unit.
struct OfBias {
    template <class T>
    __device__ static long long columns(SumParameters<T> const& parameters) {
        return static_cast<long long>(parameters.num_directions) * parameters.rows * parameters.hidden_size;
    }

    template <class T>
    __device__ static float term(SumParameters<T> const& parameters, long long row, long long column) {
        return parameters.gate_gradients[row * columns(parameters) + column];
    }

    template <class T>
    __device__ static long long outputs(SumParameters<T> const& parameters) {
        return 2LL * parameters.num_directions * parameters.gates * parameters.hidden_size;
    }

    /// The column that element `place` of a direction's [2][G][H] is. Q is above G if the last gate's recurrent product has a separate row
    /// before that of its input product.
    template <class T>
    __device__ static long long column(SumParameters<T> const& parameters, long long direction, long long place) {
        long long const hidden_size = parameters.hidden_size;
        long long const gate = place / hidden_size % parameters.gates;
        bool const of_input = place < parameters.gates * hidden_size;
        bool const is_last = gate == parameters.gates - 1;
        long long const row = of_input && is_last ? parameters.rows - 1 : gate;
        return (direction * parameters.rows + row) * hidden_size + place % hidden_size;
    }
};

/// The same for peepholes: gates i, o, f of Lstm, each gradient times the cell state that its gate read.
struct OfPeephole {
    template <class T>
    __device__ static long long columns(SumParameters<T> const& parameters) {
        return 3LL * parameters.num_directions * parameters.hidden_size;
    }

    template <class T>
    __device__ static float term(SumParameters<T> const& parameters, long long row, long long column) {
        long long const hidden_size = parameters.hidden_size;
        long long const unit = column % hidden_size;
        long long const gate = column / hidden_size % 3;
        long long const direction = column / hidden_size / 3;
        long long const time = row / parameters.batch_size;
        long long const sample = row % parameters.batch_size;
        if (!parameters.steps.takes(static_cast<int>(time), static_cast<int>(sample))) {
            return 0.0f;  // the state, which is carried, may be infinite
        }
        bool const sees_new_state = gate == 1;
        bool const backward = (direction == 0 ? parameters.backward[0] : parameters.backward[1]) != 0;
        long long const slot = sees_new_state != backward ? time + 1 : time;
        long long const state = (direction * (parameters.seq_length + 1LL) + slot) * parameters.batch_size + sample;
        long long const gradient = (row * parameters.num_directions + direction) * parameters.rows + gate;
        return parameters.gate_gradients[gradient * hidden_size + unit] * parameters.memory[state * hidden_size + unit];
    }

    template <class T>
    __device__ static long long outputs(SumParameters<T> const& parameters) {
        return columns(parameters);
    }

    template <class T>
    __device__ static long long column(SumParameters<T> const& parameters, long long direction, long long place) {
        return direction * 3 * parameters.hidden_size + place;
    }
};

/// partial = the sums over the rows of each chunk, in ascending order.
///
/// Grid: x is the columns, y the chunk. Block: one-dimensional, of any size; a thread owns columns.
template <class T, class Sums>
__global__ void sum_rows(SumParameters<T> parameters) {
    long long const columns = Sums::columns(parameters);
    long long const chunk = blockIdx.y;
    long long const rows = static_cast<long long>(parameters.seq_length) * parameters.batch_size;
    long long const first = chunk * parameters.chunk_rows;
    long long const end = first + parameters.chunk_rows < rows ? first + parameters.chunk_rows : rows;
#pragma unroll 1
    for (long long column = first_element(); column < columns; column += element_stride()) {
        float sum = 0.0f;
        for (long long row = first; row < end; ++row) {
            sum += Sums::term(parameters, row, column);
        }
        parameters.partial[chunk * columns + column] = sum;
    }
}

/// output = the sums over all chunks, in ascending order.
///
/// Grid and block: one-dimensional, of any size; a thread owns elements of the output.
template <class T, class Sums>
__global__ void sum_chunks(SumParameters<T> parameters) {
    long long const columns = Sums::columns(parameters);
    long long const outputs = Sums::outputs(parameters);
    long long const of_direction = outputs / parameters.num_directions;
#pragma unroll 1
    for (long long index = first_element(); index < outputs; index += element_stride()) {
        long long const direction = index / of_direction;
        long long const column = Sums::column(parameters, direction, index % of_direction);
        float sum = 0.0f;
        for (long long chunk = 0; chunk < parameters.num_chunks; ++chunk) {
            sum += parameters.partial[chunk * columns + column];
        }
        parameters.output.at(0, 0, direction, index % of_direction) = machine::from_float<T>(sum);
    }
}
