"""Exports graphs of DirectML's operators as ONNX models: a rule in `rules` writes the nodes of an operator.

Imports only `loading`, for element types and names.
"""
