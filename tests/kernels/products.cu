// x <- A x, again and again: the smallest kernel that multiplies by a resident matrix and exchanges what it makes.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/block_exchange.cuh"
#include "common/staging.cuh"
#include "common/products.cuh"

template <class T>
struct Parameters {
    float const* matrix;          // [size][size]
    float* vectors;               // [size][samples], before and after
    Vector4<unsigned>* arrangements; // [blocks][arranged]
    T* operands;                  // [2, or times + 1][passes][samples of a pass][row], as the protocol wants it before the launch
    unsigned* flags;              // [blocks], zero
    int size;
    int rows;                     // of a block
    int samples;
    int times;
    Timeout timeout;
};

struct Halved : Unscaled {
    __device__ AlignedVector<float, 2> operator()(int, int) const {
        return {{0.5f, 0.5f}};
    }
};

/// Grid: blocks that own `rows` rows each, an even number where they exchange halves as data. Values are scaled by 2 going out and by 1/2
/// coming in where `scaled`.
template <class T, class Product, Protocol protocol, bool scaled>
__global__ void __launch_bounds__(product_threads, 1) iterate(Parameters<T> parameters) {
    constexpr bool alone = protocol == Protocol::alone;
    int const size = parameters.size;
    int const first_row = blockIdx.x * parameters.rows;
    int const rows = min(parameters.rows, size - first_row);
    int const passes = (parameters.samples + Product::samples - 1) / Product::samples;
    SharedPieces pieces;
    auto* const staging = pieces.take<Vector4<unsigned>>(alone ? 0 : Product::staged(size));
    Product product(pieces, size, staging);
    int const operand_row = product.template row<protocol>();
    int const pass_size = operand_row * Product::samples;
    T* const operands = alone ? pieces.take<T>(passes * pass_size) : parameters.operands;

    int const arranged = Product::arranged(size);
    Vector4<unsigned>* const arrangement = parameters.arrangements + blockIdx.x * arranged;
    auto const matrix = [&](int row, int k) { return parameters.matrix[(first_row + row) * size + k]; };
    for (int index = threadIdx.x; index < arranged; index += blockDim.x) {
        int const tile = index / 32 % Product::tiles;
        int const step = index / 32 / Product::tiles % product.steps();
        int const warp = index / 32 / Product::tiles / product.steps();
        arrangement[index] = Product::arrange(matrix, rows, size, warp, step, tile, index % 32);
    }
    for (int index = threadIdx.x; alone && index < passes * pass_size; index += blockDim.x) {
        operands[index] = machine::from_float<T>(0.0f);
    }
    __syncthreads();
    product.load(arrangement);

    BlockExchange<protocol> exchange(parameters.flags, blockIdx.x, parameters.timeout);
    auto const buffer = [&](int time, int pass) {
        int const turn = alone ? 0 : protocol == Protocol::flags ? time % 2 : time;
        return operands + (turn * passes + pass) * pass_size;
    };
    // What is exchanged is counted by threads, rows first, so that neighbours have neighbouring rows.
    int const handed = (parameters.rows + 31) / 32 * 32;
    auto const put_all = [&](int time, int pass, auto const& value_of) {
        for (int index = threadIdx.x; index < handed * Product::samples; index += blockDim.x) {
            int const row = index % handed;
            int const sample = index / handed;
            bool const counts = row < rows && pass * Product::samples + sample < parameters.samples;
            float const value = counts ? value_of(row, sample) : 0.0f;
            bool const hands_on = protocol == Protocol::data ? row < parameters.rows && first_row + row < operand_row &&
                                                                   pass * Product::samples + sample < parameters.samples
                                                             : counts;
            exchange.store(buffer(time, pass) + sample * operand_row + first_row + row, Product::element(scaled ? 2.0f * value : value),
                         hands_on);
        }
    };
    for (int pass = 0; pass < passes; ++pass) {
        put_all(0, pass, [&](int row, int sample) {
            return parameters.vectors[(first_row + row) * parameters.samples + pass * Product::samples + sample];
        });
    }
    exchange.release();
    int const last_depth = min(size, product.end_depth()) - 1;
    auto const operand_of = [&](int time, int pass) {
        auto const takes = [&](int sample) { return pass * Product::samples + sample < parameters.samples; };
        return Operand<T>{buffer(time, pass), product.template loaded<protocol>(takes)};
    };
    for (int time = 0; time < parameters.times; ++time) {
        exchange.wait(product.first_depth() / parameters.rows, product.first_depth() < size ? last_depth / parameters.rows : -1);
        Operand<T> operand = operand_of(time, 0);
        product.begin(exchange, operand);
        for (int pass = 0; pass < passes; ++pass) {
            Operand<T> const next = pass + 1 < passes ? operand_of(time, pass + 1) : Operand<T>{};
            if constexpr (scaled) {
                product.multiply(exchange, operand, next, Halved());
            } else {
                product.multiply(exchange, operand, next);
            }
            operand = next;
            __syncthreads();
            put_all(time + 1, pass, [&](int row, int sample) {
                float const sum = product.sum(row, sample);
                parameters.vectors[(first_row + row) * parameters.samples + pass * Product::samples + sample] = sum;
                return sum;
            });
            if (pass + 1 < passes) {
                __syncthreads();
            }
        }
        exchange.release();
    }
}
