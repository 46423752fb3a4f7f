// Softmax, LogSoftmax and Hardmax over groups of entries: those that differ only along some of a tensor's axes.
//
//   Softmax      y = exp(x - m) / s            m = max(x), s = sum(exp(x - m)) over the group
//   LogSoftmax   y = x - m - ln(s)
//   Hardmax      y = 1 at the first largest entry of the group in the order of the tensor's dimensions, else 0; a NaN is the largest
//
// A thread reads vectors: `width` neighbours in memory. With `across` they belong to as many groups, as the same entry of each; else they
// are entries of one group. The innermost axis of memory counts vectors. A thread group of threads has a group, with `across` a vector of
// groups: its threads process vectors of entries in turn, their partial results are merged in a fixed order, and each writes the results of
// its own vectors. Neighbouring threads are in one thread group; with `across` in neighbouring thread groups.
//
// The grid is one-dimensional, of any size; blocks share nothing. Threads of a block and of a thread group are powers of two. The output
// overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"

constexpr int most_threads = 512;   // of a block
constexpr float largest_float = 3.40282347e38f;

/// The largest of some entries, at least the smallest number, and the sum of exp(entry - largest). Infinity makes the sum NaN, as NaN
/// does; minus infinity adds nothing, and if there are no other entries 1 / 0 and ln(0) make the results NaN.
struct Powers {
    float largest;
    float sum;
};

__device__ inline Powers merged(Powers a, Powers b) {
    float const factor = expf(-fabsf(a.largest - b.largest));
    return a.largest >= b.largest ? Powers{a.largest, a.sum + b.sum * factor} : Powers{b.largest, b.sum + a.sum * factor};
}

/// e^x for an element of type T. In 2 bytes the error of the second, for x in which a result is above zero, is not seen; a bfloat16 below
/// the normal numbers becomes 0.
template <class T>
__device__ __forceinline__ float power_of(float x) {
    if constexpr (is_narrow<T>) {
        float const log2_e = 1.44269504f;
        return machine::exp2_flushed(log2_e * x);
    } else {
        return expf(x);
    }
}

/// The sum of values from one place to before another, of each half by itself.
template <int begin, int end, int count>
__device__ __forceinline__ float sum_of(float const (&values)[count]) {
    if constexpr (end - begin == 1) {
        return values[begin];
    } else {
        constexpr int middle = (begin + end) / 2;
        return sum_of<begin, middle>(values) + sum_of<middle, end>(values);
    }
}

/// Finds Powers of entries of type T, some at a time; the error of the sum does not grow with their number.
template <class T>
struct PowersFinder {
    using Found = Powers;
    float largest = -largest_float;
    // The sum is of exp(entry - reference). The reference follows the largest entry only when that is more than 1 above it: a rescaling
    // at each step of a slowly rising row would accumulate rounding errors.
    float reference = -largest_float;
    float sum = 0.0f;
    float lost = 0.0f;   // what rounding has added to the sum

    /// Takes entries, and replaces them with their powers.
    template <int count>
    __device__ void take(float (&entries)[count], unsigned const (&)[count]) {
        float most = entries[0];
#pragma unroll
        for (int i = 1; i < count; ++i) {
            most = fmaxf(most, entries[i]);
        }
        largest = fmaxf(largest, most);
        if (most - reference > 1.0f) {
            float const factor = power_of<T>(reference - most);
            sum *= factor;
            lost *= factor;
            reference = most;
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            entries[i] = power_of<T>(entries[i] - reference);
        }
        float const power = sum_of<0, count>(entries) - lost;
        float const next = sum + power;
        lost = (next - sum) - power;
        sum = next;
    }

    __device__ Powers found() const { return {largest, sum * expf(reference - largest)}; }
};

/// Its `of` gets what was found of the group, and the finder of the thread; `kept` is for entries that this has replaced.
template <class T>
struct Softmax {
    using Finder = PowersFinder<T>;
    static constexpr bool reads_again = true;
    static constexpr bool keeps_replaced = true;
    float largest;
    float factor;
    float kept_factor;

    __device__ static Softmax of(Powers powers, Finder const& finder) {
        float const factor = 1.0f / powers.sum;
        return {powers.largest, factor, factor * expf(finder.reference - powers.largest)};
    }
    __device__ float operator()(float x, unsigned) const { return power_of<T>(x - largest) * factor; }
    __device__ float kept(float power, unsigned) const { return power * kept_factor; }
};

