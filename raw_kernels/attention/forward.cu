// MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1.
//
//   y = softmax(scale Q K^T + position bias + filter value where the mask filters) V      for each head
//
// `attend` computes y; the scores never leave the chip. `finish` writes the present keys and values, and computes rows anew that became NaN
// by keys that they leave out: those beyond what a query sees, and those filtered out by a value of minus infinity. T is the type of data, arithmetic is
// float. Sizes: B batch entries, S queries of H heads, keys and values of G heads, P of them earlier and L new, D elements of a head of
// queries and keys, E of values. In a batch entry `valid` of the P earlier ones are used, followed by the new ones.
//
// A block of `attend` has a tile of the queries of one head and a tile of the values' elements. It iterates over the keys, a tile at a
// time, and holds for each query the maximum of the scores so far, the sum of their exponentials, and the weighted sum of the values, both
// relative to that maximum: if a tile raises it, they are rescaled. The 256 threads are 16 x 16: a thread owns `rows` neighbouring
// queries, every 16th key of a tile and every 16th element of a value. Sums run over the keys in their order.
//
// Mask values are relative to the largest one of the query (`offset`), so that a query all of whose keys are filtered
// keeps the precision of its scores. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "attention/attention.cuh"

/// Merges the values of a query's neighbouring lanes, for all of them.
template <int lanes, class Merge>
__device__ __forceinline__ float over_lanes(float value, Merge const& merge) {
#pragma unroll
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        value = merge(value, machine::shuffle_xor(value, mask));
    }
    return value;
}

/// The running softmax of a query over the keys so far.
struct Softmax {
    float most;      // score
    float sum;       // of the exponentials of scores relative to `most`
    float offset;    // the most that the mask added
    int seen;        // the number of leading keys that the query attends to; 0 past the last query
};

/// The state before the first key.
template <class T>
__device__ __forceinline__ Softmax softmax_of(AttentionParameters<T> const& parameters, int query, int valid) {
    float const infinity = machine::float_of_bits(0x7f800000u);
    int const seen = valid + (parameters.past_lengths.data == nullptr ? parameters.fresh : min(parameters.fresh, query + 1));
    return {-infinity, 0.0f, -infinity, query < parameters.queries ? seen : 0};
}

/// Converts a query's products with more keys to weights, and returns the factor of the results so far. The neighbouring lanes of a query
/// have `count` products each, for the keys place(0), place(1), ...
template <int lanes, class T, int count, class Place>
__device__ __forceinline__ float weigh(AttentionParameters<T> const& parameters, int batch, int head, int query, Softmax& softmax,
                                       float (&scores)[count], Place const& place) {
    auto const larger = [](float a, float b) { return fmaxf(a, b); };
    float const infinity = machine::float_of_bits(0x7f800000u);
    Softmax const before = softmax;
    unsigned filtered = 0;   // a bit for each key
    float offset = 0.0f;
#pragma unroll
    for (int j = 0; j < count; ++j) {
        scores[j] *= parameters.scale;
        if (parameters.position_bias.data != nullptr && place(j) < before.seen) {
            scores[j] += machine::to_float(parameters.position_bias.at(batch, head, query, place(j)));
        }
    }
    if (parameters.masks()) {
        offset = before.offset;
#pragma unroll
        for (int j = 0; j < count; ++j) {
            if (place(j) < before.seen) {
                bool const is = parameters.filters(batch, head, query, place(j));
                filtered |= static_cast<unsigned>(is) << j;
                offset = fmaxf(offset, is ? parameters.filter_value : 0.0f);
            }
        }
        offset = over_lanes<lanes>(offset, larger);
    }
    float const earlier = before.most + distance(before.offset, offset);
    float const of_filtered = distance(parameters.filter_value, offset), of_others = distance(0.0f, offset);
    float most = earlier;
#pragma unroll
    for (int j = 0; j < count; ++j) {
        scores[j] += (filtered >> j & 1) != 0 ? of_filtered : of_others;
        if (place(j) < before.seen) {
            most = fmaxf(most, scores[j]);
        }
    }
    most = over_lanes<lanes>(most, larger);
    float const origin = most == -infinity ? 0.0f : most;
    float const factor = expf(earlier - origin);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < count; ++j) {
        scores[j] = place(j) < before.seen ? expf(scores[j] - origin) : 0.0f;
        sum += scores[j];
    }
    sum = over_lanes<lanes>(sum, [](float a, float b) { return a + b; });
    softmax.most = most;
    softmax.offset = offset;
    softmax.sum = before.sum * factor + sum;
    return factor;
}

