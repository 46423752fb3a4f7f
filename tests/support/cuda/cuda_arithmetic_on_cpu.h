// What a GPU's approximate arithmetic may give: each launch says in which direction its results are off by all that is documented.
//
// ex2.approx.f32 and rcp.approx.f32: the PTX ISA (9.7.3, "Floating Point Instructions") allows 2 and 1 ulp from the correctly rounded
// result over the full range; zeros, infinities and NaN give what its tables say. expf and the like: the CUDA Programming Guide
// ("Mathematical Functions", maximum ulp error) found 2 ulp for expf, 1 for expm1f, logf and log1pf, and 4 for erfcf; division and square
// root are correctly rounded. Taken as exact, as tests/devices/cuda/test_approximations.py holds a GPU to: results that a float holds exactly, such as
// powers of two and bounds that a function has reached, and what underflows to zero.
//
// Tensor cores: the PTX ISA promises products of halves and of TF32 in full and sums of "at least single precision", in an unspecified
// order and with unspecified rounding. What was measured (M. Fasi et al., Numerical behavior of NVIDIA tensor cores, PeerJ Computer
// Science 7:e330) adds few products at a time, each cut off below the last bit of the largest, and cuts off the sum as well.
#pragma once

namespace cuda_on_cpu {

enum class Arithmetic : int {
    exact,  // the correctly rounded result, or what the C library gives for it
    up,     // off towards plus infinity
    down,   // off towards minus infinity
    mixed,  // off in one direction or the other, as a hash of the operand says
};

CUDA_ON_CPU_UNSEEN inline Arithmetic arithmetic() { return running->launch->arithmetic; }

/// The value so many floats above the given one, below it if negative. It does not change its sign.
CUDA_ON_CPU_UNSEEN inline float step_floats(float value, int count) {
    int32_t bits = __builtin_bit_cast(int32_t, value);
    const int32_t sign = bits & INT32_MIN, magnitude = bits & INT32_MAX;
    const int32_t moved = magnitude + (sign ? -count : count);
    return __builtin_bit_cast(float, sign | (moved < 0 ? 0 : moved));
}

/// A function of the C library or an instruction, whose results are off by up to so many ulp: `rounded` is good enough for exact
/// arithmetic, `wide` gives the result in full.
CUDA_ON_CPU_UNSEEN inline float approximate(float (*rounded)(float), double (*wide)(double), float operand, int ulps) {
    const Arithmetic kind = arithmetic();
    if (kind == Arithmetic::exact) return rounded(operand);
    const double result = wide(operand);
    const float nearest = static_cast<float>(result);
    if (nearest == result || nearest == 0.0f || !isfinite(nearest)) return nearest;
    const uint32_t hash = __builtin_bit_cast(uint32_t, operand) * 0x9E3779B9u;
    const bool upwards = kind == Arithmetic::mixed ? hash >> 31 != 0 : kind == Arithmetic::up;
    return step_floats(nearest, upwards ? ulps : -ulps);
}

/// The sum of a float and four products of halves or of TF32 values, which a double holds in full: all are cut off below the last bit
/// of the largest, and the sum is cut off to a float.
CUDA_ON_CPU_UNSEEN inline float truncating_sum(float sum, const double (&products)[4]) {
    const double whole = sum + products[0] + products[1] + products[2] + products[3];
    double largest = fabs(sum);
    for (const double product : products) largest = fmax(largest, fabs(product));
    if (!isfinite(whole) || largest == 0.0) return static_cast<float>(whole);
    constexpr int bias = 1023, lowest = -126;  // of a double's exponent; of a normal float's
    const int found = static_cast<int>(__builtin_bit_cast(uint64_t, largest) >> 52) - bias;
    const int exponent = found < lowest ? lowest : found;
    const double units = __builtin_bit_cast(double, uint64_t(bias - (exponent - 23)) << 52);  // in 1: 2^(23 - exponent)
    int32_t total = static_cast<int32_t>(sum * units);                                        // below 2^24, as are the others
    for (const double product : products) total += static_cast<int32_t>(product * units);
    const int excess = 8 - __builtin_clz(static_cast<unsigned>(total < 0 ? -total : total) | 1u);  // bits more than a float has
    if (excess > 0) total = total / (1 << excess) * (1 << excess);
    return static_cast<float>(total / units);
}

inline float gpu_expf(float x) { return approximate(expf, exp, x, 2); }
inline float gpu_expm1f(float x) { return approximate(expm1f, expm1, x, 1); }
inline float gpu_logf(float x) { return approximate(logf, log, x, 1); }
inline float gpu_log1pf(float x) { return approximate(log1pf, log1p, x, 1); }
inline float gpu_erfcf(float x) { return approximate(erfcf, erfc, x, 4); }

}  // namespace cuda_on_cpu

// Kernels call these by their names. A function of the C library that a kernel newly calls has to come here.
#define expf(x) (cuda_on_cpu::gpu_expf(x))
#define expm1f(x) (cuda_on_cpu::gpu_expm1f(x))
#define logf(x) (cuda_on_cpu::gpu_logf(x))
#define log1pf(x) (cuda_on_cpu::gpu_log1pf(x))
#define erfcf(x) (cuda_on_cpu::gpu_erfcf(x))
