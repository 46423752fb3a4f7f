// DML_SCALE_BIAS: the argument of a function is x * scale + bias of its first input x.
#pragma once

#include "common/functors.cuh"

/// The function of x * scale + bias. Integers are scaled in double precision. Product and sum are rounded one by one, so that functions
/// with steps (Floor, Round) have them where the definition does.
template <class Function>
struct Scaled : Function {
    float scale;
    float bias;

    template <class Number, class... Others>
    __device__ auto operator()(Number x, Others... others) const {
        if constexpr (is_floating<Number>) {
            return Function::operator()(machine::rounded_product(x, Number(scale)) + Number(bias), others...);
        } else {
            return Function::operator()(machine::rounded_product(static_cast<double>(x), double(scale)) + double(bias), others...);
        }
    }

    template <class... Others>
    __device__ auto for_halves(float x, Others... others) const {
        return result_for<machine::half>(static_cast<Function const&>(*this), machine::rounded_product(x, scale) + bias, others...);
    }
};

/// The same of integers of type T by whole numbers: x * scale + bias is exact and clamped to the type's range.
template <class Function, class T>
struct ScaledExactly : Function {
    long long scale;
    long long bias;

    template <class... Others>
    __device__ auto operator()(T x, Others... others) const {
        return Function::operator()(scaled(x), others...);
    }

    /// The sum in 128 bits, whose upper half shows whether it fits.
    __device__ T scaled(T x) const {
        bool const negative = is_negative(x) != (scale < 0);
        unsigned long long const factor = magnitude(x), times = magnitude(scale);
        unsigned long long low = factor * times;
        unsigned long long high = machine::multiply_high(factor, times);
        if (negative) {
            low = 0 - low;
            high = ~high + (low == 0);
        }
        unsigned long long const sum = low + static_cast<unsigned long long>(bias);
        high += (bias < 0 ? ~0ull : 0ull) + (sum < low);
        if (static_cast<long long>(high) < 0) {
            bool const fits = is_signed<T> && high == ~0ull && static_cast<long long>(sum) < 0 &&
                              static_cast<long long>(sum) >= static_cast<long long>(smallest<T>);
            return fits ? static_cast<T>(sum) : smallest<T>;
        }
        return high == 0 && sum <= static_cast<unsigned long long>(largest<T>) ? static_cast<T>(sum) : largest<T>;
    }

    template <class Integer>
    __device__ static unsigned long long magnitude(Integer value) {
        return is_negative(value) ? 0 - static_cast<unsigned long long>(value) : static_cast<unsigned long long>(value);
    }
};
