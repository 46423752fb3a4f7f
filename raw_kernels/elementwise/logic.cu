// Element-wise operations on bits, comparisons, truth values and the choice between two elements, each functor named after its operator.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/conversions.cuh"
#include "common/element_engine.cuh"

namespace element_wise {

// On raw bits, as unsigned integers.

struct BitAnd {
    template <class Bits>
    __device__ Bits operator()(Bits a, Bits b) const {
        return a & b;
    }
};

struct BitCount {
    template <class Bits>
    __device__ int operator()(Bits x) const {
        return machine::count_bits(static_cast<unsigned long long>(x));
    }
};

struct BitNot {
    template <class Bits>
    __device__ Bits operator()(Bits x) const {
        return ~x;
    }
};

struct BitOr {
    template <class Bits>
    __device__ Bits operator()(Bits a, Bits b) const {
        return a | b;
    }
};

/// a shifted left by b bits; 0 if all bits are lost
struct BitShiftLeft {
    template <class Bits>
    __device__ Bits operator()(Bits a, Bits b) const {
        return b < 8 * sizeof(Bits) ? static_cast<Bits>(static_cast<unsigned long long>(a) << b) : Bits(0);
    }
};

/// a shifted right by b bits; 0 if all bits are lost
struct BitShiftRight {
    template <class Bits>
    __device__ Bits operator()(Bits a, Bits b) const {
        return b < 8 * sizeof(Bits) ? static_cast<Bits>(a >> b) : Bits(0);
    }
};

struct BitXor {
    template <class Bits>
    __device__ Bits operator()(Bits a, Bits b) const {
        return a ^ b;
    }
};

/// a where the condition is not 0, else b
struct If {
    template <class Bits>
    __device__ Bits operator()(unsigned char condition, Bits a, Bits b) const {
        return condition ? a : b;
    }
};

// Of numbers. A comparison with NaN is false.

struct IsInfinity {
    __device__ bool operator()(float x) const { return fabsf(x) == machine::float_of_bits(0x7F800000); }
};

struct IsPositiveInfinity {
    __device__ bool operator()(float x) const { return x == machine::float_of_bits(0x7F800000); }
};

struct IsNegativeInfinity {
    __device__ bool operator()(float x) const { return x == machine::float_of_bits(0xFF800000); }
};

struct IsNaN {
    __device__ bool operator()(float x) const { return x != x; }
};

struct LogicalAnd {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a && b;
    }
};

struct LogicalEquals {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a == b;
    }
};

struct LogicalGreaterThan {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a > b;
    }
};

struct LogicalGreaterThanOrEqual {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a >= b;
    }
};

struct LogicalLessThan {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a < b;
    }
};

struct LogicalLessThanOrEqual {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a <= b;
    }
};

struct LogicalNot {
    template <class Number>
    __device__ bool operator()(Number x) const {
        return !x;
    }
};

struct LogicalOr {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return a || b;
    }
};

struct LogicalXor {
    template <class Number>
    __device__ bool operator()(Number a, Number b) const {
        return !a != !b;
    }
};

}  // namespace element_wise
