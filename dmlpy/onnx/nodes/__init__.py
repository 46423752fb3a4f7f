"""A node of a model: its inputs and attributes, checks against ONNX's rules, its cost, and the guard in front of ONNX's C++ code.

Imports `loading` alone.
"""
