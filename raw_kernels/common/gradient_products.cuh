// The exchange between the blocks of a group for the products of a gradient's step, and these products.
//
// Letters: T steps, D directions, N batch groups.
#pragma once

/// The data that the blocks of a group exchange. `persistent_grid` holds it in shared memory if a block is alone. With Protocol::flags all
/// of it is zero at first, with Protocol::data all words are `sentinel`, and `turns` is T.
template <class T>
struct ExchangedOperand {
    Vector4<unsigned> const* arranged;  // the product's gates as arranged by `arrange`
    T* operand;                      // [D][N][turns][passes][samples of a pass][row]
    float* inverse;                  // [D][N][turns][passes][parts][samples of a pass]: 1 / scale; of halves only
};

/// A power of two and its inverse.
struct Scale {
    float factor;
    float inverse;

    /// Scales `largest`, which is not negative, to between 2^14 and 2^15; below 2^-112 the factor stays 2^126.
    __device__ static Scale of(float largest) {
        unsigned const exponent = machine::to_bits(largest) >> 23;
        unsigned const bounded = exponent < 15 ? 15 : exponent;
        return {machine::float_of_bits((268 - bounded) << 23), machine::float_of_bits((bounded - 14) << 23)};
    }
};

/// Undoes the scales of a warp's run of depth; each of its parts belongs to one block.
template <int part_steps, int samples, Protocol protocol, bool whole_parts>
class Unscale {
  public:
    /// `inverse`: [parts][samples], from the run's first part on. `fetched`: room for the same in shared memory, for this warp; unused if
    /// alone. `skipped`: the steps of the first part that belong to another warp, none with `whole_parts`. `given`: how many parts there
    /// are from the first one on; others of the run are padding, and have a scale of zero.
    __device__ Unscale(BlockExchange<protocol> const& exchange, float const* inverse, float* fetched, int skipped, int parts, int given)
        : exchange_(exchange), inverse_(inverse), fetched_(fetched), skipped_(skipped), parts_(parts), given_(min(parts, given)) {}

    /// Begins the lane's first load, which is all it needs except in large runs.
    __device__ __forceinline__ void load() {
        if (is_given(place_of_lane())) {
            load(place_of_lane());
        }
    }

    __device__ __forceinline__ bool is_there() const {
        return exchange_.is_there(under_way_);
    }

    __device__ __forceinline__ void load_missing() {
        if (!is_there()) {
            load(place_of_lane());
        }
    }

    /// Copies all of it to shared memory, after the data of `load` has arrived. A barrier of the warp has to follow.
    __device__ __forceinline__ void keep() {
        if constexpr (protocol != Protocol::alone) {
            if (place_of_lane() < parts_ * samples) {
                store(place_of_lane());
            }
#pragma unroll 1
            for (int place = place_of_lane() + quads_of_warp; place < parts_ * samples; place += quads_of_warp) {
                fetch(place);
                store(place);
            }
        }
    }

    /// Of two neighbouring samples.
    __device__ __forceinline__ AlignedVector<float, 2> operator()(int step, int sample) const {
        unsigned const part = static_cast<unsigned>(whole_parts ? step : step + skipped_) / part_steps;
        unsigned const place = part * samples + sample;
        return *reinterpret_cast<AlignedVector<float, 2> const*>((protocol == Protocol::alone ? inverse_ : fetched_) + place);
    }

  private:
    static constexpr int quads_of_warp = 32 * 4;

    __device__ static int place_of_lane() {
        return threadIdx.x % 32 * 4;
    }

    __device__ bool is_given(int place) const {
        return protocol != Protocol::alone && exchange_.readable() != 0 && place < given_ * samples;
    }

    __device__ __forceinline__ void load(int place) {
        exchange_.load(reinterpret_cast<unsigned const*>(inverse_ + place), under_way_);
    }

    __device__ __forceinline__ void store(int place) const {
        Vector4<float> values;
        for (int e = 0; e < 4; ++e) {
            values.values[e] = machine::float_of_bits(under_way_[e]);
        }
        *reinterpret_cast<Vector4<float>*>(fetched_ + place) = values;
    }

    /// Waits for the rest; zeros for padding.
    __device__ __forceinline__ void fetch(int place) {
        for (unsigned& word : under_way_) {
            word = 0;
        }
        if (is_given(place)) {
            load(place);
            Wait wait;
            while (!is_there() && exchange_.look_again(wait)) {
                load(place);
            }
        }
    }

    BlockExchange<protocol> const& exchange_;
    float const* inverse_;
    float* fetched_;
    int skipped_;
    int parts_;
    int given_;
    unsigned under_way_[4] = {};
};

