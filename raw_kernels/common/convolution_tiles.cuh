// `convolve_tiles`: a convolution as an implicit product of matrices: the matrix of pixels is never stored.
//
// The rows of a tile are output channels of a group, the columns pixels. Terms run over the taps, and over the channels of each tap, 16
// bytes at a time: a chunk. Pieces of both operands, four chunks of each line, are copied to shared memory in three stages: two are under
// way while one is multiplied. Each thread copies one chunk column of some lines. Where a line's elements lie is found once for a tap; from
// there it moves on by a constant. Where channels do not lie side by side at multiples of 16 bytes, elements are read one by one, and
// chunks reach over taps.
//
// Backward, the pixels whose windows meet the same taps, those a stride apart along each axis, are a phase: a forward convolution by these
// taps, with stride 1. Only they are multiplied. Forward, there is one phase.
//
// Sums pass through shared memory, so that neighbouring threads have neighbouring pixels, and the function of a sum occurs a few times in
// the code.
#pragma once

/// A spatial dimension.
struct Slide {
    long long output_stride;
    int input_stride;
    int filter_stride;         // negative where the filter is flipped
    int size;                  // elements of x
    int positions;             // of y
    int taps;                  // of the window
    int start;                 // padding before the first element of x; backward, of y
    int dilation;              // from one tap to the next
    int phases;                // 1; backward, the stride
    int tap_step;              // from one tap of a phase to the next
    int element_step;          // elements of x from one of these taps to the next
};

/// The taps of a phase along an axis: so many from the first one on, which reads the element `first` of x at position 0.
struct PhaseTaps {
    int count;
    int tap;
    int first;
};

__device__ inline PhaseTaps taps_of_phase(Slide const& slide, bool backward, int phase) {
    if (!backward) {
        return {slide.taps, 0, -slide.start};
    }
    int const last = min(slide.taps, slide.tap_step);
#pragma unroll 1
    for (int tap = 0; tap < last; ++tap) {
        int const distance = phase + slide.start - tap * slide.dilation;
        if (distance % slide.phases == 0) {
            return {(slide.taps - 1 - tap) / slide.tap_step + 1, tap, distance / slide.phases};
        }
    }
    return {0, 0, 0};
}

/// A pixel of a tile: where its window is, and its places in x and in y, below 0 if there is none.
struct alignas(16) TilePixel {
    int at[3];
    int unused;
    long long image;
    long long output;
};

/// An element of x along an axis that is none, at any tap.
constexpr int far_away = -(1 << 30);

template <class Arithmetic>
struct TilesParameters {
    typename Arithmetic::Input const* input;      // any strides
    typename Arithmetic::Filter const* filter;    // any strides
    typename Arithmetic::Output* output;          // any strides
    Arithmetic arithmetic;
    Slide slides[3];
    Axes<5> axes;                        // batch and spatial dimensions of a phase: places in y and x, and where windows are
    unsigned long long pixels;           // entries of the axes
    unsigned long long pixel_tiles;      // of a phase and group
    unsigned long long channel_tiles;    // of a group
    unsigned long long tiles;            // in all
    long long group_strides[3];          // of y, x and the filter
    long long channel_strides[3];        // of y, x and the filter, between input channels of the latter two
    long long line_stride;               // of the filter, between output channels
    int group_channels;                  // of y
    int channels;                        // of x, in a group
    int terms_of_tap;                    // the same; of whole chunks where these are copied at once
    int wide;                            // whether 16 bytes of channels are copied at once
    int wide_output;                     // whether so many bytes of y's channels are stored at once
    int backward;
};

/// Advances by a tap. Past the last one the first index is its count.
__device__ __forceinline__ void next_tap(PhaseTaps const* of_phase, int (&taps)[3]) {
    bool carry = true;
#pragma unroll
    for (int axis = 2; axis > 0; --axis) {
        taps[axis] += carry;
        carry = taps[axis] == of_phase[axis].count;
        taps[axis] = carry ? 0 : taps[axis];
    }
    taps[0] += carry;
}

