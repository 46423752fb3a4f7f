// Attention of halves with products on tensor cores, for heads of up to 256 elements.
//
// A block has a tile of rows, queries of the heads that share keys and values, and some tiles of keys. Where there are many rows, a warp owns
// 16 or 32 of them and all keys of a tile; where there are few, all warps have the same 16 rows, and each owns 16 keys of a tile. Queries stay
// in registers, or in shared memory where they are long. Keys and values pass through shared memory in three stages: a tile of either is under way while the one before is
// multiplied. Scores stay in the accumulator registers of the tensor cores, where four neighbouring lanes have a row's; as weights they are
// rounded to halves, and become factors of the values without moving.
//
// Operands are halves: a query with an added bias is rounded to half. Biases of new keys add the same number to each of a row's scores, those
// of new values are added to their weighted sum. Sums, including that of the weights, are float. Where a block has not all keys of its
// rows, it writes sums relative to its own largest exponent, which `combine` of attention/combine.cu merges.
//
// `plain`: nothing is added to scores, no key is filtered, there are no biases, and all elements come 16 bytes at a time.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "attention/attention.cuh"
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
};

/// A thread's part of a tile of scores: of each fragment of 16 rows two, 8 apart, and of these two neighbours of each 8 keys.
template <class Own>
using Scores = float[Own::fragments][Own::own_keys / 8][4];

/// The key of a thread's score number `j` of a row, counted from its first.
__device__ __forceinline__ constexpr int key_of(int j) {
    return j / 2 * 8 + j % 2;
}

/// A thread's score number `j` of row number `i` of a fragment.
template <int count>
__device__ __forceinline__ float& score_of(float (&scores)[count][4], int i, int j) {
    return scores[j / 2][2 * i + j % 2];
}

/// To which keys a thread's rows attend.
template <class Own>
class Seen {
  public:
    __device__ __forceinline__ Seen(AttentionParameters<machine::half> const& parameters, RowsAndKeys const& work, int first_row) {
        least_ = parameters.seen(work.first_row / parameters.group_heads, work.valid);
#pragma unroll
        for (int m = 0; m < Own::fragments; ++m) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int const row = min(first_row + m * 16 + i * 8, parameters.rows - 1);
                of_row_[m][i] = parameters.seen(row / parameters.group_heads, work.valid);
            }
        }
    }

    /// The number of leading keys of a tile that a row attends to.
    __device__ __forceinline__ int limit(KeyTile const& tile, int m, int i) const { return min(tile.count, of_row_[m][i] - tile.place); }

    /// Gives keys of a tile that a row does not attend to no weight; a thread's keys begin with `own_key`.
    __device__ __forceinline__ void hide(Scores<Own>& scores, KeyTile const& tile, int own_key) const {
        if (min(tile.count, least_ - tile.place) >= Own::keys) {
            return;
        }
#pragma unroll
        for (int m = 0; m < Own::fragments; ++m) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int const own_limit = limit(tile, m, i) - own_key;
#pragma unroll
                for (int j = 0; j < Own::own_scores; ++j) {
                    if (key_of(j) >= own_limit) {
                        score_of(scores[m], i, j) = -machine::float_of_bits(infinity_bits);
                    }
                }
            }
        }
    }

  private:
    int least_;   // of all rows of the block
    int of_row_[Own::fragments][2];
};

/// What is added to the scores of a thread's two rows.
template <class Own, bool plain>
class Additions {
    static_assert(Own::fragments == 1);

