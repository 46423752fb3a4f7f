// Matrix products whose left matrix stays on chip: a block multiplies its matrix [rows][depth] by one operand [depth][samples] after the
// other, the samples of a pass at a time.
//
// A block has eight warps, and they share the depth: a warp takes a contiguous run of `steps()` depth steps, all warps equally many.
// Before the first product each warp loads its share of the matrix, from an arrangement in global memory whose order is that of the
// loads: the first steps of its run into registers, the others into shared memory. After a product the warps' partial sums lie in
// shared memory, and `sum` adds them in a fixed order.
//
//   TensorCores  tiles of 16 rows by `depth_step` of depth, of halves or of floats rounded to TF32; sums are float
//   Fma          rows of floats, one lane to a row, in float throughout
//
// Both have the same interface, and a lane holds a step of a tile in 16 bytes. Depth is counted up to `padded_depth`, a multiple of what
// the warps take in one step; the arrangement is zero there, and whoever makes an operand has it zero there, too.
#pragma once

inline constexpr int product_warps = 8;
inline constexpr int product_threads = 32 * product_warps;

/// Hands out the block's dynamic shared memory piece by piece, each aligned to 16 bytes.
class SharedPieces {
  public:
    __device__ SharedPieces() : next_(machine::dynamic_shared<unsigned char>()) {}

    template <class E>
    __device__ E* take(int count) {
        E* const piece = reinterpret_cast<E*>(next_);
        next_ += (count * static_cast<int>(sizeof(E)) + 15) / 16 * 16;
        return piece;
    }

  private:
    unsigned char* next_;
};

/// Sums as they are.
struct Unscaled {};

/// How depth is shared by the warps, and where a warp's part of the matrix is.
///
/// A tile is what a lane holds 16 bytes of for each step. An arrangement is [warp][step][tile][lane] of 16 bytes. Within a warp the run is
/// shared by `lane_groups`, where a tile has fewer rows than the warp has lanes; each takes so many steps.
template <int tiles, int row_warps, int lane_groups, int depth_step_, int register_steps>
class Resident {
  public:
    static constexpr int depth_step = depth_step_;
    static constexpr int depth_warps = product_warps / row_warps;

    /// The steps of one warp.
    __device__ static int steps_of(int depth) {
        int const of_all_warps = depth_step * lane_groups * depth_warps;
        return (depth + of_all_warps - 1) / of_all_warps;
    }

    /// 16-byte values of a block's arrangement.
    __device__ static int arranged(int depth) {
        return product_warps * steps_of(depth) * tiles * 32;
    }

    __device__ Resident(SharedPieces& pieces, int depth)
        : steps_(steps_of(depth)), rest_(pieces.take<Quad<unsigned>>(product_warps * (steps_ - register_steps) * tiles * 32)) {}

    /// Loads this block's arrangement. No barrier: what a warp puts into shared memory only the same lanes read.
    __device__ __forceinline__ void load(Quad<unsigned> const* arrangement) {
        int const in_shared = steps_ - register_steps;
        arrangement += warp() * steps_ * tiles * 32 + lane();
        rest_ += warp() * in_shared * tiles * 32 + lane();
#pragma unroll
        for (int step = 0; step < register_steps; ++step) {
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile) {
                registers_[step][tile] = arrangement[(step * tiles + tile) * 32];
            }
        }
        for (int place = 0; place < in_shared * tiles; ++place) {
            rest_[place * 32] = arrangement[(register_steps * tiles + place) * 32];
        }
    }

    /// The steps of each warp.
    __device__ int steps() const {
        return steps_;
    }

    __device__ int padded_depth() const {
        return steps_ * lane_groups * depth_warps * depth_step;
    }

    /// The depth that this warp reads begins here, maybe in the padding,
    __device__ int first_depth() const {
        return warp() % depth_warps * steps_ * lane_groups * depth_step;
    }

    /// and ends before this.
    __device__ int end_depth() const {
        return first_depth() + steps_ * lane_groups * depth_step;
    }

  protected:
    __device__ static int warp() {
        return threadIdx.x / 32;
    }

    __device__ static int lane() {
        return threadIdx.x % 32;
    }

    /// What this lane has of a tile in a step beyond the registers'.
    __device__ Quad<unsigned> const& rest(int step, int tile) const {
        return rest_[((step - register_steps) * tiles + tile) * 32];
    }

    int steps_;
    Quad<unsigned>* rest_;  // [steps - register_steps][tiles][32], from this lane's on
    Quad<unsigned> registers_[register_steps > 0 ? register_steps : 1][tiles];
};

