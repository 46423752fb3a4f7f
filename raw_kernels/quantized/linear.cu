// Linear quantization and dequantization: an integer q represents the number (q - zero_point) * scale.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"

namespace quantized {

/// round(x / scale) + zero_point, halves rounded to even, NaN counting as 0; `stored` clamps it to the range of the output's type.
struct QuantizeLinear {
    template <class Zero>
    __device__ float operator()(float x, float scale, Zero zero_point) const {
        float const steps = rintf(x / scale);
        return (steps != steps ? 0.0f : steps) + static_cast<float>(zero_point);
    }
    // Integers of 32 bits need double precision.
    template <class Zero>
    __device__ double operator()(int x, float scale, Zero zero_point) const {
        double const steps = rint(static_cast<double>(x) / static_cast<double>(scale));
        return (steps != steps ? 0.0 : steps) + static_cast<double>(zero_point);
    }
};

/// (x - zero_point) * scale, the difference exact
struct DequantizeLinear {
    template <class Integer, class Zero>
    __device__ float operator()(Integer x, float scale, Zero zero_point) const {
        return static_cast<float>(static_cast<long long>(x) - static_cast<long long>(zero_point)) * scale;
    }
};

/// Either of them with an implicit zero point: the middle of an unsigned type.
template <int middle, class Linear>
struct Around {
    template <class X, class Zero>
    __device__ float operator()(X x, float scale, Zero) const {
        return Linear{}(x, scale, middle);
    }
};

/// The sum of two quantized numbers, quantized. Products and their sum are rounded one by one: a step of the quantization is where the
/// definition has it.
struct QuantizedLinearAdd {
    template <class A, class ZeroA, class B, class ZeroB, class Zero>
    __device__ float operator()(A a, float a_scale, ZeroA a_zero, B b, float b_scale, ZeroB b_zero, float scale, Zero zero) const {
        float const left = machine::rounded_product(static_cast<float>(static_cast<int>(a) - static_cast<int>(a_zero)), a_scale);
        float const right = machine::rounded_product(static_cast<float>(static_cast<int>(b) - static_cast<int>(b_zero)), b_scale);
        return QuantizeLinear{}(left + right, scale, zero);
    }
};

}  // namespace quantized
