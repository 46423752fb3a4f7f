"""The movement operators on the host."""
