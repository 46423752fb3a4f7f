// Products of matrices of quantized numbers: for each entry of a batch of matrices in any layout
//
//   output = finish(sum over k of (a[i, k] - az[i]) * (b[k, j] - bz[j]))
//
//   `byte_product`      where all elements have 8 bits: four products at a time
//   `integer_product`   any others
//
// Divided into tiles as `matrix/tiles.cuh` says. Sums are exact, but of differences of 32-bit integers: these are summed in double. What
// becomes of a sum is computed in double, rounded step by step: a step of a quantization is where the definition has it. The output overlaps
// nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/conversions.cuh"
#include "common/tile_products.cuh"
#include "matrix/tiles.cuh"

/// The integer at a place: its type is the logarithm of its bytes, times 2, and 1 more if it is signed.
__device__ inline long long integer_at(void const* data, long long place, int type) {
    switch (type) {
        case 0: return static_cast<unsigned char const*>(data)[place];
        case 1: return static_cast<signed char const*>(data)[place];
        case 2: return static_cast<unsigned short const*>(data)[place];
        case 3: return static_cast<short const*>(data)[place];
        case 4: return static_cast<unsigned const*>(data)[place];
        default: return static_cast<int const*>(data)[place];
    }
}

/// An operand, [outer, inner, rows, columns], with a zero point for each of its lines.
struct Quantities {
    void const* data;
    void const* zero_points;     // absent: 0
    long long strides[4];
    long long zero_point_step;   // 0: one for all lines
    int type;                    // of both
};

/// The differences of an operand's elements to the zero point of their line.
template <class Difference>
struct Differences {
    using Number = Difference;
    struct Line {
        long long place;
        long long zero_point;
    };
    Quantities const& of;
    long long origin;
    long long line_stride;
    long long term_stride;

    __device__ Line line(long long i) const {
        return {origin + i * line_stride, of.zero_points == nullptr ? 0 : integer_at(of.zero_points, i * of.zero_point_step, of.type)};
    }
    __device__ Difference load(Line const& line, long long term) const {
        return static_cast<Difference>(integer_at(of.data, line.place + term * term_stride, of.type) - line.zero_point);
    }
};

/// One element for each row or column, or with a step of 0 one for all.
template <class T>
struct Scales {
    T const* data;
    long long step;

    __device__ double at(long long i) const { return static_cast<double>(machine::to_float(data[i * step])); }
};

/// The sum, which wraps around.
struct Whole {
    Strided<int> output;

    __device__ void store(Tile const& tile, long long row, long long column, unsigned sum) const {
        output.at(tile.outer, tile.inner, row, column) = static_cast<int>(sum);
    }
};

/// sum * a_scale[i] * b_scale[j] + bias[i, j]
template <class T>
struct Dequantized {
    Strided<T> output;
    Strided<T const> bias;    // absent: nothing is added
    Scales<T> a_scale;
    Scales<T> b_scale;

    template <class Sum>
    __device__ void store(Tile const& tile, long long row, long long column, Sum sum) const {
        double value = machine::rounded_product(static_cast<double>(sum), a_scale.at(row));
        value = machine::rounded_product(value, b_scale.at(column));
        value += static_cast<double>(value_or_zero(bias, tile.outer, tile.inner, row, column));
        output.at(tile.outer, tile.inner, row, column) = stored<T>(value);
    }
};

/// clamp(round(sum * a_scale[i] * b_scale[j] / output_scale[i]) + output_zero_point[i]), NaN counting as 0
struct Requantized {
    Strided<unsigned char> output;    // of either sign
    void const* zero_points;          // absent: 0
    long long zero_point_step;
    Scales<float> a_scale;
    Scales<float> b_scale;
    Scales<float> output_scale;
    int type;                         // of the output and its zero points

    __device__ void store(Tile const& tile, long long row, long long column, long long sum) const {
        double value = machine::rounded_product(static_cast<double>(sum), a_scale.at(row));
        value = machine::rounded_product(value, b_scale.at(column));
        double steps = rint(value / output_scale.at(row));
        steps = steps == steps ? steps : 0.0;
        steps += zero_points == nullptr ? 0.0 : static_cast<double>(integer_at(zero_points, row * zero_point_step, type));
        double const least = type == 0 ? 0.0 : -128.0;
        int const held = static_cast<int>(fmin(fmax(steps, least), least + 255.0));
        output.at(tile.outer, tile.inner, row, column) = static_cast<unsigned char>(held);
    }
};

template <class Finish>
struct IntegerProductParameters {
    Quantities a;     // [outer, inner, rows, terms], zero points of rows
    Quantities b;     // [outer, inner, terms, columns], zero points of columns
    Tiles tiles;
    Finish finish;
};

template <class Difference, class Stage, class Sum, class Finish>
__global__ void integer_product(const __grid_constant__ IntegerProductParameters<Finish> parameters) {
    Tiles const& tiles = parameters.tiles;
    Quantities const &a = parameters.a, &b = parameters.b;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        Differences<Difference> const rows{a, tile.outer * a.strides[0] + tile.inner * a.strides[1], a.strides[2], a.strides[3]};
        Differences<Difference> const columns{b, tile.outer * b.strides[0] + tile.inner * b.strides[1], b.strides[3], b.strides[2]};
        Pieces<Differences<Difference>> left(rows, tile.row, tiles.rows), right(columns, tile.column, tiles.columns);
        Sum sums[tile_share][tile_share] = {};
        sum_products<Stage>(sums, left, right, tiles.terms);
        for_each_sum(tiles, tile, sums,
                     [&](long long row, long long column, Sum sum) { parameters.finish.store(tile, row, column, sum); });
    }
}

