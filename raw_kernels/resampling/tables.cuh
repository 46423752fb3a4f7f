// The elements that resampling reads along each axis: tables with an entry for each output element, computed in double beforehand.
#pragma once

/// The input's elements for one of the output, and their weights.
struct Reading {
    unsigned first;
    unsigned last;
    double weights[4];   // of the first and of the last element; of a stretched filter: the place from the first element on, the sum of all
                         // weights, and the weights of the input's first and last element for positions outside
};

/// An axis: element o of the output lies at (o - output_offset) / scale - input_offset in the input.
struct ResampledAxis {
    double scale;
    double input_offset;
    double output_offset;
    double radius;           // of a stretched filter, above 1; else 0
    long long readings;      // the place of its first entry in the table of readings
    long long ranges;        // the same in the table of ranges, of gradients
    unsigned size;           // of the input
    unsigned output_size;
};

constexpr int most_axes = 4;

/// How many elements a reading has, with those of weight 0. Those of a stretched filter are followed by the input's first and last one, for
/// what lies outside.
__device__ __forceinline__ unsigned element_count(ResampledAxis const& axis, Reading const& reading) {
    return axis.radius == 0.0 ? 2 : reading.last - reading.first + 3;
}

/// Number k of them.
__device__ __forceinline__ unsigned element(ResampledAxis const& axis, Reading const& reading, unsigned k) {
    if (axis.radius == 0.0) {
        return k == 0 ? reading.first : reading.last;
    }
    unsigned const reach = reading.last - reading.first;
    return k <= reach ? reading.first + k : k == reach + 1 ? 0 : axis.size - 1;
}

/// Its weight. With `exact` that of a stretched filter is computed in double too.
template <bool exact>
__device__ __forceinline__ float weight(ResampledAxis const& axis, Reading const& reading, unsigned k) {
    double const* const weights = reading.weights;
    if (axis.radius == 0.0) {
        return static_cast<float>(k == 0 ? weights[0] : weights[1]);
    }
    unsigned const reach = reading.last - reading.first;
    if (k > reach) {
        return static_cast<float>((k == reach + 1 ? weights[2] : weights[3]) / weights[1]);
    }
    if constexpr (exact) {
        return static_cast<float>(max(1.0 - fabs(k - weights[0]) / axis.radius, 0.0) / weights[1]);
    } else {
        float const radius = static_cast<float>(axis.radius);
        float const inside = fmaxf(radius - fabsf(static_cast<float>(k) - static_cast<float>(weights[0])), 0.0f);
        return inside / (radius * static_cast<float>(weights[1]));
    }
}
