"""Compiled ONNX models: calls, sizes that become known in a call, and control flow."""
