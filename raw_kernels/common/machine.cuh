// The machine under the kernels: every PTX instruction and every intrinsic that a kernel may use, behind plain names.
//
// The kernels include no header of CUDA's, so NVRTC needs no include path; and this file is the only one that the tests
// replace when they execute the kernels on a CPU. What CUDA C++ itself gives without a header (threadIdx, blockIdx, __shared__,
// __syncthreads, the float functions of the C library such as expm1f) is used directly.
#pragma once

namespace machine {

/// IEEE binary16 as storage only: arithmetic is done in float.
struct half {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(float value) {
    return value;
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

/// 2^x to 2 ulp; 0 and infinity at the ends, NaN passes.
__device__ __forceinline__ float exp2_approx(float exponent) {
    float result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

/// 1/x to 1 ulp; 1/infinity is 0, NaN passes.
__device__ __forceinline__ float reciprocal_approx(float value) {
    float result;
    asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

/// The block's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    extern __shared__ unsigned char dynamic_shared_memory[] __attribute__((aligned(16)));
    return reinterpret_cast<T*>(dynamic_shared_memory);
}

}  // namespace machine
