// Samples of regions of interest, reduced to their mean or their maximum.
//
//   y[r, c, oy, ox] = mean or max over the samples of output element (oy, ox) of region r, interpolated in the image x[batches[r], c]
//
// A region is a row of corners x1, y1, x2, y2. Samples that lie outside the image have one value; there may be very many, so they are
// counted and not visited. A batch index past the last image means the last one.
//
// One thread owns an element of the output. Interpolation and sums are float, in the order of the samples. The grid is one-dimensional, of
// any size. No block shares anything with another. The output overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"
#include "common/samples.cuh"
#include "common/regions.cuh"

struct Mean {};
struct Maximum {};

template <class T>
struct AlignParameters {
    T* output;
    Regions<T> regions;
    Axes<5> axes;                 // the output's; the numbers of the region, of the channel, and of the element along y and x
    unsigned long long count;     // elements of the output
    float outside;                // the value of a sample outside the image
};

template <class T, class Reduction>
__global__ void align(const __grid_constant__ AlignParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<5> const places = locate_far(parameters.axes, number);
        Regions<T> const& regions = parameters.regions;
        Samples const rows = regions.rows(places.of[1]);
        Samples const columns = regions.columns(places.of[1]);
        T const* const image = regions.image(regions.image_of(places.of[1]), places.of[2]);
        LongSum sum;
        float largest = 0.0f;
        long long inside = 0;
#pragma unroll 1
        for (long long i = rows.begin(places.of[3]); i < rows.end(places.of[3]); ++i) {
            Sample const y = rows.at(i);
#pragma unroll 1
            for (long long j = columns.begin(places.of[4]); y.inside && j < columns.end(places.of[4]); ++j) {
                Sample const x = columns.at(j);
                if (x.inside) {
                    float const value = interpolated(image, regions.steps, y, x);
                    sum.add(value);
                    largest = inside == 0 || value > largest || value != value ? value : largest;
                    ++inside;
                }
            }
        }
        double const total = static_cast<double>(rows.per_output) * static_cast<double>(columns.per_output);
        bool const some_outside = static_cast<double>(inside) < total;
        float result;
        if constexpr (is_same<Reduction, Mean>) {
            float const rest = some_outside ? static_cast<float>(total - static_cast<double>(inside)) * parameters.outside : 0.0f;
            result = (sum.result() + rest) / static_cast<float>(total);
        } else {
            result = largest;
            if (some_outside && (inside == 0 || parameters.outside > largest || parameters.outside != parameters.outside)) {
                result = parameters.outside;
            }
        }
        parameters.output[places.of[0]] = machine::from_float<T>(result);
    }
}
