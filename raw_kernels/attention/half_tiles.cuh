// Tiles of halves or bfloat16s in shared memory, and what tensor cores make of them: queries, keys and values of attention.
//
// A row of a tile has `size` elements in chunks of 16 bytes. Chunks of a row change places such that the 8 rows whose chunks of one column a
// matrix of the tensor cores takes are in different banks.
#pragma once

inline constexpr int chunk_elements = 8;
inline constexpr int chunk_words = 4;
/// The word of a tile where a chunk of a row begins.
template <int size>
__device__ __forceinline__ int place_of(int row, int chunk) {
    constexpr int chunks = size / chunk_elements;
    constexpr int rows_of_banks = chunks < 8 ? 8 / chunks : 1;   // that have all banks together
    constexpr int others = chunks < 8 ? chunks : 8;
    return row * (size / 2) + (chunk ^ row / rows_of_banks % others) * chunk_words;
}

/// The place of the chunk that is `further` chunks after that at `place`, one of the first ones of a row: at least a power of 2 of them
/// come before it, so that no carry goes beyond.
__device__ __forceinline__ int further_place(int place, int further) {
    return (place ^ further % 8 * chunk_words) + further / 8 * 8 * chunk_words;
}

/// Begins to copy rows from `first` on to a tile, whose other rows and elements become 0.
template <int size, int rows, int threads, class T>
__device__ __forceinline__ void begin_to_copy(T const* from, int stride, int first, int count, int elements, unsigned* tile) {
    constexpr int chunks = size / chunk_elements, across = threads / chunks;
    static_assert(rows % across == 0);
    int const row = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    bool const within = chunk * chunk_elements < elements;
    T const* const of_thread = from + static_cast<long long>(stride) * (first + row) + chunk * chunk_elements;
    int const left = within ? count - row : 0;
#pragma unroll
    for (int i = 0; i < rows; i += across) {
        machine::copy_async(tile + place_of<size>(row + i, chunk), of_thread + static_cast<long long>(stride) * i, i < left);
    }
}

/// A chunk of a row's elements, read one by one, with a bias where there is one; zeros past the last of `left` elements.
template <class T>
__device__ __forceinline__ Vector4<unsigned> chunk_of(T const* from, long long stride, int left, T const* bias, long long bias_stride) {
    Vector4<unsigned> words = {};
#pragma unroll
    for (int e = 0; e < chunk_elements; ++e) {
        if (e < left) {
            T value = from[e * stride];
            if (bias != nullptr) {
                value = machine::from_float<T>(machine::to_float(value) + machine::to_float(bias[e * bias_stride]));
            }
            words.values[e / 2] |= machine::to_bits(value) << e % 2 * 16;
        }
    }
    return words;
}

/// Copies rows to a tile element by element.
template <int size, int rows, int threads, class T>
__device__ __forceinline__ void copy_singly(T const* from, long long stride, long long element_stride, int count, int elements,
                                            unsigned* tile) {
    constexpr int chunks = size / chunk_elements;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < rows * chunks; number += threads) {
        int const row = number / chunks, chunk = number % chunks, element = chunk * chunk_elements;
        int const left = row < count ? elements - element : 0;
        T const* const of_chunk = from + row * stride + element * element_stride;
        Vector4<unsigned> const words = chunk_of<T>(of_chunk, element_stride, left, nullptr, 0);
        *reinterpret_cast<Vector4<unsigned>*>(tile + place_of<size>(row, chunk)) = words;
    }
}

/// Copies the queries of a block's rows to a tile, or begins to.
template <int size, int rows, int threads, bool plain, class T>
__device__ __forceinline__ void stage_queries(AttentionParameters<T> const& parameters, RowsAndKeys const& work, unsigned* tile) {
    constexpr int chunks = size / chunk_elements;
    Source<T> const& source = parameters.query;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < rows * chunks; number += threads) {
        int const row = number / chunks, chunk = number % chunks, element = chunk * chunk_elements;
        bool const exists = work.first_row + row < parameters.rows && element < source.size;
        int const all = exists ? work.first_row + row : 0;
        int const query = all / parameters.group_heads, head = work.group * parameters.group_heads + all % parameters.group_heads;
        T const* const from = &source.fresh.at(work.batch, query, head, exists ? element : 0);
        unsigned* const to = tile + place_of<size>(row, chunk);
        if (plain || (source.wide != 0 && source.bias == nullptr)) {
            machine::copy_async(to, from, exists);
        } else {
            T const* const bias = source.bias == nullptr ? nullptr : source.bias_place(head, element);
            int const left = exists ? source.size - element : 0;
            Vector4<unsigned> const words = chunk_of(from, source.fresh.strides[3], left, bias, source.bias_stride);
            *reinterpret_cast<Vector4<unsigned>*>(to) = words;
        }
    }
}

