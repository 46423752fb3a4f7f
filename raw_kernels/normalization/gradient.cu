// The gradients of batch normalization, mean and variance being those of the batch (training) or constants.
//
//   inverse = 1 / sqrt(variance + epsilon), c = mean, or if x is centred again the mean of x      n: entries of a group
//   d_bias = sum(dy), d_scale = sum(dy (x - mean)) inverse
//   training    dx = scale inverse (dy - sum(dy) / n - (x - c) inverse^2 sum(dy (x - c)) / n)
//   constants   dx = scale inverse dy
//
// Where sum(dy (x - mean)) is not finite, d_scale is NaN, and so is all of the group's dx in training.
//
// Centring again needs no pass: with delta = sum(x - mean) / n it is c = mean + delta, and sum(dy (x - c)) is
// sum(dy (x - mean)) - delta sum(dy).
//
//   sums needed      `differentiate`, where a thread group for each group fills the device
//                    else `gather`, groups being split over blockIdx.y; `combine`; in training `apply`, if dx is needed
//   dx alone, constants   `apply`
//
// In training x and dy are read twice, the second time backwards; `differentiate` reads but once what shared memory has room for in
// between. With constants the first pass writes dx. x is read if d_scale or training's dx is needed.
//
// T is the type of data, S that of statistics. See common/thread_groups.cuh for thread groups and the work of a block and a thread. Outputs
// overlap nothing else.
#include "common/machine.cuh"
#include "common/moments.cuh"
#include "common/thread_groups.cuh"

/// Vectors of a tensor that a thread loads at a time.
inline constexpr int unrolled = 2;

/// Blocks on a multiprocessor: with constants a pass with sums also writes dx, which needs more registers.
template <bool across, bool training>
inline constexpr int resident = resident_blocks<across || !training>;

/// Sums over entries of a group.
struct Sums {
    float dy;
    float product;    // dy (x - mean); unset without x, like the next one
    float deviation;  // x - mean

    __device__ void merge(Sums const& other) {
        dy += other.dy;
        product += other.product;
        deviation += other.deviation;
    }
};

/// The sums for training's last pass: dx = factor ((dy - mean_dy) - ((x - mean) - delta) slope).
struct Slope {
    float mean_dy;
    float slope;
    float delta;
};

/// Tensors of one entry for each group, or repeating; outputs may be absent.
template <class S>
struct Statistics {
    S const* mean;
    S const* variance;
    S const* scale;
    S* d_scale;
    S* d_bias;
    Axes<5> outer;          // as those of the thread groups
    long long strides[5];   // from one group to the next along the innermost axis; 0 if that is within groups
    float epsilon;
    float entries;          // n
};

/// The order of tensors in `Statistics`.
enum Statistic { of_mean, of_variance, of_scale, of_d_scale, of_d_bias };

template <class T, class S>
struct GradientParameters {
    T const* x;             // absent: not read
    T const* dy;
    T* dx;                  // absent: not computed
    ThreadGroups<3> thread_groups;         // of x, dy, dx
    Statistics<S> statistics;
    Splits<Sums> splits;
    Slope* slopes;          // [groups]
    unsigned side_by_side;  // groups along the innermost axis: 1 within groups
    unsigned cached;          // vectors of x and of dy that each thread of `differentiate` caches in shared memory between its passes
    int corrects_mean;
};

/// The inputs of one group.
struct Given {
    float mean;
    float inverse;
    float factor;  // scale inverse

    template <class S>
    __device__ Given(Statistics<S> const& statistics, Places<5> const& places)
        : mean(machine::to_float(statistics.mean[places.of[of_mean]])),
          inverse(1.0f / sqrtf(machine::to_float(statistics.variance[places.of[of_variance]]) + statistics.epsilon)),
          factor(machine::to_float(statistics.scale[places.of[of_scale]]) * inverse) {}
};

/// The data of a thread's groups for the passes.
template <int owned>
struct Constants {
    float mean[owned];
    float factor[owned];

    template <class S>
    __device__ __forceinline__ Constants(Statistics<S> const& statistics, Member const& member) {
        Places<5> const base = locate(statistics.outer, member.outer);
#pragma unroll
        for (int number = 0; number < owned; ++number) {
            Given const given(statistics, further(base, statistics.strides, member.column * owned + number));
            mean[number] = given.mean;
            factor[number] = given.factor;
        }
    }
};

/// NaN if the sum of products is an infinity or NaN, else 0.
__device__ __forceinline__ float not_finite(Sums const& sums) {
    return 0.0f * sums.product;
}

