// Matrix products whose left matrix stays on chip: a block multiplies its matrix [rows][depth] by one operand [depth][samples] after the
// other, the samples of a pass at a time.
//
// A block has eight warps, which split the depth: a warp has a contiguous run of `steps()` depth steps, the same number for all warps.
// Before the first product each warp loads its share of the matrix, from an arrangement in global memory whose order is that of the
// loads: the first steps of its run into registers, the others into shared memory. After a product the warps' partial sums are in
// shared memory, and `sum` adds them in a fixed order.
//
//   TensorCores  tiles of 16 rows by `depth_step` of depth, of halves or of floats rounded to TF32; sums are float
//   Fma          rows of floats, one lane to a row, in float throughout
//
// Both have the same interface, and a lane holds a step of a tile in 16 bytes. Depth extends to `padded_depth`, a multiple of what
// the warps process in one step; the arrangement is zero in the padding, where an operand has to be finite.
//
// An operand is [sample][row], a row being as long as the depth and more. A block alone, or of a cluster, has all of it in shared memory.
// What other blocks make is brought there by common/staging.cuh.
#pragma once

/// Unscaled sums: only the operand is waited for.
struct Unscaled {
    __device__ void load() {}

    __device__ bool is_there() const {
        return true;
    }

    __device__ void load_missing() {}

    __device__ void keep() {}
};

/// The division of the depth among warps, and the place of a warp's part of the matrix.
///
/// A lane holds 16 bytes of a tile for each step. An arrangement is [warp][step][tile][lane] of 16 bytes. Within a warp the run is
/// shared by `lane_groups`, where a tile has fewer rows than the warp has lanes; each has so many steps. With other blocks,
/// `loaded_samples` of a pass come from them, and a thread has `loads` of 16 bytes in flight.
template <class T, int tiles, int row_warps, int lane_groups, int depth_step_, int register_steps, int loaded_samples, int loads>
class Resident {
  public:
    static constexpr int depth_step = depth_step_;
    static constexpr int depth_warps = product_warps / row_warps;

    /// The steps of one warp.
    __device__ static int steps_of(int depth) {
        int const of_all_warps = depth_step * lane_groups * depth_warps;
        return (depth + of_all_warps - 1) / of_all_warps;
    }

    /// 16-byte values of a block's arrangement,
    __device__ static int arranged(int depth) {
        return product_warps * steps_of(depth) * tiles * 32;
    }

    /// and of shared memory for operands from other blocks. Products that never run at the same time can share it.
    __device__ static int staged(int depth) {
        return StagingOf::size(steps_of(depth));
    }

    /// `staging`: that memory; unused if all operands are in the block's own.
    __device__ Resident(SharedPieces& pieces, int depth, Vector4<unsigned>* staging)
        : steps_(steps_of(depth)),
          rest_(pieces.take<Vector4<unsigned>>(product_warps * (steps_ - register_steps) * tiles * 32)),
          staging_(staging, steps_, (depth * static_cast<int>(sizeof(T)) + 15) / 16, padded_depth() * static_cast<int>(sizeof(T))) {}

