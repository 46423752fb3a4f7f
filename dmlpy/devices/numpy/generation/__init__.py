"""The generation operators on the host."""
