// How blocks that run at the same time, a group, hand each other what they make, step by step.
//
// Each block has a flag, a 4-byte word that is zero before the launch, and the flags of a group lie side by side. An exchange has three
// parts: every thread of a block puts its values, `publish` raises the block's flag to the number of the exchange, and `wait` lets a
// warp pass once the flags of the blocks whose values it needs are up. Exchanges are counted from 1.
//
// Values may go into two buffers that take turns, as long as the warps of a block together wait for all blocks, and a barrier of the block
// lies between these waits and what its threads put next: who puts number n + 1 then knows that all have read number n - 1. One buffer is
// enough where another exchange comes between reading from it and putting into it again.
//
// tests/test_exchange_order.py shows that this suffices by the PTX memory model, and what happens without each part of it.
#pragma once

/// A block's part in its group. Without others (`alone`) the values stay in shared memory, and a barrier is all there is.
template <bool alone>
class Exchange {
  public:
    /// `flags` are the group's, `own` is this block's place there. A wait gives up, and the launch fails, after `most_polls` looks.
    __device__ Exchange(unsigned* flags, int own, unsigned most_polls) : flags_(flags), own_(own), most_polls_(most_polls) {}

    /// Writes a value that others will read after the next `publish`.
    template <class E>
    __device__ void put(E* place, E value) const {
        if constexpr (alone) {
            *place = value;
        } else {
            machine::store_exchanged(place, value);
        }
    }

    /// A barrier of the block, and what its threads put before it is there for those who wait.
    __device__ void publish() {
        ++epoch_;
        __syncthreads();
        if constexpr (!alone) {
            if (threadIdx.x == 0) {
                machine::store_release(flags_ + own_, epoch_);
            }
        }
    }

    /// Called by a whole warp: waits for the blocks [first, last] to have published as often as this one, or `fewer` times less; they
    /// may be none.
    __device__ void wait(int first, int last, int fewer = 0) const {
        if constexpr (!alone) {
            unsigned const awaited = epoch_ - fewer;
            for (int block = first + static_cast<int>(threadIdx.x % 32); block <= last; block += 32) {
                for (unsigned polls = 0; machine::load_relaxed(flags_ + block) < awaited; ++polls) {
                    if (polls == most_polls_) {
                        machine::trap();
                    }
                    machine::pause();
                }
                machine::load_acquire(flags_ + block);
            }
            __syncwarp();
        }
    }

  private:
    unsigned* flags_;
    int own_;
    unsigned most_polls_;
    unsigned epoch_ = 0;
};
