// x <- A x, again and again: the smallest kernel that multiplies by a resident matrix and exchanges what it makes.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/products.cuh"
#include "common/exchange.cuh"

template <class T>
struct Parameters {
    float const* matrix;          // [size][size]
    float* vectors;               // [size][samples], before and after
    Quad<unsigned>* arrangements; // [blocks][arranged]
    T* operands;                  // [2][passes][padded depth][samples of a pass], zero
    unsigned* flags;              // [blocks], zero
    int size;
    int rows;                     // of a block
    int samples;
    int times;
    unsigned most_polls;
};

struct Halved {
    __device__ void fetch() const {}

    __device__ Pack<float, 2> operator()(int, int) const {
        return {{0.5f, 0.5f}};
    }
};

/// Grid: blocks that own `rows` rows each. Values are scaled by 2 going out and by 1/2 coming in where `scaled`.
template <class T, class Product, bool alone, bool scaled>
__global__ void __launch_bounds__(product_threads, 1) iterate(Parameters<T> parameters) {
    int const size = parameters.size;
    int const first_row = blockIdx.x * parameters.rows;
    int const rows = min(parameters.rows, size - first_row);
    int const passes = (parameters.samples + Product::samples - 1) / Product::samples;
    SharedPieces pieces;
    Product product(pieces, size, alone);
    int const pass_size = product.padded_depth() * Product::samples;
    T* const operands = alone ? pieces.take<T>(passes * pass_size) : parameters.operands;

    int const arranged = Product::arranged(size);
    Quad<unsigned>* const arrangement = parameters.arrangements + blockIdx.x * arranged;
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

    Exchange<alone> exchange(parameters.flags, blockIdx.x, parameters.most_polls);
    auto const buffer = [&](int time) { return operands + (alone ? 0 : time % 2) * passes * pass_size; };
    auto const put = [&](int time, int row, int sample, float value) {
        T* const destination = buffer(time) + sample / Product::samples * pass_size;
        exchange.put(destination + product.place(sample % Product::samples, first_row + row),
                     Product::element(scaled ? 2.0f * value : value));
    };
    for (int index = threadIdx.x; index < rows * parameters.samples; index += blockDim.x) {
        int const row = index / parameters.samples;
        int const sample = index % parameters.samples;
        put(0, row, sample, parameters.vectors[(first_row + row) * parameters.samples + sample]);
    }
    exchange.publish();
    int const last_depth = min(size, product.end_depth()) - 1;
    for (int time = 0; time < parameters.times; ++time) {
        exchange.wait(product.first_depth() / parameters.rows, product.first_depth() < size ? last_depth / parameters.rows : -1);
        for (int pass = 0; pass < passes; ++pass) {
            T const* const operand = buffer(time) + pass * pass_size;
            if constexpr (scaled) {
                product.template multiply<alone>(operand, Halved());
            } else {
                product.template multiply<alone>(operand);
            }
            __syncthreads();
            for (int index = threadIdx.x; index < rows * Product::samples; index += blockDim.x) {
                int const row = index / Product::samples;
                int const sample = pass * Product::samples + index % Product::samples;
                if (sample < parameters.samples) {
                    float const sum = product.sum(row, index % Product::samples);
                    put(time + 1, row, sample, sum);
                    parameters.vectors[(first_row + row) * parameters.samples + sample] = sum;
                }
            }
            if (pass + 1 < passes) {
                __syncthreads();
            }
        }
        exchange.publish();
    }
}
