"""The compiled plan of the optimizer."""
