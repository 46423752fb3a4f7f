// TOP_K and TOP_K1: the first k entries of each line along an axis, in order, and their indices.
//
// An entry's key is an unsigned number, the smaller the earlier the entry comes: NaN is larger than any number, zeros are equal. Of equal
// keys the one with the lower index comes first, so the order of a line's entries is unique.
//
//   `sort`      lines, or runs of them, that fit a block's shared memory
//   `select`    the first k entries of a segment of a line, in the order of their indices: by digits of the key, largest first
//   `merge`     pairs of runs, by an entry's place in the other one
//
// Each reads entries of the tensor, or keys and indices of an earlier launch, and writes keys and indices or, in the last launch, the
// results.
//
// T is the type of entries: float, half, or an unsigned integer for all integers of its size. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/axes.cuh"
#include "common/grid_stride.cuh"
#include "common/group_scan.cuh"
#include "common/reduction.cuh"
#include "common/types.cuh"

/// Threads of a block that selects: as many as a digit has values.
inline constexpr int select_threads_log2 = 8;
inline constexpr int select_threads = 1 << select_threads_log2;

/// Contiguous entries of a thread that selects.
inline constexpr int select_items = 4;

/// Threads of a block that sorts, at most: each for two entries.
inline constexpr int most_sort_threads = 512;

template <class T>
using KeyOf = Choice<sizeof(T) == 8, unsigned long long, unsigned>;

template <class T>
struct TopKParameters {
    T const* x;
    T* values;
    void* indices;
    Axes<3> lines;             // of x, values, indices
    long long strides[3];      // of these along the lines
    KeyOf<T> const* keys;      // [line_count][pitch]; absent: the entries are those of x
    unsigned const* numbers;   // [line_count][pitch]: the indices of these
    KeyOf<T>* next_keys;       // [line_count][next_pitch]; absent: results are written
    unsigned* next_numbers;
    long long pitch;
    long long next_pitch;
    unsigned long long flip;   // bits of a key that are inverted
    unsigned line_count;
    unsigned count;            // entries of a line
    unsigned k;
    unsigned part;             // entries of a segment or of a run, the last one of a line has the rest
    unsigned parts;            // of a line
    int across;                // `sort`: whether neighbouring threads read and write neighbouring lines
    int index_bytes;           // of a result: 4 or 8
};

template <class Key>
struct Candidate {
    Key key;
    unsigned number;

    __device__ bool before(Candidate const& other) const { return key < other.key || (key == other.key && number < other.number); }
};

template <class T>
__device__ __forceinline__ KeyOf<T> key_of(T entry, unsigned long long flip) {
    if constexpr (is_floating<T>) {
        constexpr unsigned sign = 1u << (8 * sizeof(T) - 1);
        constexpr unsigned all = sign | (sign - 1);
        float const x = machine::to_float(entry);
        unsigned const bits = machine::to_bits(entry);
        unsigned const ordered = x != x ? all : x == 0.0f ? sign : bits & sign ? bits ^ all : bits | sign;
        return ordered ^ static_cast<unsigned>(flip);
    } else {
        return entry ^ static_cast<KeyOf<T>>(flip);
    }
}

/// An entry of a line, which begins at a place of x.
template <class T>
__device__ __forceinline__ Candidate<KeyOf<T>> read(TopKParameters<T> const& parameters, unsigned line, long long place, unsigned entry) {
    if (parameters.keys != nullptr) {
        long long const at = line * parameters.pitch + entry;
        return {parameters.keys[at], parameters.numbers[at]};
    }
    return {key_of(parameters.x[place + entry * parameters.strides[0]], parameters.flip), entry};
}