/// Words from shared memory, or from other blocks; aligned to all of them.
template <bool in_shared, int count>
__device__ __forceinline__ void load_operand(unsigned const* address, unsigned (&words)[count]) {
    if constexpr (in_shared) {
        Pack<unsigned, count> const loaded = *reinterpret_cast<Pack<unsigned, count> const*>(address);
        for (int word = 0; word < count; ++word) {
            words[word] = loaded.values[word];
        }
    } else {
        machine::load_exchanged(address, words);
    }
}

/// Products on tensor cores, of T = machine::half, or of float as TF32 (compute capability 8.0 on).
///
/// The warps are `row_warps` by `depth_warps`; a warp owns `row_tiles` tiles of 16 rows. The operand is in the order of its fragments:
/// [sample tile of 8][depth step][lane] of 8 bytes.
template <class T, int row_tiles, int row_warps, int register_steps, int sample_tiles>
class TensorCores : public Resident<row_tiles, row_warps, 1, 32 / static_cast<int>(sizeof(T)), register_steps> {
    using Base = Resident<row_tiles, row_warps, 1, 32 / static_cast<int>(sizeof(T)), register_steps>;

  public:
    using Element = T;
    using Base::depth_step;
    using Base::depth_warps;
    static constexpr int tiles = row_tiles;
    static constexpr int rows = 16 * row_tiles * row_warps;
    static constexpr int samples = 8 * sample_tiles;  // of a pass
    /// Between rows of sums; lanes that write together meet no bank twice.
    static constexpr int stride = samples + (sample_tiles % 2 == 0 ? 8 : 0);

    /// The last argument: whether all operands lie in shared memory.
    __device__ TensorCores(SharedPieces& pieces, int depth, bool)
        : Base(pieces, depth), sums_(pieces.take<float>(depth_warps * rows * stride)) {}

    /// A value as the operand and the arrangement hold it.
    __device__ static T element(float value) {
        if constexpr (is_same<T, float>) {
            return machine::round_to_tf32(value);
        } else {
            return machine::from_float<T>(value);
        }
    }

    /// What a lane holds of the matrix, matrix(row, k) being its float values, in one tile and step of a warp's run.
    template <class Matrix>
    __device__ static Quad<unsigned> arrange(Matrix const& matrix, int rows_of_matrix, int depth, int warp, int step, int tile, int lane) {
        constexpr int in_word = 4 / static_cast<int>(sizeof(T));
        Quad<unsigned> words;
        int const first_row = (warp / depth_warps * row_tiles + tile) * 16 + lane / 4;
        int const first_k = (warp % depth_warps * Base::steps_of(depth) + step) * depth_step + lane % 4 * in_word;
        for (int word = 0; word < 4; ++word) {
            words.values[word] = 0;
            for (int i = 0; i < in_word; ++i) {
                int const row = first_row + word % 2 * 8;
                int const k = first_k + word / 2 * 4 * in_word + i;
                if (row < rows_of_matrix && k < depth) {
                    words.values[word] |= machine::to_bits(element(matrix(row, k))) << i * 16;
                }
            }
        }
        return words;
    }

    /// Where an operand has the value of a sample at depth k.
    __device__ int place(int sample, int k) const {
        constexpr int in_word = 4 / static_cast<int>(sizeof(T));
        int const fragment = sample / 8 * this->steps_ * depth_warps + k / depth_step;
        int const in_step = k % depth_step;
        int const word = in_step / (4 * in_word);
        return ((fragment * 32 + sample % 8 * 4 + in_step / in_word % 4) * 2 + word) * in_word + in_step % in_word;
    }

