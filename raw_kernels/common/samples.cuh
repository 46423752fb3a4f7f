// The samples of a region of interest along one axis: the number for each output element, and their places in the image.
//
// Arithmetic is double, in the order of dmlpy.reference, so that the same pixels are read.
#pragma once

/// The options of samples.
struct Sampling {
    double input_offset;
    double output_offset;
    long long least;           // samples of an output element along an axis, both at least 1
    long long most;
    int aligned;               // not 0: the outermost samples lie on the corners of the region
    int nearest;               // not 0: a sample is the nearest pixel, halves rounded down; else it lies between two
};

/// A sample: the pixels before and after it, and how much the second one counts.
struct Sample {
    long long lower;
    long long upper;
    float share;
    bool moving;   // whether the value changes with the place: not for nearest pixels, nor outside the outermost ones
    bool inside;   // the image, or at most a pixel outside it
};

/// The samples of a region along one axis.
class Samples {
  public:
    long long per_output;   // samples of an output element

    __device__ Samples(Sampling const& sampling, double first_corner, double second_corner, long long outputs, long long size)
        : start_(first_corner), extent_(second_corner - first_corner), size_(size), before_(sampling.input_offset), nearest_(sampling.nearest) {
        double const pixels = fabs(extent_) / static_cast<double>(outputs);
        double const most = static_cast<double>(sampling.most);
        per_output = pixels == pixels ? max(static_cast<long long>(ceil(min(pixels, most))), sampling.least) : sampling.least;
        per_output = min(per_output, sampling.most);
        count_ = outputs * per_output;
        // aligned to the corners, the only sample is in the middle
        shift_ = !sampling.aligned ? sampling.output_offset : count_ > 1 ? 0.0 : -0.5;
        divisor_ = static_cast<double>(sampling.aligned && count_ > 1 ? count_ - 1 : count_);
        begin_ = 0;
        end_ = count_;
        double const step = extent_ / divisor_;
        if (!(fabs(step) <= largest_double) || !(fabs(start_) <= largest_double)) {
            end_ = 0;
        } else if (step != 0.0) {
            double const one = (-1.0 + before_ - start_) / step + shift_;
            double const other = (static_cast<double>(size) + before_ - start_) / step + shift_;
            begin_ = bounded(floor(min(one, other)) - 1.0);
            end_ = bounded(ceil(max(one, other)) + 2.0);
        }
    }

    /// The first sample of an output element that may be inside the image.
    __device__ long long begin(long long output) const { return max(begin_, output * per_output); }

    /// One past the last one.
    __device__ long long end(long long output) const { return min(end_, (output + 1) * per_output); }

    /// The output element of a sample, and the sample's number among its own.
    __device__ long long owner(long long number) const { return quotient(number, per_output); }
    __device__ unsigned long long own(long long number) const { return number - quotient(number, per_output) * per_output; }

    /// Where a sample lies between the corners of the region, from 0 to 1.
    __device__ double fraction(long long number) const { return (static_cast<double>(number) - shift_) / divisor_; }

    /// The first sample that may read a pixel; behind the last one for the pixel after it.
    __device__ long long first_reader(long long pixel, bool behind) const {
        double const step = extent_ / divisor_;
        if (begin_ >= end_ || step == 0.0) {
            return behind ? end_ : begin_;
        }
        // those outside the outermost pixels read them too
        double const low = pixel == 0 ? -1.0 : static_cast<double>(pixel - 1);
        double const high = pixel == size_ - 1 ? static_cast<double>(size_) : static_cast<double>(pixel + 1);
        double const one = (low + before_ - start_) / step + shift_;
        double const other = (high + before_ - start_) / step + shift_;
        long long const found = behind ? bounded(ceil(max(one, other)) + 2.0) : bounded(floor(min(one, other)) - 1.0);
        return behind ? min(found, end_) : max(found, begin_);
    }

    __device__ Sample at(long long number) const {
        // the product comes first: of whole numbers it is exact, which the rounding to a nearest pixel needs
        double place = (static_cast<double>(number) - shift_) * extent_ / divisor_ + start_ - before_;
        Sample sample = {0, 0, 0.0f, false, place >= -1.0 && place <= static_cast<double>(size_)};
        double const last = static_cast<double>(size_ - 1);
        if (sample.inside && nearest_) {
            sample.lower = sample.upper = static_cast<long long>(min(max(ceil(place - 0.5), 0.0), last));
        } else if (sample.inside) {
            sample.moving = place >= 0.0 && place < last;
            place = min(max(place, 0.0), last);
            sample.lower = static_cast<long long>(floor(place));
            sample.upper = min(sample.lower + 1, size_ - 1);
            sample.share = static_cast<float>(place - floor(place));
        }
        return sample;
    }

  private:
    static constexpr double largest_double = 1.7976931348623157e308;
    double start_;
    double extent_;
    long long size_;
    double before_;
    int nearest_;
    long long count_;
    double shift_;
    double divisor_;
    long long begin_;
    long long end_;

    __device__ long long bounded(double number) const {
        return static_cast<long long>(min(max(number, 0.0), static_cast<double>(count_)));
    }
};