/// Stores an entry for the next launch, or as a result if it is one of the first k.
template <class T>
__device__ __forceinline__ void write(TopKParameters<T> const& parameters, unsigned line, Places<3> const& places, unsigned rank,
                                      Candidate<KeyOf<T>> const& entry) {
    if (parameters.next_keys != nullptr) {
        long long const at = line * parameters.next_pitch + rank;
        parameters.next_keys[at] = entry.key;
        parameters.next_numbers[at] = entry.number;
    } else if (rank < parameters.k) {
        parameters.values[places.of[1] + rank * parameters.strides[1]] = parameters.x[places.of[0] + entry.number * parameters.strides[0]];
        long long const at = places.of[2] + rank * parameters.strides[2];
        if (parameters.index_bytes == 8) {
            static_cast<unsigned long long*>(parameters.indices)[at] = entry.number;
        } else {
            static_cast<unsigned*>(parameters.indices)[at] = entry.number;
        }
    }
}

/// A block sorts as many entries as it has threads, twice: runs of `1 << run_log2`, of which the lines that a block has are one each, or
/// the parts of a line. blockIdx.x counts blocks of runs. Its dynamic shared memory holds a key and an index of each entry.
template <class T>
__global__ void __launch_bounds__(most_sort_threads, 1) sort(const __grid_constant__ TopKParameters<T> parameters) {
    using Key = KeyOf<T>;
    Key* const keys = machine::dynamic_shared<Key>();
    unsigned const slots = 2 * blockDim.x;
    unsigned* const numbers = reinterpret_cast<unsigned*>(keys + slots);
    unsigned run = 2;
    while (run < parameters.part) {
        run *= 2;
    }
    unsigned const runs = slots / run;
    auto const for_each = [&](auto const& use) {
#pragma unroll
        for (int turn = 0; turn < 2; ++turn) {
            unsigned const number = threadIdx.x + turn * blockDim.x;
            unsigned const own_run = parameters.across ? number % runs : number / run;
            unsigned const entry = parameters.across ? number / runs : number % run;
            long long const piece = static_cast<long long>(blockIdx.x) * runs + own_run;
            unsigned const line = static_cast<unsigned>(piece / parameters.parts);
            unsigned const place = static_cast<unsigned>(piece % parameters.parts) * parameters.part + entry;
            bool const present = line < parameters.line_count && entry < parameters.part && place < parameters.count;
            use(own_run * run + entry, line, place, present);
        }
    };
    for_each([&](unsigned slot, unsigned line, unsigned place, bool present) {
        Candidate<Key> entry{static_cast<Key>(~0ull), ~0u};   // after any other
        if (present) {
            entry = read(parameters, line, locate(parameters.lines, line).of[0], place);
        }
        keys[slot] = entry.key;
        numbers[slot] = entry.number;
    });
#pragma unroll 1
    for (unsigned size = 2; size <= run; size *= 2) {
#pragma unroll 1
        for (unsigned distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            unsigned const first = ((threadIdx.x & ~(distance - 1)) << 1) | (threadIdx.x & (distance - 1));
            unsigned const second = first + distance;
            Candidate<Key> const a{keys[first], numbers[first]};
            Candidate<Key> const b{keys[second], numbers[second]};
            bool const ascends = size == run || (first & size) == 0;
            if (ascends ? b.before(a) : a.before(b)) {
                keys[first] = b.key;
                numbers[first] = b.number;
                keys[second] = a.key;
                numbers[second] = a.number;
            }
        }
    }
    __syncthreads();
    for_each([&](unsigned slot, unsigned line, unsigned place, bool present) {
        if (present) {
            write(parameters, line, locate(parameters.lines, line), place, {keys[slot], numbers[slot]});
        }
    });
}

