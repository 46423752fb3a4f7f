"""The reduction operators on the host."""
