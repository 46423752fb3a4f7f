// The gradients of samples of regions of interest, for the images and for the regions.
//
//   choose_samples      the first largest sample of each output element, of a maximum
//   image_gradient      dx[b, c, y, x] = sum of weight * dy over the samples of the regions of image b that read the pixel
//   corner_gradient     dcorner[r] = sum of slope * dy * the sample's distance from the other corner * the scale
//
// A mean passes an equal share to each sample, a maximum all to one. The share of samples outside the image is dropped; they are 0 if
// a maximum is chosen.
//
// choose_samples: one thread owns an output element. image_gradient: one thread owns a pixel and visits all regions, so sums have a fixed
// order and nothing is added to memory. corner_gradient: a block owns a region; its threads take output elements in turn, and their sums
// are added in a fixed order. Grids are one-dimensional, of any size; blocks share nothing. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"
#include "common/samples.cuh"
#include "common/regions.cuh"

constexpr int most_threads = 256;
constexpr unsigned long long no_sample = ~0ull;

template <class T>
struct ChooseSamplesParameters {
    unsigned long long* winners;   // packed as the output: a sample's number among those of its element, or no_sample
    Regions<T> regions;
    Axes<5> axes;                  // of the winners; the numbers of the region, of the channel, and of the element along y and x
    unsigned long long count;      // elements of the output
};

template <class T>
__global__ void choose_samples(const __grid_constant__ ChooseSamplesParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<5> const places = locate_far(parameters.axes, number);
        Regions<T> const& regions = parameters.regions;
        Samples const rows = regions.rows(places.of[1]);
        Samples const columns = regions.columns(places.of[1]);
        T const* const image = regions.image(regions.image_of(places.of[1]), places.of[2]);
        float largest = 0.0f;
        long long inside = 0;
        unsigned long long winner = no_sample;
#pragma unroll 1
        for (long long i = rows.begin(places.of[3]); i < rows.end(places.of[3]); ++i) {
            Sample const y = rows.at(i);
#pragma unroll 1
            for (long long j = columns.begin(places.of[4]); y.inside && j < columns.end(places.of[4]); ++j) {
                Sample const x = columns.at(j);
                if (x.inside) {
                    float const value = interpolated(image, regions.steps, y, x);
                    if (inside == 0 || value > largest || (value != value && largest == largest)) {
                        largest = value;
                        winner = rows.own(i) * columns.per_output + columns.own(j);
                    }
                    ++inside;
                }
            }
        }
        double const total = static_cast<double>(rows.per_output) * static_cast<double>(columns.per_output);
        bool const beaten = static_cast<double>(inside) < total && largest < 0.0f;
        parameters.winners[places.of[0]] = beaten ? no_sample : winner;
    }
}

/// The gradients of samples.
template <class T>
struct Incoming {
    T const* gradient;                   // dy
    unsigned long long const* winners;   // of a maximum, packed; else absent
    long long strides[4];                // of dy: region, channel, y, x
    long long winner_strides[4];
    long long channels;
};

/// A sample's share of its output element's gradient.
template <class T>
__device__ __forceinline__ float passed(Incoming<T> const& incoming, Samples const& rows, Samples const& columns, long long region,
                                        long long channel, long long i, long long j) {
    long long const y = rows.owner(i);
    long long const x = columns.owner(j);
    auto const place = [&](long long const (&strides)[4]) {
        return region * strides[0] + channel * strides[1] + y * strides[2] + x * strides[3];
    };
    float const gradient = machine::to_float(incoming.gradient[place(incoming.strides)]);
    if (incoming.winners == nullptr) {
        return gradient / static_cast<float>(static_cast<double>(rows.per_output) * static_cast<double>(columns.per_output));
    }
    unsigned long long const number = rows.own(i) * columns.per_output + columns.own(j);
    return incoming.winners[place(incoming.winner_strides)] == number ? gradient : 0.0f;
}

/// The weight of a pixel in a sample.
__device__ __forceinline__ float weight(Sample const& sample, long long pixel) {
    if (!sample.inside) {
        return 0.0f;
    }
    return (sample.lower == pixel ? 1.0f - sample.share : 0.0f) + (sample.upper == pixel ? sample.share : 0.0f);
}

template <class T>
struct ImageGradientParameters {
    T* output;                    // dx
    Regions<T> regions;
    Incoming<T> incoming;
    Axes<5> axes;                 // of dx; the numbers of the image, of the channel, of the row and of the column
    long long region_count;
    unsigned long long count;     // elements of dx
};

