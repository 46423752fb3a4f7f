"""What the pooling operators compute, on whole arrays."""
