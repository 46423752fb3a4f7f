"""The pooling operators on the host."""