template <class T>
__global__ void image_gradient(const __grid_constant__ ImageGradientParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<5> const places = locate_far(parameters.axes, number);
        Regions<T> const& regions = parameters.regions;
        long long const row = places.of[3];
        long long const column = places.of[4];
        LongSum sum;
#pragma unroll 1
        for (long long region = 0; region < parameters.region_count; ++region) {
            if (regions.image_of(region) != places.of[1]) {
                continue;
            }
            Samples const rows = regions.rows(region);
            Samples const columns = regions.columns(region);
            long long const last_row = rows.first_reader(row, true);
            long long const first_column = columns.first_reader(column, false);
            long long const last_column = columns.first_reader(column, true);
#pragma unroll 1
            for (long long i = rows.first_reader(row, false); i < last_row; ++i) {
                float const down = weight(rows.at(i), row);
#pragma unroll 1
                for (long long j = first_column; down != 0.0f && j < last_column; ++j) {
                    float const across = weight(columns.at(j), column);
                    if (across != 0.0f) {
                        sum.add(down * across * passed(parameters.incoming, rows, columns, region, places.of[2], i, j));
                    }
                }
            }
        }
        parameters.output[places.of[0]] = machine::from_float<T>(sum.result());
    }
}

template <class T>
struct CornerGradientParameters {
    T* output;                  // of each region's corners
    Regions<T> regions;
    Incoming<T> incoming;
    long long strides[2];       // of the output: from one region to the next, from one corner to the next
    long long region_count;
};

/// How the image changes at a sample from one row to the next and from one column to the next.
template <class T>
__device__ __forceinline__ void slopes(T const* image, long long const (&steps)[2], Sample const& y, Sample const& x, float (&found)[2]) {
    auto const pixel = [&](long long row, long long column) { return machine::to_float(image[row * steps[0] + column * steps[1]]); };
    float const upper_left = pixel(y.lower, x.lower);
    float const upper_right = pixel(y.lower, x.upper);
    float const lower_left = pixel(y.upper, x.lower);
    float const lower_right = pixel(y.upper, x.upper);
    found[0] = y.moving ? (lower_left - upper_left) * (1.0f - x.share) + (lower_right - upper_right) * x.share : 0.0f;
    found[1] = x.moving ? (upper_right - upper_left) * (1.0f - y.share) + (lower_right - lower_left) * y.share : 0.0f;
}

/// Blocks of a power of two threads, most_threads at the most.
template <class T>
__global__ void __launch_bounds__(most_threads, 1) corner_gradient(const __grid_constant__ CornerGradientParameters<T> parameters) {
    __shared__ float sums[4][most_threads];
    Regions<T> const& regions = parameters.regions;
    int const thread = threadIdx.x;
    int const threads = blockDim.x;
#pragma unroll 1
    for (long long region = blockIdx.x; region < parameters.region_count; region += gridDim.x) {
        Samples const rows = regions.rows(region);
        Samples const columns = regions.columns(region);
        long long const image = regions.image_of(region);
        long long const area = regions.outputs[0] * regions.outputs[1];
        LongSum own[4];
#pragma unroll 1
        for (long long number = thread; number < parameters.incoming.channels * area; number += threads) {
            long long const channel = quotient(number, area);
            long long const row = quotient(number - channel * area, regions.outputs[1]);
            long long const column = number - channel * area - row * regions.outputs[1];
            T const* const pixels = regions.image(image, channel);
#pragma unroll 1
            for (long long i = rows.begin(row); i < rows.end(row); ++i) {
                Sample const y = rows.at(i);
                float const down = static_cast<float>(rows.fraction(i));
#pragma unroll 1
                for (long long j = columns.begin(column); y.inside && j < columns.end(column); ++j) {
                    Sample const x = columns.at(j);
                    if (!x.inside) {
                        continue;
                    }
                    float const across = static_cast<float>(columns.fraction(j));
                    float const gradient = passed(parameters.incoming, rows, columns, region, channel, i, j);
                    float slope[2];
                    slopes(pixels, regions.steps, y, x, slope);
                    own[0].add(gradient * slope[1] * (1.0f - across));
                    own[1].add(gradient * slope[0] * (1.0f - down));
                    own[2].add(gradient * slope[1] * across);
                    own[3].add(gradient * slope[0] * down);
                }
            }
        }
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
            sums[corner][thread] = own[corner].result();
        }
        __syncthreads();
#pragma unroll 1
        for (int half = threads / 2; half > 0; half /= 2) {
            if (thread < half) {
#pragma unroll
                for (int corner = 0; corner < 4; ++corner) {
                    sums[corner][thread] += sums[corner][thread + half];
                }
            }
            __syncthreads();
        }
        if (thread < 4) {
            float const scaled = sums[thread][0] * static_cast<float>(regions.scales[1 - thread % 2]);
            parameters.output[region * parameters.strides[0] + thread * parameters.strides[1]] = machine::from_float<T>(scaled);
        }
        __syncthreads();
    }
}
