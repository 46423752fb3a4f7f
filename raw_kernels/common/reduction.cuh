// Reductions of groups of entries to one: the value of an entry, the parts that threads merge, and the result.
//
// A reduction has
//   Value              the result of `value` for an entry and its number in the group
//   Part               of some values: empty at first, grows by `add`, joined by `merge`; sums of floats are float
//   Result             the result of `result` for the part of a whole group
// Integers wrap around: those whose sign does not matter are unsigned. A NaN among a group's entries makes the result NaN, and is the
// largest of all to `Extreme`; `ArgExtreme` ignores it.
#pragma once

#include "common/thread_groups.cuh"
#include "common/types.cuh"
#include "common/conversions.cuh"

/// The numbers of a reduction's formula.
struct ReductionSettings {
    long long flip;        // `Extreme`: bits of an integer that are inverted, to find the largest signed one; of a float: not 0, its sign
    float entries;         // of a group
    unsigned number_step;  // from the number of an entry of a vector to that of the next
    unsigned number_flip;  // `ArgExtreme`: bits of a number that are inverted, so that of equal entries the smallest number is found
    int index_bytes;       // of a result of `ArgExtreme`: 4 or 8
};

/// The type of arithmetic on entries.
template <class T>
using Arithmetic = Choice<is_narrow<T>, float, T>;

template <class T>
__device__ __forceinline__ Arithmetic<T> to_number(T entry) {
    if constexpr (is_floating<T>) {
        return machine::to_float(entry);
    } else {
        return entry;
    }
}

template <class T, class Number>
__device__ __forceinline__ T from_number(Number number) {
    if constexpr (is_floating<T>) {
        return machine::from_float<T>(number);
    } else {
        return static_cast<T>(number);
    }
}

/// The magnitude; that of the smallest integer wraps around.
template <class Number>
__device__ __forceinline__ Number magnitude(Number x) {
    if constexpr (is_same<Number, float>) {
        return fabsf(x);
    } else {
        return is_negative(x) ? static_cast<Number>(0ull - x) : x;
    }
}

/// Reduces register values by a binary operation, as a tree.
template <class Combine, class Value, int count>
__device__ __forceinline__ Value tree(Combine const& combine, Value const (&values)[count]) {
    static_assert((count & (count - 1)) == 0);
    if constexpr (count == 1) {
        return values[0];
    } else {
        Value halves[count / 2];
#pragma unroll
        for (int number = 0; number < count / 2; ++number) {
            halves[number] = combine(values[number], values[number + count / 2]);
        }
        return tree(combine, halves);
    }
}

// ---- parts ---------------------------------------------------------------------------------------------------------------------

template <class Number>
struct Total {
    Number total = Number(0);

    template <int count>
    __device__ void add(Number const (&values)[count]) {
        total += tree([](Number a, Number b) { return a + b; }, values);
    }
    __device__ void merge(Total const& other) { total += other.total; }
};

template <class Number>
struct Factors {
    Number product = Number(1);

    template <int count>
    __device__ void add(Number const (&values)[count]) {
        product *= tree([](Number a, Number b) { return a * b; }, values);
    }
    __device__ void merge(Factors const& other) { product *= other.product; }
};

/// A sum of squares, of which none overflows and small ones do not vanish: separate sums of small, medium and large numbers, so scaled
/// that 2^31 of them stay below the largest float and the square of the smallest number is a normal one (J. Blue, 1978).
struct Squares {
    static constexpr float least_usual = 0x1p-52f;
    static constexpr float most_usual = 0x1p47f;
    static constexpr float scale_of_small = 0x1p90f;
    static constexpr float scale_of_large = 0x1p-80f;
    float small = 0.0f;
    float usual = 0.0f;
    float large = 0.0f;

    template <int count>
    __device__ void add(float const (&values)[count]) {
        float squares[3][count];
#pragma unroll
        for (int number = 0; number < count; ++number) {
            float const x = fabsf(values[number]);
            bool const is_small = x < least_usual;
            bool const is_large = x > most_usual;
            float const scaled = x * (is_small ? scale_of_small : is_large ? scale_of_large : 1.0f);
            float const square = scaled * scaled;
            squares[0][number] = is_small ? square : 0.0f;
            squares[1][number] = is_small || is_large ? 0.0f : square;
            squares[2][number] = is_large ? square : 0.0f;
        }
        auto const plus = [](float a, float b) { return a + b; };
        small += tree(plus, squares[0]);
        usual += tree(plus, squares[1]);
        large += tree(plus, squares[2]);
    }

    __device__ void merge(Squares const& other) {
        small += other.small;
        usual += other.usual;
        large += other.large;
    }

