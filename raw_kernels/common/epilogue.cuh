// The operations on a sum of products before it is stored.
#pragma once

#include "common/functors.cuh"

/// max(least, x), then min(most, that); NaN stays. A zero that equals a limit has the limit's sign. With `Scaled` it is the CLIP that
/// operators fuse.
struct Clip {
    float least;
    float most;
    __device__ float operator()(float x) const {
        float const above = x <= least ? least : x;
        return above >= most ? most : above;
    }
};

/// f(product_factor * product + addend_factor * addend), f one of the activations or Scaled<Clip>. Without an addend, its factor is 0 and
/// the addend too.
template <class Function>
struct Epilogue : Function {
    float product_factor;
    float addend_factor;
    __device__ float operator()(float product, float addend) const {
        return Function::operator()(product_factor * product + addend_factor * addend);
    }
    __device__ float for_halves(float product, float addend) const {
        return result_for<machine::half>(static_cast<Function const&>(*this), product_factor * product + addend_factor * addend);
    }
};
