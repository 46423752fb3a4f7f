// RNN, GRU and LSTM over a sequence in one launch, with R spread over the blocks of a cluster: `persistent_grid` of
// recurrent/persistent_grid.cu, which arranges R for both, where the blocks of a group form a cluster. Compute capability 9.0 on.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/activations.cuh"
#include "common/cells.cuh"
#include "common/layer.cuh"
#include "common/sequence.cuh"
#include "common/block_exchange.cuh"
#include "common/cluster_exchange.cuh"
#include "common/step_pointers.cuh"
#include "common/staging.cuh"
#include "common/products.cuh"
#include "common/persistent_grid.cuh"

/// `PersistentGridParameters` of a kernel whose blocks form clusters of so many.
template <class T, int blocks>
struct ClusterParameters : PersistentGridParameters<T> {
    static constexpr int cluster_blocks = blocks;
};

/// The same with a cluster for each group, and so many blocks along x. Only those have to run at the same time, and the device sees to
/// that.
template <class T, class Product, class LateProduct, Protocol protocol, int pairs, bool one_pass, class Pass, class Cell,
          class ForwardActivations, class BackwardActivations>
__global__ void __cluster_dims__(static_cast<int>(protocol), 1, 1) __launch_bounds__(product_threads, 1)
    clustered(const __grid_constant__ ClusterParameters<T, static_cast<int>(protocol)> parameters) {
    grid_directions<T, Product, LateProduct, protocol, pairs, one_pass, Pass, Cell, ForwardActivations, BackwardActivations>(parameters);
}
