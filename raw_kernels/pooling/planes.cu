// Poolings of images of up to two spatial dimensions, whose places fit in 32 bits:
//
//   MaximumOf      y = the largest x; a NaN is the largest
//   IndexedOf      the same with its index, that of the lowest of equal ones
//   AverageOf      y = sum(x) / divisor; the divisor counts the taps with padding or without
//
// One thread owns `outputs` elements of the output that are neighbours along the last dimension. Windows of `taps` rows of as many taps are
// written out, others have 0; the taps of a row lie side by side in memory if `adjacent`. The grid is one-dimensional, of any size. No block shares
// anything with another. Arithmetic on floats and halves is float. Outputs overlap nothing.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"

/// A window along one dimension. Its tap k at position p is the element p * stride + k * dilation - start.
struct PlaneWindow {
    int size;       // of the dimension
    int start;      // padding before the first element
    int end;        // padding after the last one
    int length;
    int dilation;
    int stride;
    int step;       // from one tap to the next, in elements of the input
    int next;       // from one position to the next
};

template <class T, int tensors, int axis_count>
struct PlanesParameters {
    T const* input;
    T* output;              // absent if only indices are written
    void* indices;          // 32 or 64 bits each, absent if they are not written
    Axes<tensors, int, axis_count> axes;   // output, first tap, row and column of the position; for indices, those, and the number of the image's first element
    PlaneWindow rows;
    PlaneWindow columns;
    int origin;             // of the first tap of the first position: padding lies before the tensor
    int output_step;        // from one position to the next along the last dimension
    int index_step;
    int row_length;         // elements of a row, by which indices are counted
    int positions;          // along the last dimension
    unsigned count;         // threads with work, less than 2^31
    int include_padding;    // of a mean: not 0, padding counts as zeros
    int wide_indices;       // not 0: 64 bits
    T least;                // the largest of a window entirely in the padding
};

/// An element as the number by which it is compared and summed.
template <class T>
using NumberOf = Choice<is_narrow<T>, float, T>;

template <class T>
__device__ __forceinline__ NumberOf<T> to_number(T element) {
    if constexpr (is_narrow<T>) {
        return machine::to_float(element);
    } else {
        return element;
    }
}

template <class T>
__device__ __forceinline__ T to_element(NumberOf<T> number) {
    if constexpr (is_narrow<T>) {
        return machine::from_float<T>(number);
    } else {
        return number;
    }
}

// Reductions of the elements of windows. `taps` is 0 if windows may have many.

template <class T, int taps>
struct MaximumOf {
    static constexpr int tensors = 4;
    static constexpr bool divides = false;
    NumberOf<T> best;

    __device__ void begin(T least) { best = to_number(least); }
    __device__ void take(NumberOf<T> value, int, int) {
        if constexpr (is_floating<T>) {
            best = machine::maximum(best, value);
        } else {
            best = value > best ? value : best;
        }
    }
    __device__ T result(int) const { return to_element<T>(best); }
};

template <class T, int taps>
struct IndexedOf {
    static constexpr int tensors = 6;
    static constexpr bool divides = false;
    NumberOf<T> best;
    int number;   // of the best tap, along its row if windows may have many; -1 before the first element
    int far;      // and its row, in that case

    __device__ void begin(T least) {
        best = to_number(least);
        number = -1;
    }
    __device__ void take(NumberOf<T> value, int row_tap, int tap) {
        bool is_better = value > best;
        if constexpr (is_floating<T>) {
            is_better = !(value <= best) && best == best;   // NaN is better than any number
        }
        is_better = is_better || number < 0;
        best = is_better ? value : best;
        if constexpr (taps > 0) {
            number = is_better ? row_tap * taps + tap : number;
        } else {
            number = is_better ? tap : number;
            far = is_better ? row_tap : far;
        }
    }
    __device__ T result(int) const { return to_element<T>(best); }
    __device__ bool found() const { return number >= 0; }
    __device__ int row_tap() const { return taps > 0 ? number / (taps > 0 ? taps : 1) : far; }
    __device__ int tap() const { return taps > 0 ? number % (taps > 0 ? taps : 1) : number; }
};

template <class T, int taps>
struct AverageOf {
    static constexpr int tensors = 4;
    static constexpr bool divides = true;
    Choice<(taps > 0), float, LongSum> sum;

    __device__ void begin(T) { sum = {}; }
    __device__ void take(float value, int, int) {
        if constexpr (taps > 0) {
            sum += value;
        } else {
            sum.add(value);
        }
    }
    __device__ T result(int divisor) const {
        float total;
        if constexpr (taps > 0) {
            total = sum;
        } else {
            total = sum.result();
        }
        return to_element<T>(total / static_cast<float>(divisor));
    }
};

