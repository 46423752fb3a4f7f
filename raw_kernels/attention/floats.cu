// Attention of float32 tensors, for heads of up to 256 elements.
//
// A block of 128 threads, 16 x 8, has a tile of rows, queries of the heads that share keys and values, and some tiles of keys. A thread has
// every 16th row and, of a tile of scores, every 8th key; of the results four neighbouring columns of each 32. Queries stay in shared
// memory. Keys pass through it in pieces of 64 by 32 elements, values in pieces of 32 by 64, in three stages: two pieces are under way while
// one is multiplied. The eight lanes that have a row exchange its weights through shared memory.
//
// `plain` as in attention/tensor_cores.cu, and parts of the keys likewise.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "attention/attention.cuh"
#include "attention/scores.cuh"

inline constexpr int depth = 32;             // elements of a piece of keys
inline constexpr int quads = depth / 4;
inline constexpr int columns_of_piece = 64;  // of values
inline constexpr int keys_of_piece = 32;     // whose values are in a piece
inline constexpr int stages = 3;
inline constexpr int piece_floats = 2048;    // of a piece
inline constexpr int weight_pitch = 72;      // floats of a row of weights: neighbouring rows begin in different banks

/// How a block divides its work.
template <int size, bool few, bool plain>
struct Division {
    static constexpr int keys = 64;                                       // of a tile
    static constexpr int own_keys = keys;                                 // of neighbouring lanes
    static constexpr int threads = 128;
    static constexpr int own_rows = few ? 1 : size > (plain ? 128 : 64) ? 2 : 4;   // of a thread
    static constexpr int own_scores = 8;                                  // of each of them
    static constexpr int lanes = 8;                                       // neighbours that have a row
    static constexpr int rows = threads / lanes * own_rows;

    using Scores = float[own_rows][own_scores];

    __device__ __forceinline__ static float& score(Scores& scores, int row, int j) { return scores[row][j]; }

    /// A thread's rows and keys, counted from its first.
    __device__ __forceinline__ static constexpr int row_of(int row) { return row * (threads / lanes); }
    __device__ __forceinline__ static constexpr int key_of(int j) { return j * lanes; }

    /// The number of them before a key that is counted so.
    __device__ __forceinline__ static int keys_before(int key) { return (key + lanes - 1) / lanes; }
};

/// Where four neighbours of a row of a piece begin. They change places such that those of one column of 8 rows are in different banks.
template <int pitch>
__device__ __forceinline__ int place_of(int row, int quad) {
    return row * pitch + (quad ^ row % 8) * 4;
}

__device__ __forceinline__ Vector4<float>& quad_at(float* place) {
    return *reinterpret_cast<Vector4<float>*>(place);
}

/// Four neighbouring elements, read one by one, with a bias where there is one; zeros past the last of `left` elements.
__device__ __forceinline__ Vector4<float> quad_of(float const* from, long long stride, int left, float const* bias, long long bias_stride) {
    Vector4<float> quad = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (e < left) {
            quad.values[e] = bias == nullptr ? from[e * stride] : from[e * stride] + bias[e * bias_stride];
        }
    }
    return quad;
}

/// Begins to copy a piece: rows of a tile of keys or values from one on, with 2^quads_log quads, from an element on.
template <class Own, bool plain>
__device__ __forceinline__ void begin_piece(Source<float> const& source, RowsAndKeys const& work, KeyTile const& tile, int first_row, int element,
                                            int quads_log, float* piece) {
    constexpr int copies = piece_floats / 4 / Own::threads;   // of a thread
    int const thread = static_cast<int>(threadIdx.x), row = thread >> quads_log, quad = thread & ((1 << quads_log) - 1);
    int const further = Own::threads >> quads_log, first = element + quad * 4;   // rows between a thread's copies, a multiple of 8
    float const* from;
    long long stride, element_stride;
    if (tile.earlier) {
        from = &source.past.at(work.batch, work.group, 0, 0);
        stride = source.past.strides[2];
        element_stride = source.past.strides[3];
    } else {
        from = &source.fresh.at(work.batch, 0, work.group, 0);
        stride = source.fresh.strides[1];
        element_stride = source.fresh.strides[3];
    }
    int const row_of_all = tile.first + first_row + row;
    int const left = first < source.size ? tile.count - first_row - row : 0;
    float* const to = piece + ((row << quads_log) + (quad ^ row % 8)) * 4;
    if (plain || source.wide != 0) {
        int const short_stride = static_cast<int>(stride);
        from += static_cast<long long>(short_stride) * row_of_all + first;
#pragma unroll
        for (int i = 0; i < copies; ++i) {
            machine::copy_async(to + i * (Own::threads * 4), from + static_cast<long long>(short_stride) * (i * further), i * further < left);
        }
    } else {
        from += stride * row_of_all + first * element_stride;
#pragma unroll 1
        for (int i = 0; i < copies; ++i) {
            int const elements = i * further < left ? source.size - first : 0;
            quad_at(to + i * (Own::threads * 4)) = quad_of(from + i * further * stride, element_stride, elements, nullptr, 0);
        }
    }
}

