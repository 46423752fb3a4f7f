"""Operators of other domains than ONNX's own: definitions by ONNX's operators, and functions that compute them on the host.

Imports `loading` and `nodes`.
"""
