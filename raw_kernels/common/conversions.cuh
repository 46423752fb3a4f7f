// Conversions between element types and the types of arithmetic.
#pragma once

template <class T>
inline constexpr bool is_signed = T(-1) < T(0);
template <>
inline constexpr bool is_signed<machine::half> = true;
template <>
inline constexpr bool is_signed<machine::bfloat16> = true;

/// The ends of an integer type.
template <class T>
inline constexpr T largest = static_cast<T>((1ull << (8 * sizeof(T) - 1)) - 1 + (is_signed<T> ? 0 : 1ull << (8 * sizeof(T) - 1)));
template <class T>
inline constexpr T smallest = is_signed<T> ? static_cast<T>(-largest<T> - 1) : T(0);

/// A stored element as an operand: a half and a bfloat16 become floats, other types are unchanged.
template <class T>
__device__ __forceinline__ T number_of(T element) {
    return element;
}

__device__ __forceinline__ float number_of(machine::half element) {
    return machine::to_float(element);
}

__device__ __forceinline__ float number_of(machine::bfloat16 element) {
    return machine::to_float(element);
}

/// A number rounded toward zero and clamped to an integer type's range; NaN becomes 0.
template <class T, class Number>
__device__ T held(Number number) {
    // One past the largest is a power of two: a number of either floating-point type, as the largest need not be.
    constexpr Number end = static_cast<Number>(largest<T> / 2 + 1) * Number(2);
    constexpr Number begin = static_cast<Number>(smallest<T>);
    return number >= end ? largest<T> : number <= begin ? smallest<T> : number != number ? T(0) : static_cast<T>(number);
}

/// A result as an element. Floating point is rounded to nearest, and clamped to the range of integers; integers wrap around in
/// integers.
template <class T, class Result>
__device__ __forceinline__ T stored(Result result) {
    if constexpr (is_same<T, Result>) {
        return result;
    } else if constexpr (is_same<T, machine::half>) {
        if constexpr (is_same<Result, double>) {
            return machine::from_double(result);
        } else {
            return machine::from_float<machine::half>(static_cast<float>(result));
        }
    } else if constexpr (is_same<T, machine::bfloat16>) {
        return machine::from_float<machine::bfloat16>(static_cast<float>(result));
    } else if constexpr (is_floating<Result> && !is_floating<T>) {
        return held<T>(result);
    } else {
        return static_cast<T>(result);
    }
}

/// Whether a number is below zero. Unsigned ones are not compared: NVRTC 12.9 would warn.
template <class Number>
__device__ __forceinline__ bool is_negative(Number x) {
    if constexpr (is_signed<Number>) {
        return x < Number(0);
    } else {
        return false;
    }
}

/// Integer sums, differences and products that wrap around in the type: those of signed C++ integers may not.
template <class T>
__device__ __forceinline__ T plus(T a, T b) {
    if constexpr (is_floating<T>) {
        return a + b;
    } else {
        return static_cast<T>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
    }
}

template <class T>
__device__ __forceinline__ T minus(T a, T b) {
    if constexpr (is_floating<T>) {
        return a - b;
    } else {
        return static_cast<T>(static_cast<unsigned long long>(a) - static_cast<unsigned long long>(b));
    }
}

template <class T>
__device__ __forceinline__ T times(T a, T b) {
    if constexpr (is_floating<T>) {
        return a * b;
    } else {
        return static_cast<T>(static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b));
    }
}