constexpr int tile_words = tile_terms / 4;   // of four terms each
constexpr int word_pitch = tile_side + 8;    // so that threads along the terms, too, write to different banks

/// What a thread brings of an operand of bytes: a word of four terms of one of 64 lines, neighbouring threads along the shorter stride.
/// Unsigned bytes are less by 128, as are their zero points: so all are signed. Beyond the operand there are zeros.
struct Words {
    unsigned char const* line_data;
    long long term_stride;
    int flip;        // bits of a byte that make an unsigned one signed
    int line;
    int word;
    bool inside;
    int value;

    __device__ Words(Quantities const& of, long long origin, long long line_stride, long long stride, long long first, long long count)
        : term_stride(stride), flip(of.type == 0 ? 0x80 : 0) {
        int const thread = static_cast<int>(threadIdx.x);
        bool const by_terms = stride < line_stride;
        line = by_terms ? thread / tile_words : thread % tile_side;
        word = by_terms ? thread % tile_words : thread / tile_side;
        inside = first + line < count;
        line_data = static_cast<unsigned char const*>(of.data) + origin + (inside ? first + line : first) * line_stride;
    }

    /// Reads the word of the piece whose first term is `first`.
    __device__ void load(long long first, long long terms) {
        unsigned bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            long long const term = first + 4 * word + i;
            if (inside && term < terms) {
                bytes |= static_cast<unsigned>(line_data[term * term_stride] ^ flip) << 8 * i;
            }
        }
        value = static_cast<int>(bytes);
    }
};

/// The zero points of a thread's lines, as those of signed bytes.
__device__ inline void read_zero_points(Quantities const& of, long long first, long long count, int (&zero_points)[tile_share]) {
#pragma unroll
    for (int i = 0; i < tile_share; ++i) {
        long long const line = first + tile_lanes * i;
        long long const place = (line < count ? line : 0) * of.zero_point_step;
        long long const zero_point = of.zero_points == nullptr ? 0 : integer_at(of.zero_points, place, of.type);
        zero_points[i] = static_cast<int>(zero_point) - (of.type == 0 ? 128 : 0);
    }
}

/// The sum of (a - az) (b - bz) is that of a b, less az times that of b and bz times that of a, and az bz for each term. Of 256 terms all of
/// these fit in 32 bits.
template <class Sum, class Finish>
__global__ void byte_product(const __grid_constant__ IntegerProductParameters<Finish> parameters) {
    __shared__ int of_a[tile_words][word_pitch];
    __shared__ int of_b[tile_words][word_pitch];
    Tiles const& tiles = parameters.tiles;
    Quantities const &a = parameters.a, &b = parameters.b;
    int const first_row = static_cast<int>(threadIdx.x) / tile_lanes, first_column = static_cast<int>(threadIdx.x) % tile_lanes;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        Words left(a, tile.outer * a.strides[0] + tile.inner * a.strides[1], a.strides[2], a.strides[3], tile.row, tiles.rows);
        Words right(b, tile.outer * b.strides[0] + tile.inner * b.strides[1], b.strides[3], b.strides[2], tile.column, tiles.columns);
        int row_zeros[tile_share], column_zeros[tile_share];
        read_zero_points(a, tile.row + first_row, tiles.rows, row_zeros);
        read_zero_points(b, tile.column + first_column, tiles.columns, column_zeros);
        Sum sums[tile_share][tile_share] = {};
        int products[tile_share][tile_share] = {}, row_sums[tile_share] = {}, column_sums[tile_share] = {};
        left.load(0, tiles.terms);
        right.load(0, tiles.terms);
#pragma unroll 1
        for (long long first = 0; first < tiles.terms; first += tile_terms) {
            of_a[left.word][left.line] = left.value;
            of_b[right.word][right.line] = right.value;
            __syncthreads();
            left.load(first + tile_terms, tiles.terms);
            right.load(first + tile_terms, tiles.terms);
#pragma unroll
            for (int word = 0; word < tile_words; ++word) {
                int rows[tile_share], columns[tile_share];
#pragma unroll
                for (int i = 0; i < tile_share; ++i) {
                    rows[i] = of_a[word][first_row + tile_lanes * i];
                    columns[i] = of_b[word][first_column + tile_lanes * i];
                    row_sums[i] = machine::dot_of_bytes(rows[i], 0x01010101, row_sums[i]);
                    column_sums[i] = machine::dot_of_bytes(columns[i], 0x01010101, column_sums[i]);
                }
#pragma unroll
                for (int i = 0; i < tile_share; ++i) {
#pragma unroll
                    for (int j = 0; j < tile_share; ++j) {
                        products[i][j] = machine::dot_of_bytes(rows[i], columns[j], products[i][j]);
                    }
                }
            }
            long long const next = first + tile_terms;
            if (next % stage_terms == 0 || next >= tiles.terms) {
                int const terms = static_cast<int>((next < tiles.terms ? next : tiles.terms) - first / stage_terms * stage_terms);
#pragma unroll
                for (int i = 0; i < tile_share; ++i) {
#pragma unroll
                    for (int j = 0; j < tile_share; ++j) {
                        int const of_zeros = row_zeros[i] * column_sums[j] + column_zeros[j] * (row_sums[i] - terms * row_zeros[i]);
                        sums[i][j] += static_cast<Sum>(products[i][j] - of_zeros);
                        products[i][j] = 0;
                    }
                }
#pragma unroll
                for (int i = 0; i < tile_share; ++i) {
                    row_sums[i] = column_sums[i] = 0;
                }
            }
            __syncthreads();
        }
        for_each_sum(tiles, tile, sums,
                     [&](long long row, long long column, Sum sum) { parameters.finish.store(tile, row, column, sum); });
    }
}
