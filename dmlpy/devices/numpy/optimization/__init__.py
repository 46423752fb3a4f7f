"""The optimization operators on the host."""
