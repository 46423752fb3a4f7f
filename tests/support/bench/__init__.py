"""Peers, shapes and GPUs for tests of the benchmark."""
