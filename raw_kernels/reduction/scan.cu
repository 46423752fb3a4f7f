// CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: the running result of each line of entries along one axis.
//
//   y[i] = x[0] + .. + x[i]     exclusive: up to x[i - 1]; the first one is 0, of a product 1
//
// Entries are numbered in the order of the scan: backwards their strides are negative.
//
// A thread group is `lanes` x `slots` threads of a block: its lanes have neighbouring lines, its slots parts of a tile of a line, `items`
// entries each, one after the other. A thread scans its entries, threads of a line exchange their totals, and a tile passes on
// the running total. A block is several thread groups; blockIdx.x counts blocks of thread groups, blockIdx.y splits: equal parts of each
// line, of one for each block. With several splits `total` first computes the total of each, and `scan` begins with all before its own.
//
// T is the type of entries, R the reduction of common/reduction.cuh: Sum or Multiply. A thread reads its entries of a tile before it writes
// them, and no other thread reads them later: y may be x.
#include "common/machine.cuh"
#include "common/group_scan.cuh"
#include "common/reduction.cuh"

/// Entries of a thread in a tile.
inline constexpr int items = 8;

template <class T, class R>
struct ScanParameters {
    T const* x;                  // the first entry of the scan
    T* y;
    Axes<2> lines;               // of x and y
    long long strides[2];        // of x and y from an entry to the next one of the scan
    unsigned line_count;
    unsigned length;             // entries of a line, less than 2^32 by more than a tile
    unsigned split_length;       // entries of a split, a multiple of a tile; the last one has the rest
    ThreadGroupSize size;
    typename R::Part* totals;    // [splits][line_count]; absent if there is one split
    int exclusive;
    int backwards;               // whether the scan starts at the end of a vector
};

/// A thread's place: a line, and a slot of its thread group.
struct Taker {
    unsigned line;
    unsigned slot;
    bool present;

    template <class T, class R>
    __device__ explicit Taker(ScanParameters<T, R> const& parameters) {
        ThreadGroupSize const size = parameters.size;
        unsigned const thread_group = blockIdx.x * (blockDim.x >> (size.lanes_log2 + size.slots_log2)) + (threadIdx.x >> (size.lanes_log2 + size.slots_log2));
        line = (thread_group << size.lanes_log2) + (threadIdx.x & ((1u << size.lanes_log2) - 1));
        slot = (threadIdx.x >> size.lanes_log2) & ((1u << size.slots_log2) - 1);
        present = line < parameters.line_count;
        line = present ? line : 0;
    }
};

/// Reverses a vector.
template <class T, int width>
__device__ __forceinline__ void reverse(AlignedVector<T, width>& vector) {
#pragma unroll
    for (int place = 0; place < width / 2; ++place) {
        T const other = vector.values[place];
        vector.values[place] = vector.values[width - 1 - place];
        vector.values[width - 1 - place] = other;
    }
}

/// The entries from a number on; those from `end` on are neutral.
template <int width, class T, class R>
__device__ __forceinline__ void load(ScanParameters<T, R> const& parameters, T const* line, unsigned first, unsigned end,
                                     typename R::Part (&parts)[items]) {
    AlignedVector<T, width> vectors[items / width];
#pragma unroll
    for (int index = 0; index < items / width; ++index) {
        unsigned const entry = first + index * width;
        if (entry < end) {
            // backwards the last entry of a vector is the first in memory
            T const* const address = line + (entry + (parameters.backwards ? width - 1 : 0)) * parameters.strides[0];
            vectors[index] = load_vector<width>(address, parameters.strides[0] == 0);
            if (parameters.backwards) {
                reverse(vectors[index]);
            }
        }
    }
#pragma unroll
    for (int item = 0; item < items; ++item) {
        parts[item] = first + item < end ? typename R::Part{to_number(vectors[item / width].values[item % width])} : typename R::Part{};
    }
}

/// First launch of two: the total of each split.
template <class T, class R, int width>
__global__ void __launch_bounds__(most_block_threads, 1) total(const __grid_constant__ ScanParameters<T, R> parameters) {
    using Part = typename R::Part;
    Taker const taker(parameters);
    unsigned const begin = blockIdx.y * parameters.split_length;
    unsigned const end = taker.present ? begin + min(parameters.length - begin, parameters.split_length) : 0;
    T const* const line = parameters.x + locate(parameters.lines, taker.line).of[0];
    Part parts[1] = {};
    for (unsigned first = begin + taker.slot * items; first < end; first += items << parameters.size.slots_log2) {
        Part own[items];
        load<width>(parameters, line, first, end, own);
        parts[0].merge(tree([](Part a, Part const& b) {
            a.merge(b);
            return a;
        }, own));
    }
    merge_thread_group(parameters.size, parts, machine::dynamic_shared<Part>());
    if (taker.present && taker.slot == 0) {
        parameters.totals[static_cast<long long>(blockIdx.y) * parameters.line_count + taker.line] = parts[0];
    }
}

/// The running results.
template <class T, class R, int width>
__global__ void __launch_bounds__(most_block_threads, 1) scan(const __grid_constant__ ScanParameters<T, R> parameters) {
    using Part = typename R::Part;
    Part* const shared = machine::dynamic_shared<Part>();   // two arrays of a part for each thread, and one for splits
    Taker const taker(parameters);
    unsigned const begin = blockIdx.y * parameters.split_length;
    unsigned const end = begin + min(parameters.length - begin, parameters.split_length);
    Places<2> const line = locate(parameters.lines, taker.line);
    Part before[1] = {};
    if (parameters.totals != nullptr) {
#pragma unroll 4
        for (unsigned split = taker.slot; split < blockIdx.y; split += 1u << parameters.size.slots_log2) {
            before[0].merge(parameters.totals[static_cast<long long>(split) * parameters.line_count + taker.line]);
        }
        merge_thread_group(parameters.size, before, shared + 2 * blockDim.x);
    }
    unsigned turn = 0;
    unsigned const tile = items << parameters.size.slots_log2;
    for (unsigned start = begin; start < end; start += tile) {
        unsigned const first = start + taker.slot * items;
        unsigned const own_end = taker.present ? end : 0;
        Part parts[items];
        load<width>(parameters, parameters.x + line.of[0], first, own_end, parts);
        Part own = parts[0];
#pragma unroll
        for (int item = 1; item < items; ++item) {
            own.merge(parts[item]);
        }
        GroupScan<Part> const scanned = scan_group(parameters.size, taker.slot, own, shared, turn);
        Part running = before[0];
        running.merge(scanned.before);
        before[0].merge(scanned.all);
        T results[items];
#pragma unroll
        for (int item = 0; item < items; ++item) {
            Part const earlier = running;
            running.merge(parts[item]);
            results[item] = R::result(parameters.exclusive ? earlier : running, {});
        }
#pragma unroll
        for (int index = 0; index < items / width; ++index) {
            unsigned const entry = first + index * width;
            if (entry < own_end) {
                AlignedVector<T, width> vector;
#pragma unroll
                for (int place = 0; place < width; ++place) {
                    vector.values[place] = results[index * width + place];
                }
                if (parameters.backwards) {
                    reverse(vector);
                }
                T* const address = parameters.y + line.of[1] + (entry + (parameters.backwards ? width - 1 : 0)) * parameters.strides[1];
                *reinterpret_cast<AlignedVector<T, width>*>(address) = vector;
            }
        }
    }
}
