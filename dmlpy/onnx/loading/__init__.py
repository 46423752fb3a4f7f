"""ONNX models read and checked: nothing of a file is trusted before this package has looked at it."""