/// The queries of a block's rows in shared memory, in pieces; with the other sign where the scale is negative.
template <int size, class Own, bool plain>
__device__ __forceinline__ void stage_queries(AttentionParameters<float> const& parameters, RowsAndKeys const& work, float* queries) {
    Source<float> const& source = parameters.query;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < Own::rows * (size / 4); number += Own::threads) {
        int const row = number / (size / 4), quad = number % (size / 4), element = quad * 4;
        bool const exists = work.first_row + row < parameters.rows && element < source.size;
        int const all = exists ? work.first_row + row : 0;
        int const query = all / parameters.group_heads, head = work.group * parameters.group_heads + all % parameters.group_heads;
        float const* const bias = source.bias == nullptr || !exists ? nullptr : source.bias_place(head, element);
        float const* const from = &source.fresh.at(work.batch, query, head, exists ? element : 0);
        Vector4<float> values;
        if (plain || (source.wide != 0 && source.bias == nullptr)) {
            values = exists ? *reinterpret_cast<Vector4<float> const*>(from) : Vector4<float>{};
        } else {
            values = quad_of(from, source.fresh.strides[3], exists ? source.size - element : 0, bias, source.bias_stride);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            values.values[e] = parameters.scale < 0.0f ? -values.values[e] : values.values[e];
        }
        quad_at(queries + quad / quads * (Own::rows * depth) + place_of<depth>(row, quad % quads)) = values;
    }
}

/// Adds the products of a piece of queries and one of keys.
template <class Own>
__device__ __forceinline__ void add_products(typename Own::Scores& scores, float* queries, float* keys) {
    int const x = static_cast<int>(threadIdx.x) % Own::lanes, y = static_cast<int>(threadIdx.x) / Own::lanes;
#pragma unroll 2
    for (int quad = 0; quad < quads; ++quad) {
        Vector4<float> q[Own::own_rows];
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            q[i] = quad_at(queries + place_of<depth>(y, quad) + Own::row_of(i) * depth);
        }
#pragma unroll
        for (int j = 0; j < Own::own_scores; ++j) {
            Vector4<float> const key = quad_at(keys + place_of<depth>(x, quad) + Own::key_of(j) * depth);
#pragma unroll
            for (int i = 0; i < Own::own_rows; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    scores[i][j] += q[i].values[e] * key.values[e];
                }
            }
        }
    }
}

/// Adds the products of a thread's weights and a piece of values.
template <class Own>
__device__ __forceinline__ void add_values(float (&results)[Own::own_rows][2][4], float* weights, float* values) {
    int const x = static_cast<int>(threadIdx.x) % Own::lanes, y = static_cast<int>(threadIdx.x) / Own::lanes;
#pragma unroll 2
    for (int key = 0; key < keys_of_piece; key += 4) {
        Vector4<float> weight[Own::own_rows];
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            weight[i] = quad_at(weights + (y + Own::row_of(i)) * weight_pitch + key);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                Vector4<float> const value = quad_at(values + place_of<columns_of_piece>(key + e, x) + part * depth);
#pragma unroll
                for (int i = 0; i < Own::own_rows; ++i) {
#pragma unroll
                    for (int column = 0; column < 4; ++column) {
                        results[i][part][column] += weight[i].values[e] * value.values[column];
                    }
                }
            }
        }
    }
}