/// The work of a block of `attend` or `attend_halves`.
struct Task {
    int first_query;
    int first_column;
    int head;
    int group;
    int batch;
    int valid;     // earlier keys that count
    int count;     // keys in all
};

template <class T>
__device__ __forceinline__ Task task_at(AttentionParameters<T> const& parameters, long long tile, int query_tile, int value_tile) {
    Task task;
    long long rest = tile / parameters.query_tiles;
    task.first_query = static_cast<int>(tile - rest * parameters.query_tiles) * query_tile;
    task.first_column = static_cast<int>(rest % parameters.value_tiles) * value_tile;
    rest /= parameters.value_tiles;
    task.head = static_cast<int>(rest % parameters.heads);
    task.batch = static_cast<int>(rest / parameters.heads);
    task.group = task.head / (parameters.heads / parameters.groups);
    task.valid = parameters.valid(task.batch);
    task.count = task.valid + parameters.fresh;
    return task;
}

inline constexpr int lanes = 16;                // threads along keys and along a value's elements
inline constexpr int warp = 32;
inline constexpr int attend_threads = lanes * lanes;
inline constexpr int keys = 4;                  // of a thread in each tile
inline constexpr int key_tile = lanes * keys;
inline constexpr int depth = 32;                // elements of a product, or values, that are in shared memory at a time
inline constexpr int pitch = depth + 1;         // odd, so that neighbouring rows are in different banks
inline constexpr int weight_pitch = key_tile + 1;

/// Copies a part of the rows of queries or keys to shared memory, from one element of a head on; zeros past the last one of either.
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