    /// The matrix by the operand of a pass; `in_shared`: which lies in shared memory, else other blocks have written it. To be called by
    /// all warps; a barrier has to follow before `sum`, and another one before the next product.
    ///
    /// With `scales` each depth step's products of two neighbouring samples count times scales(step, sample of the first), a
    /// Pack<float, 2>; the step is counted from depth 0 on. scales.fetch() is called before, by the whole warp, when the first loads of
    /// the operand are under way.
    template <bool in_shared, class Scales = Unscaled>
    __device__ __forceinline__ void multiply(T const* operand, Scales const& scales = {}) {
        constexpr int ahead = sample_tiles < 8 ? 8 / sample_tiles : 1;  // steps whose loads are under way together
        // Products that do not wait for each other; scaled ones never do.
        constexpr bool scaled = !is_same<Scales, Unscaled>;
        constexpr int chains = row_tiles * sample_tiles < 2 && !scaled ? 2 : 1;
        float sums[chains][row_tiles][sample_tiles][4] = {};
        unsigned fragments[ahead][sample_tiles][2];
        int const own_first = this->first_depth() / depth_step;
        int const first = scaled ? machine::opaque(own_first) : own_first;  // or places of scales would fill registers from step to step
        unsigned const* const words = reinterpret_cast<unsigned const*>(operand) + (first * 32 + Base::lane()) * 2;
        auto const load = [&](int i, int step) {
#pragma unroll
            for (int tile = 0; tile < sample_tiles; ++tile) {
                load_operand<in_shared>(words + (tile * this->steps_ * depth_warps + step) * 64, fragments[i][tile]);
            }
        };
#pragma unroll
        for (int begin = 0; begin < register_steps; begin += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (begin + i < register_steps) {
                    load(i, begin + i);
                }
            }
            if constexpr (scaled) {
                if (begin == 0) {
                    scales.fetch();
                }
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (begin + i < register_steps) {
#pragma unroll
                    for (int tile = 0; tile < row_tiles; ++tile) {
                        add(sums[i % chains][tile], this->registers_[begin + i][tile], fragments[i], first + begin + i, scales);
                    }
                }
            }
        }
        for (int begin = register_steps; begin < this->steps_; begin += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (begin + i < this->steps_) {
                    load(i, begin + i);
                }
            }
            if constexpr (scaled) {
                if (begin == 0) {
                    scales.fetch();
                }
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (begin + i < this->steps_) {
#pragma unroll
                    for (int tile = 0; tile < row_tiles; ++tile) {
                        add(sums[i % chains][tile], this->rest(begin + i, tile), fragments[i], first + begin + i, scales);
                    }
                }
            }
        }
        float* const destination = sums_ + (Base::warp() % depth_warps * rows + Base::warp() / depth_warps * row_tiles * 16) * stride;
#pragma unroll
        for (int tile = 0; tile < row_tiles; ++tile) {
#pragma unroll
            for (int sample_tile = 0; sample_tile < sample_tiles; ++sample_tile) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int const row = tile * 16 + half * 8 + Base::lane() / 4;
                    int const sample = sample_tile * 8 + Base::lane() % 4 * 2;
                    Pack<float, 2> pair;
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        pair.values[i] = sums[0][tile][sample_tile][2 * half + i];
                        if constexpr (chains == 2) {
                            pair.values[i] += sums[1][tile][sample_tile][2 * half + i];
                        }
                    }
                    *reinterpret_cast<Pack<float, 2>*>(destination + row * stride + sample) = pair;
                }
            }
        }
    }

    /// An entry of the last product; `sample` is counted from the pass's first.
    __device__ float sum(int row, int sample) const {
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < depth_warps; ++part) {
            total += sums_[(part * rows + row) * stride + sample];
        }
        return total;
    }

  private:
    /// Adds a tile's product in one step.
    template <class Scales>
    __device__ __forceinline__ static void add(float (&sums)[sample_tiles][4], Quad<unsigned> const& weights,
                                               unsigned const (&fragments)[sample_tiles][2], int step, Scales const& scales) {
#pragma unroll
        for (int tile = 0; tile < sample_tiles; ++tile) {
            if constexpr (is_same<Scales, Unscaled>) {
                machine::multiply_add<T>(sums[tile], weights.values, fragments[tile]);
            } else {
                float product[4] = {};
                machine::multiply_add<T>(product, weights.values, fragments[tile]);
                Pack<float, 2> const factors = scales(step, tile * 8 + Base::lane() % 4 * 2);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    sums[tile][i] += product[i] * factors.values[i];
                    sums[tile][i + 2] += product[i + 2] * factors.values[i];
                }
            }
        }
    }

    float* sums_;  // [depth_warps][rows][stride]
};

/// Products of floats by multiply and add, a step being four of depth. `row_lanes` (8, 16 or 32) lanes side by side own the rows
/// lane + row_lanes slot, all warps the same; the warps, and in a warp the groups of so many lanes, share the depth, these in turn: what
/// they read together lies together. The operand is [sample][padded depth].
template <int row_lanes, int row_slots, int register_quads, int pass_samples>
class Fma : public Resident<row_slots, 1, 32 / row_lanes, 4, register_quads> {
    using Base = Resident<row_slots, 1, 32 / row_lanes, 4, register_quads>;

  public:
    using Element = float;
    using Base::depth_step;
    using Base::depth_warps;
    static constexpr int tiles = row_slots;
    static constexpr int rows = row_lanes * row_slots;
    static constexpr int samples = pass_samples;
    static constexpr int stride = samples | 1;

    __device__ Fma(SharedPieces& pieces, int depth, bool operand_in_shared)
        : Base(pieces, depth),
          sums_(pieces.take<float>(depth_warps * rows * stride)),
          staged_(pieces.take<Quad<float>>(operand_in_shared ? 0 : product_warps * samples * run_steps()) +
                  Base::warp() * samples * run_steps()) {}

