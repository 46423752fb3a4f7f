// Products of matrices of quantized numbers: for each entry of a batch of matrices in any layout
//
//   output = finish(sum over k of (a[i, k] - az[i]) * (b[k, j] - bz[j]))
//
//   `byte_product`      where all elements have 8 bits, on tensor cores: sums of 32 bits, which may wrap around or be too short to
//   `integer_product`   any others
//
// Divided into tiles as `matrix/tiles.cuh` says. Sums are exact, except of differences of 32-bit integers, which are summed in double. The
// epilogue is computed in double, rounded step by step, so that quantization steps are where the definition has them. The output overlaps
// nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/grid_stride.cuh"
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
    Order order;                 // in which `byte_product` loads it; its lines are rows of a, columns of b
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

    __device__ void store(Tile const& tile, long long row, long long column, int sum) const {
        output.at(tile.outer, tile.inner, row, column) = sum;
    }
};

/// sum * a_scale[i] * b_scale[j] + bias[i, j]
template <class T>
struct Dequantized {
    Strided<T> output;
    Strided<T const> bias;    // absent: 0
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

/// An operand of bytes for tensor cores, which need signed ones. An unsigned byte is less by 128, as is its zero point.
struct Bytes {
    Quantities const& of;
    long long line_stride;
    long long term_stride;
    long long first;    // line of the tile
    long long lines;    // from there on

    __device__ Bytes(Quantities const& quantities, long long line, long long term, long long first_line, long long count)
        : of(quantities), line_stride(line), term_stride(term), first(first_line), lines(count - first_line) {}

    __device__ bool is_unsigned() const { return of.type == 0; }
    __device__ bool has_zero_points() const { return is_unsigned() || of.zero_points != nullptr; }

    __device__ MatrixLines<unsigned char> of_entry(Tile const& tile) const {
        long long const place = tile.outer * of.strides[0] + tile.inner * of.strides[1] + first * line_stride;
        return {static_cast<unsigned char const*>(of.data) + place, line_stride, term_stride, lines, of.order,
                is_unsigned() ? 0x80808080u : 0u};
    }

    __device__ int zero_point(int line) const {
        bool const given = line < lines && of.zero_points != nullptr;
        long long const found = given ? integer_at(of.zero_points, (first + line) * of.zero_point_step, of.type) : 0;
        return static_cast<int>(found) - (is_unsigned() ? 128 : 0);
    }
};

/// The zero points of a tile's lines.
struct ZeroPoints {
    Bytes const& of_rows;
    Bytes const& of_columns;

    __device__ int row(int r) const { return of_rows.zero_point(r); }
    __device__ int column(int c) const { return of_columns.zero_point(c); }
};

template <class Finish>
__global__ void __launch_bounds__(tile_threads, 2) byte_product(const __grid_constant__ IntegerProductParameters<Finish> parameters) {
    Tiles const& tiles = parameters.tiles;
    Quantities const &a = parameters.a, &b = parameters.b;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        Bytes const left(a, a.strides[2], a.strides[3], tile.row, tiles.rows);
        Bytes const right(b, b.strides[3], b.strides[2], tile.column, tiles.columns);
        MatrixLines<unsigned char> rows = left.of_entry(tile), columns = right.of_entry(tile);
        ByteSums<signed char, signed char> sums(left.has_zero_points(), right.has_zero_points());
        sum_tile(sums, rows, columns, tiles.terms, ZeroPoints{left, right});
        sums.for_each([&](int row_of_tile, int column_of_tile, int sum) {
            long long const row = tile.row + row_of_tile, column = tile.column + column_of_tile;
            if (row < tiles.rows && column < tiles.columns) {
                parameters.finish.store(tile, row, column, sum);
            }
        });
    }
}