template <class T>
struct LogSoftmax {
    using Finder = PowersFinder<T>;
    static constexpr bool reads_again = true;
    static constexpr bool keeps_replaced = false;
    float largest;
    float logarithm;

    __device__ static LogSoftmax of(Powers powers, Finder const&) { return {powers.largest, logf(powers.sum)}; }
    __device__ float operator()(float x, unsigned) const { return x - largest - logarithm; }
    __device__ float kept(float x, unsigned) const { return x - largest - logarithm; }
};

/// An entry and its number in the group.
struct Entry {
    float value;
    unsigned number;
};

/// The larger of two entries, the first of equal ones.
__device__ inline Entry merged(Entry a, Entry b) {
    bool const equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    bool const second = equal ? b.number < a.number : b.value > a.value || b.value != b.value;
    return second ? b : a;
}

/// Finds the first largest entry.
struct EntryFinder {
    using Found = Entry;
    Entry best = {logf(0.0f), ~0u};   // minus infinity, after all entries

    template <int count>
    __device__ void take(float const (&entries)[count], unsigned const (&numbers)[count]) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            best = merged(best, Entry{entries[i], numbers[i]});
        }
    }
    __device__ Entry found() const { return best; }
};

template <class T>
struct Hardmax {
    using Finder = EntryFinder;
    static constexpr bool reads_again = false;
    static constexpr bool keeps_replaced = false;
    unsigned winner;

    __device__ static Hardmax of(Entry best, Finder const&) { return {best.number}; }
    __device__ float operator()(float, unsigned number) const { return number == winner ? 1.0f : 0.0f; }
    __device__ float kept(float, unsigned number) const { return number == winner ? 1.0f : 0.0f; }
};

template <class T>
struct GroupsParameters {
    T const* input;
    T* output;
    Axes<3> groups;         // strides of the input and the output
    Axes<3> entries;        // of these and of an entry's number in its group, row-major in the tensor's dimensions
    unsigned group_count;   // of `groups`
    unsigned entry_count;   // of `entries`
    unsigned number_step;   // from the number of an entry of a vector to that of the next
    int thread_group_size;
};

/// Vectors that a thread loads at a time.
inline constexpr int batch = 4;

/// A thread's next vectors of entries: where they lie, and the numbers of their first entries.
struct Batch {
    Places<3> places[batch];
    bool present[batch];

    template <class T>
    __device__ Batch(GroupsParameters<T> const& parameters, Places<3> const& group, long long first) {
        unsigned numbers[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            long long const number = first + i * parameters.thread_group_size;
            numbers[i] = static_cast<unsigned>(number);   // may be past the last one, where it is not used
            places[i] = group;
            present[i] = number < parameters.entry_count;
        }
        add_places(parameters.entries, numbers, places);
    }

    /// What is not present is minus infinity.
    template <int width, class T>
    __device__ void load(T const* input, AlignedVector<T, width> (&vectors)[batch]) const {
        T const nothing = machine::from_float<T>(machine::float_of_bits(0xFF800000u));
#pragma unroll
        for (int i = 0; i < batch; ++i) {
#pragma unroll
            for (int entry = 0; entry < width; ++entry) {
                vectors[i].values[entry] = nothing;
            }
            if (present[i]) {
                vectors[i] = *reinterpret_cast<AlignedVector<T, width> const*>(input + places[i].of[0]);
            }
        }
    }

    __device__ unsigned number(int i) const { return present[i] ? static_cast<unsigned>(places[i].of[2]) : ~0u; }
};

/// The entries of a batch by the groups that they belong to: each of `own` has `count` of them.
template <int width, bool across>
struct Entries {
    static constexpr int own = across ? width : 1;
    static constexpr int count = batch * width / own;
    float values[own][count];
    unsigned numbers[own][count];

    template <class T>
    __device__ void set(AlignedVector<T, width> const (&vectors)[batch], Batch const& places, unsigned number_step) {
#pragma unroll
        for (int i = 0; i < batch; ++i) {
#pragma unroll
            for (int entry = 0; entry < width; ++entry) {
                at(i, entry) = machine::to_float(vectors[i].values[entry]);
                numbers[across ? entry : 0][across ? i : i * width + entry] = places.number(i) + (across ? 0 : entry * number_step);
            }
        }
    }