/// A block has a segment, blockIdx.y, of a line, blockIdx.x.
template <class T>
__global__ void __launch_bounds__(select_threads, 1) select(const __grid_constant__ TopKParameters<T> parameters) {
    using Key = KeyOf<T>;
    __shared__ unsigned counts[select_threads];
    __shared__ Total<unsigned> shared[2 * select_threads];
    __shared__ unsigned chosen_digit;
    __shared__ unsigned chosen_before;
    ThreadGroupSize const thread_group{0, select_threads_log2};
    unsigned turn = 0;
    unsigned const thread = threadIdx.x;
    unsigned const line = blockIdx.x;
    Places<3> const places = locate(parameters.lines, line);
    unsigned const begin = blockIdx.y * parameters.part;
    unsigned const end = min(parameters.count, begin + parameters.part);
    unsigned wanted = min(parameters.k, end - begin);   // of the entries that begin with `prefix`
    Key prefix = 0;
    Key mask = 0;
#pragma unroll 1
    for (int shift = 8 * sizeof(T) - 8; shift >= 0; shift -= 8) {
        counts[thread] = 0;
        __syncthreads();
#pragma unroll 4
        for (unsigned entry = begin + thread; entry < end; entry += select_threads) {
            Key const key = read(parameters, line, places.of[0], entry).key;
            if ((key & mask) == prefix) {
                atomicAdd(&counts[(key >> shift) & 255], 1u);
            }
        }
        __syncthreads();
        unsigned const own = counts[thread];
        unsigned const before = scan_group(thread_group, thread, Total<unsigned>{own}, shared, turn).before.total;
        if (before < wanted && wanted <= before + own) {
            chosen_digit = thread;
            chosen_before = before;
        }
        __syncthreads();
        prefix |= static_cast<Key>(chosen_digit) << shift;
        mask |= static_cast<Key>(255) << shift;
        wanted -= chosen_before;
    }
    // what comes before the prefix, and of what is equal to it the first `wanted`
    unsigned const first_place = blockIdx.y * parameters.k;
    unsigned less_before = 0;
    unsigned equal_before = 0;
#pragma unroll 1
    for (unsigned start = begin; start < end; start += select_threads * select_items) {
        Candidate<Key> entries[select_items];
        unsigned found = 0;   // those that are less, and from bit 16 on those that are equal
#pragma unroll
        for (int item = 0; item < select_items; ++item) {
            unsigned const entry = start + thread * select_items + item;
            entries[item] = {static_cast<Key>(~0ull), ~0u};
            if (entry < end) {
                entries[item] = read(parameters, line, places.of[0], entry);
                found += entries[item].key < prefix ? 1u : entries[item].key == prefix ? 1u << 16 : 0u;
            }
        }
        auto const around = scan_group(thread_group, thread, Total<unsigned>{found}, shared, turn);
        unsigned less = less_before + (around.before.total & 0xFFFF);
        unsigned equal = equal_before + (around.before.total >> 16);
#pragma unroll
        for (int item = 0; item < select_items; ++item) {
            bool const present = start + thread * select_items + item < end;
            bool const is_less = present && entries[item].key < prefix;
            bool const is_equal = present && entries[item].key == prefix;
            if (is_less || (is_equal && equal < wanted)) {
                write(parameters, line, places, first_place + less + min(equal, wanted), entries[item]);
            }
            less += is_less;
            equal += is_equal;
        }
        less_before += around.all.total & 0xFFFF;
        equal_before += around.all.total >> 16;
    }
}

/// A thread has entries of runs of `part` entries, each of which it places in the merged run. Only the first k of a run; the others are
/// not results.
template <class T>
__global__ void merge(const __grid_constant__ TopKParameters<T> parameters) {
    using Key = KeyOf<T>;
    long long const all = static_cast<long long>(parameters.line_count) * parameters.count;
    unsigned const length = parameters.part;
    unsigned const most = min(length, parameters.k);
#pragma unroll 1
    for (long long number = first_element(); number < all; number += element_stride()) {
        unsigned const line = static_cast<unsigned>(number / parameters.count);
        unsigned const place = static_cast<unsigned>(number - static_cast<long long>(line) * parameters.count);
        unsigned const run = place / length;
        unsigned const own = place - run * length;
        if (own >= most) {
            continue;
        }
        Candidate<Key> const entry = read(parameters, line, 0, place);
        unsigned const other = (run ^ 1) * length;
        unsigned low = 0;
        unsigned high = run % 2 == 0 && parameters.count - run * length <= length ? 0 : min(most, parameters.count - other);
        while (low < high) {
            unsigned const middle = low + (high - low) / 2;
            bool const comes_later = entry.before(read(parameters, line, 0, other + middle));
            high = comes_later ? middle : high;
            low = comes_later ? low : middle + 1;
        }
        write(parameters, line, locate(parameters.lines, line), (run / 2) * 2 * length + own + low, entry);
    }
}
