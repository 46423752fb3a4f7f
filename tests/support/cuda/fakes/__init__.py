"""CuPy and CUDA's runtime library played by the CPU."""
