// MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1.
//
//   y = softmax(scale Q K^T + position bias + filter value where the mask filters) V      for each head
//
// `attend` computes y; the scores never leave the chip. `keep` writes the present keys and values. T is the type of data, arithmetic is
// float. Sizes: B batch entries, S queries of H heads, keys and values of G heads, P of them earlier and L new, D elements of a head of
// queries and keys, E of values. In a batch entry `valid` of the P earlier ones count, and the new ones follow these.
//
// A block of `attend` takes a tile of the queries of one head and a tile of the values' elements. It walks over the keys, a tile at a time,
// and keeps for each query the maximum of the scores so far, the sum of their powers, and the weighted sum of the values, both relative to
// that maximum: where a tile raises it, they are scaled. The 256 threads are 16 x 16: a thread owns `rows` neighbouring queries, every 16th
// key of a tile and every 16th element of a value. Sums run over the keys in their order.
//
// What a mask adds counts from the most that it adds to any key of the query (`offset`), so that a query all of whose keys are filtered
// keeps the precision of its scores. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/elements.cuh"
#include "common/strided.cuh"

inline constexpr int lanes = 16;                // threads side by side, along keys and along a value's elements
inline constexpr int warp = 32;
inline constexpr int attend_threads = lanes * lanes;
inline constexpr int keys = 4;                  // of a thread in each tile
inline constexpr int key_tile = lanes * keys;
inline constexpr int depth = 32;                // elements of a product, or values, that are in shared memory together
inline constexpr int pitch = depth + 1;         // odd, so that neighbouring rows are in different banks
inline constexpr int weight_pitch = key_tile + 1;

/// Queries, keys or values: earlier ones, then new ones with a bias.
template <class T>
struct Source {
    Strided<T const> past;    // [B, G, P, size]
    Strided<T const> fresh;   // [B, L, G, size]
    T const* bias;            // [G, size], or null
    long long bias_stride;
    int size;                 // of a head

    __device__ __forceinline__ float at(int batch, int head, int place, int valid, int element) const {
        if (place < valid) {
            return machine::to_float(past.at(batch, head, place, element));
        }
        float const value = machine::to_float(fresh.at(batch, place - valid, head, element));
        if (bias == nullptr) {
            return value;
        }
        return value + machine::to_float(bias[(static_cast<long long>(head) * size + element) * bias_stride]);
    }
};

/// A number for each batch entry, or null.
struct Limit {
    int const* data;
    long long stride;

    __device__ int at(int batch) const { return data[batch * stride]; }
};

template <class T>
struct AttentionParameters {
    Source<T> query;                   // all new: [B, S, H, D]
    Source<T> key;
    Source<T> value;
    Strided<T const> position_bias;    // [B, H, S, T]
    Strided<int const> mask;           // [B, H, S, T]: 0 filters a key out
    Limit ends;                        // keys from there on are filtered out
    Limit starts;                      // and those before
    Limit past_lengths;                // how many earlier keys count, if not all; a query then sees no new key after its own
    Strided<T> output;                 // [B, S, H, E]
    Strided<T> present_key;            // [B, G, total, D]
    Strided<T> present_value;          // [B, G, total, E]
    long long tiles;                   // of queries and values' elements, of all heads and batch entries
    long long present_rows;            // B G total
    int query_tiles;
    int value_tiles;
    int heads;
    int groups;                        // heads of keys and values, each for equally many neighbouring heads of the queries
    int queries;
    int most_valid;                    // earlier keys that count, at most
    int fresh;                         // L
    int total;                         // keys that the present tensors hold
    float scale;
    float filter_value;

    /// How many earlier keys of a batch entry count.
    __device__ int valid(int batch) const {
        return past_lengths.data == nullptr ? most_valid : max(0, min(past_lengths.at(batch), most_valid));
    }

    __device__ bool masks() const { return mask.data != nullptr || ends.data != nullptr; }

    __device__ bool filters(int batch, int head, int query, int place) const {
        if (mask.data != nullptr) {
            return mask.at(batch, head, query, place) == 0;
        }
        return place >= ends.at(batch) || (starts.data != nullptr && place < starts.at(batch));
    }
};

/// What the lanes of a row have, merged for all of them alike.
template <class Merge>
__device__ __forceinline__ float over_lanes(float value, Merge const& merge) {
#pragma unroll
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        value = merge(value, machine::shuffle_xor(value, mask));
    }
    return value;
}