/// The place of the element of x that a tap reads for a pixel; returns whether there is one.
__device__ __forceinline__ bool meet(Slide const (&slides)[3], PhaseTaps const* of_phase, int const (&taps)[3], int const* at, int& place) {
    bool met = true;
    unsigned sum = 0;   // which may wrap around where there is none
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        unsigned const element = at[axis] + (of_phase[axis].first + taps[axis] * slides[axis].element_step);
        met = met && element < static_cast<unsigned>(slides[axis].size);
        sum += element * slides[axis].input_stride;
    }
    place = static_cast<int>(sum);
    return met;
}

__device__ __forceinline__ int filter_place(Slide const (&slides)[3], PhaseTaps const* of_phase, int const (&taps)[3]) {
    int place = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        place += (of_phase[axis].tap + taps[axis] * slides[axis].tap_step) * slides[axis].filter_stride;
    }
    return place;
}

/// Copies the pieces of a tile, in order.
template <class Arithmetic, int rows, int columns>
class Copier {
    using Raw = typename Arithmetic::Raw;
    using Parameters = TilesParameters<Arithmetic>;
    static constexpr int in_chunk = 16 / sizeof(Raw);
    static constexpr int chunks = line_words / 4;                    // of a line of a piece
    static constexpr int across = tile_threads / chunks;             // lines that are copied together
    static constexpr int row_copies = rows / across;                 // of a thread
    static constexpr int pixel_copies = columns / across;
    static constexpr int piece_terms = chunks * in_chunk;

  public:
    /// `filter`: of the first output channel of the tile, of which there are `lines` from there on. `pixels` and the taps `of_phase` are in
    /// shared memory.
    __device__ __forceinline__ Copier(Parameters const& parameters, Raw const* image, Raw const* filter, int lines,
                                      TilePixel const* pixels, PhaseTaps const* of_phase)
        : parameters_(parameters), image_(image), filter_(filter), pixels_(pixels), of_phase_(of_phase),
          of_tap_(parameters.terms_of_tap) {
        // Neighbouring threads have neighbouring chunks where these are copied at once, else neighbouring pixels.
        int const thread = static_cast<int>(threadIdx.x);
        bool const wide = parameters.wide != 0;
        line_ = wide ? thread / chunks : thread % across;
        channel_ = (wide ? thread % chunks : thread / across) * in_chunk;
        lines_ = lines - line_;
        place_ = word_place(line_, channel_ / in_chunk * 4);
        settle();
        find();
    }

    /// Begins to copy the next piece.
    __device__ __forceinline__ void copy(unsigned* row_piece, unsigned* column_piece) {
        if (parameters_.wide == 0) {
            copy_elements(row_piece, column_piece);
            channel_ += piece_terms - in_chunk;
            settle();
            return;
        }
        int const left = end_ - channel_;
        Raw const* from = from_filter_;
#pragma unroll
        for (int i = 0; i < row_copies; ++i) {
            machine::copy_async(row_piece + place_ + i * across * line_words, from, left > 0 && i * across < lines_);
            from += across * parameters_.line_stride;
        }
#pragma unroll
        for (int i = 0; i < pixel_copies; ++i) {
            unsigned* const to = column_piece + place_ + i * across * line_words;
            bool const met = left > 0 && (met_ >> i & 1) != 0;
            if (Arithmetic::has_padding && !met) {
                pad(to, left);
            } else {
                machine::copy_async(to, from_pixels_[i], met);
            }
        }
        channel_ += piece_terms;
        if (channel_ >= end_) {
            settle();
            find();
        } else {
            from_filter_ += piece_terms;
#pragma unroll
            for (int i = 0; i < pixel_copies; ++i) {
                from_pixels_[i] += piece_terms;
            }
        }
    }