    /// Loads this block's arrangement. No barrier: only the same lanes read what a warp writes to shared memory.
    __device__ __forceinline__ void load(Vector4<unsigned> const* arrangement) {
        int const in_shared = (steps_ - register_steps) * tiles;
        arrangement += warp() * steps_ * tiles * 32 + lane();
        rest_ += warp() * in_shared * 32 + lane();
        Vector4<unsigned> const* const of_rest = arrangement + register_steps * tiles * 32;
        constexpr int under_way = 8;  // independent loads; this comes first, while registers are free
#pragma unroll 1
        for (int first = 0; first < in_shared; first += under_way) {
            Vector4<unsigned> batch[under_way];
#pragma unroll
            for (int i = 0; i < under_way; ++i) {
                if (first + i < in_shared) {
                    batch[i] = of_rest[(first + i) * 32];
                }
            }
#pragma unroll
            for (int i = 0; i < under_way; ++i) {
                if (first + i < in_shared) {
                    rest_[(first + i) * 32] = batch[i];
                }
            }
        }
#pragma unroll
        for (int step = 0; step < register_steps; ++step) {
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile) {
                registers_[step][tile] = arrangement[(step * tiles + tile) * 32];
            }
        }
    }

    /// The steps of each warp.
    __device__ int steps() const {
        return steps_;
    }

    __device__ int padded_depth() const {
        return steps_ * lane_groups * depth_warps * depth_step;
    }

    /// The depth that this warp reads begins here, possibly in the padding,
    __device__ int first_depth() const {
        return warp() % depth_warps * steps_ * lane_groups * depth_step;
    }

    /// and ends before this.
    __device__ int end_depth() const {
        return first_depth() + steps_ * lane_groups * depth_step;
    }

    /// Values between the samples of an operand. In own memory they are padded, so that reads of four neighbouring samples have no bank
    /// conflicts.
    template <Protocol protocol>
    __device__ int row() const {
        constexpr int in_bank_row = 128 / static_cast<int>(sizeof(T));
        int const padding = is_in_own_memory(protocol) ? (in_bank_row / 4 - padded_depth()) & (in_bank_row - 1) : 0;
        return padded_depth() + padding;
    }

    /// This thread's loads of an operand; takes(sample) is whether a sample of the pass takes part: see Operand.
    template <Protocol protocol, class Takes>
    __device__ unsigned loaded(Takes const& takes) const {
        if constexpr (is_in_own_memory(protocol)) {
            return 0;
        } else {
            // A chunk has room for a power of two of samples; those past the pass do not exist and have no lengths.
            return staging_.loaded([&](int sample) { return sample < loaded_samples && takes(sample); });
        }
    }

    /// Begins to load the operand of the next `multiply`, unless the previous one was passed it as `next`.
    template <Protocol protocol>
    __device__ __forceinline__ void begin(BlockExchange<protocol> const& exchange, Operand<T> const& operand) {
        if constexpr (!is_in_own_memory(protocol)) {
            staging_.load(exchange, operand, 0);
        }
    }

  protected:
    using StagingOf =
        Staging<power_of_two_from(loaded_samples), row_warps, lane_groups * depth_step * static_cast<int>(sizeof(T)) / 16, loads>;

    __device__ static int warp() {
        return threadIdx.x / 32;
    }

    __device__ static int lane() {
        return threadIdx.x % 32;
    }

    /// This lane's part of a tile in a step that is not in registers.
    __device__ Vector4<unsigned> const& rest(int step, int tile) const {
        return rest_[((step - register_steps) * tiles + tile) * 32];
    }

    __device__ static int words_of(int elements) {
        return elements * static_cast<int>(sizeof(T)) / 4;
    }

    /// Calls add(step, place, weights, words, words_of_row) for each of the warp's steps in turn: weights(tile) are those of the matrix,
    /// `words` is the operand in shared memory from that step on, its samples so far apart; `place` is known to the compiler, and
    /// `together` neighbours differ in it: so many steps are unrolled, besides those in registers, which all are. Data that `others` load
    /// is there too before the first call.
    template <int together, Protocol protocol, class Others, class Add>
    __device__ __forceinline__ void for_steps(BlockExchange<protocol> const& exchange, Operand<T> const& operand, Operand<T> const& next,
                                              Others& others, Add const& add) {
        constexpr int chunk = is_in_own_memory(protocol) ? 1 << 20 : StagingOf::chunk_steps;
        constexpr int step_words = lane_groups * depth_step * static_cast<int>(sizeof(T)) / 4;
        int const words_of_row = is_in_own_memory(protocol) ? words_of(row<protocol>()) : 4 * StagingOf::row;
        auto const enter = [&](int begin) {
            if constexpr (!is_in_own_memory(protocol)) {
                staging_.enter(exchange, operand, next, begin, others);
            }
        };
        // Where step `begin` of the operand is, and those after it in its chunk.
        auto const words_from = [&](int begin) -> unsigned const* {
            if constexpr (is_in_own_memory(protocol)) {
                return reinterpret_cast<unsigned const*>(operand.values + first_depth()) + begin * step_words;
            } else {
                return staging_.chunk(begin)->values + begin % chunk * step_words;
            }
        };
        others.load();
#pragma unroll
        for (int begin = 0; begin < register_steps; begin += chunk) {
            enter(begin);
            unsigned const* const words = words_from(begin);
#pragma unroll
            for (int step = begin; step < register_steps && step < begin + chunk; ++step) {
                auto const weights = [&](int tile) -> Vector4<unsigned> const& { return registers_[step][tile]; };
                add(step, step, weights, words + (step - begin) * step_words, words_of_row);
            }
        }
#pragma unroll 1
        for (int begin = register_steps; begin < steps_; begin += chunk - begin % chunk) {
            if (begin % chunk == 0) {
                enter(begin);
            }
            unsigned const* const words = words_from(begin);
            int const end = min(steps_, begin + chunk - begin % chunk);
#pragma unroll 1
            for (int first = begin; first < end; first += together) {
#pragma unroll
                for (int i = 0; i < together; ++i) {
                    if (first + i < end) {
                        auto const weights = [&](int tile) -> Vector4<unsigned> const& { return rest(first + i, tile); };
                        add(first + i, i, weights, words + (first + i - begin) * step_words, words_of_row);
                    }
                }
            }
        }
    }

    int steps_;
    Vector4<unsigned>* rest_;  // [steps - register_steps][tiles][32], from this lane's on
    StagingOf staging_;
    Vector4<unsigned> registers_[register_steps > 0 ? register_steps : 1][tiles];
};