/// Writes d_scale and d_bias of a group.
template <class S>
__device__ void store_statistics(Statistics<S> const& statistics, Places<5> const& places, Given const& given, Sums const& sums) {
    if (statistics.d_scale != nullptr) {
        statistics.d_scale[places.of[of_d_scale]] = machine::from_float<S>((sums.product + not_finite(sums)) * given.inverse);
    }
    if (statistics.d_bias != nullptr) {
        statistics.d_bias[places.of[of_d_bias]] = machine::from_float<S>(sums.dy);
    }
}

/// Converts a group's sums for training's last pass.
template <class T, class S>
__device__ Slope slope_of(GradientParameters<T, S> const& parameters, Given const& given, Sums const& sums) {
    float const entries = parameters.statistics.entries;
    float const delta = parameters.corrects_mean != 0 ? sums.deviation / entries : 0.0f;
    float const product = sums.product - delta * sums.dy;
    return {sums.dy / entries + not_finite(sums), product / entries * given.inverse * given.inverse, delta};
}

/// Vectors of a tensor, one for each place.
template <int width, int tensor, class T, int vectors>
__device__ __forceinline__ void load(T const* data, ThreadGroups<3> const& thread_groups, Places<3> const (&places)[vectors],
                                     AlignedVector<T, width> (&loaded)[vectors]) {
#pragma unroll
    for (int vector = 0; vector < vectors; ++vector) {
        loaded[vector] = load_vector<width>(data + places[vector].of[tensor], thread_groups.vector_strides[tensor] == 0);
    }
}

/// dx of some vectors; with constants only `dy` is used.
template <int width, bool across, bool training, class T, class S, int owned, int vectors>
__device__ __forceinline__ void write(GradientParameters<T, S> const& parameters, Places<3> const (&places)[vectors],
                                      AlignedVector<T, width> const (&x)[vectors], AlignedVector<T, width> const (&dy)[vectors],
                                      Constants<owned> const& constants, Slope const (&slopes)[owned]) {
#pragma unroll
    for (int vector = 0; vector < vectors; ++vector) {
        AlignedVector<T, width> dx;
#pragma unroll
        for (int entry = 0; entry < width; ++entry) {
            int const number = across ? entry : 0;
            float value = machine::to_float(dy[vector].values[entry]);
            if constexpr (training) {
                Slope const& own = slopes[number];
                float const deviation = machine::to_float(x[vector].values[entry]) - constants.mean[number];
                value = (value - own.mean_dy) - (deviation - own.delta) * own.slope;
            }
            dx.values[entry] = machine::from_float<T>(constants.factor[number] * value);
        }
        *reinterpret_cast<AlignedVector<T, width>*>(parameters.dx + places[vector].of[2]) = dx;
    }
}

/// The pass that sums a thread group's part of its groups, for each of its threads. With constants it writes dx too.
template <int width, bool across, bool training, class T, class S, int owned>
__device__ __forceinline__ void take_sums(GradientParameters<T, S> const& parameters, Member const& member, unsigned split,
                                          Constants<owned> const& constants, CachedVectors<AlignedVector<T, width>, 2> const& cached,
                                          Sums (&sums)[owned]) {
    ThreadGroups<3> const& thread_groups = parameters.thread_groups;
    visit_vectors<false, unrolled>(thread_groups, member, split, [&](auto const& places, unsigned first) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        constexpr int added = across ? vectors : vectors * width;
        AlignedVector<T, width> x[vectors] = {};
        AlignedVector<T, width> dy[vectors];
        load<width, 1>(parameters.dy, thread_groups, places, dy);
        if (parameters.x != nullptr) {
            load<width, 0>(parameters.x, thread_groups, places, x);
        }
        cached.template store<0>(first, x);
        cached.template store<1>(first, dy);
#pragma unroll
        for (int number = 0; number < owned; ++number) {
            float terms[added];
            float products[added];
            float deviations[added];
#pragma unroll
            for (int entry = 0; entry < added; ++entry) {
                int const vector = across ? entry : entry / width;
                int const place = across ? number : entry % width;
                terms[entry] = machine::to_float(dy[vector].values[place]);
                deviations[entry] = machine::to_float(x[vector].values[place]) - constants.mean[number];
                products[entry] = terms[entry] * deviations[entry];
            }
            sums[number].merge({sum(terms), sum(products), sum(deviations)});
        }
        if constexpr (!training) {
            if (parameters.dx != nullptr) {
                Slope const none[owned] = {};
                write<width, across, training>(parameters, places, x, dy, constants, none);
            }
        }
    });
    merge_thread_group(thread_groups.size, sums, machine::dynamic_shared<Sums>());
}

