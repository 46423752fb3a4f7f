// RNN, GRU and LSTM over a sequence in one launch, with R spread over many blocks, or in one: the arrangement of R, and the kernel
// `persistent_grid`. common/persistent_grid.cuh describes it.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/activations.cuh"
#include "common/cells.cuh"
#include "common/layer.cuh"
#include "common/sequence.cuh"
#include "common/block_exchange.cuh"
#include "common/step_pointers.cuh"
#include "common/staging.cuh"
#include "common/products.cuh"
#include "common/persistent_grid.cuh"

// ------------------------------------------------------------------------------------------------------------- arrange

template <class T>
struct ArrangeParameters {
    Strided<T const> recurrence;   // [1][D][G H][H]
    Vector4<unsigned>* arrangements;  // [D][unit groups][Product::arranged(H)]
    int num_directions;
    int hidden_size;
    int units;                     // of a group; the last one may have fewer
    int unit_groups;
    int first_gate;
    int gates;                     // from the first one on
};

/// Arranges the rows of some gates in the order in which the blocks of `persistent_grid` load them; row g * units + u of a block is its
/// unit u in gate first_gate + g.
///
/// Grid and block: a thread owns elements of 16 bytes.
template <class T, class Product>
__global__ void arrange(ArrangeParameters<T> parameters) {
    int const hidden_size = parameters.hidden_size;
    int const arranged = Product::arranged(hidden_size);
    int const steps = Product::steps_of(hidden_size);
    long long const count = static_cast<long long>(parameters.num_directions) * parameters.unit_groups * arranged;
    for (long long index = first_element(); index < count; index += element_stride()) {
        int const block = static_cast<int>(index / arranged);
        int const fragment = static_cast<int>(index % arranged) / 32;
        int const first_unit = block % parameters.unit_groups * parameters.units;
        auto const value = [&](int row, int k) {
            int const unit = first_unit + row % parameters.units;
            int const gate = parameters.first_gate + row / parameters.units;
            return unit < hidden_size ? machine::to_float(parameters.recurrence.at(0, block / parameters.unit_groups,
                                                                                   static_cast<long long>(gate) * hidden_size + unit, k))
                                      : 0.0f;
        };
        parameters.arrangements[index] =
            Product::arrange(value, parameters.gates * parameters.units, hidden_size, fragment / Product::tiles / steps,
                             fragment / Product::tiles % steps, fragment % Product::tiles, static_cast<int>(index % 32));
    }
}

/// The whole sequence in one launch.
///
/// Grid: x is the group of units, `units` each; y is the group of the batch, `samples` each; z is the direction. Where x is 1 a block is
/// alone, with that `protocol`; else all blocks have to run at the same time. Block: `product_threads`; in each pass over its samples a
/// thread has up to `pairs` pairs of unit and sample, in training at most 32 over all passes; `one_pass` if no block takes more. Product
/// has all rows of a block; if the cell resets before the product those of the last gate are LateProduct's, which is NoProduct
/// elsewhere. Dynamic shared memory: the sum of the pieces.
template <class T, class Product, class LateProduct, Protocol protocol, int pairs, bool one_pass, class Pass, class Cell,
          class ForwardActivations, class BackwardActivations>
__global__ void __launch_bounds__(product_threads, 1) persistent_grid(const __grid_constant__ PersistentGridParameters<T> parameters) {
    grid_directions<T, Product, LateProduct, protocol, pairs, one_pass, Pass, Cell, ForwardActivations, BackwardActivations>(parameters);
}