/// Products on tensor cores, of T = machine::half, or on compute capability 8.0 on of machine::bfloat16, or of float as TF32.
///
/// The warps are `row_warps` by `depth_warps`; a warp owns `row_tiles` tiles of 16 rows. In a step lane 4 g + t multiplies the four halves,
/// or the two floats, of sample g that lie at number t of the step's eight bytes: what the instruction calls depth is a permutation of
/// it, the same for the matrix.
template <class T, int row_tiles, int row_warps, int register_steps, int sample_tiles, int loaded, int loads>
class TensorCores : public Resident<T, row_tiles, row_warps, 1, 32 / static_cast<int>(sizeof(T)), register_steps, loaded, loads> {
    using Base = Resident<T, row_tiles, row_warps, 1, 32 / static_cast<int>(sizeof(T)), register_steps, loaded, loads>;
    static_assert(loaded <= 8 * sample_tiles && (loaded < 8 || loaded % 8 == 0));

  public:
    using Element = T;
    using Base::depth_step;
    using Base::depth_warps;
    static constexpr int tiles = row_tiles;
    static constexpr int rows = 16 * row_tiles * row_warps;
    static constexpr int samples = 8 * sample_tiles;  // of a pass

    __device__ TensorCores(SharedPieces& pieces, int depth, Vector4<unsigned>* staging)
        : Base(pieces, depth, staging), sums_(pieces.take<float>(depth_warps * rows * samples)) {}

    /// A value in the format of the operand and the arrangement.
    __device__ static T element(float value) {
        if constexpr (is_same<T, float>) {
            return machine::round_to_tf32(value);
        } else {
            return machine::from_float<T>(value);
        }
    }

    /// A lane's part of the matrix, whose float values are matrix(row, k), in one tile and step of a warp's run.
    template <class Matrix>
    __device__ static Vector4<unsigned> arrange(Matrix const& matrix, int rows_of_matrix, int depth, int warp, int step, int tile, int lane) {
        constexpr int in_word = 4 / static_cast<int>(sizeof(T));
        Vector4<unsigned> words;
        int const first_row = (warp / depth_warps * row_tiles + tile) * 16 + lane / 4;
        int const first_k = (warp % depth_warps * Base::steps_of(depth) + step) * depth_step + lane % 4 * 2 * in_word;
        for (int word = 0; word < 4; ++word) {
            words.values[word] = 0;
            for (int i = 0; i < in_word; ++i) {
                int const row = first_row + word % 2 * 8;
                int const k = first_k + word / 2 * in_word + i;
                if (row < rows_of_matrix && k < depth) {
                    words.values[word] |= machine::to_bits(element(matrix(row, k))) << i * 16;
                }
            }
        }
        return words;
    }