  private:
    /// Copies a piece of single elements: those of the lines together, before the next ones.
    __device__ __forceinline__ void copy_elements(unsigned* row_piece, unsigned* column_piece) {
#pragma unroll 1
        for (int e = 0; e < in_chunk; ++e) {
            bool const exists = channel_ < end_;
            long long const of_term = filter_place(parameters_.slides, of_phase_, taps_) + channel_ * parameters_.channel_strides[2];
            Raw const* const from = filter_ + of_term + line_ * parameters_.line_stride;
            Raw weights[row_copies], elements[pixel_copies];
#pragma unroll
            for (int i = 0; i < row_copies; ++i) {
                weights[i] = exists && i * across < lines_ ? from[i * across * parameters_.line_stride] : Raw(0);
            }
#pragma unroll
            for (int i = 0; i < pixel_copies; ++i) {
                TilePixel const& pixel = pixels_[line_ + i * across];
                int place;
                bool const met = meet(parameters_.slides, of_phase_, taps_, pixel.at, place);
                elements[i] = exists ? static_cast<Raw>(parameters_.arithmetic.padding()) : Raw(0);
                if (exists && met) {
                    elements[i] = image_[pixel.image + place + channel_ * parameters_.channel_strides[1]];
                }
            }
#pragma unroll
            for (int i = 0; i < row_copies; ++i) {
                reinterpret_cast<Raw*>(row_piece + place_ + i * across * line_words)[e] = weights[i];
            }
#pragma unroll
            for (int i = 0; i < pixel_copies; ++i) {
                reinterpret_cast<Raw*>(column_piece + place_ + i * across * line_words)[e] = elements[i];
            }
            ++channel_;
            settle();
        }
    }

    /// A chunk of padding, of `left` elements or of as many as it has; zeros follow.
    __device__ __forceinline__ void pad(unsigned* to, int left) const {
        unsigned const padding = parameters_.arithmetic.padding();
        Vector4<unsigned> words;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            int const own = (left - w * in_chunk / 4) * static_cast<int>(sizeof(Raw));
            words.values[w] = own <= 0 ? 0 : own >= 4 ? padding : padding & ((1u << own * 8) - 1);
        }
        *reinterpret_cast<Vector4<unsigned>*>(to) = words;
    }

    /// Finds the tap of a channel that may be past the last one.
    __device__ __forceinline__ void settle() {
#pragma unroll 1
        while (channel_ >= of_tap_ && taps_[0] < of_phase_[0].count) {
            channel_ -= of_tap_;
            next_tap(of_phase_, taps_);
        }
        end_ = taps_[0] < of_phase_[0].count ? parameters_.channels : 0;
    }

    /// Finds the elements of the lines at the tap.
    __device__ __forceinline__ void find() {
        from_filter_ = filter_ + (line_ * parameters_.line_stride + (filter_place(parameters_.slides, of_phase_, taps_) + channel_));
        met_ = 0;
#pragma unroll
        for (int i = 0; i < pixel_copies; ++i) {
            TilePixel const& pixel = pixels_[line_ + i * across];
            int place;
            met_ |= static_cast<unsigned>(meet(parameters_.slides, of_phase_, taps_, pixel.at, place)) << i;
            from_pixels_[i] = image_ + (pixel.image + (place + channel_));
        }
    }

    Parameters const& parameters_;
    Raw const* image_;
    Raw const* filter_;
    TilePixel const* pixels_;
    PhaseTaps const* of_phase_;
    int of_tap_;                     // terms
    int line_;                       // the first of the thread's lines
    int lines_;                      // of the filter from there on
    int place_;                      // of its chunk in a piece
    int channel_;                    // of the next chunk
    int end_;                        // of the channels: 0 past the last tap
    int taps_[3] = {};
    unsigned met_;                   // a bit for each of the thread's pixels whose tap reads an element
    Raw const* from_filter_;
    Raw const* from_pixels_[pixel_copies];
};

