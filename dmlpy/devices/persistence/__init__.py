"""Data that outlives a process: pickles of operators and graphs, and compiled kernels on disk."""
