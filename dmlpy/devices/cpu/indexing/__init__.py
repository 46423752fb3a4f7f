"""Operators that index elements, compiled."""
