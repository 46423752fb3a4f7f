// How the blocks of a cluster exchange values step by step: from shared memory to shared memory.
//
// Each block has all values of an exchange in its own shared memory: a thread that stores a value writes it to every block, including its
// own, and each block counts arrivals. No words are polled, and nothing crosses to the L2 cache. This needs two counters, whose exchanges
// take turns: a block may be one exchange ahead of another, but not two, since it waits for values of all. So two buffers are enough; one
// is if another exchange comes between reading from it and storing to it again.
//
// A barrier of the cluster would do the same, but it makes each thread wait for all its writes, including outputs in global memory.
// Blocks of a cluster are scheduled together, so waits need no timeout.
#pragma once

/// A block's part in its group, a cluster of so many blocks, along the x axis of the grid.
template <int blocks>
class ClusterExchange {
  public:
    /// Called by all threads before the first `store`, a barrier of the cluster. `arrivals`: two in shared memory, at the same place in
    /// each block. `bytes`: of the words that the whole group stores in each exchange. Earlier writes of this block to its buffers are done
    /// before any other block's values.
    __device__ ClusterExchange(machine::Arrivals* arrivals, int bytes) : arrivals_(arrivals), bytes_(bytes) {
        if (threadIdx.x == 0) {
            machine::begin_arrivals(arrivals_);
            machine::begin_arrivals(arrivals_ + 1);
        }
        machine::synchronize_cluster();
    }

    /// Writes a value that others will read after the next `release`, if the thread has one. A whole warp has to call it, and halves travel
    /// in pairs, see `BlockExchange`.
    template <class E>
    __device__ void store(E* place, E value, bool has_value) const {
        unsigned word = machine::to_bits(value);
        bool writes = has_value;
        if constexpr (sizeof(E) == 2) {
            word |= machine::shuffle_xor(word, 1) << 16;  // counts in even lanes
            writes = has_value && threadIdx.x % 2 == 0;
        }
        if (writes) {
#pragma unroll
            for (int block = 0; block < blocks; ++block) {
                machine::store_to_block(reinterpret_cast<unsigned*>(place), word, arrivals_of(number_ + 1), block);
            }
        }
    }

    /// A barrier of the block, after which waits for the exchange cover everything that the group stores in it.
    __device__ void release() {
        __syncthreads();
        ++number_;
        if (threadIdx.x == 0) {
            machine::expect_arrivals(arrivals_of(number_), bytes_);
        }
    }

    /// Waits for the last exchange that this block has released: for all blocks, regardless of the arguments.
    __device__ void wait(int, int) const {
        while (!machine::have_arrived(arrivals_of(number_), (number_ - 1) / 2 % 2)) {
        }
    }

    __device__ bool has_expired() const {
        return false;
    }

  private:
    /// Of the exchange with this number; they are counted from 1.
    __device__ machine::Arrivals* arrivals_of(unsigned number) const {
        return arrivals_ + number % 2;
    }

    machine::Arrivals* arrivals_;
    int bytes_;
    unsigned number_ = 0;
};

template <>
class BlockExchange<Protocol::cluster_of_2> : public ClusterExchange<2> {
  public:
    using ClusterExchange<2>::ClusterExchange;
};

template <>
class BlockExchange<Protocol::cluster_of_4> : public ClusterExchange<4> {
  public:
    using ClusterExchange<4>::ClusterExchange;
};
