// Normalizations whose factor and bias may have any of the input's dimensions: MEAN_VARIANCE_NORMALIZATION and its forms, LP_NORMALIZATION.
//
//   MeanVariance       y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias), or without the division     n: entries of a group
//   RootMeanSquare     y = f(scale * x / sqrt(sum(x^2) / n + epsilon) + bias)
//   OneNorm, TwoNorm   y = f(scale * x / max(norm, epsilon) + bias)
//   Unscaled           y = f(scale * x + bias)
//
// The mean is the sum of two floats, as in forward.cu. A group with infinities or NaN has no mean and no variance: y is NaN.
//
//   `normalize`, where a thread group for each group fills the device: both passes over x, the second one backwards. Shared memory has room
//   for stays there in between; only the rest is read twice. If all of a group stays there, its mean is corrected by the mean difference
//   from it else `gather`, groups being split over blockIdx.y; `combine`; `apply`
//   Unscaled: `apply` alone
//
// T is the type of data, Statistic one of the above, F the activation's functor. See common/thread_groups.cuh for thread groups, and for
// what a block and a thread own. y overlaps nothing else.
#include "common/machine.cuh"
#include "common/means.cuh"
#include "common/reduction.cuh"

/// The operation of the last pass on the entries of a group.
struct Scaling {
    float high;    // the mean is high + low
    float low;
    float factor;  // of the difference, or its divisor
};

struct GroupSettings {
    float entries;     // n
    float epsilon;
    int scales;        // MeanVariance: whether to divide by the deviation
};

struct MeanVariance {
    using Part = Moments;
    static constexpr bool divides = false;
    __device__ static Scaling scaling(Part const& part, float first, GroupSettings const& settings) {
        GroupStatistics const statistics = statistics_of(part, first, settings.entries);
        return {statistics.high, statistics.low, settings.scales ? 1.0f / sqrtf(statistics.variance + settings.epsilon) : 1.0f};
    }
};

template <class T>
struct RootMeanSquare : SumSquare<T> {
    static constexpr bool divides = false;
    __device__ static Scaling scaling(Total<float> const& part, float, GroupSettings const& settings) {
        return {0.0f, 0.0f, 1.0f / sqrtf(part.total / settings.entries + settings.epsilon)};
    }
};

/// A norm as a divisor; NaN stays NaN.
__device__ inline Scaling divisor(float norm, GroupSettings const& settings) {
    return {0.0f, 0.0f, norm < settings.epsilon ? settings.epsilon : norm};
}

template <class T>
struct OneNorm : L1<T> {
    static constexpr bool divides = true;
    __device__ static Scaling scaling(Total<float> const& part, float, GroupSettings const& settings) { return divisor(part.total, settings); }
};

template <class T>
struct TwoNorm : L2<T> {
    static constexpr bool divides = true;
    __device__ static Scaling scaling(Squares const& part, float, GroupSettings const& settings) { return divisor(part.norm(), settings); }
};

struct Unscaled {
    using Part = Total<float>;
    static constexpr bool divides = false;
};

template <class T, class Statistic>
struct GroupsParameters {
    T const* x;
    T const* scale;          // absent: 1
    T const* bias;           // absent: 0
    T* y;
    ThreadGroups<4> thread_groups;          // of x, scale, bias, y
    Splits<typename Statistic::Part> splits;
    float* firsts;           // [groups]: MeanVariance: the first entry of each, which splits are relative to
    Scaling* scalings;       // [groups]
    GroupSettings settings;
    unsigned cached;           // vectors of x that each thread of `normalize` caches in shared memory between its passes
    float attributes[2];
};

/// Vectors of each tensor that a thread loads at a time in the last pass: within groups two vectors of four tensors are too many for the
/// registers that `resident_blocks` leaves.
template <bool across, class F>
inline constexpr int unrolled_apply = across ? unrolled_last<F> : 1;

/// The last pass: y of the thread's vectors, backwards.
template <int width, bool across, class Statistic, class F, class T, int owned>
__device__ __forceinline__ void write(GroupsParameters<T, Statistic> const& parameters, Member const& member, unsigned split,
                                      Scaling const (&scalings)[owned], CachedVectors<AlignedVector<T, width>, 1> const& cached) {
    long long const(&strides)[4] = parameters.thread_groups.vector_strides;
    F const activation = with_attributes<F>(parameters.attributes);
    visit_vectors<true, unrolled_apply<across, F>>(parameters.thread_groups, member, split, [&](auto const& places, unsigned number) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        AlignedVector<T, width> x[vectors];
        AlignedVector<T, width> scale[vectors];
        AlignedVector<T, width> bias[vectors] = {};
        if (cached.has(number)) {
            cached.template load<0>(number, x);
        } else {
#pragma unroll
            for (int vector = 0; vector < vectors; ++vector) {
                x[vector] = load_vector<width>(parameters.x + places[vector].of[0], strides[0] == 0);
            }
        }
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            if (parameters.scale != nullptr) {
                scale[vector] = load_vector<width>(parameters.scale + places[vector].of[1], strides[1] == 0);
            }
            if (parameters.bias != nullptr) {
                bias[vector] = load_vector<width>(parameters.bias + places[vector].of[2], strides[2] == 0);
            }
        }
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            AlignedVector<T, width> y;
#pragma unroll
            for (int entry = 0; entry < width; ++entry) {
                Scaling const& scaling = scalings[across ? entry : 0];
                float const centered = (machine::to_float(x[vector].values[entry]) - scaling.high) - scaling.low;
                float value = Statistic::divides ? centered / scaling.factor : centered * scaling.factor;
                value *= parameters.scale != nullptr ? machine::to_float(scale[vector].values[entry]) : 1.0f;
                y.values[entry] = machine::from_float<T>(activation(value + machine::to_float(bias[vector].values[entry])));
            }
            *reinterpret_cast<AlignedVector<T, width>*>(parameters.y + places[vector].of[3]) = y;
        }
    });
}

