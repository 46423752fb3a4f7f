// Elements copied from one layout to another, converted, or generated.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"

namespace movement {

/// The element, which `stored` converts if the output has another type.
struct Copy {
    template <class Number>
    __device__ Number operator()(Number x) const {
        return x;
    }
};

/// The same value everywhere.
template <class T>
struct Fill {
    T value;
    __device__ T operator()() const { return value; }
};

/// start + number * delta, of integers wrapping around
template <class T>
struct Sequence {
    T start;
    T delta;
    __device__ T operator()(long long number) const { return plus(start, times(static_cast<T>(number), delta)); }
};

/// The value on the diagonals from begin to before end, or if begin is above end on all others, and else another element, or 0. Rows and
/// columns are numbered; the diagonal of an element is column - row.
template <class T>
struct Diagonal {
    T value;
    long long begin;
    long long end;

    template <class Other>
    __device__ T operator()(long long row, long long column, Other other) const {
        long long const diagonal = column - row;
        bool const from_begin = diagonal >= begin, to_end = diagonal < end;
        return (begin <= end ? from_begin && to_end : from_begin || to_end) ? value : static_cast<T>(other);
    }
};

}  // namespace movement
