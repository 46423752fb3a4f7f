// Attention of halves, or of bfloat16s, with products on tensor cores, for heads of up to 256 elements.
//
// A block has a tile of rows, queries of the heads that share keys and values, and some tiles of keys. Where there are many rows, a warp owns
// 16 or 32 of them and all keys of a tile; where there are few, all warps have the same 16 rows, and each owns 16 keys of a tile. Queries stay
// in registers, or in shared memory where they are long. Keys and values pass through shared memory in three stages: a tile of either is under
// way while the one before is multiplied. Scores stay in the accumulator registers of the tensor cores, where four neighbouring lanes have a
// row's; as weights they are rounded to the tensors' type, in halves with 2^15 for the largest of a row, and become factors of the values
// without moving.
//
// Operands are of the tensors' type: a query with an added bias is rounded to it. Biases of new keys add the same number to each of a row's
// scores, those of new values are added to their weighted sum. Sums, including that of the weights, are float. Where a block has not all keys of its
// rows, it writes sums relative to its own largest exponent, which `combine` of attention/combine.cu merges.
//
// `plain`: nothing is added to scores, no key is filtered, there are no biases, and all elements come 16 bytes at a time.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "attention/attention.cuh"
#include "attention/scores.cuh"
#include "attention/half_tiles.cuh"

/// How a block divides its work.
template <int size, bool few, bool plain>
struct Division {
    static constexpr int keys = (size > 128 ? 32 : 64) / (few || plain || size < 128 ? 1 : 2);   // of a tile
    static constexpr int fragments = few || !plain || size > 64 ? 1 : 2;     // of 16 rows, of a warp
    static constexpr int key_warps = few ? keys / 16 : 1;                    // that share the keys of a tile
    static constexpr bool in_registers = size <= (plain ? 128 : 64);         // whether queries are, or in shared memory
    static constexpr int row_warps = few ? 1 : in_registers ? 8 / fragments : 4;
    static constexpr int rows = row_warps * fragments * 16;
    static constexpr int threads = 32 * row_warps * key_warps;
    static constexpr int own_keys = keys / key_warps;                        // of a warp
    static_assert(row_warps * key_warps * 8 * (size + 8) * 4 <= 3 * keys * size * 2 + (in_registers ? 0 : rows * size * 2));
    static constexpr int own_scores = own_keys / 4;                          // of a row that a thread has
    static constexpr int own_rows = 2 * fragments;                           // of a thread
    static constexpr int lanes = 4;                                          // neighbours that have a row

    /// A thread's part of a tile: of each fragment two rows, 8 apart, and of these two neighbours of each 8 keys.
    using Scores = float[fragments][own_keys / 8][4];

    __device__ __forceinline__ static float& score(Scores& scores, int row, int j) { return scores[row / 2][j / 2][row % 2 * 2 + j % 2]; }

    /// A thread's rows and keys, counted from its first.
    __device__ __forceinline__ static constexpr int row_of(int row) { return row / 2 * 16 + row % 2 * 8; }
    __device__ __forceinline__ static constexpr int key_of(int j) { return j / 2 * 8 + j % 2; }

    /// The number of them before a key that is counted so.
    __device__ __forceinline__ static int keys_before(int key) { return key / 8 * 2 + min(key % 8, 2); }
};

/// Copies a tile of keys or values to a stage.
template <int size, class Own, bool plain, class T>
__device__ __forceinline__ void begin_tile(Source<T> const& source, RowsAndKeys const& work, KeyTile const& tile, unsigned* stage) {
    // What is derived from these would occupy registers across tiles.
    int const batch = machine::opaque(work.batch), group = machine::opaque(work.group);
    T const* from;
    long long stride, element_stride;
    if (tile.earlier) {
        from = &source.past.at(batch, group, 0, 0);
        stride = source.past.strides[2];
        element_stride = source.past.strides[3];
    } else {
        from = &source.fresh.at(batch, 0, group, 0);
        stride = source.fresh.strides[1];
        element_stride = source.fresh.strides[3];
    }
    if (plain || source.wide != 0) {
        begin_to_copy<size, Own::keys, Own::threads>(from, static_cast<int>(stride), tile.first, tile.count, source.size, stage);
    } else {
        copy_singly<size, Own::keys, Own::threads>(from + tile.first * stride, stride, element_stride, tile.count, source.size, stage);
    }
}