    /// The matrix by the operand of a pass, as `operand` made it; `next` is the operand of the next call, if it is available already; then
    /// `begin` is not called for it then. To be called by all warps; a barrier has to follow before `sum`, and another one before the next
    /// product. With `scales` each depth step's products of two neighbouring samples count times scales(step, sample of the first), a
    /// AlignedVector<float, 2>; the step is counted from the warp's first. scales.load() is called by the whole warp when the first loads
    /// of the operand are in flight, and scales.keep() when the data of both has arrived, with a single wait.
    template <Protocol protocol, class Scales = Unscaled>
    __device__ __forceinline__ void multiply(BlockExchange<protocol> const& exchange, Operand<T> const& operand, Operand<T> const& next,
                                             Scales scales = {}) {
        // Independent products; scaled ones always are.
        constexpr bool scaled = !is_same<Scales, Unscaled>;
        constexpr int chains = row_tiles * sample_tiles < 2 && !scaled ? 2 : 1;
        float sums[chains][row_tiles][sample_tiles][4] = {};
        // If other samples of a pass are not loaded, a lane reads another sample's values for them, which are not used.
        constexpr bool all_loaded = is_in_own_memory(protocol) || loaded >= 8;
        int const sample = all_loaded ? Base::lane() / 4 : min(Base::lane() / 4, loaded - 1);
        auto const add = [&](int step, int place, auto const& weights, unsigned const* words, int words_of_row) {
            AlignedVector<unsigned, 2> fragments[sample_tiles];
#pragma unroll
            for (int tile = 0; tile < sample_tiles; ++tile) {
                bool const there = is_in_own_memory(protocol) || tile * 8 < loaded;
                unsigned const* const fragment = words + ((there ? tile * 8 : 0) + sample) * words_of_row + Base::lane() % 4 * 2;
                fragments[tile] = *reinterpret_cast<AlignedVector<unsigned, 2> const*>(fragment);
            }
#pragma unroll
            for (int tile = 0; tile < row_tiles; ++tile) {
                multiply_tile(sums[place % chains][tile], weights(tile), fragments, step, scales);
            }
        };
        constexpr int tiles_of_step = row_tiles * sample_tiles;
        this->template for_steps<(tiles_of_step < 4 ? 4 : tiles_of_step < 8 ? 2 : 1)>(exchange, operand, next, scales, add);
        store_sums<scaled>(sums);
    }

