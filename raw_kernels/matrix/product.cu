// GEMM: for each entry of a batch of matrices in any layout
//
//   output = f(alpha * a b + beta * c)
//
// divided into tiles as `matrix/tiles.cuh` says. A transposed operand is one whose strides are swapped. Factors and sums are float. The
// output overlaps nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/conversions.cuh"
#include "common/scaled.cuh"
#include "common/activations.cuh"
#include "common/epilogue.cuh"
#include "matrix/tiles.cuh"

/// A matrix as an operand: the elements of its lines.
template <class T>
struct Elements {
    using Number = float;
    using Line = T const*;
    T const* data;
    long long line_stride;
    long long term_stride;

    __device__ Line line(long long i) const { return data + i * line_stride; }
    __device__ float load(Line line, long long term) const { return machine::to_float(line[term * term_stride]); }
};

template <class T, class Out, class Function>
struct ProductParameters {
    Strided<T const> a;      // [outer, inner, rows, terms]
    Strided<T const> b;      // [outer, inner, terms, columns]
    Strided<T const> c;      // [outer, inner, rows, columns]; absent: nothing is added
    Strided<Out> output;     // [outer, inner, rows, columns]
    Tiles tiles;
    Epilogue<Function> epilogue;
};

template <class T, class Out, class Function>
__global__ void product(const __grid_constant__ ProductParameters<T, Out, Function> parameters) {
    Tiles const& tiles = parameters.tiles;
    Strided<T const> const &a = parameters.a, &b = parameters.b;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        Elements<T> const rows{&a.at(tile.outer, tile.inner, 0, 0), a.strides[2], a.strides[3]};
        Elements<T> const columns{&b.at(tile.outer, tile.inner, 0, 0), b.strides[3], b.strides[2]};
        Pieces<Elements<T>> left(rows, tile.row, tiles.rows), right(columns, tile.column, tiles.columns);
        float sums[tile_share][tile_share] = {};
        sum_products<float>(sums, left, right, tiles.terms);
        for_each_sum(tiles, tile, sums, [&](long long row, long long column, float sum) {
            float const addend = value_or_zero(parameters.c, tile.outer, tile.inner, row, column);
            parameters.output.at(tile.outer, tile.inner, row, column) = machine::from_float<Out>(parameters.epilogue(sum, addend));
        });
    }
}
