"""Operators that move elements: compiled copies of elements of any width, and conversions between FLOAT16 and FLOAT32."""
