"""What the quantized operators compute."""
