"""Compiled batch normalization: sums of groups, and results from an element and its group's coefficients."""