#pragma unroll 1
    for (long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        Task const task = task_at(parameters, tile, query_tile, value_tile);
        int const batch = task.batch, head = task.head, group = task.group, valid = task.valid, count = task.count;
        int const first_query = task.first_query, first_column = task.first_column;
        Softmax softmax[rows];
        float results[rows][columns] = {};
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            softmax[i] = softmax_of(parameters, first_query + y * rows + i, valid);
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
                float const factor = weigh<lanes>(parameters, batch, head, first_query + y * rows + i, softmax[i], scores[i],
                                                  [&](int j) { return first_key + x + lanes * j; });
#pragma unroll
                for (int j = 0; j < keys; ++j) {
                    weights[(y * rows + i) * weight_pitch + x + lanes * j] = scores[i][j];
                }
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

/// One row of a present tensor, by the lanes of a warp; zeros after the new ones.
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

/// The keys that count for a query, and what their scores are: slow, for few rows. All lanes of a warp have the same one.
template <class T>
class CountedKeys {
  public:
    __device__ __forceinline__ CountedKeys(AttentionParameters<T> const& parameters, int batch, int head, int query)
        : parameters_(parameters), batch_(batch), head_(head), query_(query), valid_(parameters.valid(batch)),
          seen_(parameters.seen(query, valid_)), offset_(-infinity()) {
        auto const larger = [](float a, float b) { return fmaxf(a, b); };
        for (int place = lane(); parameters.masks() && place < seen_; place += warp) {
            offset_ = fmaxf(offset_, parameters.filters(batch, head, query, place) ? parameters.filter_value : 0.0f);
        }
        offset_ = over_lanes<warp>(offset_, larger);
        excludes_ = parameters.excludes() && offset_ == 0.0f;
        most_ = -infinity();
        for (int place = 0; place < seen_; ++place) {
            most_ = counts(place) ? fmaxf(most_, score(place)) : most_;
        }
        sum_ = 0.0f;
        for (int place = 0; place < seen_; ++place) {
            sum_ += counts(place) ? weight(place) : 0.0f;
        }
    }

    /// A sum of values, divided by that of the weights.
    __device__ __forceinline__ float result(int column) const {
        int const group = head_ / parameters_.group_heads;
        float total = 0.0f;
        for (int place = 0; place < seen_; ++place) {
            if (counts(place)) {
                float const own = weight(place);
                total += column < parameters_.value.size ? own * parameters_.value.at(batch_, group, place, valid_, column) : 0.0f;
            }
        }
        return seen_ == 0 ? 0.0f : total / sum_;
    }

    __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % warp; }

  private:
    __device__ __forceinline__ static float infinity() { return machine::float_of_bits(infinity_bits); }

    __device__ __forceinline__ bool counts(int place) const {
        return !excludes_ || !parameters_.filters(batch_, head_, query_, place);
    }

    __device__ __forceinline__ float score(int place) const {
        int const group = head_ / parameters_.group_heads;
        float sum = 0.0f;
        for (int element = lane(); element < parameters_.key.size; element += warp) {
            float const query = parameters_.query.at(batch_, head_, query_, 0, element);
            sum += query * parameters_.key.at(batch_, group, place, valid_, element);
        }
        sum = parameters_.scale * over_lanes<warp>(sum, [](float a, float b) { return a + b; });
        if (parameters_.position_bias.data != nullptr) {
            sum += machine::to_float(parameters_.position_bias.at(batch_, head_, query_, place));
        }
        if (parameters_.masks()) {
            sum += distance(parameters_.filters(batch_, head_, query_, place) ? parameters_.filter_value : 0.0f, offset_);
        }
        return sum;
    }

    __device__ __forceinline__ float weight(int place) const { return expf(score(place) - origin_of(most_)); }

    AttentionParameters<T> const& parameters_;
    int batch_;
    int head_;
    int query_;
    int valid_;
    int seen_;
    float offset_;    // the most that the mask adds to a score
    bool excludes_;
    float most_;      // score
    float sum_;       // of the weights
};

/// Computes the elements of a row of the output anew that are NaN.
template <class T>
__device__ __forceinline__ void mend_row(AttentionParameters<T> const& parameters, int batch, int head, int query) {
    int const lane = CountedKeys<T>::lane();
    auto const is_nan = [&](int column) {
        float const value = column < parameters.value.size ? machine::to_float(parameters.output.at(batch, query, head, column)) : 0.0f;
        return value != value;
    };
    float any = 0.0f;
    for (int column = lane; column < parameters.value.size; column += warp) {
        any = is_nan(column) ? 1.0f : any;
    }
    if (over_lanes<warp>(any, [](float a, float b) { return fmaxf(a, b); }) == 0.0f) {
        return;
    }
    CountedKeys<T> const keys(parameters, batch, head, query);
    for (int first = 0; first < parameters.value.size; first += warp) {
        float const result = keys.result(first + lane);
        if (is_nan(first + lane)) {
            parameters.output.at(batch, query, head, first + lane) = machine::from_float<T>(result);
        }
    }
}

/// Warps own rows of the present tensors, keys and values as requested, and of the output; the grid is one-dimensional, of any size.
template <class T>
__global__ void finish(const __grid_constant__ AttentionParameters<T> parameters) {
#pragma unroll 1
    for (long long row = first_element() / warp; row < parameters.mended_rows; row += element_stride() / warp) {
        long long const of_batch = static_cast<long long>(parameters.heads) * parameters.queries;
        int const batch = static_cast<int>(row / of_batch), rest = static_cast<int>(row % of_batch);
        mend_row(parameters, batch, rest / parameters.queries, rest % parameters.queries);
    }
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
