// Where a thread that runs the steps of a sequence reads and writes the arrays of the operator.
#pragma once

/// Where the pairs of a thread are in an array that the recurrence reads or writes step by step: the address of a few pairs advances by the
/// same distance at each step. For more pairs it would take registers from R, so it is recomputed.
template <class E, int pairs, int pass_samples, bool one_pass>
class StepPointers {
    static constexpr bool moves = pairs <= 2;

  public:
    /// `start`: the array's element at time 0, of the first sample and the first unit of the block; null if it is absent. Then the
    /// distances between times, samples and units.
    __device__ StepPointers(E* start, long long time, long long sample, long long unit, bool backward)
        : of_block_(start),
          step_(in_register(start == nullptr ? 0 : backward ? -time : time)),
          length_(start == nullptr || !backward ? 0 : time),
          sample_(start == nullptr ? 0 : sample),
          unit_(start == nullptr ? 0 : unit) {}

    /// Before the first step: pair number p has this sample, counted from the pass's first, and this unit; `length` steps are taken by its
    /// sample, if there is one pass.
    __device__ void begin(int p, int sample, int unit, int length) {
        if constexpr (moves) {
            of_pair_[p] = of_block_ + (sample * sample_ + unit * unit_ + (one_pass ? (length - 1) * length_ : 0));
        }
    }

    /// The element of the present step, which a sample of so many steps takes.
    __device__ E* at(int p, int pass, int sample, int unit, int length) const {
        if constexpr (moves && one_pass) {
            return of_pair_[p];
        } else if constexpr (moves) {
            return of_pair_[p] + (pass * pass_samples * sample_ + (length - 1) * length_);
        } else {
            return of_block_ + ((pass * pass_samples + sample) * sample_ + unit * unit_ + (length - 1) * length_);
        }
    }

    __device__ void advance() {
        if constexpr (moves) {
#pragma unroll
            for (int p = 0; p < pairs; ++p) {
                of_pair_[p] += step_;
            }
        } else {
            of_block_ += step_;
        }
    }

  private:
    /// With several passes registers are scarce, and the compiler may recompute the distance each time.
    __device__ static long long in_register(long long distance) {
        return one_pass ? machine::opaque(distance) : distance;
    }

    E* of_block_;
    E* of_pair_[moves ? pairs : 1];
    long long step_;
    long long length_;  // backward a sample begins at its last time
    long long sample_;
    long long unit_;
};