/// The pieces of a block's tiles in the order in which they are used: those of a tile's keys, then those of its values.
template <class Own, bool plain>
class Pieces {
  public:
    __device__ __forceinline__ Pieces(AttentionParameters<float> const& parameters, RowsAndKeys const& work, float* staged)
        : parameters_(parameters), work_(work), staged_(staged), tile_(work.first_tile), piece_(0), stage_(0) {
        of_keys_ = (parameters.key.size + depth - 1) / depth;
        all_ = of_keys_ + of_columns() * (Own::keys / keys_of_piece);
#pragma unroll 1
        for (int i = 0; i < stages - 1; ++i) {
            begin();
        }
    }

    __device__ __forceinline__ int of_keys() const { return of_keys_; }
    __device__ __forceinline__ int of_columns() const { return (parameters_.value.size + columns_of_piece - 1) / columns_of_piece; }

    /// The next piece, once it is there. The one after the next begins to come.
    __device__ __forceinline__ float* next() {
        machine::wait_for_copies<1>();
        __syncthreads();
        float* const here = staged_ + (stage_ == stages - 1 ? 0 : stage_ + 1) * piece_floats;
        begin();
        return here;
    }

  private:
    __device__ __forceinline__ void begin() {
        if (tile_ < work_.end_tile) {
            KeyTile const tile = work_.tile<Own::keys>(tile_);
            bool const is_key = piece_ < of_keys_;
            int const of_values = piece_ - of_keys_;
            begin_piece<Own, plain>(is_key ? parameters_.key : parameters_.value, work_, tile, is_key ? 0 : of_values % 2 * keys_of_piece,
                                    is_key ? piece_ * depth : of_values / 2 * columns_of_piece, is_key ? 3 : 4,
                                    staged_ + stage_ * piece_floats);
            piece_ += 1;
            if (piece_ == all_) {
                piece_ = 0;
                tile_ += 1;
            }
        }
        machine::commit_copies();
        stage_ = stage_ == stages - 1 ? 0 : stage_ + 1;
    }

    AttentionParameters<float> const& parameters_;
    RowsAndKeys const& work_;
    float* staged_;
    int tile_;      // of the piece that begins next
    int piece_;
    int stage_;
    int of_keys_;
    int all_;
};

/// What the biases of new keys add to a row's scores: a lane has a part of the sum.
template <class Own>
__device__ __forceinline__ float bias_of_keys(Source<float> const& source, int group, float* queries, int row) {
    float sum = 0.0f;
#pragma unroll 1
    for (int element = static_cast<int>(threadIdx.x) % Own::lanes; element < source.size; element += Own::lanes) {
        float const query = queries[element / depth * (Own::rows * depth) + place_of<depth>(row, element % depth / 4) + element % 4];
        sum += query * source.bias_at(group, element);
    }
    return over_lanes<Own::lanes, Sum>(sum);
}

/// Writes four neighbouring results of a row, or those of a part of its keys.
__device__ __forceinline__ void write(AttentionParameters<float> const& parameters, BlockPlace const& place, int row, int column,
                                      Vector4<float> results, State const& state) {
    int const columns = parameters.value.size;
    if (row >= parameters.rows || column >= columns) {
        return;
    }
    if (parameters.part_results != nullptr) {
        long long const at = part_row(parameters, place.part, place.batch, place.group, row);
        quad_at(parameters.part_results + at * result_columns(columns) + column) = results;
        if (column == 0) {
            quad_at(parameters.part_states + at * 4) = {{state.most, state.offset, state.sum, state.earlier}};
        }
        return;
    }
    int const query = row / parameters.group_heads, head = place.group * parameters.group_heads + row % parameters.group_heads;
    float const inverse = parameters.seen(query, place.valid) == 0 ? 0.0f : 1.0f / state.sum;
    float* const output = &parameters.output.at(place.batch, query, head, column);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (parameters.value.bias != nullptr && column + e < columns) {
            results.values[e] += (state.sum - state.earlier) * parameters.value.bias_at(place.group, column + e);
        }
        results.values[e] *= inverse;
        if (parameters.wide_output == 0 && column + e < columns) {
            output[e * parameters.output.strides[3]] = results.values[e];
        }
    }
    if (parameters.wide_output != 0) {
        quad_at(output) = results;
    }
}

