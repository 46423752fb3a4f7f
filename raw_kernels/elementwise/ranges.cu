// Element-wise limits and rounding, each functor named after its operator. Limits have the elements' type, float for halves.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"
#include "common/scaled.cuh"

namespace element_wise {

/// x in the limits' type: scaled integers are doubles
template <class Limit, class Number>
__device__ Limit in_type(Number x) {
    return stored<Limit>(x);
}

/// max(min, x), then min(max, that); NaN stays. A zero that equals a limit has the limit's sign, here and below.
template <class Limit>
struct Clip {
    Limit least;
    Limit most;

    template <class Number>
    __device__ Limit operator()(Number number) const {
        Limit const x = in_type<Limit>(number);
        Limit const above = x <= least ? least : x;
        return above >= most ? most : above;
    }
};

/// min(max, x), then max(min, that); NaN stays
template <class Limit>
struct Clip1 {
    Limit least;
    Limit most;

    template <class Number>
    __device__ Limit operator()(Number number) const {
        Limit const x = in_type<Limit>(number);
        Limit const below = x >= most ? most : x;
        return below <= least ? least : below;
    }
};

/// max(min, x); NaN stays
template <class Limit>
struct Threshold {
    Limit least;

    template <class Number>
    __device__ Limit operator()(Number number) const {
        Limit const x = in_type<Limit>(number);
        return x <= least ? least : x;
    }
};

/// 0 where x <= min or x >= max, else dy
struct ClipGrad {
    float least;
    float most;
    __device__ float operator()(float x, float dy) const { return x <= least || x >= most ? 0.0f : dy; }
};

/// The same of integers: `first` and `last` are the ends of the open range, none lies between them if it is empty.
template <class Integer>
struct ClipGradOfIntegers {
    Integer first;
    Integer last;
    __device__ Integer operator()(Integer x, Integer dy) const { return x >= first && x <= last ? dy : Integer(0); }
};

/// to nearest, halves to even
struct RoundHalvesToEven {
    __device__ float operator()(float x) const { return rintf(x); }
};

/// the fraction dropped
struct RoundTowardZero {
    __device__ float operator()(float x) const { return truncf(x); }
};

/// to nearest, halves away from zero
struct RoundHalvesAway {
    __device__ float operator()(float x) const { return roundf(x); }
};

}  // namespace element_wise
