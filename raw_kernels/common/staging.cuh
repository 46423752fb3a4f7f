// Shared memory of a block, piece by piece; and how the operand of a product is copied there from other blocks.
#pragma once

inline constexpr int product_warps = 8;
inline constexpr int product_threads = 32 * product_warps;

/// Allocates the block's dynamic shared memory piece by piece, each aligned to 16 bytes.
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

/// The operand of a product in one pass, [samples of the pass][row], and this thread's loads of it.
template <class T>
struct Operand {
    T const* values = nullptr;  // null for none
    unsigned loaded = 0;        // bit i: whether load number i of a chunk is of a sample that takes part
};

__device__ constexpr int power_of_two_from(int number) {
    int power = 1;
    while (power < number) {
        power *= 2;
    }
    return power;
}

/// Copies an operand that other blocks computed to shared memory: each value once, chunk by chunk, and while a chunk is multiplied the
/// loads of the next one, or of the next pass, are in flight.
///
/// The `row_warps` warps that read the same run of the depth load it jointly; a run has so many steps, and a step `step_units` values of 16
/// bytes for each sample. Of a pass there are `samples`, and a thread has `loads` of 16 bytes in flight. All template arguments are powers
/// of two. A chunk in shared memory is [samples][row]; rows are so long that four of them can be read side by side, 32 bytes of each,
/// without meeting a bank twice.
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

    /// `memory` has `size(steps)` values. `depth_units`: how many 16-byte values of an operand's row hold data; what follows them counts
    /// as zero. `row_bytes`: between an operand's samples.
    __device__ Staging(Vector4<unsigned>* memory, int steps, int depth_units, int row_bytes)
        : steps_(steps), row_bytes_(row_bytes), chunks_(memory + threadIdx.x / 32 % depth_warps * buffers(steps) * chunk_size) {
        int const first = threadIdx.x / 32 % depth_warps * steps * step_units;  // at which the run begins
        // Stored: compilers would otherwise recompute them in each step.
        first_byte_ = machine::opaque(first_sample() * row_bytes + (first + first_unit()) * 16);
        left_ = machine::opaque(min(depth_units - first, steps * step_units) - first_unit());
        own_ = chunks_ + machine::opaque(first_sample() * row + first_unit());
    }

    /// The thread's loads of an operand; takes(sample) is whether a sample takes part.
    template <class Takes>
    __device__ unsigned loaded(Takes const& takes) const {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            bits |= (takes(first_sample() + more_samples(i)) ? 1u : 0u) << i;
        }
        return bits;
    }

    /// Begins to load the chunk of an operand that starts at step `begin`.
    template <class T, class Exchange>
    __device__ __forceinline__ void load(Exchange const& exchange, Operand<T> const& operand, int begin) {
        int const left = left_ - begin * step_units;
        unsigned const loaded = operand.loaded & exchange.readable();
        bool const all = loaded == (1u << loads) - 1 && more_units(loads - 1) < left;
        if (all) {  // as in most steps
#pragma unroll
            for (int i = 0; i < loads; ++i) {
                exchange.load(address_of(operand, first_byte_, begin, i), under_way_[i].values);
            }
        } else {
#pragma unroll
            for (int i = 0; i < loads; ++i) {
                for (int word = 0; word < 4; ++word) {
                    under_way_[i].values[word] = 0;
                }
                if ((loaded >> i & 1) != 0 && more_units(i) < left) {
                    exchange.load(address_of(operand, first_byte_, begin, i), under_way_[i].values);
                }
            }
        }
    }

    /// Called by all warps when the chunk that starts at step `begin` is to be multiplied, after its `load`: waits until all of it has
    /// arrived, and with the first one for `others`, copies it to shared memory, and begins to load what follows: the next chunk, or else
    /// the first one of `next`.
    template <class T, class Exchange, class Others>
    __device__ __forceinline__ void enter(Exchange const& exchange, Operand<T> const& operand, Operand<T> const& next, int begin,
                                          Others& others) {
        // All missing data is polled at once.
        Wait wait;
        while (!(is_there(exchange) & others.is_there()) && exchange.look_again(wait)) {
            load_missing(exchange, operand, begin);
            others.load_missing();
        }
        if (begin == 0) {
            others.keep();
        }
        Vector4<unsigned>* const place = own_ + buffer_of(begin) * chunk_size;
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            place[more_samples(i) * row + more_units(i)] = under_way_[i];
        }
        bool const is_last = begin + chunk_steps >= steps_;
        Operand<T> const following = is_last ? next : operand;
        if (following.values != nullptr) {
            load(exchange, following, is_last ? 0 : begin + chunk_steps);
        }
        if constexpr (row_warps == 1) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }

    /// Where the chunk that a step belongs to is in shared memory.
    __device__ Vector4<unsigned>* chunk(int step) const {
        return chunks_ + buffer_of(step) * chunk_size;
    }

  private:
    /// Whether all loads in flight have arrived; values that are not loaded are zero.
    template <class Exchange>
    __device__ __forceinline__ bool is_there(Exchange const& exchange) const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            all &= exchange.is_there(under_way_[i].values);
        }
        return all;
    }

    /// Repeats the loads that have not arrived, of the chunk that starts at step `begin`.
    template <class T, class Exchange>
    __device__ __forceinline__ void load_missing(Exchange const& exchange, Operand<T> const& operand, int begin) {
        int const first_byte = machine::opaque(first_byte_);  // else addresses would be computed even if nothing is missing
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            if (!exchange.is_there(under_way_[i].values)) {
                exchange.load(address_of(operand, first_byte, begin, i), under_way_[i].values);
            }
        }
    }

    /// Chunks take turns in two buffers, so that one barrier is enough for each.
    __device__ static int buffers(int steps) {
        return steps > chunk_steps ? 2 : 1;
    }

    /// The number of the buffer that holds a step's chunk.
    __device__ static int buffer_of(int step) {
        return step / chunk_steps % 2;
    }

    /// The sample of the thread's first load, and the 16-byte value in the sample's part of a chunk; then what its load number i has more.
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

    /// The thread's number among those that load jointly.
    __device__ static unsigned thread() {
        return threadIdx.x / 32 / depth_warps * 32 + threadIdx.x % 32;
    }

    /// Where the thread's load number i of a chunk is; `first_byte` as the member.
    template <class T>
    __device__ unsigned const* address_of(Operand<T> const& operand, int first_byte, int begin, int i) const {
        char const* const first = reinterpret_cast<char const*>(operand.values) + first_byte + begin * step_units * 16;
        long long const row_bytes = row_bytes_;  // times a constant, added: one instruction
        return reinterpret_cast<unsigned const*>(first + more_samples(i) * row_bytes + more_units(i) * 16);
    }

    int steps_;
    int row_bytes_;            // between an operand's samples
    int first_byte_;           // of an operand, at which the thread's first load of the first chunk begins
    int left_;                 // 16-byte values from there on that the run has, and that hold data; 0 or less for none
    Vector4<unsigned>* chunks_;   // [buffers] chunks, of the warps that load jointly
    Vector4<unsigned>* own_;      // the place of the thread's first value in the first of them
    Vector4<unsigned> under_way_[loads];
};