    /// The root of the sum.
    __device__ float norm() const {
        if (large > 0.0f) {
            return sqrtf(large + usual * scale_of_large * scale_of_large) / scale_of_large;
        }
        constexpr float small_in_usual = 1.0f / scale_of_small;
        return usual == 0.0f ? sqrtf(small) / scale_of_small : sqrtf(usual + small * small_in_usual * small_in_usual);
    }
};

/// The sum of exp(x - reference). The reference follows the largest number only when that is more than 1 above it: a rescaling at each
/// step of a slowly rising row would accumulate rounding errors. It stays finite, so that infinity makes the sum infinite.
struct Exponentials {
    static constexpr float largest_float = 3.40282347e38f;
    float reference = -largest_float;
    float sum = 0.0f;

    template <int count>
    __device__ void add(float const (&values)[count]) {
        float const largest = tree([](float a, float b) { return fmaxf(a, b); }, values);
        if (largest - reference > 1.0f) {
            float const next = fminf(largest, largest_float);
            sum *= expf(reference - next);
            reference = next;
        }
        float powers[count];
#pragma unroll
        for (int number = 0; number < count; ++number) {
            powers[number] = expf(values[number] - reference);
        }
        sum += tree([](float a, float b) { return a + b; }, powers);
    }

    __device__ void merge(Exponentials const& other) {
        bool const is_less = reference < other.reference;
        float const factor = expf(-fabsf(reference - other.reference));
        sum = is_less ? sum * factor + other.sum : sum + other.sum * factor;
        reference = is_less ? other.reference : reference;
    }
};

/// The smallest number.
template <class Number>
__device__ __forceinline__ Number lowest() {
    if constexpr (is_same<Number, float>) {
        return -machine::float_of_bits(0x7F800000u);
    } else {
        return static_cast<Number>(1ull << (8 * sizeof(Number) - 1));
    }
}

/// The identity of the maximum: NaN or the lowest integer.
template <class Number>
__device__ __forceinline__ Number below_all() {
    if constexpr (is_same<Number, float>) {
        return machine::float_of_bits(0x7FFFFFFFu);
    } else {
        return lowest<Number>();
    }
}

template <class Number>
struct Largest {
    Number largest = lowest<Number>();

    template <int count>
    __device__ void add(Number const (&values)[count]) {
        merge({tree([](Number a, Number b) { return larger(a, b); }, values)});
    }
    __device__ void merge(Largest const& other) { largest = larger(largest, other.largest); }

    __device__ static Number larger(Number a, Number b) { return b > a || b != b ? b : a; }
};

/// The largest entry, and of equal ones the one with the smallest number. Every number is larger than NaN.
template <class Number>
struct LargestEntry {
    Number value = below_all<Number>();
    unsigned number = ~0u;   // no entry comes later

    template <int count>
    __device__ void add(LargestEntry const (&entries)[count]) {
        merge(tree([](LargestEntry a, LargestEntry const& b) {
            a.merge(b);
            return a;
        }, entries));
    }

    __device__ void merge(LargestEntry const& other) {
        bool const equal = value == other.value || (value != value && other.value != other.value);
        if (equal ? other.number < number : other.value > value || value != value) {
            *this = other;
        }
    }
};

// ---- reductions, named after DirectML's functions --------------------------------------------------------------------------------

/// x
template <class T>
struct Sum {
    using Value = Arithmetic<T>;
    using Part = Total<Value>;
    using Result = T;
    __device__ static Value value(T entry, unsigned, ReductionSettings const&) { return to_number(entry); }
    __device__ static Result result(Part const& part, ReductionSettings const&) { return from_number<T>(part.total); }
};

template <class T>
struct Average : Sum<T> {
    __device__ static T result(Total<Arithmetic<T>> const& part, ReductionSettings const& settings) {
        return from_number<T>(part.total / settings.entries);
    }
};

template <class T>
struct LogSum : Sum<T> {
    __device__ static T result(Total<Arithmetic<T>> const& part, ReductionSettings const&) { return from_number<T>(logf(part.total)); }
};

template <class T>
struct L1 : Sum<T> {
    __device__ static Arithmetic<T> value(T entry, unsigned, ReductionSettings const&) { return magnitude(to_number(entry)); }
};

template <class T>
struct SumSquare : Sum<T> {
    __device__ static Arithmetic<T> value(T entry, unsigned, ReductionSettings const&) {
        auto const x = to_number(entry);
        return x * x;
    }
};

/// Products of FLOAT32 are double: unlike those of a sum, the roundings of a product all have its full size, so that their error would
/// grow with the number of factors.
template <class T>
struct Multiply {
    using Value = Choice<is_same<T, float>, double, Arithmetic<T>>;
    using Part = Factors<Value>;
    using Result = T;
    __device__ static Value value(T entry, unsigned, ReductionSettings const&) { return to_number(entry); }
    __device__ static Result result(Part const& part, ReductionSettings const&) { return from_number<T>(part.product); }
};

