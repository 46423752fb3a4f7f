"""The indexing operators on the host."""
