// The activation functions of DirectML, one functor each, named after its operator.
//
// A functor's members are its operator's attributes, in the order of the C struct. Arithmetic is float; Relu and Shrink accept other types
// too. A NaN comes out as a NaN unless the operator's formula says otherwise (ThresholdedRelu, Shrink, ReluGrad: a comparison with NaN is
// false, the result 0).
//
// derivative(saved) takes the value that a training pass saves: the function's value if saves_value is true, because the derivative follows
// from it exactly, else the argument. A comment gives the derivative where it is one-sided; at an infinity it is the limit. NaN
// stays NaN, except where the derivative is a constant (Identity, Linear) and in ThresholdedRelu and Shrink, as above. The functors at the
// end, which no operator fuses, have none.
#pragma once

/// 1 / (1 + e^-x) to 3 ulp, or 8 with the documented errors of the machine's functions. e to a negative power keeps the small results,
/// and does not overflow where they are subnormal.
__device__ inline float logistic(float x) {
    float const power = expf(-fabsf(x));
    float const larger = machine::reciprocal_approx(1.0f + power);
    return x < 0.0f ? power * larger : larger;
}

/// tanh to 3 ulp. 1 - 2 / (1 + e^2x) would lose small results to cancellation: near zero an odd polynomial is used.
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
    return x + x * fmaf(square, series, 0.0f);   // of -0 the sum is -0, not that of -0 and 0
}

// What functors need for halves: relative errors below a millionth, in few instructions and without branches.

/// e^x - 1, of numbers of either sign: CELU's argument, x / alpha, is positive for negative alpha
__device__ inline float expm1_for_halves(float x) {
    float series = 0.008337437f;
    series = series * x + 0.04184238f;
    series = series * x + 0.16666785f;
    series = series * x + 0.49999565f;
    series = series * x + 1.0f;
    float const log2_e = 1.44269504f;
    return fabsf(x) < 0.32f ? series * x : machine::exp2_flushed(log2_e * x) - 1.0f;
}

/// ln(1 + power) for 0 <= power <= 1
__device__ inline float log1p_for_halves(float power) {
    float series = -0.00853909645f;
    series = series * power + 0.0440892391f;
    series = series * power + -0.10768117f;
    series = series * power + 0.177452043f;
    series = series * power + -0.244954497f;
    series = series * power + 0.332754791f;
    series = series * power + -0.499974042f;
    series = series * power + 0.999999821f;
    return series * power;
}

/// max(0, x)
struct Relu {
    static constexpr bool saves_value = true;
    template <class Number>
    __device__ Number operator()(Number x) const {
        return x <= Number(0) ? Number(0) : x;   // of either zero +0
    }
    // 0 at 0; values not above 0 are 0 or NaN
    __device__ float derivative(float saved) const { return saved > 0.0f ? 1.0f : saved; }
};

/// x where x >= 0, else alpha x
struct LeakyRelu {
    float alpha;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * x; }
    // 1 at 0
    __device__ float derivative(float saved) const { return saved >= 0.0f ? 1.0f : saved < 0.0f ? alpha : saved; }
};

/// x where x > alpha, else 0
struct ThresholdedRelu {
    float alpha;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return x > alpha ? x : 0.0f; }
    // 0 at alpha
    __device__ float derivative(float saved) const { return saved > alpha ? 1.0f : 0.0f; }
};

/// x where x >= 0, else alpha (e^x - 1)
struct Elu {
    float alpha;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * expm1f(x); }
    __device__ float for_halves(float x) const { return x >= 0.0f ? x : alpha * expm1_for_halves(x); }
    // 1 at 0
    __device__ float derivative(float saved) const { return saved >= 0.0f ? 1.0f : alpha * expf(saved); }
};

/// max(0, x) + min(0, alpha (e^(x / alpha) - 1)); one of the two is always 0
struct Celu {
    float alpha;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return x >= 0.0f ? x : alpha * expm1f(x / alpha); }
    __device__ float for_halves(float x) const { return x >= 0.0f ? x : alpha * expm1_for_halves(x * (1.0f / alpha)); }
    // 1 at 0
    __device__ float derivative(float saved) const { return saved >= 0.0f ? 1.0f : expf(saved / alpha); }
};

/// gamma x where x > 0, else gamma alpha (e^x - 1)
struct ScaledElu {
    float alpha;
    float gamma;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return x > 0.0f ? gamma * x : gamma * (alpha * expm1f(x)); }
    __device__ float for_halves(float x) const { return x > 0.0f ? gamma * x : gamma * (alpha * expm1_for_halves(x)); }
    // gamma alpha at 0
    __device__ float derivative(float saved) const { return saved > 0.0f ? gamma : gamma * (alpha * expf(saved)); }
};

/// tanh x
struct Tanh {
    static constexpr bool saves_value = true;
    __device__ float operator()(float x) const { return hyperbolic_tangent(x); }
    // 1 - kept * kept would lose digits where tanh is nearly 1 or -1
    __device__ float derivative(float saved) const { return (1.0f - saved) * (1.0f + saved); }
};

