// CUDA C++ for kernels that run on a CPU: its keywords, its built-in variables and functions, and the namespace `machine`.
//
// This text takes the place of raw_kernels/common/machine.cuh, whose functions it has to define under the same names.
// CUDA_ON_CPU_ENTRY(kernel), after the kernels, defines the C functions that dmlpy/devices/cuda/emulation/compiler.py calls.
#pragma once

#include "cuda_threads_on_cpu.h"

#include "cuda_arithmetic_on_cpu.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static thread_local

#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_size())
#define gridDim (cuda_on_cpu::grid_size())

extern "C" int printf(const char* format, ...);  // as CUDA declares it for every kernel

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { cuda_on_cpu::barrier(file, line); }

inline void __syncwarp(unsigned mask = ~0u, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    cuda_on_cpu::synchronize_warp(mask, file, line);
}

[[noreturn]] inline void __trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    cuda_on_cpu::fail("__trap at %s:%d", file, line);
}

namespace cuda_on_cpu {

template <class T>
T take(unsigned mask, T value, unsigned source, const char* file, int line) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, source, file, line);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

CUDA_ON_CPU_UNSEEN inline unsigned lane() { return here().index % warp_size; }

/// An instruction that moves 16 bytes is given their address, which a GPU takes only as a multiple of that.
CUDA_ON_CPU_UNSEEN inline void check_alignment(const void* address, const char* file, int line) {
    if (reinterpret_cast<uintptr_t>(address) % 16) fail("16 bytes at the misaligned address %p at %s:%d", address, file, line);
}

}  // namespace cuda_on_cpu

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const unsigned segment = cuda_on_cpu::lane() & ~unsigned(width - 1);
    return cuda_on_cpu::take(mask, value, segment | (unsigned(source) & unsigned(width - 1)), file, line);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const unsigned lane = cuda_on_cpu::lane(), source = lane ^ unsigned(lanes);
    return cuda_on_cpu::take(mask, value, source >= (lane | unsigned(width - 1)) + 1 ? lane : source, file, line);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    const unsigned lane = cuda_on_cpu::lane(), last = lane | unsigned(width - 1);
    return cuda_on_cpu::take(mask, value, lane + delta > last ? lane : lane + delta, file, line);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
    const unsigned lane = cuda_on_cpu::lane(), first = lane & ~unsigned(width - 1);
    return cuda_on_cpu::take(mask, value, lane < first + delta ? lane : lane - delta, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return unsigned(cuda_on_cpu::exchange(mask, predicate != 0, cuda_on_cpu::vote, file, line));
}

inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, file, line) == mask;
}

