"""A node and what of it contradicts ONNX."""