/// The pairs of unit and sample that a thread owns in each pass; neighbouring threads own neighbouring units.
template <int units_, int samples>
struct Pairs {
    static constexpr int units = units_;
    static constexpr int in_pass = units * samples;
    static constexpr int count = (in_pass + product_threads - 1) / product_threads;

    int thread = machine::opaque(static_cast<int>(threadIdx.x));  // no value derived from it stays in registers across steps

    /// The number of a pair in [samples of a pass][units], may be past the last one.
    __device__ int index(int pair) const {
        return thread + pair * product_threads;
    }

    /// Its unit, counted from the block's first.
    __device__ int unit(int pair) const {
        return static_cast<unsigned>(index(pair)) % units;
    }

    /// Its sample, counted from the pass's first.
    __device__ int sample(int pair) const {
        return static_cast<unsigned>(index(pair)) / units;
    }
};

/// A product of `persistent_grid`, and the gradients that it is of: those of `count` of the sums of each unit, from number `first_sum` on.
///
/// `whole_parts`: no warp's run of depth begins or ends within the sums of one block; counts for halves.
template <class T, class Product, Protocol protocol, int first_sum, int count, bool whole_parts>
class GradientProduct {
    static constexpr bool alone = protocol == Protocol::alone;
    using Own = Pairs<Product::rows, Product::samples>;
    static constexpr int units = Product::rows;
    static constexpr int samples = Product::samples;
    static constexpr int part_depth = count * units;  // of one block
    static constexpr bool scaled = is_same<T, machine::half>;

  public:
    /// 16-byte values of shared memory for data from other blocks; products that do not run at the same time can share it.
    __device__ static int staged() {
        return alone ? 0 : Product::staged(gridDim.x * part_depth);
    }

    /// With flags `taking_turns` buffers take turns over `steps` steps.
    __device__ GradientProduct(SharedPieces& pieces, ExchangedOperand<T> const& exchanged, int passes, int taking_turns, int steps, Vector4<unsigned>* staging)
        : product_(pieces, gridDim.x * part_depth, staging),
          largest_(pieces.take<float>(scaled && units > 16 ? Own::in_pass / 16 : 0)),
          fetched_(pieces.take<float>(scaled && !alone ? product_warps * fetched_size() : 0) + threadIdx.x / 32 * fetched_size()),
          operand_size_(samples * product_.template row<protocol>()),
          inverse_size_(scaled ? samples * ((product_.padded_depth() + part_depth - 1) / part_depth) : 0),
          operands_(alone ? pieces.take<T>(passes * operand_size_) : exchanged.operand, group(), taking_turns, steps,
                    static_cast<long long>(passes) * operand_size_),
          inverses_(alone ? pieces.take<float>(passes * inverse_size_) : exchanged.inverse, group(), taking_turns, steps,
                    static_cast<long long>(passes) * inverse_size_) {
        long long const block = blockIdx.z * gridDim.x + blockIdx.x;
        product_.load(exchanged.arranged + block * Product::arranged(gridDim.x * part_depth));
        if constexpr (alone) {
#pragma unroll 1
            for (int index = threadIdx.x; index < passes * operand_size_; index += product_threads) {
                operands_.now()[index] = machine::from_float<T>(0.0f);
            }
#pragma unroll 1
            for (int index = threadIdx.x; index < passes * inverse_size_; index += product_threads) {
                inverses_.now()[index] = 0.0f;
            }
        }
    }

    /// Advances to the next step.
    __device__ void advance() {
        operands_.advance();
        inverses_.advance();
    }