// CUDA's atomics order nothing but themselves.
template <class T>
T atomicAdd(T* address, T value) {
    if constexpr (T(0.5) == T(0)) {
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
    } else {
        T old, sum;
        __atomic_load(address, &old, __ATOMIC_RELAXED);
        do sum = old + value;
        while (!__atomic_compare_exchange(address, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        return old;
    }
}

template <class T>
T atomicExch(T* address, T value) {
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    return old;
}

template <class T>
T atomicCAS(T* address, T expected, T value) {
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

template <class T>
T atomicMax(T* address, T value) {
    T old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange(address, &old, &value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

template <class T>
constexpr T min(T a, T b) {
    return b < a ? b : a;
}

template <class T>
constexpr T max(T a, T b) {
    return a < b ? b : a;
}

// ---- the functions of raw_kernels/common/machine.cuh ------------------------------------------------------------------------

namespace machine {

struct half {
    unsigned short bits;
};

inline float to_float(float value) { return value; }

struct bfloat16 {
    unsigned short bits;
};

inline float to_float(bfloat16 value) { return __builtin_bit_cast(float, unsigned(value.bits) << 16); }

inline float to_float(half value) { return static_cast<float>(__builtin_bit_cast(_Float16, value.bits)); }

template <class T>
T from_float(float value);

template <>
inline float from_float<float>(float value) {
    return value;
}

template <>
inline half from_float<half>(float value) {
    return {__builtin_bit_cast(unsigned short, static_cast<_Float16>(value))};
}

template <>
inline bfloat16 from_float<bfloat16>(float value) {
    unsigned const bits = __builtin_bit_cast(unsigned, value);
    unsigned const rounded = value != value ? 0x7fff0000u : bits + 0x7fffu + (bits >> 16 & 1u);
    return {static_cast<unsigned short>(rounded >> 16)};
}

template <class T>
inline unsigned to_pair(float low, float high) {
    return from_float<T>(low).bits | unsigned(from_float<T>(high).bits) << 16;
}

inline half from_double(double value) { return {__builtin_bit_cast(unsigned short, static_cast<_Float16>(value))}; }

// The compiler does not see through the empty instruction, so it cannot contract.
template <class T>
inline T rounded_product(T a, T b) {
    T product = a * b;
    asm volatile("" : "+m"(product));
    return product;
}

template <class T>
inline T apart(T value) {
    asm volatile("" : "+m"(value));
    return value;
}

inline float multiply_add_up(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, sum = product + c;             // the product is exact
    const double added = sum - product, lost = (product - (sum - added)) + (c - added);
    const float nearest = static_cast<float>(sum);
    return nearest < sum || (nearest == sum && lost > 0.0) ? nextafterf(nearest, INFINITY) : nearest;
}

inline unsigned multiply_high(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }

inline unsigned long long multiply_high(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

inline float exp2_approx(float exponent) { return cuda_on_cpu::approximate(exp2f, exp2, exponent, 2); }

inline float exp2_flushed(float exponent) {
    const float result = exp2_approx(exponent);
    return result < 0x1p-126f ? 0.0f : result;
}

inline float reciprocal_approx(float value) {
    return cuda_on_cpu::approximate([](float x) { return 1.0f / x; }, [](double x) { return 1.0 / x; }, value, 1);
}

inline float maximum(float a, float b) { return a > b || a != a ? a : b; }

inline float reciprocal_flushed(float value) {
    if (fabsf(value) < 0x1p-126f) return copysignf(INFINITY, value);
    const float result = reciprocal_approx(value);
    return fabsf(result) < 0x1p-126f ? copysignf(0.0f, result) : result;
}

template <class T>
T shuffle_xor(T value, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __shfl_xor_sync(~0u, value, mask, 32, file, line);
}

__forceinline__ void store_release(unsigned* address, unsigned value) {
    cuda_on_cpu::delay();
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

__forceinline__ unsigned load_acquire(unsigned const* address) { return __atomic_load_n(address, __ATOMIC_ACQUIRE); }

__forceinline__ void store_relaxed(unsigned* address, unsigned value) {
    if (cuda_on_cpu::lane() == 0) cuda_on_cpu::delay();
    __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

__forceinline__ void load_relaxed(unsigned const* address, unsigned (&words)[4], const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
    cuda_on_cpu::check_alignment(address, file, line);
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) words[word] = __atomic_load_n(address + word, __ATOMIC_RELAXED);
}

/// Not traced: how often a thread looks depends on others.
CUDA_ON_CPU_UNSEEN inline unsigned load_relaxed(unsigned const* address) { return __atomic_load_n(address, __ATOMIC_RELAXED); }

__forceinline__ void store_to_host(unsigned* address, unsigned value) { __atomic_store_n(address, value, __ATOMIC_RELEASE); }

inline unsigned clock_units() { return unsigned(cuda_on_cpu::nanoseconds() >> 10); }

// Plain accesses: what they carry has to be ordered by releases and acquires, and the thread sanitizer sees to that.

__forceinline__ void store_exchanged(unsigned* address, unsigned value) { *address = value; }

/// Words that are accessed at once.
struct alignas(16) Words {
    unsigned values[4];
};

__forceinline__ void load_exchanged(unsigned const* address, unsigned (&words)[4], const char* file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
    cuda_on_cpu::check_alignment(address, file, line);
    const Words loaded = *reinterpret_cast<Words const*>(address);
    for (int word = 0; word < 4; ++word) words[word] = loaded.values[word];
}

/// The lower half is how many bytes more have come in the phase than were said to come, the next bit whether that was said; above it phases
/// are counted.
using Arrivals = unsigned long long;

inline void begin_arrivals(Arrivals* arrivals) { *arrivals = 0; }

__forceinline__ void add_arrivals(Arrivals* arrivals, unsigned bytes, bool are_expected) {
    Arrivals before = __atomic_load_n(arrivals, __ATOMIC_RELAXED), after;
    do {
        const unsigned balance = unsigned(before) + (are_expected ? -bytes : bytes);
        const bool said = are_expected || (before >> 32 & 1);
        after = said && balance == 0 ? ((before >> 33) + 1) << 33 : (before >> 33) << 33 | Arrivals(said) << 32 | balance;
    } while (!__atomic_compare_exchange_n(arrivals, &before, after, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

__forceinline__ void expect_arrivals(Arrivals* arrivals, unsigned bytes) { add_arrivals(arrivals, bytes, true); }

__forceinline__ bool have_arrived(Arrivals const* arrivals, unsigned parity) {
    const bool ended = (__atomic_load_n(arrivals, __ATOMIC_ACQUIRE) >> 33) % 2 != parity;
    if (!ended) cuda_on_cpu::pause();
    return ended;
}

__forceinline__ void store_to_block(unsigned* place, unsigned value, Arrivals* arrivals, unsigned block) {
    if (cuda_on_cpu::lane() == 0) cuda_on_cpu::delay();
    *static_cast<unsigned*>(cuda_on_cpu::in_block(place, block)) = value;
    add_arrivals(static_cast<Arrivals*>(cuda_on_cpu::in_block(arrivals, block)), sizeof value, false);
}

inline void synchronize_cluster() { cuda_on_cpu::cluster_barrier(); }

inline void pause(unsigned) { cuda_on_cpu::pause(); }  // at each look: another block may wait for this thread to run

[[noreturn]] inline void trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    cuda_on_cpu::fail("trap at %s:%d", file, line);
}

inline int opaque(int value) { return value; }
inline long long opaque(long long value) { return value; }

inline float moved(float value) { return value; }

inline unsigned ballot(bool condition, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __ballot_sync(~0u, condition, file, line);
}

inline int count_bits(unsigned word) { return __builtin_popcount(word); }

inline int count_bits(unsigned long long word) { return __builtin_popcountll(word); }

inline unsigned to_bits(float value) { return __builtin_bit_cast(unsigned, value); }

inline unsigned to_bits(half value) { return value.bits; }

inline unsigned to_bits(bfloat16 value) { return value.bits; }

inline float float_of_bits(unsigned bits) { return __builtin_bit_cast(float, bits); }

inline float round_to_tf32(float value) {
    if (value != value) return float_of_bits(0x7FFFFFFF);
    return isinf(value) ? value : float_of_bits((to_bits(value) + 0x1000) & ~0x1FFFu);
}

// A copy may write at any time between its begin and the wait. So it writes at both: first what no kernel expects, which others must not read
// any more, then what it has read, which only a kernel that waits finds.

__forceinline__ void copy_async(void* to, void const* from, bool exists, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    cuda_on_cpu::check_alignment(to, file, line);
    cuda_on_cpu::check_alignment(from, file, line);
    const Words words = exists ? *static_cast<Words const*>(from) : Words{};
#if !defined(CUDA_ON_CPU_TRACES)  // which count what a GPU does
    *static_cast<Words*>(to) = {{~0u, ~0u, ~0u, ~0u}};
#endif
    cuda_on_cpu::begin_copy(to, words.values);
}

inline void commit_copies() { cuda_on_cpu::commit_copies(); }

template <int groups>
__forceinline__ void wait_for_copies() {
    Words words;
    while (void* const to = cuda_on_cpu::next_copy(groups, words.values)) *static_cast<Words*>(to) = words;
}

/// A lane's row of a matrix, and what it gets.
struct MatrixRow {
    Words row;
    unsigned words[4];
};

template <bool transposed>
CUDA_ON_CPU_UNSEEN void exchange_rows(MatrixRow* const* lanes) {
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < 4; ++matrix) {
            const int g = lane / 4, t = lane % 4;
            MatrixRow* const* const rows = lanes + 8 * matrix;
            if constexpr (transposed) {
                const unsigned first = rows[2 * t]->row.values[g / 2] >> g % 2 * 16 & 0xFFFF;
                const unsigned second = rows[2 * t + 1]->row.values[g / 2] >> g % 2 * 16;
                lanes[lane]->words[matrix] = first | second << 16;
            } else {
                lanes[lane]->words[matrix] = rows[g]->row.values[t];
            }
        }
}

template <bool transposed>
__forceinline__ void load_rows(unsigned (&words)[4], unsigned const* row, const char* file, int line) {
    cuda_on_cpu::check_alignment(row, file, line);
    MatrixRow own{*reinterpret_cast<Words const*>(row), {}};
    cuda_on_cpu::together(&own, exchange_rows<transposed>, file, line);
    for (int i = 0; i < 4; ++i) words[i] = own.words[i];
}

__forceinline__ void load_matrices(unsigned (&words)[4], unsigned const* row, const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE()) {
    load_rows<false>(words, row, file, line);
}

__forceinline__ void load_transposed_matrices(unsigned (&words)[4], unsigned const* row, const char* file = __builtin_FILE(),
                                              int line = __builtin_LINE()) {
    load_rows<true>(words, row, file, line);
}

/// A lane's part of a matrix product.
struct Fragments {
    float sums[4];
    unsigned a[4];
    unsigned b[2];
};

/// Value number `place` of some words.
template <class T>
CUDA_ON_CPU_UNSEEN float value_of(unsigned const* words, int place) {
    if constexpr (sizeof(T) == 2)
        return to_float(T{static_cast<unsigned short>(words[place / 2] >> place % 2 * 16)});
    else
        return float_of_bits(words[place] & ~0x1FFFu);
}

typedef float Row __attribute__((vector_size(32)));  // of eight columns

template <class T>
CUDA_ON_CPU_UNSEEN void multiply_warp(Fragments* const* lanes) {
    constexpr int in_word = 4 / sizeof(T), depth = 8 * in_word;
    float left[16][depth];
    Row right[depth], sums[16];
    for (int lane = 0; lane < 32; ++lane)
        for (int word = 0; word < 4; ++word) {
            const int row = lane / 4 + word % 2 * 8;
            for (int i = 0; i < in_word; ++i) {
                const int k = (word / 2 * 4 + lane % 4) * in_word + i;
                left[row][k] = value_of<T>(lanes[lane]->a, word * in_word + i);
                if (word % 2 == 0) right[k][lane / 4] = value_of<T>(lanes[lane]->b, word / 2 * in_word + i);
            }
            sums[lane / 4 + word / 2 * 8][lane % 4 * 2 + word % 2] = lanes[lane]->sums[word];
        }
    if (cuda_on_cpu::arithmetic() == cuda_on_cpu::Arithmetic::exact) {
        for (int row = 0; row < 16; ++row)
            for (int k = 0; k < depth; ++k) sums[row] += left[row][k] * right[k];
    } else {
        for (int row = 0; row < 16; ++row)
            for (int k = 0; k < depth; k += 4)
                for (int column = 0; column < 8; ++column) {
                    double products[4];
                    for (int i = 0; i < 4; ++i) products[i] = double(left[row][k + i]) * right[k + i][column];
                    sums[row][column] = cuda_on_cpu::truncating_sum(sums[row][column], products);
                }
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) lanes[lane]->sums[i] = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

template <class T>
__forceinline__ void multiply_add(float (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2], const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    // The factors may lie in shared memory: it is this lane that reads them, not the one that multiplies for all.
    Fragments own{{sums[0], sums[1], sums[2], sums[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    cuda_on_cpu::together(&own, multiply_warp<T>, file, line);
    for (int i = 0; i < 4; ++i) sums[i] = own.sums[i];
}

/// A lane's part of a product of bytes.
struct ByteFragments {
    int sums[4];
    unsigned a[4];
    unsigned b[2];
};

template <class A, class B>
CUDA_ON_CPU_UNSEEN void multiply_warp_bytes(ByteFragments* const* lanes) {
    int left[16][32], right[32][8];
    for (int lane = 0; lane < 32; ++lane)
        for (int word = 0; word < 4; ++word)
            for (int i = 0; i < 4; ++i) {
                const int k = (word / 2 * 4 + lane % 4) * 4 + i;
                left[lane / 4 + word % 2 * 8][k] = A(lanes[lane]->a[word] >> 8 * i);
                if (word % 2 == 0) right[k][lane / 4] = B(lanes[lane]->b[word / 2] >> 8 * i);
            }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            unsigned sum = unsigned(lanes[lane]->sums[i]);
            for (int k = 0; k < 32; ++k) sum += unsigned(left[lane / 4 + i / 2 * 8][k] * right[k][lane % 4 * 2 + i % 2]);
            lanes[lane]->sums[i] = int(sum);
        }
}

template <class A, class B>
__forceinline__ void multiply_add_bytes(int (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2], const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
    ByteFragments own{{sums[0], sums[1], sums[2], sums[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    cuda_on_cpu::together(&own, multiply_warp_bytes<A, B>, file, line);
    for (int i = 0; i < 4; ++i) sums[i] = own.sums[i];
}

template <class T>
T* dynamic_shared() {
    return static_cast<T*>(cuda_on_cpu::dynamic_shared());
}

}  // namespace machine
