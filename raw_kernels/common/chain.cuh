// Chains of element-wise operators as one functor: what one computes, the others read from a register.
//
//   a = f(x, y),  b = g(a, y),  c = h(b, a)    ->    Chain<Step<F, A, Given<0>, Given<1>>, Step<G, B, Element<2, A>, Given<1>>, ...>
//
// Values are numbered: the inputs of the chain, and then the results of the steps. Each result except the last is converted to an element
// of its own tensor, so that a chain returns the same bits as separate operators.
#pragma once

#include "common/functors.cuh"

/// Value `index` of the given ones.
template <int index, class First, class... Rest>
__device__ __forceinline__ auto value_at(First first, Rest... rest) {
    if constexpr (index == 0) {
        return first;
    } else {
        return value_at<index - 1>(rest...);
    }
}

/// The bits of an element as one of another type of its size.
template <class To, class From>
__device__ __forceinline__ To same_bits(From element) {
    if constexpr (is_same<To, From>) {
        return element;
    } else {
        static_assert(sizeof(To) == sizeof(From));
        union {
            From from;
            To to;
        } bits;
        bits.from = element;
        return bits.to;
    }
}

// The arguments of a step.

/// An input, as the engine passes it.
template <int index>
struct Given {
    template <class... Values>
    __device__ static auto of(Values... values) {
        return value_at<index>(values...);
    }
};

/// The result of an earlier step, read as an element of type T.
template <int index, class T>
struct Element {
    template <class... Values>
    __device__ static auto of(Values... values) {
        return number_of(same_bits<T>(value_at<index>(values...)));
    }
};

/// A missing tensor.
struct Nothing {
    template <class... Values>
    __device__ static int of(Values...) {
        return 0;
    }
};

/// One operator: its functor, the type of its tensor's elements, and its arguments.
template <class Functor, class Out, class... Arguments>
struct Step : Functor {
    template <class... Values>
    __device__ auto result(Values... values) const {
        return result_for<Out>(static_cast<Functor const&>(*this), Arguments::of(values...)...);
    }

    template <class... Values>
    __device__ Out element(Values... values) const {
        if constexpr (is_same<Out, float> || is_same<Out, double>) {
            return machine::apart(stored<Out>(result(values...)));
        } else {
            return stored<Out>(result(values...));
        }
    }
};

/// Steps one after the other; the last one's result, which the engine stores.
template <class... Steps>
struct Chain;

template <class Last>
struct Chain<Last> {
    Last step;

    template <class... Values>
    __device__ auto operator()(Values... values) const {
        return step.result(values...);
    }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
    First step;
    Chain<Rest...> rest;

    template <class... Values>
    __device__ auto operator()(Values... values) const {
        return rest(values..., step.element(values...));
    }
};