/// The pass that only writes dx, backwards.
template <int width, bool across, bool training, class T, class S, int owned>
__device__ __forceinline__ void write_all(GradientParameters<T, S> const& parameters, Member const& member, unsigned split,
                                          Constants<owned> const& constants, Slope const (&slopes)[owned],
                                          CachedVectors<AlignedVector<T, width>, 2> const& cached) {
    ThreadGroups<3> const& thread_groups = parameters.thread_groups;
    visit_vectors<true, unrolled>(thread_groups, member, split, [&](auto const& places, unsigned number) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        AlignedVector<T, width> x[vectors] = {};
        AlignedVector<T, width> dy[vectors];
        if (cached.has(number)) {
            cached.template load<0>(number, x);
            cached.template load<1>(number, dy);
        } else {
            load<width, 1>(parameters.dy, thread_groups, places, dy);
            if constexpr (training) {
                load<width, 0>(parameters.x, thread_groups, places, x);
            }
        }
        write<width, across, training>(parameters, places, x, dy, constants, slopes);
    });
}

/// Sums in one launch: a block is several thread groups, and a thread group processes all of its groups.
template <class T, class S, int width, bool across, bool training>
__global__ void __launch_bounds__(most_block_threads, resident<across, training>) differentiate(const __grid_constant__ GradientParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Statistics<S> const& statistics = parameters.statistics;
    Member const member(parameters.thread_groups, blockIdx.x);
    Constants<owned> const constants(statistics, member);
    using Cached = CachedVectors<AlignedVector<T, width>, 2>;
    Cached const cached = training ? Cached(parameters.cached, merging_bytes<owned, Sums>()) : Cached();
    Sums sums[owned] = {};
    take_sums<width, across, training>(parameters, member, 0, constants, cached, sums);
    Slope slopes[owned];
    Places<5> const base = locate(statistics.outer, member.outer);
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        Places<5> const places = further(base, statistics.strides, member.column * owned + number);
        Given const given(statistics, places);
        if (member.leads()) {
            store_statistics(statistics, places, given, sums[number]);
        }
        slopes[number] = slope_of(parameters, given, sums[number]);
    }
    if constexpr (training) {
        if (parameters.dx != nullptr) {
            write_all<width, across, training>(parameters, member, 0, constants, slopes, cached);
        }
    }
}

/// Sums, first launch: a thread group processes a split of its groups.
template <class T, class S, int width, bool across, bool training>
__global__ void __launch_bounds__(most_block_threads, resident<across, training>) gather(const __grid_constant__ GradientParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    Sums sums[owned] = {};
    take_sums<width, across, training>(parameters, member, blockIdx.y, Constants<owned>(parameters.statistics, member), {}, sums);
    for_led_groups<width, across>(
        parameters.thread_groups, member, [&](unsigned group, int number) { parameters.splits.part(blockIdx.y, group) = sums[number]; });
}

/// Second launch: a lane of threads merges the splits of a group.
template <class T, class S>
__global__ void __launch_bounds__(most_block_threads, 1) combine(const __grid_constant__ GradientParameters<T, S> parameters) {
    Sums const sums = merge_splits(parameters.splits, machine::dynamic_shared<Sums>());
    unsigned const group = group_of(parameters.splits);
    if (group < parameters.splits.groups && threadIdx.x >> parameters.splits.size.lanes_log2 == 0) {
        unsigned const outer = group / parameters.side_by_side;
        Places<5> const base = locate(parameters.statistics.outer, outer);
        Places<5> const places = further(base, parameters.statistics.strides, group - outer * parameters.side_by_side);
        Given const given(parameters.statistics, places);
        store_statistics(parameters.statistics, places, given, sums);
        parameters.slopes[group] = slope_of(parameters, given, sums);
    }
}

/// Constants; or training's third launch, blocks in reverse. A thread group processes a split of its groups.
template <class T, class S, int width, bool across, bool training>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) apply(const __grid_constant__ GradientParameters<T, S> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, gridDim.x - 1 - blockIdx.x);
    Constants<owned> const constants(parameters.statistics, member);
    Slope slopes[owned] = {};
    if constexpr (training) {
        unsigned const group = member.group<width, across>(parameters.thread_groups);
#pragma unroll
        for (int number = 0; number < owned; ++number) {
            slopes[number] = parameters.slopes[group + number];
        }
    }
    write_all<width, across, training>(parameters, member, gridDim.y - 1 - blockIdx.y, constants, slopes, {});
}
