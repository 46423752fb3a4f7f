"""The nodes of an ONNX model as graphs of DirectML's operators, and those that stay on the host."""
