"""What NVRTC makes of the kernels, and what a GPU does with it: PTX, machine code, cycles, accesses."""