/// Writes the results of 8 rows of a warp, or those of a part of their keys. `row` is the first; a lane has the state of row lane / 4. They pass
/// through `area`, a warp's part of shared memory, so that a lane has 8 neighbours.
template <int size, bool plain, bool in_parts, class T>
__device__ __forceinline__ void write_rows(AttentionParameters<T> const& parameters, BlockPlace const& place, int first_row, int part,
                                           State const& state, float const (&results)[size / 8][4], int i, float* area) {
    constexpr int pitch = size + 8, chunks = size / chunk_elements;   // a row, and its state; in other banks than the next one's
    int const lane = static_cast<int>(threadIdx.x) % 32, columns = parameters.value.size;
    float* const own = area + lane / 4 * pitch;
    float const sum = over_lanes<4, Sum>(state.sum), earlier = plain ? 0.0f : over_lanes<4, Sum>(state.earlier);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < size / 8; ++n) {
        *reinterpret_cast<AlignedVector<float, 2>*>(own + n * 8 + lane % 4 * 2) = {{results[n][2 * i], results[n][2 * i + 1]}};
    }
    if (lane % 4 == 0) {
        *reinterpret_cast<Vector4<float>*>(own + size) = {{state.most, state.offset, sum, earlier}};
    }
    __syncwarp();
    int const column = lane % chunks * chunk_elements;
#pragma unroll 1
    for (int number = lane / chunks; number < 8 && first_row + number < parameters.rows; number += 32 / chunks) {
        int const row = first_row + number;
        float const* const of_row = area + number * pitch;
        auto const* const from = reinterpret_cast<Vector4<float> const*>(of_row + column);
        if (column >= columns) {
            continue;
        }
        if (in_parts || parameters.part_results != nullptr) {
            long long const at = part_row(parameters, part, place.batch, place.group, row);
            auto* const to = reinterpret_cast<Vector4<float>*>(parameters.part_results + at * result_columns(columns) + column);
            to[0] = from[0];
            to[1] = from[1];
            if (column == 0) {
                reinterpret_cast<Vector4<float>*>(parameters.part_states)[at] = *reinterpret_cast<Vector4<float> const*>(of_row + size);
            }
            continue;
        }
        int const query = row / parameters.group_heads, head = place.group * parameters.group_heads + row % parameters.group_heads;
        float const all = of_row[size + 2], inverse = parameters.seen(query, place.valid) == 0 ? 0.0f : 1.0f / all;
        float values[chunk_elements];
#pragma unroll
        for (int e = 0; e < chunk_elements; ++e) {
            values[e] = from[e / 4].values[e % 4];
            if (!plain && parameters.value.bias != nullptr && column + e < columns) {
                values[e] += (all - of_row[size + 3]) * parameters.value.bias_at(place.group, column + e);
            }
            values[e] *= inverse;
        }
        T* const output = &parameters.output.at(place.batch, query, head, column);
        if (parameters.wide_output != 0) {
            *reinterpret_cast<Vector4<unsigned>*>(output) = {{machine::to_pair<T>(values[0], values[1]), machine::to_pair<T>(values[2], values[3]),
                                                              machine::to_pair<T>(values[4], values[5]), machine::to_pair<T>(values[6], values[7])}};
        } else {
#pragma unroll
            for (int e = 0; e < chunk_elements; ++e) {
                if (column + e < columns) {
                    output[e * parameters.output.strides[3]] = machine::from_float<T>(values[e]);
                }
            }
        }
    }
}

