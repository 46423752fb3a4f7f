"""Operators on integers of 8 bits: compiled matrix products, convolutions, and element-wise quantization."""