/// alpha tanh(beta x)
struct ScaledTanh {
    float alpha;
    float beta;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return alpha * hyperbolic_tangent(beta * x); }
    // 1 - tanh^2 v = 4 e / (1 + e)^2 for e = e^(-2 |v|), which keeps the small results
    __device__ float derivative(float saved) const {
        float const power = expf(-2.0f * fabsf(beta * saved));
        float const quotient = power / (1.0f + power);
        return 4.0f * (quotient / (1.0f + power)) * alpha * beta;
    }
};

/// 1 / (1 + e^-x)
struct Sigmoid {
    static constexpr bool saves_value = true;
    __device__ float operator()(float x) const { return logistic(x); }
    __device__ float derivative(float saved) const { return saved * (1.0f - saved); }
};

/// 1 minus an activation's value
template <class Functor>
__device__ float rest_of(Functor const&, float, float value) {
    return 1.0f - value;
}

/// Accurate where the value is nearly 1.
__device__ inline float rest_of(Sigmoid const& sigmoid, float argument, float) {
    return sigmoid(-argument);
}

/// max(0, min(alpha x + beta, 1))
struct HardSigmoid {
    float alpha;
    float beta;
    static constexpr bool saves_value = true;
    __device__ float operator()(float x) const {
        float const line = alpha * x + beta;
        return line <= 0.0f ? 0.0f : line > 1.0f ? 1.0f : line;
    }
    // 0 at both corners; a value rounded up and down differs by 1 between them
    __device__ float derivative(float saved) const { return alpha * (ceilf(saved) - floorf(saved)); }
};

/// alpha x + beta
struct Linear {
    float alpha;
    float beta;
    static constexpr bool saves_value = true;
    __device__ float operator()(float x) const { return alpha * x + beta; }
    __device__ float derivative(float) const { return alpha; }
};

/// x
struct Identity {
    static constexpr bool saves_value = true;
    __device__ float operator()(float x) const { return x; }
    __device__ float derivative(float) const { return 1.0f; }
};

/// e^-|factor x|; corrected for the rounding of the product
__device__ inline float decay(float factor, float x) {
    float const product = factor * x;
    float const power = expf(-fabsf(product));
    if (power == 0.0f) {
        return power;
    }
    float const lost = fmaf(factor, x, -product);
    return fmaf(power, product < 0.0f ? lost : -lost, power);
}

/// ln(1 + e^(steepness x)) / steepness, for a steepness above 0
struct Softplus {
    float steepness;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const { return fmaxf(x, 0.0f) + log1pf(decay(steepness, x)) / steepness; }
    __device__ float for_halves(float x) const {
        float const log2_e = 1.44269504f;
        // not x times a product, which could be infinity times 0
        float const power = machine::exp2_flushed(-fabsf(log2_e * (steepness * x)));
        return fmaxf(x, 0.0f) + log1p_for_halves(power) * (1.0f / steepness);
    }
    __device__ float derivative(float saved) const { return logistic(steepness * saved); }
};

/// alpha ln(1 + e^(beta x))
struct ParametricSoftplus {
    float alpha;
    float beta;
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const {
        return alpha * (fmaxf(beta * x, 0.0f) + log1pf(decay(beta, x)));
    }
    __device__ float for_halves(float x) const {
        float const log2_e = 1.44269504f;
        float const argument = beta * x;
        // not flushed: a large alpha makes normal numbers of the smallest powers
        return alpha * (fmaxf(argument, 0.0f) + log1p_for_halves(machine::exp2_approx(-fabsf(log2_e * argument))));
    }
    __device__ float derivative(float saved) const { return logistic(beta * saved) * alpha * beta; }
};

/// x / (1 + |x|), 1 or -1 at the infinities
struct Softsign {
    static constexpr bool saves_value = false;
    __device__ float operator()(float x) const {
        float const size = 1.0f + fabsf(x);
        return size > 3.0e38f ? copysignf(1.0f, x) : x / size;
    }
    __device__ float derivative(float saved) const {
        float const reciprocal = 1.0f / (1.0f + fabsf(saved));
        return reciprocal * reciprocal;
    }
};

