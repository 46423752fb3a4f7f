"""Operators of other domains than ONNX's first that no DirectML operator expresses: by nodes of ONNX, or on the host."""
