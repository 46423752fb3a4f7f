// Mean and variance of many numbers in one pass, without cancellation: Welford's recurrence over batches, and Chan's formula to merge.
//
// Numbers are relative to one that all parts to be merged share, such as a group's first entry: so a mean much
// larger than the deviation costs nothing, and equal numbers have a variance of exactly zero. Infinities and NaN make the sum of squares
// NaN.
#pragma once

/// The sum of register values, as a tree.
template <int count>
__device__ __forceinline__ float sum(float const (&values)[count]) {
    static_assert((count & (count - 1)) == 0);
    if constexpr (count == 1) {
        return values[0];
    } else {
        float halves[count / 2];
#pragma unroll
        for (int number = 0; number < count / 2; ++number) {
            halves[number] = values[number] + values[number + count / 2];
        }
        return sum(halves);
    }
}

/// The count of some numbers, their mean, and the sum of the squares of their deviations from it.
struct Moments {
    float count;
    float mean;
    float squares;

    __device__ void merge(Moments const& other) {
        float const total = count + other.count;
        // an empty part has no weight; neither product below is infinity times zero unless a number was not finite
        float const weight = other.count > 0.0f ? other.count / total : 0.0f;
        float const step = (other.mean - mean) * weight;
        squares += other.squares + (other.mean - mean) * (count * step);
        mean += step;
        count = total;
    }
};

/// The moments of `owned` rows of numbers with a common count.
template <int owned>
struct GrowingMoments {
    float count = 0.0f;
    float mean[owned] = {};
    float squares[owned] = {};

    /// Adds numbers to one row; `weight` is that of so many, and the count grows when every row has got them.
    template <int added>
    __device__ __forceinline__ void add(int row, float const (&numbers)[added], float weight) {
        float const own_mean = sum(numbers) * (1.0f / added);
        float own_squares[added];
#pragma unroll
        for (int number = 0; number < added; ++number) {
            float const deviation = numbers[number] - own_mean;
            own_squares[number] = deviation * deviation;
        }
        float const difference = own_mean - mean[row];
        float const step = difference * weight;
        squares[row] += sum(own_squares) + difference * (count * step);
        mean[row] += step;
    }

    /// The weight of so many more numbers of each row.
    __device__ __forceinline__ float weight(int added) const { return added * machine::reciprocal_approx(count + added); }

    __device__ Moments of(int row) const { return {count, mean[row], squares[row]}; }
};
