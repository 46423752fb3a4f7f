// How blocks that run at the same time, a group, exchange values step by step.
//
// An exchange has two sides: threads store values, and others of the group load them. There are two protocols through global memory.
//
//   flags  Each block has a flag, a 4-byte word that is zero before the launch, and the flags of a group are contiguous. When all threads
//          of a block have stored their values, `release` raises its flag to the number of the exchange, and `wait` lets a warp pass once
//          the flags of the blocks whose values it needs are up. Exchanges are counted from 1. Values may go into two buffers that take
//          turns, as long as the warps of a block wait for all blocks between them, and a barrier of the block separates these waits from
//          what its threads store next: a thread that stores number n + 1 then knows that all have read number n - 1. One buffer is enough
//          where another exchange comes between reading from it and storing to it again. The value, the flag, the poll and the load each
//          cross to the L2 cache and wait for it.
//   data   There are no flags: each exchange has its own buffer, whose words are all `sentinel` before the launch and are written once,
//          and a thread that loads a word that is still `sentinel` repeats the load, in one batch with all other missing words: one after
//          the other, each would cost a trip to the L2 cache. Nothing is assumed about the order of different words, even if they are
//          adjacent or loaded by one instruction; a word that has arrived does not change. Only the store and the load that finds it cross
//          to the L2 cache.
//
// A block without others has the protocol `alone`: its values stay in shared memory, and it needs only a barrier. A group that is a
// cluster exchanges values from shared memory to shared memory: common/cluster_exchange.cuh.
//
// tests/memory_model/test_exchange_order.py shows that this is correct in the PTX memory model, and that each part is necessary.
#pragma once

/// A cluster's has the number of its blocks.
enum class Protocol { data = -2, flags = -1, alone = 1, cluster_of_2 = 2, cluster_of_4 = 4 };

__device__ constexpr bool is_cluster(Protocol protocol) {
    return static_cast<int>(protocol) > 1;
}

/// Whether a block reads an exchange only from its own shared memory.
__device__ constexpr bool is_in_own_memory(Protocol protocol) {
    return static_cast<int>(protocol) > 0;
}

/// A word that is no valid value: two halves, or a float, that are NaN with all bits set.
inline constexpr unsigned sentinel = 0xFFFFFFFF;

/// The buffers of an exchange at each of `steps` steps: alone one, with flags and in a cluster
/// `taking_turns` (1 or 2), with data as many as steps.
template <Protocol protocol, class E>
class Turns {
  public:
    /// How many of them lie in a block's own shared memory.
    __device__ static constexpr int in_own_memory(int taking_turns) {
        return is_cluster(protocol) ? taking_turns : protocol == Protocol::alone ? 1 : 0;
    }

    /// `memory`: [groups][count(taking_turns, steps)][size], or the block's own buffers.
    __device__ Turns(E* memory, int group, int taking_turns, int steps, long long size)
        : now_(memory + (is_in_own_memory(protocol) ? 0 : group * count(taking_turns, steps) * size)),
          to_next_(machine::opaque(count(taking_turns, steps) == 1 ? 0 : size)) {}

    /// The buffer of the current step,
    __device__ E* now() const {
        return now_;
    }

    /// that of the next one,
    __device__ E* next() const {
        return now_ + to_next_;
    }

    /// and that of the previous step.
    __device__ E* before() const {
        return protocol == Protocol::data ? now_ - to_next_ : now_ + to_next_;
    }

    /// Advances to the next step.
    __device__ void advance() {
        now_ += to_next_;
        if constexpr (protocol == Protocol::flags || is_cluster(protocol)) {
            to_next_ = -to_next_;
        }
    }

  private:
    __device__ static long long count(int taking_turns, int steps) {
        return protocol == Protocol::data ? steps : protocol == Protocol::alone ? 1 : taking_turns;
    }

    E* now_;
    long long to_next_;
};

/// How long the blocks of a launch wait for each other, and where they report a timeout. Times are in units of 1024 ns.
struct Timeout {
    unsigned* expired;     // becomes 1: then no block waits any more. Before the launch it has another value, that of the exchange buffers
    unsigned* report;      // in host memory: becomes 1, for the operator that the launch belongs to
    unsigned* any_report;  // the same, for all operators. Both are null if the device cannot write there: then the launch ends with a trap
    unsigned limit;        // below 2^27
};

/// A thread's wait for a condition. It uses few registers, since it is live when all others are in use.
struct Wait {
    unsigned looks = 0;  // and above the bits of `looks_without_clock` the elapsed time, to which that many polls add one
    unsigned last = 0;   // when the clock was read
};

/// A block's part in its group.
template <Protocol protocol>
class BlockExchange {
  public:
    /// `flags` are the group's, `own` is this block's index there.
    __device__ BlockExchange(unsigned* flags, int own, Timeout const& timeout) : flags_(flags), own_(own), timeout_(timeout) {
        if (protocol == Protocol::flags && threadIdx.x == 0) {
            given_up() = 0;
        }
    }

