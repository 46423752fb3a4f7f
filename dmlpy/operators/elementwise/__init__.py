"""The elementwise operators."""
