"""The convolution operators on the host."""
