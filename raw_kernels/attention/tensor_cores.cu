// Attention of halves with products on tensor cores: the same as `attend` of attention/forward.cu, for many queries.
//
// A block of 4 warps has 64 queries of one head and `columns` of the values' elements; a warp owns 16 of the queries. It iterates over
// the keys, `keys` at a time. Scores stay in the accumulator registers of the tensor cores, where four neighbouring lanes have a query's;
// as weights they are rounded to halves, and become factors of the values without moving. Queries, keys and values pass through shared
// memory in words as in common/tile_products.cuh. Operands are halves: a query, key or value with an added bias is rounded to
// half. Sums, including that of the weights, are float.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/tile_products.cuh"
#include "attention/attention.cuh"

using machine::half;

inline constexpr int warp_queries = 16;
inline constexpr int query_tile = 64;
inline constexpr int piece_elements = 32;                        // of a line, in its 16 words
inline constexpr int together = 8;                               // elements that a thread loads at once
inline constexpr int most_pieces = 4;                            // of queries and keys that are in shared memory at a time
static_assert(query_tile == warp_queries * tile_threads / 32);

/// Eight neighbouring elements of a row as words, two in each; zeros past the row's end, and without a row.
__device__ __forceinline__ Vector4<unsigned> eight_of(Source<half> const& source, int batch, int head, int place, int valid, int element,
                                                   bool is) {
    Vector4<unsigned> words = {};
    if (!is || element >= source.size) {
        return words;
    }
    bool const earlier = place < valid;
    half const* const row = earlier ? &source.past.at(batch, head, place, 0) : &source.fresh.at(batch, place - valid, head, 0);
    long long const stride = earlier ? source.past.strides[3] : source.fresh.strides[3];
    if (source.wide != 0) {
        words = *reinterpret_cast<Vector4<unsigned> const*>(row + element);
    } else {
#pragma unroll
        for (int e = 0; e < together; ++e) {
            if (element + e < source.size) {
                words.values[e / 2] |= machine::to_bits(row[(element + e) * stride]) << e % 2 * 16;
            }
        }
    }
    if (!earlier && source.bias != nullptr) {
#pragma unroll
        for (int e = 0; e < together; ++e) {
            if (element + e < source.size) {
                half const value = {static_cast<unsigned short>(words.values[e / 2] >> e % 2 * 16)};
                float const bias = machine::to_float(source.bias[(static_cast<long long>(head) * source.size + element + e) * source.bias_stride]);
                unsigned const sum = machine::to_bits(machine::from_float<half>(machine::to_float(value) + bias));
                words.values[e / 2] = e % 2 == 0 ? (words.values[e / 2] & 0xffff0000u) | sum : (words.values[e / 2] & 0xffffu) | sum << 16;
            }
        }
    }
    return words;
}

/// Copies rows of queries or keys to shared memory as lines of elements: some pieces, from one element on.
template <int rows>
__device__ __forceinline__ void stage_lines(Source<half> const& source, int batch, int head, int first, int count, int valid, int element,
                                            int pieces, unsigned* staged) {
    int const line = static_cast<int>(threadIdx.x) / 4, quad = static_cast<int>(threadIdx.x) % 4;
#pragma unroll 1
    for (int piece = 0; piece < pieces; ++piece) {
        constexpr int own = rows * 4 / tile_threads;
        Vector4<unsigned> words[own];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            int const place = first + line + i * (tile_threads / 4);
            int const begin = element + piece * piece_elements + quad * together;
            words[i] = eight_of(source, batch, head, place, valid, begin, place < count);
        }
#pragma unroll
        for (int i = 0; i < own; ++i) {
            int const at = piece * (rows * line_words) + word_place(line + i * (tile_threads / 4), quad * 4);
            *reinterpret_cast<Vector4<unsigned>*>(staged + at) = words[i];
        }
    }
}

/// Copies some columns of the values of some keys to shared memory as lines of keys, 32 of them in a piece.
template <int columns, int keys>
__device__ __forceinline__ void stage_columns(Source<half> const& source, int batch, int head, int first, int count, int valid, int column,
                                              unsigned* staged) {
    constexpr int across = columns / together;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < across * keys / 2; number += tile_threads) {
        int const group = number % across, pair = number / across;
        Vector4<unsigned> rows[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            int const place = first + 2 * pair + e;
            rows[e] = eight_of(source, batch, head, place, valid, column + group * together, place < count);
        }
        unsigned* const piece = staged + pair / line_words * (columns * line_words);
        int const upper = group / 4 % 2;   // these write their lines in the other order, to avoid bank conflicts
#pragma unroll
        for (int i = 0; i < together; i += 2) {
            unsigned const first_line = (rows[0].values[i / 2] & 0xffffu) | rows[1].values[i / 2] << 16;
            unsigned const second_line = rows[0].values[i / 2] >> 16 | (rows[1].values[i / 2] & 0xffff0000u);
            piece[word_place(group * together + i + upper, pair % line_words)] = upper != 0 ? second_line : first_line;
            piece[word_place(group * together + i + 1 - upper, pair % line_words)] = upper != 0 ? first_line : second_line;
        }
    }
}

/// Two weights as a word of halves.
__device__ __forceinline__ unsigned halves_of(float low, float high) {
    return machine::to_bits(machine::from_float<half>(low)) | machine::to_bits(machine::from_float<half>(high)) << 16;
}