  public:
    __device__ __forceinline__ Additions(AttentionParameters<machine::half> const& parameters, RowsAndKeys const& work, int first_row)
        : parameters_(parameters), filter_(parameters.filter_value * log2_e) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int const row = min(first_row + i * 8, parameters.rows - 1);
            int const query = row / parameters.group_heads, head = work.group * parameters.group_heads + row % parameters.group_heads;
            biases_[i] = parameters.position_bias.data == nullptr ? nullptr : &parameters.position_bias.at(work.batch, head, query, 0);
            masks_[i] = parameters.mask.data == nullptr ? nullptr : &parameters.mask.at(work.batch, head, query, 0);
            bias_of_keys_[i] = 0.0f;
        }
        if (parameters.ends.data != nullptr) {
            end_ = parameters.ends.at(work.batch);
            start_ = parameters.starts.data == nullptr ? 0 : parameters.starts.at(work.batch);
        }
    }

    /// Sets what the biases of new keys add to a row's scores, before they are scaled.
    __device__ __forceinline__ void set_bias_of_keys(float const (&products)[4]) {
        bias_of_keys_[0] = products[0];
        bias_of_keys_[1] = products[2];
    }

    /// Begins to load what is added to the scores of a tile.
    __device__ __forceinline__ void load(Seen<Own> const& seen, KeyTile const& tile, int own_key) {
        if (parameters_.position_bias.data != nullptr) {
            load_each(added_, biases_, static_cast<int>(parameters_.position_bias.strides[3]), seen, tile, own_key);
        }
        if (parameters_.mask.data != nullptr) {
            load_each(kept_, masks_, static_cast<int>(parameters_.mask.strides[3]), seen, tile, own_key);
        }
    }

    /// Converts products to exponents: scaled, with all that is added, relative to `offset` of the states, which is raised. The largest
    /// exponents so far become relative to it, too.
    __device__ __forceinline__ void add(Scores<Own>& scores, State (&states)[1][2], Seen<Own> const& seen, KeyTile const& tile, int own_key,
                                        float scale) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float const of_key = tile.earlier ? 0.0f : bias_of_keys_[i] * scale;
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                float& score = score_of(scores[0], i, j);
                score = score * scale + of_key;
            }
            if (parameters_.position_bias.data != nullptr) {
#pragma unroll
                for (int j = 0; j < Own::own_scores; ++j) {
                    score_of(scores[0], i, j) += machine::to_float(added_[i][j]) * log2_e;
                }
            }
            if (parameters_.masks()) {
                filter(scores, states[0][i], seen.limit(tile, 0, i) - own_key, i, tile.place + own_key);
            }
        }
    }

  private:
    /// Loads a number for each score; for keys that a row does not attend to that of another.
    template <class T>
    __device__ __forceinline__ static void load_each(T (&loaded)[2][Own::own_scores], T const* const (&rows)[2], int stride,
                                                     Seen<Own> const& seen, KeyTile const& tile, int own_key) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int const last = max(seen.limit(tile, 0, i) - 1, 0);
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                loaded[i][j] = rows[i][(tile.place + min(own_key + key_of(j), last)) * stride];
            }
        }
    }

    /// Adds what the mask adds to row `i`: `limit` as for keys from `place` on.
    __device__ __forceinline__ void filter(Scores<Own>& scores, State& state, int limit, int i, int place) {
        unsigned filtered = 0;   // a bit for each key
        if (parameters_.mask.data != nullptr) {
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                filtered |= kept_[i][j] == 0 ? 1u << j : 0u;
            }
        } else {
            filtered = ~leading(end_ - place) | leading(start_ - place);
        }
        unsigned const all = leading(limit);
        float offset = (filtered & all) == 0 ? state.offset : fmaxf(state.offset, filter_);
        offset = over_quad<Largest>((~filtered & all) == 0 ? offset : fmaxf(offset, 0.0f));
        float const of_filtered = distance(filter_, offset), of_others = distance(0.0f, offset);
