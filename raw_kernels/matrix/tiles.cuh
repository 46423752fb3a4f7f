// Products of matrices by tiles: sums[i, j] = sum over k of a[i, k] * b[k, j], for each entry of a batch of two dimensions. A block owns a
// tile of 64 rows and 64 columns. Blocks stride over the tiles, with a one-dimensional grid of any size.
//
// Integers are summed here, floats in `common/tile_products.cuh`. A block has 256 threads, a thread 4 x 4 of its sums, 16 apart along both,
// so that neighbouring threads read neighbouring words of shared memory and own neighbouring columns. Pieces of 16 terms of both operands
// pass through shared memory. A piece is loaded before the previous one is multiplied, but waited for at once: the conversion of a number
// depends on its type. Of each 256 terms the products are summed first, in their order, then added to the sum of those before: so
// roundings do not add up in long sums.
#pragma once

constexpr int tile_terms = 16;
constexpr int stage_terms = 256;
constexpr int tile_lanes = 16;     // threads along each side of a tile
constexpr int tile_share = tile_side / tile_lanes;

/// The sizes of the matrices, and how many tiles their results have.
struct Tiles {
    long long rows;
    long long columns;
    long long terms;
    long long inner;          // entries of the second dimension of the batch
    long long row_tiles;
    long long column_tiles;
    long long count;          // of all entries of the batch
};

/// A tile: the entry of the batch, and its first row and column.
struct Tile {
    long long outer;
    long long inner;
    long long row;
    long long column;
};

__device__ inline Tile tile_at(Tiles const& tiles, long long number) {
    long long const row_tile = number % tiles.row_tiles;
    number /= tiles.row_tiles;
    long long const column_tile = number % tiles.column_tiles;
    number /= tiles.column_tiles;
    return {number / tiles.inner, number % tiles.inner, row_tile * tile_side, column_tile * tile_side};
}

/// A thread's part of the pieces of an operand, element by element: 4 elements of 64 lines (rows of a, columns of b) by 16 terms, such that
/// neighbouring threads read along the operand's shorter stride. A `Source` has a `Number`, the distance `term_stride` of terms and
/// `line_stride` of lines, `line(i)`, the data of a line, and `load(line, term)`.
template <class Source>
struct Pieces {
    using Number = typename Source::Number;
    static constexpr int pitch = tile_side + 1;   // so that threads along the terms also write to different banks

    Source source;
    typename Source::Line lines[tile_share];
    bool inside[tile_share];
    bool by_terms;
    Number values[tile_share];

    __device__ Pieces(Source const& of, long long first, long long count) : source(of) {
        by_terms = source.term_stride < source.line_stride;
#pragma unroll
        for (int i = 0; i < tile_share; ++i) {
            long long const line = first + line_of(i);
            inside[i] = line < count;
            lines[i] = source.line(inside[i] ? line : first);
        }
    }

    __device__ int line_of(int i) const {
        int const thread = static_cast<int>(threadIdx.x);
        return by_terms ? thread / tile_terms + tile_lanes * i : thread % tile_side;
    }

    __device__ int term_of(int i) const {
        int const thread = static_cast<int>(threadIdx.x);
        return by_terms ? thread % tile_terms : thread / tile_side + tile_share * i;
    }

    /// Reads the piece whose first term is `first`; beyond the operand there are zeros.
    __device__ void load(long long first, long long terms) {
#pragma unroll
        for (int i = 0; i < tile_share; ++i) {
            long long const term = first + term_of(i);
            values[i] = inside[i] && term < terms ? source.load(lines[i], term) : Number(0);
        }
    }

    __device__ void store(Number (&shared)[tile_terms][pitch]) const {
#pragma unroll
        for (int i = 0; i < tile_share; ++i) {
            shared[term_of(i)][line_of(i)] = values[i];
        }
    }
};

/// Adds the stage's sums to the totals, and resets them.
template <class Stage, class Sum>
__device__ __forceinline__ void add_stage(Sum (&sums)[tile_share][tile_share], Stage (&stage)[tile_share][tile_share]) {
#pragma unroll
    for (int i = 0; i < tile_share; ++i) {
#pragma unroll
        for (int j = 0; j < tile_share; ++j) {
            sums[i][j] += static_cast<Sum>(stage[i][j]);
            stage[i][j] = Stage(0);
        }
    }
}

/// The sums of this thread, of type `Sum`, those of 256 terms of type `Stage`. All threads of a block call it.
template <class Stage, class Sum, class A, class B>
__device__ __forceinline__ void sum_products(Sum (&sums)[tile_share][tile_share], Pieces<A>& a, Pieces<B>& b, long long terms) {
    __shared__ typename A::Number of_a[tile_terms][Pieces<A>::pitch];
    __shared__ typename B::Number of_b[tile_terms][Pieces<B>::pitch];
    int const first_row = static_cast<int>(threadIdx.x) / tile_lanes, first_column = static_cast<int>(threadIdx.x) % tile_lanes;
    Stage stage[tile_share][tile_share] = {};
    a.load(0, terms);
    b.load(0, terms);
#pragma unroll 1
    for (long long first = 0; first < terms; first += tile_terms) {
        a.store(of_a);
        b.store(of_b);
        __syncthreads();
        a.load(first + tile_terms, terms);
        b.load(first + tile_terms, terms);
#pragma unroll 4
        for (int term = 0; term < tile_terms; ++term) {
            typename A::Number left[tile_share];
            typename B::Number right[tile_share];
#pragma unroll
            for (int i = 0; i < tile_share; ++i) {
                left[i] = of_a[term][first_row + tile_lanes * i];
                right[i] = of_b[term][first_column + tile_lanes * i];
            }
#pragma unroll
            for (int i = 0; i < tile_share; ++i) {
#pragma unroll
                for (int j = 0; j < tile_share; ++j) {
                    stage[i][j] += static_cast<Stage>(left[i]) * right[j];
                }
            }
        }
        if ((first + tile_terms) % stage_terms == 0) {
            add_stage(sums, stage);
        }
        __syncthreads();
    }
    add_stage(sums, stage);
}

/// Calls `take(row, column, sum)` for each sum of this thread that the matrices have.
template <class Sum, class Take>
__device__ __forceinline__ void for_each_sum(Tiles const& tiles, Tile const& tile, Sum const (&sums)[tile_share][tile_share],
                                             Take const& take) {
    long long const first_row = tile.row + static_cast<int>(threadIdx.x) / tile_lanes;
    long long const first_column = tile.column + static_cast<int>(threadIdx.x) % tile_lanes;
#pragma unroll
    for (int i = 0; i < tile_share; ++i) {
#pragma unroll
        for (int j = 0; j < tile_share; ++j) {
            long long const row = first_row + tile_lanes * i, column = first_column + tile_lanes * j;
            if (row < tiles.rows && column < tiles.columns) {
                take(row, column, sums[i][j]);
            }
        }
    }
}
