// Convolution of floats, halves and bfloat16s, with a bias for each output channel and a fused function: y = f(sum + bias).
//
// Arithmetic is float; halves and bfloat16s are multiplied by tensor cores. A total of floats adds up sums of 32 terms with compensated
// rounding; in large tiles, where sums have at most 8192 terms, it adds up sums of 128 terms.
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
#include "convolution/tensor_sums.cuh"

/// Sums of tiles: of halves, of bfloat16s, of floats rounded to TF32, and of floats as they are.
using Halves = TensorSums<machine::half>;
using ManyHalves = TensorSums<machine::half, 4, 8, false>;
using Bfloat16s = TensorSums<machine::bfloat16>;
using ManyBfloat16s = TensorSums<machine::bfloat16, 4, 8, false>;
using Tf32 = TensorSums<float>;
using ManyTf32 = TensorSums<float, 4, 8, false>;
using WholeFloats = FloatSums<CarriedSum, 32>;
using ManyFloats = FloatSums<PlainSum, 128, 8>;

/// The arithmetic of elements of type T; `Function` takes a sum and its bias.
template <class T, class Function>
struct Floats {
    using Input = T;
    using Filter = T;
    using Output = T;
    using Number = float;
    using Sum = LongSum;
    using Raw = Choice<is_same<T, float>, unsigned, unsigned short>;
    static constexpr bool has_padding = false;   // other than zeros

    T const* bias;            // absent: 0
    long long bias_stride;
    Function function;

    __device__ float pixel(T x) const { return machine::to_float(x); }
    __device__ float weight(T w, long long) const { return machine::to_float(w); }
    __device__ unsigned padding() const { return 0; }
    template <class Sums>
    __device__ Sums sums() const {
        return {};
    }
    __device__ NoZeros zeros(long long, long long) const { return {}; }
    __device__ T result(float sum, long long channel) const {
        float const added = bias == nullptr ? 0.0f : machine::to_float(bias[channel * bias_stride]);
        return machine::from_float<T>(function(sum, added));
    }
};
