// The tables of resampling.
//
//   tabulate    the elements that each output element reads along each axis, by its coordinate in the input
//   invert      the output elements that read each input element along each axis, for gradients
//
// One thread owns an entry of a table. The grid is one-dimensional, of any size. No block shares anything with another. Arithmetic is
// double: the neighbours are those of the definition in dmlpy.reference.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "resampling/tables.cuh"

enum class Rounding { half_up, up, down };

struct Nearest {};
struct Linear {};

template <class Mode>
struct TabulateParameters {
    Reading* readings;
    ResampledAxis axes[most_axes];
    unsigned long long count;   // entries of all axes
    int rounding;               // a Rounding, of Nearest
};

constexpr double farthest = 1099511627776.0;   // 2^40: coordinates and filters end here

/// Where an element of the output lies in the input; NaN, from extreme scales, becomes the first element.
__device__ inline double coordinate(ResampledAxis const& axis, double element) {
    double const place = (element - axis.output_offset) / axis.scale - axis.input_offset;
    return place == place ? min(max(place, -farthest), farthest) : 0.0;
}

/// The coordinate, snapped to an integer or a half if it differs only by the rounding of a FLOAT scale.
__device__ inline double settled(double place, double input_offset) {
    constexpr double float_rounding = 1.0 / 8388608.0;
    double const halves = rint(2.0 * place) / 2.0;
    return fabs(place - halves) <= float_rounding * (fabs(place + input_offset) + fabs(input_offset)) ? halves : place;
}

__device__ inline unsigned clipped(double element, unsigned size) {
    return static_cast<unsigned>(min(max(element, 0.0), static_cast<double>(size - 1)));
}

/// The sum of the weights at a distance, 1 more, 2 more and so on, while they are above 0 and no more than so many.
__device__ inline double series(double distance, double radius, double most) {
    double const count = max(min(ceil(radius - distance), most), 0.0);
    // Rounded as the definition rounds it: a fused product would have other weights.
    return count - (machine::rounded_product(count, distance) + count * (count - 1.0) / 2.0) / radius;
}

/// The total weight of elements before the first one.
__device__ inline double below_zero(double place, double radius) {
    double const below = floor(place);
    return series(place - min(below, -1.0), radius, 4.0 * farthest) + series(below + 1.0 - place, radius, -1.0 - below);
}

template <class Mode>
__global__ void tabulate(const __grid_constant__ TabulateParameters<Mode> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        unsigned long long entry = number;
        int at = 0;
        while (entry >= parameters.axes[at].output_size) {
            entry -= parameters.axes[at++].output_size;
        }
        ResampledAxis const& axis = parameters.axes[at];
        double const place = coordinate(axis, static_cast<double>(entry));
        Reading reading = {};
        if constexpr (is_same<Mode, Nearest>) {
            double const near = settled(place, axis.input_offset);
            Rounding const rounding = static_cast<Rounding>(parameters.rounding);
            double const chosen = rounding == Rounding::up ? ceil(near) : floor(rounding == Rounding::half_up ? near + 0.5 : near);
            reading.first = reading.last = clipped(chosen, axis.size);
            reading.weights[0] = 1.0;
        } else if (axis.radius == 0.0) {
            double const lower = floor(place);
            reading.first = clipped(lower, axis.size);
            reading.last = clipped(lower + 1.0, axis.size);
            reading.weights[1] = place - lower;
            reading.weights[0] = 1.0 - (place - lower);
        } else {
            double const radius = axis.radius;
            double const most = 2.0 * ceil(radius);
            unsigned const reach = most < axis.size ? static_cast<unsigned>(most) : axis.size - 1;   // from the first to the last element
            reading.first = clipped(ceil(place - radius), axis.size - reach);
            reading.last = reading.first + reach;
            reading.weights[0] = place - reading.first;
            reading.weights[1] = series(place - floor(place), radius, 4.0 * farthest) + series(floor(place) + 1.0 - place, radius, 4.0 * farthest);
            reading.weights[2] = below_zero(place, radius);
            reading.weights[3] = below_zero(static_cast<double>(axis.size) - 1.0 - place, radius);
        }
        parameters.readings[axis.readings + entry] = reading;
    }
}

/// Elements of the output from begin up to, not including, end.
struct Range {
    unsigned begin;
    unsigned end;
};

template <class T>
struct InvertParameters {
    Reading const* readings;
    T* ranges;                  // Range
    ResampledAxis axes[most_axes];
    unsigned long long count;   // elements of the input along all axes
};

/// The first number below `count` for which a monotonic condition holds; `count` if none does.
template <class Condition>
__device__ __forceinline__ unsigned first_that(unsigned count, Condition holds) {
    unsigned low = 0;
    while (count > 0) {
        unsigned const half = count / 2;
        if (holds(low + half)) {
            count = half;
        } else {
            low += half + 1;
            count -= half + 1;
        }
    }
    return low;
}

template <class T>
__global__ void invert(const __grid_constant__ InvertParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        unsigned long long entry = number;
        int at = 0;
        while (entry >= parameters.axes[at].size) {
            entry -= parameters.axes[at++].size;
        }
        ResampledAxis const& axis = parameters.axes[at];
        Reading const* const readings = parameters.readings + axis.readings;
        Reading const& front = readings[0];
        Reading const& back = readings[axis.output_size - 1];
        // A later element of the output lies no earlier in the input, or no later if the scale is negative.
        bool const ascending = static_cast<unsigned long long>(front.first) + front.last <= static_cast<unsigned long long>(back.first) + back.last;
        unsigned const element = static_cast<unsigned>(entry);
        auto const reached = [&](unsigned o) { return ascending ? readings[o].last >= element : readings[o].first <= element; };
        auto const passed = [&](unsigned o) { return ascending ? readings[o].first > element : readings[o].last < element; };
        parameters.ranges[axis.ranges + entry] = {first_that(axis.output_size, reached), first_that(axis.output_size, passed)};
    }
}