    /// Stores the gradients of the current step, of the existing pairs, for the group to read after the next release;
    /// `there`: how many samples there are from the pass's first on. All threads have to call it.
    ///
    /// With Protocol::data, which waits for every word, also zeros for units beyond the last one, and scales for samples beyond it.
    template <int rows>
    __device__ void store(BlockExchange<protocol> const& exchange, int pass, int there, Own const& own, bool const (&exists)[Own::count],
                        float const (&d_sums)[Own::count][rows]) const {
        Scale scales[Own::count];
        if constexpr (scaled) {
            float largest[Own::count];
#pragma unroll
            for (int i = 0; i < Own::count; ++i) {
                largest[i] = 0.0f;
#pragma unroll
                for (int g = 0; g < count; ++g) {
                    largest[i] = fmaxf(largest[i], fabsf(d_sums[i][first_sum + g]));
                }
#pragma unroll
                for (int lanes = 1; lanes < 16; lanes *= 2) {  // 16 neighbours belong to one sample
                    largest[i] = fmaxf(largest[i], machine::shuffle_xor(largest[i], lanes));
                }
            }
            if constexpr (units > 16) {
#pragma unroll
                for (int i = 0; i < Own::count; ++i) {
                    if (own.index(i) < Own::in_pass && own.index(i) % 16 == 0) {
                        largest_[own.index(i) / 16] = largest[i];
                    }
                }
                __syncthreads();
#pragma unroll
                for (int i = 0; i < Own::count; ++i) {
                    for (int part = 0; part < units / 16 && exists[i]; ++part) {
                        largest[i] = fmaxf(largest[i], largest_[own.sample(i) * (units / 16) + part]);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < Own::count; ++i) {
                scales[i] = Scale::of(largest[i]);
                bool const in_pass = protocol == Protocol::data ? own.index(i) < Own::in_pass : exists[i];
                float* const place = inverses_.now() + (pass * inverse_size_ + blockIdx.x * samples + own.sample(i));
                exchange.store(place, scales[i].inverse, in_pass && own.unit(i) == 0);
            }
        }
#pragma unroll
        for (int i = 0; i < Own::count; ++i) {
            bool const in_pass = protocol == Protocol::data ? own.index(i) < Own::in_pass && own.sample(i) < there : exists[i];
            int const depth = blockIdx.x * part_depth + own.unit(i);
            T* const place = operands_.now() + (pass * operand_size_ + own.sample(i) * product_.template row<protocol>() + depth);
#pragma unroll
            for (int g = 0; g < count; ++g) {
                float const value = scaled ? d_sums[i][first_sum + g] * scales[i].factor : d_sums[i][first_sum + g];
                exchange.store(place + g * units, Product::element(value), in_pass);
            }
        }
    }

    /// Waits for the data that the group stored in the current or the previous step, before the last release but `fewer`, and multiplies. A
    /// barrier has to follow before `sum`, and another one before the next product. `loaded` as below.
    template <bool of_step_before>
    __device__ __forceinline__ void multiply(BlockExchange<protocol>& exchange, int pass, unsigned loaded, int fewer) {
        int const first = product_.first_depth() / part_depth;
        T const* const buffer = of_step_before ? operands_.before() : operands_.now();
        Operand<T> const operand{buffer + pass * operand_size_, loaded};
        exchange.wait(first, min((product_.end_depth() - 1) / part_depth, static_cast<int>(gridDim.x) - 1), fewer);
        product_.begin(exchange, operand);
        if constexpr (scaled) {
            int const end = (product_.end_depth() + part_depth - 1) / part_depth;
            int const given = static_cast<int>(gridDim.x) - first;
            float const* const inverse =
                (of_step_before ? inverses_.before() : inverses_.now()) + (pass * inverse_size_ + first * samples);
            using Scales = Unscale<part_depth / Product::depth_step, samples, protocol, whole_parts>;
            int const skipped = machine::opaque(product_.first_depth() % part_depth / Product::depth_step);
            product_.multiply(exchange, operand, {}, Scales(exchange, inverse, fetched_, skipped, end - first, given));
        } else {
            product_.multiply(exchange, operand, {});
        }
    }

    /// This thread's loads of the operand of a pass with so many samples: see Operand.
    __device__ unsigned loaded(int there) const {
        return product_.template loaded<protocol>([&](int sample) { return sample < there; });
    }

    /// d_sums R of a pair.
    __device__ float sum(Own const& own, int pair) const {
        return product_.sum(own.unit(pair), own.sample(pair));
    }

  private:
    __device__ static int group() {
        return blockIdx.z * gridDim.y + blockIdx.y;
    }

    /// Of a warp: its run of depth can begin and end within parts.
    __device__ int fetched_size() const {
        return samples * ((product_.steps() * Product::depth_step - 1) / part_depth + 2);
    }

    Product product_;
    float* largest_;    // [samples][units / 16], shared: the largest gradients; where a sample's units are more than 16
    float* fetched_;    // as in Unscale
    int operand_size_;  // of a pass
    int inverse_size_;
    Turns<protocol, T> operands_;
    Turns<protocol, float> inverses_;
};

/// Replaces a `GradientProduct` if there is one exchange a step.
struct NoGradientProduct {
    __device__ static int staged() {
        return 0;
    }

    template <class T>
    __device__ NoGradientProduct(SharedPieces&, ExchangedOperand<T> const&, int, int, int, Vector4<unsigned>*) {}

    __device__ void advance() {}

    __device__ unsigned loaded(int) const {
        return 0;
    }
};

template <bool wanted, class Wanted>
struct GradientProductIf {
    using Type = Wanted;
};

template <class Wanted>
struct GradientProductIf<false, Wanted> {
    using Type = NoGradientProduct;
};
