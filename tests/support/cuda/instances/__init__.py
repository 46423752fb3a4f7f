"""The instances of kernels that plans can name."""