#pragma unroll
        for (int j = 0; j < Own::own_scores; ++j) {
            score_of(scores[0], i, j) += (filtered >> j & 1) != 0 ? of_filtered : of_others;
        }
        state.most = raised(state, offset);
        state.offset = offset;
    }

    /// The bits of a thread's keys before one, counted from its first.
    __device__ __forceinline__ static unsigned leading(int keys) {
        int const before = max(0, min(keys, Own::keys));
        return (1u << (before / 8 * 2 + min(before % 8, 2))) - 1;
    }

    AttentionParameters<machine::half> const& parameters_;
    float filter_;
    machine::half const* biases_[2];
    int const* masks_[2];
    float bias_of_keys_[2];
    int start_;   // the first key that the mask does not filter out
    int end_;     // and the first one after them
    machine::half added_[2][Own::own_scores];
    int kept_[2][Own::own_scores];
};

/// Of plain attention: nothing.
template <class Own>
class Additions<Own, true> {
  public:
    __device__ __forceinline__ Additions(AttentionParameters<machine::half> const&, RowsAndKeys const&, int) {}

    __device__ __forceinline__ void load(Seen<Own> const&, KeyTile const&, int) {}

    __device__ __forceinline__ void add(Scores<Own>&, State (&)[Own::fragments][2], Seen<Own> const&, KeyTile const&, int, float) {}
};

/// Converts exponents, products with `scale` or scores, to weights; rescales the results so far.
template <class Own, int size>
__device__ __forceinline__ void weigh(Scores<Own>& scores, State (&states)[Own::fragments][2], float (&results)[Own::fragments][size / 8][4],
                                      float scale) {
#pragma unroll
    for (int m = 0; m < Own::fragments; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            State& state = states[m][i];
            float largest = score_of(scores[m], i, 0);
#pragma unroll
            for (int j = 1; j < Own::own_scores; ++j) {
                largest = fmaxf(largest, score_of(scores[m], i, j));
            }
            float const most = fmaxf(state.most, over_quad<Largest>(largest) * scale);
            float const origin = origin_of(most);
            float const factor = machine::exp2_flushed(state.most - origin);
            state.most = most;
            state.sum *= factor;
            state.earlier *= factor;
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                float& score = score_of(scores[m], i, j);
                score = machine::exp2_flushed(score * scale - origin);
                state.sum += score;
            }
#pragma unroll
            for (int n = 0; n < size / 8; ++n) {
                results[m][n][2 * i] *= factor;
                results[m][n][2 * i + 1] *= factor;
            }
        }
    }
}

/// Copies a tile of keys or values to a stage.
template <int size, class Own, bool plain>
__device__ __forceinline__ void begin_tile(Source<machine::half> const& source, RowsAndKeys const& work, KeyTile const& tile, unsigned* stage) {
    // What is derived from these would occupy registers across tiles.
    int const batch = machine::opaque(work.batch), group = machine::opaque(work.group);
    machine::half const* from;
    long long stride, element_stride;
    if (tile.earlier) {
        from = &source.past.at(batch, group, tile.first, 0);
        stride = source.past.strides[2];
        element_stride = source.past.strides[3];
    } else {
        from = &source.fresh.at(batch, tile.first, group, 0);
        stride = source.fresh.strides[1];
        element_stride = source.fresh.strides[3];
    }
    if (plain || source.wide != 0) {
        begin_to_copy<size, Own::keys, Own::threads>(from, static_cast<int>(stride), tile.count, source.size, stage);
    } else {
        copy_singly<size, Own::keys, Own::threads>(from, stride, element_stride, tile.count, source.size, stage);
    }
}

