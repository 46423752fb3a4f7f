"""What plans need of CUDA: the interface, its implementation with CuPy, and the libraries that it calls."""