template <class T>
struct L2 {
    using Value = float;
    using Part = Squares;
    using Result = T;
    __device__ static Value value(T entry, unsigned, ReductionSettings const&) { return machine::to_float(entry); }
    __device__ static Result result(Part const& part, ReductionSettings const&) { return machine::from_float<T>(part.norm()); }
};

template <class T>
struct LogSumExp {
    using Value = float;
    using Part = Exponentials;
    using Result = T;
    __device__ static Value value(T entry, unsigned, ReductionSettings const&) { return machine::to_float(entry); }
    __device__ static Result result(Part const& part, ReductionSettings const&) {
        return machine::from_float<T>(part.reference + logf(part.sum));
    }
};

/// A key whose maximum is the entry to find: `Extreme` finds the largest or the smallest entries of signed and unsigned
/// integers alike. Integers of less than 32 bits become 32 wide.
template <class T>
struct Wanted {
    using Number = Choice<is_floating<T>, float, Choice<sizeof(T) == 8, long long, int>>;

    __device__ static Number of(T entry, ReductionSettings const& settings) {
        if constexpr (is_floating<T>) {
            float const x = machine::to_float(entry);
            return settings.flip != 0 ? -x : x;
        } else {
            return static_cast<T>(entry ^ static_cast<T>(settings.flip));
        }
    }

    __device__ static T entry_of(Number wanted, ReductionSettings const& settings) {
        if constexpr (is_floating<T>) {
            return machine::from_float<T>(settings.flip != 0 ? -wanted : wanted);
        } else {
            return static_cast<T>(static_cast<T>(wanted) ^ static_cast<T>(settings.flip));
        }
    }
};

/// MIN and MAX.
template <class T>
struct Extreme {
    using Value = typename Wanted<T>::Number;
    using Part = Largest<Value>;
    using Result = T;
    __device__ static Value value(T entry, unsigned, ReductionSettings const& settings) { return Wanted<T>::of(entry, settings); }
    __device__ static Result result(Part const& part, ReductionSettings const& settings) {
        return Wanted<T>::entry_of(part.largest, settings);
    }
};

/// ARGMIN and ARGMAX: an entry's number.
template <class T>
struct ArgExtreme {
    using Part = LargestEntry<typename Wanted<T>::Number>;
    using Value = Part;
    using Result = unsigned;
    __device__ static Value value(T entry, unsigned number, ReductionSettings const& settings) {
        return {Wanted<T>::of(entry, settings), number ^ settings.number_flip};
    }
    __device__ static Result result(Part const& part, ReductionSettings const& settings) { return part.number ^ settings.number_flip; }
};

// ---- of a thread ---------------------------------------------------------------------------------------------------------------

/// Vectors that a thread loads at a time.
inline constexpr int unrolled_reduction = 4;

/// Adds a thread's vectors of a split to the parts of its groups, and caches those that a second pass will read. Of the thread groups'
/// tensors the first is x; `ArgExtreme` takes the second one's places as the numbers of entries in their group.
template <int width, bool across, class Reduction, class T, int tensors, int owned>
__device__ __forceinline__ void add_entries(T const* x, ThreadGroups<tensors> const& thread_groups, Member const& member, unsigned split,
                                            ReductionSettings const& settings, CachedVectors<AlignedVector<T, width>, 1> const& cached,
                                            typename Reduction::Part (&parts)[owned]) {
    visit_vectors<false, unrolled_reduction>(thread_groups, member, split, [&](auto const& places, unsigned first) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        // Values at a time: more of them would need too many registers.
        constexpr int added = across ? vectors : sizeof(typename Reduction::Value) > sizeof(float) && width > 4 ? 4 : width;
        AlignedVector<T, width> loaded[vectors];
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            loaded[vector] = load_vector<width>(x + places[vector].of[0], thread_groups.vector_strides[0] == 0);
        }
        cached.template store<0>(first, loaded);
#pragma unroll
        for (int turn = 0; turn < (across ? owned : vectors * width / added); ++turn) {
            typename Reduction::Value values[added];
#pragma unroll
            for (int entry = 0; entry < added; ++entry) {
                int const vector = across ? entry : turn * added / width;
                int const place = across ? turn : turn * added % width + entry;
                unsigned const number = static_cast<unsigned>(places[vector].of[1]) + (across ? 0 : place * settings.number_step);
                values[entry] = Reduction::value(loaded[vector].values[place], number, settings);
            }
            parts[across ? turn : 0].add(values);
        }
    });
}
