// Shared by the kernels of attention: their tensors, and the online softmax of a query's scores.
#pragma once

/// Queries, keys or values: earlier ones, then new ones with a bias.
template <class T>
struct Source {
    Strided<T const> past;    // [B, G, P, size]
    Strided<T const> fresh;   // [B, L, G, size]
    T const* bias;            // [G, size], or null
    long long bias_stride;
    int size;                 // of a head
    int wide;                 // whether elements are loaded 16 bytes at a time: they are contiguous and rows are aligned

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
    Limit past_lengths;                // the number of valid earlier keys, if not all; a query then attends to no new key after its own
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
    int most_valid;                    // the most valid earlier keys
    int fresh;                         // L
    int total;                         // keys that the present tensors hold
    float scale;
    float filter_value;

    /// The number of valid earlier keys of a batch entry.
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

/// The difference; 0 if both are equal, also for infinities.
__device__ __forceinline__ float distance(float a, float b) {
    return a == b ? 0.0f : a - b;
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
