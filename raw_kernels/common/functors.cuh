// How functors are applied where an element type is known.
#pragma once

#include "common/types.cuh"

/// Whether a functor has `for_halves(numbers...)`: fewer instructions, whose result differs from operator()'s by less than a hundredth of
/// the rounding to a half.
template <class Functor, class... Numbers>
__device__ constexpr auto has_for_halves(int, Numbers... numbers)
    -> decltype(void(static_cast<Functor const*>(nullptr)->for_halves(numbers...)), true) {
    return true;
}

template <class Functor, class... Numbers>
__device__ constexpr bool has_for_halves(long, Numbers...) {
    return false;
}

/// The function of some numbers, for an element of type T.
template <class T, class Functor, class... Numbers>
__device__ __forceinline__ auto result_for(Functor const& functor, Numbers... numbers) {
    if constexpr (is_same<T, machine::half> && has_for_halves<Functor>(0, Numbers{}...)) {
        return functor.for_halves(numbers...);
    } else {
        return functor(numbers...);
    }
}
