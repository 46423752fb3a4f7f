// Convolution of floats and halves, with a bias for each output channel and a fused function: y = f(sum + bias).
//
// Arithmetic is float; halves are multiplied by tensor cores. A total of floats adds up sums of 16 terms with compensated rounding.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"
#include "common/conversions.cuh"
#include "common/activations.cuh"
#include "common/scaled.cuh"
#include "common/epilogue.cuh"
#include "common/tile_products.cuh"
#include "common/convolution.cuh"
#include "common/convolution_tiles.cuh"

/// The arithmetic of elements of type T; `Function` takes a sum and its bias.
template <class T, class Function>
struct Floats {
    using Input = T;
    using Filter = T;
    using Output = T;
    using Number = float;
    using Sum = LongSum;
    using Sums = Choice<is_same<T, machine::half>, HalfSums, FloatSums<CarriedSum, 16>>;
    static constexpr unsigned input_flip = 0;
    static constexpr unsigned filter_flip = 0;

    T const* bias;            // absent: 0
    long long bias_stride;
    Function function;

    __device__ float pixel(T x) const { return machine::to_float(x); }
    __device__ float weight(T w, long long) const { return machine::to_float(w); }
    __device__ unsigned padding() const { return 0; }
    __device__ Sums sums() const { return {}; }
    __device__ NoZeros zeros(long long, long long) const { return {}; }
    __device__ T result(float sum, long long channel) const {
        float const added = bias == nullptr ? 0.0f : machine::to_float(bias[channel * bias_stride]);
        return machine::from_float<T>(function(sum, added));
    }
};