template <int size, bool few, bool plain, class T = machine::half>
__global__ void __launch_bounds__(Division<size, few, plain>::threads)
    attend_halves(const __grid_constant__ AttentionParameters<T> parameters) {
    using Own = Division<size, few, plain>;
    constexpr int stage_words = Own::keys * size / 2;
    unsigned* const stages = machine::dynamic_shared<unsigned>();
    unsigned* const staged_queries = Own::in_registers ? stages : stages + 3 * stage_words;
    int const lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    int const first_own_row = few ? 0 : warp * Own::fragments * 16;
    int const first_own_key = few ? warp * Own::own_keys : 0, own_key = first_own_key + lane % 4 * 2;

    RowsAndKeys const work = rows_and_keys<Own::rows, Own::keys>(parameters, static_cast<int>(blockIdx.x));
    stage_queries<size, Own::rows, Own::threads, plain>(parameters, work, staged_queries);
    machine::commit_copies();
    machine::wait_for_copies<0>();
    if (parameters.scale < 0.0f) {
        negate_queries<size, Own::rows, Own::threads>(staged_queries);
    }
    __syncthreads();
    Queries<size, Own::fragments, Own::in_registers> const queries(staged_queries, first_own_row);
    __syncthreads();
    float const scale = fmaxf(fabsf(parameters.scale) * log2_e, least_scale);

    int const own_row = work.first_row + first_own_row + lane / 4;
    bool const has_rows = work.first_row + first_own_row < parameters.rows;   // a warp without only copies
    Seen<Own> const seen(parameters, work, own_row);
    Additions<T, Own, plain> additions(parameters, work, own_row);
    if constexpr (!plain) {
        if (parameters.key.bias != nullptr) {
            stage_bias_of_keys<size>(parameters.key, work.group, stages);
            __syncthreads();
            float products[1][1][4] = {};
            add_products<T>(products, queries, stages);
            additions.set_bias_of_keys(0, products[0][0][0]);
            additions.set_bias_of_keys(1, products[0][0][2]);
            __syncthreads();
        }
    }

    State states[Own::own_rows];
#pragma unroll
    for (int i = 0; i < Own::own_rows; ++i) {
        states[i] = no_keys();
    }
    float results[Own::fragments][size / 8][4] = {};
    unsigned *of_keys = stages, *of_values = stages + stage_words, *unused = stages + 2 * stage_words;
    // Prefetches: keys and values of the next tile are waited for in the next turn. The first turn only begins to copy.
#pragma unroll 1
    for (int number = work.first_tile - 1; number < work.end_tile; ++number) {
        bool const has_work = has_rows && number >= work.first_tile, has_next = number + 1 < work.end_tile;
        KeyTile const keys = work.tile<Own::keys>(number), next = work.tile<Own::keys>(number + 1);
        typename Own::Scores scores = {};
        machine::wait_for_copies<1>();
        __syncthreads();
        if (has_next) {
            begin_tile<size, Own, plain>(parameters.key, work, next, unused);
        }
        machine::commit_copies();
        if (has_work) {
            additions.load(seen, keys, own_key);
            add_products<T>(scores, queries, of_keys + first_own_key * (size / 2));
            additions.add(scores, states, seen, keys, own_key, scale);
            seen.hide(scores, keys, own_key);
            weigh<T, Own>(scores, states, plain ? scale : 1.0f, [&](int row, float factor) {
#pragma unroll
                for (int n = 0; n < size / 8; ++n) {
                    results[row / 2][n][row % 2 * 2] *= factor;
                    results[row / 2][n][row % 2 * 2 + 1] *= factor;
                }
            });
        }
        machine::wait_for_copies<1>();
        __syncthreads();
        if (has_next) {
            begin_tile<size, Own, plain>(parameters.value, work, next, of_keys);
        }
        machine::commit_copies();
        if (has_work) {
            add_values<T, size>(results, scores, of_values + first_own_key * (size / 2));
        }
        unsigned* const later = of_values;
        of_values = of_keys;
        of_keys = unused;
        unused = later;
        if (!plain && keys.earlier) {
            states[0].earlier = states[0].sum;
            states[1].earlier = states[1].sum;
        }
    }

    // Again, so that it has not been in registers all the time.
    BlockPlace const place = block_place<Own::rows>(parameters, machine::opaque(static_cast<int>(blockIdx.x)));
    int const part = place.part * Own::key_warps + (few ? warp : 0), first_row = place.first_row + first_own_row;
    float* const area = reinterpret_cast<float*>(stages) + warp * (8 * (size + 8));
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Own::own_rows; ++i) {
        write_rows<size, plain, few>(parameters, place, first_row + Own::row_of(i), part, states[i], results[i / 2], i % 2, area);
    }
}
