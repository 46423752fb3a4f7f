"""The device `cuda-emulated`: dmlpy's CUDA kernels, compiled by g++ for the processor and run there, with guards around each buffer.

It needs neither a GPU nor CuPy, and is some hundred times slower than `cpu`: it is there to debug kernels, and to test code that integrates
the CUDA device.
"""
