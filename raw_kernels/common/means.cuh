// Mean and variance of groups of entries: the first of two passes over x, the first of the tensors that thread groups share.
#pragma once

#include "common/activations.cuh"
#include "common/moments.cuh"
#include "common/thread_groups.cuh"

/// Vectors that a thread loads at a time, in the first pass.
inline constexpr int unrolled = 4;

/// The same in the last pass, which needs more registers for each, with a long function most of all.
template <class F>
inline constexpr int unrolled_last = is_same<F, Gelu> || is_same<F, ParametricSoftplus> ? 1 : 2;

/// The statistics of a group for the last pass.
struct GroupStatistics {
    float high;  // the mean is high + low
    float low;
    float variance;
};

/// Moments relative to `first` as a statistics.
///
/// Squares that overflow are infinite or NaN, depending on the order of addition; all of them count as NaN here.
__device__ inline GroupStatistics statistics_of(Moments const& moments, float first, float entries) {
    float const variance = moments.squares / entries + (moments.squares - moments.squares);
    float const high = first + moments.mean;
    // what the rounding of that sum lost, exactly
    float const added = high - first;
    float const low = (first - (high - added)) + (moments.mean - added);
    return {variance == variance ? high : variance, low, variance};
}

/// The first entry of each of a thread's groups.
template <int width, bool across, class T, int tensors, int owned>
__device__ __forceinline__ void read_firsts(T const* x, ThreadGroups<tensors> const& thread_groups, Member const& member, float (&firsts)[owned]) {
    T const* const origin = x + member.origin(thread_groups).of[0];
    AlignedVector<T, owned> const first = load_vector<owned>(origin, across && thread_groups.vector_strides[0] == 0);
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        firsts[number] = machine::to_float(first.values[number]);
    }
}

/// The first pass: moments of a thread group's part of its groups, relative to their first entries, for each of its threads.
template <int width, bool across, class T, int tensors, int owned>
__device__ __forceinline__ void take_moments(T const* data, ThreadGroups<tensors> const& thread_groups, Member const& member, unsigned split,
                                             float const (&firsts)[owned], CachedVectors<AlignedVector<T, width>, 1> const& cached,
                                             Moments (&moments)[owned]) {
    GrowingMoments<owned> growing;
    visit_vectors<false, unrolled>(thread_groups, member, split, [&](auto const& places, unsigned first) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        constexpr int added = across ? vectors : vectors * width;
        AlignedVector<T, width> x[vectors];
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            x[vector] = load_vector<width>(data + places[vector].of[0], thread_groups.vector_strides[0] == 0);
        }
        cached.template store<0>(first, x);
        float const weight = growing.weight(added);
#pragma unroll
        for (int number = 0; number < owned; ++number) {
            float values[added];
#pragma unroll
            for (int entry = 0; entry < added; ++entry) {
                T const value = across ? x[entry].values[number] : x[entry / width].values[entry % width];
                values[entry] = machine::to_float(value) - firsts[number];
            }
            growing.add(number, values, weight);
        }
        growing.count += added;
    });
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        moments[number] = growing.of(number);
    }
    merge_thread_group(thread_groups.size, moments, machine::dynamic_shared<Moments>());
}
