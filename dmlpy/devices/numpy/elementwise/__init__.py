"""The elementwise operators on the host."""