/// Adds the products of some pieces of queries and keys to the scores of a warp.
template <int fragments>
__device__ __forceinline__ void add_scores(float (&scores)[fragments][4], unsigned const* queries, unsigned const* keys, int pieces) {
    int const lane = static_cast<int>(threadIdx.x) % 32, first_line = static_cast<int>(threadIdx.x) / 32 * warp_queries;
#pragma unroll 1
    for (int piece = 0; piece < pieces; ++piece) {
        Vector4<unsigned> const upper = quad_at(queries + piece * (query_tile * line_words), first_line + lane / 4, lane % 4);
        Vector4<unsigned> const lower = quad_at(queries + piece * (query_tile * line_words), first_line + 8 + lane / 4, lane % 4);
#pragma unroll
        for (int j = 0; j < fragments; ++j) {
            Vector4<unsigned> const key = quad_at(keys + piece * (fragments * 8 * line_words), j * 8 + lane / 4, lane % 4);
#pragma unroll
            for (int step = 0; step < 2; ++step) {
                unsigned const a[4] = {upper.values[2 * step], lower.values[2 * step], upper.values[2 * step + 1],
                                       lower.values[2 * step + 1]};
                unsigned const b[2] = {key.values[2 * step], key.values[2 * step + 1]};
                machine::multiply_add<half>(scores[j], a, b);
            }
        }
    }
}

template <int columns, int keys>
__global__ void __launch_bounds__(tile_threads, 2) attend_halves(const __grid_constant__ AttentionParameters<half> parameters) {
    constexpr int value_fragments = columns / 8;
    constexpr int key_fragments = keys / 8;
    constexpr int of_keys = most_pieces * keys * line_words, of_values = columns * keys / 2;
    alignas(16) __shared__ unsigned queries[most_pieces * query_tile * line_words];
    alignas(16) __shared__ unsigned staged[of_keys > of_values ? of_keys : of_values];   // keys, and later values
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const own_query = static_cast<int>(threadIdx.x) / 32 * warp_queries + lane / 4;   // and the one 8 after it
    int const pieces = (parameters.key.size + piece_elements - 1) / piece_elements;

#pragma unroll 1
    for (long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        Task const task = task_at(parameters, tile, query_tile, columns);
        Softmax softmax[2] = {softmax_of(parameters, task.first_query + own_query, task.valid),
                              softmax_of(parameters, task.first_query + own_query + 8, task.valid)};
        float results[value_fragments][4] = {};

#pragma unroll 1
        for (int first_key = 0; first_key < task.count; first_key += keys) {
            // Values derived from these would occupy registers across tiles.
            int const batch = machine::opaque(task.batch), head = machine::opaque(task.head), group = machine::opaque(task.group);
            int const valid = task.valid, count = task.count;
            float scores[key_fragments][4] = {};
#pragma unroll 1
            for (int piece = 0; piece < pieces; piece += most_pieces) {
                int const these = min(most_pieces, pieces - piece);
                __syncthreads();
                if (first_key == 0 || pieces > most_pieces) {
                    stage_lines<query_tile>(parameters.query, batch, head, task.first_query, parameters.queries, 0, piece * piece_elements, these,
                                queries);
                }
                stage_lines<keys>(parameters.key, batch, group, first_key, count, valid, piece * piece_elements, these, staged);
                __syncthreads();
                add_scores(scores, queries, staged, these);
            }

#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float own[2 * key_fragments];
#pragma unroll
                for (int j = 0; j < 2 * key_fragments; ++j) {
                    own[j] = scores[j / 2][2 * i + j % 2];
                }
                float const factor = weigh<4>(parameters, batch, head, task.first_query + own_query + 8 * i, softmax[i], own,
                                              [&](int j) { return first_key + j / 2 * 8 + lane % 4 * 2 + j % 2; });
#pragma unroll
                for (int j = 0; j < 2 * key_fragments; ++j) {
                    scores[j / 2][2 * i + j % 2] = own[j];
                }
#pragma unroll
                for (int n = 0; n < value_fragments; ++n) {
                    results[n][2 * i] *= factor;
                    results[n][2 * i + 1] *= factor;
                }
            }

            __syncthreads();
            stage_columns<columns, keys>(parameters.value, batch, group, first_key, count, valid, task.first_column, staged);
            __syncthreads();
#pragma unroll
            for (int step = 0; step < keys / 16; ++step) {
                float const(&first)[4] = scores[2 * step];
                float const(&second)[4] = scores[2 * step + 1];
                unsigned const a[4] = {halves_of(first[0], first[1]), halves_of(first[2], first[3]), halves_of(second[0], second[1]),
                                       halves_of(second[2], second[3])};
                unsigned const* const piece = staged + step / 2 * (columns * line_words);
#pragma unroll
                for (int n = 0; n < value_fragments; ++n) {
                    int const line = n * 8 + lane / 4, word = step % 2 * 8 + lane % 4;
                    unsigned const b[2] = {piece[word_place(line, word)], piece[word_place(line, word + 4)]};
                    machine::multiply_add<half>(results[n], a, b);
                }
            }
        }

#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int const query = task.first_query + own_query + 8 * i;
#pragma unroll
            for (int n = 0; n < value_fragments; ++n) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    int const column = task.first_column + n * 8 + lane % 4 * 2 + e;
                    if (query < parameters.queries && column < parameters.value.size) {
                        float const result = softmax[i].seen == 0 ? 0.0f : results[n][2 * i + e] / softmax[i].sum;
                        parameters.output.at(task.batch, query, task.head, column) = machine::from_float<half>(result);
                    }
                }
            }
        }
        __syncthreads();   // before the queries of the next tile
    }
}