/// Whether a query of a block counts, and what it has seen of the keys.
struct Softmax {
    float most;      // score
    float sum;       // of powers of the scores, relative to it
    float offset;    // the most that the mask added
    int seen;        // keys that the query may see, the first ones; 0 beyond the last query
};

/// One minus another, 0 if they are equal: of infinities too.
__device__ __forceinline__ float distance(float a, float b) {
    return a == b ? 0.0f : a - b;
}

/// Brings a part of the rows of queries or keys into shared memory, from one element of a head on; zeros beyond the last one of either.
template <int tile, class T>
__device__ __forceinline__ void stage_rows(Source<T> const& source, int batch, int head, int first, int count, int valid, int element,
                                           float* staged) {
    int const lane = static_cast<int>(threadIdx.x) % warp;
    bool const within = element + lane < source.size;
#pragma unroll 2
    for (int row = static_cast<int>(threadIdx.x) / warp; row < tile; row += attend_threads / warp) {
        int const place = first + row;
        staged[row * pitch + lane] = within && place < count ? source.at(batch, head, place, valid, element + lane) : 0.0f;
    }
}

template <class T, int rows, int columns>
__global__ void __launch_bounds__(attend_threads, 1) attend(const __grid_constant__ AttentionParameters<T> parameters) {
    constexpr int query_tile = lanes * rows;
    constexpr int value_tile = lanes * columns;
    constexpr int row_words = (query_tile + key_tile) * pitch;
    constexpr int value_words = depth * value_tile;
    __shared__ float staged[row_words > value_words ? row_words : value_words];  // queries and keys, and later values
    __shared__ float weights[query_tile * weight_pitch];
    int const x = static_cast<int>(threadIdx.x) % lanes;
    int const y = static_cast<int>(threadIdx.x) / lanes;
    float const infinity = machine::float_of_bits(0x7f800000u);

#pragma unroll 1
    for (long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        long long rest = tile / parameters.query_tiles;
        int const first_query = static_cast<int>(tile - rest * parameters.query_tiles) * query_tile;
        int const first_column = static_cast<int>(rest % parameters.value_tiles) * value_tile;
        rest /= parameters.value_tiles;
        int const head = static_cast<int>(rest % parameters.heads);
        int const batch = static_cast<int>(rest / parameters.heads);
        int const group = head / (parameters.heads / parameters.groups);
        int const valid = parameters.valid(batch);
        int const count = valid + parameters.fresh;

        Softmax softmax[rows];
        float results[rows][columns] = {};
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            int const query = first_query + y * rows + i;
            int const seen = parameters.past_lengths.data == nullptr ? count : valid + min(parameters.fresh, query + 1);
            softmax[i] = {-infinity, 0.0f, -infinity, query < parameters.queries ? seen : 0};
        }

#pragma unroll 1
        for (int first_key = 0; first_key < count; first_key += key_tile) {
            float scores[rows][keys] = {};
#pragma unroll 1
            for (int element = 0; element < parameters.key.size; element += depth) {
                float* const staged_keys = staged + query_tile * pitch;
                __syncthreads();
                stage_rows<query_tile>(parameters.query, batch, head, first_query, parameters.queries, 0, element, staged);
                stage_rows<key_tile>(parameters.key, batch, group, first_key, count, valid, element, staged_keys);
                __syncthreads();
#pragma unroll 4
                for (int k = 0; k < depth; ++k) {
                    float q[rows];
#pragma unroll
                    for (int i = 0; i < rows; ++i) {
                        q[i] = staged[(y * rows + i) * pitch + k];
                    }
#pragma unroll
                    for (int j = 0; j < keys; ++j) {
                        float const key = staged_keys[(x + lanes * j) * pitch + k];
#pragma unroll
                        for (int i = 0; i < rows; ++i) {
                            scores[i][j] += q[i] * key;
                        }
                    }
                }
            }

#pragma unroll
            for (int i = 0; i < rows; ++i) {
                int const query = first_query + y * rows + i;
                Softmax const before = softmax[i];
                float added[keys] = {};
                float offset = 0.0f;
#pragma unroll
                for (int j = 0; j < keys; ++j) {
                    scores[i][j] *= parameters.scale;
                    int const place = first_key + x + lanes * j;
                    if (parameters.position_bias.data != nullptr && place < before.seen) {
                        scores[i][j] += machine::to_float(parameters.position_bias.at(batch, head, query, place));
                    }
                }
                if (parameters.masks()) {
                    offset = before.offset;
#pragma unroll
                    for (int j = 0; j < keys; ++j) {
                        int const place = first_key + x + lanes * j;
                        if (place < before.seen) {
                            added[j] = parameters.filters(batch, head, query, place) ? parameters.filter_value : 0.0f;
                            offset = fmaxf(offset, added[j]);
                        }
                    }
                    offset = over_lanes(offset, [](float a, float b) { return fmaxf(a, b); });
                }
                float const earlier = before.most + distance(before.offset, offset);
                float most = earlier;
#pragma unroll
                for (int j = 0; j < keys; ++j) {
                    scores[i][j] += distance(added[j], offset);
                    if (first_key + x + lanes * j < before.seen) {
                        most = fmaxf(most, scores[i][j]);
                    }
                }
                most = over_lanes(most, [](float a, float b) { return fmaxf(a, b); });
                float const origin = most == -infinity ? 0.0f : most;
                float const factor = expf(earlier - origin);
                float sum = 0.0f;
#pragma unroll
                for (int j = 0; j < keys; ++j) {
                    int const own = x + lanes * j;
                    float const weight = first_key + own < before.seen ? expf(scores[i][j] - origin) : 0.0f;
                    weights[(y * rows + i) * weight_pitch + own] = weight;
                    sum += weight;
                }
                sum = over_lanes(sum, [](float a, float b) { return a + b; });
                softmax[i].most = most;
                softmax[i].offset = offset;
                softmax[i].sum = before.sum * factor + sum;
#pragma unroll
                for (int j = 0; j < columns; ++j) {
                    results[i][j] *= factor;
                }
            }

#pragma unroll 1
            for (int first = 0; first < key_tile && first_key + first < count; first += depth) {
                __syncthreads();
#pragma unroll 2
                for (int number = static_cast<int>(threadIdx.x); number < value_words; number += attend_threads) {
                    int const place = first_key + first + number / value_tile;
                    int const column = first_column + number % value_tile;
                    bool const within = place < count && column < parameters.value.size;
                    staged[number] = within ? parameters.value.at(batch, group, place, valid, column) : 0.0f;
                }
                __syncthreads();
#pragma unroll 4
                for (int k = 0; k < depth; ++k) {
                    float weight[rows];
#pragma unroll
                    for (int i = 0; i < rows; ++i) {
                        weight[i] = weights[(y * rows + i) * weight_pitch + first + k];
                    }
#pragma unroll
                    for (int j = 0; j < columns; ++j) {
                        float const value = staged[k * value_tile + x + lanes * j];
#pragma unroll
                        for (int i = 0; i < rows; ++i) {
                            results[i][j] += weight[i] * value;
                        }
                    }
                }
            }
        }

#pragma unroll
        for (int i = 0; i < rows; ++i) {
            int const query = first_query + y * rows + i;
            if (query < parameters.queries) {
#pragma unroll
                for (int j = 0; j < columns; ++j) {
                    int const column = first_column + x + lanes * j;
                    if (column < parameters.value.size) {
                        float const result = softmax[i].seen == 0 ? 0.0f : results[i][j] / softmax[i].sum;
                        parameters.output.at(batch, query, head, column) = machine::from_float<T>(result);
                    }
                }
            }
        }
    }
}

