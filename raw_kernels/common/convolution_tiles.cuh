// `convolve_tiles`: a convolution as an implicit product of matrices: the matrix of pixels is never stored.
//
// The filter's rows are the output channels of a group, the columns are pixels. Terms run over the taps, and over the channels of each tap:
// the place of a pixel's element is computed once for a tap, and if channels are contiguous (channels last) 16 bytes of them are loaded
// at once; else neighbouring threads read neighbouring pixels. The filter is read in this order too, if necessary from a copy that the host
// had made before.
#pragma once

/// The element of x that a tap reads for a pixel at `at` along the axes: sets `place`, and returns whether there is one.
template <bool backward>
__device__ __forceinline__ bool meet(Reduction const& reduction, bool flipped, unsigned const (&taps)[3], unsigned const (&at)[3],
                                     long long& place) {
    bool met = true;
    place = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        Window const& window = reduction.windows[axis];
        long long const element = met_along<backward>(window, at[axis], flipped ? window.length - 1 - taps[axis] : taps[axis]);
        met = met && element >= 0;
        place += element * reduction.input_strides[1 + axis];
    }
    return met;
}

/// Advances by a tap. Past the last one the first index is its length.
__device__ __forceinline__ void next_tap(Reduction const& reduction, unsigned (&taps)[3]) {
    bool carry = true;
#pragma unroll
    for (int axis = 2; axis > 0; --axis) {
        taps[axis] += carry;
        carry = taps[axis] == reduction.lengths[1 + axis];
        taps[axis] = carry ? 0 : taps[axis];
    }
    taps[0] += carry;
}

/// A pixel of a tile: whether there is one, the first channel of its group in x, and where its window is.
template <class Raw>
struct Pixel {
    bool is;
    Raw const* image;
    unsigned at[3];
};

/// The pixels of a tile as an operand. `wide`: a thread loads 16 bytes of channels of two pixels; otherwise, half of the terms of one.
template <class Raw, bool backward>
class PixelLines {
    static constexpr int in_word = 4 / sizeof(Raw);
    static constexpr int in_quad = 4 * in_word;
    static constexpr int piece_terms = line_words * in_word;
    static constexpr int run = own_words * in_word;          // terms of a thread if they are loaded one by one
    static constexpr int at_once = 4;                        // of these, where taps change

  public:
    /// `find(number)` is the tile's pixel of a number.
    template <class Find>
    __device__ PixelLines(Reduction const& reduction, bool flipped, bool wide, unsigned padding, unsigned flip, Find const& find)
        : reduction_(reduction), flipped_(flipped), wide_(wide), padding_(padding), flip_(flip), taps_{} {
        int const thread = static_cast<int>(threadIdx.x);
        first_ = wide ? thread % 4 * in_quad : thread / tile_side * run;
        pixels_[0] = find(wide ? thread / 4 : thread % tile_side);
        pixels_[1] = wide ? find(thread / 4 + tile_threads / 4) : Pixel<Raw>{false, pixels_[0].image, {}};
        channel_ = first_;
        settle();
        locate();
    }

