// Element-wise arithmetic of two numbers, each functor named after its operator. Integers wrap around, and give 0 where they are divided
// by 0.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"
#include "common/scaled.cuh"

namespace element_wise {

struct Add {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        return plus(a, b);
    }
};

/// the angle of the point (b, a)
struct AtanYX {
    __device__ float operator()(float a, float b) const { return atan2f(a, b); }
};

/// x ^ exponent for halves, of normal numbers x > 0 and finite exponents: 2 ^ (exponent (e + log2(m))), x = 2^e m, 2/3 <= m < 4/3. Of x = 0
/// it is 2 ^ (-127 exponent), of infinity 2 ^ (128 exponent): 0 or infinity in halves, for exponents that are not small.
__device__ inline float power_for_halves(float x, float exponent) {
    unsigned const bits = machine::to_bits(x);
    int const power = static_cast<int>(bits - 0x3F2AAAABu) >> 23;
    float const rest = machine::float_of_bits(bits - (static_cast<unsigned>(power) << 23)) - 1.0f;
    float series = -0.187830821f;
    series = series * rest + 0.203238726f;
    series = series * rest + -0.175262943f;
    series = series * rest + 0.201698661f;
    series = series * rest + -0.240699768f;
    series = series * rest + 0.288718313f;
    series = series * rest + -0.360668778f;
    series = series * rest + 0.480895817f;
    series = series * rest + -0.72134757f;
    series = series * rest + 1.44269502f;
    return machine::exp2_flushed(exponent * static_cast<float>(power) + exponent * (series * rest));
}

/// powf where it is rarely called: not a copy of it for each element.
__device__ __noinline__ inline float rare_power(float x, float exponent) {
    return powf(x, exponent);
}

/// x ^ exponent; NaN where x is negative, including minus infinity, and the exponent is not an integer
struct ConstantPow {
    float exponent;
    __device__ float operator()(float x) const {
        bool const is_undefined = x < 0.0f && exponent != truncf(exponent);
        return is_undefined ? machine::float_of_bits(0x7FFFFFFF) : powf(x, exponent);
    }
};

/// The same of halves, for finite exponents of at least 1/4.
struct ConstantPowOfHalves {
    float exponent;
    float least;     // 0, or minus infinity for whole exponents: of lesser numbers the result is NaN
    unsigned sign;   // the bit of the sign, for odd exponents, or 0
    __device__ float operator()(float x) const {
        unsigned const power = machine::to_bits(power_for_halves(fabsf(x), exponent)) | (machine::to_bits(x) & sign);
        return machine::float_of_bits(x >= least ? power : 0x7FFFFFFF);
    }
};

/// x ^ 2
struct Square {
    __device__ float operator()(float x) const { return x * x; }
};

/// x ^ 0.5; -0 + 0 is 0
struct SquareRoot {
    __device__ float operator()(float x) const { return sqrtf(x + 0.0f); }
};

struct DifferenceSquare {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        Number const difference = minus(a, b);
        return times(difference, difference);
    }
};

/// a / b, that of integers rounded toward zero
struct Divide {
    __device__ float operator()(float a, float b) const { return a / b; }
    template <class Integer>
    __device__ Integer operator()(Integer a, Integer b) const {
        if (b == Integer(0)) {
            return 0;
        }
        // the quotient of the smallest integer and -1 does not fit
        return is_signed<Integer> && b == Integer(-1) ? minus(Integer(0), a) : static_cast<Integer>(a / b);
    }
};

/// the greater, +0 being greater than -0; NaN if either is
struct Max {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        return a == Number(0) && b == Number(0) ? static_cast<Number>(a + b) : a > b || a != a ? a : b;
    }
};

/// (a + b) / 2, that of integers without overflow and rounded toward zero
struct Mean {
    __device__ float operator()(float a, float b) const { return (a + b) / 2.0f; }
    template <class Integer>
    __device__ Integer operator()(Integer a, Integer b) const {
        return static_cast<Integer>((static_cast<long long>(a) + static_cast<long long>(b)) / 2);
    }
};

/// the lesser, -0 being less than +0; NaN if either is
struct Min {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        return a == Number(0) && b == Number(0) ? static_cast<Number>(-(-a - b)) : a < b || a != a ? a : b;
    }
};

/// the remainder with the sign of the dividend a
struct ModulusTruncate {
    __device__ float operator()(float a, float b) const { return fmodf(a, b); }
    template <class Integer>
    __device__ Integer operator()(Integer a, Integer b) const {
        bool const is_zero = b == Integer(0) || (is_signed<Integer> && b == Integer(-1));
        return is_zero ? Integer(0) : static_cast<Integer>(a % b);
    }
};

/// the remainder with the sign of the divisor b
struct ModulusFloor {
    __device__ float operator()(float a, float b) const {
        float const remainder = fmodf(a, b);
        return remainder == 0.0f ? copysignf(0.0f, b) : (remainder < 0.0f) != (b < 0.0f) ? remainder + b : remainder;
    }
    template <class Integer>
    __device__ Integer operator()(Integer a, Integer b) const {
        Integer const remainder = ModulusTruncate{}(a, b);
        if constexpr (is_signed<Integer>) {
            return remainder != Integer(0) && (remainder < Integer(0)) != (b < Integer(0)) ? plus(remainder, b) : remainder;
        } else {
            return remainder;
        }
    }
};

struct Multiply {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        return times(a, b);
    }
};

/// x ^ exponent. Integers to the power of integers wrap around, and a negative power is rounded toward zero: 0 unless x is 1 or -1. Other
/// powers with an integer among their operands are computed in double precision; results that are integers up to a rounding error are
/// rounded if an integer is stored.
struct Pow {
    __device__ float operator()(float x, float exponent) const { return powf(x, exponent); }
    __device__ float for_halves(float x, float exponent) const {
        bool const is_usual = x >= 1.17549435e-38f && x <= 3.40282347e38f && fabsf(exponent) < 65536.0f;
        return is_usual ? power_for_halves(x, exponent) : rare_power(x, exponent);
    }

    template <class Base, class Exponent>
    __device__ auto operator()(Base x, Exponent exponent) const {
        if constexpr (is_same<Base, float>) {
            return static_cast<float>(pow(static_cast<double>(x), static_cast<double>(exponent)));
        } else if constexpr (is_floating<Base> || is_floating<Exponent>) {
            return snapped(pow(static_cast<double>(x), static_cast<double>(exponent)));
        } else {
            return static_cast<Base>(whole_power(static_cast<long long>(x), static_cast<long long>(exponent)));
        }
    }

    __device__ static double snapped(double value) {
        double const nearest = rint(value);
        return fabs(value - nearest) <= 4.0 * 2.220446049250313e-16 * fabs(value) ? nearest : value;
    }

    __device__ static long long whole_power(long long x, long long exponent) {
        if (exponent < 0) {
            return x == 1 ? 1 : x == -1 ? (exponent % 2 ? -1 : 1) : 0;
        }
        unsigned long long power = 1, square = static_cast<unsigned long long>(x);
#pragma unroll 1
        for (; exponent; exponent >>= 1) {
            power *= exponent & 1 ? square : 1;
            square *= square;
        }
        return static_cast<long long>(power);
    }
};

struct Subtract {
    template <class Number>
    __device__ Number operator()(Number a, Number b) const {
        return minus(a, b);
    }
};

}  // namespace element_wise
