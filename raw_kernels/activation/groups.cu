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

/// Finds Powers entry by entry; the error of the sum does not grow with their number.
struct PowersFinder {
    using Found = Powers;
    float largest = -largest_float;
    // The sum is of exp(entry - reference). The reference follows the largest entry only when that is more than 1 above it: a rescaling
    // at each step of a slowly rising row would accumulate rounding errors.
    float reference = -largest_float;
    float sum = 0.0f;
    float lost = 0.0f;   // what rounding has added to the sum

    __device__ void take(float x, unsigned) {
        largest = fmaxf(largest, x);
        if (x - reference > 1.0f) {
            float const factor = expf(reference - x);
            sum *= factor;
            lost *= factor;
            reference = x;
        }
        float const power = expf(x - reference) - lost;
        float const next = sum + power;
        lost = (next - sum) - power;
        sum = next;
    }

    __device__ Powers found() const { return {largest, sum * expf(reference - largest)}; }
};

struct Softmax {
    using Finder = PowersFinder;
    static constexpr bool reads_again = true;
    float largest;
    float factor;

    __device__ static Softmax of(Powers powers) { return {powers.largest, 1.0f / powers.sum}; }
    __device__ float operator()(float x, unsigned) const { return expf(x - largest) * factor; }
};

struct LogSoftmax {
    using Finder = PowersFinder;
    static constexpr bool reads_again = true;
    float largest;
    float logarithm;

    __device__ static LogSoftmax of(Powers powers) { return {powers.largest, logf(powers.sum)}; }
    __device__ float operator()(float x, unsigned) const { return x - largest - logarithm; }
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

    __device__ void take(float x, unsigned number) { best = merged(best, Entry{x, number}); }
    __device__ Entry found() const { return best; }
};

struct Hardmax {
    using Finder = EntryFinder;
    static constexpr bool reads_again = false;
    unsigned winner;

    __device__ static Hardmax of(Entry best) { return {best.number}; }
    __device__ float operator()(float, unsigned number) const { return number == winner ? 1.0f : 0.0f; }
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

/// Calls use(values, place, number) for each vector of entries of a member, several of which are loaded at a time. Without `reads`
/// the values are unset.
template <bool reads, int width, class T, class Use>
__device__ inline void for_each_pack(GroupsParameters<T> const& parameters, Places<3> const& group, int member, Use use) {
    constexpr int batch = 4;
    long long const count = parameters.entry_count;
    for (long long first = member; first < count; first += batch * parameters.thread_group_size) {
        AlignedVector<T, width> vectors[batch];
        Places<3> places[batch];
        unsigned numbers[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            numbers[i] = static_cast<unsigned>(first + i * parameters.thread_group_size);  // may be past the last one, where it is not used
            places[i] = group;
        }
        add_places(parameters.entries, numbers, places);
#pragma unroll
        for (int i = 0; i < batch && reads; ++i) {
            if (first + i * parameters.thread_group_size < count) {
                vectors[i] = *reinterpret_cast<AlignedVector<T, width> const*>(parameters.input + places[i].of[0]);
            }
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            if (first + i * parameters.thread_group_size < count) {
                use(vectors[i], places[i].of[1], static_cast<unsigned>(places[i].of[2]));
            }
        }
    }
}

/// A block is blockDim.x / thread_group_size thread groups. It owns every gridDim.x-th set of as many groups, or vectors of groups.
template <class T, class Function, int width, bool across>
__global__ void __launch_bounds__(most_threads, 1) groups(const __grid_constant__ GroupsParameters<T> parameters) {
    using Finder = typename Function::Finder;
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

        Finder finders[own];
        if (works) {
            auto const read = [&](AlignedVector<T, width> const& x, long long, unsigned number) {
#pragma unroll
                for (int i = 0; i < width; ++i) {
                    finders[across ? i : 0].take(machine::to_float(x.values[i]), number + i * number_step);
                }
            };
            for_each_pack<true, width>(parameters, group, member, read);
        }

        Function functions[own];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            Found found = finders[i].found();
            if (thread_group_size > 1) {
                exchange[thread] = found;
                __syncthreads();
                for (int half = thread_group_size / 2; half > 0; half /= 2) {
                    if (member < half) {
                        exchange[thread] = merged(exchange[thread], exchange[thread + half * next_member]);
                    }
                    __syncthreads();
                }
                found = exchange[thread - member * next_member];
                __syncthreads();
            }
            functions[i] = Function::of(found);
        }

        if (works) {
            auto const write = [&](AlignedVector<T, width> const& x, long long place, unsigned number) {
                AlignedVector<T, width> y;
#pragma unroll
                for (int i = 0; i < width; ++i) {
                    float const value = Function::reads_again ? machine::to_float(x.values[i]) : 0.0f;
                    y.values[i] = machine::from_float<T>(functions[across ? i : 0](value, number + i * number_step));
                }
                *reinterpret_cast<AlignedVector<T, width>*>(parameters.output + place) = y;
            };
            for_each_pack<Function::reads_again, width>(parameters, group, member, write);
        }
    }
}
