"""ONNX Runtime's own operators (com.microsoft) that no DirectML operator expresses: by nodes of ONNX, or on the host."""
