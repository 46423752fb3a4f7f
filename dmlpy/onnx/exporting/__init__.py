"""Graphs of DirectML's operators as ONNX models."""
