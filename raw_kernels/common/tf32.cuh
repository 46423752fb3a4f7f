// Factors of matrix products on tensor cores.
#pragma once

/// A gradient as a factor of a step's product, whose other factor has the caller's element type. Halves have 10 bits of mantissa, and so
/// has TF32: the gradient is rounded to it here, because tensor cores may truncate the rest, a bias in all products.
template <class T>
__device__ float to_tf32_factor(float gradient) {
    if constexpr (is_same<T, float>) {
        return gradient;
    } else {
        unsigned const rounded = machine::to_bits(gradient) + 0x1000u & 0xFFFFE000u;  // ties away from zero
        return fabsf(gradient) < machine::float_of_bits(0x7F800000u) ? machine::float_of_bits(rounded) : gradient;
    }
}