/// Writes the results of 8 rows of a warp, or those of a part of their keys. `row` is the first; a lane has the state of row lane / 4. They pass
/// through `area`, a warp's part of shared memory, so that a lane has 8 neighbours.
template <int size, bool plain, bool in_parts>
__device__ __forceinline__ void write_rows(AttentionParameters<machine::half> const& parameters, BlockPlace const& place, int first_row, int part,
                                           State const& state, float const (&results)[size / 8][4], int i, float* area) {
    constexpr int pitch = size + 8, chunks = size / chunk_elements;   // a row, and its state; in other banks than the next one's
    int const lane = static_cast<int>(threadIdx.x) % 32, columns = parameters.value.size;
    float* const own = area + lane / 4 * pitch;
    float const sum = over_quad<Sum>(state.sum), earlier = plain ? 0.0f : over_quad<Sum>(state.earlier);
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
        machine::half* const output = &parameters.output.at(place.batch, query, head, column);
        if (parameters.wide_output != 0) {
            *reinterpret_cast<Vector4<unsigned>*>(output) = {{machine::to_halves(values[0], values[1]), machine::to_halves(values[2], values[3]),
                                                              machine::to_halves(values[4], values[5]), machine::to_halves(values[6], values[7])}};
        } else {
#pragma unroll
            for (int e = 0; e < chunk_elements; ++e) {
                if (column + e < columns) {
                    output[e * parameters.output.strides[3]] = machine::from_float<machine::half>(values[e]);
                }
            }
        }
    }
}

template <int size, bool few, bool plain>
__global__ void __launch_bounds__(Division<size, few, plain>::threads)
    attend_halves(const __grid_constant__ AttentionParameters<machine::half> parameters) {
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
    Additions<Own, plain> additions(parameters, work, own_row);
    if constexpr (!plain) {
        if (parameters.key.bias != nullptr) {
            stage_bias_of_keys<size>(parameters.key, work.group, stages);
            __syncthreads();
            float products[1][1][4] = {};
            add_products(products, queries, stages);
            additions.set_bias_of_keys(products[0][0]);
            __syncthreads();
        }
    }

    State states[Own::fragments][2];
#pragma unroll
    for (int m = 0; m < Own::fragments; ++m) {
        states[m][0] = states[m][1] = no_keys();
    }
    float results[Own::fragments][size / 8][4] = {};
    unsigned *of_keys = stages, *of_values = stages + stage_words, *unused = stages + 2 * stage_words;
    // Prefetches: keys and values of the next tile are waited for in the next turn. The first turn only begins to copy.
#pragma unroll 1
    for (int number = work.first_tile - 1; number < work.end_tile; ++number) {
        bool const has_work = has_rows && number >= work.first_tile, has_next = number + 1 < work.end_tile;
        KeyTile const keys = work.tile<Own::keys>(number), next = work.tile<Own::keys>(number + 1);
        Scores<Own> scores = {};
        machine::wait_for_copies<1>();
        __syncthreads();
        if (has_next) {
            begin_tile<size, Own, plain>(parameters.key, work, next, unused);
        }
        machine::commit_copies();
        if (has_work) {
            additions.load(seen, keys, own_key);
            add_products(scores, queries, of_keys + first_own_key * (size / 2));
            additions.add(scores, states, seen, keys, own_key, scale);
            seen.hide(scores, keys, own_key);
            weigh<Own, size>(scores, states, results, plain ? scale : 1.0f);
        }
        machine::wait_for_copies<1>();
        __syncthreads();
        if (has_next) {
            begin_tile<size, Own, plain>(parameters.value, work, next, of_keys);
        }
        machine::commit_copies();
        if (has_work) {
            add_values<size>(results, scores, of_values + first_own_key * (size / 2));
        }
        unsigned* const later = of_values;
        of_values = of_keys;
        of_keys = unused;
        unused = later;
        if (!plain && keys.earlier) {
            states[0][0].earlier = states[0][0].sum;
            states[0][1].earlier = states[0][1].sum;
        }
    }

    // Again, so that it has not been in registers all the time.
    BlockPlace const place = block_place<Own::rows>(parameters, machine::opaque(static_cast<int>(blockIdx.x)));
    int const part = place.part * Own::key_warps + (few ? warp : 0), first_row = place.first_row + first_own_row;
    float* const area = reinterpret_cast<float*>(stages) + warp * (8 * (size + 8));
    __syncthreads();
#pragma unroll
    for (int m = 0; m < Own::fragments; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            write_rows<size, plain, few>(parameters, place, first_row + m * 16 + i * 8, part, states[m][i], results[m], i, area);
        }
    }
}
