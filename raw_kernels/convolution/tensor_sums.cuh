// The sums of a tile of a convolution on tensor cores.
#pragma once

/// Sums of products of halves, of bfloat16s, or of floats rounded to TF32, by tensor cores: a lane has so many fragments. Without `in_stages`
/// sums have no total: it would occupy as many registers again.
template <class T, int down = row_fragments, int across = column_fragments, bool in_stages = true>
class TensorSums {
  public:
    using Raw = Choice<is_same<T, float>, unsigned, unsigned short>;
    using Result = float;
    static constexpr int rows = down * 32;
    static constexpr int columns = across * 16;
    static constexpr int piece_terms = line_words * 4 / sizeof(T);
    static constexpr int stage_terms = in_stages ? 256 : 1 << 30;

    __device__ __forceinline__ void multiply(unsigned const* row_piece, unsigned const* column_piece) {
        auto const add = [&](int i, int j, unsigned const(&a)[4], unsigned const(&b)[2]) { machine::multiply_add<T>(sums_[i][j], a, b); };
        auto const factor = [](unsigned word) {
            if constexpr (is_same<T, float>) {
                return machine::to_bits(machine::round_to_tf32(machine::float_of_bits(word)));
            } else {
                return word;
            }
        };
        for_each_matrix<down, across>(row_piece, column_piece, add, factor);
    }

    template <class Zeros>
    __device__ __forceinline__ void end_stage(int, Zeros const&) {
        if constexpr (in_stages) {
            visit([](float& sum, float& total, int, int) {
                total += sum;
                sum = 0.0f;
            });
        }
    }

    /// Calls take(row, column, sum) for each sum of this thread.
    template <class Take>
    __device__ __forceinline__ void for_each(Take const& take) {
        visit([&](float& sum, float& total, int row, int column) { take(row, column, in_stages ? total : sum); });
    }

  private:
    template <class Take>
    __device__ __forceinline__ void visit(Take const& take) {
#pragma unroll
        for (int i = 0; i < down; ++i) {
#pragma unroll
            for (int j = 0; j < across; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    float& total = in_stages ? totals_[i][j][e] : totals_[0][0][0];
                    take(sums_[i][j][e], total, fragment_row<down>(i, e), fragment_column<across>(j, e));
                }
            }
        }
    }

    float sums_[down][across][4] = {};
    float totals_[in_stages ? down : 1][in_stages ? across : 1][4] = {};
};
