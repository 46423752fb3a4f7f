"""The part of CUDA that plans need: the interface, its implementation with CuPy, and the libraries that it calls."""
