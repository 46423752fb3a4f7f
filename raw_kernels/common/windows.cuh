// Windows that slide over the spatial dimensions of tensors: the elements of a position, and the positions that have an element.
//
// Either is a grid of entries: so many along each dimension, at equal distances in every tensor. Kernels compute its first entry and
// continue from there.
#pragma once

/// A window along one dimension. At position p it has the elements p * stride + k * dilation - start for k = 0 to length - 1, its taps;
/// what is no element of the dimension is padding. All numbers are below 2^32.
struct Window {
    long long size;        // of the dimension
    long long start;       // padding before the first element
    long long end;         // padding after the last one: positions past it are not part of a window
    long long length;
    long long dilation;
    long long stride;
    long long positions;
    long long apart;       // from one position that has an element to the next: dilation / gcd(dilation, stride)
};

/// The quotient of numbers that are not negative, rounded down. It is a 32-bit division if both numbers fit.
__device__ inline long long quotient(long long dividend, long long divisor) {
    if (divisor == 1) {
        return dividend;
    }
    if (((dividend | divisor) >> 32) == 0) {
        return static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor);
    }
    return dividend / divisor;
}

/// The number of taps within a distance of the first one.
__device__ inline long long taps_before(Window const& window, long long distance) {
    return distance <= 0 ? 0 : min(window.length, quotient(distance + window.dilation - 1, window.dilation));
}

/// The number of taps inside the dimension, or inside it and its padding, for a place of the first tap.
__device__ inline long long tap_count(Window const& window, long long first, bool with_padding) {
    return with_padding ? taps_before(window, window.size + window.end - first)
                        : taps_before(window, window.size - first) - taps_before(window, -first);
}

/// Positions: the first of them, and how many there are, window.apart from each other.
struct Positions {
    long long first;
    long long count;
};

/// The positions that have an element among their taps.
__device__ inline Positions positions_with(Window const& window, long long element) {
    long long const place = element + window.start;   // counted from the first element of padding
    long long const reach = (window.length - 1) * window.dilation;
    long long first = place > reach ? quotient(place - reach + window.stride - 1, window.stride) : 0;
    long long const last = min(quotient(place, window.stride), window.positions - 1);
    // The element is a tap if it is a whole number of dilations after the first one. Among so many neighbours one has it, or none.
    long long const tries = min(window.apart, last - first + 1);
    long long tried = 0;
#pragma unroll 1
    while (tried < tries && quotient(place - first * window.stride, window.dilation) * window.dilation != place - first * window.stride) {
        ++first;
        ++tried;
    }
    return {first, tried < tries ? quotient(last - first, window.apart) + 1 : 0};
}

/// The tap of a position that reads an element.
__device__ inline long long tap_of(Window const& window, long long element, long long position) {
    return quotient(element + window.start - position * window.stride, window.dilation);
}

/// Moves places by some steps.
template <int tensors>
__device__ __forceinline__ void advance(Places<tensors>& places, Places<tensors> const& step, long long times = 1) {
#pragma unroll
    for (int tensor = 0; tensor < tensors; ++tensor) {
        places.of[tensor] += times * step.of[tensor];
    }
}

/// Calls take(places) for each entry of a grid, the last axis fastest: counts[axis] entries along each axis, steps[axis] apart.
template <int axis = 0, int axes, int tensors, class Take>
__device__ __forceinline__ void for_each_entry(long long const (&counts)[axes], Places<tensors> const (&steps)[axes],
                                               Places<tensors> places, Take& take) {
    if constexpr (axis == axes) {
        take(places);
    } else {
#pragma unroll 1
        for (long long entry = 0; entry < counts[axis]; ++entry) {
            for_each_entry<axis + 1>(counts, steps, places, take);
            advance(places, steps[axis]);
        }
    }
}

/// A sum in a fixed order, whose error does not grow with the number of terms: rounding errors are summed and added at the end.
class CarriedSum {
  public:
    __device__ void add(float term) {
        float const total = total_ + term;
        float const added = total - total_;
        lost_ += (total_ - (total - added)) + (term - added);
        total_ = total;
    }

    __device__ float result() const { return lost_ == lost_ ? total_ + lost_ : total_; }   // after infinities the correction is NaN

  private:
    float total_ = 0.0f;
    float lost_ = 0.0f;
};

/// The same at less cost for many terms: partial sums of some terms each are added up.
class LongSum {
  public:
    __device__ void add(float term) {
        part_ += term;
        if (++terms_ == 32) {
            total_.add(part_);
            part_ = 0.0f;
            terms_ = 0;
        }
    }

    __device__ float result() const {
        CarriedSum total = total_;
        total.add(part_);
        return total.result();
    }

  private:
    CarriedSum total_;
    float part_ = 0.0f;
    int terms_ = 0;
};
