// The activation functions of DirectML, one functor each, named after its operator.
//
// A functor's members are its operator's attributes, in the order of the C struct. Arithmetic is float. A NaN comes out as a NaN
// unless the operator's formula says otherwise (ThresholdedRelu, Shrink: a comparison with NaN is false, the result 0).
#pragma once

/// 1 / (1 + e^-x), within 4 ulp for |x| <= 4; further out the error in e^-x grows with |x|, the absolute one does not.
__device__ inline float logistic(float x) {
    float const log2_e = 1.44269504f;
    return machine::reciprocal_approx(1.0f + machine::exp2_approx(-log2_e * x));
}

/// tanh to 3 ulp. 1 - 2 / (1 + e^2x) would lose the small results to cancellation: near zero an odd polynomial stands in.
__device__ inline float hyperbolic_tangent(float x) {
    float const magnitude = fabsf(x);
    if (magnitude > 0.55f) {
        float const two_log2_e = 2.88539008f;
        float const power = machine::exp2_approx(two_log2_e * magnitude);
        return copysignf(1.0f - 2.0f * machine::reciprocal_approx(1.0f + power), x);
    }
    float const square = x * x;
    float series = 0.0162739474f;
    series = series * square + -0.0525868945f;
    series = series * square + 0.133194208f;
    series = series * square + -0.333328903f;
    return x + x * (square * series);
}

/// max(0, x)
struct Relu {
    __device__ float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};

/// x where x >= 0, else alpha x
struct LeakyRelu {
    float alpha;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * x; }
};

/// x where x > alpha, else 0
struct ThresholdedRelu {
    float alpha;
    __device__ float operator()(float x) const { return x > alpha ? x : 0.0f; }
};

/// x where x >= 0, else alpha (e^x - 1)
struct Elu {
    float alpha;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * expm1f(x); }
};

/// max(0, x) + min(0, alpha (e^(x / alpha) - 1)); one of the two is always 0
struct Celu {
    float alpha;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * expm1f(x / alpha); }
};

/// gamma x where x > 0, else gamma alpha (e^x - 1)
struct ScaledElu {
    float alpha;
    float gamma;
    __device__ float operator()(float x) const { return x > 0.0f ? gamma * x : gamma * (alpha * expm1f(x)); }
};

/// tanh x
struct Tanh {
    __device__ float operator()(float x) const { return hyperbolic_tangent(x); }
};

/// alpha tanh(beta x)
struct ScaledTanh {
    float alpha;
    float beta;
    __device__ float operator()(float x) const { return alpha * hyperbolic_tangent(beta * x); }
};

/// 1 / (1 + e^-x)
struct Sigmoid {
    __device__ float operator()(float x) const { return logistic(x); }
};

/// max(0, min(alpha x + beta, 1))
struct HardSigmoid {
    float alpha;
    float beta;
    __device__ float operator()(float x) const {
        float const line = alpha * x + beta;
        return line < 0.0f ? 0.0f : line > 1.0f ? 1.0f : line;
    }
};

/// alpha x + beta
struct Linear {
    float alpha;
    float beta;
    __device__ float operator()(float x) const { return alpha * x + beta; }
};

/// x
struct Identity {
    __device__ float operator()(float x) const { return x; }
};

/// ln(1 + e^(steepness x)) / steepness, for a steepness above 0
struct Softplus {
    float steepness;
    __device__ float operator()(float x) const { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(steepness * x))) / steepness; }
};

/// alpha ln(1 + e^(beta x))
struct ParametricSoftplus {
    float alpha;
    float beta;
    __device__ float operator()(float x) const {
        float const exponent = beta * x;
        return alpha * (fmaxf(exponent, 0.0f) + log1pf(expf(-fabsf(exponent))));
    }
};

/// x / (1 + |x|), 1 or -1 at the infinities
struct Softsign {
    __device__ float operator()(float x) const {
        float const size = 1.0f + fabsf(x);
        return size > 3.0e38f ? copysignf(1.0f, x) : x / size;
    }
};

/// x (1 + erf(x / sqrt 2)) / 2, by erfc(-v) = 1 + erf(v), which keeps the small results for x < 0; 0 at minus infinity
struct Gelu {
    __device__ float operator()(float x) const {
        float const tail = erfcf(-0.707106781f * x);
        return tail == 0.0f ? 0.0f : 0.5f * x * tail;
    }
};

/// x - bias where x > threshold, x + bias where x < -threshold, else 0
struct Shrink {
    float bias;
    float threshold;
    __device__ float operator()(float x) const { return x > threshold ? x - bias : x < -threshold ? x + bias : 0.0f; }
};

/// The functor with its attributes, which a launch passes as numbers; a functor ignores those that it does not have.
template <class Functor>
__device__ Functor with_attributes(float const (&attributes)[2]) {
    if constexpr (sizeof(Functor) < sizeof(float)) {
        return Functor{};
    } else if constexpr (sizeof(Functor) == sizeof(float)) {
        return Functor{attributes[0]};
    } else {
        return Functor{attributes[0], attributes[1]};
    }
}