    /// An entry of the last product; `sample` is counted from the pass's first.
    __device__ float sum(int row, int sample) const {
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < depth_warps; ++part) {
            total += sums_[place_of_sum(part, row, sample)];
        }
        return total;
    }

  private:
    /// Adds a tile's product in one step.
    template <class Scales>
    __device__ __forceinline__ static void multiply_tile(float (&sums)[sample_tiles][4], Vector4<unsigned> const& weights,
                                                         AlignedVector<unsigned, 2> const (&fragments)[sample_tiles], int step,
                                                         Scales const& scales) {
#pragma unroll
        for (int tile = 0; tile < sample_tiles; ++tile) {
            if constexpr (is_same<Scales, Unscaled>) {
                machine::multiply_add<T>(sums[tile], weights.values, fragments[tile].values);
            } else {
                float product[4] = {};
                machine::multiply_add<T>(product, weights.values, fragments[tile].values);
                AlignedVector<float, 2> const factors = scales(step, tile * 8 + Base::lane() % 4 * 2);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    sums[tile][i] += product[i] * factors.values[i];
                    sums[tile][i + 2] += product[i + 2] * factors.values[i];
                }
            }
        }
    }

    /// Where the sum of a part of the depth is. Eight samples of a row are contiguous, in an order that depends on the row, such that
    /// neither the lanes of `store_sums` nor those that read 4, 8, 16 or 32 neighbouring rows of one sample or of several meet a bank
    /// twice.
    __device__ static int place_of_sum(unsigned part, unsigned row, unsigned sample) {
        unsigned const block = row / 4;  // of rows in one row of banks
        unsigned const order = (block & 1) << 2 | (block & 2) | (block >> 2 & 1);
        return ((part * sample_tiles + sample / 8) * rows + row) * 8 + (sample % 8 ^ order);
    }

    /// Stores a warp's sums for `sum`; for a single sample only its own, unless products are scaled: compilers that need not add the
    /// others use so many registers to begin steps early that some of R's are spilled.
    template <bool scaled, int chains>
    __device__ __forceinline__ void store_sums(float const (&sums)[chains][row_tiles][sample_tiles][4]) const {
        int const first_row = Base::warp() / depth_warps * row_tiles * 16 + Base::lane() / 4;
        int const upper = Base::lane() / 16;  // these write their samples in the other order, to avoid bank conflicts with the lower half
#pragma unroll
        for (int tile = 0; tile < row_tiles; ++tile) {
#pragma unroll
            for (int sample_tile = 0; sample_tile < sample_tiles; ++sample_tile) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float pair[2];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        pair[i] = sums[0][tile][sample_tile][2 * half + i];
                        if constexpr (chains == 2) {
                            pair[i] += sums[1][tile][sample_tile][2 * half + i];
                        }
                    }
                    int const row = first_row + tile * 16 + half * 8;
                    int const sample = sample_tile * 8 + Base::lane() % 4 * 2;
                    if constexpr (loaded == 1 && !scaled) {
                        if (sample == 0) {
                            sums_[place_of_sum(Base::warp() % depth_warps, row, 0)] = pair[0];
                        }
                    } else {
                        sums_[place_of_sum(Base::warp() % depth_warps, row, sample + upper)] = upper != 0 ? pair[1] : pair[0];
                        sums_[place_of_sum(Base::warp() % depth_warps, row, sample + 1 - upper)] = upper != 0 ? pair[0] : pair[1];
                    }
                }
            }
        }
    }

    float* sums_;  // [depth_warps][sample_tiles][rows][8]
};

/// Products of floats by multiply and add, a step being four of depth. `row_lanes` (8, 16 or 32) neighbouring lanes own the rows lane +
/// row_lanes slot, all warps the same; the warps, and in a warp the groups of so many lanes, split the depth, the groups in turn: what they
/// read at once is contiguous.
///
/// One 16-byte load of an operand serves four multiplications for each slot: with four slots it takes less of a multiprocessor's time than
/// they do.
template <int row_lanes, int row_slots, int register_quads, int pass_samples, int loads>
class Fma : public Resident<float, row_slots, 1, 32 / row_lanes, 4, register_quads, pass_samples, loads> {
    using Base = Resident<float, row_slots, 1, 32 / row_lanes, 4, register_quads, pass_samples, loads>;

  public:
    using Element = float;
    using Base::depth_step;
    using Base::depth_warps;
    static constexpr int tiles = row_slots;
    static constexpr int rows = row_lanes * row_slots;
    static constexpr int samples = pass_samples;
    static constexpr int stride = samples | 1;

    __device__ Fma(SharedPieces& pieces, int depth, Vector4<unsigned>* staging)
        : Base(pieces, depth, staging), sums_(pieces.take<float>(depth_warps * rows * stride)) {}

    __device__ static float element(float value) {
        return value;
    }

    template <class Matrix>
    __device__ static Vector4<unsigned> arrange(Matrix const& matrix, int rows_of_matrix, int depth, int warp, int step, int tile, int lane) {
        Vector4<unsigned> words;
        int const row = tile * row_lanes + lane % row_lanes;
        int const first_k = ((warp * Base::steps_of(depth) + step) * lane_groups + lane / row_lanes) * 4;
        for (int e = 0; e < 4; ++e) {
            words.values[e] = row < rows_of_matrix && first_k + e < depth ? machine::to_bits(matrix(row, first_k + e)) : 0;
        }
        return words;
    }

