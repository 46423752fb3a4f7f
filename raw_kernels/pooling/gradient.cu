// The gradients of average and max pooling for their input.
//
//   average_gradient    dx[i] = sum of dy[o] / divisor(o) over the windows o that have i
//   largest_gradient    dx[i] = sum of dy[o] over the windows o whose largest element is i
//
// Windows have 3 spatial dimensions; an image has a first one of size 1. One thread owns an element of dx and sums its contributions,
// windows in the order of their positions: nothing is added to memory, so results repeat bit for bit. The grid is one-dimensional, of any
// size. No block shares anything with another. Sums are float. dx overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"

/// Where the positions of windows lie: places of an element of dx, of the first position in each of `inputs` tensors, and of the element
/// along each spatial dimension.
template <int inputs>
struct Covering {
    Axes<1 + inputs + 3> axes;     // in this order; the inputs' along batch and channels alone
    Places<inputs> steps[3];       // from one position to the next along each spatial dimension
    Window windows[3];
    unsigned long long count;      // elements of dx
};

template <class T>
struct AverageGradientParameters {
    T const* incoming;       // dy
    T* outgoing;             // dx
    Covering<1> covering;
    int include_padding;     // not 0: padding counts in divisors
};

template <class T>
__global__ void average_gradient(const __grid_constant__ AverageGradientParameters<T> parameters) {
    Covering<1> const& covering = parameters.covering;
    Window const(&windows)[3] = covering.windows;
    // the taps of the position along an axis
    auto const taps = [&](Window const& window, long long position) {
        return tap_count(window, position * window.stride - window.start, parameters.include_padding);
    };
#pragma unroll 1
    for (unsigned long long number = first_element(); number < covering.count; number += element_stride()) {
        Places<5> const places = locate_far(covering.axes, number);
        Positions found[3];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            found[axis] = positions_with(windows[axis], places.of[2 + axis]);
        }
        LongSum sum;
#pragma unroll 1
        for (long long i = 0, z = found[0].first; i < found[0].count; ++i, z += windows[0].apart) {
            long long const depth = taps(windows[0], z);
#pragma unroll 1
            for (long long j = 0, y = found[1].first; j < found[1].count; ++j, y += windows[1].apart) {
                long long const area = depth * taps(windows[1], y);
                T const* const row = parameters.incoming + places.of[1] + z * covering.steps[0].of[0] + y * covering.steps[1].of[0];
#pragma unroll 1
                for (long long k = 0, x = found[2].first; k < found[2].count; ++k, x += windows[2].apart) {
                    float const divisor = static_cast<float>(area * taps(windows[2], x));
                    sum.add(machine::to_float(row[x * covering.steps[2].of[0]]) / divisor);
                }
            }
        }
        parameters.outgoing[places.of[0]] = machine::from_float<T>(sum.result());
    }
}

template <class T, class Index>
struct LargestGradientParameters {
    T const* incoming;       // dy
    Index const* winners;    // the index of each window's largest element, packed
    T* outgoing;             // dx
    Covering<3> covering;    // of dy, of the winners, and of the element's own index, which is the same for all positions
};

template <class T, class Index>
__global__ void largest_gradient(const __grid_constant__ LargestGradientParameters<T, Index> parameters) {
    Covering<3> const& covering = parameters.covering;
#pragma unroll 1
    for (unsigned long long number = first_element(); number < covering.count; number += element_stride()) {
        Places<7> const places = locate_far(covering.axes, number);
        Index const own = static_cast<Index>(places.of[3]);
        Places<3> first = {{places.of[1], places.of[2], 0}};
        Places<3> steps[3];
        long long counts[3];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            Positions const found = positions_with(covering.windows[axis], places.of[4 + axis]);
            counts[axis] = found.count;
            steps[axis] = {};
            advance(first, covering.steps[axis], found.first);
            advance(steps[axis], covering.steps[axis], covering.windows[axis].apart);
        }
        LongSum sum;
        auto const take = [&](Places<3> const& position) {
            if (parameters.winners[position.of[1]] == own) {
                sum.add(machine::to_float(parameters.incoming[position.of[0]]));
            }
        };
        for_each_entry(counts, steps, first, take);
        parameters.outgoing[places.of[0]] = machine::from_float<T>(sum.result());
    }
}
