// Types, and questions to them, that need no header of the C++ library.
#pragma once

/// Values that travel together: one access of up to 16 bytes where they lie at a multiple of their size.
template <class T, int count>
struct alignas(count * sizeof(T)) Pack {
    T values[count];
};

template <class T>
using Quad = Pack<T, 4>;

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;
