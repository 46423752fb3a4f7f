"""The matrix operators on the host."""
