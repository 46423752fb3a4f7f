// Types and type traits without a header of the C++ library.
#pragma once

#include "common/machine.cuh"

/// Values that are accessed at once, up to 16 bytes, if they are aligned to their total size.
template <class T, int count>
struct alignas(count * sizeof(T)) AlignedVector {
    T values[count];
};

template <class T>
using Vector4 = AlignedVector<T, 4>;

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

/// Whether elements of a type are floating point.
template <class T>
inline constexpr bool is_floating =
    is_same<T, float> || is_same<T, double> || is_same<T, machine::half> || is_same<T, machine::bfloat16>;

/// Whether elements of a type are floating point of 2 bytes, which are computed with as floats.
template <class T>
inline constexpr bool is_narrow = is_same<T, machine::half> || is_same<T, machine::bfloat16>;

template <bool first, class A, class B>
struct ChoiceOf {
    using type = A;
};
template <class A, class B>
struct ChoiceOf<false, A, B> {
    using type = B;
};
/// A if `first`, else B.
template <bool first, class A, class B>
using Choice = typename ChoiceOf<first, A, B>::type;
