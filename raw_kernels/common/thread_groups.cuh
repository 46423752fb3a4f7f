// Threads that work on groups of entries, where tensors of the same sizes may lie in memory in any order.
//
// A vector is `width` neighbours along the innermost axis of memory. Either that axis is part of each group, and a vector lies within one
// group; or it counts groups, `across` them, and a vector has one entry of each of `width` groups. The other axes are the rows, which a
// group runs over, and the outer ones, which count groups.
//
//   NCHW, within groups   outer C, rows N, innermost H W: a group is rows of vectors
//   NHWC, across groups   rows N H W, innermost C: a group is an entry of one vector in each row
//
// A thread group is `lanes` x `slots` threads of a block. Its lanes have neighbouring vectors across groups (within groups there is one
// lane), its slots process the vectors of their groups in turn. A block is several thread groups; blockIdx.x counts blocks of thread
// groups, blockIdx.y splits: equal parts of each group's vectors, one for each block.
#pragma once

#include "common/axes.cuh"
#include "common/types.cuh"

/// Threads of a block, at most.
inline constexpr int most_block_threads = 512;

/// The blocks of so many threads that must fit a multiprocessor: across groups a thread needs more registers.
template <bool across>
inline constexpr int resident_blocks = across ? 1 : 2;

/// How many threads a thread group has, as logarithms.
struct ThreadGroupSize {
    int lanes_log2;
    int slots_log2;
};

/// How a grid divides the groups of tensors that share their sizes.
template <int tensors>
struct ThreadGroups {
    Axes<tensors> outer;
    Axes<tensors> rows;
    long long vector_strides[tensors];  // from one vector to the next along the innermost axis, in elements; 0: it repeats one element
    unsigned vectors;                   // of a group (of `width` groups, across), in numbers below 2^32 - 2^12
    unsigned split_vectors;             // of a split; the last one has the rest
    unsigned row_vectors;               // vectors of a row that are of one group: 1 across groups
    unsigned step_rows;                 // slots = step_rows row_vectors + step_columns
    unsigned step_columns;
    unsigned columns;                   // vectors side by side that are of different groups: 1 within groups
    unsigned tiles;                     // columns / lanes, rounded up
    unsigned count;          // outer entries x tiles
    ThreadGroupSize size;
};

/// The places so many strides further.
template <int tensors>
__device__ __forceinline__ Places<tensors> further(Places<tensors> places, long long const (&strides)[tensors], unsigned count) {
#pragma unroll
    for (int tensor = 0; tensor < tensors; ++tensor) {
        places.of[tensor] += count * strides[tensor];
    }
    return places;
}

/// A thread's place in its thread group.
struct Member {
    bool present;     // whether it has a group; it arrives at barriers in any case
    unsigned outer;   // the entry of its groups on the outer axes
    unsigned column;  // its vector across groups
    unsigned slot;

    template <int tensors>
    __device__ Member(ThreadGroups<tensors> const& thread_groups, unsigned block) {
        unsigned const thread = threadIdx.x;
        int const thread_group_log2 = thread_groups.size.lanes_log2 + thread_groups.size.slots_log2;
        unsigned const thread_group = block * (blockDim.x >> thread_group_log2) + (thread >> thread_group_log2);
        outer = thread_group / thread_groups.tiles;
        column = ((thread_group - outer * thread_groups.tiles) << thread_groups.size.lanes_log2) + (thread & ((1u << thread_groups.size.lanes_log2) - 1));
        slot = (thread >> thread_groups.size.lanes_log2) & ((1u << thread_groups.size.slots_log2) - 1);
        present = thread_group < thread_groups.count && column < thread_groups.columns;
        if (!present) {
            outer = column = 0;  // so that its places are within the tensors
        }
    }

    /// Whether it writes for its lane.
    __device__ bool leads() const { return present && slot == 0; }

    /// The number of its group, of the first one across groups.
    template <int width, bool across, int tensors>
    __device__ unsigned group(ThreadGroups<tensors> const& thread_groups) const {
        return across ? (outer * thread_groups.columns + column) * width : outer;
    }

