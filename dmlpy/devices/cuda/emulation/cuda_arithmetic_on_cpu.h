// What a GPU's approximate arithmetic may give: each launch says in which direction its results are off by all that is documented.
//
// ex2.approx.f32 and rcp.approx.f32: the PTX ISA (9.7.3, "Floating Point Instructions") allows 2 and 1 ulp from the correctly rounded
// result over the full range; zeros, infinities and NaN give what its tables say. expf and the like: below, the maximum error in ulp that
// the CUDA Programming Guide found ("Mathematical Functions", Standard Functions), as intel/llvm's
// sycl/doc/cuda/cuda-vs-opencl-math-builtin-precisions.md quotes its tables of single and double precision. Division, square root, fmodf
// and the functions that round to an integer are exact by the same tables. Taken as exact, as
// tests/devices/cuda/test_approximations.py holds a GPU to: results that a float holds exactly, such as powers of two and bounds that a
// function has reached, and what underflows to zero.
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

/// Whether a result that is not exact is off upwards.
CUDA_ON_CPU_UNSEEN inline bool is_off_upwards(uint32_t operand_bits) {
    return arithmetic() == Arithmetic::mixed ? operand_bits * 0x9E3779B9u >> 31 != 0 : arithmetic() == Arithmetic::up;
}

/// What may come instead of a result given in full: the float that is so many ulp from the nearest one.
CUDA_ON_CPU_UNSEEN inline float off(double result, uint32_t operand_bits, int ulps) {
    const float nearest = static_cast<float>(result);
    if (nearest == result || nearest == 0.0f || !isfinite(nearest)) return nearest;
    return step_floats(nearest, is_off_upwards(operand_bits) ? ulps : -ulps);
}

/// A function of the C library or an instruction, whose results are off by up to so many ulp: `rounded` is good enough for exact
/// arithmetic, `wide` gives the result in full.
CUDA_ON_CPU_UNSEEN inline float approximate(float (*rounded)(float), double (*wide)(double), float operand, int ulps) {
    if (arithmetic() == Arithmetic::exact) return rounded(operand);
    return off(wide(operand), __builtin_bit_cast(uint32_t, operand), ulps);
}

/// The same of two operands.
CUDA_ON_CPU_UNSEEN inline float approximate(float (*rounded)(float, float), double (*wide)(double, double), float first, float second,
                                            int ulps) {
    if (arithmetic() == Arithmetic::exact) return rounded(first, second);
    return off(wide(first, second), __builtin_bit_cast(uint32_t, first) ^ __builtin_bit_cast(uint32_t, second) >> 1, ulps);
}

/// pow of doubles, whose results are off by up to so many ulp.
CUDA_ON_CPU_UNSEEN inline double approximate_power(double base, double exponent, int ulps) {
    if (arithmetic() == Arithmetic::exact) return pow(base, exponent);
    const long double result = powl(base, exponent);
    const double nearest = static_cast<double>(result);
    if (nearest == result || nearest == 0.0 || !isfinite(nearest)) return nearest;
    const uint64_t bits = __builtin_bit_cast(uint64_t, base) ^ __builtin_bit_cast(uint64_t, exponent) >> 1;
    const double towards = is_off_upwards(static_cast<uint32_t>(bits ^ bits >> 32)) ? INFINITY : -INFINITY;
    double value = nearest;
    for (int step = 0; step < ulps; ++step) value = nextafter(value, towards);
    return value;
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

inline float gpu_acosf(float x) { return approximate(acosf, acos, x, 3); }
inline float gpu_acoshf(float x) { return approximate(acoshf, acosh, x, 4); }
inline float gpu_asinf(float x) { return approximate(asinf, asin, x, 4); }
inline float gpu_asinhf(float x) { return approximate(asinhf, asinh, x, 3); }
inline float gpu_atanf(float x) { return approximate(atanf, atan, x, 2); }
inline float gpu_atanhf(float x) { return approximate(atanhf, atanh, x, 3); }
inline float gpu_cosf(float x) { return approximate(cosf, cos, x, 2); }
inline float gpu_coshf(float x) { return approximate(coshf, cosh, x, 2); }
inline float gpu_erff(float x) { return approximate(erff, erf, x, 2); }
inline float gpu_erfcf(float x) { return approximate(erfcf, erfc, x, 4); }
inline float gpu_expf(float x) { return approximate(expf, exp, x, 2); }
inline float gpu_expm1f(float x) { return approximate(expm1f, expm1, x, 1); }
inline float gpu_logf(float x) { return approximate(logf, log, x, 1); }
inline float gpu_log1pf(float x) { return approximate(log1pf, log1p, x, 1); }
inline float gpu_sinf(float x) { return approximate(sinf, sin, x, 2); }
inline float gpu_sinhf(float x) { return approximate(sinhf, sinh, x, 3); }
inline float gpu_tanf(float x) { return approximate(tanf, tan, x, 4); }
inline float gpu_tanhf(float x) { return approximate(tanhf, tanh, x, 2); }
inline float gpu_atan2f(float x, float y) { return approximate(atan2f, atan2, x, y, 3); }
inline float gpu_powf(float x, float y) { return approximate(powf, pow, x, y, 8); }
inline double gpu_pow(double x, double y) { return approximate_power(x, y, 2); }

}  // namespace cuda_on_cpu

// Kernels call these by their names. A function of the C library that a kernel newly calls has to come here.
#define acosf(x) (cuda_on_cpu::gpu_acosf(x))
#define acoshf(x) (cuda_on_cpu::gpu_acoshf(x))
#define asinf(x) (cuda_on_cpu::gpu_asinf(x))
#define asinhf(x) (cuda_on_cpu::gpu_asinhf(x))
#define atanf(x) (cuda_on_cpu::gpu_atanf(x))
#define atanhf(x) (cuda_on_cpu::gpu_atanhf(x))
#define cosf(x) (cuda_on_cpu::gpu_cosf(x))
#define coshf(x) (cuda_on_cpu::gpu_coshf(x))
#define erff(x) (cuda_on_cpu::gpu_erff(x))
#define erfcf(x) (cuda_on_cpu::gpu_erfcf(x))
#define expf(x) (cuda_on_cpu::gpu_expf(x))
#define expm1f(x) (cuda_on_cpu::gpu_expm1f(x))
#define logf(x) (cuda_on_cpu::gpu_logf(x))
#define log1pf(x) (cuda_on_cpu::gpu_log1pf(x))
#define sinf(x) (cuda_on_cpu::gpu_sinf(x))
#define sinhf(x) (cuda_on_cpu::gpu_sinhf(x))
#define tanf(x) (cuda_on_cpu::gpu_tanf(x))
#define tanhf(x) (cuda_on_cpu::gpu_tanhf(x))
#define atan2f(x, y) (cuda_on_cpu::gpu_atan2f(x, y))
#define powf(x, y) (cuda_on_cpu::gpu_powf(x, y))
#define pow(x, y) (cuda_on_cpu::gpu_pow(x, y))
