"""Compiled batch normalization: sums of groups, and what is computed from an element and its group's coefficients."""
