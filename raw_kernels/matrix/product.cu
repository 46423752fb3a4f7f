// GEMM: for each entry of a batch of matrices in any layout
//
//   output = f(alpha * a b + beta * c)
//
//   `product`                       where tiles fill the device
//   `product`, `combine_products`   for few tiles of long sums: blockIdx.y selects a part of the terms, whose sums go to
//                                   scratch, and a second launch adds them in order
//
// Divided into tiles as `matrix/tiles.cuh` says, which are summed as in `common/tile_products.cuh`: halves and bfloat16s by tensor cores. A
// transposed operand is one whose strides are swapped. Sums are float. The output overlaps nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/scaled.cuh"
#include "common/activations.cuh"
#include "common/epilogue.cuh"
#include "common/tile_products.cuh"
#include "matrix/tiles.cuh"

/// How elements of a type are multiplied and summed.
template <class T>
using SumsOf = Choice<is_narrow<T>, NarrowSums<T>, FloatSums<PlainSum, 256>>;

template <class T, class Out, class Function>
struct ProductParameters {
    Strided<T const> a;      // [outer, inner, rows, terms]
    Strided<T const> b;      // [outer, inner, terms, columns]
    Strided<T const> c;      // [outer, inner, rows, columns]; absent: 0
    Strided<Out> output;     // [outer, inner, rows, columns]
    Tiles tiles;
    float* partials;         // [splits, outer, inner, rows, columns]; absent: there is one split
    long long split_terms;   // terms of a split; the last one has the rest
    long long results;       // of all entries of the batch
    int splits;
    Order a_order;
    Order b_order;           // lines are columns
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
__global__ void __launch_bounds__(tile_threads, 2) product(const __grid_constant__ ProductParameters<T, Out, Function> parameters) {
    Tiles const& tiles = parameters.tiles;
    Strided<T const> const &a = parameters.a, &b = parameters.b;
    long long const first = blockIdx.y * parameters.split_terms;
    long long const left_over = tiles.terms - first;
    long long const terms = left_over < parameters.split_terms ? left_over : parameters.split_terms;
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        Tile const tile = tile_at(tiles, number);
        SumsOf<T> sums;
        using Operand = MatrixLines<typename SumsOf<T>::Raw>;
        Operand rows(&a.at(tile.outer, tile.inner, tile.row, first), a.strides[2], a.strides[3], tiles.rows - tile.row, parameters.a_order);
        Operand columns(&b.at(tile.outer, tile.inner, first, tile.column), b.strides[3], b.strides[2], tiles.columns - tile.column,
                        parameters.b_order);
        sum_tile(sums, rows, columns, terms);
        sums.for_each([&](int row_of_tile, int column_of_tile, float sum) {
            long long const row = tile.row + row_of_tile, column = tile.column + column_of_tile;
            if (row >= tiles.rows || column >= tiles.columns) {
                return;
            }
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
