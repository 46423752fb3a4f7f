"""Operators of domains other than ONNX's: definitions in terms of ONNX's operators, and functions that compute them on the host.

Imports `loading` and `nodes`.
"""