    /// Where its first entry lies in each tensor.
    template <int tensors>
    __device__ Places<tensors> origin(ThreadGroups<tensors> const& thread_groups) const {
        return further(locate(thread_groups.outer, outer), thread_groups.vector_strides, column);
    }
};

/// Passes the places of a thread's vectors in its split to `take`, `unrolled` at a time and the last ones one by one: take(places, number),
/// an array of the places of so many vectors, and which of the thread's vectors the first of them is. Backwards it starts at the end,
/// which the cache still holds after a pass forwards.
template <bool backward, int unrolled, int tensors, class Take>
__device__ __forceinline__ void visit_vectors(ThreadGroups<tensors> const& thread_groups, Member const& member, unsigned split, Take const& take) {
    unsigned const start = split * thread_groups.split_vectors;
    unsigned const length = min(thread_groups.vectors - start, thread_groups.split_vectors);  // an end may be beyond 2^32
    unsigned const count = member.present && member.slot < length ? ((length - member.slot - 1) >> thread_groups.size.slots_log2) + 1 : 0;
    unsigned const begin = start + member.slot;
    unsigned const first = backward && count > 0 ? begin + ((count - 1) << thread_groups.size.slots_log2) : begin;
    Places<tensors> const origin = member.origin(thread_groups);
    unsigned const row_vectors = thread_groups.row_vectors;
    unsigned row = first / row_vectors;
    unsigned column = first - row * row_vectors;
    auto const next = [&](auto& places) {
        constexpr int vectors = sizeof(places) / sizeof(places[0]);
        unsigned rows[vectors];
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            rows[vector] = row;
            places[vector] = further(origin, thread_groups.vector_strides, column);
            if constexpr (backward) {
                // below zero the numbers wrap around, past the range that is read
                bool const wraps = column < thread_groups.step_columns;
                row -= thread_groups.step_rows + wraps;
                column += (wraps ? row_vectors : 0) - thread_groups.step_columns;
            } else {
                row += thread_groups.step_rows;
                column += thread_groups.step_columns;
                if (column >= row_vectors) {
                    column -= row_vectors;
                    ++row;
                }
            }
        }
        add_places(thread_groups.rows, rows, places);
    };
    unsigned left = count;
    for (; left >= unrolled; left -= unrolled) {
        Places<tensors> places[unrolled];
        next(places);
        take(places, backward ? left - 1 : count - left);
    }
    for (; left > 0; --left) {
        Places<tensors> places[1];
        next(places);
        take(places, backward ? left - 1 : count - left);
    }
}

/// A thread's cache in dynamic shared memory between two passes over the same split, forwards and backwards: of each of `tensors` tensors
/// the first `count` of its vectors, the others being those that the cache may still hold. A thread accesses only its own vectors, so no
/// barrier is needed, and they are next to those of its neighbours, without bank conflicts.
template <class Vector, int tensors>
class CachedVectors {
public:
    /// Nothing.
    __device__ __forceinline__ CachedVectors() : own_(nullptr), count_(0) {}

    /// So many vectors of each thread, after the first bytes of the shared memory.
    __device__ __forceinline__ CachedVectors(unsigned count, unsigned first_bytes)
        : own_(reinterpret_cast<Vector*>(machine::dynamic_shared<unsigned char>() + (first_bytes + 15) / 16 * 16) + threadIdx.x),
          count_(count) {}

    /// Stores those of these vectors that it caches; forwards, the first one having a number.
    template <int tensor, int vectors>
    __device__ __forceinline__ void store(unsigned number, Vector const (&from)[vectors]) const {
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            if (number + vector < count_) {
                own_[((number + vector) * tensors + tensor) * blockDim.x] = from[vector];
            }
        }
    }

    /// Whether it has the vector with a number and all before it: vectors of one batch have one source.
    __device__ __forceinline__ bool has(unsigned number) const { return number < count_; }

    /// Vectors that it has; backwards, the first one having a number.
    template <int tensor, int vectors>
    __device__ __forceinline__ void load(unsigned number, Vector (&to)[vectors]) const {
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            to[vector] = own_[((number - vector) * tensors + tensor) * blockDim.x];
        }
    }

