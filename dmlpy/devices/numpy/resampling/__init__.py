"""The resampling operators on the host."""
