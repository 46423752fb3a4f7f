// Batch normalization with the statistics of the batch or with given ones.
//
//   mean = sum(x) / n, variance = sum((x - mean)^2) / n          n: entries of a group
//   y = f((x - mean) * (scale / sqrt(variance + epsilon)) + bias + add)
//   running = (1 - factor) * old + factor * batch                 the variance is the unbiased one, n / (n - 1)
//
// The mean is the sum of two floats, because one float of a large mean would shift y: x - high is exact near the mean, x - high - low is
// what the formula wants. A mean of infinities or NaN is NaN.
//
//   training    `normalize`, where a thread group for each group fills the device: both passes over x, the second one backwards. Shared
//   memory
//               caches what fits between them; only the rest is read twice
//               else `gather`, groups being split over blockIdx.y; `combine`; `apply`
//   inference   `apply`
//
// T is the type of data, S that of statistics, F the activation's functor. See common/thread_groups.cuh for thread groups, and for what a
// block and a thread own. y overlaps nothing else.
#include "common/machine.cuh"
#include "common/activations.cuh"
#include "common/means.cuh"

/// Tensors of one entry for each group, or repeating; outputs may be absent.
template <class S>
struct Statistics {
    S const* mean;          // given, or in training the old running one, which is read if factor is not 1
    S const* variance;
    S const* scale;
    S const* bias;
    S* batch_mean;          // in inference copies of the given ones
    S* batch_variance;
    S* running_mean;
    S* running_variance;
    Axes<8> outer;          // as those of the thread groups
    long long strides[8];   // from one group to the next along the innermost axis; 0 if that is within groups
    float epsilon;
    float factor;
    float entries;          // n
    float unbiased;         // n / max(n - 1, 1)
};

/// The order of tensors in `Statistics`.
enum Statistic { of_mean, of_variance, of_scale, of_bias, of_batch_mean, of_batch_variance, of_running_mean, of_running_variance };

template <class T, class S>
struct ForwardParameters {
    T const* x;
    T const* add;           // absent: 0
    T* y;                   // absent: only statistics are computed
    ThreadGroups<3> thread_groups;         // of x, add, y
    Statistics<S> statistics;
    Splits<Moments> splits;  // relative to `firsts`
    float* firsts;          // [groups]: the first entry of each
    GroupStatistics* group_statistics;        // [groups]
    unsigned side_by_side;  // groups along the innermost axis: 1 within groups
    unsigned cached;          // vectors of x that each thread of `normalize` caches in shared memory between its passes
    float attributes[2];
};

/// The entry of a group in a tensor, if the tensor is present.
template <class S>
__device__ void store(S* tensor, long long place, float value) {
    if (tensor != nullptr) {
        tensor[place] = machine::from_float<S>(value);
    }
}

/// Writes the outputs of training for a group.
template <class S>
__device__ void store_statistics(Statistics<S> const& statistics, Places<8> const& places, GroupStatistics const& found) {
    store(statistics.batch_mean, places.of[of_batch_mean], found.high);
    store(statistics.batch_variance, places.of[of_batch_variance], found.variance);
    float const factor = statistics.factor;
    bool const blends = factor != 1.0f;
    if (statistics.running_mean != nullptr) {
        float const old = blends ? (1.0f - factor) * machine::to_float(statistics.mean[places.of[of_mean]]) : 0.0f;
        store(statistics.running_mean, places.of[of_running_mean], old + factor * found.high);
    }
    if (statistics.running_variance != nullptr) {
        float const old = blends ? (1.0f - factor) * machine::to_float(statistics.variance[places.of[of_variance]]) : 0.0f;
        store(statistics.running_variance, places.of[of_running_variance], old + factor * (found.variance * statistics.unbiased));
    }
}

/// The operation of the last pass on the entries of a thread's groups.
template <int owned>
struct Transform {
    float high[owned];
    float low[owned];
    float factor[owned];
    float bias[owned];

    template <class S>
    __device__ __forceinline__ void set(int number, Statistics<S> const& statistics, Places<8> const& places, GroupStatistics const& found) {
        high[number] = found.high;
        low[number] = found.low;
        float const deviation = sqrtf(found.variance + statistics.epsilon);
        factor[number] = machine::to_float(statistics.scale[places.of[of_scale]]) / deviation;
        bias[number] = machine::to_float(statistics.bias[places.of[of_bias]]);
    }

    __device__ __forceinline__ float operator()(int number, float x) const {
        return ((x - high[number]) - low[number]) * factor[number] + bias[number];
    }
};