private:
    Vector* own_;  // [count][tensors][threads], this thread's first one
    unsigned count_;
};

/// Bytes of shared memory that `merge_thread_group` uses.
template <int owned, class Part>
__device__ __forceinline__ unsigned merging_bytes() {
    return blockDim.x * static_cast<unsigned>(owned * sizeof(Part));
}

/// Merges the values of each thread group's slots, for each of `owned` groups, for all of them: by a fixed tree. All threads of a block
/// have to call it, once: `shared`, which has room for `owned` parts of each thread, is read to the end.
template <int owned, class Part>
__device__ __forceinline__ void merge_thread_group(ThreadGroupSize const& size, Part (&parts)[owned], Part* shared) {
    unsigned const threads = blockDim.x;
    unsigned const slot = (threadIdx.x >> size.lanes_log2) & ((1u << size.slots_log2) - 1);
    Part* const own = shared + threadIdx.x;
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        own[number * threads] = parts[number];
    }
    for (unsigned half = (1u << size.slots_log2) >> 1; half > 0; half >>= 1) {
        __syncthreads();
        if (slot < half) {
#pragma unroll
            for (int number = 0; number < owned; ++number) {
                parts[number].merge(own[number * threads + (half << size.lanes_log2)]);
                own[number * threads] = parts[number];
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int number = 0; number < owned; ++number) {
        parts[number] = shared[number * threads + threadIdx.x - (slot << size.lanes_log2)];
    }
}

/// The splits' partial results of each group, for a kernel that merges them: a block is one thread group, whose lanes are neighbouring
/// groups.
template <class Part>
struct Splits {
    Part* partials;  // [splits][groups]
    unsigned splits;
    unsigned groups;
    ThreadGroupSize size;

    /// A split's partial result of a group.
    __device__ Part& part(unsigned split, unsigned group) const { return partials[static_cast<long long>(split) * groups + group]; }
};

/// Calls take(group, number) for each group that the thread writes, `number` counting them.
template <int width, bool across, int tensors, class Take>
__device__ __forceinline__ void for_led_groups(ThreadGroups<tensors> const& thread_groups, Member const& member, Take const& take) {
    if (member.leads()) {
        unsigned const first = member.group<width, across>(thread_groups);
#pragma unroll
        for (int number = 0; number < (across ? width : 1); ++number) {
            take(first + number, number);
        }
    }
}

/// The number of this thread's group; beyond the last one there are none.
template <class Part>
__device__ unsigned group_of(Splits<Part> const& splits) {
    return (blockIdx.x << splits.size.lanes_log2) + (threadIdx.x & ((1u << splits.size.lanes_log2) - 1));
}

/// Merges a group's splits in a fixed order, for all threads of its lane. All threads of a block have to call it.
template <class Part>
__device__ Part merge_splits(Splits<Part> const& splits, Part* shared) {
    unsigned const group = group_of(splits);
    Part merged[1] = {};
    if (group < splits.groups) {
#pragma unroll 4
        for (unsigned split = threadIdx.x >> splits.size.lanes_log2; split < splits.splits; split += 1u << splits.size.slots_log2) {
            merged[0].merge(splits.part(split, group));
        }
    }
    merge_thread_group(splits.size, merged, shared);
    return merged[0];
}

/// One vector of a tensor; if neighbours repeat one element, copies of it.
template <int width, class T>
__device__ __forceinline__ AlignedVector<T, width> load_vector(T const* address, bool repeats) {
    if constexpr (width == 1) {
        return {*address};
    } else {
        if (!repeats) {
            return *reinterpret_cast<AlignedVector<T, width> const*>(address);
        }
        AlignedVector<T, width> vector;
#pragma unroll
        for (int entry = 0; entry < width; ++entry) {
            vector.values[entry] = *address;
        }
        return vector;
    }
}
