"""Reports of ONNX models: where each node runs, at which feature level, and why not on DirectML."""
