"""Graphs of DirectML's operators as ONNX models: a rule in `rules` makes nodes of an operator.

Imports `loading` alone, for element types and names.
"""