    /// Pieces are loaded in order.
    __device__ __forceinline__ void load(long long first, long long terms) {
        long long const left = terms - first - first_;
        if (wide_) {
            clear<own_words>(left > 0);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (left > 0 && met_[i]) {
                    auto const quad = *reinterpret_cast<Vector4<unsigned> const*>(pixels_[i].image + place_[i] + channel_);
#pragma unroll
                    for (int w = 0; w < 4; ++w) {
                        loaded_[4 * i + w] = quad.values[w];
                    }
                }
            }
            move(piece_terms);
            return;
        }
        if (channel_ + run <= reduction_.lengths[0] && left >= run) {
            clear<run>(true);
            if (met_[0]) {
                long long const stride = reduction_.input_strides[0];
                Raw const* const from = pixels_[0].image + place_[0] + channel_ * stride;
#pragma unroll
                for (int i = 0; i < run; ++i) {
                    loaded_[i] = from[i * stride];
                }
            }
            move(run);
        } else {
            bring_across_taps(left);
        }
        move(piece_terms - run);
    }

    __device__ __forceinline__ void store(unsigned* staged) const {
        int const thread = static_cast<int>(threadIdx.x);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            Vector4<unsigned> quad;
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                quad.values[w] = (wide_ ? loaded_[4 * i + w] : single_word(4 * i + w)) ^ flip_;
            }
            int const line = wide_ ? thread / 4 + i * (tile_threads / 4) : thread % tile_side;
            int const own_quad = wide_ ? thread % 4 : thread / tile_side * 2 + i;
            *reinterpret_cast<Vector4<unsigned>*>(staged + word_place(line, own_quad * 4)) = quad;
        }
    }

  private:
    /// The value that `store` converts to padding, or to zeros past the last term.
    __device__ __forceinline__ unsigned nothing(bool is_term) const {
        return is_term ? padding_ ^ flip_ : flip_;
    }

    template <int count>
    __device__ __forceinline__ void clear(bool is_term) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            loaded_[i] = nothing(is_term);
        }
    }

    /// A word of terms that were loaded one by one.
    __device__ __forceinline__ unsigned single_word(int number) const {
        unsigned word = 0;
#pragma unroll
        for (int e = 0; e < in_word; ++e) {
            word |= static_cast<unsigned>(static_cast<Raw>(loaded_[number * in_word + e])) << e * 8 * sizeof(Raw);
        }
        return word;
    }

    /// Loads terms that belong to several taps, or end before the piece does. It waits for them.
    __device__ __forceinline__ void bring_across_taps(long long left) {
#pragma unroll 1
        for (int number = 0; number < run; number += at_once) {
            Raw const* from[at_once];
            unsigned elements[at_once];
#pragma unroll
            for (int e = 0; e < at_once; ++e) {
                from[e] = met_[0] && number + e < left ? pixels_[0].image + place_[0] + channel_ * reduction_.input_strides[0] : nullptr;
                elements[e] = nothing(number + e < left);
                move(1);
            }
#pragma unroll
            for (int e = 0; e < at_once; ++e) {
                if (from[e] != nullptr) {
                    elements[e] = *from[e];
                }
            }
            append(loaded_, elements);
        }
    }

    __device__ __forceinline__ void move(int terms) {
        channel_ += terms;
        if (channel_ >= reduction_.lengths[0]) {
            settle();
            locate();
        }
    }

    /// Finds the tap of a channel that may be past the last one.
    __device__ __forceinline__ void settle() {
#pragma unroll 1
        while (channel_ >= reduction_.lengths[0] && taps_[0] < reduction_.lengths[1]) {
            channel_ -= reduction_.lengths[0];
            next_tap(reduction_, taps_);
        }
    }

    __device__ __forceinline__ void locate() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (i == 0 || wide_) {
                met_[i] = meet<backward>(reduction_, flipped_, taps_, pixels_[i].at, place_[i]) && pixels_[i].is;
            }
        }
    }

    Reduction const& reduction_;
    bool flipped_;
    bool wide_;
    unsigned padding_;
    unsigned flip_;
    int first_;              // of a piece's terms, this thread's
    Pixel<Raw> pixels_[2];
    long long channel_;      // of the term that comes next
    unsigned taps_[3];
    long long place_[2];     // of its tap
    bool met_[2];
    unsigned loaded_[run];   // of the last piece: words if wide, else single elements, combined with nothing yet
};

/// A filter in which infinities and NaN are detected.
template <class Raw>
class WatchedLines : public MatrixLines<Raw> {
  public:
    using MatrixLines<Raw>::MatrixLines;

    __device__ __forceinline__ void store(unsigned* staged) {
        constexpr unsigned exponent = sizeof(Raw) == 2 ? 0x7c00u : 0x7f800000u;
        this->for_each_word([&](unsigned word) {
            odd_ = odd_ || (word & exponent) == exponent || (sizeof(Raw) == 2 && (word >> 16 & exponent) == exponent);
        });
        MatrixLines<Raw>::store(staged);
    }

    __device__ bool odd() const { return odd_; }

  private:
    bool odd_ = false;
};

template <class Arithmetic>
struct TilesParameters {
    typename Arithmetic::Input const* input;      // any strides
    typename Arithmetic::Filter const* filter;    // [groups][channels of y][taps][channels of x], terms with one stride
    typename Arithmetic::Output* output;          // any strides
    Arithmetic arithmetic;
    Reduction reduction;
    Axes<5> axes;                    // batch and spatial dimensions of y: places in y and x, and where windows are along each dimension
    unsigned long long pixels;       // entries of the axes
    unsigned long long pixel_tiles;
    unsigned long long channel_tiles;    // of one group
    unsigned long long tiles;            // in all
    long long group_channels;            // of y
    long long group_strides[3];          // of y, x and the filter
    long long channel_strides[2];        // of y and the filter, between output channels of a group
    long long terms;                     // of a sum
    long long term_stride;               // of the filter
    Order filter_order;
    int wide;                            // whether channels of x are loaded 16 bytes at a time
    int flipped;                         // whether the filter's taps are in the opposite order
};

