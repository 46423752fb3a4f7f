"""The definitions of the normalization operators."""
