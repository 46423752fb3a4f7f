"""Compiled functions of groups of elements: softmax, and normalization by a group's mean and variance."""