/// The sum of a pixel, term by term, over the terms whose tap reads an element.
template <bool backward, class Arithmetic, class Raw>
__device__ __forceinline__ float sum_of_met(TilesParameters<Arithmetic> const& parameters, Pixel<Raw> const& pixel,
                                            typename Arithmetic::Filter const* filter) {
    Reduction const& reduction = parameters.reduction;
    auto const* const image = reinterpret_cast<typename Arithmetic::Input const*>(pixel.image);
    typename Arithmetic::Sum sum;
    unsigned taps[3] = {};
    long long place, term = 0;
#pragma unroll 1
    for (; taps[0] < reduction.lengths[1]; next_tap(reduction, taps)) {
        bool const met = meet<backward>(reduction, parameters.flipped != 0, taps, pixel.at, place);
#pragma unroll 1
        for (long long channel = 0; channel < reduction.lengths[0]; ++channel, ++term) {
            if (met) {
                auto const x = parameters.arithmetic.pixel(image[place + channel * reduction.input_strides[0]]);
                sum.add(x * parameters.arithmetic.weight(filter[term * parameters.term_stride], 0));
            }
        }
    }
    return sum.result();
}

/// A block computes tiles of output channels and pixels.
template <class Arithmetic, bool backward>
__global__ void __launch_bounds__(tile_threads, 2) convolve_tiles(const __grid_constant__ TilesParameters<Arithmetic> parameters) {
    using Raw = typename Arithmetic::Sums::Raw;
    // Backward, a tap that reads no element must add nothing, but 0 times an infinite weight is NaN.
    constexpr bool watched = backward && is_floating<typename Arithmetic::Input>;
    __shared__ long long places[tile_side];
    __shared__ unsigned odd[tile_threads / 32];   // which threads of each warp have such a weight
    Reduction const& reduction = parameters.reduction;
    Arithmetic const& arithmetic = parameters.arithmetic;
    int const thread = static_cast<int>(threadIdx.x);

#pragma unroll 1
    for (unsigned long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        unsigned long long const of_group = tile / parameters.pixel_tiles;
        unsigned long long const first_pixel = (tile - of_group * parameters.pixel_tiles) * tile_side;
        long long const group = static_cast<long long>(of_group / parameters.channel_tiles);
        long long const channel = static_cast<long long>(of_group % parameters.channel_tiles) * tile_side;
        long long const first_of_group = group * parameters.group_channels;
        Raw const* const image = reinterpret_cast<Raw const*>(parameters.input) + group * parameters.group_strides[1];
        auto const* const filter = parameters.filter + group * parameters.group_strides[2] + channel * parameters.channel_strides[1];
        auto const find = [&](int number) -> Pixel<Raw> {
            unsigned long long const pixel = first_pixel + number;
            if (pixel >= parameters.pixels) {
                return {false, image, {0, 0, 0}};
            }
            Places<5> const found = locate_far(parameters.axes, pixel);
            return {true,
                    image + found.of[1],
                    {static_cast<unsigned>(found.of[2]), static_cast<unsigned>(found.of[3]), static_cast<unsigned>(found.of[4])}};
        };
        if (thread < tile_side) {
            unsigned long long const pixel = first_pixel + thread;
            bool const is = pixel < parameters.pixels;
            places[thread] = is ? locate_far(parameters.axes, pixel).of[0] + group * parameters.group_strides[0] : -1;
        }
        auto const store = [&](int row, int column, auto sum) {
            long long const m = channel + row, place = places[column];
            if (m < parameters.group_channels && place >= 0) {
                parameters.output[place + m * parameters.channel_strides[0]] = arithmetic.result(sum, first_of_group + m);
            }
        };

        typename Arithmetic::Sums sums = arithmetic.sums();
        Choice<watched, WatchedLines<Raw>, MatrixLines<Raw>> rows(filter, parameters.channel_strides[1], parameters.term_stride,
                                                                   parameters.group_channels - channel, parameters.filter_order,
                                                                   Arithmetic::filter_flip);
        PixelLines<Raw, backward> columns(reduction, parameters.flipped != 0, parameters.wide != 0, arithmetic.padding(),
                                          Arithmetic::input_flip, find);
        sum_tile(sums, rows, columns, parameters.terms, arithmetic.zeros(first_of_group + channel, first_of_group + parameters.group_channels));
        if constexpr (watched) {
            unsigned const of_warp = machine::ballot(rows.odd());
            if (thread % 32 == 0) {
                odd[thread / 32] = of_warp;
            }
            __syncthreads();
            unsigned any = 0;
#pragma unroll
            for (int warp = 0; warp < tile_threads / 32; ++warp) {
                any |= odd[warp];
            }
            if (any != 0) {
#pragma unroll 1
                for (int number = thread; number < tile_side * tile_side; number += tile_threads) {
                    int const row = number / tile_side, column = number % tile_side;
                    if (channel + row < parameters.group_channels && places[column] >= 0) {
                        store(row, column, sum_of_met<backward>(parameters, find(column), filter + row * parameters.channel_strides[1]));
                    }
                }
                __syncthreads();
                continue;
            }
        }
        sums.for_each(store);
        __syncthreads();   // before the places of the next tile
    }
}
