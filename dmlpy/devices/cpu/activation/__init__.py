"""Activations on the CPU device."""
