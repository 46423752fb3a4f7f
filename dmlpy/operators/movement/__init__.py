"""The movement operators."""
