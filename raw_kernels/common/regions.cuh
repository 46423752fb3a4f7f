// Regions of interest: where their samples lie, and the images there.
#pragma once

/// The images and their regions, for every kernel on samples of regions.
template <class T>
struct Regions {
    T const* images;              // absent if not needed
    T const* corners;             // x1, y1, x2, y2 of each region
    void const* batches;          // 32 or 64 bits each
    Sampling sampling;
    double scales[2];             // of y and of x
    long long outputs[2];         // rows and columns of the output
    long long sizes[2];           // of an image
    long long steps[2];           // from one row of an image to the next, and from one column
    long long image_stride;       // from one image to the next
    long long channel_stride;     // from one channel to the next
    long long region_stride;      // from one region to the next
    long long corner_stride;      // from one number of a region to the next
    long long batch_stride;       // from one batch index to the next
    long long image_count;
    int wide_batches;             // not 0: 64 bits

    /// The number of a region's image; an index beyond is the last one's.
    __device__ long long image_of(long long region) const {
        long long const place = region * batch_stride;
        unsigned long long const batch =
            wide_batches ? static_cast<unsigned long long const*>(batches)[place] : static_cast<unsigned const*>(batches)[place];
        long long const last = image_count - 1;
        return batch < static_cast<unsigned long long>(last) ? static_cast<long long>(batch) : last;
    }

    __device__ Samples rows(long long region) const { return {sampling, corner(region, 1), corner(region, 3), outputs[0], sizes[0]}; }

    __device__ Samples columns(long long region) const { return {sampling, corner(region, 0), corner(region, 2), outputs[1], sizes[1]}; }

    __device__ T const* image(long long number, long long channel) const { return images + number * image_stride + channel * channel_stride; }

  private:
    __device__ double corner(long long region, int at) const {
        return static_cast<double>(machine::to_float(corners[region * region_stride + at * corner_stride])) * scales[1 - at % 2];
    }
};

/// The image at a sample.
template <class T>
__device__ __forceinline__ float interpolated(T const* image, long long const (&steps)[2], Sample const& y, Sample const& x) {
    auto const along = [&](long long row) {
        T const* const line = image + row * steps[0];
        float const left = machine::to_float(line[x.lower * steps[1]]);
        return x.share == 0.0f ? left : left * (1.0f - x.share) + machine::to_float(line[x.upper * steps[1]]) * x.share;
    };
    float const above = along(y.lower);
    return y.share == 0.0f ? above : above * (1.0f - y.share) + along(y.upper) * y.share;
}
