// Forward convolutions of quantized numbers: exact sums of (x - input_zero_point) * (w - filter_zero_point), in which padding is 0.
//
//   Integers     y = sum, which wraps around in 32 bits
//   Quantized    y = clamp(round(input_scale * filter_scale * (sum + bias) / output_scale) + output_zero_point)
//
// Scaled sums are computed in double, each operation rounded separately. Halves are rounded to even; NaN counts as 0.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"
#include "common/conversions.cuh"
#include "common/tile_products.cuh"
#include "common/convolution.cuh"
#include "common/convolution_tiles.cuh"

/// The sum of any number of products of two differences.
class WideSum {
  public:
    __device__ void add(int term) { sum_ += term; }
    __device__ long long result() const { return sum_; }

  private:
    long long sum_ = 0;
};

/// The zero points of a tile: of x, and of each output channel from `first` on.
template <class Arithmetic>
struct ZeroPoints {
    Arithmetic const& arithmetic;
    long long first;
    long long end;

    __device__ int row(int r) const { return first + r < end ? arithmetic.filter_zero(first + r) : 0; }
    __device__ int column(int) const { return arithmetic.input_zero(); }
};

/// Shared by all: X and W are signed or unsigned bytes.
template <class X, class W>
struct Differences {
    using Input = X;
    using Filter = W;
    using Number = int;
    using Sum = WideSum;
    using Raw = unsigned char;
    static constexpr bool has_padding = true;

    X const* input_zero_point;            // absent: 0
    W const* filter_zero_point;           // absent: 0
    long long filter_zero_point_stride;   // between output channels

    __device__ int pixel(X x) const { return x - (input_zero_point == nullptr ? 0 : *input_zero_point); }
    __device__ int weight(W w, long long channel) const {
        return w - (filter_zero_point == nullptr ? 0 : filter_zero_point[channel * filter_zero_point_stride]);
    }

    __device__ int input_zero() const { return -pixel(0); }
    __device__ int filter_zero(long long channel) const { return -weight(0, channel); }

    __device__ unsigned padding() const { return static_cast<unsigned char>(input_zero()) * 0x01010101u; }
    template <class Sums>
    __device__ Sums sums() const {
        return {filter_zero_point != nullptr, input_zero() != 0};
    }
    __device__ ZeroPoints<Differences> zeros(long long first, long long end) const { return {*this, first, end}; }
};

template <class X, class W>
struct Integers : Differences<X, W> {
    using Output = int;

    __device__ int result(long long sum, long long) const { return static_cast<int>(sum); }
};

template <class X, class W, class Y>
struct Quantized : Differences<X, W> {
    using Output = Y;

    int const* bias;                 // absent: 0
    long long bias_stride;
    float const* input_scale;
    float const* filter_scale;
    long long filter_scale_stride;   // between output channels
    float const* output_scale;
    Y const* output_zero_point;      // absent: 0

    __device__ Y result(long long sum, long long channel) const {
        double const biased = static_cast<double>(sum + (bias == nullptr ? 0 : bias[channel * bias_stride]));
        double const scaled = machine::rounded_product(biased, static_cast<double>(*input_scale));
        double const product = machine::rounded_product(scaled, static_cast<double>(filter_scale[channel * filter_scale_stride]));
        double const steps = rint(product / static_cast<double>(*output_scale));
        int const zero_point = output_zero_point == nullptr ? 0 : *output_zero_point;
        return stored<Y>((steps == steps ? steps : 0.0) + static_cast<double>(zero_point));
    }
};