/// The last pass: y of the thread's vectors, backwards.
template <int width, bool across, class F, class T, class S, int owned>
__device__ __forceinline__ void write(ForwardParameters<T, S> const& parameters, Member const& member, unsigned split,
                                      Transform<owned> const& transform, CachedVectors<AlignedVector<T, width>, 1> const& cached) {
    long long const(&strides)[3] = parameters.thread_groups.vector_strides;
    F const activation = with_attributes<F>(parameters.attributes);
    visit_vectors<true, unrolled_last<F>>(parameters.thread_groups, member, split, [&](auto const& places, unsigned number) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        AlignedVector<T, width> x[vectors];
        AlignedVector<T, width> add[vectors] = {};
        if (parameters.add != nullptr) {
#pragma unroll
            for (int vector = 0; vector < vectors; ++vector) {
                add[vector] = load_vector<width>(parameters.add + places[vector].of[1], strides[1] == 0);
            }
        }
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
            AlignedVector<T, width> y;
#pragma unroll
            for (int entry = 0; entry < width; ++entry) {
                float const normalized = transform(across ? entry : 0, machine::to_float(x[vector].values[entry]));
                y.values[entry] = machine::from_float<T>(activation(normalized + machine::to_float(add[vector].values[entry])));
            }
            *reinterpret_cast<AlignedVector<T, width>*>(parameters.y + places[vector].of[2]) = y;
        }
    });
}

/// Training in one launch: a block is several thread groups, and a thread group processes all of its groups.
template <class T, class S, int width, bool across, class F>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) normalize(const __grid_constant__ ForwardParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    float firsts[owned];
    read_firsts<width, across>(parameters.x, parameters.thread_groups, member, firsts);
    CachedVectors<AlignedVector<T, width>, 1> const cached(parameters.cached, merging_bytes<owned, Moments>());
    Moments moments[owned];
    take_moments<width, across>(parameters.x, parameters.thread_groups, member, 0, firsts, cached, moments);
    Transform<owned> transform;
    Places<8> const base = locate(parameters.statistics.outer, member.outer);
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        Places<8> const places = further(base, parameters.statistics.strides, member.column * width + number);
        GroupStatistics const found = statistics_of(moments[number], firsts[number], parameters.statistics.entries);
        if (member.leads()) {
            store_statistics(parameters.statistics, places, found);
        }
        transform.set(number, parameters.statistics, places, found);
    }
    if (parameters.y != nullptr) {
        write<width, across, F>(parameters, member, 0, transform, cached);
    }
}

/// Training, first launch of three: a thread group processes a split of its groups.
template <class T, class S, int width, bool across>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) gather(const __grid_constant__ ForwardParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    float firsts[owned];
    read_firsts<width, across>(parameters.x, parameters.thread_groups, member, firsts);
    Moments moments[owned];
    take_moments<width, across>(parameters.x, parameters.thread_groups, member, blockIdx.y, firsts, {}, moments);
    for_led_groups<width, across>(parameters.thread_groups, member, [&](unsigned group, int number) {
        parameters.splits.part(blockIdx.y, group) = moments[number];
        if (blockIdx.y == 0) {
            parameters.firsts[group] = firsts[number];
        }
    });
}

/// Training, second launch: a lane of threads merges the splits of a group.
template <class T, class S>
__global__ void __launch_bounds__(most_block_threads, 1) combine(const __grid_constant__ ForwardParameters<T, S> parameters) {
    Moments const moments = merge_splits(parameters.splits, machine::dynamic_shared<Moments>());
    unsigned const group = group_of(parameters.splits);
    if (group < parameters.splits.groups && threadIdx.x >> parameters.splits.size.lanes_log2 == 0) {
        unsigned const outer = group / parameters.side_by_side;
        Places<8> const base = locate(parameters.statistics.outer, outer);
        Places<8> const places = further(base, parameters.statistics.strides, group - outer * parameters.side_by_side);
        GroupStatistics const found = statistics_of(moments, parameters.firsts[group], parameters.statistics.entries);
        store_statistics(parameters.statistics, places, found);
        parameters.group_statistics[group] = found;
    }
}

/// Inference; or training's third launch, blocks in reverse. A thread group processes a split of its groups.
template <class T, class S, int width, bool across, bool training, class F>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) apply(const __grid_constant__ ForwardParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Statistics<S> const& statistics = parameters.statistics;
    unsigned const split = gridDim.y - 1 - blockIdx.y;
    Member const member(parameters.thread_groups, gridDim.x - 1 - blockIdx.x);
    Transform<owned> transform;
    Places<8> const base = locate(statistics.outer, member.outer);
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        Places<8> const places = further(base, statistics.strides, member.column * width + number);
        if constexpr (training) {
            transform.set(number, statistics, places, parameters.group_statistics[member.group<width, across>(parameters.thread_groups) + number]);
        } else {
            float const mean = machine::to_float(statistics.mean[places.of[of_mean]]);
            float const variance = machine::to_float(statistics.variance[places.of[of_variance]]);
            if (member.leads() && split == 0) {
                store(statistics.batch_mean, places.of[of_batch_mean], mean);
                store(statistics.batch_variance, places.of[of_batch_variance], variance);
                store(statistics.running_mean, places.of[of_running_mean], mean);
                store(statistics.running_variance, places.of[of_running_variance], variance);
            }
            transform.set(number, statistics, places, {mean, 0.0f, variance});
        }
    }
    if (parameters.y != nullptr) {
        write<width, across, F>(parameters, member, split, transform, {});
    }
}
