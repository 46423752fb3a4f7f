"""Reads ONNX models and checks them as a whole: files, tensors, limits, and the values that a model declares.

Imports no other package of `dmlpy.onnx`.
"""
