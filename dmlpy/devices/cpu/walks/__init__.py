"""Compiled walks over time, and the plans that run them."""
