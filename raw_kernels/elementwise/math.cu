// Element-wise functions of one number, each named after its operator.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"
#include "common/scaled.cuh"

namespace element_wise {

/// |x|; that of the smallest integer, which does not fit, is itself
struct Abs {
    __device__ float operator()(float x) const { return fabsf(x); }
    __device__ double operator()(double x) const { return fabs(x); }
    template <class Integer>
    __device__ Integer operator()(Integer x) const {
        return x < Integer(0) ? minus(Integer(0), x) : x;
    }
};

struct Acos {
    __device__ float operator()(float x) const { return acosf(x); }
};

struct Acosh {
    __device__ float operator()(float x) const { return acoshf(x); }
};

struct Asin {
    __device__ float operator()(float x) const { return asinf(x); }
};

struct Asinh {
    __device__ float operator()(float x) const { return asinhf(x); }
};

struct Atan {
    __device__ float operator()(float x) const { return atanf(x); }
};

struct Atanh {
    __device__ float operator()(float x) const { return atanhf(x); }
};

struct Ceil {
    __device__ float operator()(float x) const { return ceilf(x); }
};

struct Cos {
    __device__ float operator()(float x) const { return cosf(x); }
};

struct Cosh {
    __device__ float operator()(float x) const { return coshf(x); }
};

struct Erf {
    __device__ float operator()(float x) const { return erff(x); }
};

struct Exp {
    __device__ float operator()(float x) const { return expf(x); }
};

struct Floor {
    __device__ float operator()(float x) const { return floorf(x); }
};

struct Identity {
    template <class Number>
    __device__ Number operator()(Number x) const {
        return x;
    }
};

struct Log {
    __device__ float operator()(float x) const { return logf(x); }
};

/// -x; that of the smallest integer, which does not fit, is itself
struct Negate {
    __device__ float operator()(float x) const { return -x; }
    template <class Integer>
    __device__ Integer operator()(Integer x) const {
        return minus(Integer(0), x);
    }
};

struct Recip {
    __device__ float operator()(float x) const { return 1.0f / x; }
};

/// -1, 0 or 1; 0 for NaN
struct Sign {
    template <class Number>
    __device__ int operator()(Number x) const {
        return (x > Number(0)) - is_negative(x);
    }
};

struct Sin {
    __device__ float operator()(float x) const { return sinf(x); }
};

struct Sinh {
    __device__ float operator()(float x) const { return sinhf(x); }
};

struct Sqrt {
    __device__ float operator()(float x) const { return sqrtf(x); }
};

struct Tan {
    __device__ float operator()(float x) const { return tanf(x); }
};

struct Tanh {
    __device__ float operator()(float x) const { return tanhf(x); }
};

}  // namespace element_wise
