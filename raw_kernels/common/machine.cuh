// The machine under the kernels: every PTX instruction and every intrinsic that a kernel may use, under plain names.
//
// The kernels include no header of CUDA's, so NVRTC needs no include path; and this file is the only one that the tests
// replace when they execute the kernels on a CPU. What CUDA C++ itself provides without a header (threadIdx, blockIdx, __shared__,
// __syncthreads, __syncwarp, the float functions of the C library such as expm1f) is used directly.
#pragma once

namespace machine {

/// IEEE binary16 as storage only: arithmetic is done in float.
struct half {
    unsigned short bits;
};

/// BFLOAT16, the upper half of a float, as storage only.
struct bfloat16 {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(float value) {
    return value;
}

__device__ __forceinline__ float to_float(bfloat16 value) {
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

__device__ __forceinline__ float to_float(half value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}

/// The value in storage type T, rounded to nearest even; out of range becomes infinite.
template <class T>
__device__ __forceinline__ T from_float(float value);

template <>
__device__ __forceinline__ float from_float<float>(float value) {
    return value;
}

template <>
__device__ __forceinline__ half from_float<half>(float value) {
    half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

template <>
__device__ __forceinline__ bfloat16 from_float<bfloat16>(float value) {
#if __CUDA_ARCH__ >= 800
    bfloat16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
#else
    unsigned const bits = __float_as_uint(value);
    unsigned const rounded = value != value ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    return {static_cast<unsigned short>(rounded >> 16)};
#endif
}

/// Two values as elements of a type of 2 bytes in a word, the first in the low bits.
template <class T>
__device__ __forceinline__ unsigned to_pair(float low, float high) {
    return from_float<T>(low).bits | static_cast<unsigned>(from_float<T>(high).bits) << 16;
}

#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ unsigned to_pair<half>(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

template <>
__device__ __forceinline__ unsigned to_pair<bfloat16>(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#endif

__device__ __forceinline__ half from_double(double value) {
    half result;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(result.bits) : "d"(value));
    return result;
}

/// a * b and a + b, each rounded separately: compilers do not contract them to one operation with one rounding.
__device__ __forceinline__ float rounded_product(float a, float b) {
    return __fmul_rn(a, b);
}

__device__ __forceinline__ double rounded_product(double a, double b) {
    return __dmul_rn(a, b);
}

/// The value as a separately rounded result: if it is a product, it is not contracted with a later sum. A sum with -0 is
/// the value itself, and compilers keep an addition with explicit rounding; they remove a product with 1 or a move.
__device__ __forceinline__ float apart(float value) {
    return __fadd_rn(value, -0.0f);
}

__device__ __forceinline__ double apart(double value) {
    return __dadd_rn(value, -0.0);
}

/// a * b + c, rounded up.
__device__ __forceinline__ float multiply_add_up(float a, float b, float c) {
    return __fmaf_ru(a, b, c);
}

/// The upper half of a product.
__device__ __forceinline__ unsigned multiply_high(unsigned a, unsigned b) {
    return __umulhi(a, b);
}

__device__ __forceinline__ unsigned long long multiply_high(unsigned long long a, unsigned long long b) {
    return __umul64hi(a, b);
}

/// 2^x to 2 ulp; 0 and infinity at the ends, NaN passes.
__device__ __forceinline__ float exp2_approx(float exponent) {
    float result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

/// The same, with 0 for all results and operands below the normal numbers: one instruction.
__device__ __forceinline__ float exp2_flushed(float exponent) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

/// 1/x to 1 ulp; 1/infinity is 0, NaN passes.
__device__ __forceinline__ float reciprocal_approx(float value) {
    float result;
    asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

/// The same, with 0 for results and infinity for operands below the normal numbers: one instruction.
__device__ __forceinline__ float reciprocal_flushed(float value) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

/// The greater of two numbers, NaN if one is NaN.
__device__ __forceinline__ float maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
}

/// The block's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    extern __shared__ unsigned char dynamic_shared_memory[] __attribute__((aligned(16)));
    return reinterpret_cast<T*>(dynamic_shared_memory);
}

/// The value of the lane whose number differs in the bits of `mask`; for whole warps.
__device__ __forceinline__ float shuffle_xor(float value, int mask) {
    return __shfl_xor_sync(~0u, value, mask);
}

__device__ __forceinline__ unsigned shuffle_xor(unsigned value, int mask) {
    return __shfl_xor_sync(~0u, value, mask);
}

// ---- copies from global to shared memory, under way while the thread goes on -----------------------------------------------------

__device__ __forceinline__ unsigned long long global_address(void const* pointer) {
    unsigned long long address;
    asm("cvta.to.global.u64 %0, %1;" : "=l"(address) : "l"(pointer));
    return address;
}

__device__ __forceinline__ unsigned shared_address(void const* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Begins to copy 16 bytes, or to write as many zeros. Both addresses are multiples of 16; without bytes to copy, `from` is not read.
/// Below compute capability 8.0 it waits for them.
__device__ __forceinline__ void copy_async(void* to, void const* from, bool exists) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(global_address(from)), "r"(exists ? 16 : 0)
                 : "memory");
#else
    struct alignas(16) Words {
        unsigned values[4];
    };
    Words words = {};
    if (exists) {
        words = *static_cast<Words const*>(from);
    }
    *static_cast<Words*>(to) = words;
#endif
}

/// Makes a group of the copies that this thread has begun since the last one.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/// Waits until this thread's copies have arrived, but for those of the latest `groups`.
template <int groups>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
#endif
}

// ---- matrix products on tensor cores -------------------------------------------------------------------------------------------

/// Four matrices of 8 rows of 8 halves from shared memory, of which a lane gives a row's address: that of row lane % 8 of matrix lane / 8.
/// Of each matrix a lane gets the word with the halves 2t and 2t + 1 of row g, where g = lane / 4 and t = lane % 4.
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same, transposed: a lane gets half g of the rows 2t and 2t + 1.
__device__ __forceinline__ void load_transposed_matrices(unsigned (&words)[4], unsigned const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The nearest TF32 value: 10 explicit bits of mantissa, ties away from zero. Compute capability 8.0 on.
__device__ __forceinline__ float round_to_tf32(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

/// sums += A B by the 32 lanes of a warp, A of 16 rows, B of 8 columns, both of type T, sums float; `a`, `b` and `sums` are a
/// lane's part. With g = lane / 4 and t = lane % 4:
///   sums  (row g, columns 2t and 2t + 1), (row g + 8, columns 2t and 2t + 1)
///   half, or bfloat16 on compute capability 8.0 on, depth 16, two values a word, the first in the low bits:
///         a  (g, 2t and 2t + 1), (g + 8, 2t ..), (g, 2t + 8 ..), (g + 8, 2t + 8 ..);   b  (2t and 2t + 1, g), (2t + 8 .., g)
///   float, depth 8, of which only the bits of TF32 count, compute capability 8.0 on:
///         a  (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4);   b  (t, g), (t + 4, g)
template <class T>
__device__ __forceinline__ void multiply_add(float (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]);

template <>
__device__ __forceinline__ void multiply_add<half>(float (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int k = 0; k < 2; ++k) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
    }
#endif
}

template <>
__device__ __forceinline__ void multiply_add<bfloat16>(float (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void multiply_add<float>(float (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same with bytes, of types A and B: signed or unsigned, four values a word, and exact sums, which wrap around:
///   depth 32   a  (g, 4t to 4t + 3), (g + 8, 4t ..), (g, 4t + 16 ..), (g + 8, 4t + 16 ..);   b  (4t to 4t + 3, g), (4t + 16 .., g)
template <class A, class B>
__device__ __forceinline__ void multiply_add_bytes(int (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]);

#if __CUDA_ARCH__ >= 800
#define MACHINE_MULTIPLY_ADD_BYTES(A, a_type, B, b_type)                                                                               \
    template <>                                                                                                                        \
    __device__ __forceinline__ void multiply_add_bytes<A, B>(int (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {          \
        asm("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "            \
            "{%0, %1, %2, %3};"                                                                                                        \
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])                                                               \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                       \
    }
#else
#define MACHINE_MULTIPLY_ADD_BYTES(A, a_type, B, b_type)                                                                               \
    template <>                                                                                                                        \
    __device__ __forceinline__ void multiply_add_bytes<A, B>(int (&sums)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {          \
        for (int k = 0; k < 2; ++k) {                                                                                                  \
            for (int half = 0; half < 2; ++half) {                                                                                     \
                asm("mma.sync.aligned.m8n8k16.row.col.s32." a_type "." b_type ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"                    \
                    : "+r"(sums[2 * half]), "+r"(sums[2 * half + 1])                                                                   \
                    : "r"(a[2 * k + half]), "r"(b[k]));                                                                                \
            }                                                                                                                          \
        }                                                                                                                              \
    }
#endif
MACHINE_MULTIPLY_ADD_BYTES(signed char, "s8", signed char, "s8")
MACHINE_MULTIPLY_ADD_BYTES(signed char, "s8", unsigned char, "u8")
MACHINE_MULTIPLY_ADD_BYTES(unsigned char, "u8", signed char, "s8")
MACHINE_MULTIPLY_ADD_BYTES(unsigned char, "u8", unsigned char, "u8")
#undef MACHINE_MULTIPLY_ADD_BYTES

// ---- communication between blocks of one launch, through global memory ----------------------------------------------------------

/// A release store: makes what this thread wrote, and what it has acquired, visible to threads that acquire the value.
__device__ __forceinline__ void store_release(unsigned* address, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(global_address(address)), "r"(value) : "memory");
}

__device__ __forceinline__ unsigned load_acquire(unsigned const* address) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(global_address(address)) : "memory");
    return value;
}

/// The current value, past this multiprocessor's own cache; relaxed. Aligned to all its words.
__device__ __forceinline__ void load_relaxed(unsigned const* address, unsigned (&words)[4]) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(global_address(address))
                 : "memory");
}

__device__ __forceinline__ unsigned load_relaxed(unsigned const* address) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(global_address(address)) : "memory");
    return value;
}

/// Writes a word that shows by its value that it has arrived; relaxed.
__device__ __forceinline__ void store_relaxed(unsigned* address, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(global_address(address)), "r"(value) : "memory");
}

/// Writes for other blocks. A later release makes it visible: the store itself is not ordered.
__device__ __forceinline__ void store_exchanged(unsigned* address, unsigned value) {
    store_relaxed(address, value);
}

/// Reads what other blocks wrote, after an acquire that makes it visible.
__device__ __forceinline__ void load_exchanged(unsigned const* address, unsigned (&words)[4]) {
    load_relaxed(address, words);
}

// ---- communication within a cluster, through shared memory; compute capability 9.0 on ----------------------------

/// Counts what comes into a block's shared memory, phase by phase: a phase ends when the block has announced its bytes and all of
/// them have arrived.
using Arrivals = unsigned long long;

/// Initializes it for the first phase, before the cluster's other blocks may write.
__device__ __forceinline__ void begin_arrivals(Arrivals* arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(shared_address(arrivals)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

/// Announces, once in a phase, its number of bytes.
__device__ __forceinline__ void expect_arrivals(Arrivals* arrivals, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(shared_address(arrivals)), "r"(bytes) : "memory");
}

/// Whether the phase of this parity (0 for the first one) has ended: then its data can be read. It may wait for some time.
__device__ __forceinline__ bool have_arrived(Arrivals const* arrivals, unsigned parity) {
    unsigned ended;
    asm volatile("{ .reg .pred ended; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2; selp.u32 %0, 1, 0, ended; }"
                 : "=r"(ended)
                 : "r"(shared_address(arrivals)), "r"(parity)
                 : "memory");
    return ended != 0;
}

/// Writes a word to the place in another block's shared memory, or in this one's, that `place` is in this one's; and counts it as arrived
/// there.
__device__ __forceinline__ void store_to_block(unsigned* place, unsigned value, Arrivals* arrivals, unsigned block) {
    unsigned address, counted;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(place)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(shared_address(arrivals)), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 :
                 : "r"(address), "r"(value), "r"(counted)
                 : "memory");
}

/// A barrier of all threads of a cluster.
__device__ __forceinline__ void synchronize_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

// ---- the host, clocks, and barriers to optimization ---------------------------------------------------------------------------------

/// Writes to host memory that this device can write, ordered after earlier writes of this thread there.
__device__ __forceinline__ void store_to_host(unsigned* address, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(global_address(address)), "r"(value) : "memory");
}

/// The device's clock in units of 1024 ns; it wraps around after 73 minutes.
__device__ __forceinline__ unsigned clock_units() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return static_cast<unsigned>(nanoseconds >> 10);
}

/// Consecutive polls without a pause: another block's data usually arrives during them.
inline constexpr unsigned prompt_looks = 8;

/// Lets other warps run for some tens of cycles, unless there were fewer polls than that before.
__device__ __forceinline__ void pause(unsigned looks) {
    if (looks >= prompt_looks) {
        asm volatile("nanosleep.u32 20;");
    }
}

/// Ends the launch with an error.
__device__ __forceinline__ void trap() {
    asm volatile("trap;");
}

/// The value, opaque to the compiler: what is computed from it in a loop is computed there,
/// and occupies no registers across iterations. Nor can the compiler recompute the value itself in a loop.
__device__ __forceinline__ int opaque(int value) {
    asm volatile("" : "+r"(value));
    return value;
}

__device__ __forceinline__ long long opaque(long long value) {
    asm volatile("" : "+l"(value));
    return value;
}

/// The value, moved to another register at this point, so that its source can be reloaded. An ordinary move the compiler would
/// delay until the new value has arrived.
__device__ __forceinline__ float moved(float value) {
    float result;
    asm volatile("add.rn.f32 %0, %1, 0f80000000;" : "=f"(result) : "f"(value));
    return result;
}

/// A bit for each lane of a whole warp whose condition holds.
__device__ __forceinline__ unsigned ballot(bool condition) {
    return __ballot_sync(~0u, condition);
}

/// The number of set bits.
__device__ __forceinline__ int count_bits(unsigned word) {
    return __popc(word);
}

__device__ __forceinline__ int count_bits(unsigned long long word) {
    return __popcll(word);
}

/// The bits of a value in a word, and back.
__device__ __forceinline__ unsigned to_bits(float value) {
    return __float_as_uint(value);
}

__device__ __forceinline__ unsigned to_bits(half value) {
    return value.bits;
}

__device__ __forceinline__ unsigned to_bits(bfloat16 value) {
    return value.bits;
}

__device__ __forceinline__ float float_of_bits(unsigned bits) {
    return __uint_as_float(bits);
}

}  // namespace machine
