// Shared memory of a block, piece by piece; and how the operand of a product comes there from other blocks.
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

/// The operand of a product in one pass, [samples of the pass][row], and what this thread loads of it.
template <class T>
struct Operand {
    T const* values;        // null for none
    unsigned loaded = ~0u;  // bit i: whether load number i of a chunk is of a sample that takes part
};

__device__ constexpr int power_of_two_from(int number) {
    int power = 1;
    while (power < number) {
        power *= 2;
    }
    return power;
}

/// Brings an operand that other blocks made into shared memory: each value once, chunk by chunk, and while a chunk is multiplied the loads
/// of the next one, or of the next pass, are under way.
///
/// The `row_warps` warps that read the same run of the depth load it together; a run has so many steps, and a step `step_units` values of
/// 16 bytes for each sample. Of a pass there are `samples`, and a thread has `loads` of 16 bytes under way. All template arguments are powers
/// of two. A chunk in shared memory is [samples][row]; rows are so long that four of them can be read side by side, 32 bytes of each, without
/// meeting a bank twice.
template <int samples, int row_warps, int step_units, int loads>
class Staging {
    static constexpr int threads = 32 * row_warps;
    static constexpr int chunk_units = loads * threads / samples;  // 16-byte values of a sample
    static constexpr int chunk_size = samples * (chunk_units + ((2 - chunk_units) & 7));

  public:
    static constexpr int depth_warps = product_warps / row_warps;
    static constexpr int chunk_steps = chunk_units / step_units;
    static_assert(chunk_steps > 0, "a step has more values than all threads load together");
    /// Between samples, in 16-byte values.
    static constexpr int row = chunk_size / samples;

    /// 16-byte values of shared memory that a block needs for runs of so many steps.
    __device__ static int size(int steps) {
        return depth_warps * buffers(steps) * chunk_size;
    }

    /// `memory` has `size(steps)` values. `depth_units`: how many 16-byte values of an operand's row hold something; what follows them counts
    /// as zero.
    __device__ Staging(Quad<unsigned>* memory, int steps, int depth_units)
        : steps_(steps),
          first_(threadIdx.x / 32 % depth_warps * steps * step_units),
          end_(min(depth_units - first_, steps * step_units)),
          chunks_(memory + threadIdx.x / 32 % depth_warps * buffers(steps) * chunk_size) {}

    /// What the thread loads of an operand of which takes(sample) tells which samples count.
    template <class Takes>
    __device__ unsigned loaded(Takes const& takes) const {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            bits |= (takes(first_sample() + more_samples(i)) ? 1u : 0u) << i;
        }
        return bits;
    }

    /// Begins to load the chunk of an operand that starts at step `begin`; `row_words`: between its samples.
    template <class T, class Exchange>
    __device__ __forceinline__ void load(Exchange const& exchange, Operand<T> const& operand, int row_words, int begin) {
        unsigned const* const address = address_of(operand, row_words, begin);
        int const left = left_from(begin);
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            for (int word = 0; word < 4; ++word) {
                under_way_[i].values[word] = 0;
            }
            if (is_loaded(operand, left, i)) {
                exchange.load(address + offset(row_words, i), under_way_[i].values);
            }
        }
    }

    /// Called by all warps when the chunk that starts at step `begin` is to be multiplied, after its `load`: waits until all of it has come,
    /// and what `others` wait for with the first one, brings it into shared memory, and begins to load what follows: the next chunk, or else
    /// the first one of `next`.
    template <class T, class Exchange, class Others>
    __device__ __forceinline__ void enter(Exchange const& exchange, Operand<T> const& operand, Operand<T> const& next, int row_words,
                                          int begin, Others& others) {
        // All that is missing is looked for together.
        for (unsigned polls = 0; !(is_there(exchange) & others.is_there()); ++polls) {
            exchange.look_again(polls);
            load_missing(exchange, operand, row_words, begin);
            others.load_missing();
        }
        if (begin == 0) {
            others.keep();
        }
        Quad<unsigned>* const place = chunk(begin) + first_sample() * row + first_unit();
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            place[more_samples(i) * row + more_units(i)] = under_way_[i];
        }
        bool const is_last = begin + chunk_steps >= steps_;
        Operand<T> const following = is_last ? next : operand;
        if (following.values != nullptr) {
            load(exchange, following, row_words, is_last ? 0 : begin + chunk_steps);
        }
        if constexpr (row_warps == 1) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }

    /// Where the chunk that a step belongs to is in shared memory.
    __device__ Quad<unsigned>* chunk(int step) const {
        return chunks_ + step / chunk_steps % 2 * chunk_size;
    }

  private:
    /// Whether all that is under way has come; what is not loaded is zero, which is there.
    template <class Exchange>
    __device__ __forceinline__ bool is_there(Exchange const& exchange) const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            all &= exchange.is_there(under_way_[i].values);
        }
        return all;
    }

    /// Loads again what has not come, of the chunk that starts at step `begin`.
    template <class T, class Exchange>
    __device__ __forceinline__ void load_missing(Exchange const& exchange, Operand<T> const& operand, int row_words, int begin) {
        unsigned const* const address = address_of(operand, row_words, begin);
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            if (!exchange.is_there(under_way_[i].values)) {
                exchange.load(address + offset(row_words, i), under_way_[i].values);
            }
        }
    }

    /// Chunks take turns in two buffers, so that one barrier is enough for each.
    __device__ static int buffers(int steps) {
        return steps > chunk_steps ? 2 : 1;
    }

    /// The sample of the thread's first load, and the 16-byte value in the sample's part of a chunk; then what its load number i has more.
    /// What follows from the thread's number is computed anew for each chunk: kept, it would take registers that the matrix could have.
    __device__ static int first_sample() {
        return thread() / chunk_units;
    }

    __device__ static int first_unit() {
        return thread() % chunk_units;
    }

    __device__ static constexpr int more_samples(int i) {
        return i * threads / chunk_units;
    }

    __device__ static constexpr int more_units(int i) {
        return i * threads % chunk_units;
    }

    /// The thread's number among those that load together.
    __device__ static int thread() {
        int const own = machine::opaque(threadIdx.x);
        return own / 32 / depth_warps * 32 + own % 32;
    }

    /// How many values the run still has from the thread's first one on.
    __device__ int left_from(int begin) const {
        return end_ - begin * step_units - first_unit();
    }

    template <class T>
    __device__ static bool is_loaded(Operand<T> const& operand, int left, int i) {
        return (operand.loaded >> i & 1) != 0 && more_units(i) < left;
    }

    template <class T>
    __device__ unsigned const* address_of(Operand<T> const& operand, int row_words, int begin) const {
        int const words = first_sample() * row_words + (first_ + begin * step_units + first_unit()) * 4;
        return reinterpret_cast<unsigned const*>(operand.values) + words;
    }

    __device__ static int offset(int row_words, int i) {
        return more_samples(i) * row_words + more_units(i) * 4;
    }

    int steps_;
    int first_;                // the 16-byte value of an operand's row at which the run begins
    int end_;                  // how many of the run hold something; below zero for none
    Quad<unsigned>* chunks_;   // [buffers] chunks, of the warps that load together
    Quad<unsigned> under_way_[loads];
};
