"""What the normalization operators compute."""