    /// Writes a value that others will read after the next `release`, if the thread has one.
    ///
    /// With several blocks a whole warp has to call it, and halves are stored in pairs: the places of lanes 2n and 2n + 1 are the halves of
    /// one word, which is written if the former has a value.
    template <class E>
    __device__ void store(E* place, E value, bool has_value) const {
        if constexpr (protocol == Protocol::alone) {
            if (has_value) {
                *place = value;
            }
        } else {
            unsigned word = machine::to_bits(value);
            bool writes = has_value;
            if constexpr (sizeof(E) == 2) {
                word |= machine::shuffle_xor(word, 1) << 16;  // counts in even lanes
                writes = has_value && threadIdx.x % 2 == 0;
            }
            if (writes && !has_given_up()) {
                unsigned* const address = reinterpret_cast<unsigned*>(place);
                if constexpr (protocol == Protocol::data) {
                    machine::store_relaxed(address, word == sentinel ? 0x7FFF7FFF : word);  // the payload of a NaN does not matter
                } else {
                    machine::store_exchanged(address, word);
                }
            }
        }
    }

    /// A barrier of the block; waiting blocks see what its threads stored before it.
    __device__ void release() {
        bool const is_last = has_given_up();
        __syncthreads();
        if constexpr (protocol == Protocol::flags) {
            ++epoch_;
            if (threadIdx.x == 0 && !is_last) {
                machine::store_release(flags_ + own_, epoch_);
            }
        }
    }

    /// Called by a whole warp: waits for the blocks [first, last] to have released as often as this one, or `fewer` times less; they
    /// may be none. Only flags are waited for.
    ///
    /// After a timeout other blocks may be writing, or reading what this block would write next: from then on the
    /// warp reads nothing, and the block, from its next barrier on, neither stores nor releases.
    __device__ void wait(int first, int last, int fewer = 0) {
        if constexpr (protocol == Protocol::flags) {
            unsigned const awaited = epoch_ - fewer;
            bool in_time = true;
            for (int block = first + static_cast<int>(threadIdx.x % 32); block <= last; block += 32) {
                // Each poll acquires: a separate load after the flag is seen would be one more trip to the L2 cache.
                Wait wait;
                while (machine::load_acquire(flags_ + block) < awaited && in_time) {
                    in_time = look_again(wait);
                }
            }
            __syncwarp();
            if (machine::ballot(!in_time) != 0) {
                readable_ = 0;
                atomicExch(&given_up(), 1u);
            }
        }
    }

    /// Begins to read 16 bytes that others have stored, or with `data` will store.
    __device__ void load(unsigned const* address, unsigned (&words)[4]) const {
        if constexpr (protocol == Protocol::data) {
            machine::load_relaxed(address, words);
        } else {
            machine::load_exchanged(address, words);
        }
    }

    /// All bits, or none if the warp has timed out and must load nothing.
    __device__ unsigned readable() const {
        return protocol == Protocol::flags ? readable_ : ~0u;
    }

    /// Whether all of them have arrived; else they have to be read again.
    __device__ bool is_there(unsigned const (&words)[4]) const {
        return protocol != Protocol::data ||
               ((words[0] != sentinel) & (words[1] != sentinel) & (words[2] != sentinel) & (words[3] != sentinel));
    }

    /// Called between two polls: whether to poll again. If not, the thread continues without the missing data, as do all others that wait,
    /// so that the launch ends: if a single thread exited, the products of its warp would hang.
    __device__ __forceinline__ bool look_again(Wait& wait) const {
        machine::pause(wait.looks);
        if (++wait.looks % looks_without_clock != 0) {
            return true;
        }
        if (machine::load_relaxed(timeout_.expired) == 1) {
            return false;
        }
        // A long gap between polls means that this thread could not run, and neither could those that it waits for: a debugger
        // has stopped the device, or other work was scheduled. It counts little, as does the time before the first reading.
        unsigned const now = machine::clock_units();
        wait.looks += min(now - wait.last, longest_look) * looks_without_clock;
        wait.last = now;
        if (wait.looks / looks_without_clock <= timeout_.limit) {
            return true;
        }
        if (timeout_.report == nullptr) {
            machine::trap();
        }
        machine::store_relaxed(timeout_.expired, 1);
        machine::store_to_host(timeout_.report, 1);
        machine::store_to_host(timeout_.any_report, 1);
        return false;
    }

    /// Whether some block has timed out, so that results of this one may be based on missing data. Called after a barrier that
    /// follows the last wait.
    __device__ bool has_expired() const {
        if constexpr (protocol == Protocol::alone) {
            return false;
        } else {
            return machine::load_relaxed(timeout_.expired) == 1;
        }
    }

  private:
    static constexpr unsigned looks_without_clock = 32;
    static constexpr unsigned longest_look = 1024;

    /// Whether some warp of the block has timed out at a flag: written between `release` and the barrier after a product.
    __device__ static unsigned& given_up() {
        __shared__ unsigned word;
        return word;
    }

    /// Called between the barrier after a product and `release`, and before the first of them.
    __device__ bool has_given_up() const {
        return protocol == Protocol::flags && epoch_ > 0 && given_up() != 0;
    }

    unsigned* flags_;
    int own_;
    Timeout timeout_;  // not a reference, which would take registers
    unsigned epoch_ = 0;
    unsigned readable_ = ~0u;
};
