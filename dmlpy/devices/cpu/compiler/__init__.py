"""Compiles kernels: functions of a subset of Python on integers, floats, vectors and structs, by LLVM."""