    __device__ static float element(float value) {
        return value;
    }

    template <class Matrix>
    __device__ static Quad<unsigned> arrange(Matrix const& matrix, int rows_of_matrix, int depth, int warp, int step, int tile, int lane) {
        Quad<unsigned> words;
        int const row = tile * row_lanes + lane % row_lanes;
        int const first_k = ((warp * Base::steps_of(depth) + step) * lane_groups + lane / row_lanes) * 4;
        for (int e = 0; e < 4; ++e) {
            words.values[e] = row < rows_of_matrix && first_k + e < depth ? machine::to_bits(matrix(row, first_k + e)) : 0;
        }
        return words;
    }

    __device__ int place(int sample, int k) const {
        return sample * this->padded_depth() + k;
    }

    /// As in TensorCores.
    template <bool in_shared>
    __device__ __forceinline__ void multiply(float const* operand) {
        float sums[chains][row_slots][samples] = {};
        float const* const run = operand + this->first_depth();
        if constexpr (!in_shared) {
            stage(run);
        }
        auto const quad = [&](int sample, int step) {
            int const place = step * lane_groups + Base::lane() / row_lanes;
            if constexpr (in_shared) {
                return *reinterpret_cast<Quad<float> const*>(run + sample * this->padded_depth() + 4 * place);
            } else {
                return staged_[sample * run_steps() + place];
            }
        };
        auto const add = [&](Quad<unsigned> const& weights, Quad<float> const& values, int slot, int sample) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sums[e % chains][slot][sample] += machine::float_of_bits(weights.values[e]) * values.values[e];
            }
        };
#pragma unroll
        for (int step = 0; step < register_quads; ++step) {
#pragma unroll
            for (int sample = 0; sample < samples; ++sample) {
                Quad<float> const values = quad(sample, step);
#pragma unroll
                for (int slot = 0; slot < row_slots; ++slot) {
                    add(this->registers_[step][slot], values, slot, sample);
                }
            }
        }
#pragma unroll 1
        for (int step = register_quads; step < this->steps_; ++step) {
            Quad<float> values[samples];
#pragma unroll
            for (int sample = 0; sample < samples; ++sample) {
                values[sample] = quad(sample, step);
            }
#pragma unroll
            for (int slot = 0; slot < row_slots; ++slot) {
                Quad<unsigned> const weights = this->rest(step, slot);
#pragma unroll
                for (int sample = 0; sample < samples; ++sample) {
                    add(weights, values[sample], slot, sample);
                }
            }
        }
#pragma unroll
        for (int slot = 0; slot < row_slots; ++slot) {
#pragma unroll
            for (int sample = 0; sample < samples; ++sample) {
                float total = sums[0][slot][sample];
#pragma unroll
                for (int chain = 1; chain < chains; ++chain) {
                    total += sums[chain][slot][sample];
                }
#pragma unroll
                for (int lanes = row_lanes; lanes < 32; lanes *= 2) {
                    total += machine::shuffle_xor(total, lanes);
                }
                if (Base::lane() < row_lanes) {
                    sums_[(Base::warp() * rows + slot * row_lanes + Base::lane()) * stride + sample] = total;
                }
            }
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
    static constexpr int chains = row_slots * samples >= 4 ? 1 : row_slots * samples >= 2 ? 2 : 4;  // sums that do not wait for each other

    /// The steps of all groups of this warp's lanes.
    __device__ int run_steps() const {
        return lane_groups * this->steps_;
    }

    /// Copies what the warp reads of the operand, so that each value comes from afar once.
    __device__ __forceinline__ void stage(float const* run) {
        constexpr int ahead = 4;
        int const count = samples * run_steps();
        for (int begin = Base::lane(); begin < count; begin += 32 * ahead) {
            unsigned words[ahead][4];
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                int const place = begin + 32 * i;
                if (place < count) {
                    int const sample = place / run_steps();
                    int const step = place % run_steps();
                    machine::load_exchanged(reinterpret_cast<unsigned const*>(run + sample * this->padded_depth() + 4 * step), words[i]);
                }
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (begin + 32 * i < count) {
                    for (int e = 0; e < 4; ++e) {
                        staged_[begin + 32 * i].values[e] = machine::float_of_bits(words[i][e]);
                    }
                }
            }
        }
        __syncwarp();
    }

    float* sums_;          // [depth_warps][rows][stride]
    Quad<float>* staged_;  // [samples][run_steps], this warp's
};

/// No product at all.
struct NoProduct {
    static constexpr int samples = 0;

    __device__ NoProduct(SharedPieces&, int, bool) {}

    __device__ int padded_depth() const {
        return 0;
    }
};
