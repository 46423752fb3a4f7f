// The element-wise activations, each as a separate operator:
//
//   y = f(x)         one input: every functor of one argument
//   y = f(x, v)      two inputs: ParameterizedRelu of x and its slope, ReluGrad of x and the gradient of relu(x)
//
// Integers keep their type, except in Shrink, which computes them as double.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"
#include "common/activations.cuh"

/// A function of integers in double precision; a NaN is stored as the smallest.
template <class Function>
struct InDouble : Function {
    template <class Integer>
    __device__ double operator()(Integer x) const {
        double const y = Function::operator()(static_cast<double>(x));
        return y != y ? static_cast<double>(smallest<Integer>) : y;
    }
};