    __device__ float& at(int i, int entry) { return values[across ? entry : 0][across ? i : i * width + entry]; }
};

/// A block is blockDim.x / thread_group_size thread groups. It owns every gridDim.x-th set of as many groups, or vectors of groups. If a
/// thread has no more than one batch of a group (`once`), it keeps the entries; else it reads them twice.
template <class T, template <class> class Function, int width, bool across, bool once>
__global__ void __launch_bounds__(most_threads, 1) groups(const __grid_constant__ GroupsParameters<T> parameters) {
    using Own = Function<T>;
    using Finder = typename Own::Finder;
    using Found = typename Finder::Found;
    constexpr int own = across ? width : 1;   // groups of a thread
    __shared__ Found exchange[most_threads];
    int const thread = threadIdx.x;
    int const thread_group_size = parameters.thread_group_size;
    int const thread_groups = blockDim.x / thread_group_size;
    int const thread_group = across ? thread % thread_groups : thread / thread_group_size;
    int const member = across ? thread / thread_groups : thread % thread_group_size;
    int const next_member = across ? thread_groups : 1;   // the distance of threads
    unsigned const number_step = across ? 0 : parameters.number_step;

    long long const stride = static_cast<long long>(gridDim.x) * thread_groups;
    for (long long first = static_cast<long long>(blockIdx.x) * thread_groups; first < parameters.group_count; first += stride) {
        bool const works = first + thread_group < parameters.group_count;
        Places<3> const group = locate(parameters.groups, works ? static_cast<unsigned>(first + thread_group) : 0);
        long long const count = parameters.entry_count;
        long long const turn = static_cast<long long>(batch) * thread_group_size;

        Finder finders[own];
        Entries<width, across> kept;
        // at least one turn: all of its entries are absent if the thread has none
        long long const first_entry = works ? member : count;
        long long entry = first_entry;
#pragma unroll 1
        do {
            Batch const places(parameters, group, entry);
            AlignedVector<T, width> vectors[batch];
            places.template load<width>(parameters.input, vectors);
            kept.set(vectors, places, number_step);
#pragma unroll
            for (int i = 0; i < own; ++i) {
                if constexpr (Own::keeps_replaced) {
                    finders[i].take(kept.values[i], kept.numbers[i]);
                } else {
                    float entries[Entries<width, across>::count];
#pragma unroll
                    for (int number = 0; number < Entries<width, across>::count; ++number) {
                        entries[number] = kept.values[i][number];
                    }
                    finders[i].take(entries, kept.numbers[i]);
                }
            }
            entry += turn;
        } while (!once && entry < count);

        Own functions[own];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            Found found = finders[i].found();
            if (thread_group_size > 1) {
                exchange[thread] = found;
                __syncthreads();
#pragma unroll 1
                for (int half = thread_group_size / 2; half > 0; half /= 2) {
                    if (member < half) {
                        exchange[thread] = merged(exchange[thread], exchange[thread + half * next_member]);
                    }
                    __syncthreads();
                }
                found = exchange[thread - member * next_member];
                __syncthreads();
            }
            functions[i] = Own::of(found, finders[i]);
        }

        entry = first_entry;
#pragma unroll 1
        do {
            Batch const places(parameters, group, entry);
            if constexpr (!once && Own::reads_again) {
                AlignedVector<T, width> vectors[batch];
                places.template load<width>(parameters.input, vectors);
                kept.set(vectors, places, number_step);
            }
#pragma unroll
            for (int i = 0; i < batch; ++i) {
                AlignedVector<T, width> y;
#pragma unroll
                for (int lane = 0; lane < width; ++lane) {
                    Own const& function = functions[across ? lane : 0];
                    unsigned const number = places.number(i) + lane * number_step;
                    float const value = kept.at(i, lane);
                    y.values[lane] = machine::from_float<T>(once ? function.kept(value, number) : function(value, number));
                }
                if (places.present[i]) {
                    *reinterpret_cast<AlignedVector<T, width>*>(parameters.output + places.places[i].of[1]) = y;
                }
            }
            entry += turn;
        } while (!once && entry < count);
    }
}