/// x (1 + erf(x / sqrt 2)) / 2 = max(0, x) - |x| Phi(-|x|), Phi the integral of the normal distribution, which keeps the small results for
/// x < 0; to 4 ulp, or 10 with the documented errors of the machine's functions
struct Gelu {
    static constexpr bool saves_value = false;
    // With t = 1 / (1 + 0.75 m), Phi(-m) e^(m^2 / 2) / t is a polynomial of t - 1/2 up to 14.4; beyond, results are 0.
    __device__ float operator()(float x) const {
        float const magnitude = fminf(fabsf(x), 14.4f);
        float const t = machine::reciprocal_flushed(fmaf(0.75f, magnitude, 1.0f));
        float const v = t - 0.5f;
        float series = 0.482113779f;
        series = fmaf(series, v, -0.687687933f);
        series = fmaf(series, v, 0.141567647f);
        series = fmaf(series, v, 0.353527009f);
        series = fmaf(series, v, -0.399350554f);
        series = fmaf(series, v, 0.199811772f);
        series = fmaf(series, v, 0.0508237928f);
        series = fmaf(series, v, -0.218180954f);
        series = fmaf(series, v, 0.203051314f);
        series = fmaf(series, v, -0.00770512922f);
        series = fmaf(series, v, -0.225217387f);
        series = fmaf(series, v, 0.212520227f);
        series = fmaf(series, v, 0.443728983f);
        // The power of 2 is a whole number, which the last digits of a sum hold, and a fraction with what is lost of the square and of the
        // factor. With 151 the whole number is the exponent of a float that is 2^24 times as large, and no subnormal one.
        float const half_log2_e = 0.721347511f, rest = 9.62981517e-9f, whole_numbers = 12582912.0f + 151.0f;
        float const square = magnitude * magnitude, lost = fmaf(magnitude, magnitude, -square);
        float const sum = fmaf(-half_log2_e, square, whole_numbers);
        float const fraction = fmaf(-rest, square, fmaf(-half_log2_e, lost, fmaf(-half_log2_e, square, whole_numbers - sum)));
        float const density = machine::exp2_flushed(fraction) * machine::float_of_bits(machine::to_bits(sum) << 23);
        return fmaf(magnitude * t * series * density, -0x1p-24f, x < 0.0f ? 0.0f : x);
    }
    // The same, with Phi(-m) e^(m^2 / 2) as a polynomial of 1 / (1 + 0.4 m) up to 6.6; beyond, results are 0 in halves
    __device__ float for_halves(float x) const {
        float const magnitude = fminf(fabsf(x), 16.0f);
        float const t = machine::reciprocal_flushed(1.0f + 0.4f * magnitude);
        float series = 0.0590482652f;
        series = series * t + -0.267369717f;
        series = series * t + 0.364137292f;
        series = series * t + -0.0112145646f;
        series = series * t + 0.20203498f;
        series = series * t + 0.152929917f;
        series = series * t + 0.000433480192f;
        float const half_log2_e = 0.72134752f;
        float const density = machine::exp2_flushed(-half_log2_e * magnitude * magnitude);
        return (x < 0.0f ? 0.0f : x) - magnitude * series * density;
    }
    // Phi(x) + x phi(x), phi the density of the normal distribution and Phi its integral
    __device__ float derivative(float saved) const {
        float const density = 0.398942280f * expf(-0.5f * saved * saved);
        return 0.5f * erfcf(-0.707106781f * saved) + (density == 0.0f ? 0.0f : saved * density);
    }
};

/// x - bias where x > threshold, x + bias where x < -threshold, else 0
struct Shrink {
    float bias;
    float threshold;
    static constexpr bool saves_value = false;
    template <class Number>
    __device__ Number operator()(Number x) const {
        return x > threshold ? x - bias : x < -threshold ? x + bias : Number(0);
    }
    // 0 at both thresholds
    __device__ float derivative(float saved) const { return saved > threshold || saved < -threshold ? 1.0f : 0.0f; }
};

/// gate x; 0 where the gate is 0, even if x is infinite
__device__ inline float gated(float gate, float x) {
    return gate == 0.0f ? 0.0f : gate * x;
}

/// x / (1 + e^(-sigmoid_input_scale x)); the root of e^-|...| has its digits where the power has none
struct Swish {
    float sigmoid_input_scale;
    __device__ float operator()(float x) const {
        float const exponent = sigmoid_input_scale * x;
        float const root = expf(-0.5f * fabsf(exponent));
        float const larger = machine::reciprocal_approx(1.0f + root * root);
        return exponent < 0.0f ? gated(root, x) * root * larger : larger * x;
    }
};

/// x max(0, min(alpha x + beta, 1))
struct HardSwish {
    float alpha;
    float beta;
    __device__ float operator()(float x) const { return gated(HardSigmoid{alpha, beta}(x), x); }
};

/// x where x >= 0, else slope x, which wraps around in integers
struct ParameterizedRelu {
    __device__ float operator()(float x, float slope) const { return x >= 0.0f ? x : slope * x; }
    template <class Integer>
    __device__ Integer operator()(Integer x, Integer slope) const {
        // unsigned overflow is defined, signed is not
        return x >= 0 ? x : static_cast<Integer>(static_cast<unsigned>(slope) * static_cast<unsigned>(x));
    }
};

/// dy where x > 0, else 0
struct ReluGrad {
    template <class Number>
    __device__ Number operator()(Number x, Number dy) const {
        return x > Number(0) ? dy : Number(0);
    }
};

/// The functor with its attributes, which a launch passes as numbers; a functor ignores those that it lacks.
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
