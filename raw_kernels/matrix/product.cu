// GEMM: for each entry of a batch of matrices in any layout
//
//   output = f(alpha * a b + beta * c)
//
//   `product`                       where tiles fill the device
//   `product`, `combine_products`   where there are few tiles of long sums: blockIdx.y takes a part of the terms, whose sums are left in
//                                   scratch, and a second launch adds them in order
//
// Divided into tiles as `matrix/tiles.cuh` says. A transposed operand is one whose strides are swapped. Factors and sums are float. The
// output overlaps nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/elements.cuh"
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
    float* partials;         // [splits, outer, inner, rows, columns]; absent: there is one split
    long long split_terms;   // terms of a split, the last one what is left
    long long results;       // of all entries of the batch
    int splits;
    Epilogue<Function> epilogue;
};

/// Writes the result of a sum.
template <class T, class Out, class Function>
__device__ __forceinline__ void finish(ProductParameters<T, Out, Function> const& parameters, long long outer, long long inner, long long row,
                                       long long column, float sum) {
    float const addend = value_or_zero(parameters.c, outer, inner, row, column);
    parameters.output.at(outer, inner, row, column) = machine::from_float<Out>(parameters.epilogue(sum, addend));
}

template <class T, class Out, class Function>
__global__ void product(const __grid_constant__ ProductParameters<T, Out, Function> parameters) {
    Tiles const& tiles = parameters.tiles;
    Strided<T const> const &a = parameters.a, &b = parameters.b;
    long long const first = blockIdx.y * parameters.split_terms;
    long long const left_over = tiles.terms - first;
    long long const terms = left_over < parameters.split_terms ? left_over : parameters.split_terms;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        Elements<T> const rows{&a.at(tile.outer, tile.inner, 0, first), a.strides[2], a.strides[3]};
        Elements<T> const columns{&b.at(tile.outer, tile.inner, first, 0), b.strides[3], b.strides[2]};
        Pieces<Elements<T>> left(rows, tile.row, tiles.rows), right(columns, tile.column, tiles.columns);
        float sums[tile_share][tile_share] = {};
        sum_products<float>(sums, left, right, terms);
        for_each_sum(tiles, tile, sums, [&](long long row, long long column, float sum) {
            if (parameters.partials == nullptr) {
                finish(parameters, tile.outer, tile.inner, row, column, sum);
            } else {
                long long const entry = tile.outer * tiles.inner + tile.inner;
                parameters.partials[blockIdx.y * parameters.results + (entry * tiles.rows + row) * tiles.columns + column] = sum;
            }
        });
    }
}

/// Adds the sums of all splits in order; a thread owns results.
template <class T, class Out, class Function>
__global__ void combine_products(const __grid_constant__ ProductParameters<T, Out, Function> parameters) {
    Tiles const& tiles = parameters.tiles;
#pragma unroll 1
    for (long long result = first_element(); result < parameters.results; result += element_stride()) {
        float sum = 0.0f;
#pragma unroll 4
        for (int split = 0; split < parameters.splits; ++split) {
            sum += parameters.partials[split * parameters.results + result];
        }
        long long const line = result / tiles.columns, entry = line / tiles.rows;
        finish(parameters, entry / tiles.inner, entry % tiles.inner, line % tiles.rows, result % tiles.columns, sum);
    }
}