    /// As in TensorCores, but without scales.
    template <Protocol protocol>
    __device__ __forceinline__ void multiply(BlockExchange<protocol> const& exchange, Operand<float> const& operand,
                                             Operand<float> const& next) {
        float sums[chains][row_slots][samples] = {};
        auto const add = [&](int, int, auto const& weights, unsigned const* words, int words_of_row) {
            Vector4<unsigned> of_slots[row_slots];
#pragma unroll
            for (int slot = 0; slot < row_slots; ++slot) {
                of_slots[slot] = weights(slot);
            }
#pragma unroll
            for (int sample = 0; sample < samples; ++sample) {
                unsigned const* const place = words + sample * words_of_row + Base::lane() / row_lanes * 4;
                Vector4<float> const values = *reinterpret_cast<Vector4<float> const*>(place);
#pragma unroll
                for (int slot = 0; slot < row_slots; ++slot) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        sums[e % chains][slot][sample] += machine::float_of_bits(of_slots[slot].values[e]) * values.values[e];
                    }
                }
            }
        };
        constexpr int quads_of_step = row_slots * samples;
        Unscaled nothing;
        this->template for_steps<(quads_of_step < 8 ? 4 : quads_of_step < 16 ? 2 : 1)>(exchange, operand, next, nothing, add);
        float* const own = sums_ + (Base::warp() * rows + Base::lane() % row_lanes) * stride;
#pragma unroll
        for (int sample = 0; sample < samples; ++sample) {
            float of_sample[row_slots];
#pragma unroll
            for (int slot = 0; slot < row_slots; ++slot) {
                of_sample[slot] = sums[0][slot][sample];
#pragma unroll
                for (int chain = 1; chain < chains; ++chain) {
                    of_sample[slot] += sums[chain][slot][sample];
                }
            }
            store_sums<row_slots, 16>(of_sample, 0, own + sample);
        }
    }

    __device__ float sum(int row, int sample) const {
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < depth_warps; ++part) {
            total += sums_[(part * rows + row) * stride + sample];
        }
        return total;
    }

  private:
    static constexpr int lane_groups = 32 / row_lanes;
    static constexpr int chains = row_slots * samples >= 4 ? 1 : row_slots * samples >= 2 ? 2 : 4;  // independent sums

    /// Adds the groups' sums of the slots `first` to first + count - 1, groups `lanes` lanes apart first, and puts them where `sum` finds
    /// them, that of slot 0 at `own`. While a group has an even number of slots it passes one half of them on and continues with the
    /// other.
    template <int count, int lanes>
    __device__ __forceinline__ void store_sums(float const (&sums)[count], int first, float* own) const {
        if constexpr (lanes < row_lanes) {
            // If groups have the same slots in the end, the first one writes them.
            constexpr int shared_by = lane_groups * count / row_slots;
            if (Base::lane() / row_lanes % shared_by == 0) {
#pragma unroll
                for (int slot = 0; slot < count; ++slot) {
                    own[(first + slot) * row_lanes * stride] = sums[slot];
                }
            }
        } else if constexpr (count % 2 == 0) {
            bool const upper = (Base::lane() & lanes) != 0;
            float kept[count / 2];
#pragma unroll
            for (int slot = 0; slot < count / 2; ++slot) {
                float const given = upper ? sums[slot] : sums[count / 2 + slot];
                kept[slot] = (upper ? sums[count / 2 + slot] : sums[slot]) + machine::shuffle_xor(given, lanes);
            }
            store_sums<count / 2, lanes / 2>(kept, upper ? first + count / 2 : first, own);
        } else {
            float all[count];
#pragma unroll
            for (int slot = 0; slot < count; ++slot) {
                all[slot] = sums[slot] + machine::shuffle_xor(sums[slot], lanes);
            }
            store_sums<count, lanes / 2>(all, first, own);
        }
    }

    float* sums_;  // [depth_warps][rows][stride]
};

/// No product.
struct NoProduct {
    static constexpr int samples = 0;

    __device__ NoProduct(SharedPieces&, int, Vector4<unsigned>*) {}

    __device__ static int staged(int) {
        return 0;
    }

    template <Protocol>
    __device__ int row() const {
        return 0;
    }

    template <Protocol, class Takes>
    __device__ unsigned loaded(Takes const&) const {
        return 0;
    }
};
