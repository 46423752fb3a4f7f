"""ONNX models for tests, ONNX's own cases, and other programs' results."""
