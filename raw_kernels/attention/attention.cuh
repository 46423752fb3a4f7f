// Shared by the kernels of attention: their tensors, how the keys of a batch entry are divided, and partial results.
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
        return value + bias_at(head, element);
    }

    __device__ __forceinline__ T const* bias_place(int head, int element) const {
        return bias + (static_cast<long long>(head) * size + element) * bias_stride;
    }

    __device__ __forceinline__ float bias_at(int head, int element) const { return machine::to_float(*bias_place(head, element)); }
};

/// A number for each batch entry, or null.
struct Limit {
    int const* data;
    long long stride;

    __device__ int at(int batch) const { return data[batch * stride]; }
};

inline constexpr float log2_e = 1.44269504088896340736f;
inline constexpr unsigned infinity_bits = 0x7f800000u;

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
    float* part_results;               // sums of values: [result parts, B, G, rows, E up to a multiple of 8]; or null: blocks have all keys
    float* part_states;                // [result parts, B, G, rows, 4]: `State`
    long long all_rows;                // B G rows
    long long tiles;                   // the work of blocks: of queries and values' elements, or of rows and parts
    long long present_rows;            // B G total; 0 if none are kept
    long long mended_rows;             // B H S where rows leave keys out, else 0
    int query_tiles;                   // of the queries of a head, or of rows
    int value_tiles;
    int parts;                         // among which the tiles of keys are divided
    int result_parts;                  // these times the warps that divide a tile's keys
    int heads;
    int groups;                        // heads of keys and values, each for equally many neighbouring heads of the queries
    int group_heads;                   // of the queries, for each of keys and values
    int rows;                          // S times these: row r is query r / group_heads of the group's head r % group_heads
    int wide_output;                   // whether 8 halves of an output's row can be stored at once
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

    /// The number of leading keys that a query attends to.
    __device__ int seen(int query, int valid) const {
        return valid + (past_lengths.data == nullptr ? fresh : min(fresh, query + 1));
    }

    __device__ bool masks() const { return mask.data != nullptr || ends.data != nullptr; }

    /// Whether keys that the mask filters out have no weight, if any other key has one for the row: what they hold does not matter then.
    __device__ bool excludes() const { return masks() && filter_value * log2_e == -machine::float_of_bits(infinity_bits); }

    __device__ bool filters(int batch, int head, int query, int place) const {
        if (mask.data != nullptr) {
            return mask.at(batch, head, query, place) == 0;
        }
        return place >= ends.at(batch) || (starts.data != nullptr && place < starts.at(batch));
    }
};

/// The running softmax of a row over the keys so far, in powers of 2: exponents are scores times log2(e).
struct State {
    float most;      // what exponents are relative to: the largest one, or less by what leaves weights in the range of a type
    float offset;    // the most that the mask added to one
    float sum;       // of the powers, relative to `most`
    float earlier;   // that of the powers of earlier keys, to which no bias belongs
};

/// The state before the first key.
__device__ __forceinline__ State no_keys() {
    float const infinity = machine::float_of_bits(infinity_bits);
    return {-infinity, -infinity, 0.0f, 0.0f};
}

__device__ __forceinline__ State state_of(Vector4<float> const& kept) {
    return {kept.values[0], kept.values[1], kept.values[2], kept.values[3]};
}

/// The difference; 0 if both are equal, also for infinities.
__device__ __forceinline__ float distance(float a, float b) {
    return a == b ? 0.0f : a - b;
}

/// What `most` is relative to once a larger value of the mask is known.
__device__ __forceinline__ float raised(State const& state, float offset) {
    return state.most + distance(state.offset, offset);
}

/// The number that exponents are relative to: finite where no key has any weight.
__device__ __forceinline__ float origin_of(float most) {
    return most == -machine::float_of_bits(infinity_bits) ? 0.0f : most;
}

/// Tiles of keys, of a batch entry: some of earlier keys, whose last one may have fewer, then those of new keys.
struct KeyTile {
    int first;       // key of it, among the earlier or the new ones
    int count;       // of its keys
    int place;       // of the first one among all
    bool earlier;
};

/// Which rows and keys a block has: neighbouring rows of a group's queries, and a part of the tiles of keys.
struct BlockPlace {
    int first_row;
    int part;
    int group;
    int batch;
    int valid;   // earlier keys that count
};

/// The work of a block.
struct RowsAndKeys : BlockPlace {
    int seen;          // all keys that any of the rows attends to
    int past_tiles;
    int first_tile;
    int end_tile;

    template <int keys>
    __device__ __forceinline__ KeyTile tile(int number) const {
        bool const earlier = number < past_tiles;
        int const first = (earlier ? number : number - past_tiles) * keys;
        int const place = earlier ? first : valid + first;
        return {first, min(keys, (earlier ? valid : seen) - place), place, earlier};
    }

    /// The number of the tile that has a key.
    template <int keys>
    __device__ __forceinline__ int tile_with(int place) const {
        return place < valid ? place / keys : past_tiles + (place - valid) / keys;
    }
};

template <int row_tile, class T>
__device__ __forceinline__ BlockPlace block_place(AttentionParameters<T> const& parameters, int block) {
    BlockPlace place;
    int rest = block / parameters.query_tiles;
    place.first_row = (block - rest * parameters.query_tiles) * row_tile;
    place.part = rest % parameters.parts;
    rest /= parameters.parts;
    place.group = rest % parameters.groups;
    place.batch = rest / parameters.groups;
    place.valid = parameters.valid(place.batch);
    return place;
}

template <int row_tile, int keys, class T>
__device__ __forceinline__ RowsAndKeys rows_and_keys(AttentionParameters<T> const& parameters, int block) {
    RowsAndKeys work;
    static_cast<BlockPlace&>(work) = block_place<row_tile>(parameters, block);
    int const last_row = min(work.first_row + row_tile, parameters.rows) - 1;
    work.seen = parameters.seen(last_row / parameters.group_heads, work.valid);
    work.past_tiles = (work.valid + keys - 1) / keys;
    int first = 0, end = work.past_tiles + (work.seen - work.valid + keys - 1) / keys;
    if (parameters.ends.data != nullptr && parameters.excludes()) {
        // What the mask filters out has no weight, if any other key has one for each row.
        int const begin = parameters.starts.data == nullptr ? 0 : max(0, parameters.starts.at(work.batch));
        int const stop = min(parameters.ends.at(work.batch), parameters.seen(work.first_row / parameters.group_heads, work.valid));
        if (begin < stop) {
            first = work.tile_with<keys>(begin);
            end = min(end, work.tile_with<keys>(min(parameters.ends.at(work.batch), work.seen) - 1) + 1);
        }
    }
    long long const tiles = end - first;
    work.first_tile = first + static_cast<int>(tiles * work.part / parameters.parts);
    work.end_tile = first + static_cast<int>(tiles * (work.part + 1) / parameters.parts);
    return work;
}

/// The floats of a row's results.
__device__ __forceinline__ int result_columns(int value_size) {
    return (value_size + 7) / 8 * 8;
}

/// Where the results of one part of a row's keys lie, in rows.
template <class T>
__device__ __forceinline__ long long part_row(AttentionParameters<T> const& parameters, int part, int batch, int group, int row) {
    return part * parameters.all_rows + (static_cast<long long>(batch) * parameters.groups + group) * parameters.rows + row;
}