/// The sum of a pixel, term by term, over the terms whose tap reads an element.
template <class Arithmetic>
__device__ __forceinline__ float sum_of_met(TilesParameters<Arithmetic> const& parameters, PhaseTaps const* of_phase,
                                            TilePixel const& pixel, typename Arithmetic::Input const* image,
                                            typename Arithmetic::Filter const* filter) {
    typename Arithmetic::Sum sum;
    int taps[3] = {};
#pragma unroll 1
    for (; taps[0] < of_phase[0].count; next_tap(of_phase, taps)) {
        int place;
        if (!meet(parameters.slides, of_phase, taps, pixel.at, place)) {
            continue;
        }
        int const of_filter = filter_place(parameters.slides, of_phase, taps);
#pragma unroll 1
        for (int channel = 0; channel < parameters.channels; ++channel) {
            auto const x = parameters.arithmetic.pixel(image[pixel.image + place + channel * parameters.channel_strides[1]]);
            sum.add(x * parameters.arithmetic.weight(filter[of_filter + channel * parameters.channel_strides[2]], 0));
        }
    }
    return sum.result();
}

/// Writes the results of 8 neighbouring output channels of a pixel, or of as many as there are.
template <class Arithmetic, class Sum>
__device__ __forceinline__ void write_channels(TilesParameters<Arithmetic> const& parameters, long long place, long long group, int channel,
                                               Sum const* sums, int pitch) {
    using Output = typename Arithmetic::Output;
    constexpr int together = 8, in_store = sizeof(Output) == 4 ? 4 : 8;
    long long const number = group * parameters.group_channels + channel;
    Output* const to = parameters.output + place + channel * parameters.channel_strides[0];
    Output results[together];
#pragma unroll
    for (int e = 0; e < together; ++e) {
        if (channel + e < parameters.group_channels) {
            results[e] = parameters.arithmetic.result(sums[e * pitch], number + e);
        }
    }
    if (parameters.wide_output != 0 && channel + together <= parameters.group_channels) {
#pragma unroll
        for (int first = 0; first < together; first += in_store) {
            AlignedVector<Output, in_store> vector;
#pragma unroll
            for (int e = 0; e < in_store; ++e) {
                vector.values[e] = results[first + e];
            }
            *reinterpret_cast<AlignedVector<Output, in_store>*>(to + first) = vector;
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < together; ++e) {
        if (channel + e < parameters.group_channels) {
            to[e * parameters.channel_strides[0]] = results[e];
        }
    }
}

/// A block computes tiles of output channels and pixels, as many of both as `Sums` has.
template <class Arithmetic, class Sums>
__global__ void __launch_bounds__(tile_threads, 2) convolve_tiles(const __grid_constant__ TilesParameters<Arithmetic> parameters) {
    using Raw = typename Arithmetic::Raw;
    using Result = typename Sums::Result;
    constexpr int rows = Sums::rows, columns = Sums::columns, stage_pieces = Sums::stage_terms / Sums::piece_terms;
    constexpr int row_words = rows * line_words, piece_words = row_words + columns * line_words;
    constexpr int pitch = columns + 8, rows_together = tile_side;   // of sums on their way to y
    static_assert(rows_together * pitch <= 3 * piece_words);
    __shared__ TilePixel pixels[columns];
    __shared__ PhaseTaps of_phase[3];
    unsigned* const stages = machine::dynamic_shared<unsigned>();
    Arithmetic const& arithmetic = parameters.arithmetic;
    int const thread = static_cast<int>(threadIdx.x);

#pragma unroll 1
    for (unsigned long long tile = blockIdx.x; tile < parameters.tiles; tile += gridDim.x) {
        unsigned long long number = tile / parameters.pixel_tiles;
        unsigned long long const first_pixel = (tile - number * parameters.pixel_tiles) * columns;
        int phases[3];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            phases[axis] = static_cast<int>(number % parameters.slides[axis].phases);
            number /= parameters.slides[axis].phases;
        }
        int const channel = static_cast<int>(number % parameters.channel_tiles) * rows;
        long long const group = static_cast<long long>(number / parameters.channel_tiles);
        if (thread < columns) {
            unsigned long long const pixel = first_pixel + thread;
            TilePixel found = {{far_away, far_away, far_away}, 0, 0, -1};
            if (pixel < parameters.pixels) {
                Places<5> const places = locate_far(parameters.axes, pixel);
                bool exists = true;
                long long output = places.of[0] + group * parameters.group_strides[0];
#pragma unroll
                for (int axis = 0; axis < 3; ++axis) {
                    Slide const& slide = parameters.slides[axis];
                    found.at[axis] = static_cast<int>(places.of[2 + axis]);
                    exists = exists && (slide.phases == 1 || phases[axis] + slide.phases * found.at[axis] < slide.positions);
                    output += phases[axis] * slide.output_stride;
                }
                found.image = places.of[1];
                found.output = exists ? output : -1;
            }
            pixels[thread] = found;
        }
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            if (thread == axis) {
                of_phase[axis] = taps_of_phase(parameters.slides[axis], parameters.backward != 0, phases[axis]);
            }
        }
        __syncthreads();

        auto const* const image = parameters.input + group * parameters.group_strides[1];
        auto const* const filter = parameters.filter + group * parameters.group_strides[2] + channel * parameters.line_stride;
        Copier<Arithmetic, rows, columns> copier(parameters, reinterpret_cast<Raw const*>(image), reinterpret_cast<Raw const*>(filter),
                                        parameters.group_channels - channel, pixels, of_phase);
        Sums sums = arithmetic.template sums<Sums>();
        int const all_taps = of_phase[0].count * of_phase[1].count * of_phase[2].count;
        int const pieces = (all_taps * parameters.terms_of_tap + Sums::piece_terms - 1) / Sums::piece_terms;
        auto const zeros = arithmetic.zeros(group * parameters.group_channels + channel, (group + 1) * parameters.group_channels);
        unsigned *current = stages, *next = stages + piece_words, *last = stages + 2 * piece_words;
        int of_stage = 0;
        // Prefetches: pieces are waited for two turns after theirs. The first turns only begin to copy.
#pragma unroll 1
        for (int piece = -2; piece < pieces; ++piece) {
            machine::wait_for_copies<1>();
            __syncthreads();
            if (piece + 2 < pieces) {
                copier.copy(last, last + row_words);
            }
            machine::commit_copies();
            if (piece >= 0) {
                sums.multiply(current, current + row_words);
                if (++of_stage == stage_pieces || piece + 1 == pieces) {
                    sums.end_stage(all_taps * parameters.channels, zeros);
                    of_stage = 0;
                }
            }
            unsigned* const free = current;
            current = next;
            next = last;
            last = free;
        }
        machine::wait_for_copies<0>();
        __syncthreads();

        auto* const staged = reinterpret_cast<Result*>(stages);
#pragma unroll 1
        for (int first_row = 0; first_row < rows; first_row += rows_together) {
            if (rows == rows_together || thread / 64 * rows_together == first_row) {
                sums.for_each([&](int row, int column, auto sum) { staged[row % rows_together * pitch + column] = sum; });
            }
            __syncthreads();
            // Backward, a tap that reads no element must add nothing, but 0 times an infinite weight is NaN.
            if constexpr (is_same<Result, float>) {
                if (parameters.backward != 0) {
#pragma unroll 1
                    for (int place = thread; place < rows_together * columns; place += tile_threads) {
                        int const row = place / columns, column = place % columns;
                        float& sum = staged[row * pitch + column];
                        if (!(fabsf(sum) < machine::float_of_bits(0x7F800000u)) && channel + first_row + row < parameters.group_channels) {
                            auto const* const of_row = filter + (first_row + row) * parameters.line_stride;
                            sum = sum_of_met(parameters, of_phase, pixels[column], image, of_row);
                        }
                    }
                    __syncthreads();
                }
            }
            constexpr int together = 8;
            int const column = thread % columns;
            long long const place = pixels[column].output;
#pragma unroll 1
            for (int row = thread / columns * together; row < rows_together; row += tile_threads / columns * together) {
                if (place >= 0 && channel + first_row + row < parameters.group_channels) {
                    write_channels(parameters, place, group, channel + first_row + row, staged + row * pitch + column, pitch);
                }
            }
            __syncthreads();
        }
    }
}