/// Changes the signs of the queries that this thread has copied.
template <int size, int rows, int threads>
__device__ __forceinline__ void negate_queries(unsigned* tile) {
    constexpr int chunks = size / chunk_elements;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < rows * chunks; number += threads) {
        auto* const place = reinterpret_cast<Vector4<unsigned>*>(tile + place_of<size>(number / chunks, number % chunks));
        Vector4<unsigned> words = *place;
#pragma unroll
        for (int i = 0; i < chunk_words; ++i) {
            words.values[i] ^= 0x80008000u;
        }
        *place = words;
    }
}

/// A warp's queries as left factors of 16 by 16, in registers or in shared memory.
template <int size, int fragments, bool in_registers>
class Queries {
  public:
    /// `tile`: of the block's queries, of which the warp's begin with a row.
    __device__ __forceinline__ Queries(unsigned const* tile, int first_row) : tile_(tile) {
        int const lane = static_cast<int>(threadIdx.x) % 32;
        place_ = place_of<size>(first_row + lane % 16, lane / 16);
        if constexpr (in_registers) {
#pragma unroll
            for (int m = 0; m < fragments; ++m) {
#pragma unroll
                for (int step = 0; step < size / 16; ++step) {
                    load(kept_[m][step], m, step);
                }
            }
        }
    }

    __device__ __forceinline__ void get(unsigned (&words)[4], int m, int step) const {
        if constexpr (in_registers) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                words[i] = kept_[m][step][i];
            }
        } else {
            load(words, m, step);
        }
    }

  private:
    __device__ __forceinline__ void load(unsigned (&words)[4], int m, int step) const {
        machine::load_matrices(words, tile_ + further_place(place_, step * 2) + m * 16 * (size / 2));
    }

    unsigned const* tile_;
    int place_;
    unsigned kept_[in_registers ? fragments : 1][in_registers ? size / 16 : 1][4];
};

/// Makes each of the first 8 rows of a tile the bias of new keys.
template <int size, class T>
__device__ __forceinline__ void stage_bias_of_keys(Source<T> const& source, int group, unsigned* tile) {
    constexpr int chunks = size / chunk_elements;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < 8 * chunks; number += static_cast<int>(blockDim.x)) {
        int const row = number / chunks, chunk = number % chunks, element = chunk * chunk_elements;
        T const* const from = source.bias_place(group, element);
        Vector4<unsigned> const words = chunk_of<T>(from, source.bias_stride, source.size - element, nullptr, 0);
        *reinterpret_cast<Vector4<unsigned>*>(tile + place_of<size>(row, chunk)) = words;
    }
}

/// Adds the products of a warp's queries and the first keys of a tile: sums[m][n] of fragment m of the queries and 8 keys.
template <class T, int size, int fragments, bool in_registers, int count>
__device__ __forceinline__ void add_products(float (&sums)[fragments][count][4], Queries<size, fragments, in_registers> const& queries,
                                             unsigned const* tile) {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const place = place_of<size>(lane % 8, lane / 8);
#pragma unroll
    for (int step = 0; step < size / 16; step += 2) {
        unsigned factors[fragments][2][4];
#pragma unroll
        for (int m = 0; m < fragments; ++m) {
            queries.get(factors[m][0], m, step);
            queries.get(factors[m][1], m, step + 1);
        }
#pragma unroll
        for (int n = 0; n < count; ++n) {
            unsigned words[4];
            machine::load_matrices(words, tile + further_place(place, step * 2) + n * 8 * (size / 2));
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                unsigned const keys[2] = {words[2 * part], words[2 * part + 1]};
#pragma unroll
                for (int m = 0; m < fragments; ++m) {
                    machine::multiply_add<T>(sums[m][n], factors[m][part], keys);
                }
            }
        }
    }
}

/// Adds the products of a warp's weights and the first rows of a tile of values: results[m][n] of fragment m of the rows and 8 columns.
template <class T, int size, int fragments, int count>
__device__ __forceinline__ void add_values(float (&results)[fragments][size / 8][4], float const (&weights)[fragments][count][4],
                                           unsigned const* tile) {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const place = place_of<size>(lane % 16, lane / 16);
#pragma unroll
    for (int step = 0; step < count / 2; ++step) {
        unsigned factors[fragments][4];
#pragma unroll
        for (int m = 0; m < fragments; ++m) {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                float const(&of)[4] = weights[m][2 * step + word / 2];
                factors[m][word] = machine::to_pair<T>(of[word % 2 * 2], of[word % 2 * 2 + 1]);
            }
        }
#pragma unroll
        for (int n = 0; n < size / 8; n += 2) {
            unsigned words[4];
            machine::load_transposed_matrices(words, tile + further_place(place, n) + step * 16 * (size / 2));
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                unsigned const values[2] = {words[2 * part], words[2 * part + 1]};
#pragma unroll
                for (int m = 0; m < fragments; ++m) {
                    machine::multiply_add<T>(results[m][n + part], factors[m], values);
                }
            }
        }
    }
}