/// Calls take(tap) for each tap of a window along a dimension.
template <int taps, class Take>
__device__ __forceinline__ void for_each_tap(PlaneWindow const& window, Take const& take) {
    if constexpr (taps > 0) {
#pragma unroll
        for (int tap = 0; tap < taps; ++tap) {
            take(tap);
        }
    } else {
#pragma unroll 1
        for (int tap = 0; tap < window.length; ++tap) {
            take(tap);
        }
    }
}

/// Whether a place along a dimension is an element, or one that a divisor counts.
__device__ __forceinline__ bool is_within(int place, int first, int end) {
    return static_cast<unsigned>(place - first) < static_cast<unsigned>(end - first);
}

template <class T, template <class, int> class Reduction, int taps, int outputs, bool adjacent, int axis_count>
__global__ void pool_planes(const __grid_constant__ PlanesParameters<T, Reduction<T, taps>::tensors, axis_count> parameters) {
    PlaneWindow const& rows = parameters.rows;
    PlaneWindow const& columns = parameters.columns;
    bool const pads = parameters.include_padding != 0;
#pragma unroll 1
    for (unsigned number = static_cast<unsigned>(first_element()); number < parameters.count; number += static_cast<unsigned>(element_stride())) {
        Places<Reduction<T, taps>::tensors, int> const places = locate_along_all(parameters.axes, number);
        Reduction<T, taps> reductions[outputs];
#pragma unroll
        for (int output = 0; output < outputs; ++output) {
            reductions[output].begin(parameters.least);
        }
        int const first_column = places.of[3] * columns.stride - columns.start;
        int const first_row = places.of[2] * rows.stride - rows.start;
        T const* const source = parameters.input + (places.of[1] + parameters.origin);
        bool inside[taps > 0 ? taps : 1][outputs];   // whether the taps of a row are elements, if they are written out
        if constexpr (taps > 0) {
            for_each_tap<taps>(columns, [&](int tap) {
#pragma unroll
                for (int output = 0; output < outputs; ++output) {
                    inside[tap][output] = is_within(first_column + output * columns.stride + tap * columns.dilation, 0, columns.size);
                }
            });
        }
        int counted_rows = 0;
        for_each_tap<taps>(rows, [&](int row_tap) {
            int const row = first_row + row_tap * rows.dilation;
            if constexpr (Reduction<T, taps>::divides) {
                counted_rows += is_within(row, pads ? -rows.start : 0, pads ? rows.size + rows.end : rows.size);
            }
            if (!is_within(row, 0, rows.size)) {
                return;
            }
            T const* const of_row = source + row_tap * rows.step;
            for_each_tap<taps>(columns, [&](int tap) {
#pragma unroll
                for (int output = 0; output < outputs; ++output) {
                    int const column = first_column + output * columns.stride + tap * columns.dilation;
                    if (taps > 0 ? inside[taps > 0 ? tap : 0][output] : is_within(column, 0, columns.size)) {
                        reductions[output].take(to_number(of_row[(adjacent ? tap : tap * columns.step) + output * columns.next]), row_tap, tap);
                    }
                }
            });
        });
#pragma unroll
        for (int output = 0; output < outputs; ++output) {
            if (places.of[3] + output >= parameters.positions) {
                continue;
            }
            int divisor = 0;
            if constexpr (Reduction<T, taps>::divides) {
                for_each_tap<taps>(columns, [&](int tap) {
                    int const column = first_column + output * columns.stride + tap * columns.dilation;
                    divisor += is_within(column, pads ? -columns.start : 0, pads ? columns.size + columns.end : columns.size);
                });
                divisor *= counted_rows;
            }
            if (parameters.output != nullptr) {
                parameters.output[places.of[0] + output * parameters.output_step] = reductions[output].result(divisor);
            }
            if constexpr (Reduction<T, taps>::tensors == 6) {
                int const place = places.of[4] + output * parameters.index_step;
                int const row = first_row + reductions[output].row_tap() * rows.dilation;
                int const column = first_column + output * columns.stride + reductions[output].tap() * columns.dilation;
                unsigned const index = reductions[output].found() ? places.of[5] + row * parameters.row_length + column : 0;
                if (parameters.wide_indices) {
                    static_cast<unsigned long long*>(parameters.indices)[place] = index;
                } else {
                    static_cast<unsigned*>(parameters.indices)[place] = index;
                }
            }
        }
    }
}
