"""A node of a model: what it reads and states, what of it contradicts ONNX, what it costs, and what ONNX's C++ code may see of it.

Imports `loading` alone.
"""