template <int size, bool few, bool plain>
__global__ void __launch_bounds__(Division<size, few, plain>::threads, few && size <= 128 ? 3 : 2)
    attend_floats(const __grid_constant__ AttentionParameters<float> parameters) {
    using Own = Division<size, few, plain>;
    float* const staged = machine::dynamic_shared<float>();
    float* const queries = staged + stages * piece_floats;
    float* const weights = queries + Own::rows * size;
    int const x = static_cast<int>(threadIdx.x) % Own::lanes, y = static_cast<int>(threadIdx.x) / Own::lanes;

    RowsAndKeys const work = rows_and_keys<Own::rows, Own::keys>(parameters, static_cast<int>(blockIdx.x));
    Pieces<Own, plain> pieces(parameters, work, staged);
    stage_queries<size, Own, plain>(parameters, work, queries);
    __syncthreads();
    float const scale = fmaxf(fabsf(parameters.scale) * log2_e, least_scale);
    Seen<Own> const seen(parameters, work, work.first_row + y);
    Additions<float, Own, plain> additions(parameters, work, work.first_row + y);
    State states[Own::own_rows];
#pragma unroll
    for (int i = 0; i < Own::own_rows; ++i) {
        states[i] = no_keys();
        if constexpr (!plain) {
            if (parameters.key.bias != nullptr) {
                additions.set_bias_of_keys(i, bias_of_keys<Own>(parameters.key, work.group, queries, y + Own::row_of(i)));
            }
        }
    }
    float results[size / columns_of_piece][Own::own_rows][2][4] = {};
    // Prefetches: each piece is waited for after the one before has been multiplied.
#pragma unroll 1
    for (int number = work.first_tile; number < work.end_tile; ++number) {
        KeyTile const keys = work.tile<Own::keys>(number);
        typename Own::Scores scores = {};
        additions.load(seen, keys, x);
#pragma unroll 1
        for (int piece = 0; piece < pieces.of_keys(); ++piece) {
            add_products<Own>(scores, queries + piece * (Own::rows * depth), pieces.next());
        }
        additions.add(scores, states, seen, keys, x, scale);
        seen.hide(scores, keys, x);
        weigh<float, Own>(scores, states, plain ? scale : 1.0f, [&](int row, float factor) {
#pragma unroll
            for (int piece = 0; piece < size / columns_of_piece; ++piece) {
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    results[piece][row][e / 4][e % 4] *= factor;
                }
            }
        });
        __syncwarp();
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            if (!plain && keys.earlier) {
                states[i].earlier = states[i].sum;
            }
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                weights[(y + Own::row_of(i)) * weight_pitch + x + Own::key_of(j)] = scores[i][j];
            }
        }
        __syncwarp();
#pragma unroll
        for (int piece = 0; piece < size / columns_of_piece; ++piece) {
            if (piece < pieces.of_columns()) {
#pragma unroll 1
                for (int key = 0; key < Own::keys; key += keys_of_piece) {
                    add_values<Own>(results[piece], weights + key, pieces.next());
                }
            }
        }
    }

    // Results and states pass through shared memory, so that a loop writes them.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Own::own_rows; ++i) {
        int const row = y + Own::row_of(i);
        float const sum = over_lanes<Own::lanes, Sum>(states[i].sum), earlier = over_lanes<Own::lanes, Sum>(states[i].earlier);
        if (x == 0) {
            quad_at(weights + row * 4) = {{states[i].most, states[i].offset, sum, earlier}};
        }
#pragma unroll
        for (int part = 0; part < size / depth; ++part) {
            float const(&four)[4] = results[part / 2][i][part % 2];
            quad_at(queries + row * size + part * depth + x * 4) = {{four[0], four[1], four[2], four[3]}};
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < Own::rows * (size / 4); number += Own::threads) {
        int const row = number / (size / 4);
        write(parameters, work, work.first_row + row, number % (size / 4) * 4, quad_at(queries + number * 4), state_of(quad_at(weights + row * 4)));
    }
}
