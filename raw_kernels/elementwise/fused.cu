// Element-wise operators with an activation of their result.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"
#include "common/activations.cuh"

namespace element_wise {

/// f(a + b)
template <class Activation>
struct Add1 : Activation {
    __device__ float operator()(float a, float b) const { return Activation::operator()(a + b); }
    __device__ float for_halves(float a, float b) const {
        return result_for<machine::half>(static_cast<Activation const&>(*this), a + b);
    }
};

}  // namespace element_wise
