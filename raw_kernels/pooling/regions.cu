// Pooling of regions of interest: the largest pixel of each part of each region.
//
//   y[r, c, oy, ox] = max of x[batch, c] over the part (oy, ox) of region r, inside the image; 0 if it has no pixels
//
// A region is a row of the regions' tensor: the number of its image, and the corners x1, y1, x2, y2, which are scaled and rounded to whole
// pixels, halves away from 0; NaN counts as 0. Part o of W columns has those from floor(o * W / parts) up to ceil((o + 1) * W / parts).
//
// One thread owns an element of the output. The grid is one-dimensional, of any size. No block shares anything with another. The output
// overlaps nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/windows.cuh"

template <class T>
struct PoolRegionsParameters {
    T const* images;
    T const* regions;
    T* output;
    Axes<5> axes;                 // the output's; a channel's place in an image; a region's; the number of the part along rows and columns
    long long image_stride;       // from one image to the next
    long long steps[2];           // from one row of an image to the next, and from one column
    long long sizes[2];           // rows and columns of an image
    long long parts[2];           // along each
    long long corner_stride;      // from one number of a region to the next
    long long image_count;
    unsigned long long count;     // elements of the output
    float scale;                  // of the corners
};

/// The nearest whole number, halves away from 0, clamped to the largest image; 0 for NaN.
__device__ inline long long whole(float x) {
    constexpr float farthest = 2147483648.0f;
    if (x != x) {
        return 0;
    }
    long long const magnitude = static_cast<long long>(floor(static_cast<double>(fminf(fabsf(x), farthest)) + 0.5));
    return x < 0.0f ? -magnitude : magnitude;
}

/// The pixels of a part along one axis, of those inside the image.
struct Part {
    long long first;
    long long end;

    __device__ Part(long long first_pixel, long long last_pixel, long long part, long long parts, long long size) {
        long long const extent = max(last_pixel - first_pixel + 1, 1ll);
        first = min(max(first_pixel + quotient(part * extent, parts), 0ll), size);
        end = min(max(first_pixel + quotient((part + 1) * extent + parts - 1, parts), 0ll), size);
    }
};

template <class T>
__global__ void pool_regions(const __grid_constant__ PoolRegionsParameters<T> parameters) {
#pragma unroll 1
    for (unsigned long long number = first_element(); number < parameters.count; number += element_stride()) {
        Places<5> const places = locate_far(parameters.axes, number);
        T const* const region = parameters.regions + places.of[2];
        auto const corner = [&](int at) {
            return whole(machine::to_float(region[at * parameters.corner_stride]) * parameters.scale);
        };
        long long const batch = min(max(whole(machine::to_float(*region)), 0ll), parameters.image_count - 1);
        Part const rows(corner(2), corner(4), places.of[3], parameters.parts[0], parameters.sizes[0]);
        Part const columns(corner(1), corner(3), places.of[4], parameters.parts[1], parameters.sizes[1]);
        T const* const image = parameters.images + batch * parameters.image_stride + places.of[1];
        bool found = false;
        float largest = 0.0f;
#pragma unroll 1
        for (long long y = rows.first; y < rows.end; ++y) {
            for (long long x = columns.first; x < columns.end; ++x) {
                float const pixel = machine::to_float(image[y * parameters.steps[0] + x * parameters.steps[1]]);
                largest = !found || pixel > largest || pixel != pixel ? pixel : largest;
                found = true;
            }
        }
        parameters.output[places.of[0]] = machine::from_float<T>(largest);
    }
}