/// The first pass: a thread group's part of its groups, for each of its threads; and the reference of the moments.
template <int width, bool across, class Statistic, class T, int owned>
__device__ __forceinline__ void take_parts(GroupsParameters<T, Statistic> const& parameters, Member const& member, unsigned split,
                                           CachedVectors<AlignedVector<T, width>, 1> const& cached, float (&firsts)[owned],
                                           typename Statistic::Part (&parts)[owned]) {
    if constexpr (is_same<Statistic, MeanVariance>) {
        read_firsts<width, across>(parameters.x, parameters.thread_groups, member, firsts);
        take_moments<width, across>(parameters.x, parameters.thread_groups, member, split, firsts, cached, parts);
    } else {
        add_entries<width, across, Statistic>(parameters.x, parameters.thread_groups, member, split, {}, cached, parts);
        merge_thread_group(parameters.thread_groups.size, parts, machine::dynamic_shared<typename Statistic::Part>());
    }
}

/// Corrects the mean of a thread group's groups by the mean of entries minus the mean, all of them cached: moments are rounded relative to
/// the first entry, which may be far from the mean, so that entries next to the mean would lose digits.
template <int width, bool across, class T, class Statistic, int owned>
__device__ __forceinline__ void correct_means(GroupsParameters<T, Statistic> const& parameters, Member const& member,
                                              CachedVectors<AlignedVector<T, width>, 1> const& cached, Scaling (&scalings)[owned]) {
    Total<float> rest[owned];
    visit_vectors<true, 1>(parameters.thread_groups, member, 0, [&](auto const&, unsigned number) {
        AlignedVector<T, width> x[1];
        cached.template load<0>(number, x);
#pragma unroll
        for (int entry = 0; entry < width; ++entry) {
            Scaling const& scaling = scalings[across ? entry : 0];
            rest[across ? entry : 0].total += (machine::to_float(x[0].values[entry]) - scaling.high) - scaling.low;
        }
    });
    __syncthreads();   // the parts in shared memory have been read
    merge_thread_group(parameters.thread_groups.size, rest, machine::dynamic_shared<Total<float>>());
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        scalings[number].low += rest[number].total / parameters.settings.entries;
    }
}

/// One launch: a block is several thread groups, and a thread group processes all of its groups.
template <class T, class Statistic, int width, bool across, class F>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) normalize(const __grid_constant__ GroupsParameters<T, Statistic> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    CachedVectors<AlignedVector<T, width>, 1> const cached(parameters.cached, merging_bytes<owned, typename Statistic::Part>());
    float firsts[owned] = {};
    typename Statistic::Part parts[owned];
    take_parts<width, across>(parameters, member, 0, cached, firsts, parts);
    Scaling scalings[owned];
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        scalings[number] = Statistic::scaling(parts[number], firsts[number], parameters.settings);
    }
    if constexpr (is_same<Statistic, MeanVariance>) {
        if (parameters.thread_groups.vectors <= parameters.cached << parameters.thread_groups.size.slots_log2) {
            correct_means<width, across>(parameters, member, cached, scalings);
        }
    }
    write<width, across, Statistic, F>(parameters, member, 0, scalings, cached);
}

/// First launch of three: a thread group processes a split of its groups.
template <class T, class Statistic, int width, bool across>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) gather(const __grid_constant__ GroupsParameters<T, Statistic> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    float firsts[owned] = {};
    typename Statistic::Part parts[owned];
    take_parts<width, across>(parameters, member, blockIdx.y, {}, firsts, parts);
    for_led_groups<width, across>(parameters.thread_groups, member, [&](unsigned group, int number) {
        parameters.splits.part(blockIdx.y, group) = parts[number];
        if (blockIdx.y == 0) {
            parameters.firsts[group] = firsts[number];
        }
    });
}

/// Second launch: a lane of threads merges the splits of a group.
template <class T, class Statistic>
__global__ void __launch_bounds__(most_block_threads, 1) combine(const __grid_constant__ GroupsParameters<T, Statistic> parameters) {
    auto const part = merge_splits(parameters.splits, machine::dynamic_shared<typename Statistic::Part>());
    unsigned const group = group_of(parameters.splits);
    if (group < parameters.splits.groups && threadIdx.x >> parameters.splits.size.lanes_log2 == 0) {
        parameters.scalings[group] = Statistic::scaling(part, parameters.firsts[group], parameters.settings);
    }
}

/// Third launch, blocks in reverse; or the only one of Unscaled. A thread group processes a split of its groups.
template <class T, class Statistic, int width, bool across, class F>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) apply(const __grid_constant__ GroupsParameters<T, Statistic> parameters) {
    constexpr int owned = across ? width : 1;
    unsigned const split = gridDim.y - 1 - blockIdx.y;
    Member const member(parameters.thread_groups, gridDim.x - 1 - blockIdx.x);
    Scaling scalings[owned];
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        if constexpr (is_same<Statistic, Unscaled>) {
            scalings[number] = {0.0f, 0.0f, 1.0f};
        } else {
            scalings[number] = parameters.scalings[member.group<width, across>(parameters.thread_groups) + number];
        }
    }
    write<width, across, Statistic, F>(parameters, member, split, scalings, {});
}