/// One row of a present tensor, by the lanes of a warp; zeros behind the new ones.
template <class T>
__device__ __forceinline__ void keep_row(Source<T> const& source, Strided<T> const& present, int batch, int group, int place, int valid,
                                         bool counts) {
    if (present.data == nullptr) {
        return;
    }
#pragma unroll 1
    for (int element = static_cast<int>(threadIdx.x) % warp; element < source.size; element += warp) {
        float const value = counts ? source.at(batch, group, place, valid, element) : 0.0f;
        present.at(batch, group, place, element) = machine::from_float<T>(value);
    }
}

/// Warps own rows of the present tensors, of both those that are wanted; the grid is one-dimensional, of any size.
template <class T>
__global__ void keep(const __grid_constant__ AttentionParameters<T> parameters) {
#pragma unroll 1
    for (long long row = first_element() / warp; row < parameters.present_rows; row += element_stride() / warp) {
        long long const head = row / parameters.total;
        int const place = static_cast<int>(row - head * parameters.total);
        int const batch = static_cast<int>(head / parameters.groups);
        int const group = static_cast<int>(head - static_cast<long long>(batch) * parameters.groups);
        int const valid = parameters.valid(batch);
        bool const counts = place < valid + parameters.fresh;
        keep_row(parameters.key, parameters.present_key, batch, group, place, valid, counts);
        keep_row(parameters.value, parameters.present_value, batch, group, place, valid, counts);
    }
}
